/* SPDX-License-Identifier: Apache-2.0 */
/* Cross-origin requests of web pages, on routes with `cors` (Fetch standard, 3.2). */
#ifndef SL_CORE_CORS_H
#define SL_CORE_CORS_H

#include <stdbool.h>
#include "http/method.h"

struct sl_cfg_cors;
struct sl_exchange;
struct sl_reply_parts;
struct sl_request;

/* Returns the method that a preflight request asks for; OTHER: it is none. */
enum sl_method sl_cors_asked(const struct sl_request *rq);
/* Sets x->cors, and x->cors_origin if the origin is allowed. */
void sl_cors_begin(struct sl_exchange *x, const struct sl_cfg_cors *cors,
		   const struct sl_request *rq);
/*
 * Replaces Access-Control fields, adds Vary. Only with x->cors. Returns false if there are too many
 * fields.
 */
bool sl_cors_apply_reply(const struct sl_exchange *x, struct sl_reply_parts *out);

#endif
