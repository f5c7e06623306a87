/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A minimal relay between client and server: waits, reads, and writes what it has read. Its added
 * latency is that of waking a process on another core of this machine, the lower bound of each
 * proxy's figure.
 *
 *   relay ADDRESS PORT TO PORT
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FDS = 1024, PIECE = 16 << 10 };

static int other[FDS]; /* the other end of a pair; 0: the listener */
static int ep;

static void die(const char *what)
{
	fprintf(stderr, "relay: %s: %s\n", what, strerror(errno));
	exit(1);
}

static struct sockaddr_in address(const char *ip, const char *port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};

	if (inet_pton(AF_INET, ip, &a.sin_addr) != 1)
		die(ip);
	return a;
}

static void watch(int fd, int to)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};
	int one = 1;

	if (fd < 0 || fd >= FDS)
		die("a socket");
	other[fd] = to;
	if (to)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev))
		die("epoll");
}

static void begin(int listener, const struct sockaddr_in *to)
{
	int client = accept(listener, NULL, NULL), server = socket(AF_INET, SOCK_STREAM, 0);

	if (client < 0 || server < 0 || connect(server, (const struct sockaddr *)to, sizeof(*to)))
		die("a connection");
	watch(client, server);
	watch(server, client);
}

static void carry(int fd)
{
	char piece[PIECE];
	ssize_t n = read(fd, piece, sizeof(piece));

	if (n > 0 && send(other[fd], piece, (size_t)n, MSG_NOSIGNAL) == n)
		return;
	close(other[fd]);
	close(fd);
}

int main(int argc, char **argv)
{
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	struct sockaddr_in at, to;
	struct epoll_event ev;

	if (argc != 5) {
		fprintf(stderr, "usage: relay ADDRESS PORT TO PORT\n");
		return 2;
	}
	at = address(argv[1], argv[2]);
	to = address(argv[3], argv[4]);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(listener, (const struct sockaddr *)&at, sizeof(at)) || listen(listener, 16))
		die("listen");
	ep = epoll_create1(0);
	watch(listener, 0);
	/* One event at a time: no second one can be of a pair that the first has closed. */
	while (epoll_wait(ep, &ev, 1, -1) > 0) {
		if (other[ev.data.fd])
			carry(ev.data.fd);
		else
			begin(listener, &to);
	}
	return 0;
}
