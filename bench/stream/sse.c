/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both ends of what bench-stream measures over HTTP/1.1, of kernel sockets and one thread each, so that only what stands
 * between them differs.
 *
 *   sse serve ADDRESS PORT                        GET /N: an event each N us, with the time at which it was written
 *                                                 POST: takes the body, then answers
 *   sse events ADDRESS PORT STREAMS US SECONDS    "events N median_ns M p99_ns P all A", the first three
 *                                               without the first second
 *   sse upload ADDRESS PORT MIB                   "bytes N seconds S", chunked as a client that does not know the end
 */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CONNS = 20000, HEAD = 512, PIECE = 64 << 10, EVENT = 64, SAMPLES = 4 << 20, AT_ONCE = 256 };

static const char stamp[] = "data: ";

struct conn {
	int fd;
	uint32_t len; /* head, or bytes read of an event */
	uint64_t every_ns, next_ns, body;
	bool asked;
	char buf[HEAD];
};

static struct conn conns[CONNS];
static unsigned conn_cnt;
static int ep;

static void die(const char *what)
{
	fprintf(stderr, "sse: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static struct sockaddr_in address(const char *ip, const char *port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};

	if (inet_pton(AF_INET, ip, &a.sin_addr) != 1)
		die(ip);
	return a;
}

static struct conn *watch(int fd)
{
	struct conn *c = NULL;
	struct epoll_event ev = {.events = EPOLLIN};
	int one = 1;

	for (unsigned i = 0; i < conn_cnt && !c; i++)
		c = conns[i].fd < 0 ? &conns[i] : NULL;
	if (fd < 0)
		die("no connection");
	if (!c && conn_cnt == CONNS)
		die("too many connections");
	if (!c)
		c = &conns[conn_cnt++];
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	*c = (struct conn){.fd = fd};
	ev.data.ptr = c;
	if (epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev))
		die("epoll_ctl");
	return c;
}

static void drop(struct conn *c)
{
	close(c->fd);
	c->fd = -1;
	c->every_ns = 0;
}

/* --- the server --- */

static void answer(struct conn *c)
{
	static const char done[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

	if (write(c->fd, done, sizeof(done) - 1) < 0)
		drop(c);
	c->asked = false;
	c->len = 0;
}

/* A head is whole: what is asked? */
static void begin(struct conn *c, const char *end)
{
	static const char head[] =
		"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
	uint32_t body = c->len - (uint32_t)(end - c->buf);
	unsigned long us = 0;

	c->asked = true;
	if (!strncmp(c->buf, "GET /", 5)) {
		us = strtoul(c->buf + 5, NULL, 10);
		c->every_ns = us ? us * 1000 : 1000000;
		/* Spread, so that streams do not all speak at once. */
		c->next_ns = now_ns() + (uint64_t)(c - conns) * 7919 % 1000 * c->every_ns / 1000;
		if (write(c->fd, head, sizeof(head) - 1) < 0)
			drop(c);
		return;
	}
	memmove(c->buf, end, body);
	c->len = body;
}

/* Chunks or bytes alike: only where they end matters, and the data has no such line. */
static bool body_ends(struct conn *c, const char *p, size_t n)
{
	static const char last[] = "0\r\n\r\n";
	size_t keep = sizeof(last) - 1;

	if (n >= keep)
		return !memcmp(p + n - keep, last, keep);
	memmove(c->buf + c->len, p, n);
	c->len += (uint32_t)n;
	return c->len >= keep && !memcmp(c->buf + c->len - keep, last, keep);
}

static void served(struct conn *c)
{
	static char piece[PIECE];
	const char *end;
	ssize_t n;

	if (c->asked && !c->every_ns) {
		n = read(c->fd, piece, sizeof(piece));
		if (n <= 0) {
			drop(c);
			return;
		}
		if (n > 16)
			c->len = 0;
		if (body_ends(c, piece, (size_t)n))
			answer(c);
		return;
	}
	if (c->len == HEAD - 1)
		c->len = 0;
	n = read(c->fd, c->buf + c->len, HEAD - 1 - c->len);
	if (n <= 0) {
		drop(c);
		return;
	}
	c->len += (uint32_t)n;
	c->buf[c->len] = 0;
	end = strstr(c->buf, "\r\n\r\n");
	if (!c->asked && end)
		begin(c, end + 4);
}

static void say(struct conn *c, uint64_t now)
{
	char event[EVENT * 2];
	int n = snprintf(event, sizeof(event), "%x\r\n%s%020llu%*s\n\n\r\n", EVENT, stamp,
			 (unsigned long long)now, EVENT - 28, "");

	if (write(c->fd, event, (size_t)n) < 0 && errno != EAGAIN)
		drop(c);
	c->next_ns += c->every_ns;
}

static uint64_t say_what_is_due(void)
{
	uint64_t now = now_ns(), next = UINT64_MAX;

	for (unsigned i = 0; i < conn_cnt; i++) {
		struct conn *c = &conns[i];

		if (!c->every_ns)
			continue;
		if (c->next_ns <= now)
			say(c, now_ns());
		if (c->every_ns && c->next_ns < next)
			next = c->next_ns;
	}
	return next;
}

static void serve(const char *ip, const char *port)
{
	struct sockaddr_in a = address(ip, port);
	struct epoll_event evs[AT_ONCE], ev = {.events = EPOLLIN};
	int s = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(s, (struct sockaddr *)&a, sizeof(a)) || listen(s, 4096) ||
	    epoll_ctl(ep, EPOLL_CTL_ADD, s, &ev))
		die("listen");
	for (;;) {
		uint64_t next = say_what_is_due(), now = now_ns();
		uint64_t wait = next > now ? next - now : 0;
		struct timespec ts = {(time_t)(wait / 1000000000), (long)(wait % 1000000000)};
		int n = epoll_pwait2(ep, evs, AT_ONCE, next == UINT64_MAX ? NULL : &ts, NULL);

		for (int i = 0; i < n; i++) {
			if (evs[i].data.ptr)
				served(evs[i].data.ptr);
			else
				watch(accept4(s, NULL, NULL, SOCK_NONBLOCK));
		}
	}
}

/* --- clients --- */

static uint32_t *samples;
static size_t sample_cnt;
static uint64_t events, all; /* after the first second; in all */

static int by_size(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* Events that are whole leave; the beginning of one stays. */
static void heard(struct conn *c, uint64_t now, bool counts)
{
	char *at = c->buf, *end = c->buf + c->len, *found;

	while ((found = memmem(at, (size_t)(end - at), stamp, sizeof(stamp) - 1)) &&
	       end - found >= (long)sizeof(stamp) - 1 + 20) {
		uint64_t then = strtoull(found + sizeof(stamp) - 1, NULL, 10);

		at = found + sizeof(stamp) - 1 + 20;
		all++;
		if (!counts)
			continue;
		events++;
		if (sample_cnt < SAMPLES)
			samples[sample_cnt++] = (uint32_t)(now - then);
	}
	if (!found && end - at > 8)
		at = end - 8; /* possibly the beginning of the next stamp */
	else if (found)
		at = found;
	c->len = (uint32_t)(end - at);
	memmove(c->buf, at, c->len);
}

static int dial(const struct sockaddr_in *a)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0 || connect(fd, (const struct sockaddr *)a, sizeof(*a)))
		die("connect");
	return fd;
}

/* The last bytes tell the cause, if they are a response and no event. */
static void ended(const struct conn *c, const char *how)
{
	fprintf(stderr,
		"sse: stream %ld of %u ended: %s; %llu events of all came; its last bytes: \"%.*s\"\n",
		(long)(c - conns), conn_cnt, how, (unsigned long long)all, (int)c->len, c->buf);
	exit(1);
}

static void hear_all(uint64_t from, uint64_t until)
{
	struct epoll_event evs[AT_ONCE];

	while (now_ns() < until) {
		int n = epoll_wait(ep, evs, AT_ONCE, 100);

		for (int i = 0; i < n; i++) {
			struct conn *c = evs[i].data.ptr;
			uint64_t now;
			ssize_t got = read(c->fd, c->buf + c->len, HEAD - c->len);

			if (got <= 0)
				ended(c, got ? strerror(errno) : "closed");
			c->len += (uint32_t)got;
			now = now_ns();
			heard(c, now, now >= from);
		}
	}
}

static void hear(char **argv)
{
	struct sockaddr_in a = address(argv[2], argv[3]);
	unsigned cnt = (unsigned)atoi(argv[4]);
	uint64_t start;

	samples = malloc(SAMPLES * sizeof(*samples));
	for (unsigned i = 0; i < cnt; i++) {
		struct conn *c = watch(dial(&a));

		if (dprintf(c->fd, "GET /%s HTTP/1.1\r\nHost: x\r\n\r\n", argv[5]) < 0)
			die("write");
		if (i % 100 == 99)
			hear_all(UINT64_MAX, now_ns() + 1);
	}
	start = now_ns() + 1000000000;
	hear_all(start, start + (uint64_t)atoi(argv[6]) * 1000000000);
	if (!sample_cnt)
		die("no event");
	qsort(samples, sample_cnt, sizeof(*samples), by_size);
	printf("events %llu median_ns %u p99_ns %u all %llu\n", (unsigned long long)events,
	       samples[sample_cnt / 2], samples[sample_cnt * 99 / 100], (unsigned long long)all);
}

static void put(int fd, const void *bytes, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = write(fd, (const char *)bytes + at, len - at);

		if (n <= 0)
			die("write");
		at += (size_t)n;
	}
}

static void upload(char **argv)
{
	static const char head[] =
		"POST /upload HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
	static char chunk[7 + PIECE + 2];
	struct sockaddr_in a = address(argv[2], argv[3]);
	uint64_t bytes = strtoull(argv[4], NULL, 10) << 20, start = now_ns();
	char reply[64] = "";
	int fd = dial(&a);

	memset(chunk, 'x', sizeof(chunk));
	memcpy(chunk, "10000\r\n", 7);
	memcpy(chunk + 7 + PIECE, "\r\n", 2);
	put(fd, head, sizeof(head) - 1);
	for (uint64_t left = bytes; left; left -= PIECE)
		put(fd, chunk, sizeof(chunk));
	put(fd, "0\r\n\r\n", 5);
	if (read(fd, reply, sizeof(reply) - 1) <= 0 || strncmp(reply, "HTTP/1.1 200", 12) != 0) {
		fprintf(stderr, "sse: upload: %.60s\n", reply);
		exit(1);
	}
	printf("bytes %llu seconds %.3f\n", (unsigned long long)bytes,
	       (double)(now_ns() - start) / 1e9);
}

int main(int argc, char **argv)
{
	struct rlimit files = {CONNS, CONNS};

	signal(SIGPIPE, SIG_IGN);
	setrlimit(RLIMIT_NOFILE, &files);
	ep = epoll_create1(0);
	if (argc == 4 && !strcmp(argv[1], "serve"))
		serve(argv[2], argv[3]);
	else if (argc == 7 && !strcmp(argv[1], "events"))
		hear(argv);
	else if (argc == 5 && !strcmp(argv[1], "upload"))
		upload(argv);
	else
		return 2;
	return 0;
}
