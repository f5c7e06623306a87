/* SPDX-License-Identifier: Apache-2.0 */
/* Read from the bottom: sl_moves_allot -> allot -> send_on; sl_move_try; sl_moves_note. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "gateway/dial_impl.h"

enum {
	RETRY_MIN_MS = 1000, /* how often another endpoint is tried that is not there */
	RETRY_MAX_MS = 30000,
	MOVE_MS = 30000, /* a move that was begun is over by then, or was given up */
};

const char *sl_move_endpoint(const struct sl_dialler *d, enum by by)
{
	return by == BY_OWN     ? d->backend.endpoint
	       : by == BY_FIRST ? d->backend.first
				: d->backend.fallback;
}

/* Where it stays, or, from a fallback, where it wants to be. */
static enum by rest_of(const struct sl_dialler *d, enum by by)
{
	return by != BY_FALLBACK ? by : d->backend.first ? BY_FIRST : BY_OWN;
}

void sl_move_begin(struct sl_dialler *d, unsigned worker, enum by by, bool broke)
{
	struct way *way = &d->workers[worker];
	uint64_t now_ns = sl_now_ns();
	struct sl_rpc_traffic t;

	way->by = by;
	way->to = rest_of(d, by);
	way->retry_ms = RETRY_MIN_MS;
	way->next_ns = now_ns + (by == BY_FALLBACK || broke ? RETRY_MIN_MS * SL_NS_PER_MS : 0);
	way->offered = way->strange = false;
	way->silent_ns = way->ask_ns = 0;
	if (d->stop)
		return; /* its members may be leaving */
	sl_rpc_channel_traffic(way->member->channel, &t);
	sl_claim_begin(&way->claim, &t, now_ns);
}

uint64_t sl_move_due_ns(const struct sl_dialler *d, unsigned worker)
{
	const struct way *way = &d->workers[worker];
	bool due = way->to != way->by && !way->offered;

	return due && sl_member_link(way->member) == SL_LINK_UP ? way->next_ns : UINT64_MAX;
}

/* With the lock: it was in vain, and not for the last time. */
static void put_off(struct sl_dialler *d, struct way *way, uint64_t now_ns)
{
	way->offered = false;
	way->to = rest_of(d, way->by);
	way->next_ns = now_ns + way->retry_ms * SL_NS_PER_MS;
	way->retry_ms = way->retry_ms < RETRY_MAX_MS / 2 ? 2 * way->retry_ms : RETRY_MAX_MS;
}

static bool is_same_peer(struct sl_dialler *d, struct way *way, unsigned worker,
			 const struct sl_transport *t)
{
	if (sl_rpc_transport_peer(t) == way->peer)
		return true;
	if (!way->strange)
		sl_log_warn("backend %s/%s: %s is there, but of another process than %s; worker %u "
			    "stays with that",
			    d->pool_name, d->backend.name, sl_move_endpoint(d, way->to),
			    sl_move_endpoint(d, way->by), worker);
	way->strange = true;
	return false;
}

/* With all that is under way. Nothing is said of attempts in vain. */
void sl_move_try(struct sl_dialler *d, struct sl_worker *w)
{
	struct sl_err err = SL_ERR(160);
	struct way *way = &d->workers[w->index];
	struct sl_transport *t = sl_dial(d, w, sl_move_endpoint(d, way->to), true, &err);
	bool handed = false;

	pthread_mutex_lock(&d->board->lock);
	if (t && is_same_peer(d, way, w->index, t)) {
		snprintf(way->next_text, sizeof(way->next_text), "%s", sl_rpc_transport_info(t));
		way->moves = atomic_load(&way->member->moves);
		way->stays = atomic_load(&way->member->stays);
		way->next_number = sl_rpc_transport_number(t);
		handed = sl_dial_send(d, w, SL_WORKER_ADOPT, t) == 0;
	}
	if (handed) {
		way->offered = true;
		way->next_ns = sl_now_ns() + MOVE_MS * SL_NS_PER_MS;
	} else {
		put_off(d, way, sl_now_ns());
	}
	pthread_mutex_unlock(&d->board->lock);
	if (!handed)
		sl_rpc_dial_drop(t);
}

static void count_move(struct sl_dialler *d, struct way *way, unsigned worker)
{
	way->stats.promotions += way->by == BY_FIRST;
	way->stats.demotions += way->to == BY_FIRST && way->by == BY_OWN;
	if (way->to == BY_OWN)
		SL_LOG_EVERY(SL_NS_PER_SEC, SL_LOG_INFO,
			     "backend %s/%s: worker %u goes on by its own endpoint, %s",
			     d->pool_name, d->backend.name, worker, way->next_text);
	else
		SL_LOG_EVERY(SL_NS_PER_SEC, SL_LOG_INFO,
			     "backend %s/%s: worker %u goes on by its first endpoint, %s",
			     d->pool_name, d->backend.name, worker, way->next_text);
}

void sl_moves_note(struct sl_dialler *d, uint64_t now_ns)
{
	for (unsigned i = 0; i < d->board->worker_cnt; i++) {
		struct way *way = &d->workers[i];

		if (!way->offered)
			continue;
		if (atomic_load(&way->member->moves) != way->moves) {
			count_move(d, way, i);
			way->by = way->to;
			way->number = way->next_number;
			way->offered = way->strange = false;
			way->retry_ms = RETRY_MIN_MS;
			way->next_ns = now_ns;
			memcpy(way->text, way->next_text, sizeof(way->text));
		} else if (atomic_load(&way->member->stays) != way->stays ||
			   now_ns >= way->next_ns) {
			put_off(d, way, now_ns);
		}
	}
}

/* --- who has a connection of its own --- */

static enum sl_claim_state state_of(const struct way *way)
{
	if (way->by == BY_OWN)
		return way->to == BY_OWN ? SL_CLAIM_OWN : SL_CLAIM_LEAVING;
	return way->to == BY_OWN ? SL_CLAIM_OWN : SL_CLAIM_FIRST;
}

static bool has_claim(const struct sl_dialler *d, unsigned worker)
{
	return !d->stop && sl_member_link(d->workers[worker].member) != SL_LINK_DOWN;
}

static void send_on(struct sl_claim *c, unsigned worker, enum by to, uint64_t now_ns)
{
	struct way *way = c ? sl_container_of(c, struct way, claim) : NULL;

	if (!way)
		return;
	way->to = to;
	way->next_ns = now_ns;
	sl_due_place(sl_container_of(way - worker, struct sl_dialler, workers));
}

static void allot(struct sl_switchboard *sb, unsigned worker, uint64_t now_ns)
{
	struct sl_allot a = {.max = sb->max_promoted};
	struct sl_list *at;

	sl_list_for_each (at, &sb->with_first) {
		struct sl_dialler *d = sl_container_of(at, struct sl_dialler, first_node);
		struct way *way = &d->workers[worker];
		struct sl_rpc_traffic t;

		if (!has_claim(d, worker))
			continue;
		sl_rpc_channel_traffic(way->member->channel, &t);
		sl_claim_note(&way->claim, &t, now_ns);
		sl_allot_count(&a, state_of(way));
	}
	sl_list_for_each (at, &sb->with_first) {
		struct sl_dialler *d = sl_container_of(at, struct sl_dialler, first_node);
		struct way *way = &d->workers[worker];
		unsigned refused = a.refused;

		if (!has_claim(d, worker))
			continue;
		sl_allot_claim(&a, &way->claim, state_of(way),
			       !d->busy && way->by == way->to && now_ns >= way->next_ns &&
				       sl_member_link(way->member) == SL_LINK_UP,
			       now_ns);
		way->stats.promotions_refused += a.refused - refused;
	}
	sl_allot_end(&a);
	send_on(a.next, worker, BY_OWN, now_ns);
	send_on(a.back, worker, BY_FIRST, now_ns);
}

void sl_moves_allot(struct sl_switchboard *sb, uint64_t now_ns)
{
	for (unsigned w = 0; w < sb->worker_cnt; w++)
		allot(sb, w, now_ns);
}
