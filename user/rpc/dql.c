/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/dql.h"

enum { SAMPLES = 20 };

void sl_dql_init(struct sl_dql *l, uint32_t min_limit, uint32_t max)
{
	*l = (struct sl_dql){
		.limit = min_limit, .min_limit = min_limit, .lowest_slack = UINT32_MAX};
	l->max_limit = max < min_limit ? min_limit : max;
}

static void restart_samples(struct sl_dql *l)
{
	l->lowest_slack = UINT32_MAX;
	l->samples = 0;
}

void sl_dql_sample(struct sl_dql *l, uint32_t left)
{
	if (!left) {
		l->limit += l->limit / 4;
		l->limit = l->limit < l->max_limit ? l->limit : l->max_limit;
		restart_samples(l);
		return;
	}
	l->lowest_slack = left < l->lowest_slack ? left : l->lowest_slack;
	if (++l->samples < SAMPLES)
		return;
	l->limit -= l->lowest_slack / 2 < l->limit ? l->lowest_slack / 2 : l->limit;
	l->limit = l->limit > l->min_limit ? l->limit : l->min_limit;
	restart_samples(l);
}
