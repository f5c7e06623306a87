/* SPDX-License-Identifier: Apache-2.0 */
/* The gateway's state as Prometheus text exposition (format 0.0.4). */
#ifndef SL_CONTROL_METRICS_H
#define SL_CONTROL_METRICS_H

#include "base/strbuf.h"
#include "gateway/gateway.h"

void sl_metrics_render(struct sl_gateway *g, struct sl_strbuf *out);
/* What there is to see: "# HELP name text" and "# TYPE name kind" of every metric, no samples. */
void sl_metrics_heads(struct sl_strbuf *out);

#endif
