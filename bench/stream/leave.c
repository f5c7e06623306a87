/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time until a computing backend or server hears that its client has left. All of it runs on one
 * host with one clock. The process that hears of stream N writes the time into place N of a mapped
 * file.
 *
 *   leave backend ENDPOINT FILE                    a backend: by the SDK's upcall `cancel`
 *   leave server ADDRESS PORT FILE                 a server of HTTP/1.1: by the end of its connection
 *   leave ask ADDRESS PORT PATH COUNT FILE         COUNT clients, one after the other: GET PATH/N, a
 *                                                  first part of the reply, a reset. Prints "heard N
 *                                                  median_us M max_us P"
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <sluice/backend.h>

enum { PLACES = 4096, FDS = 1024, WAIT_S = 10 };

static _Atomic uint64_t *heard_ns;

static void die(const char *what)
{
	fprintf(stderr, "leave: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void map(const char *file)
{
	int fd = open(file, O_RDWR | O_CREAT, 0666);

	if (fd < 0 || ftruncate(fd, PLACES * sizeof(*heard_ns)))
		die(file);
	heard_ns =
		mmap(NULL, PLACES * sizeof(*heard_ns), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (heard_ns == MAP_FAILED)
		die(file);
}

/* Returns the number behind the last slash. */
static unsigned number_of(const char *path, size_t len)
{
	char text[16] = "";
	size_t at = len;

	while (at && path[at - 1] != '/')
		at--;
	memcpy(text, path + at, len - at < sizeof(text) ? len - at : sizeof(text) - 1);
	return (unsigned)atoi(text) % PLACES;
}

static struct sockaddr_in address(const char *ip, const char *port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};

	if (inet_pton(AF_INET, ip, &a.sin_addr) != 1)
		die(ip);
	return a;
}

/* --- a backend --- */

static void on_open(void *arg, struct sl_request_view *rq)
{
	(void)arg;
	sl_reply(rq, &(struct sl_reply_args){.body = "begun", .body_len = 5, .more = true});
}

static void on_data(void *arg, struct sl_request_view *rq, const void *bytes, size_t len,
		    size_t left)
{
	(void)arg, (void)rq, (void)bytes, (void)len, (void)left;
}

static void on_end(void *arg, struct sl_request_view *rq)
{
	(void)arg, (void)rq;
}

static void on_cancel(void *arg, struct sl_request_view *rq)
{
	(void)arg;
	heard_ns[number_of(rq->path, rq->path_len)] = now_ns();
	sl_reply_error(rq, SL_RPC_CANCELLED);
}

static void handle(void *arg, struct sl_batch *batch)
{
	(void)arg;
	for (unsigned i = 0; i < batch->count; i++)
		sl_reply_error(batch->requests[i], SL_RPC_NO_METHOD);
}

static int serve_backend(const char *endpoint)
{
	static const struct sl_stream_ops streams = {
		.on_open = on_open, .on_data = on_data, .on_end = on_end, .on_cancel = on_cancel};
	struct sl_backend_options opt = {
		.listen = endpoint, .on_batch = handle, .on_stream = &streams};
	char err[256];
	struct sl_backend *b = sl_backend_open(&opt, err, sizeof(err));

	if (!b) {
		fprintf(stderr, "leave: %s\n", err);
		return 1;
	}
	return sl_backend_run(b) < 0;
}

/* --- a server --- */

/* A request begins the reply, which has no end; what ends the connection is noted. */
static void hear(int fd, unsigned *number)
{
	static const char reply[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
				    "5\r\nbegun\r\n";
	char buf[4096];
	ssize_t n = recv(fd, buf, sizeof(buf) - 1, 0);
	char *end;

	if (n <= 0) {
		heard_ns[*number] = now_ns();
		close(fd);
		return;
	}
	buf[n] = 0;
	end = strstr(buf, " HTTP/1.1\r\n");
	if (!end)
		return;
	*number = number_of(buf, (size_t)(end - buf));
	if (send(fd, reply, sizeof(reply) - 1, MSG_NOSIGNAL) < 0)
		close(fd);
}

static void serve(const char *ip, const char *port)
{
	static unsigned numbers[FDS];
	struct sockaddr_in a = address(ip, port);
	int l = socket(AF_INET, SOCK_STREAM, 0), ep = epoll_create1(0), on = 1;
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = l};

	setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(l, (struct sockaddr *)&a, sizeof(a)) || listen(l, 128) ||
	    epoll_ctl(ep, EPOLL_CTL_ADD, l, &ev))
		die("listen");
	while (epoll_wait(ep, &ev, 1, -1) >= 0 || errno == EINTR) {
		if (ev.data.fd != l) {
			hear(ev.data.fd, &numbers[ev.data.fd]);
			continue;
		}
		ev.data.fd = accept(l, NULL, NULL);
		if (ev.data.fd >= FDS ||
		    (ev.data.fd >= 0 && epoll_ctl(ep, EPOLL_CTL_ADD, ev.data.fd, &ev)))
			die("accept");
	}
	die("epoll_wait");
}

/* --- clients --- */

/* Comes when the reply has begun, and leaves; when that was. */
static uint64_t come_and_leave(const struct sockaddr_in *a, const char *path, unsigned number)
{
	static const struct linger at_once = {.l_onoff = 1};
	static const struct timeval most = {.tv_sec = WAIT_S};
	int fd = socket(AF_INET, SOCK_STREAM, 0), n;
	char buf[4096];
	size_t have = 0;
	uint64_t at;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	n = snprintf(buf, sizeof(buf), "GET %s/%u HTTP/1.1\r\nHost: x\r\n\r\n", path, number);
	if (connect(fd, (const struct sockaddr *)a, sizeof(*a)) || send(fd, buf, (size_t)n, 0) != n)
		die("ask");
	do {
		ssize_t got = recv(fd, buf + have, sizeof(buf) - 1 - have, 0);

		if (got <= 0)
			die("no reply");
		have += (size_t)got;
		buf[have] = 0;
	} while (!strstr(buf, "begun"));
	usleep(2000); /* the sender of the reply is idle again */
	at = now_ns();
	close(fd);
	return at;
}

static int by_size(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void ask(const struct sockaddr_in *a, const char *path, unsigned count)
{
	static uint64_t took[PLACES];

	for (unsigned i = 0; i < count; i++) {
		uint64_t left, until;

		heard_ns[i] = 0;
		left = come_and_leave(a, path, i);
		until = left + WAIT_S * UINT64_C(1000000000);
		while (!heard_ns[i] && now_ns() < until)
			usleep(100);
		errno = ETIMEDOUT;
		if (!heard_ns[i])
			die("nobody has heard of it");
		took[i] = heard_ns[i] - left;
	}
	qsort(took, count, sizeof(took[0]), by_size);
	printf("heard %u median_us %llu max_us %llu\n", count,
	       (unsigned long long)took[count / 2] / 1000,
	       (unsigned long long)took[count - 1] / 1000);
}

int main(int argc, char **argv)
{
	struct sockaddr_in a;

	if (argc == 4 && !strcmp(argv[1], "backend")) {
		map(argv[3]);
		return serve_backend(argv[2]);
	}
	if (argc == 5 && !strcmp(argv[1], "server")) {
		map(argv[4]);
		serve(argv[2], argv[3]);
	}
	if (argc != 7 || strcmp(argv[1], "ask") != 0 || atoi(argv[5]) < 1 || atoi(argv[5]) > PLACES)
		return 2;
	map(argv[6]);
	a = address(argv[2], argv[3]);
	ask(&a, argv[4], (unsigned)atoi(argv[5]));
	return 0;
}
