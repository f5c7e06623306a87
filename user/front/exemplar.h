/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exemplars: a route's last sampled request per bucket of durations, on one worker.
 *
 * The worker writes; the control thread reads by the seqlock.
 */
#ifndef SL_FRONT_EXEMPLAR_H
#define SL_FRONT_EXEMPLAR_H

#include "front/codes.h"

struct sl_exemplar {
	uint64_t version; /* odd: being written; 0: unused */
	uint64_t ns;      /* duration */
	uint64_t unix_ns;
	uint8_t trace_id[16];
};

enum { SL_EXEMPLAR_BUCKETS = SL_CODE_BOUND_CNT + 1 };

/* Makes r's exemplars, once. Returns false without memory. Control thread; a worker may use r. */
bool sl_exemplars_make(struct sl_route_codes *r);
/* Stores an exemplar, if made, after sl_route_codes_add() with the same arguments. Worker. */
void sl_exemplar_put(const struct sl_route_codes *r, struct sl_code_at at, uint64_t ns,
		     const uint8_t trace_id[16]);
/* Copies e. Returns false if unused, or being written at each try. Any thread. */
bool sl_exemplar_read(const struct sl_exemplar *e, struct sl_exemplar *to);
/*
 * Replaces older ones by those of r. `sum` has r's durations (sl_durations_merge()) and the rows
 * of `to`.
 */
void sl_exemplars_merge(struct sl_exemplar to[SL_DURATION_SLOTS][SL_EXEMPLAR_BUCKETS],
			struct sl_duration *sum, const struct sl_route_codes *r, bool grpc);

#endif
