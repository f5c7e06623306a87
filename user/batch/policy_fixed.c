/* SPDX-License-Identifier: Apache-2.0 */
#include "batch/controller.h"

static struct sl_plan plan(const struct sl_controller *c, const struct sl_controller_backend *be)
{
	const struct sl_cfg_batch *cfg = &c->pool->batch;

	(void)be;
	return (struct sl_plan){.cap = cfg->size,
				.low = cfg->size,
				.hold_below = cfg->size,
				.hold_ns = (double)cfg->delay_ns};
}

const struct sl_policy_ops sl_policy_fixed = {.plan = plan};
