/* SPDX-License-Identifier: Apache-2.0 */
#include "old_backend.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include "old/backend_1.h"

static struct {
	struct sl_backend *backend;
	struct sl_backend *(*open)(const struct sl_backend_options *, char *, size_t);
	int (*run)(struct sl_backend *);
	void (*stats)(struct sl_backend *, struct sl_backend_stats *);
	int (*reply)(struct sl_request_view *, const struct sl_reply_args *);
	int (*reply_interim)(struct sl_request_view *, const struct sl_reply_args *);
	int (*reply_ref)(struct sl_request_view *, const struct sl_reply_args *, sl_reply_done_fn *,
			 void *);
} lib;

/* Struct and guards, as they lay in the memory of the old program. */
struct old_stats {
	struct sl_backend_stats stats;
	uint64_t guard;
};

static void nothing(void *arg)
{
	(void)arg;
}

static void handle(void *arg, struct sl_batch *batch)
{
	static const struct sl_header_arg header = {"x-old", "yes", 3, false};
	struct old_stats s = {.guard = UINT64_MAX};

	(void)arg;
	lib.stats(lib.backend, &s.stats);
	for (unsigned i = 0; i < batch->count; i++) {
		struct sl_request_view *rq = batch->requests[i];
		struct sl_reply_args args = {.body = rq->body,
					     .body_len = rq->body_len,
					     .status = 207,
					     .headers = &header,
					     .header_cnt = 1,
					     .reason = "Old"};

		if (s.guard != UINT64_MAX || s.stats.channels != 1)
			args.status = 500;
		if (rq->body_len % 2)
			lib.reply(rq, &args);
		else
			lib.reply_ref(rq, &args, nothing, NULL);
	}
}

int old_backend_serve(void *so, const char *listen, const char *key_file)
{
	static const struct {
		const char *name;
		void *to;
	} names[] = {{"sl_backend_open", &lib.open},   {"sl_backend_run", &lib.run},
		     {"sl_backend_stats", &lib.stats}, {"sl_reply", &lib.reply},
		     {"sl_reply_ref", &lib.reply_ref}, {"sl_reply_interim", &lib.reply_interim}};
	struct sl_backend_options opt = {.listen = listen,
					 .handle = handle,
					 .key_file = key_file,
					 .max_batch = 16,
					 .inline_handler = true};
	char err[256];

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		void *found = dlvsym(so, names[i].name, "SLUICE_BACKEND_1");

		if (!found)
			return OLD_NO_NAME;
		memcpy(names[i].to, &found, sizeof(found));
	}
	lib.backend = lib.open(&opt, err, sizeof(err));
	if (!lib.backend)
		return OLD_NOT_OPEN;
	return lib.run(lib.backend);
}
