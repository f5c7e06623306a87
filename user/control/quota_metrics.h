/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics of quotas. */
#ifndef SL_CONTROL_QUOTA_METRICS_H
#define SL_CONTROL_QUOTA_METRICS_H

struct sl_gateway_info;
struct sl_metric_text;

/* Appends them for each quota of the configuration; without one, heads. */
void sl_metrics_quotas(const struct sl_gateway_info *in, const struct sl_metric_text *m);

#endif
