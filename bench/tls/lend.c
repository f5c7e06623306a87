/* SPDX-License-Identifier: Apache-2.0 */
/* lend ENDPOINT: a backend that answers whatever is asked with the same MiB, which it lends. */
#include <signal.h>
#include <stdio.h>

#include <sluice/backend.h>

enum { MIB = 1 << 20 };

static struct sl_backend *backend;

static void stop(int sig)
{
	(void)sig;
	sl_backend_stop(backend); /* made for this: NOLINT(bugprone-signal-handler) */
}

/* The bytes are never written, so readers do not matter. */
static void on_done(void *arg)
{
	(void)arg;
}

static void handle(void *arg, struct sl_batch *batch)
{
	static const char mib[MIB];
	const struct sl_reply_args reply = {.body = mib, .body_len = MIB};

	(void)arg;
	for (unsigned i = 0; i < batch->count; i++)
		sl_reply_ref(batch->requests[i], &reply, on_done, NULL);
}

int main(int argc, char **argv)
{
	struct sl_backend_options opt = {.on_batch = handle, .inline_handler = true};
	char err[256];

	if (argc != 2)
		return 2;
	opt.listen = argv[1];
	backend = sl_backend_open(&opt, err, sizeof(err));
	if (!backend) {
		fprintf(stderr, "lend: %s\n", err);
		return 1;
	}
	signal(SIGTERM, stop);
	return sl_backend_run(backend) < 0;
}
