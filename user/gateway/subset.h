/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects a worker's backends of a pool, without I/O or clock. A ring orders backends by a hash of
 * their names. Worker w of W uses the `own` backends from position w * count / W on:
 *
 *   ring      a  b  c  d  e  f  g  h
 *   worker 0  [own.......]-->           borrows further on, while too few of its own are connected
 *   worker 1     >        [own.......]--
 *
 *   borrow   if fewer than two, or than an eighth of its own, are connected: of backends that are
 *            connected to another worker
 *   return   once enough of its own have been connected for SL_SUBSET_BACK_NS
 */
#ifndef SL_GATEWAY_SUBSET_H
#define SL_GATEWAY_SUBSET_H

#include <stdbool.h>
#include <stdint.h>

#define SL_SUBSET_START_NS UINT64_C(1500000000) /* time to connect after the start */
#define SL_SUBSET_TRY_NS   UINT64_C(300000000)  /* time to connect borrowed ones */
#define SL_SUBSET_BACK_NS  UINT64_C(5000000000)

/* Writes the ring: order[i] is the index of the name at position i. Returns 0 or -ENOMEM. */
int sl_subset_order(const char *const *names, uint32_t cnt, uint16_t *order);
/* Returns `own`: `wanted` (0: all), or more if a backend would have no worker. */
uint32_t sl_subset_size(uint32_t wanted, uint32_t cnt, uint32_t worker_cnt);
/* Returns the position in the ring at which a worker begins. */
static inline uint32_t sl_subset_start(uint32_t worker, uint32_t worker_cnt, uint32_t cnt)
{
	return (uint32_t)((uint64_t)worker * cnt / worker_cnt);
}

/* Positions 0 to width - 1 from the worker's begin. */
struct sl_subset {
	uint32_t own, width;
	uint64_t grow_ns;
	uint64_t enough_ns; /* enough of its own are connected since; 0: too few */
};

/* Not connected, connected to other workers only, connected. */
enum sl_subset_state { SL_SUBSET_NONE, SL_SUBSET_OTHERS, SL_SUBSET_UP };

/* Starts a worker's subset. `before`: of the previous ring, or NULL. */
void sl_subset_begin(struct sl_subset *s, uint32_t own, uint32_t cnt,
		     const struct sl_subset *before, uint64_t now_ns);
/*
 * Sets width: borrows while too few own backends are up. `states`: of all cnt backends, from the
 * worker's begin.
 */
void sl_subset_look(struct sl_subset *s, const uint8_t *states, uint32_t cnt, uint64_t now_ns);
/* Returns true if unused links can be released. */
bool sl_subset_enough(const struct sl_subset *s, const uint8_t *states);
/* Returns when sl_subset_look() has work even without changed states; UINT64_MAX: never. */
uint64_t sl_subset_due_ns(const struct sl_subset *s, uint64_t now_ns);

#endif
