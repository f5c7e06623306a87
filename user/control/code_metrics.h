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
/* Sums the counters of a pool, or of a backend of the first worker's list, over the workers. */
void sl_codes_of_pool(struct sl_gateway *g, const struct sl_gateway_info *in, uint32_t pool,
		      struct sl_codes *out);
void sl_codes_of_backend(const struct sl_gateway_info *in, const char *pool, const char *name,
			 struct sl_backend_codes *out);
/*
 * Calls visit for each backend of the configuration, once for all workers. `codes` is lent for the
 * call.
 */
void sl_codes_each_backend(const struct sl_gateway_info *in,
			   void (*visit)(void *arg, const char *pool, const char *name,
					 const struct sl_backend_codes *codes),
			   void *arg);

#endif
