/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics of quotas: counters of their tables, which all workers share. */
#ifndef SL_CONTROL_QUOTA_METRICS_H
#define SL_CONTROL_QUOTA_METRICS_H

struct sl_gateway_info;
struct sl_strbuf;

void sl_metrics_quotas(const struct sl_gateway_info *in, struct sl_strbuf *b);

#endif
