/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deterministic subsetting, without I/O or clock: selects the backends of a pool that a worker uses.
 * Backends are ordered on a ring by a hash of their names. Worker w of W begins at position
 * w * count / W and uses the next `own` backends:
 *
 *   ring      a  b  c  d  e  f  g  h
 *   worker 0  [own.......]-->           borrows further on, while too few of its own are connected
 *   worker 1     >        [own.......]--
 *
 * The number of workers of two backends differs by at most one. Adding or removing a backend moves
 * each position by at most one.
 *
 *   borrow   if fewer than two, or than an eighth of its own, are connected: as many as are missing,
 *            of backends that are connected to another worker
 *   return   once enough of its own have been connected for SL_SUBSET_BACK_NS
 */
#ifndef SL_GATEWAY_SUBSET_H
#define SL_GATEWAY_SUBSET_H

#include <stdbool.h>
#include <stdint.h>

#define SL_SUBSET_START_NS UINT64_C(1500000000) /* to connect after the start */
#define SL_SUBSET_TRY_NS   UINT64_C(300000000)  /* for borrowed ones to connect */
#define SL_SUBSET_BACK_NS  UINT64_C(5000000000)

/* Sorts indices of names in ring order. Returns 0 or -ENOMEM. */
int sl_subset_order(const char *const *names, uint32_t cnt, uint16_t *order);
/* Returns `own`: wanted, or more if a backend would have no worker. 0: all. */
uint32_t sl_subset_size(uint32_t wanted, uint32_t cnt, uint32_t worker_cnt);
static inline uint32_t sl_subset_start(uint32_t worker, uint32_t worker_cnt, uint32_t cnt)
{
	return (uint32_t)((uint64_t)worker * cnt / worker_cnt);
}

/* Positions 0 to width - 1, counted from the begin of the worker. */
struct sl_subset {
	uint32_t own, width;
	uint64_t grow_ns;
	uint64_t enough_ns; /* enough of its own are connected since; 0: too few are */
};

/* Not connected, connected to other workers only, connected. */
enum sl_subset_state { SL_SUBSET_NONE, SL_SUBSET_OTHERS, SL_SUBSET_UP };

/* Starts with a new ring. before is the worker's part of the previous ring, or NULL. */
void sl_subset_begin(struct sl_subset *s, uint32_t own, uint32_t cnt,
		     const struct sl_subset *before, uint64_t now_ns);
/* Updates width from the states of all cnt backends, counted from the begin of the worker. */
void sl_subset_look(struct sl_subset *s, const uint8_t *states, uint32_t cnt, uint64_t now_ns);
/* Returns true if enough used backends are connected to release the others. */
bool sl_subset_enough(const struct sl_subset *s, const uint8_t *states);
/* Returns when to update without a change of states, or UINT64_MAX. */
uint64_t sl_subset_due_ns(const struct sl_subset *s, uint64_t now_ns);

#endif
