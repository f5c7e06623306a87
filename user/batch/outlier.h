/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Outlier detection as in Envoy: health of one backend, judged by its replies.
 *
 *   UP --fails--> EJECTED --back-off--> TRIAL --first success--> UP, with slow start
 *                    ^                    '---first failure--> EJECTED, back-off doubled
 *
 * A backend fails with `failures` in a row, or as many, and half of its replies, in the window. Its
 * share of failures must be twice that of the others: all may fail for one cause.
 *
 * Any thread may call, without locks. Each worker counts in its own lane.
 */
#ifndef SL_BATCH_OUTLIER_H
#define SL_BATCH_OUTLIER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum sl_health_state { SL_HEALTH_UP, SL_HEALTH_EJECTED, SL_HEALTH_TRIAL };

enum {
	SL_OUTLIER_PEERS = 16,
	SL_OUTLIER_DOUBLINGS = 6, /* at most */
	SL_WEIGHT_UNIT = 256,     /* factor without slow start */
	SL_WEIGHT_FLOOR = 26,     /* a tenth: start of the slow start */
};
#define SL_OUTLIER_HALF_NS UINT64_C(5000000000) /* counts are halved after this time */

struct sl_outlier_rules {
	uint32_t failures;
	uint64_t time_ns; /* first back-off */
};

struct sl_health_lane {
	_Alignas(64) _Atomic uint64_t since_ns; /* last halving */
	_Atomic uint32_t ok, failed;
};

struct sl_health {
	_Atomic uint32_t state;  /* enum sl_health_state */
	_Atomic uint32_t streak; /* failures in a row */
	_Atomic uint32_t level;  /* last back-off's */
	_Atomic uint32_t weight; /* operator's override; 0: none */
	_Atomic bool drained;    /* operator's */
	_Atomic uint64_t until_ns;
	_Atomic uint64_t up_ns; /* end of the last trial; 0: none */
	_Atomic uint64_t ejections;
	uint32_t lane_cnt;
	struct sl_health_lane *lanes;
};

struct sl_health_counts {
	uint64_t ok, failed;
};

/* Returns the state, as of now. Any thread. */
static inline enum sl_health_state sl_health_state(const struct sl_health *h)
{
	return (enum sl_health_state)atomic_load_explicit(&h->state, memory_order_relaxed);
}

/* Counts a good reply. Returns true if it ends a trial. */
bool sl_health_ok(struct sl_health *h, uint32_t lane, uint64_t now_ns);
/* Counts a failure. */
void sl_health_failed(struct sl_health *h, uint32_t lane, uint64_t now_ns);
/* Returns the counts of all lanes in the window. */
struct sl_health_counts sl_health_sum(const struct sl_health *h, uint64_t now_ns);
/*
 * Returns true if the backend must be ejected after a failure. `others`: some that are up, without
 * it.
 */
bool sl_health_is_outlier(const struct sl_health *h, const struct sl_outlier_rules *rules,
			  const struct sl_health *const *others, uint32_t other_cnt,
			  uint64_t now_ns);
/* Returns true if one more may be ejected: at most half. */
static inline bool sl_outlier_may_eject(uint32_t up, uint32_t ejected)
{
	return 2 * (ejected + 1) <= up;
}
/* Returns true if ejected backends must serve: over two thirds are ejected. */
static inline bool sl_outlier_panic(uint32_t up, uint32_t ejected)
{
	return 3 * (up - ejected) < up;
}
/*
 * Ejects the backend. `unit`: random, 0 to 1, adds up to a quarter. Returns the back-off, or 0 if
 * another worker has ejected it.
 */
uint64_t sl_health_eject(struct sl_health *h, const struct sl_outlier_rules *rules, double unit,
			 uint64_t now_ns);
/* Begins the trial if the back-off is over. Returns the state. */
enum sl_health_state sl_health_follow(struct sl_health *h, uint64_t now_ns);
/* Called for a new connection. Returns true if that ends the first back-off. */
bool sl_health_returned(struct sl_health *h);
/* Returns the factor of the weight, in 1/SL_WEIGHT_UNIT. */
uint32_t sl_slow_start(uint64_t start_ns, uint64_t slow_start_ns, uint64_t now_ns);

#endif
