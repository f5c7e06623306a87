/* SPDX-License-Identifier: Apache-2.0 */
#include "control/quota_metrics.h"

#include <inttypes.h>

#include "base/check.h"
#include "control/metric_text.h"
#include "core/quota_table.h"
#include "gateway/gateway.h"

static const struct {
	const char *name, *help;
	const char *label;
	size_t offset;
} counters[] = {
	{"sluice_quota_refused_total", "requests refused by a quota", ",limit=\"rate\"",
	 offsetof(struct sl_quota_table, refused_by_rate)},
	{"sluice_quota_refused_total", NULL, ",limit=\"max_requests\"",
	 offsetof(struct sl_quota_table, refused_by_open)},
	{"sluice_quota_charged_tokens_total", "tokens that replies have named", "",
	 offsetof(struct sl_quota_table, charged)},
	{"sluice_quota_unreadable_total",
	 "replies whose usage_header is no number, or whose JSON lacks the usage_member", "",
	 offsetof(struct sl_quota_table, unreadable)},
	{"sluice_quota_evicted_total", "buckets replaced before they were full again", "",
	 offsetof(struct sl_quota_table, evicted)},
};

static uint64_t read_counter(const struct sl_quota_table *t, size_t offset)
{
	const void *at = (const char *)t + offset;

	return atomic_load_explicit((const _Atomic uint64_t *)at, memory_order_relaxed);
}

void sl_metrics_quotas(const struct sl_gateway_info *in, const struct sl_metric_text *m)
{
	struct sl_strbuf *b = m->b;

	for (unsigned k = 0; k < SL_ARRAY_LEN(counters); k++) {
		if (counters[k].help)
			sl_metric_head(m, counters[k].name, "counter", counters[k].help);
		for (uint32_t i = 0; i < in->cfg->quota_cnt; i++) {
			const struct sl_cfg_quota *q = &in->cfg->quotas[i];

			sl_strbuf_printf(b, "%s{", counters[k].name);
			sl_metric_label(b, "quota", q->name);
			sl_strbuf_printf(b, "%s} %" PRIu64 "\n", counters[k].label,
					 read_counter(q->table, counters[k].offset));
		}
	}
}
