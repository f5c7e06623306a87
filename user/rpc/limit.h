/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dynamic queue limits (Linux: include/linux/dynamic_queue_limits.h): learns the smallest number of
 * posted bytes that prevents starvation while more wait. The limit grows by a quarter when no bytes
 * were left. It shrinks by half of the lowest slack of 20 samples. No rate or clock is needed.
 *
 *   posted:  ####......   some are left: more than needed, perhaps
 *            ..........   all gone: too few
 */
#ifndef SL_RPC_LIMIT_H
#define SL_RPC_LIMIT_H

#include <stdint.h>

struct sl_limit {
	uint32_t bytes;      /* the limit */
	uint32_t least, max; /* bounds of the limit */
	uint32_t spare;      /* lowest number of bytes left lately */
	uint32_t looks;
};

/* Begins at `least`. */
void sl_limit_init(struct sl_limit *l, uint32_t least, uint32_t max);
/* Takes a sample: the limit held something back, some posted bytes were taken, `left` remain. */
void sl_limit_look(struct sl_limit *l, uint32_t left);

#endif
