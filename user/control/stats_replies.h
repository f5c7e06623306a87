/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_CONTROL_STATS_REPLIES_H
#define SL_CONTROL_STATS_REPLIES_H

#include <jansson.h>

#include "control/history.h"
#include "gateway/gateway.h"

/*
 * Adds "codes", "grpc_codes", "recent" (10 s) and "last" (1 s) to a pool's object. h may be NULL.
 */
void sl_stats_add_pool(json_t *o, struct sl_gateway *g, const struct sl_gateway_info *in,
		       uint32_t pool, struct sl_history *h);
/* Adds "backends", "routes" and "listeners". */
void sl_stats_add_lists(json_t *o, struct sl_gateway *g, const struct sl_gateway_info *in,
			struct sl_history *h);

#endif
