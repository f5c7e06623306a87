/* SPDX-License-Identifier: Apache-2.0 */
#include "batch/pick.h"
#include "core/exchange.h"
#include "core/pool.h"

void sl_stream_answered(struct sl_exchange *x, bool timed)
{
	uint64_t now_ns = x->core->now_ns;
	uint64_t took_ns = timed && x->awaits_reply ? now_ns - x->whole_ns + 1 : 0;

	sl_pick_answered(x->pool->batcher, x->backend->number, took_ns, now_ns);
	if (x->awaits_reply)
		sl_pick_stream_waited(x->pool->batcher, x->backend->number);
	x->awaits_reply = false;
}

void sl_stream_unanswered(struct sl_exchange *x)
{
	uint64_t now_ns = x->core->now_ns;

	sl_pick_unanswered(x->pool->batcher, x->backend->number, now_ns - x->whole_ns, now_ns);
	sl_pick_stream_waited(x->pool->batcher, x->backend->number);
	x->awaits_reply = false;
}
