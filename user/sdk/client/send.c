/* SPDX-License-Identifier: Apache-2.0 */
/* Draws servers by the power of two choices (Mitzenmacher 2001). */
#include <errno.h>
#include <stdlib.h>
#include "sdk/client/internal.h"
#include "base/clock.h"
#include "base/min.h"

enum { RETRY_NS = 1000000 };

void sl_cl_wait(struct client_call *call)
{
	struct sl_rpc_client *c = call->client;

	call->state = CALL_WAITING;
	sl_list_del(&call->node);
	sl_list_add_tail(&c->waiting[call->class], &call->node);
	c->waiting_ns = sl_min_ns(c->waiting_ns, sl_min_ns(call->deadline_ns, call->give_up_ns));
}

void sl_cl_call_unsend(struct client_call *call)
{
	if (call->server)
		call->server->in_flight--;
	call->server = NULL;
}

void sl_cl_flight_end(struct client_server *s, uint64_t batch)
{
	struct sl_list *at;

	sl_list_for_each (at, &s->flights) {
		struct client_flight *f = sl_container_of(at, struct client_flight, node);

		if (f->batch != batch)
			continue;
		sl_list_del(&f->node);
		s->unsent[f->class]--;
		for (unsigned i = 0; i < f->cnt; i++)
			sl_cl_call_unref(f->calls[i]);
		free(f);
		return;
	}
}

static bool can_take(const struct sl_rpc_client *c, const struct client_server *s, uint8_t class)
{
	return s->unsent[class] < SL_CL_UNSENT_MAX && c->now_ns >= s->full_until_ns;
}

static struct client_server *draw_server(struct sl_rpc_client *c)
{
	return c->up[c->up_cnt == 1 ? 0 : sl_prng_below(&c->prng, c->up_cnt)];
}

static struct client_server *pick_server(struct sl_rpc_client *c, const struct client_call *call)
{
	struct client_server *best = NULL;

	for (unsigned i = 0; i < 2 && i < c->up_cnt; i++) {
		struct client_server *s = draw_server(c);

		if (s != call->excluded && can_take(c, s, call->class) &&
		    (!best || s->in_flight < best->in_flight))
			best = s;
	}
	for (unsigned i = 0; !best && i < c->up_cnt; i++) {
		if (c->up[i] != call->excluded && can_take(c, c->up[i], call->class))
			best = c->up[i];
	}
	return best;
}

static bool is_refused_by_all(const struct sl_rpc_client *c, const struct client_call *call)
{
	return c->up_cnt == 1 && c->up[0] == call->excluded;
}

static void fill_item(struct sl_rpc_item *item, struct sl_span spans[2], struct client_call *call,
		      uint64_t now_ns)
{
	spans[0] = sl_span_of(call->bytes, call->meta_len);
	spans[1] = sl_span_of(call->bytes + call->meta_len, call->body_len);
	*item = (struct sl_rpc_item){
		.cookie = call,
		.spans = spans,
		.span_cnt = call->body_len ? 2 : 1,
		.len = call->body_len,
		.meta_len = call->meta_len,
		.idempotent = call->idempotent,
		.stream = call->stream,
		.open = call->stream,
		.class = call->class,
		.budget_us = call->deadline_ns == UINT64_MAX
				     ? 0
				     : (call->deadline_ns - now_ns) / SL_NS_PER_US + 1,
	};
}

static void mark_sent(struct client_flight *f, const struct sl_rpc_item *items)
{
	struct client_server *s = f->server;
	struct sl_rpc_client *c = s->client;

	s->unsent[f->class]++;
	s->in_flight += f->cnt;
	sl_list_add_tail(&s->flights, &f->node);
	for (unsigned i = 0; i < f->cnt; i++) {
		struct client_call *call = f->calls[i];

		sl_list_del(&call->node);
		sl_list_add_tail(&c->open, &call->node);
		call->refs++;
		call->state = CALL_SENT;
		call->server = s;
		call->rpc_id = items[i].id;
		call->reply.attempts++;
		if (call->stream)
			sl_cl_send_parts(call);
	}
}

static int send_flight(struct client_flight *f)
{
	struct sl_rpc_client *c = f->server->client;
	int rc;

	for (unsigned i = 0; i < f->cnt; i++)
		fill_item(&c->items[i], c->spans[i], f->calls[i], c->now_ns);
	rc = sl_rpc_send(f->server->channel, c->items, f->cnt, c->now_ns, &f->batch);
	if (!rc)
		mark_sent(f, c->items);
	return rc;
}

static unsigned group_len(struct sl_rpc_client *c, const struct client_call *first)
{
	const struct sl_list *head = &c->waiting[first->class], *at;
	uint64_t bytes = 0;
	unsigned n = 0;

	for (at = &first->node; at != head && n < SL_RPC_MAX_BATCH; at = at->next) {
		const struct client_call *call = sl_container_of((struct sl_list *)(uintptr_t)at,
								 const struct client_call, node);

		bytes += sizeof(struct sl_rpc_entry) + call->meta_len + call->body_len + 16;
		if (n && (first->stream || call->stream || call->excluded != first->excluded ||
			  bytes > SL_RPC_MAX_MESSAGE ||
			  !(call->grouped || (c->up_cnt == 1 && n < SL_CL_GROUP_MAX))))
			break;
		n++;
	}
	return n;
}

static struct client_flight *new_flight(struct client_server *s, struct client_call *first,
					unsigned cnt)
{
	struct client_flight *f = malloc(sizeof(*f) + cnt * sizeof(f->calls[0]));
	struct sl_list *at = &first->node;

	if (!f)
		return NULL;
	*f = (struct client_flight){.server = s, .class = first->class, .cnt = cnt};
	sl_list_init(&f->node);
	for (unsigned i = 0; i < cnt; i++, at = at->next)
		f->calls[i] = sl_container_of(at, struct client_call, node);
	return f;
}

static bool send_group(struct sl_rpc_client *c, struct client_call *first)
{
	struct client_server *s = pick_server(c, first);
	struct client_flight *f = s ? new_flight(s, first, group_len(c, first)) : NULL;
	int rc = f ? send_flight(f) : -EAGAIN;

	if (!rc)
		return true;
	free(f);
	if (rc == -EMSGSIZE || rc == -EINVAL) {
		sl_cl_call_end(first, rc);
		return true;
	}
	if (s)
		s->full_until_ns = c->now_ns + RETRY_NS;
	c->retry_ns = sl_min_ns(c->retry_ns, c->now_ns + RETRY_NS);
	return false;
}

static uint64_t next_look(struct client_call *call)
{
	struct sl_rpc_client *c = call->client;

	if (c->up_cnt)
		call->give_up_ns = c->now_ns + c->opt.connect_timeout_ms * SL_NS_PER_MS;
	return sl_min_ns(call->deadline_ns, call->give_up_ns);
}

static void end_late(struct sl_rpc_client *c)
{
	struct sl_list *at, *next;

	c->waiting_ns = UINT64_MAX;
	for (unsigned i = 0; i < SL_CLASS_CNT; i++) {
		sl_list_for_each_safe (at, next, &c->waiting[i]) {
			struct client_call *call = sl_container_of(at, struct client_call, node);

			if (c->now_ns >= call->deadline_ns)
				sl_cl_call_end(call, -ETIMEDOUT);
			else if (c->now_ns >= call->give_up_ns && !c->up_cnt)
				sl_cl_call_end(call, call->excluded ? -EBUSY : -EHOSTUNREACH);
			else
				c->waiting_ns = sl_min_ns(c->waiting_ns, next_look(call));
		}
	}
}

void sl_cl_send_waiting(struct sl_rpc_client *c)
{
	struct client_call *first;

	if (c->now_ns >= c->waiting_ns)
		end_late(c);
	for (unsigned i = 0; c->up_cnt && i < SL_CLASS_CNT; i++) {
		while ((first = sl_list_first(&c->waiting[i], struct client_call, node))) {
			if (is_refused_by_all(c, first))
				sl_cl_call_end(first, -EBUSY);
			else if (!send_group(c, first))
				break;
		}
	}
}

static bool may_retry(const struct client_call *call, bool may_be_done, bool counts)
{
	const struct sl_rpc_client *c = call->client;

	if (call->begun || call->parts_gone || c->closing || c->now_ns >= call->deadline_ns ||
	    (may_be_done && !call->idempotent))
		return false;
	return counts ? call->repeats < SL_CL_RETRIES_MAX : call->retries < SL_CL_ELSEWHERE_MAX;
}

void sl_cl_retry_or_end(struct client_call *call, bool may_be_done, int error)
{
	struct client_server *s = call->server;
	bool live = sl_rpc_channel_state(s->channel) == SL_RPC_UP;
	bool counts = may_be_done || live;

	sl_cl_call_unsend(call);
	if (!may_retry(call, may_be_done, counts)) {
		sl_cl_call_end(call, error);
		return;
	}
	call->retries++;
	call->repeats += counts;
	call->excluded = live ? s : NULL;
	call->give_up_ns =
		call->client->now_ns + call->client->opt.connect_timeout_ms * SL_NS_PER_MS;
	atomic_fetch_add(&call->client->count.retries, 1);
	sl_cl_wait(call);
}
