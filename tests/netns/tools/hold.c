/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A backend that keeps requests whose path contains "hold" until a file exists or they are
 * cancelled. Prints "took PATH" and "cancelled PATH".
 *
 * hold --listen ENDPOINT --until FILE
 */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sluice/backend.h>

enum { HELD_MAX = 256 };

static struct sl_backend *backend;
static struct sl_request_view *held[HELD_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *until;

static void tell(const char *what, const struct sl_request_view *rq)
{
	printf("%s %.*s\n", what, (int)rq->path_len, rq->path);
	fflush(stdout);
}

static void answer(struct sl_request_view *rq)
{
	sl_reply(rq, &(struct sl_reply_args){.body = "x", .body_len = 1});
}

static bool hold(struct sl_request_view *rq)
{
	bool found = false;

	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < HELD_MAX && !found; i++) {
		if (!held[i]) {
			held[i] = rq;
			found = true;
		}
	}
	pthread_mutex_unlock(&lock);
	return found;
}

static void handle(void *arg, struct sl_batch *batch)
{
	(void)arg;
	for (unsigned i = 0; i < batch->count; i++) {
		struct sl_request_view *rq = batch->requests[i];

		tell("took", rq);
		if (!memmem(rq->path, rq->path_len, "hold", 4) || !hold(rq))
			answer(rq);
	}
}

static void *watch(void *arg)
{
	for (;;) {
		bool all = access(until, F_OK) == 0;

		pthread_mutex_lock(&lock);
		for (unsigned i = 0; i < HELD_MAX; i++) {
			bool gone = held[i] && sl_request_cancelled(held[i]);

			if (gone)
				tell("cancelled", held[i]);
			if (held[i] && (gone || all)) {
				answer(held[i]);
				held[i] = NULL;
			}
		}
		pthread_mutex_unlock(&lock);
		usleep(5000);
	}
	return arg;
}

static void stop(int sig)
{
	(void)sig;
	sl_backend_stop(backend);
}

int main(int argc, char **argv)
{
	struct sl_backend_options opt = {.on_batch = handle};
	pthread_t thread;
	char err[256];

	if (argc != 5)
		return 2;
	opt.listen = argv[2];
	until = argv[4];
	backend = sl_backend_open(&opt, err, sizeof(err));
	if (!backend || pthread_create(&thread, NULL, watch, NULL))
		return 1;
	signal(SIGTERM, stop);
	return sl_backend_run(backend) < 0;
}
