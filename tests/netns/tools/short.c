/* SPDX-License-Identifier: Apache-2.0 */
/*
 * short ADDRESS PORT CONNECTIONS RATE: opens and closes that many connections, at most RATE
 * of them in a second. In turn: the client closes after a reply; the gateway does; the client
 * closes without a word. Prints "N connections, N failed, N per second"; status 0 when none failed.
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

enum { AT_ONCE = 256, PATIENCE_S = 30, REPLY_MAX = 1024 };
enum kind { CLIENT_CLOSES, GATEWAY_CLOSES, SILENT, KINDS };

struct conn {
	int fd;
	int open;
	enum kind kind;
	unsigned len;
	double since;
	char reply[REPLY_MAX];
};

static const char *const request[KINDS] = {
	[CLIENT_CLOSES] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
	[GATEWAY_CLOSES] = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
};
static struct conn conns[AT_ONCE];
static struct conn *free_conns[AT_ONCE];
static unsigned free_cnt, started, done, failed;
static struct sockaddr_in v4 = {.sin_family = AF_INET};
static struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
static const struct sockaddr *remote;
static socklen_t remote_len;
static int ep;

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void end(struct conn *c, const char *why)
{
	if (why && failed++ < 5)
		printf("connection %u, kind %d, after %u bytes: %s\n", done, (int)c->kind, c->len,
		       why);
	done++;
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	free_conns[free_cnt++] = c;
}

static void start(struct conn *c)
{
	struct epoll_event ev = {.events = EPOLLOUT, .data.ptr = c};

	*c = (struct conn){.kind = started++ % KINDS, .since = now()};
	c->fd = socket(remote->sa_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (c->fd < 0 || epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &ev) < 0 ||
	    (connect(c->fd, remote, remote_len) != 0 && errno != EINPROGRESS))
		end(c, strerror(errno));
}

static void on_open(struct conn *c)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = c};
	socklen_t len = sizeof(int);
	int err = 0;

	getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &len);
	if (err || c->kind == SILENT) {
		end(c, err ? strerror(err) : NULL);
		return;
	}
	c->open = 1;
	epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &ev);
	if (send(c->fd, request[c->kind], strlen(request[c->kind]), MSG_NOSIGNAL) < 0)
		end(c, strerror(errno));
}

/* The reply's body is "hello\n", and ends it. */
static void on_bytes(struct conn *c)
{
	ssize_t n = read(c->fd, c->reply + c->len, REPLY_MAX - 1 - c->len);
	int whole;

	if (n < 0) {
		if (errno != EAGAIN)
			end(c, strerror(errno));
		return;
	}
	c->len += (unsigned)n;
	c->reply[c->len] = 0;
	whole = strncmp(c->reply, "HTTP/1.1 200 ", 13) == 0 && strstr(c->reply, "\r\n\r\nhello\n");
	if (n == 0)
		end(c, whole && c->kind == GATEWAY_CLOSES ? NULL : "closed early");
	else if (whole && c->kind == CLIENT_CLOSES)
		end(c, NULL);
}

static void give_up_stuck(double t)
{
	for (unsigned i = 0; i < AT_ONCE; i++)
		if (conns[i].fd >= 0 && t - conns[i].since > PATIENCE_S)
			end(&conns[i], "no answer");
}

static void turn(void)
{
	struct epoll_event evs[AT_ONCE];
	int n = epoll_wait(ep, evs, AT_ONCE, 1);

	for (int i = 0; i < n; i++) {
		struct conn *c = evs[i].data.ptr;

		if (!c->open)
			on_open(c);
		else
			on_bytes(c);
	}
}

static void run(unsigned cnt, double rate)
{
	double from = now(), checked = from;

	while (done < cnt) {
		double t = now();
		unsigned due = (unsigned)((t - from) * rate) + 1;

		while (free_cnt && started < cnt && started < due)
			start(free_conns[--free_cnt]);
		turn();
		if (t - checked > 1) {
			give_up_stuck(t);
			checked = t;
		}
	}
	printf("%u connections, %u failed, %.0f per second\n", done, failed, done / (now() - from));
}

int main(int argc, char **argv)
{
	if (argc != 5)
		return 2;
	v4.sin_port = v6.sin6_port = htons((unsigned short)atoi(argv[2]));
	remote = (struct sockaddr *)&v4;
	remote_len = sizeof(v4);
	if (inet_pton(AF_INET, argv[1], &v4.sin_addr) != 1) {
		remote = (struct sockaddr *)&v6;
		remote_len = sizeof(v6);
		if (inet_pton(AF_INET6, argv[1], &v6.sin6_addr) != 1)
			return 2;
	}
	ep = epoll_create1(0);
	for (unsigned i = 0; i < AT_ONCE; i++) {
		conns[i].fd = -1;
		free_conns[free_cnt++] = &conns[i];
	}
	run((unsigned)atoi(argv[3]), atof(argv[4]));
	return failed != 0;
}
