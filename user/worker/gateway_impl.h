/* SPDX-License-Identifier: Apache-2.0 */
/* What gateway.c and info.c share. */
#ifndef SL_WORKER_GATEWAY_IMPL_H
#define SL_WORKER_GATEWAY_IMPL_H

#include "worker/dial.h"
#include "worker/gateway.h"
#include "worker/worker.h"
#include "xio/xdp_load.h"
#include "xio/xsk_port.h"

struct sl_handover_hub;

struct sl_gateway {
	const struct sl_config *cfg;
	uint64_t start_ns;
	uint32_t frame_size;
	struct sl_xdp *xdp; /* [interface_cnt] */
	uint32_t xdp_cnt;
	struct sl_worker *workers;
	unsigned worker_cnt;
	struct sl_handover_hub *hub;  /* NULL with one worker */
	struct sl_dialler **diallers; /* pool by pool, backend by backend */
	uint32_t dialler_cnt;
	bool draining;
	struct sl_gateway_info info;
};

int sl_info_init(struct sl_gateway *g);
void sl_info_fini(struct sl_gateway *g);

#endif
