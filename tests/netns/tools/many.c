/* SPDX-License-Identifier: Apache-2.0 */
/*
 * many ADDRESS PORT CONNECTIONS ROUNDS: opens that many connections and holds all of them; in each
 * round a request goes out on every one, and every one must be answered 200 before the next round.
 * Prints "N connections, N answers"; status 0 when all were answered.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_S = 60, AT_ONCE = 512, REPLY_MAX = 512 };

struct conn {
	int fd;
	int open;
	unsigned answers;
	unsigned len;
	char reply[REPLY_MAX];
};

static struct conn *conns;
static unsigned cnt, opened, failed;
static int ep;
static const char request[] = "GET /echo/many HTTP/1.1\r\nHost: x\r\n\r\n";

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void lose(struct conn *c, const char *why)
{
	if (failed++ < 5)
		printf("connection %ld: %s after %u answers\n", (long)(c - conns), why, c->answers);
	close(c->fd);
	c->fd = -1;
}

static void start(struct conn *c, const struct sockaddr *sa, socklen_t len)
{
	struct epoll_event ev = {.events = EPOLLIN | EPOLLOUT, .data.ptr = c};

	c->fd = socket(sa->sa_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (c->fd < 0) {
		lose(c, strerror(errno));
		return;
	}
	epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &ev);
	if (connect(c->fd, sa, len) != 0 && errno != EINPROGRESS)
		lose(c, strerror(errno));
}

static void on_open(struct conn *c)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = c};
	socklen_t len = sizeof(int);
	int err = 0;

	getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &len);
	if (err) {
		lose(c, strerror(err));
		return;
	}
	epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &ev);
	c->open = 1;
	opened++;
}

/* A reply is its head and the body that Content-Length tells. */
static void on_bytes(struct conn *c)
{
	ssize_t n = read(c->fd, c->reply + c->len, REPLY_MAX - 1 - c->len);
	const char *end, *length;

	if (n <= 0) {
		lose(c, n ? strerror(errno) : "closed");
		return;
	}
	c->len += (unsigned)n;
	c->reply[c->len] = 0;
	end = strstr(c->reply, "\r\n\r\n");
	if (!end)
		return;
	length = strcasestr(c->reply, "\r\ncontent-length:");
	if (strncmp(c->reply, "HTTP/1.1 200 ", 13) != 0 || !length) {
		c->reply[12] = 0;
		lose(c, c->reply);
		return;
	}
	if (c->len < (unsigned)(end + 4 - c->reply) + (unsigned)atoi(length + 17))
		return;
	c->len = 0;
	c->answers++;
}

static void turn(void)
{
	struct epoll_event evs[256];
	int n = epoll_wait(ep, evs, 256, 100);

	for (int i = 0; i < n; i++) {
		struct conn *c = evs[i].data.ptr;

		if (c->fd < 0)
			continue;
		if (!c->open)
			on_open(c);
		else
			on_bytes(c);
	}
}

static void open_all(const struct sockaddr *sa, socklen_t len)
{
	double until = now() + PATIENCE_S;
	unsigned started = 0;

	while (opened + failed < cnt && now() < until) {
		while (started < cnt && started - opened - failed < AT_ONCE)
			start(&conns[started++], sa, len);
		turn();
	}
}

static unsigned answered(unsigned round)
{
	unsigned n = 0;

	for (unsigned i = 0; i < cnt; i++)
		n += conns[i].fd >= 0 && conns[i].answers == round;
	return n;
}

static void ask_all(unsigned round)
{
	double until = now() + PATIENCE_S;

	for (unsigned i = 0; i < cnt; i++) {
		if (conns[i].fd >= 0 &&
		    write(conns[i].fd, request, sizeof(request) - 1) != sizeof(request) - 1)
			lose(&conns[i], "cannot send");
		if (i % 64 == 63)
			turn();
	}
	while (answered(round) + failed < cnt && now() < until)
		turn();
}

int main(int argc, char **argv)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
	struct rlimit files;
	unsigned rounds, answers = 0, open_now = 0;

	if (argc != 5)
		return 2;
	cnt = (unsigned)atoi(argv[3]);
	rounds = (unsigned)atoi(argv[4]);
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	conns = calloc(cnt, sizeof(*conns));
	ep = epoll_create1(0);
	v4.sin_port = v6.sin6_port = htons((unsigned short)atoi(argv[2]));
	if (inet_pton(AF_INET, argv[1], &v4.sin_addr) == 1)
		open_all((struct sockaddr *)&v4, sizeof(v4));
	else if (inet_pton(AF_INET6, argv[1], &v6.sin6_addr) == 1)
		open_all((struct sockaddr *)&v6, sizeof(v6));
	for (unsigned r = 1; r <= rounds; r++)
		ask_all(r);
	for (unsigned i = 0; i < cnt; i++) {
		answers += conns[i].answers;
		open_now += conns[i].fd >= 0;
	}
	printf("%u connections, %u answers\n", open_now, answers);
	fflush(stdout);
	/* Holds them until told to end, so that the gateway can be looked at. */
	if (getenv("HOLD"))
		pause();
	return open_now == cnt && answers == cnt * rounds ? 0 : 1;
}
