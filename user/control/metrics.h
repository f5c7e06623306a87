/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_CONTROL_METRICS_H
#define SL_CONTROL_METRICS_H

#include "base/strbuf.h"
#include "gateway/gateway.h"

/* Appends all metrics, in one of the formats; out->err without memory. Control thread. */
void sl_metrics_render(struct sl_gateway *g, bool openmetrics, struct sl_strbuf *out);
/* Appends HELP and TYPE of every metric. */
void sl_metrics_heads(struct sl_strbuf *out);

#endif
