/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/log.h"
#include "core/client.h"
#include "core/exchange.h"

enum {
	ENDS_PER_RUN = 16,
	CLOSES_PER_RUN = 8,
	UNREAD_NS = 500000000,
	CANDIDATES = 64,
	QUOTAS = 8,
};

static bool short_of(const struct sl_core *c, enum sl_quota_resource what)
{
	const struct sl_umem *u = c->net->umem;
	uint32_t most = sl_mempool_capacity(&c->exchanges);

	if (what == SL_RANK_FRAMES)
		return u->free_cnt < u->frame_cnt / SL_SHORT_FRAMES || sl_bodies_are_stuck(c);
	return most - sl_mempool_used(&c->exchanges) <= most / SL_SHORT_EXCHANGES;
}

static bool short_of_clients(const struct sl_core *c)
{
	const struct sl_mempool *p = &c->clients;
	uint32_t least = sl_mempool_capacity(p) / SL_SHORT_CLIENTS;

	return sl_tcp_free_places(c->tcp) < least || sl_sock_free_places(c->sock) < least ||
	       sl_mempool_capacity(p) - sl_mempool_used(p) < least;
}

static bool short_of_heads(const struct sl_core *c)
{
	uint32_t cap = sl_mempool_capacity(&c->heads);

	return cap - sl_mempool_used(&c->heads) < cap / SL_SHORT_HEADS;
}

static struct sl_client *advance_hand(struct sl_core *c)
{
	c->hand = c->hand + 1 < c->clients.fresh ? c->hand + 1 : 0;
	return sl_mempool_in_use(&c->clients, c->hand) ? sl_mempool_at(&c->clients, c->hand) : NULL;
}

static void end_for_client(struct sl_exchange *x)
{
	struct sl_client *cl = x->client;
	const struct sl_front_ops *front = sl_client_front(cl);

	if (front->abandon && !cl->blocked && !cl->closing)
		front->abandon(cl->state, &x->core->env, &x->stream);
	else
		sl_client_abort(cl);
}

static void end_late_exchange(struct sl_exchange *x)
{
	struct sl_core *c = x->core;

	if (x->wait == SL_WAIT_REPLY) {
		c->stats.slow_readers++;
		end_for_client(x);
		return;
	}
	c->stats.slow_bodies++;
	if (!sl_client_front(x->client)->abandon)
		sl_client_time_out(x->client);
	else
		sl_exchange_fail(x, x->stream.message_over ? SL_OUTCOME_NOT_UNARY
							   : SL_OUTCOME_REQUEST_TIMEOUT);
}

unsigned sl_core_end_late(struct sl_core *c)
{
	struct sl_exchange *x;
	unsigned looked = 0;

	while ((x = sl_min_rate_check(c, &looked)))
		end_late_exchange(x); /* may free others */
	return looked;
}

static uint64_t eviction_weight(const struct sl_exchange *x, enum sl_quota_resource what)
{
	enum sl_client_wait wait = sl_exchange_client_wait(x);
	uint64_t holds = what == SL_RANK_FRAMES ? x->frames : 1;

	if (wait == SL_WAIT_BODY || wait == SL_WAIT_REPLY ||
	    (wait == SL_WAIT_BACKEND && what == SL_RANK_FRAMES))
		return (holds << 32) / (1 + (x->pace >> 10));
	if (what == SL_RANK_FRAMES || !sl_exchange_waits_for_backend(x))
		return 0;
	return 1 + (x->core->now_ns - x->active_ns) / SL_NS_PER_MS;
}

static void note_heavier(struct sl_exchange **best, struct sl_exchange *x,
			 enum sl_quota_resource what)
{
	uint64_t w = eviction_weight(x, what);

	if (w && (!*best || w > eviction_weight(*best, what)))
		*best = x;
}

static void note_slowest(struct sl_exchange **best, const struct sl_list *of,
			 enum sl_quota_resource what, bool any)
{
	const struct sl_list *l;
	unsigned n = 0;

	sl_list_for_each (l, of) {
		struct sl_exchange *x = sl_container_of(l, struct sl_exchange, quota_node);

		if (any || x->pace != UINT32_MAX)
			note_heavier(best, x, what);
		if (++n == CANDIDATES)
			break;
	}
}

static struct sl_exchange *slowest_of(const struct sl_addr_quota *a, enum sl_quota_resource what,
				      bool any)
{
	struct sl_exchange *best = NULL;

	note_slowest(&best, &a->waiting, what, any);
	if (what == SL_RANK_EXCHANGES)
		note_slowest(&best, &a->quiet, what, any);
	return best;
}

static struct sl_exchange *slowest_of_all(const struct sl_core *c, enum sl_quota_resource what)
{
	struct sl_exchange *best = NULL;
	const struct sl_list *l;
	unsigned n = 0;

	sl_list_for_each (l, &c->min_rate_list) {
		struct sl_exchange *x = sl_container_of(l, struct sl_exchange, rate_node);

		if (!x->pace)
			note_heavier(&best, x, what);
		if (++n == CANDIDATES)
			break;
	}
	return best;
}

static struct sl_exchange *find_exchange(struct sl_core *c, enum sl_quota_resource what)
{
	struct sl_addr_quota *a = sl_addr_quota_heaviest(&c->quotas, what);
	struct sl_exchange *x = NULL;

	for (unsigned n = 0; a && !x && n < QUOTAS; n++) {
		x = slowest_of(a, what, n == 0);
		a = sl_addr_quota_lighter(&c->quotas, what, a);
	}
	return x ? x : slowest_of_all(c, what);
}

static uint64_t unread_weight(const struct sl_client *cl, const struct sl_addr_quota *heaviest)
{
	struct sl_conn t;

	if (!cl->conn)
		return 0;
	t = sl_client_transport(cl);
	return t.ops->unread_frames(t.self) *
	       (t.ops->unread_ns(t.self) / UNREAD_NS + (sl_client_quota(cl) == heaviest));
}

/*
 * Resets the connection with the most unread frames of some, unless x weighs more. A connection of
 * the heaviest address precedes another's exchange.
 */
static bool end_unread(struct sl_core *c, const struct sl_exchange *x)
{
	const struct sl_addr_quota *heaviest = sl_addr_quota_heaviest(&c->quotas, SL_RANK_FRAMES);
	const struct sl_addr_quota *of_x = x ? sl_client_quota(x->client) : NULL;
	struct sl_client *best = NULL;
	char addr[SL_QUOTA_TEXT];
	uint64_t most = 0;

	for (unsigned n = 0; n < CANDIDATES; n++) {
		struct sl_client *cl = advance_hand(c);

		if (cl && unread_weight(cl, heaviest) > most) {
			best = cl;
			most = unread_weight(cl, heaviest);
		}
	}
	if (!best)
		return false;
	if (x && eviction_weight(x, SL_RANK_FRAMES) > most << 32 &&
	    (of_x == heaviest || sl_client_quota(best) != heaviest))
		return false;
	SL_LOG_EVERY(
		10 * SL_NS_PER_SEC, SL_LOG_WARN,
		"client %s: connection reset, because frames are short and it reads too little",
		sl_addr_quota_text(sl_client_quota(best), addr));
	sl_client_abort(best);
	return true;
}

static unsigned end_exchanges(struct sl_core *c, enum sl_quota_resource what)
{
	static const char *const names[] = {"exchanges", "frames"};
	SL_UNINIT char addr[SL_QUOTA_TEXT];
	unsigned n = 0;

	for (; n < ENDS_PER_RUN && short_of(c, what); n++) {
		struct sl_exchange *x = find_exchange(c, what);

		if (what == SL_RANK_FRAMES && end_unread(c, x)) {
			c->stats.ended_for_others[what]++;
			continue;
		}
		if (!x)
			break;
		SL_LOG_EVERY(10 * SL_NS_PER_SEC, SL_LOG_WARN,
			     "client %s: slow request ended, because %s are short",
			     sl_addr_quota_text(x->quota, addr), names[what]);
		c->stats.ended_for_others[what]++;
		end_for_client(x);
	}
	return n;
}

static uint64_t idle_ms(const struct sl_client *cl)
{
	if (cl->phase != SL_CLIENT_IDLE || cl->streams)
		return 0;
	return sl_client_waited_ms(cl) * sl_client_quota(cl)->cnt[SL_QUOTA_CONNECTIONS];
}

static struct sl_client *most_idle(struct sl_core *c)
{
	struct sl_client *best = NULL;

	for (unsigned n = 0; n < CANDIDATES; n++) {
		struct sl_client *cl = advance_hand(c);

		if (cl && idle_ms(cl) > (best ? idle_ms(best) : 0))
			best = cl;
	}
	return best;
}

static unsigned close_clients(struct sl_core *c)
{
	SL_UNINIT char addr[SL_QUOTA_TEXT];
	unsigned n = 0;

	for (; n < CLOSES_PER_RUN && short_of_clients(c); n++) {
		struct sl_client *cl = most_idle(c);

		if (!cl)
			break;
		SL_LOG_EVERY(10 * SL_NS_PER_SEC, SL_LOG_WARN,
			     "client %s: idle connection closed, because connections are short",
			     sl_addr_quota_text(sl_client_quota(cl), addr));
		c->stats.evicted[SL_EVICTED_IDLE_CONNECTION]++;
		sl_client_abort(cl);
	}
	return n;
}

static struct sl_client *slowest_head(const struct sl_core *c)
{
	struct sl_client *best = NULL;
	uint64_t most = 0;

	for (uint32_t i = 0; i < sl_mempool_capacity(&c->heads); i++) {
		struct sl_client *cl = c->head_conns[i];
		uint64_t n;

		if (!cl)
			continue;
		n = (1 + sl_client_waited_ms(cl)) * sl_client_quota(cl)->cnt[SL_QUOTA_CONNECTIONS];
		if (n > most) {
			most = n;
			best = cl;
		}
	}
	return best;
}

static unsigned end_heads(struct sl_core *c)
{
	SL_UNINIT char addr[SL_QUOTA_TEXT];
	unsigned n = 0;

	for (; n < CLOSES_PER_RUN && short_of_heads(c); n++) {
		struct sl_client *cl = slowest_head(c);

		if (!cl)
			break;
		SL_LOG_EVERY(
			10 * SL_NS_PER_SEC, SL_LOG_WARN,
			"client %s: connection reset, because buffers for heads are short and its "
			"head is incomplete",
			sl_addr_quota_text(sl_client_quota(cl), addr));
		c->stats.evicted[SL_EVICTED_PARTIAL_HEAD]++;
		sl_client_abort(cl);
	}
	return n;
}

unsigned sl_core_evict(struct sl_core *c)
{
	if (sl_likely(!short_of(c, SL_RANK_FRAMES) && !short_of(c, SL_RANK_EXCHANGES) &&
		      !short_of_clients(c) && !short_of_heads(c)))
		return 0;
	return end_exchanges(c, SL_RANK_FRAMES) + end_exchanges(c, SL_RANK_EXCHANGES) +
	       close_clients(c) + end_heads(c);
}
