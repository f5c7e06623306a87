/* SPDX-License-Identifier: Apache-2.0 */
/* sink ENDPOINT: a backend that takes what its clients upload, and then says so. */
#include <signal.h>
#include <stdio.h>

#include <sluice/backend.h>

static struct sl_backend *backend;

static void stop(int sig)
{
	(void)sig;
	sl_backend_stop(backend); /* made for this: NOLINT(bugprone-signal-handler) */
}

static void on_open(void *arg, struct sl_request_view *rq)
{
	(void)arg;
	(void)rq;
}

static void on_data(void *arg, struct sl_request_view *rq, const void *bytes, size_t len,
		    size_t left)
{
	(void)arg;
	(void)rq;
	(void)bytes;
	(void)len;
	(void)left;
}

static void on_end(void *arg, struct sl_request_view *rq)
{
	(void)arg;
	sl_reply(rq, &(struct sl_reply_args){.body = "ok", .body_len = 2});
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

int main(int argc, char **argv)
{
	static const struct sl_stream_ops streams = {
		.on_open = on_open, .on_data = on_data, .on_end = on_end, .on_cancel = on_cancel};
	struct sl_backend_options opt = {
		.on_batch = handle, .on_stream = &streams, .inline_handler = true};
	char err[256];

	if (argc != 2)
		return 2;
	opt.listen = argv[1];
	backend = sl_backend_open(&opt, err, sizeof(err));
	if (!backend) {
		fprintf(stderr, "sink: %s\n", err);
		return 1;
	}
	signal(SIGTERM, stop);
	return sl_backend_run(backend) < 0;
}
