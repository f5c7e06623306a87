/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hierarchical timer wheel: set and cancel in O(1), time passes in O(timers due), for one thread.
 *
 *   level 0   64 slots of 1 tick        level 1   64 slots of 64 ticks      ... level 10: all 2^64
 *
 * A timer's level is that of the highest group of 6 bits in which its expiry differs from the
 * wheel's position, so lower levels always expire first, and a slot index never lies behind the
 * position. When the position reaches a slot of a higher level, its timers move down. Bitmaps of
 * filled slots lead from one event to the next, so a jump of years costs as much as a jump of one
 * tick.
 *
 * The tick is a power of two of nanoseconds. A timer never fires early, and late by less than a
 * tick plus the time until sl_wheel_advance is called. The timer is embedded in, and owned by, its
 * user, who must cancel it before freeing it. A zeroed timer is a valid idle one. Order within a
 * tick is unspecified.
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
	SL_WHEEL_LEVELS = 11, /* 66 bits: any expiry fits */
};

struct sl_timer {
	struct sl_timer *next;
	struct sl_timer **link; /* what points to this one; NULL when idle */
	uint64_t tick;          /* of expiry */
};
SL_ASSERT_SIZE(struct sl_timer, 24);

struct sl_wheel {
	uint64_t pos;                     /* all ticks before are done; this one may be under way */
	uint64_t due_ns;                  /* nothing is to be done before */
	uint64_t seen_ns;                 /* the latest time of an advance */
	uint32_t shift;                   /* tick = 2^shift ns */
	uint32_t count;                   /* timers pending */
	uint32_t levels;                  /* bitmap of levels with timers */
	int32_t moving;                   /* slot whose timers are being moved down, -1 if none */
	uint64_t filled[SL_WHEEL_LEVELS]; /* bitmap of slots with timers */
	struct sl_timer *slot[SL_WHEEL_LEVELS * SL_WHEEL_SLOTS];
};

/* tick_ns is rounded down to a power of two; 0 counts as 1. */
void sl_wheel_init(struct sl_wheel *w, uint64_t now_ns, uint64_t tick_ns);

static inline uint64_t sl_wheel_tick_ns(const struct sl_wheel *w)
{
	return UINT64_C(1) << w->shift;
}

/* Number of pending timers. */
static inline uint32_t sl_wheel_count(const struct sl_wheel *w)
{
	return w->count;
}

/*
 * Arms or re-arms. A time that has passed already expires at the tick after the last advance, and
 * never within the sl_wheel_advance call that is running.
 */
void sl_timer_set(struct sl_wheel *w, struct sl_timer *t, uint64_t expires_ns);

static inline bool sl_timer_pending(const struct sl_timer *t)
{
	return t->link != NULL;
}

/* An idle timer may be cancelled. */
void sl_timer_disarm(struct sl_wheel *w, struct sl_timer *t);
static inline void sl_timer_cancel(struct sl_wheel *w, struct sl_timer *t)
{
	if (sl_timer_pending(t))
		sl_timer_disarm(w, t);
}

/* When the timer fires, at the latest: its expiry rounded up to a tick. UINT64_MAX if beyond. */
static inline uint64_t sl_timer_expires_ns(const struct sl_wheel *w, const struct sl_timer *t)
{
	return t->tick > UINT64_MAX >> w->shift ? UINT64_MAX : t->tick << w->shift;
}

/*
 * Called with the timer idle; may set and cancel any timer, free what holds this one, and must not
 * call sl_wheel_advance.
 */
typedef void (*sl_timer_fn)(void *arg, struct sl_timer *t);

/*
 * Moves to now_ns (never back) and calls cb for each expired timer in order of ticks. Does at most
 * `max` calls and 4 * max + 64 moves between levels, so that one call stays short; returns the
 * number of calls. More is to be done at once if and only if sl_wheel_next_ns(w) <= now_ns.
 */
uint32_t sl_wheel_advance_due(struct sl_wheel *w, uint64_t now_ns, sl_timer_fn cb, void *arg,
			      uint32_t max);
static inline uint32_t sl_wheel_advance(struct sl_wheel *w, uint64_t now_ns, sl_timer_fn cb,
					void *arg, uint32_t max)
{
	if (now_ns >= w->due_ns)
		return sl_wheel_advance_due(w, now_ns, cb, arg, max);
	/* Asked in every turn of a loop, and there is seldom anything to do. */
	if (w->seen_ns < now_ns)
		w->seen_ns = now_ns;
	return 0;
}

/*
 * A time by which sl_wheel_advance wants to be called: the next expiry (rounded up to a tick) or
 * earlier, never later. UINT64_MAX when no timer is pending.
 */
uint64_t sl_wheel_next_ns(const struct sl_wheel *w);

#endif
