/* SPDX-License-Identifier: Apache-2.0 */
/* How large batches may be and how long they are held: one table entry per enum sl_policy. */
#ifndef SL_BATCH_POLICY_H
#define SL_BATCH_POLICY_H

#include <stdbool.h>
#include <stdint.h>
#include "config/config.h"

struct sl_controller;
struct sl_controller_backend;

struct sl_plan {
	uint32_t cap;      /* no batch is larger */
	uint32_t most;     /* but when more than cap wait, up to this */
	uint32_t catch_up; /* of what is late anyway, up to this */
	uint32_t low;      /* a request that is in the way of at least this size is given up */
	/* A batch under cap may wait until its oldest request has waited for hold less what its
	 * own requests will cost. */
	uint32_t hold_below; /* size from which none waits */
	double hold_ns;
	double hold_each_ns;
	bool overload; /* more comes than can be served */
};

struct sl_policy_ops {
	bool bounded;      /* requests are due when the latency bound ends */
	bool just_in_time; /* the second batch goes when the first ends; else when it is full */
	struct sl_plan (*plan)(const struct sl_controller *c,
			       const struct sl_controller_backend *be);
	/* After each batch; NULL: nothing to learn. */
	void (*done)(struct sl_controller *c, struct sl_controller_backend *be, uint32_t cnt,
		     double took_ns, bool full);
};

#define X(number, NAME, name) extern const struct sl_policy_ops sl_policy_##name;
SL_POLICIES(X)
#undef X
extern const struct sl_policy_ops *const sl_policies[SL_POLICY_CNT];

#endif
