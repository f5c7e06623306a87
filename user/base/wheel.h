/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hierarchical timer wheel: O(1) set and cancel, O(due timers) advance; not thread-safe.
 *
 * Level n has 64 slots of 64^n ticks; level 10 covers all 2^64.
 *
 * A timer never fires early, and late by less than a tick plus the time until sl_wheel_advance().
 * The user owns the timer and must cancel it before freeing it. A zeroed timer is idle.
 */
#ifndef SL_BASE_WHEEL_H
#define SL_BASE_WHEEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"

enum {
	SL_WHEEL_BITS = 6,
	SL_WHEEL_SLOTS = 1 << SL_WHEEL_BITS,
	SL_WHEEL_LEVELS = 11, /* any 64-bit expiry */
};

struct sl_timer {
	struct sl_timer *next;
	struct sl_timer **link; /* pointer to this timer; NULL: idle */
	uint64_t tick;          /* expiry */
};
SL_ASSERT_SIZE(struct sl_timer, 24);

struct sl_wheel {
	/* earlier ticks are done */
	uint64_t pos;
	uint64_t due_ns;  /* nothing is due before */
	uint64_t seen_ns; /* last advance */
	uint32_t shift;   /* tick = 2^shift ns */
	uint32_t count;
	uint32_t levels;                  /* levels with timers */
	int32_t moving;                   /* slot that is moving down; -1: none */
	uint64_t filled[SL_WHEEL_LEVELS]; /* slots with timers */
	struct sl_timer *slot[SL_WHEEL_LEVELS * SL_WHEEL_SLOTS];
};

/* Makes an empty wheel; rounds tick_ns down to a power of two, at least 1. */
void sl_wheel_init(struct sl_wheel *w, uint64_t now_ns, uint64_t tick_ns);

/* Returns the duration of a tick. */
static inline uint64_t sl_wheel_tick_ns(const struct sl_wheel *w)
{
	return UINT64_C(1) << w->shift;
}

/* Returns the number of pending timers. */
static inline uint32_t sl_wheel_count(const struct sl_wheel *w)
{
	return w->count;
}

/* Sets or moves a timer. A past time expires at the tick after the last advance, not within it. */
void sl_timer_set(struct sl_wheel *w, struct sl_timer *t, uint64_t expires_ns);

/* Returns true from set to expiry or cancel. */
static inline bool sl_timer_pending(const struct sl_timer *t)
{
	return t->link != NULL;
}

/* Stop a timer. sl_timer_disarm() needs a pending one. */
void sl_timer_disarm(struct sl_wheel *w, struct sl_timer *t);
static inline void sl_timer_cancel(struct sl_wheel *w, struct sl_timer *t)
{
	if (sl_timer_pending(t))
		sl_timer_disarm(w, t);
}

/* Returns the latest time at which the timer fires. */
static inline uint64_t sl_timer_expires_ns(const struct sl_wheel *w, const struct sl_timer *t)
{
	return t->tick > UINT64_MAX >> w->shift ? UINT64_MAX : t->tick << w->shift;
}

/*
 * The timer is idle. May set and cancel timers and free this one; must not call sl_wheel_advance().
 */
typedef void (*sl_timer_fn)(void *arg, struct sl_timer *t);

/*
 * Advances to now_ns (never back) and calls cb for each expired timer in order of ticks. Makes at
 * most `max` calls and 4 * max + 64 moves. Returns the number of calls. More is due now only if
 * sl_wheel_next_ns(w) <= now_ns.
 */
uint32_t sl_wheel_advance_due(struct sl_wheel *w, uint64_t now_ns, sl_timer_fn cb, void *arg,
			      uint32_t max);
static inline uint32_t sl_wheel_advance(struct sl_wheel *w, uint64_t now_ns, sl_timer_fn cb,
					void *arg, uint32_t max)
{
	if (now_ns >= w->due_ns)
		return sl_wheel_advance_due(w, now_ns, cb, arg, max);
	if (w->seen_ns < now_ns)
		w->seen_ns = now_ns;
	return 0;
}

/* Returns the next expiry or an earlier time; UINT64_MAX: none. */
uint64_t sl_wheel_next_ns(const struct sl_wheel *w);

#endif
