/* SPDX-License-Identifier: Apache-2.0 */
#include "front/exemplar.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

enum { TRIES = 8 };

struct sl_exemplars {
	struct sl_exemplar of[2][SL_DURATION_SLOTS][SL_EXEMPLAR_BUCKETS]; /* [is_grpc] */
};

static struct sl_exemplars *exemplars_of(const struct sl_route_codes *r)
{
	return __atomic_load_n(&r->exemplars, __ATOMIC_ACQUIRE);
}

bool sl_exemplars_make(struct sl_route_codes *r)
{
	struct sl_exemplars *all;

	if (r->exemplars)
		return true;
	all = calloc(1, sizeof(*all));
	__atomic_store_n(&r->exemplars, all, __ATOMIC_RELEASE);
	return all;
}

/* Prometheus stores an exemplar once if its time is the same at each scrape. */
static uint64_t read_unix_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * SL_NS_PER_SEC + (uint64_t)t.tv_nsec;
}

void sl_exemplar_put(const struct sl_route_codes *r, struct sl_code_at at, uint64_t ns,
		     const uint8_t trace_id[16])
{
	struct sl_exemplars *all = exemplars_of(r);
	const struct sl_duration *slots = at.is_grpc ? r->grpc : r->http;
	struct sl_exemplar *e;

	if (!all)
		return;
	e = &all->of[at.is_grpc][sl_duration_slot(slots, at.is_grpc ? at.grpc : at.http)]
		    [sl_duration_bucket(ns)];
	__atomic_store_n(&e->version, e->version + 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	e->ns = ns;
	e->unix_ns = read_unix_ns();
	memcpy(e->trace_id, trace_id, sizeof(e->trace_id));
	__atomic_store_n(&e->version, e->version + 1, __ATOMIC_RELEASE);
}

bool sl_exemplar_read(const struct sl_exemplar *e, struct sl_exemplar *to)
{
	for (unsigned i = 0; i < TRIES; i++) {
		uint64_t before = __atomic_load_n(&e->version, __ATOMIC_ACQUIRE);

		if (!before)
			return false;
		*to = *e;
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (!(before & 1) && before == __atomic_load_n(&e->version, __ATOMIC_RELAXED))
			return true;
	}
	return false;
}

void sl_exemplars_merge(struct sl_exemplar to[SL_DURATION_SLOTS][SL_EXEMPLAR_BUCKETS],
			struct sl_duration *sum, const struct sl_route_codes *r, bool grpc)
{
	const struct sl_exemplars *all = exemplars_of(r);
	const struct sl_duration *slots = grpc ? r->grpc : r->http;
	struct sl_exemplar e;

	for (unsigned i = 0; all && i < SL_DURATION_SLOTS; i++) {
		unsigned row = SL_DURATION_OTHER;

		if (slots[i].index)
			row = sl_duration_slot(sum, slots[i].index - 1u);
		for (unsigned b = 0; b < SL_EXEMPLAR_BUCKETS; b++) {
			if (sl_exemplar_read(&all->of[grpc][i][b], &e) &&
			    e.unix_ns > to[row][b].unix_ns)
				to[row][b] = e;
		}
	}
}
