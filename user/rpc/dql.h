/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dynamic queue limits (Linux: include/linux/dynamic_queue_limits.h): learns the least posted bytes
 * without starvation.
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

/* Starts at min_limit; at most `max`. */
void sl_dql_init(struct sl_dql *l, uint32_t min_limit, uint32_t max);
/*
 * Adapts the limit. Called when it held bytes back and the device took some; `left` remain posted.
 */
void sl_dql_sample(struct sl_dql *l, uint32_t left);

#endif
