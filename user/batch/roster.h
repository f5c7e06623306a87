/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Backends that are up, ordered by their number of batches: finds one with few in O(1).
 *
 *   order:  [ none | one | two ]  backends that are up, in any order within a zone
 *           0   end[0] end[1] end[2] = how many are up
 *
 * A change moves at most one backend per zone.
 */
#ifndef SL_BATCH_ROSTER_H
#define SL_BATCH_ROSTER_H

#include <stdbool.h>
#include <stdint.h>

/* One batch computes, the next is under way. */
enum { SL_OUTSTANDING_MAX = 2, SL_ZONES = SL_OUTSTANDING_MAX + 1 };

struct sl_roster {
	uint16_t *order;
	uint16_t *place; /* [room] index in order; UINT16_MAX: down */
	uint32_t end[SL_ZONES];
	uint32_t room;
};

/* Allocates a roster of `room` backends, all down. Returns 0 or -ENOMEM. */
int sl_roster_init(struct sl_roster *r, uint32_t room);
void sl_roster_fini(struct sl_roster *r);
void sl_roster_add(struct sl_roster *r, unsigned backend, unsigned batches);
void sl_roster_remove(struct sl_roster *r, unsigned backend);
static inline bool sl_roster_up(const struct sl_roster *r, unsigned backend)
{
	return backend < r->room && r->place[backend] != UINT16_MAX;
}

static inline void sl_roster_swap_(struct sl_roster *r, unsigned backend, uint32_t to)
{
	uint32_t from = r->place[backend];
	uint16_t other = r->order[to];

	r->order[from] = other;
	r->place[other] = (uint16_t)from;
	r->order[to] = (uint16_t)backend;
	r->place[backend] = (uint16_t)to;
}

/* The backend has a batch more, or less, than `batches`. Ignored if it is down. */
static inline void sl_roster_more(struct sl_roster *r, unsigned backend, unsigned batches)
{
	if (sl_roster_up(r, backend))
		sl_roster_swap_(r, backend, --r->end[batches]);
}

static inline void sl_roster_less(struct sl_roster *r, unsigned backend, unsigned batches)
{
	if (sl_roster_up(r, backend))
		sl_roster_swap_(r, backend, r->end[batches - 1]++);
}

static inline bool sl_roster_idle(const struct sl_roster *r, unsigned backend)
{
	return backend < r->room && r->place[backend] < r->end[0];
}

static inline uint32_t sl_roster_up_cnt(const struct sl_roster *r)
{
	return r->end[SL_ZONES - 1];
}

/* Backends without a batch: order[0 .. idle). */
static inline uint32_t sl_roster_idle_cnt(const struct sl_roster *r)
{
	return r->end[0];
}

/* Backends that may get a batch: order[0 .. open). */
static inline uint32_t sl_roster_open_cnt(const struct sl_roster *r)
{
	return r->end[SL_OUTSTANDING_MAX - 1];
}

#endif
