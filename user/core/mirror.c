/* SPDX-License-Identifier: Apache-2.0 */
#include "core/mirror.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/min.h"
#include "core/client.h"
#include "core/pool.h"
#include "core/sent_batch.h"

enum {
	EXCHANGES_PART = 16,
	FRAMES_PART = 8,
	FREE_PART = 2,
	LIFE_S = 60,
};

struct sl_mirror {
	struct sl_client client;
	struct sl_addr_quota quota;
	struct sl_list open; /* exchanges, by rate_node: min_rate.c does not check them */
};

int sl_mirror_init(struct sl_core *c)
{
	struct sl_mirror *m =
		aligned_alloc(SL_CACHELINE, sizeof(*m) + SL_CACHELINE - sizeof(*m) % SL_CACHELINE);

	c->mirror = m;
	if (!m)
		return -ENOMEM;
	memset(m, 0, sizeof(*m));
	m->client.core = c;
	m->client.proto = SL_CLIENT_MIRROR;
	sl_addr_quota_init(&m->quota);
	sl_list_init(&m->open);
	return 0;
}

static void end_copy(struct sl_exchange *x)
{
	if (x->reply_ns)
		sl_stage_add(x, SL_STAGE_TOTAL, x->core->now_ns - x->first_ns);
	sl_exchange_release(x);
}

void sl_mirror_fini(struct sl_core *c)
{
	struct sl_list *at, *next;

	if (!c->mirror)
		return;
	sl_list_for_each_safe (at, next, &c->mirror->open)
		sl_exchange_release(sl_container_of(at, struct sl_exchange, rate_node));
	free(c->mirror);
	c->mirror = NULL;
}

static void take_reply(void *state, const struct sl_front_env *env, struct sl_stream *st)
{
	struct sl_exchange *x = (struct sl_exchange *)st;
	struct sl_piece piece;

	(void)state, (void)env;
	if (x->outcome != SL_OUTCOME_OK) {
		x->core->stats.mirror_failures++;
		end_copy(x);
		return;
	}
	st->started = true;
	while ((piece = sl_reply_peek(NULL, st)).bytes.len)
		sl_reply_take(NULL, st, piece.bytes.len);
	if (piece.behind != SL_MORE)
		end_copy(x);
}

const struct sl_front_ops sl_mirror_front = {.name = "mirror", .ready = take_reply};

static bool has_room(const struct sl_exchange *x)
{
	struct sl_core *c = x->core;
	const struct sl_umem *u = c->net->umem;
	const uint32_t *used = c->mirror->quota.cnt;

	return used[SL_QUOTA_EXCHANGES] < sl_mempool_capacity(&c->exchanges) / EXCHANGES_PART &&
	       used[SL_QUOTA_FRAMES] + x->request.frames < u->frame_cnt / FRAMES_PART &&
	       u->free_cnt > u->frame_cnt / FREE_PART && sl_core_has_exchange(c, true);
}

static bool copy_request(struct sl_exchange *to, const struct sl_exchange *x)
{
	struct sl_umem *u = x->core->net->umem;

	for (const struct sl_frame *f = x->request.head; f; f = f->next) {
		uint32_t skip = f == x->request.head ? x->request.off : 0;
		size_t len = (size_t)f->len - skip;

		if (sl_store_copy(&to->request, u, f->data + skip, len) != len)
			return false;
	}
	to->request_meta_len = x->request_meta_len;
	return true;
}

static struct sl_exchange *new_copy(const struct sl_exchange *x, struct sl_pool *g)
{
	struct sl_core *c = x->core;
	struct sl_mirror *m = c->mirror;
	struct sl_exchange *to = sl_mempool_get(&c->exchanges);

	if (!to)
		return NULL;
	*to = (struct sl_exchange){
		.core = c,
		.wcfg = x->wcfg,
		.client = &m->client,
		.quota = &m->quota,
		.route = x->route,
		.pool = g,
		.hist = &g->hist,
		.first_ns = c->now_ns,
		.take_ns = c->now_ns,
		.parse_ns = c->now_ns,
		.deadline_ns = sl_min_ns(x->deadline_ns, c->now_ns + LIFE_S * SL_NS_PER_SEC),
		.rpc_class = SL_CLASS_BULK,
		.repeats = SL_MAX_RETRIES,
		.retries = SL_MAX_ELSEWHERE,
	};
	to->stream.method = x->stream.method;
	to->stream.compressed = x->stream.compressed;
	to->item.client = x->item.client;
	to->item.unproven = x->item.unproven;
	sl_list_init(&to->item.link);
	sl_list_init(&to->quota_node);
	sl_list_add_tail(&m->open, &to->rate_node);
	sl_worker_cfg_get(to->wcfg);
	sl_pool_get(g);
	m->client.streams++;
	sl_addr_quota_set_exchanges(&c->quotas, &m->quota, m->quota.cnt[SL_QUOTA_EXCHANGES] + 1);
	return to;
}

static bool send_copy(const struct sl_exchange *x)
{
	const struct sl_cfg_mirror *cfg = &x->route->pools->mirror;
	struct sl_exchange *to;
	struct sl_pool *g;

	if (x->wcfg != x->core->wcfg || x->request.len - x->request_meta_len > cfg->max_body)
		return false;
	g = x->wcfg->pools[cfg->pool].pool;
	if (!sl_batcher_up_cnt(g->batcher) || !has_room(x))
		return false;
	to = new_copy(x, g);
	if (!to)
		return false;
	if (!copy_request(to, x) || sl_dispatch_submit(to) != SL_OUTCOME_OK) {
		sl_exchange_release(to);
		return false;
	}
	sl_exchange_charge(to);
	return true;
}

void sl_mirror_send(const struct sl_exchange *x)
{
	struct sl_core_stats *s = &x->core->stats;

	if (!x->stream.open_ended && send_copy(x))
		s->mirrored++;
	else
		s->mirror_dropped++;
}
