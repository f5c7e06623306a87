/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A backend of streams that takes its time for each part of an upload, so that many of them wait for it;
 * a question, which is a part of QUESTION bytes, it answers at once with how many bytes of uploads it
 * has heard so far: a line.
 *
 *   hearer --listen ENDPOINT
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "sluice/backend.h"

enum { QUESTION = 3, PART_US = 100 };

static uint64_t heard;

static void on_open(void *arg, struct sl_request_view *rq)
{
	(void)arg, (void)rq;
}

static void on_data(void *arg, struct sl_request_view *rq, const void *bytes, size_t len,
		    size_t left)
{
	char line[32];
	struct sl_reply_args a = {.body = line, .more = true};

	(void)arg, (void)bytes, (void)left;
	if (len == QUESTION) {
		a.body_len =
			(size_t)snprintf(line, sizeof(line), "%llu\n", (unsigned long long)heard);
		sl_reply(rq, &a);
		return;
	}
	heard += len;
	usleep(PART_US);
}

static void on_end(void *arg, struct sl_request_view *rq)
{
	(void)arg;
	sl_reply(rq, &(struct sl_reply_args){.no_message = true});
}

static void on_cancel(void *arg, struct sl_request_view *rq)
{
	(void)arg;
	sl_reply_error(rq, SL_RPC_CANCELLED);
}

static void handle(void *arg, struct sl_batch *batch)
{
	(void)arg;
	for (unsigned i = 0; i < batch->count; i++)
		sl_reply_error(batch->requests[i], SL_RPC_NO_METHOD);
}

static struct sl_backend *backend;

static void stop(int sig)
{
	(void)sig;
	sl_backend_stop(backend);
}

int main(int argc, char **argv)
{
	static const struct sl_stream_ops streams = {
		.on_open = on_open, .on_data = on_data, .on_end = on_end, .on_cancel = on_cancel};
	struct sl_backend_options opt = {
		.on_batch = handle, .on_stream = &streams, .inline_handler = true};
	char err[256];

	if (argc != 3 || strcmp(argv[1], "--listen") != 0) {
		fputs("Usage: hearer --listen ENDPOINT\n", stderr);
		return 2;
	}
	opt.listen = argv[2];
	backend = sl_backend_open(&opt, err, sizeof(err));
	if (!backend) {
		fprintf(stderr, "hearer: %s\n", err);
		return 1;
	}
	signal(SIGTERM, stop);
	return sl_backend_run(backend) ? 1 : 0;
}
