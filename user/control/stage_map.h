/* SPDX-License-Identifier: Apache-2.0 */
/* The BPF map sl_stages, for bpftool. Control thread. */
#ifndef SL_CONTROL_STAGE_MAP_H
#define SL_CONTROL_STAGE_MAP_H

#include "control/stats.h"
#include "gateway/gateway.h"

/* Writes the map. *shown: number of the last call's configuration, or 0. */
void sl_stage_map_write(struct sl_gateway *g, const struct sl_window *w, uint64_t *shown);

#endif
