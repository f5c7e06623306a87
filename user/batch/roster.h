/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Backends that are up, ordered by their number of batches. All operations are O(1).
 *
 * order[]: without a batch up to end[0], with one up to end[1], with two up to end[2].
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

/* Makes a roster with all down. Returns 0 or -ENOMEM, with all freed. */
int sl_roster_init(struct sl_roster *r, uint32_t room);
/* Frees the roster. May be repeated. */
void sl_roster_fini(struct sl_roster *r);
/* Adds a backend with so many batches; twice does nothing. */
void sl_roster_add(struct sl_roster *r, unsigned backend, unsigned batches);
/* Removes a backend; twice does nothing. */
void sl_roster_remove(struct sl_roster *r, unsigned backend);
/* Returns true if the backend is up. */
static inline bool sl_roster_up(const struct sl_roster *r, unsigned backend)
{
	return backend < r->room && r->place[backend] != UINT16_MAX;
}

/* Exchanges a backend with the one at index `to`. */
static inline void sl_roster_swap_(struct sl_roster *r, unsigned backend, uint32_t to)
{
	uint32_t from = r->place[backend];
	uint16_t other = r->order[to];

	r->order[from] = other;
	r->place[other] = (uint16_t)from;
	r->order[to] = (uint16_t)backend;
	r->place[backend] = (uint16_t)to;
}

/* Called when a backend that had `batches` gets one more. Ignored if down. */
static inline void sl_roster_more(struct sl_roster *r, unsigned backend, unsigned batches)
{
	if (sl_roster_up(r, backend))
		sl_roster_swap_(r, backend, --r->end[batches]);
}

/* Called when a backend that had `batches` has one less. Ignored if down. */
static inline void sl_roster_less(struct sl_roster *r, unsigned backend, unsigned batches)
{
	if (sl_roster_up(r, backend))
		sl_roster_swap_(r, backend, r->end[batches - 1]++);
}

/* Returns true if the backend is up without a batch. */
static inline bool sl_roster_idle(const struct sl_roster *r, unsigned backend)
{
	return backend < r->room && r->place[backend] < r->end[0];
}

/* Returns how many are up. */
static inline uint32_t sl_roster_up_cnt(const struct sl_roster *r)
{
	return r->end[SL_ZONES - 1];
}

/* Returns how many have no batch: order[0 .. idle). */
static inline uint32_t sl_roster_idle_cnt(const struct sl_roster *r)
{
	return r->end[0];
}

/* Returns how many may get a batch: order[0 .. open). */
static inline uint32_t sl_roster_open_cnt(const struct sl_roster *r)
{
	return r->end[SL_OUTSTANDING_MAX - 1];
}

#endif
