/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a worker that has nothing to do polls on for a while before it sleeps: while polling has
 * found something often enough of late, that is to be computed or has been. Where what it waits for
 * takes longer, or is computed on the same processor, polling finds nothing; then it is tried now and
 * then only. (As KVM's halt polling grows and shrinks by what it finds.) That is learnt apart for two
 * kinds of idle times: while housemates compute, threads that may need this processor, and else.
 */
#ifndef SL_WORKER_SPIN_H
#define SL_WORKER_SPIN_H

#include <stdbool.h>
#include <stdint.h>

enum {
	SL_SPIN_ONE = 1 << 16,
	/* Found so often: latency weighs more than processor time, its own or the computing one's. */
	SL_SPIN_WORTH = SL_SPIN_ONE / 8,
	SL_SPIN_WORTH_HOUSEMATES = SL_SPIN_ONE / 2,
	SL_SPIN_MEMORY = 16, /* times */
	SL_SPIN_TRIAL = 32,  /* one in so many, where it is not worth it */
};

struct sl_spin_kind {
	int32_t found; /* share, of SL_SPIN_ONE */
	uint32_t idles;
};

struct sl_spin {
	uint64_t for_ns;
	bool always;     /* as an operator has written */
	bool on;         /* this time */
	bool housemates; /* the kind of this time */
	struct sl_spin_kind kinds[2];
};

static inline void sl_spin_init(struct sl_spin *s, uint64_t for_ns, bool always)
{
	*s = (struct sl_spin){
		.for_ns = for_ns, .always = always, .kinds = {{SL_SPIN_ONE, 0}, {SL_SPIN_ONE, 0}}};
}

/*
 * There is nothing to do, after idle_ns of that; `housemates` compute or do not. True: it polls until
 * for_ns.
 */
static inline bool sl_spin_begin(struct sl_spin *s, bool housemates, uint64_t idle_ns)
{
	struct sl_spin_kind *k = &s->kinds[housemates];
	int32_t enough = housemates ? SL_SPIN_WORTH_HOUSEMATES : SL_SPIN_WORTH;
	bool worth = s->always || k->found >= enough || ++k->idles % SL_SPIN_TRIAL == 0;

	s->housemates = housemates;
	return s->on = worth && idle_ns <= s->for_ns;
}

/* That is over. */
static inline void sl_spin_end(struct sl_spin *s, bool found)
{
	struct sl_spin_kind *k = &s->kinds[s->housemates];

	if (s->on)
		k->found += ((found ? SL_SPIN_ONE : 0) - k->found) / SL_SPIN_MEMORY;
	s->on = false;
}

#endif
