/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Minimum byte rates of bodies and replies (README.md). Waits for a backend are never late.
 *
 * An exchange is checked each PERIOD while it waits.
 *
 * Each quota lists its waiting exchanges, oldest first, and its other streams.
 */
#include "base/clock.h"
#include "base/min.h"
#include "core/client.h"
#include "core/exchange.h"

enum {
	PERIOD_MS = 250,
	CHECKS_PER_RUN = 256,
	HALF_CLOSE_MS = 2000, /* for a unary call to end */
};

static enum sl_client_wait client_wait_of(const struct sl_exchange *x)
{
	if (sl_stream_rate_waits(x, SL_RATE_OUT))
		return SL_WAIT_NONE;
	switch (x->state) {
	case SL_EX_READING: return sl_exchange_reads(x) ? SL_WAIT_BODY : SL_WAIT_NONE;
	case SL_EX_REPLYING:
		if (x->reply.len <= x->head_len)
			return SL_WAIT_NONE;
		break;
	case SL_EX_WHOLE:
	case SL_EX_BROKEN: break;
	default: return SL_WAIT_NONE;
	}
	return x->stream.started ? SL_WAIT_REPLY : SL_WAIT_QUEUED;
}

enum sl_client_wait sl_exchange_client_wait(const struct sl_exchange *x)
{
	enum sl_client_wait wait = client_wait_of(x);

	if (wait == SL_WAIT_NONE && sl_exchange_waits_for_backend(x) && x->request.head)
		return SL_WAIT_BACKEND;
	return wait;
}

static uint64_t limit_ns(const struct sl_exchange *x)
{
	const struct sl_cfg_limits *l = &x->core->cfg->limits;

	if (x->wait != SL_WAIT_BODY)
		return l->send_timeout_ns;
	if (x->stream.message_over)
		return sl_min_ns(l->body_timeout_ns, HALF_CLOSE_MS * SL_NS_PER_MS);
	return l->body_timeout_ns;
}

/*
 * Returns the client's progress, modulo 2^32: the connection's for streams without a window. While
 * TCP has no room, acknowledged bytes count too.
 */
static uint32_t moved_bytes(const struct sl_exchange *x)
{
	const struct sl_client *cl = x->client;
	const struct sl_front_ops *front = sl_client_front(cl);
	uint32_t n = x->taken, shared = 0;
	struct sl_conn transport;

	if (x->wait == SL_WAIT_BODY)
		return (uint32_t)x->body_len;
	if (x->wait == SL_WAIT_BACKEND)
		return x->given;
	if (front->flow && !front->flow(cl->state, &x->stream, &shared))
		return n;
	n += shared;
	transport = sl_client_transport(cl);
	return cl->blocked ? n + transport.ops->read_bytes(transport.self) : n;
}

static void check_later(struct sl_exchange *x)
{
	x->check_ns = x->core->now_ns + PERIOD_MS * SL_NS_PER_MS;
	sl_list_del(&x->rate_node);
	sl_list_add_tail(&x->core->min_rate_list, &x->rate_node);
}

void sl_min_rate_join(struct sl_exchange *x)
{
	if (!sl_list_empty(&x->rate_node) || x->client->proto >= SL_CLIENT_DATAGRAM)
		return;
	x->pace = UINT32_MAX;
	x->wait = SL_WAIT_NONE; /* unknown to its front */
	check_later(x);
	sl_list_del(&x->quota_node);
	sl_list_add_tail(&x->quota->waiting, &x->quota_node);
}

static bool is_late(struct sl_exchange *x)
{
	const struct sl_cfg_limits *l = &x->core->cfg->limits;
	uint64_t rate = x->wait == SL_WAIT_BODY ? l->body_rate : l->send_rate;
	uint64_t now = x->core->now_ns, most = now + limit_ns(x);
	uint32_t n = moved_bytes(x), more = n - x->moved;

	x->moved = n;
	x->pace = more;
	if (x->wait == SL_WAIT_BACKEND)
		return false;
	if (more)
		x->due_ns += rate ? more * SL_NS_PER_SEC / rate : most;
	if (x->due_ns > most)
		x->due_ns = most;
	if (sl_exchange_is_paused(x)) {
		x->due_ns = most;
		sl_client_restart_timeout(x->client);
	}
	return x->due_ns <= now;
}

static bool check_exchange(struct sl_exchange *x)
{
	enum sl_client_wait wait = sl_exchange_client_wait(x);

	if (wait == SL_WAIT_NONE) {
		sl_min_rate_leave(x);
		if (x->stream.open_ended)
			sl_list_add_tail(&x->quota->quiet, &x->quota_node);
		return false;
	}
	check_later(x);
	if (wait == x->wait)
		return wait != SL_WAIT_QUEUED && is_late(x);
	x->wait = (uint8_t)wait;
	x->due_ns = x->core->now_ns + limit_ns(x);
	x->moved = moved_bytes(x);
	x->pace = UINT32_MAX;
	return false;
}

struct sl_exchange *sl_min_rate_check(struct sl_core *c, unsigned *looked)
{
	while (*looked < CHECKS_PER_RUN) {
		struct sl_exchange *x =
			sl_list_first(&c->min_rate_list, struct sl_exchange, rate_node);

		if (!x || x->check_ns > c->now_ns)
			break;
		++*looked;
		if (check_exchange(x))
			return x;
	}
	return NULL;
}

uint64_t sl_min_rate_next_ns(const struct sl_core *c)
{
	const struct sl_exchange *x =
		sl_list_first(&c->min_rate_list, struct sl_exchange, rate_node);

	return x ? x->check_ns : UINT64_MAX;
}
