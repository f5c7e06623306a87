/* SPDX-License-Identifier: Apache-2.0 */
#include "control/stage_map.h"

#include <stdio.h>
#include <string.h>

#include "base/hist.h"

static void write_stage(struct sl_gateway *g, const struct sl_window *w, const char *pool,
			uint32_t slot, unsigned stage)
{
	const struct sl_svc_hist *now = &w->newer[slot * SL_STAGE_CNT + stage];
	const struct sl_svc_hist *then = &w->older[slot * SL_STAGE_CNT + stage];
	struct sl_stage_key key = {.stage = (enum sl_stage)stage};
	struct sl_stage_times v = {.service = slot, .count = now->count};
	uint64_t diff[SL_HIST_BUCKET_CNT];

	snprintf(key.pool, sizeof(key.pool), "%s", pool);
	sl_hist_diff(diff, (const uint64_t *)now->bucket, (const uint64_t *)then->bucket);
	v.recent = sl_hist_count(diff);
	if (v.recent && now->sum_ns >= then->sum_ns)
		v.mean_ns = (now->sum_ns - then->sum_ns) / v.recent;
	v.p50_ns = sl_hist_quantile(diff, 0.5);
	v.p90_ns = sl_hist_quantile(diff, 0.9);
	v.p99_ns = sl_hist_quantile(diff, 0.99);
	(void)sl_gateway_set_stage(g, &key, &v);
}

void sl_stage_map_write(struct sl_gateway *g, const struct sl_window *w, uint64_t *shown)
{
	const struct sl_config *cfg = sl_gateway_info(g)->cfg;

	if (*shown != cfg->number)
		sl_gateway_clear_stages(g);
	*shown = cfg->number;
	for (uint32_t p = 0; p < cfg->pool_cnt; p++) {
		for (unsigned st = 0; st < SL_STAGE_CNT; st++)
			write_stage(g, w, cfg->pools[p].name, sl_gateway_slot(g, p), st);
	}
}
