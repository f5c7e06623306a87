/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AIMD: a full batch within half of the bound raises the size by one; a slower one lowers it by a
 * tenth. A request waits for two batches.
 */
#include <math.h>

#include "batch/controller.h"

#define DECREASE 0.9

static struct sl_plan plan(const struct sl_controller *c, const struct sl_controller_backend *be)
{
	uint32_t size = (uint32_t)be->aimd_size;

	(void)c;
	return (struct sl_plan){.cap = size, .low = size};
}

static void done(struct sl_controller *c, struct sl_controller_backend *be, uint32_t cnt,
		 double took_ns, bool full)
{
	(void)cnt;
	if (took_ns + c->rtt_ns > c->bound_ns / 2)
		be->aimd_size = fmax(1, be->aimd_size * DECREASE);
	else if (full)
		be->aimd_size = fmin(c->pool->batch.max_size, be->aimd_size + 1);
}

const struct sl_policy_ops sl_policy_aimd = {.bounded = true, .plan = plan, .done = done};
