/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Life cycle of a call. server.c creates it and finds a connection; h1.c and h2.c report events:
 *
 *   new -> waits -> assign -> answered -> reply ... reply -> end
 *            ^                   |
 *            +------ lost -------+  if it is unanswered, and idempotent or cannot have been read
 *
 * The client, the deadline or an error ends it at any time: fail.
 */
#include <errno.h>

#include "agent/internal.h"
#include "base/clock.h"
#include "base/log.h"
#include "front/front.h"
#include "origin/reply.h"

#define REST_NS (200 * SL_NS_PER_MS)

struct origin_call *agent_call_new(struct agent_server *s, struct sl_request_view *rq, bool stream)
{
	struct agent *a = s->a;
	struct agent_call *own = sl_mempool_get(&a->calls);
	struct origin_call *call = &own->origin;
	uint64_t budget_us;

	if (!own)
		return NULL;
	*own = (struct agent_call){0};
	*call = (struct origin_call){
		.server = &s->origin,
		.rq = rq,
		.deadline_ns = UINT64_MAX,
		.grpc = rq->protocol == SL_PROTO_GRPC,
	};
	sl_list_init(&call->link);
	if (!origin_queue_enter(&s->waiting, call, rq->client)) {
		sl_mempool_put(&a->calls, own);
		return NULL;
	}
	rq->own = call;
	budget_us = rq->long_budget_us ? rq->long_budget_us : rq->budget_us;
	if (budget_us && budget_us < (UINT64_MAX - rq->arrived_ns) / SL_NS_PER_US) {
		call->deadline_ns = rq->arrived_ns + budget_us * SL_NS_PER_US;
		agent_timer_set(a, &own->late, call->deadline_ns);
	}
	if (stream)
		origin_body_init(call);
	origin_queue_add(&s->waiting, call);
	return call;
}

static void set_stream(struct origin_call *call, bool is)
{
	struct agent_call *own = agent_call_of(call);

	call->client->streams_cnt += is;
	call->client->streams_cnt -= own->streams;
	agent_server_of(call)->a->pump |= own->streams && !is;
	own->streams = is;
}

static void count_call(struct origin_call *call)
{
	struct agent_server *s = agent_server_of(call);
	struct agent_call *own = agent_call_of(call);

	own->start_ns = s->a->now_ns;
	set_stream(call, false);
	if (own->counted)
		return;
	origin_queue_hold(&s->waiting, call);
	s->busy_cnt++;
	own->counted = true;
}

static void uncount_call(struct origin_call *call)
{
	struct agent_server *s = agent_server_of(call);
	struct agent_call *own = agent_call_of(call);

	set_stream(call, false);
	if (!own->counted)
		return;
	origin_queue_release(&s->waiting, call);
	s->busy_cnt--;
	s->a->pump = true;
	own->counted = false;
}

/* Releases the place of a call that waits for its client. A fixed limit keeps counting it. */
static void let_go(struct origin_call *call)
{
	if (agent_server_of(call)->limit.fixed)
		return;
	uncount_call(call);
	set_stream(call, true);
}

void agent_call_end(struct origin_call *call)
{
	struct agent_server *s = agent_server_of(call);
	struct agent_call *own = agent_call_of(call);

	uncount_call(call);
	origin_queue_leave(&s->waiting, call);
	origin_body_drop(call);
	agent_timer_cancel(s->a, &own->late);
	sl_mempool_put(&s->a->calls, own);
}

static void take_off(struct origin_call *call)
{
	struct agent_server *s = agent_server_of(call);

	if (call->over)
		return;
	if (call->conn) {
		s->proto->cancel(call->conn, call);
	} else if (agent_call_of(call)->rest_ns) {
		sl_list_del(&call->link);
	} else if (!sl_list_empty(&call->link)) {
		origin_queue_remove(&s->waiting, call);
	}
}

void agent_call_fail(struct origin_call *call, enum sl_rpc_status status)
{
	struct sl_request_view *rq = call->rq;

	take_off(call);
	rq->own = NULL;
	call->rq = NULL;
	(void)sl_reply_error(rq, status);
	agent_call_end(call);
}

void agent_call_refuse(struct origin_call *call)
{
	agent_call_fail(call, agent_call_of(call)->repeated ? SL_RPC_UNANSWERED : SL_RPC_REFUSED);
}

void agent_call_data(struct origin_call *call, const void *bytes, size_t len, size_t left)
{
	if (!origin_body_add(call, bytes, len, left))
		agent_call_fail(call, SL_RPC_INTERNAL);
	else
		agent_server_of(call)->proto->body(call->conn, call);
}

void agent_call_data_end(struct origin_call *call)
{
	if (!origin_body_end(call)) {
		agent_call_fail(call, SL_RPC_INTERNAL);
		return;
	}
	if (!call->answered)
		count_call(call);
	agent_server_of(call)->proto->body(call->conn, call);
}

/*
 * Delays the last try: connections of a dying process end one by one, and an immediate try could
 * meet another of them.
 */
static void pause_reconnect(struct origin_call *call)
{
	struct agent_server *s = agent_server_of(call);
	struct agent_call *own = agent_call_of(call);

	own->rest_ns = s->a->now_ns + REST_NS;
	sl_list_add_tail(&s->resting, &call->link);
	s->probe = true;
	if (!sl_timer_pending(&s->rest.t))
		agent_timer_set(s->a, &s->rest, own->rest_ns);
}

void agent_calls_rested(struct agent_server *s)
{
	struct origin_call *call;

	while ((call = sl_list_first(&s->resting, struct origin_call, link)) &&
	       agent_call_of(call)->rest_ns <= s->a->now_ns) {
		agent_call_of(call)->rest_ns = 0;
		sl_list_del(&call->link);
		origin_queue_again(&s->waiting, call);
	}
	if (call)
		agent_timer_set(s->a, &s->rest, agent_call_of(call)->rest_ns);
}

void agent_call_lost(struct origin_call *call, const char *why)
{
	struct agent_server *s = agent_server_of(call);

	call->over = true;
	/*
	 * RFC 9110 9.2.2: a request that is not idempotent is repeated only if the server cannot
	 * have read any of it.
	 */
	if (call->answered || call->tries >= AGENT_TRIES_MAX ||
	    (call->body.taken && call->body.once) || (call->written && !call->rq->idempotent)) {
		SL_LOG_EVERY(SL_NS_PER_SEC, SL_LOG_WARN, "agent: %s: a request was lost: %s",
			     s->name, why);
		agent_call_fail(call, SL_RPC_LOST);
		return;
	}
	call->conn = NULL;
	call->stream = NULL;
	agent_call_of(call)->repeated |= call->written;
	call->written = call->over = false;
	s->a->pump = true;
	uncount_call(call);
	if (call->body.on)
		origin_body_stop(call);
	if (call->tries > 1)
		pause_reconnect(call);
	else
		origin_queue_again(&s->waiting, call);
}

void agent_call_late(struct origin_call *call)
{
	agent_call_fail(call, SL_RPC_EXPIRED);
}

void agent_call_assign(struct origin_call *call, struct agent_conn *c)
{
	struct agent_server *s = agent_server_of(call);

	call->conn = &c->origin;
	call->tries++;
	call->written = false;
	if (!call->body.on || call->body.ended || !call->rq->length || s->limit.fixed)
		count_call(call);
	else
		set_stream(call, true);
}

static void on_answered(struct origin_call *call)
{
	struct agent_server *s = agent_server_of(call);
	struct agent_call *own = agent_call_of(call);

	if (!call->begun && own->counted)
		origin_concurrency_limit_sample(&s->limit, s->a->now_ns - own->start_ns,
						s->busy_cnt);
	if (!call->body.on)
		return;
	origin_body_once(call);
	let_go(call);
}

static bool send_continue(struct origin_call *call)
{
	if (sl_stream_send_continue(call->rq) != -EAGAIN)
		return true;
	agent_call_fail(call, SL_RPC_REFUSED); /* it would never end */
	return false;
}

/* Interim replies are hints, which may be dropped. */
static void pass_interim(struct origin_call *call, uint16_t status,
			 const struct origin_reply_fields *fields)
{
	const struct sl_reply_args args = {
		.status = status, .headers = fields->at, .header_cnt = fields->cnt};

	if (!call->grpc)
		(void)sl_reply_interim(call->rq, &args);
}

static bool pass_reply(struct origin_call *call, const struct sl_reply_args *args)
{
	struct sl_request_view *rq = call->rq;
	int rc;

	if (!args->more)
		rq->own = NULL;
	rc = sl_reply(rq, args);
	if (rc == -EAGAIN) {
		let_go(call);
		return false;
	}
	call->begun = true;
	if (rc == -EMSGSIZE) {
		rq->own = NULL;
		(void)sl_reply_error(rq, SL_RPC_INTERNAL);
	}
	if (args->more && rc == 0)
		return true;
	call->rq = NULL; /* sl_reply() may have freed it */
	take_off(call);
	agent_call_end(call);
	return true;
}

static void set_flow(struct origin_call *call, bool flows)
{
	if (flows)
		sl_stream_resume(call->rq);
	else
		sl_stream_pause(call->rq);
}

const struct origin_ops agent_call_ops = {
	.answered = on_answered,
	.send_continue = send_continue,
	.interim = pass_interim,
	.reply = pass_reply,
	.fail = agent_call_fail,
	.lost = agent_call_lost,
	.flow = set_flow,
};
