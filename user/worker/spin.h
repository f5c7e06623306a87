/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a worker that has nothing to do polls on for a while before it sleeps: while polling has
 * found something often enough of late. Where what it waits for takes longer, or is computed on the
 * same processor, polling finds nothing; then it is tried now and then only. (As KVM's halt polling
 * grows and shrinks by what it finds.)
 */
#ifndef SL_WORKER_SPIN_H
#define SL_WORKER_SPIN_H

#include <stdbool.h>
#include <stdint.h>

enum {
	SL_SPIN_ONE = 1 << 16,
	SL_SPIN_WORTH =
		SL_SPIN_ONE / 8, /* found so often: latency weighs more than processor time */
	SL_SPIN_MEMORY = 16,     /* times */
	SL_SPIN_TRIAL = 32,      /* one in so many, where it is not worth it */
};

struct sl_spin {
	uint64_t for_ns;
	bool always; /* as an operator has written */
	bool on;     /* this time */
	int32_t found;
	uint32_t idles;
};

static inline void sl_spin_init(struct sl_spin *s, uint64_t for_ns, bool always)
{
	*s = (struct sl_spin){.for_ns = for_ns, .always = always, .found = SL_SPIN_ONE};
}

/* There is nothing to do, after idle_ns of that. True: it polls until for_ns. */
static inline bool sl_spin_begin(struct sl_spin *s, uint64_t idle_ns)
{
	bool worth = s->always || s->found >= SL_SPIN_WORTH || ++s->idles % SL_SPIN_TRIAL == 0;

	return s->on = worth && idle_ns <= s->for_ns;
}

/* That is over. */
static inline void sl_spin_end(struct sl_spin *s, bool found)
{
	if (s->on)
		s->found += ((found ? SL_SPIN_ONE : 0) - s->found) / SL_SPIN_MEMORY;
	s->on = false;
}

#endif
