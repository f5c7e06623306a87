/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the gateway in Prometheus text exposition format 0.0.4. */
#ifndef SL_CONTROL_METRICS_H
#define SL_CONTROL_METRICS_H

#include "base/strbuf.h"
#include "gateway/gateway.h"

/* Appends all metrics. */
void sl_metrics_render(struct sl_gateway *g, struct sl_strbuf *out);
/* Appends "# HELP name text" and "# TYPE name kind" of every metric. */
void sl_metrics_heads(struct sl_strbuf *out);

#endif
