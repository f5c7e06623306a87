/* SPDX-License-Identifier: Apache-2.0 */
/* SLUICE_BACKEND_1: structs had no `size`. Shared library only. */
#include <stddef.h>
#include <string.h>
#include "sdk/backend/internal.h"

/* Structs of version 1 are those of version 2 from the second member up to these ends. */
#define OLD_LEN(type, first, last)                                                                 \
	(offsetof(type, last) + sizeof(((type *)0)->last) - offsetof(type, first))

enum {
	OPTIONS_LEN = OLD_LEN(struct sl_backend_options, listen, memory_len),
	REPLY_LEN = OLD_LEN(struct sl_reply_args, body, reason),
	STATS_LEN = OLD_LEN(struct sl_backend_stats, requests, largest_batch),
};

struct sl_backend *sl_backend_open_1(const void *opt, char *err, size_t err_len);
int sl_reply_1(struct sl_request_view *rq, const void *args);
int sl_reply_ref_1(struct sl_request_view *rq, const void *args, sl_reply_done_fn *done, void *arg);
int sl_reply_interim_1(struct sl_request_view *rq, const void *args);
void sl_backend_stats_1(struct sl_backend *b, void *out);

__asm__(".symver sl_backend_open_1, sl_backend_open@SLUICE_BACKEND_1\n"
	".symver sl_reply_1, sl_reply@SLUICE_BACKEND_1\n"
	".symver sl_reply_ref_1, sl_reply_ref@SLUICE_BACKEND_1\n"
	".symver sl_reply_interim_1, sl_reply_interim@SLUICE_BACKEND_1\n"
	".symver sl_backend_stats_1, sl_backend_stats@SLUICE_BACKEND_1\n");

struct sl_backend *sl_backend_open_1(const void *old, char *err, size_t err_len)
{
	struct sl_backend_options opt = {.size = 0};

	memcpy(&opt.listen, old, OPTIONS_LEN);
	return sl_backend_open(&opt, err, err_len);
}

static struct sl_reply_args args_of(const void *old)
{
	struct sl_reply_args args = {.size = 0};

	memcpy(&args.body, old, REPLY_LEN);
	return args;
}

int sl_reply_1(struct sl_request_view *rq, const void *old)
{
	struct sl_reply_args args = args_of(old);

	return sl_reply(rq, &args);
}

int sl_reply_ref_1(struct sl_request_view *rq, const void *old, sl_reply_done_fn *done, void *arg)
{
	struct sl_reply_args args = args_of(old);

	return sl_reply_ref(rq, &args, done, arg);
}

int sl_reply_interim_1(struct sl_request_view *rq, const void *old)
{
	struct sl_reply_args args = args_of(old);

	return sl_be_reply_interim(rq, &args, false);
}

void sl_backend_stats_1(struct sl_backend *b, void *out)
{
	struct sl_backend_stats s = {.size = sizeof(s)};

	sl_backend_stats(b, &s);
	memcpy(out, &s.requests, STATS_LEN);
}
