/* SPDX-License-Identifier: Apache-2.0 */
/*
 * API keys of requests, on routes with `keys`. The gateway has the SHA-256 of each key.
 *
 * Backends get the key's name instead of the header.
 */
#ifndef SL_CORE_API_KEY_H
#define SL_CORE_API_KEY_H

#include <stdbool.h>
#include "base/bytes.h"
#include "sluice/outcome.h"

struct sl_cfg_route;
struct sl_exchange;
struct sl_reply_parts;
struct sl_request;

/* Sets x->key. Returns OK, or UNAUTHENTICATED: no key, an unknown one, or several. */
enum sl_outcome sl_api_key_check(struct sl_exchange *x, const struct sl_request *rq);
/* Sets WWW-Authenticate as the only field (RFC 9110 11.6.1, RFC 6750 3). */
void sl_api_key_put_challenge(const struct sl_exchange *x, struct sl_reply_parts *out);
/* Returns true for the key's field, which backends must not get. */
bool sl_api_key_hides(const struct sl_cfg_route *r, struct sl_span name);

#endif
