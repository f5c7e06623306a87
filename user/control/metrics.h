/* SPDX-License-Identifier: Apache-2.0 */
/* The gateway's state as Prometheus text exposition (format 0.0.4). */
#ifndef SL_CONTROL_METRICS_H
#define SL_CONTROL_METRICS_H

#include "base/strbuf.h"
#include "worker/gateway.h"

void sl_metrics_render(struct sl_gateway *g, struct sl_strbuf *out);

#endif
