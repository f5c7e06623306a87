/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics of reply statuses and latencies: per route, pool and backend, summed over workers. */
#ifndef SL_CONTROL_CODE_METRICS_H
#define SL_CONTROL_CODE_METRICS_H

#include "base/strbuf.h"
#include "gateway/gateway.h"

/* Writes the families. g may be NULL: their heads only. */
void sl_code_metrics_render(struct sl_gateway *g, const struct sl_gateway_info *in,
			    struct sl_strbuf *b);
/* Adds the counters of `from`. */
void sl_codes_sum(struct sl_codes *to, const struct sl_codes *from);
/* Sums the counters of a pool over the workers. */
void sl_codes_of_pool(struct sl_gateway *g, const struct sl_gateway_info *in, uint32_t pool,
		      struct sl_codes *out);

enum { SL_BACKEND_SUM_STATES = 4 };
/* A backend of the configuration, summed over the workers. */
struct sl_backend_sum {
	const char *pool, *name;
	const char *info;                        /* of the last worker; NULL: no worker uses it */
	uint32_t workers[SL_BACKEND_SUM_STATES]; /* by enum sl_rpc_state */
	bool on_fallback, drained, ejected;      /* in any worker */
	uint32_t weight;
	uint64_t outstanding, failures;
	struct sl_backend_codes codes;
};
/* Calls visit for each backend, in the configuration's order. `sum` is lent for the call. */
void sl_codes_each_backend(const struct sl_gateway_info *in,
			   void (*visit)(void *arg, const struct sl_backend_sum *sum), void *arg);
/* Returns true for the first of the routes that share these counters. */
bool sl_codes_is_first_route(const struct sl_gateway *g, uint32_t route);

#endif
