/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the BPF map sl_stages: what bpftool shows of each pool and stage. Control thread. */
#ifndef SL_CONTROL_STAGE_MAP_H
#define SL_CONTROL_STAGE_MAP_H

#include "control/stats.h"
#include "gateway/gateway.h"

/* Writes the quantiles of the window. *shown: the configuration of the last call. */
void sl_stage_map_write(struct sl_gateway *g, const struct sl_window *w,
			const struct sl_config **shown);

#endif
