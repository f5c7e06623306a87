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
#include "agent/reply.h"
#include "base/clock.h"
#include "base/log.h"
#include "front/front.h"

#define REST_NS (200 * SL_NS_PER_MS)

struct agent_call *agent_call_new(struct agent_server *s, struct sl_request_view *rq, bool stream)
{
	struct agent *a = s->a;
	struct agent_call *call = sl_mempool_get(&a->calls);
	uint64_t budget_us;

	if (!call)
		return NULL;
	*call = (struct agent_call){
		.server = s,
		.rq = rq,
		.deadline_ns = UINT64_MAX,
		.grpc = rq->protocol == SL_PROTO_GRPC,
	};
	sl_list_init(&call->link);
	if (!agent_queue_enter(&s->waiting, call, rq->client)) {
		sl_mempool_put(&a->calls, call);
		return NULL;
	}
	rq->own = call;
	budget_us = rq->long_budget_us ? rq->long_budget_us : rq->budget_us;
	if (budget_us && budget_us < (UINT64_MAX - rq->arrived_ns) / SL_NS_PER_US) {
		call->deadline_ns = rq->arrived_ns + budget_us * SL_NS_PER_US;
		agent_timer_set(a, &call->late, call->deadline_ns);
	}
	if (stream)
		agent_body_init(call);
	agent_queue_add(&s->waiting, call);
	return call;
}

static void set_stream(struct agent_call *call, bool is)
{
	call->client->streams_cnt += is;
	call->client->streams_cnt -= call->streams;
	call->server->a->pump |= call->streams && !is;
	call->streams = is;
}

static void count_call(struct agent_call *call)
{
	call->start_ns = call->server->a->now_ns;
	set_stream(call, false);
	if (call->counted)
		return;
	agent_queue_hold(&call->server->waiting, call);
	call->server->busy_cnt++;
	call->counted = true;
}

static void uncount_call(struct agent_call *call)
{
	set_stream(call, false);
	if (!call->counted)
		return;
	agent_queue_release(&call->server->waiting, call);
	call->server->busy_cnt--;
	call->server->a->pump = true;
	call->counted = false;
}

/* Releases the place of a call that waits for its client. A fixed limit keeps counting it. */
static void let_go(struct agent_call *call)
{
	if (call->server->limit.fixed)
		return;
	uncount_call(call);
	set_stream(call, true);
}

void agent_call_end(struct agent_call *call)
{
	struct agent_server *s = call->server;

	uncount_call(call);
	agent_queue_leave(&s->waiting, call);
	agent_body_drop(call);
	agent_timer_cancel(s->a, &call->late);
	sl_mempool_put(&s->a->calls, call);
}

static void take_off(struct agent_call *call)
{
	struct agent_server *s = call->server;

	if (call->over)
		return;
	if (call->conn) {
		s->proto->cancel(call->conn, call);
	} else if (call->rest_ns) {
		sl_list_del(&call->link);
	} else if (!sl_list_empty(&call->link)) {
		agent_queue_remove(&s->waiting, call);
	}
}

void agent_call_fail(struct agent_call *call, enum sl_rpc_status status)
{
	struct sl_request_view *rq = call->rq;

	take_off(call);
	rq->own = NULL;
	call->rq = NULL;
	(void)sl_reply_error(rq, status);
	agent_call_end(call);
}

void agent_call_refuse(struct agent_call *call)
{
	agent_call_fail(call, call->repeated ? SL_RPC_UNANSWERED : SL_RPC_REFUSED);
}

void agent_call_data(struct agent_call *call, const void *bytes, size_t len, size_t left)
{
	if (!agent_body_add(call, bytes, len, left))
		agent_call_fail(call, SL_RPC_INTERNAL);
	else
		call->server->proto->body(call->conn, call);
}

void agent_call_data_end(struct agent_call *call)
{
	if (!agent_body_end(call)) {
		agent_call_fail(call, SL_RPC_INTERNAL);
		return;
	}
	if (!call->answered)
		count_call(call);
	call->server->proto->body(call->conn, call);
}

/*
 * Delays the last try: connections of a dying process end one by one, and an immediate try could
 * meet another of them.
 */
static void pause_reconnect(struct agent_call *call)
{
	struct agent_server *s = call->server;

	call->rest_ns = s->a->now_ns + REST_NS;
	sl_list_add_tail(&s->resting, &call->link);
	s->probe = true;
	if (!sl_timer_pending(&s->rest.t))
		agent_timer_set(s->a, &s->rest, call->rest_ns);
}

void agent_calls_rested(struct agent_server *s)
{
	struct agent_call *call;

	while ((call = sl_list_first(&s->resting, struct agent_call, link)) &&
	       call->rest_ns <= s->a->now_ns) {
		call->rest_ns = 0;
		sl_list_del(&call->link);
		agent_queue_again(&s->waiting, call);
	}
	if (call)
		agent_timer_set(s->a, &s->rest, call->rest_ns);
}

void agent_call_lost(struct agent_call *call, const char *why)
{
	struct agent_server *s = call->server;

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
	call->repeated |= call->written;
	call->written = call->over = false;
	s->a->pump = true;
	uncount_call(call);
	if (call->body.on)
		agent_body_stop(call);
	if (call->tries > 1)
		pause_reconnect(call);
	else
		agent_queue_again(&s->waiting, call);
}

void agent_call_late(struct agent_call *call)
{
	agent_call_fail(call, SL_RPC_EXPIRED);
}

void agent_call_assign(struct agent_call *call, struct agent_conn *c)
{
	struct agent_server *s = call->server;

	call->conn = c;
	call->tries++;
	call->written = false;
	if (!call->body.on || call->body.ended || !call->rq->length || s->limit.fixed)
		count_call(call);
	else
		set_stream(call, true);
}

void agent_call_answered(struct agent_call *call)
{
	struct agent_server *s = call->server;

	if (!call->begun && call->counted)
		agent_concurrency_limit_sample(&s->limit, s->a->now_ns - call->start_ns,
					       s->busy_cnt);
	if (!call->body.on)
		return;
	agent_body_once(call);
	let_go(call);
}

bool agent_call_send_continue(struct agent_call *call)
{
	if (sl_stream_send_continue(call->rq) != -EAGAIN)
		return true;
	agent_call_fail(call, SL_RPC_REFUSED); /* it would never end */
	return false;
}

/* Interim replies are hints, which may be dropped. */
void agent_call_interim(const struct agent_call *call, uint16_t status,
			const struct agent_reply_fields *fields)
{
	const struct sl_reply_args args = {
		.status = status, .headers = fields->at, .header_cnt = fields->cnt};

	if (!call->grpc)
		(void)sl_reply_interim(call->rq, &args);
}

bool agent_call_reply(struct agent_call *call, const struct sl_reply_args *args)
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
