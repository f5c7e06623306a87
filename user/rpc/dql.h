/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dynamic queue limits (Linux: include/linux/dynamic_queue_limits.h): learns the smallest number of
 * posted bytes that prevents starvation while more wait. The limit grows by a quarter when no bytes
 * were left. It shrinks by half of the lowest slack of 20 samples. No rate or clock is needed.
 *
 *   posted:  ####......   some are left: more than needed, perhaps
 *            ..........   all gone: too few
 */
#ifndef SL_RPC_DQL_H
#define SL_RPC_DQL_H

#include <stdint.h>

struct sl_dql {
	uint32_t limit;
	uint32_t min_limit, max_limit;
	uint32_t lowest_slack;
	uint32_t samples;
};

/* Begins at `least`. */
void sl_dql_init(struct sl_dql *l, uint32_t min_limit, uint32_t max);
/* Takes a sample: the limit held something back, some posted bytes were taken, `left` remain. */
void sl_dql_sample(struct sl_dql *l, uint32_t left);

#endif
