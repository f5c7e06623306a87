/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "gateway/internal.h"

int sl_tables_open(struct sl_gateway *g)
{
	struct sl_xdp *x = &g->xdp[0];
	const size_t pools = (size_t)g->service_max * g->cfg->worker_cnt;

	x->worker_cnt = g->cfg->worker_cnt;
	x->service_cnt = g->service_max;
	x->hist = calloc(pools * SL_STAGE_CNT, sizeof(*x->hist));
	x->live = calloc(pools, sizeof(*x->live));
	x->ctl = calloc(g->service_max, sizeof(*x->ctl));
	return x->hist && x->live && x->ctl ? 0 : -ENOMEM;
}

void sl_tables_close(struct sl_gateway *g)
{
	if (g->xdp_cnt || !g->xdp)
		return;
	free(g->xdp[0].hist);
	free(g->xdp[0].live);
	free(g->xdp[0].ctl);
}
