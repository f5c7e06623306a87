/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects the pool of a request by a string member of its JSON body (match_body of a route).
 *
 *   begin --> read --> read --> over --> apply: the pool of a match, that of the route, 404 or 413
 *             each piece of the body, once, after it was stored
 *
 * Until then the exchange is READING and x->pool is the route's. All candidates are referenced,
 * because a reload may drop them.
 */
#ifndef SL_CORE_BODY_MATCH_H
#define SL_CORE_BODY_MATCH_H

#include "core/exchange.h"
#include "core/json_member.h"

struct sl_body_match {
	struct sl_json_member member;
	uint64_t looked; /* bytes */
	bool over;       /* the body is complete */
};

/*
 * Called when the head is stored. Sets x->match if the body must be awaited. Returns OK, or the
 * refusal of a request without a body.
 */
enum sl_outcome sl_body_match_begin(struct sl_exchange *x, const struct sl_request *rq);
void sl_body_match_read(struct sl_exchange *x, struct sl_span bytes);
/* Returns true if nothing more needs to be read. `end`: the body is complete. */
bool sl_body_match_over(struct sl_exchange *x, bool end);
/* Sets the pool and ends the search. Returns OK, or the refusal. */
enum sl_outcome sl_body_match_apply(struct sl_exchange *x);
/* Ends the search without a result. */
void sl_body_match_drop(struct sl_exchange *x);
/* Gives the exchange to a pool of its configuration. It must not be queued. */
void sl_exchange_use_pool(struct sl_exchange *x, int32_t index);

#endif
