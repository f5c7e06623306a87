/* SPDX-License-Identifier: Apache-2.0 */
/* Quotas of routes: rates and open requests per client, shared by all workers. */
#ifndef SL_CORE_QUOTA_H
#define SL_CORE_QUOTA_H

#include "base/bytes.h"
#include "base/err.h"
#include "sluice/outcome.h"

struct sl_config;
struct sl_exchange;
struct sl_reply_parts;
struct sl_request;
struct sl_rpc_reply;

enum { SL_QUOTA_FIELD = 160 };

/*
 * Gives each quota of `next` its table of `now` (NULL: none), or a new one. The same for `penalty`.
 * Returns 0, or -ENOMEM and err. sl_config_free() drops the tables. Control thread.
 */
int sl_quotas_load(struct sl_config *next, const struct sl_config *now, struct sl_err *err);

/*
 * Takes a request's tokens, and counts it as open until sl_quotas_close(). Returns OK, RATE_LIMIT
 * or OPEN_LIMIT, which take nothing. Worker, as all below.
 */
enum sl_outcome sl_quotas_admit(struct sl_exchange *x, const struct sl_request *rq);
/*
 * Takes the tokens that a reply's metadata names, once per quota with a usage_header. Only with
 * EXTRA_CHARGE.
 */
void sl_quotas_charge(struct sl_exchange *x, struct sl_span meta);
/*
 * Reads a part of the reply for usage_member. Only with EXTRA_CHARGE. sl_quotas_end_reply() must
 * follow if x->usage.
 */
void sl_quotas_read_reply(struct sl_exchange *x, const struct sl_rpc_reply *r);
/* Takes as many tokens as usage_member said, and frees x->usage. */
void sl_quotas_end_reply(struct sl_exchange *x);
/* Ends the request's count as open. */
void sl_quotas_close(struct sl_exchange *x);
/* Sets Retry-After and RateLimit fields of a 429. Texts last until the next reply. */
void sl_quota_put_fields(const struct sl_exchange *x, struct sl_reply_parts *out);

#endif
