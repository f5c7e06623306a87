/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Life cycle of a call:
 *
 *   new -> waits -> assign -> answered -> reply ... reply -> end
 *            ^                   |
 *            +------ lost -------+  if it is unanswered, and idempotent or cannot have been read
 *
 * The client, the deadline or an error ends it in any state.
 */
#include <errno.h>

#include "base/clock.h"
#include "base/log.h"
#include "origin/reply.h"
#include "origin/server.h"

#define REST_NS (200 * SL_NS_PER_MS)

static const struct origin_owner *owner_of(const struct origin_call *call)
{
	return call->server->origin->owner;
}

static void end_late(struct origin_timer *t)
{
	origin_call_fail(sl_container_of(t, struct origin_call, late), SL_RPC_EXPIRED);
}

struct origin_call *origin_call_new(struct origin_server *s, struct sl_request_view *rq,
				    bool stream)
{
	struct origin *o = s->origin;
	struct origin_call *call = sl_mempool_get(&o->calls);
	uint64_t budget_us;

	if (!call)
		return NULL;
	*call = (struct origin_call){
		.server = s,
		.rq = rq,
		.deadline_ns = UINT64_MAX,
		.grpc = rq->protocol == SL_PROTO_GRPC,
		.late.fn = end_late,
	};
	sl_list_init(&call->link);
	if (!origin_queue_enter(&s->waiting, call, rq->client)) {
		sl_mempool_put(&o->calls, call);
		return NULL;
	}
	rq->own = call;
	budget_us = rq->long_budget_us ? rq->long_budget_us : rq->budget_us;
	if (budget_us && budget_us < (UINT64_MAX - rq->arrived_ns) / SL_NS_PER_US) {
		call->deadline_ns = rq->arrived_ns + budget_us * SL_NS_PER_US;
		origin_timer_set(o, &call->late, call->deadline_ns);
	}
	if (stream)
		origin_body_init(call);
	origin_queue_add(&s->waiting, call);
	return call;
}

static void set_stream(struct origin_call *call, bool is)
{

	call->client->streams_cnt += is;
	call->client->streams_cnt -= call->streams;
	call->server->origin->pump |= call->streams && !is;
	call->streams = is;
}

static void count_call(struct origin_call *call)
{
	struct origin_server *s = call->server;

	call->start_ns = s->origin->now_ns;
	set_stream(call, false);
	if (call->counted)
		return;
	origin_queue_hold(&s->waiting, call);
	s->busy_cnt++;
	call->counted = true;
}

static void uncount_call(struct origin_call *call)
{
	struct origin_server *s = call->server;

	set_stream(call, false);
	if (!call->counted)
		return;
	origin_queue_release(&s->waiting, call);
	s->busy_cnt--;
	s->origin->pump = true;
	call->counted = false;
}

/* Frees the place of a call that waits for its client, unless the limit is fixed. */
static void let_go(struct origin_call *call)
{
	if (call->server->limit.fixed)
		return;
	uncount_call(call);
	set_stream(call, true);
}

static void end_call(struct origin_call *call)
{
	struct origin_server *s = call->server;

	uncount_call(call);
	origin_queue_leave(&s->waiting, call);
	origin_body_drop(call);
	origin_timer_cancel(s->origin, &call->late);
	sl_mempool_put(&s->origin->calls, call);
}

static void take_off(struct origin_call *call)
{
	struct origin_server *s = call->server;

	if (call->over)
		return;
	if (call->conn) {
		s->proto->cancel(call->conn, call);
	} else if (call->rest_ns) {
		sl_list_del(&call->link);
	} else if (!sl_list_empty(&call->link)) {
		origin_queue_remove(&s->waiting, call);
	}
}

void origin_call_fail(struct origin_call *call, enum sl_rpc_status status)
{
	struct sl_request_view *rq = call->rq;

	take_off(call);
	rq->own = NULL;
	call->rq = NULL;
	(void)owner_of(call)->reply_error(rq, status);
	end_call(call);
}

void origin_call_refuse(struct origin_call *call)
{
	origin_call_fail(call, call->repeated ? SL_RPC_UNANSWERED : SL_RPC_REFUSED);
}

void origin_call_data(struct origin_call *call, const void *bytes, size_t len, size_t left)
{
	if (!origin_body_add(call, bytes, len, left))
		origin_call_fail(call, SL_RPC_INTERNAL);
	else
		call->server->proto->body(call->conn, call);
}

void origin_call_data_end(struct origin_call *call)
{
	if (!origin_body_end(call)) {
		origin_call_fail(call, SL_RPC_INTERNAL);
		return;
	}
	if (!call->headed)
		count_call(call);
	call->server->proto->body(call->conn, call);
}

void origin_calls_rested(struct origin_timer *rest)
{
	struct origin_server *s = sl_container_of(rest, struct origin_server, rest);
	struct origin_call *call;

	while ((call = sl_list_first(&s->resting, struct origin_call, link)) &&
	       call->rest_ns <= s->origin->now_ns) {
		call->rest_ns = 0;
		sl_list_del(&call->link);
		origin_queue_again(&s->waiting, call);
	}
	if (call)
		origin_timer_set(s->origin, &s->rest, call->rest_ns);
}

/* Delays the last try: connections of a dying process end one by one. */
static void pause_reconnect(struct origin_call *call)
{
	struct origin_server *s = call->server;

	call->rest_ns = s->origin->now_ns + REST_NS;
	sl_list_add_tail(&s->resting, &call->link);
	s->probe = true;
	if (!sl_timer_pending(&s->rest.t))
		origin_timer_set(s->origin, &s->rest, call->rest_ns);
}

static void lose_call(struct origin_call *call, const char *why)
{
	struct origin_server *s = call->server;

	call->over = true;
	if (call->conn->unread)
		call->written = false;
	/*
	 * RFC 9110 9.2.2: a non-idempotent request is repeated only if none of it can have been
	 * read.
	 */
	if (call->answered || call->tries >= ORIGIN_TRIES_MAX ||
	    (call->body.taken && call->body.once) || (call->written && !call->rq->idempotent)) {
		SL_LOG_EVERY(SL_NS_PER_SEC, SL_LOG_WARN, "%s: %s: a request was lost: %s",
			     s->origin->area, s->name, why);
		origin_call_fail(call, SL_RPC_LOST);
		return;
	}
	call->conn = NULL;
	call->stream = NULL;
	call->repeated |= call->written;
	call->written = call->over = false;
	s->origin->pump = true;
	uncount_call(call);
	if (call->body.on)
		origin_body_stop(call);
	if (call->tries > 1)
		pause_reconnect(call);
	else
		origin_queue_again(&s->waiting, call);
}

void origin_call_assign(struct origin_call *call, struct origin_conn *c)
{
	struct origin_server *s = call->server;

	call->conn = c;
	c->called = true;
	call->tries++;
	call->written = false;
	if (!call->body.on || call->body.ended || !call->rq->length || s->limit.fixed)
		count_call(call);
	else
		set_stream(call, true);
}

static void on_answered(struct origin_call *call)
{
	struct origin_server *s = call->server;

	call->headed = true;
	if (!call->begun && call->counted)
		origin_concurrency_limit_sample(&s->limit, s->origin->now_ns - call->start_ns,
						s->busy_cnt);
	if (!call->body.on)
		return;
	origin_body_once(call);
	let_go(call);
}

static bool send_continue(struct origin_call *call)
{
	if (owner_of(call)->send_continue(call->rq) != -EAGAIN)
		return true;
	origin_call_fail(call, SL_RPC_REFUSED);
	return false;
}

static void pass_interim(struct origin_call *call, uint16_t status,
			 const struct origin_reply_fields *fields)
{
	const struct sl_reply_args args = {
		.status = status, .headers = fields->at, .header_cnt = fields->cnt};

	if (!call->grpc)
		(void)owner_of(call)->reply_interim(call->rq, &args);
}

static bool pass_reply(struct origin_call *call, const struct sl_reply_args *args)
{
	struct sl_request_view *rq = call->rq;
	int rc;

	if (!args->more)
		rq->own = NULL;
	rc = owner_of(call)->reply(rq, args);
	if (rc == -EAGAIN) {
		let_go(call);
		return false;
	}
	call->begun = true;
	if (rc == -EMSGSIZE) {
		rq->own = NULL;
		(void)owner_of(call)->reply_error(rq, SL_RPC_INTERNAL);
	}
	if (args->more && rc == 0)
		return true;
	call->rq = NULL;
	take_off(call);
	end_call(call);
	return true;
}

static void set_flow(struct origin_call *call, bool flows)
{
	if (flows)
		owner_of(call)->resume(call->rq);
	else
		owner_of(call)->pause(call->rq);
}

const struct origin_ops origin_call_ops = {
	.answered = on_answered,
	.send_continue = send_continue,
	.interim = pass_interim,
	.reply = pass_reply,
	.fail = origin_call_fail,
	.lost = lose_call,
	.flow = set_flow,
};
