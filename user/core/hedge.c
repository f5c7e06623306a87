/* SPDX-License-Identifier: Apache-2.0 */
#include "core/hedge.h"

#include "base/clock.h"
#include "batch/pick.h"
#include "core/event.h"
#include "core/pool.h"
#include "core/sent_batch.h"

#define STEP 0.0025
enum { MIN_NS = 1000, SPARE_PART = 8 };

void sl_hedge_delay_over(struct sl_hedge_delay *d)
{
	d->ns *= 1 + 19 * STEP;
}

void sl_hedge_delay_answered(struct sl_hedge_delay *d, uint64_t took_ns)
{
	double took = took_ns < MIN_NS ? MIN_NS : (double)took_ns;

	if (d->samples < SL_HEDGE_FIRST_SAMPLES) {
		d->samples++;
		d->ns = took > d->ns ? took : d->ns;
	} else if (took > d->ns) {
		sl_hedge_delay_over(d);
	} else if (d->ns > MIN_NS) {
		d->ns *= 1 - STEP;
	}
}

static bool is_adaptive(const struct sl_exchange *x)
{
	return x->route->pools->hedge_ns == SL_HEDGE_P95;
}

static uint64_t delay_of(const struct sl_exchange *x)
{
	return is_adaptive(x) ? sl_hedge_delay_ns(&x->pool->hedge_delay)
			      : x->route->pools->hedge_ns;
}

void sl_hedge_begin(struct sl_exchange *x)
{
	uint64_t after_ns = delay_of(x);

	if (after_ns)
		sl_timer_set(&x->core->late, &x->late, x->core->now_ns + after_ns);
}

static bool has_room(struct sl_exchange *x)
{
	const struct sl_mempool *p = &x->core->exchanges;
	uint32_t cap = sl_mempool_capacity(p);

	return x->repeats < SL_MAX_RETRIES && x->item.excluded_cnt < SL_MAX_EXCLUDED &&
	       cap - sl_mempool_used(p) > cap / SPARE_PART && sl_sent_batch_reserve(x);
}

static struct sl_exchange *new_hedge(struct sl_exchange *x)
{
	struct sl_exchange *h = sl_mempool_get(&x->core->exchanges);

	if (!h)
		return NULL;
	*h = (struct sl_exchange){
		.core = x->core,
		.wcfg = x->wcfg,
		.route = x->route,
		.pool = x->pool,
		.request = x->request,
		.request_meta_len = x->request_meta_len,
		.deadline_ns = x->deadline_ns,
		.rpc_class = x->rpc_class,
		.retries = 1,
		.idempotent = true,
		.twin = x,
		.is_hedge = true,
	};
	h->stream.method = x->stream.method;
	h->stream.compressed = x->stream.compressed;
	h->item = (struct sl_batch_item){.deadline_ns = x->deadline_ns,
					 .bytes = x->item.bytes,
					 .client = x->item.client,
					 .policy = x->route->policy,
					 .unproven = x->item.unproven};
	sl_list_init(&h->item.link);
	while (h->item.excluded_cnt < x->item.excluded_cnt) {
		h->item.excluded[h->item.excluded_cnt] = x->item.excluded[h->item.excluded_cnt];
		h->item.excluded_cnt++;
	}
	h->item.excluded[h->item.excluded_cnt++] = x->backend->number;
	x->twin = h;
	return h;
}

static void free_hedge(struct sl_exchange *h)
{
	h->twin->twin = NULL;
	sl_list_del(&h->item.link);
	sl_exchange_set_backend(h, NULL);
	sl_mempool_put(&h->core->exchanges, h);
}

static void send_hedge(struct sl_exchange *x)
{
	struct sl_core *c = x->core;
	struct sl_exchange *h;

	if (!sl_batcher_has_other(x->pool->batcher, &x->item, x->backend->number) || !has_room(x))
		return;
	if (!sl_retry_take(&x->pool->budget, c->now_ns)) {
		c->stats.hedges_refused++;
		return;
	}
	h = new_hedge(x);
	if (h && sl_batcher_submit_copy(x->pool->batcher, &h->item, c->now_ns) != SL_OUTCOME_OK) {
		free_hedge(h);
		h = NULL;
	}
	if (!h) {
		sl_retry_return(&x->pool->budget);
		return;
	}
	if (h->state == SL_EX_READING)
		h->state = SL_EX_QUEUED;
	x->repeats++;
	c->stats.hedges++;
}

void sl_hedge_on_timer(struct sl_exchange *x)
{
	uint64_t now_ns = x->core->now_ns, after_ns = delay_of(x);
	uint64_t since_ns = x->state == SL_EX_IN_FLIGHT ? x->send_ns : now_ns;

	if (x->state != SL_EX_IN_FLIGHT && x->state != SL_EX_QUEUED)
		return;
	if (now_ns < since_ns + after_ns) {
		sl_timer_set(&x->core->late, &x->late, since_ns + after_ns);
		return;
	}
	x->extra |= SL_EXTRA_LATE;
	if (is_adaptive(x))
		sl_hedge_delay_over(&x->pool->hedge_delay);
	send_hedge(x);
}

void sl_hedge_end(struct sl_exchange *x)
{
	if (x->twin)
		sl_hedge_drop(x);
	if (is_adaptive(x) && !(x->extra & SL_EXTRA_LATE))
		sl_hedge_delay_answered(&x->pool->hedge_delay, x->core->now_ns - x->send_ns);
}

/* Cancels the slower copy, and tells pick.c its least time. */
static void cancel_request(struct sl_exchange *x)
{
	uint64_t now_ns = x->core->now_ns;

	if (x->item.lane == SL_POLICY_DIRECT)
		sl_pick_unanswered(x->pool->batcher, x->backend->number, now_ns - x->send_ns,
				   now_ns);
	sl_rpc_cancel(x->backend->channel, x->rpc_id);
}

void sl_hedge_drop(struct sl_exchange *x)
{
	struct sl_exchange *h = x->twin;

	if (h->state == SL_EX_QUEUED)
		sl_batcher_remove(h->pool->batcher, &h->item);
	if (h->state == SL_EX_IN_FLIGHT)
		cancel_request(h);
	sl_sent_batch_share_hedge(x);
	free_hedge(h);
}

static void take_place(struct sl_exchange *x)
{
	struct sl_exchange *h = x->twin;

	(void)sl_sent_batch_share(x); /* reserved */
	sl_exchange_set_backend(x, h->backend);
	x->rpc_id = h->rpc_id;
	x->batch = h->batch;
	x->send_ns = h->send_ns;
	x->item.lane = h->item.lane;
	sl_rpc_set_cookie(x->backend->channel, x->rpc_id, x);
	if (x->note)
		sl_event_moved(x);
	free_hedge(h);
}

void sl_hedge_won(struct sl_exchange *x)
{
	x->core->stats.hedges_won++;
	cancel_request(x);
	take_place(x);
}

bool sl_hedge_failed(struct sl_exchange *x, enum sl_outcome why)
{
	if (x->is_hedge) {
		x->state = SL_EX_READING;
		sl_hedge_drop(x->twin);
		return true;
	}
	if (why == SL_OUTCOME_EXPIRED || x->twin->state != SL_EX_IN_FLIGHT) {
		sl_hedge_drop(x);
		return false;
	}
	if (x->backend->served)
		x->item.excluded[x->item.excluded_cnt++] = x->backend->number;
	take_place(x);
	return true;
}
