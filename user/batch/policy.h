/* SPDX-License-Identifier: Apache-2.0 */
/* Batch sizes and delays, per enum sl_policy. */
#ifndef SL_BATCH_POLICY_H
#define SL_BATCH_POLICY_H

#include <stdbool.h>
#include <stdint.h>
#include "config/config.h"

struct sl_controller;
struct sl_controller_backend;

struct sl_plan {
	uint32_t cap;
	uint32_t most;     /* while more than cap wait */
	uint32_t catch_up; /* size for late requests */
	uint32_t low;      /* a request that prevents this size is refused */
	/*
	 * A batch under cap may wait until its oldest request has waited for hold_ns, less its
	 * cost.
	 */
	uint32_t hold_below; /* batches of this size do not wait */
	double hold_ns;
	double hold_each_ns;
	bool overload;
};

struct sl_policy_ops {
	bool bounded;      /* requests are due at the latency bound */
	bool just_in_time; /* the second batch is sent when the first ends; else when it is full */
	struct sl_plan (*plan)(const struct sl_controller *c,
			       const struct sl_controller_backend *be);
	/* Called after each batch; may be NULL. */
	void (*done)(struct sl_controller *c, struct sl_controller_backend *be, uint32_t cnt,
		     double took_ns, bool full);
};

#define X(number, NAME, name) extern const struct sl_policy_ops sl_policy_##name;
SL_POLICIES(X)
#undef X
extern const struct sl_policy_ops *const sl_policies[SL_POLICY_CNT];

#endif
