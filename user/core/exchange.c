/* SPDX-License-Identifier: Apache-2.0 */
#include "core/exchange.h"

#include "core/client.h"
#include "core/event.h"
#include "core/hedge.h"
#include "core/quota.h"
#include "core/sent_batch.h"
#include "core/pool.h"
#include "core/route_pools.h"

enum { NOTIFY_PER_BURST = 1024 };

_Static_assert((int)SL_HIST_BUCKETS == (int)SL_HIST_BUCKET_CNT, "one histogram layout");

void sl_exchange_has_read(struct sl_exchange *x)
{
	x->quota->cnt[SL_QUOTA_READING] -= x->reading;
	x->client->reading -= x->reading;
	x->reading = false;
}

static void uncount_exchange(struct sl_exchange *x)
{
	struct sl_addr_quota *a = x->quota;

	sl_exchange_has_read(x);
	sl_exchange_charge(x);
	sl_addr_quota_set_exchanges(&x->core->quotas, a, a->cnt[SL_QUOTA_EXCHANGES] - 1);
	x->client->streams--;
}

void sl_exchange_reply_kept(struct sl_exchange *x)
{
	sl_rpc_reply_kept(x->backend->channel, x->rpc_id, x->reply.len - x->head_len);
}

static void withdraw_request(struct sl_exchange *x)
{
	if (x->awaits_reply)
		sl_stream_unanswered(x);
	if (x->state == SL_EX_QUEUED && x->stream.open_ended) {
		sl_list_del(&x->item.link);
		x->pool->stream_cnt--;
	} else if (x->state == SL_EX_QUEUED) {
		sl_batcher_remove(x->pool->batcher, &x->item);
	}
	if (sl_exchange_in_flight(x)) {
		if (sl_unlikely(x->twin))
			sl_hedge_drop(x);
		sl_rpc_cancel(x->backend->channel, x->rpc_id);
	}
}

static void drop_reply(struct sl_exchange *x)
{
	struct sl_umem *u = x->core->net->umem;

	if (sl_exchange_is_lent(x))
		x->core->loan.x = NULL;
	sl_store_free(&x->reply, u);
	sl_store_free(&x->tail, u);
	x->head_len = 0;
}

static void stop_work(struct sl_exchange *x)
{
	sl_timer_cancel(&x->core->late, &x->late);
	if (x->looks)
		sl_route_pools_drop(x);
	withdraw_request(x);
	sl_sent_batch_release_head(x);
	sl_sent_batch_release(x);
	drop_reply(x);
}

void sl_exchange_fail(struct sl_exchange *x, enum sl_outcome why)
{
	stop_work(x);
	sl_exchange_charge(x);
	x->outcome = (uint8_t)why;
	x->stream.refused = x->open;
	x->state = x->stream.started ? SL_EX_BROKEN : SL_EX_WHOLE;
	sl_list_del(&x->item.link);
	sl_list_add_tail(&x->core->ready, &x->item.link);
	sl_min_rate_join(x);
}

unsigned sl_exchange_notify(struct sl_core *c)
{
	struct sl_list *l;
	unsigned n = 0;

	while (n < NOTIFY_PER_BURST && (l = sl_list_pop_head(&c->ready))) {
		struct sl_exchange *x = sl_container_of(l, struct sl_exchange, item.link);
		struct sl_client *cl = x->client;

		sl_client_ready(cl, &x->stream);
		sl_client_progress(cl);
		n++;
	}
	return n;
}

static SL_COLD struct sl_code_at find_backend_code(const struct sl_exchange *x,
						   enum sl_outcome outcome)
{
	return sl_code_find(&(struct sl_code_end){
		.status = x->backend_status,
		.grpc_status = x->grpc_status,
		.proto = x->proto,
		.begun = true,
		.outcome = outcome,
	});
}

static void count_codes(struct sl_exchange *x, enum sl_outcome outcome)
{
	struct sl_code_end e = {
		.status = x->status,
		.grpc_status = x->grpc_status,
		.proto = x->proto,
		.begun = x->stream.started,
		.outcome = outcome,
	};

	struct sl_code_at at = sl_code_find(&e);

	sl_route_codes_add(sl_worker_cfg_route_codes(x->wcfg, x->route), at,
			   x->core->now_ns - x->first_ns);
	if (x->pool)
		sl_codes_add(&x->pool->codes, at);
	if (!x->backend || !x->backend_status)
		return;
	if (x->backend_status != x->status || !x->stream.started)
		at = find_backend_code(x, outcome);
	sl_codes_add(&x->backend->codes.codes, at);
}

void sl_exchange_release(struct sl_exchange *x)
{
	struct sl_core *c = x->core;

	c->stats.streams -= x->stream.open_ended;
	c->trusted -= x->trusted;
	stop_work(x);
	sl_store_free(&x->rule_values, c->net->umem);
	uncount_exchange(x);
	if (x->usage)
		sl_quotas_end_reply(x);
	if (x->quota_open)
		sl_quotas_close(x);
	sl_min_rate_leave(x);
	sl_list_del(&x->item.link);
	sl_exchange_set_backend(x, NULL);
	if (x->pool)
		sl_pool_put(x->pool);
	sl_worker_cfg_put(x->wcfg);
	sl_mempool_put(&c->exchanges, x);
}

static void exchange_free(struct sl_exchange *x, enum sl_outcome outcome)
{
	x->core->stats.outcomes[outcome]++;
	count_codes(x, outcome);
	if (x->note)
		sl_event_end(x, outcome);
	sl_exchange_release(x);
}

void sl_exchange_done(void *conn, struct sl_stream *st)
{
	struct sl_exchange *x = (struct sl_exchange *)st;
	struct sl_core *c = x->core;

	(void)conn;
	if (x->reply_ns && x->hist) {
		sl_hist_stage_add(*x->hist, SL_STAGE_REPLY, c->now_ns - x->reply_ns);
		sl_hist_stage_add(*x->hist, SL_STAGE_TOTAL, c->now_ns - x->first_ns);
	}
	exchange_free(x, (enum sl_outcome)x->outcome);
}

void sl_exchange_cancel(void *conn, struct sl_stream *st)
{
	struct sl_exchange *x = (struct sl_exchange *)st;
	bool broken = x->state == SL_EX_BROKEN; /* the client was reset */

	(void)conn;
	exchange_free(x, broken ? (enum sl_outcome)x->outcome : SL_OUTCOME_CLIENT_GONE);
}
