/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quotas of routes: rates and open requests per client, shared by all workers (quota_table.h).
 *
 *   begin -> sl_quotas_admit -> 429, or tokens taken      end of the exchange -> sl_quotas_close
 */
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

enum { SL_QUOTA_FIELD = 160 }; /* longest value of a RateLimit field */

/*
 * Gives each quota of `next` its table: that of a quota of `now` (NULL: none) with the same name,
 * clients and kind, or a new one. Returns 0, or -ENOMEM and err. Control thread.
 */
int sl_quotas_load(struct sl_config *next, const struct sl_config *now, struct sl_err *err);

/* Takes the tokens of a request, and counts it as open. Returns OK, RATE_LIMIT or OPEN_LIMIT. */
enum sl_outcome sl_quotas_admit(struct sl_exchange *x, const struct sl_request *rq);
/*
 * Takes the tokens that a reply's metadata block names, once for each quota with a usage_header.
 * Only with x->charges.
 */
void sl_quotas_charge(struct sl_exchange *x, struct sl_span meta);
/* Reads a part of a reply for quotas with a usage_member. Only with x->charges. */
void sl_quotas_read_reply(struct sl_exchange *x, const struct sl_rpc_reply *r);
/* Takes the tokens that were read. Only with x->usage. */
void sl_quotas_end_reply(struct sl_exchange *x);
/* Counts the end of a request in quotas with max_requests. */
void sl_quotas_close(struct sl_exchange *x);
/* Adds RateLimit fields to the reply of a RATE_LIMIT, and sets its Retry-After. */
void sl_quota_put_fields(const struct sl_exchange *x, struct sl_reply_parts *out);

#endif
