/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/batch_inner.h"
#include "core/reload.h"

struct sl_batcher *sl_batcher_create_next(const struct sl_cfg_pool *pool, uint32_t max_queue,
					  const struct sl_batch_ops *ops, void *app,
					  const struct sl_svc_hist *hist, struct sl_svc_live *live,
					  const struct sl_svc_ctl *ctl)
{
	struct sl_cfg_pool wide = *pool;
	struct sl_batcher *b;

	/* A shorter queue takes no more requests; those that wait already stay. */
	if (max_queue > wide.max_queue)
		wide.max_queue = max_queue;
	b = sl_batcher_create(&wide, ops, app, hist, live, ctl);
	if (b)
		b->pool = b->control.pool = pool;
	return b;
}

static void move_fit(struct sl_fit *to, const struct sl_fit *from)
{
	struct sl_fit own = *to;
	uint32_t cnt = (to->max_size < from->max_size ? to->max_size : from->max_size) + 1;

	if (!from->sizes) /* a backend that the old batcher did not have */
		return;
	*to = *from;
	to->max_size = own.max_size;
	to->sizes = own.sizes;
	to->curve = own.curve;
	if (to->largest > to->max_size)
		to->largest = to->max_size;
	memcpy(to->sizes, from->sizes, cnt * sizeof(*to->sizes));
	sl_fit_refresh(to);
}

static void move_control(struct sl_control *to, const struct sl_control *from)
{
	for (uint32_t i = 0; i < to->pool->backend_cnt; i++) {
		struct sl_control_backend *be = &to->backends[i];
		struct sl_fit fit = be->fit;

		if (i >= from->pool->backend_cnt)
			continue;
		move_fit(&fit, &from->backends[i].fit);
		*be = from->backends[i];
		be->fit = fit;
		if (be->aimd_size > to->pool->batch.max_size)
			be->aimd_size = to->pool->batch.max_size;
	}
	to->rtt_ns = from->rtt_ns;
	to->arrival_rate = from->arrival_rate;
	to->shed_level = from->shed_level;
	to->judged = from->judged;
	/* last_ns stays 0: the next pump plans anew, by what the pool says now. */
	to->last_arrivals = from->last_arrivals;
	to->last_overload = from->last_overload;
	to->bound_ns = from->bound_ns;
	memcpy(to->last_rpc, from->last_rpc, sizeof(to->last_rpc));
}

/* Oldest first, as they came: a share's order is that of its ages. */
static void move_queue(struct sl_batch_queue *to, struct sl_batch_queue *from)
{
	for (unsigned lane = 0; lane < SL_LANES; lane++) {
		struct sl_batch_item *item;

		while ((item = sl_lane_oldest(&from->lanes[lane]))) {
			sl_queue_remove(from, item);
			sl_queue_push(to, item);
		}
	}
}

void sl_batcher_take_over(struct sl_batcher *b, struct sl_batcher *from)
{
	memcpy(b->backends, from->backends, sizeof(b->backends));
	b->up_mask = from->up_mask;
	b->due_max = from->due_max;
	b->due_bound_ns = from->due_bound_ns;
	b->counts = from->counts;
	move_control(&b->control, &from->control);
	move_queue(&b->queue, &from->queue);
}
