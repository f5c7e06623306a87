/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "batch/pick.h"
#include "core/client.h"
#include "core/hedge.h"
#include "core/outcome.h"
#include "core/sent_batch.h"
#include "core/pool.h"

static bool may_retry(const struct sl_exchange *x, bool begun, bool counts)
{
	if ((begun && !x->idempotent) || x->core->now_ns >= x->deadline_ns)
		return false;
	return counts ? x->repeats < SL_MAX_RETRIES : x->retries < SL_MAX_ELSEWHERE;
}

/*
 * Sends the request again, to another backend, or to this one once it is up. False: no retry.
 * `begun`: it may have been executed.
 */
static bool retry_exchange(struct sl_exchange *x, bool begun)
{
	struct sl_core *c = x->core;
	bool up = x->backend->served, counts = begun || up;

	if (!may_retry(x, begun, counts) ||
	    !(x->stream.open_ended ? sl_stream_can_retry(x) : sl_sent_batch_share(x)))
		return false;
	if (counts && !sl_retry_take(&x->pool->budget, c->now_ns)) {
		c->stats.retries_refused++;
		return false;
	}
	x->retries++;
	x->repeats += counts;
	if (up)
		x->item.excluded[x->item.excluded_cnt++] = x->backend->number;
	if (x->stream.open_ended)
		sl_stream_requeue(x);
	else if (sl_dispatch_submit(x) != SL_OUTCOME_OK)
		return false;
	c->stats.retried++;
	return true;
}

static void retry_or_fail(struct sl_exchange *x, bool again, bool may_be_done, enum sl_outcome why)
{
	bool begun = x->state == SL_EX_REPLYING;

	if (sl_unlikely(x->twin) && sl_hedge_failed(x, why))
		return;
	x->state = SL_EX_READING;
	if (begun || !again || !retry_exchange(x, may_be_done))
		sl_exchange_fail(x, why);
}

static void on_failed(void *app, void *cookie, enum sl_rpc_failure why)
{
	const struct sl_exchange *x = cookie;
	const struct sl_backend_ref *m = x->backend;
	bool late = why == SL_RPC_FAIL_TIMEOUT;

	(void)app;
	if (late && x->own_deadline)
		sl_backend_outcome(x->backend, SL_FAULT_LOST, 0);
	/* The channel goes down before its state is reported: update the batcher first. */
	if (m->served && sl_rpc_channel_state(m->channel) == SL_RPC_DOWN)
		sl_pool_update_batcher(m->pool);
	retry_or_fail(cookie, !late, why != SL_RPC_FAIL_DOWN,
		      late ? SL_OUTCOME_EXPIRED : SL_OUTCOME_BACKEND_LOST);
}

static enum sl_outcome outcome_of(uint8_t status)
{
	switch (status) {
	case SL_RPC_REFUSED: return SL_OUTCOME_NO_BACKEND;
	case SL_RPC_EXPIRED: return SL_OUTCOME_EXPIRED;
	case SL_RPC_NO_METHOD: return SL_OUTCOME_NO_ROUTE;
	case SL_RPC_TOO_LARGE: return SL_OUTCOME_TOO_LARGE;
	case SL_RPC_LOST:
	case SL_RPC_UNANSWERED: return SL_OUTCOME_BACKEND_LOST;
	case SL_RPC_COMPRESSED: return SL_OUTCOME_COMPRESSED;
	default: return SL_OUTCOME_BACKEND_ERROR;
	}
}

static void lend_reply(struct sl_exchange *x, const struct sl_rpc_reply *r)
{
	struct sl_loan *l = &x->core->loan;
	bool prefixed = x->stream.prefix, begins = x->state == SL_EX_IN_FLIGHT;
	const struct sl_span none = {0};
	size_t prefix_len = 0;

	l->x = x;
	l->is_head = begins;
	l->head = begins ? r->meta : none;
	l->tail = r->first && !r->more && x->stream.trailers ? r->meta : none;
	if (prefixed && r->no_message) { /* message protocols get none */
		l->body[0] = l->body[1] = none;
		return;
	}
	if (prefixed && r->first)
		prefix_len = x->stream.prefix(l->prefix, r->total_len, r->compressed);
	l->body[0] = sl_span_of(l->prefix, prefix_len);
	l->body[1] = r->body;
	if (begins && !r->more)
		x->reply_len = prefix_len + r->total_len;
}

static bool keep_rest(struct sl_exchange *x, const struct sl_loan *l)
{
	bool head = l->is_head && !x->stream.started;

	if (head && !sl_exchange_keep(x, &x->reply, l->head))
		return false;
	if (head)
		x->head_len = (uint16_t)l->head.len;
	if (l->tail.len && !head && !sl_exchange_keep(x, &x->tail, l->tail))
		return false;
	return sl_exchange_keep(x, &x->reply, l->body[0]) &&
	       sl_exchange_keep(x, &x->reply, l->body[1]);
}

static void end_loan(struct sl_core *c)
{
	struct sl_exchange *x = c->loan.x;
	size_t left;

	if (!x)
		return;
	c->loan.x = NULL;
	left = c->loan.body[0].len + c->loan.body[1].len;
	if (c->loan.is_head && !x->stream.started)
		left += c->loan.head.len;
	if (left && !sl_exchange_may_store(x, left))
		sl_exchange_fail(x, SL_OUTCOME_ADDRESS_LIMIT);
	else if (!keep_rest(x, &c->loan))
		sl_exchange_fail(x, SL_OUTCOME_NO_MEMORY);
	else
		sl_exchange_charge(x);
	if (x->state == SL_EX_REPLYING)
		sl_exchange_reply_kept(x);
	sl_min_rate_join(x);
}

static SL_COLD void take_extras(struct sl_exchange *x, const struct sl_rpc_reply *r, bool begins)
{
	if (begins && x->extra & SL_EXTRA_HEDGE)
		sl_hedge_end(x);
	if (x->extra & SL_EXTRA_CHARGE && r->meta.len)
		sl_quotas_charge(x, r->meta);
	if (x->extra & SL_EXTRA_CHARGE && x->route->usage_member)
		sl_quotas_read_reply(x, r);
}

static void take_reply(struct sl_exchange *x, const struct sl_rpc_reply *r)
{
	struct sl_core *c = x->core;
	struct sl_client *cl = x->client;
	bool begins = x->state == SL_EX_IN_FLIGHT;

	sl_sent_batch_release_head(x);
	if (begins) {
		x->in_parts = r->more;
		x->reply_len = r->more ? SL_LEN_UNKNOWN : 0;
		x->service_us = r->service_us;
	}
	if (x->stream.open_ended)
		sl_stream_on_reply(x, r);
	if (sl_unlikely(x->extra & (SL_EXTRA_CHARGE | SL_EXTRA_HEDGE)))
		take_extras(x, r, begins);
	lend_reply(x, r);
	x->state = r->last && !r->more ? SL_EX_WHOLE : SL_EX_REPLYING;
	if (x->state == SL_EX_WHOLE) {
		sl_timer_cancel(&c->late, &x->late);
		sl_list_del(&x->item.link);
		x->stream.refused |= x->open;
	}
	/* No retry after the reply has begun; a stream may have more parts. */
	if (x->state == SL_EX_WHOLE || (begins && !x->stream.open_ended))
		sl_sent_batch_release(x);
	sl_client_ready(cl, &x->stream);
	end_loan(c);
	sl_client_progress(cl);
}

static void first_part(struct sl_exchange *x, const struct sl_rpc_reply *r)
{
	struct sl_core *c = x->core;
	uint64_t service_ns = (uint64_t)r->service_us * SL_NS_PER_US;
	uint64_t flight_ns = c->now_ns - x->send_ns;
	uint64_t trip_ns = flight_ns > service_ns ? flight_ns - service_ns : 0;

	x->reply_ns = c->now_ns;
	x->backend->codes.sum_ns += flight_ns;
	sl_hist_add(x->backend->codes.bucket, flight_ns);
	sl_stage_add(x, SL_STAGE_COMPUTE, service_ns);
	if (x->stream.open_ended ||
	    sl_batcher_replied(x->pool->batcher, x->backend->number, x->send_ns, trip_ns))
		sl_stage_add(x, SL_STAGE_RPC, trip_ns);
}

/*
 * Counts a failure of the backend. A refusal says nothing about the server; other statuses are the
 * client's.
 */
static void note_failure(const struct sl_exchange *x, enum sl_rpc_status status)
{
	if (status == SL_RPC_LOST || status == SL_RPC_UNANSWERED || status == SL_RPC_INTERNAL ||
	    (status == SL_RPC_EXPIRED && x->own_deadline))
		sl_backend_outcome(x->backend, SL_FAULT_LOST, 0);
}

static SL_COLD struct sl_exchange *take_hedge(struct sl_exchange *h, const struct sl_rpc_reply *r)
{
	struct sl_exchange *x = h->twin;

	if (r->status == SL_RPC_OK) {
		sl_hedge_won(x);
		return x;
	}
	note_failure(h, (enum sl_rpc_status)r->status);
	(void)sl_hedge_failed(h, SL_OUTCOME_OK);
	return NULL;
}

static void on_reply(void *app, void *cookie, const struct sl_rpc_reply *r)
{
	struct sl_exchange *x = cookie;

	(void)app;
	if (r->first && x->state == SL_EX_IN_FLIGHT) {
		if (sl_unlikely(x->is_hedge) && !(x = take_hedge(x, r)))
			return;
		first_part(x, r);
	}
	if (r->status == SL_RPC_OK) {
		sl_backend_replied(x, r);
		take_reply(x, r);
		return;
	}
	note_failure(x, (enum sl_rpc_status)r->status);
	x->reply_ns = 0;
	retry_or_fail(x, r->status == SL_RPC_REFUSED || r->status == SL_RPC_UNANSWERED,
		      r->status == SL_RPC_UNANSWERED, outcome_of(r->status));
}

static void on_interim(void *app, void *cookie, struct sl_span meta)
{
	struct sl_exchange *x = cookie;
	struct sl_client *cl = x->client;
	SL_UNINIT struct sl_reply_parts parts;

	(void)app;
	if (sl_unlikely(x->is_hedge))
		return;
	x->active_ns = x->core->now_ns;
	sl_sent_batch_release_head(x);
	if (!sl_reply_decode(meta, SL_REPLY_INTERIM, &parts))
		sl_exchange_fail(x, SL_OUTCOME_BACKEND_ERROR);
	else if (sl_client_front(cl)->interim)
		sl_client_front(cl)->interim(cl->state, &cl->core->env, &x->stream, &parts.reply);
}

/* Reports a batch to the batcher. Only answered batches tell the speed. */
static void on_batch_done(void *app, void *backend, const struct sl_rpc_batch_end *end)
{
	struct sl_core *c = app;
	struct sl_backend_ref *m = backend;
	uint64_t service_ns = 0;

	if (end->stream) {
		sl_pick_stream_done(m->pool->batcher, m->number);
		return;
	}
	if (end->answered && end->service_us)
		service_ns = (uint64_t)end->service_us * SL_NS_PER_US;
	else if (end->answered)
		service_ns = SL_NS_PER_US / 2; /* too short to measure */
	sl_batcher_done(m->pool->batcher, m->number, end->count, end->sent_ns, end->together,
			service_ns, c->now_ns);
}

static void on_sent(void *app, void *backend, uint64_t batch)
{
	sl_sent_batch_done(app, backend, batch);
}

static enum sl_backend_state state_of(enum sl_rpc_state state)
{
	if (state == SL_RPC_DOWN)
		return SL_BACKEND_DOWN;
	return state == SL_RPC_DRAINING ? SL_BACKEND_UNREADY : SL_BACKEND_UP;
}

static void on_state(void *app, void *backend, enum sl_rpc_state state)
{
	struct sl_core *c = app;
	struct sl_backend_ref *m = backend;

	sl_backend_ref_set_state(m, state_of(state));
	c->serving_changed = true;
	if (state == SL_RPC_UP && sl_health_returned(&m->health->health))
		sl_pool_health_changed(m->health->pool);
	if (m->joined)
		sl_pool_update_batcher(m->pool);
}

static void on_moved(void *app, void *backend, bool gone_on)
{
	struct sl_backend_ref *m = backend;

	(void)app;
	atomic_fetch_add(gone_on ? &m->switched_cnt : &m->stayed_cnt, 1);
}

#ifdef SL_DEBUG
/* Checks in debug builds that frames stay until the RPC has returned them. */
static void on_watch(void *app, enum sl_rpc_watch what, const struct sl_span *spans, uint32_t cnt)
{
	static const int steps[] = {[SL_RPC_LENT] = 1, [SL_RPC_READ] = 0, [SL_RPC_RETURNED] = -1};
	struct sl_core *c = app;

	for (uint32_t i = 0; i < cnt; i++) {
		if (!spans[i].len) /* an empty span may point behind its frame */
			continue;
		sl_frame_check_lent(c->net->umem, spans[i].ptr, steps[what]);
	}
}
#endif

const struct sl_rpc_ops sl_backend_ops = {
	.reply = on_reply,
	.failed = on_failed,
	.batch_done = on_batch_done,
	.sent = on_sent,
	.state = on_state,
	.moved = on_moved,
	.credit = sl_stream_on_credit,
	.go_on = sl_stream_on_continue,
	.interim = on_interim,
#ifdef SL_DEBUG
	.watch = on_watch,
#endif
};
