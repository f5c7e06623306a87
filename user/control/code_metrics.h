/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics of statuses and latencies per route, pool and backend. Control thread. */
#ifndef SL_CONTROL_CODE_METRICS_H
#define SL_CONTROL_CODE_METRICS_H

#include "control/metric_text.h"
#include "gateway/gateway.h"

/* Appends the metrics; g: NULL: heads only. m->b->err without memory. */
void sl_code_metrics_render(struct sl_gateway *g, const struct sl_gateway_info *in,
			    const struct sl_metric_text *m);
/* Adds `from` to *to. */
void sl_codes_sum(struct sl_codes *to, const struct sl_codes *from);
/* Writes the sum over workers. `pool`: index in the configuration in force. */
void sl_codes_of_pool(struct sl_gateway *g, const struct sl_gateway_info *in, uint32_t pool,
		      struct sl_codes *out);

enum { SL_BACKEND_SUM_STATES = 4 };
/* A backend, summed over workers. */
struct sl_backend_sum {
	const char *pool, *name;
	const char *info;                        /* of the last worker; NULL: no worker uses it */
	uint32_t workers[SL_BACKEND_SUM_STATES]; /* by enum sl_rpc_state */
	bool on_fallback, drained, ejected, silent; /* in any worker */
	uint32_t weight;
	uint64_t outstanding, failures;
	struct sl_backend_codes codes;
};
/* Calls visit in the configuration's order. `sum` is valid during the call. */
void sl_codes_each_backend(const struct sl_gateway_info *in,
			   void (*visit)(void *arg, const struct sl_backend_sum *sum), void *arg);
/* Returns true for the first of several routes that share counters. */
bool sl_codes_is_first_route(const struct sl_gateway *g, uint32_t route);

#endif
