/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many backends in one process and one thread: COUNT endpoints shm://FOLDER/0.sock, 1.sock and so
 * on. Each answers a request with the body of the request.
 *
 *   crowd FOLDER COUNT
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include "sluice/backend.h"

enum { EVENTS = 64, TURN_MS = 500, DESCRIPTORS = 20000 };

static void handle(void *arg, struct sl_batch *batch)
{
	(void)arg;
	for (unsigned i = 0; i < batch->count; i++) {
		struct sl_request_view *rq = batch->requests[i];

		sl_reply(rq, &(struct sl_reply_args){.body = rq->body, .body_len = rq->body_len});
	}
}

/* All that there is to do, and then it is armed. */
static void serve(struct sl_backend *b)
{
	sl_backend_disarm(b);
	do {
		while (sl_backend_poll(b, 0) > 0)
			;
	} while (sl_backend_arm(b) == 0 && (sl_backend_disarm(b), true));
}

static struct sl_backend *open_one(const char *folder, unsigned i, int epoll)
{
	struct sl_backend_options opt = {.on_batch = handle, .inline_handler = true};
	struct epoll_event event = {.events = EPOLLIN};
	char listen[200], err[256] = "";
	struct sl_backend *b;

	snprintf(listen, sizeof(listen), "shm://%s/%u.sock", folder, i);
	opt.listen = listen;
	b = sl_backend_open(&opt, err, sizeof(err));
	event.data.ptr = b;
	if (!b || epoll_ctl(epoll, EPOLL_CTL_ADD, sl_backend_fd(b), &event)) {
		fprintf(stderr, "crowd: %u: %s\n", i, b ? "epoll" : err);
		exit(1);
	}
	sl_backend_arm(b);
	return b;
}

int main(int argc, char **argv)
{
	const struct rlimit files = {DESCRIPTORS, DESCRIPTORS};
	unsigned cnt = argc == 3 ? (unsigned)atoi(argv[2]) : 0;
	struct sl_backend **all = calloc(cnt + 1, sizeof(struct sl_backend *));
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	if (!cnt || !all || epoll < 0 || setrlimit(RLIMIT_NOFILE, &files)) {
		fprintf(stderr, "crowd: FOLDER COUNT\n");
		return 1;
	}
	for (unsigned i = 0; i < cnt; i++)
		all[i] = open_one(argv[1], i, epoll);
	puts("all listen");
	fflush(stdout);
	while (cnt) {
		struct epoll_event events[EVENTS];
		int n = epoll_wait(epoll, events, EVENTS, TURN_MS);

		for (int i = 0; i < n; i++)
			serve(events[i].data.ptr);
		for (unsigned i = 0; n == 0 && i < cnt; i++)
			serve(all[i]); /* silence is found then */
	}
}
