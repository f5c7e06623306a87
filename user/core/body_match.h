/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects the pool of a request by a string member of its JSON body (match_body of a route).
 *
 *   begin --> read --> read --> over --> apply
 *
 * Until then the exchange is READING and x->pool is the route's. Candidates are referenced: a
 * reload may drop them.
 */
#ifndef SL_CORE_BODY_MATCH_H
#define SL_CORE_BODY_MATCH_H

#include "core/exchange.h"
#include "core/json_member.h"

struct sl_body_match {
	struct sl_json_member member;
	uint64_t looked;
	bool over;
};

/*
 * Starts the search for the member, once the head is stored. Sets x->match if a JSON
 * body will follow. Returns OK, NO_MATCH or NO_MEMORY. Worker, as all below.
 */
enum sl_outcome sl_body_match_begin(struct sl_exchange *x, const struct sl_request *rq);
/* Searches the next bytes of the body. Needs x->match, as the next three. */
void sl_body_match_read(struct sl_exchange *x, struct sl_span bytes);
/* Returns true if the search has ended: apply. `end`: the body is complete. */
bool sl_body_match_over(struct sl_exchange *x, bool end);
/* Chooses the pool by the value, and frees the search. Returns OK, NO_MATCH or MATCH_LIMIT. */
enum sl_outcome sl_body_match_apply(struct sl_exchange *x);
/* Frees the search. */
void sl_body_match_drop(struct sl_exchange *x);
/* Moves the exchange to a pool of its configuration. It must not be queued. */
void sl_exchange_use_pool(struct sl_exchange *x, int32_t index);

#endif
