/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time and rate for what waits for a client: the rest of a request, or a reply that is not taken; and
 * the rate alone for what a stream has for its backend, which is never late. An exchange joins when it
 * is, or may become, such a turn; it is looked at PERIOD later and, if it still is, each PERIOD again.
 * So the data path stores nothing but what it counts anyway, and the list is in order of time by
 * itself:
 *
 *   core->turns: look_ns ---> look_ns ---> ... ---> now + PERIOD
 *                   |                                   ^
 *                   +-- due: its time is up             |
 *                   +-- otherwise ----------------------+
 *
 * Each account has those of its own in order of their beginning, for sl_core_relieve() (relief.c), and
 * apart from them its other streams, in order of when their turns were over.
 */
#include "base/clock.h"
#include "core/client.h"
#include "core/exchange.h"

enum {
	PERIOD_MS = 250,
	LOOKS_PER_RUN = 256,
};

/* What the backend has not yet given is no fault of the client. */
static enum sl_turn turn_of_client(const struct sl_exchange *x)
{
	if (sl_rate_waits(x, SL_RATE_OUT))
		return SL_TURN_NONE;
	switch (x->state) {
	case SL_EX_READING: return sl_exchange_reads(x) ? SL_TURN_BODY : SL_TURN_NONE;
	case SL_EX_REPLYING:
		if (x->reply.len <= x->head_len)
			return SL_TURN_NONE;
		break;
	case SL_EX_WHOLE:
	case SL_EX_BROKEN: break;
	default: return SL_TURN_NONE;
	}
	/* Not begun: replies that the client wants first are in its way. */
	return x->stream.started ? SL_TURN_REPLY : SL_TURN_QUEUED;
}

enum sl_turn sl_exchange_turn(const struct sl_exchange *x)
{
	enum sl_turn turn = turn_of_client(x);

	if (turn == SL_TURN_NONE && sl_exchange_lies_with_backend(x) && x->request.head)
		return SL_TURN_BACKEND;
	return turn;
}

static uint64_t limit_ns(const struct sl_exchange *x)
{
	const struct sl_cfg_limits *l = &x->core->cfg->limits;

	return x->turn == SL_TURN_BODY ? l->body_timeout_ns : l->send_timeout_ns;
}

/*
 * Bytes that count as the client's progress, modulo 2^32. A stream that its client does not shut by a
 * window of its own shares the connection with others, and what these move counts for all; as does,
 * while TCP has no room, what the client acknowledges.
 */
static uint32_t moved(const struct sl_exchange *x)
{
	const struct sl_client *cl = x->client;
	const struct sl_front_ops *front = sl_client_front(cl);
	uint32_t n = x->taken, shared = 0;

	if (x->turn == SL_TURN_BODY)
		return (uint32_t)x->body_len;
	if (x->turn == SL_TURN_BACKEND)
		return x->given;
	if (front->flow && !front->flow(cl->state, &x->stream, &shared))
		return n;
	n += shared;
	return cl->blocked ? n + sl_client_tcp(cl)->snd_una : n;
}

static void look_later(struct sl_exchange *x)
{
	x->look_ns = x->core->now_ns + PERIOD_MS * SL_NS_PER_MS;
	sl_list_del(&x->turns);
	sl_list_add_tail(&x->core->turns, &x->turns);
}

void sl_turn_join(struct sl_exchange *x)
{
	if (!sl_list_empty(&x->turns) || x->client->proto == SL_CLIENT_DATAGRAM)
		return;
	x->pace = UINT32_MAX;
	x->turn = SL_TURN_NONE; /* its front does not know it yet: the first look begins */
	look_later(x);
	sl_list_del(&x->held);
	sl_list_add_tail(&x->account->held, &x->held);
}

/*
 * The time that is left grows with what has moved, at the least rate there may be, up to the whole
 * time-out: who stands still has that, who trickles uses it up.
 */
static bool is_late(struct sl_exchange *x)
{
	const struct sl_cfg_limits *l = &x->core->cfg->limits;
	uint64_t rate = x->turn == SL_TURN_BODY ? l->body_rate : l->send_rate;
	uint64_t now = x->core->now_ns, most = now + limit_ns(x);
	uint32_t n = moved(x), more = n - x->moved;

	x->moved = n;
	x->pace = more;
	if (x->turn == SL_TURN_BACKEND)
		return false;
	if (more)
		x->due_ns += rate ? more * SL_NS_PER_SEC / rate : most;
	if (x->due_ns > most)
		x->due_ns = most;
	if (sl_exchange_is_held(x)) { /* it is we who do not read */
		x->due_ns = most;
		sl_client_excuse(x->client);
	}
	return x->due_ns <= now;
}

/* Whether it is late. */
static bool look(struct sl_exchange *x)
{
	enum sl_turn turn = sl_exchange_turn(x);

	if (turn == SL_TURN_NONE) {
		sl_turn_leave(x);
		if (x->stream.open_ended)
			sl_list_add_tail(&x->account->quiet, &x->held);
		return false;
	}
	look_later(x);
	if (turn == x->turn)
		return turn != SL_TURN_QUEUED && is_late(x);
	x->turn = (uint8_t)turn;
	x->due_ns = x->core->now_ns + limit_ns(x);
	x->moved = moved(x);
	x->pace = UINT32_MAX;
	return false;
}

struct sl_exchange *sl_turns_look(struct sl_core *c, unsigned *looked)
{
	while (*looked < LOOKS_PER_RUN) {
		struct sl_exchange *x = sl_list_first(&c->turns, struct sl_exchange, turns);

		if (!x || x->look_ns > c->now_ns)
			break;
		++*looked;
		if (look(x))
			return x;
	}
	return NULL;
}

uint64_t sl_turns_next_ns(const struct sl_core *c)
{
	const struct sl_exchange *x = sl_list_first(&c->turns, struct sl_exchange, turns);

	return x ? x->look_ns : UINT64_MAX;
}
