/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "batch/internal.h"
#include "batch/batcher.h"

static void move_controller(struct sl_controller *to, const struct sl_controller *from)
{
	for (uint32_t i = 0; i < to->room && i < from->room; i++) {
		struct sl_controller_backend *be = &to->backends[i];
		const struct sl_fit own = be->fit, *old = &from->backends[i].fit;
		uint32_t most = own.max_size < old->max_size ? own.max_size : old->max_size;

		*be = from->backends[i];
		be->fit.max_size = own.max_size;
		be->fit.sizes = own.sizes;
		be->fit.curve = own.curve;
		if (be->fit.largest > own.max_size)
			be->fit.largest = own.max_size;
		memcpy(own.sizes, old->sizes, (most + 1) * sizeof(*own.sizes));
		sl_fit_refresh(&be->fit);
		if (be->aimd_size > to->pool->batch.max_size)
			be->aimd_size = to->pool->batch.max_size;
	}
	to->rtt_ns = from->rtt_ns;
	to->arrival_rate = from->arrival_rate;
	to->shed_level = from->shed_level;
	to->judged = from->judged;
	to->summary = from->summary;
	/* last_ns stays 0: the next pump plans anew. */
	to->last_arrivals = from->last_arrivals;
	to->last_overload = from->last_overload;
	to->bound_ns = from->bound_ns;
	memcpy(to->trips, from->trips, sizeof(to->trips));
}

void sl_batcher_take_over(struct sl_batcher *b, struct sl_batcher *from)
{
	for (uint32_t i = 0; i < b->controller.room && i < from->controller.room; i++) {
		b->backends[i] = from->backends[i];
		if (sl_roster_up(&from->roster, i))
			sl_roster_add(&b->roster, i, b->backends[i].batches);
	}
	b->controller.up_cnt = sl_roster_up_cnt(&b->roster);
	b->due_max = from->due_max;
	b->due_bound_ns = from->due_bound_ns;
	b->counts = from->counts;
	b->open_streams = from->open_streams;
	b->overload = from->overload;
	b->lost_ns = from->lost_ns;
	move_controller(&b->controller, &from->controller);
	for (unsigned lane = 0; lane < SL_LANES; lane++) {
		struct sl_batch_item *item;

		while ((item = sl_lane_oldest(&from->queue.lanes[lane]))) {
			sl_queue_remove(&from->queue, item);
			sl_queue_push(&b->queue, item);
		}
	}
}
