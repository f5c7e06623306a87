/* SPDX-License-Identifier: Apache-2.0 */
#include "core/service.h"

#include <errno.h>

#include "base/clock.h"

enum { MAX_RETRIES = 2 };

static struct sl_exchange *exchange_of(struct sl_batch_item *item)
{
	return sl_container_of(item, struct sl_exchange, item);
}

static uint32_t budget_us(const struct sl_exchange *x, uint64_t now_ns)
{
	uint64_t left;

	if (x->deadline_ns == UINT64_MAX)
		return 0;
	left = x->deadline_ns > now_ns ? (x->deadline_ns - now_ns) / SL_NS_PER_US : 0;
	if (left > UINT32_MAX)
		return UINT32_MAX;
	return left ? (uint32_t)left : 1; /* 0 would mean "no deadline" */
}

/* One item of a batch; spans are taken from the core's scratch. Returns how many, 0: no room. */
static uint32_t fill_item(struct sl_core *c, struct sl_exchange *x, struct sl_rpc_item *it,
			  uint32_t used)
{
	uint32_t n = sl_store_spans(&x->request, c->spans + used, c->span_cap - used);

	*it = (struct sl_rpc_item){
		.cookie = x,
		.spans = c->spans + used,
		.span_cnt = n,
		.len = (uint32_t)(x->request.len - x->request_meta_len),
		.meta_len = x->request_meta_len,
		.idempotent = x->idempotent,
		.budget_us = budget_us(x, c->now_ns),
	};
	return n;
}

static void mark_sent(struct sl_core *c, struct sl_exchange *x, unsigned backend, uint64_t batch,
		      uint64_t id)
{
	x->state = SL_EX_FLIGHT;
	x->in_flight = true;
	x->backend = (uint8_t)backend;
	x->rpc_id = id;
	x->batch = batch;
	x->send_ns = c->now_ns;
	sl_stage_add(c, x, SL_STAGE_QUEUE, c->now_ns - x->item.queued_ns);
}

static int send_batch(void *app, unsigned backend, struct sl_batch_item **items, unsigned cnt)
{
	struct sl_service *s = app;
	struct sl_core *c = s->core;
	struct sl_rpc_item rpc[SL_RPC_MAX_BATCH];
	enum sl_rpc_class class = SL_CLASS_BULK;
	struct sl_flight *flight = sl_pool_get(&c->flights);
	uint32_t used = 0;
	int rc = flight ? 0 : -EAGAIN;

	for (unsigned i = 0; i < cnt && !rc; i++) {
		struct sl_exchange *x = exchange_of(items[i]);
		uint32_t n = fill_item(c, x, &rpc[i], used);

		rc = n ? 0 : -EMSGSIZE;
		used += n;
		if (x->rpc_class < class)
			class = x->rpc_class;
	}
	if (!rc)
		rc = sl_rpc_send(s->backends[backend].channel, rpc, cnt, class, c->now_ns,
				 &flight->batch);
	if (rc) {
		if (flight)
			sl_pool_put(&c->flights, flight);
		return rc;
	}
	flight->limbo = (struct sl_store){0};
	sl_list_add_tail(&s->backends[backend].flights, &flight->link);
	for (unsigned i = 0; i < cnt; i++)
		mark_sent(c, exchange_of(items[i]), backend, flight->batch, rpc[i].id);
	c->stats.batches++;
	c->stats.batched += cnt;
	return 0;
}

static void drop_item(void *app, struct sl_batch_item *item, enum sl_outcome why)
{
	(void)app;
	sl_exchange_fail(exchange_of(item), why);
}

const struct sl_batch_ops sl_service_batch_ops = {.send = send_batch, .drop = drop_item};

enum sl_outcome sl_service_submit(struct sl_exchange *x)
{
	enum sl_outcome o;

	/* A request that fits no batch message can never be sent: say so now. */
	if (x->request.frames > x->core->span_cap ||
	    x->request.len - x->request_meta_len > SL_RPC_MAX_MESSAGE)
		return SL_OUTCOME_TOO_LARGE;
	x->item.deadline_ns = x->deadline_ns;
	x->item.arrived_ns = x->parse_ns;
	x->item.policy = x->route->policy;
	x->item.bytes = (uint32_t)x->request.len;
	o = sl_batcher_submit(x->service->batcher, &x->item, x->core->now_ns);
	if (o == SL_OUTCOME_OK)
		x->state = SL_EX_QUEUED;
	return o;
}

void sl_service_forget(struct sl_exchange *x)
{
	if (x->state == SL_EX_QUEUED)
		sl_batcher_remove(x->service->batcher, &x->item);
	if (x->in_flight)
		sl_rpc_cancel(x->service->backends[x->backend].channel, x->rpc_id);
	x->in_flight = false;
}

/* Elsewhere, if that cannot do harm and can still help. */
static bool try_again(struct sl_exchange *x, bool left_gateway)
{
	struct sl_core *c = x->core;

	if (x->reply_started || x->reply_pending || (left_gateway && !x->idempotent) ||
	    x->retries >= MAX_RETRIES || c->now_ns >= x->deadline_ns)
		return false;
	x->retries++;
	x->item.excluded |= 1u << x->backend;
	if (sl_service_submit(x) != SL_OUTCOME_OK)
		return false;
	c->stats.retried++;
	return true;
}

static void on_failed(void *app, void *cookie, enum sl_rpc_failure why)
{
	struct sl_exchange *x = cookie;

	(void)app;
	x->in_flight = false;
	if (why != SL_RPC_FAIL_TIMEOUT && try_again(x, why != SL_RPC_FAIL_DOWN))
		return;
	sl_exchange_fail(x,
			 why == SL_RPC_FAIL_TIMEOUT ? SL_OUTCOME_EXPIRED : SL_OUTCOME_BACKEND_LOST);
}

static enum sl_outcome outcome_of(uint8_t status)
{
	switch (status) {
	case SL_RPC_REFUSED: return SL_OUTCOME_NO_BACKEND;
	case SL_RPC_EXPIRED: return SL_OUTCOME_EXPIRED;
	case SL_RPC_NO_METHOD: return SL_OUTCOME_NO_ROUTE;
	case SL_RPC_TOO_LARGE: return SL_OUTCOME_TOO_LARGE;
	default: return SL_OUTCOME_BACKEND_ERROR;
	}
}

static void first_part(struct sl_exchange *x, const struct sl_rpc_reply *r)
{
	struct sl_core *c = x->core;
	uint64_t service_ns = (uint64_t)r->service_us * SL_NS_PER_US;
	uint64_t flight_ns = c->now_ns - x->send_ns;

	x->reply_ns = c->now_ns;
	sl_stage_add(c, x, SL_STAGE_COMPUTE, service_ns);
	if (!sl_batcher_waited(x->service->batcher, x->backend, x->send_ns))
		sl_stage_add(c, x, SL_STAGE_RPC,
			     flight_ns > service_ns ? flight_ns - service_ns : 0);
}

static void on_reply(void *app, void *cookie, const struct sl_rpc_reply *r)
{
	struct sl_exchange *x = cookie;

	(void)app;
	if (r->status == SL_RPC_OK) {
		struct sl_service_backend *be = &x->service->backends[x->backend];

		be->reply_ns = x->core->now_ns;
		if (r->together > be->together)
			be->together = r->together;
	}
	if (r->first && x->state == SL_EX_FLIGHT && !x->reply_ns)
		first_part(x, r);
	x->in_flight = !r->last || r->more;
	if (r->status != SL_RPC_OK) {
		x->reply_ns = 0;
		if (r->status == SL_RPC_REFUSED && try_again(x, false))
			return;
		sl_exchange_fail(x, outcome_of(r->status));
		return;
	}
	sl_reply_from_backend(x, r);
}

static void on_batch_done(void *app, struct sl_rpc_channel *ch, uint64_t batch, uint32_t count,
			  uint32_t service_us, uint64_t sent_ns)
{
	struct sl_core *c = app;
	struct sl_service_backend *be = sl_rpc_channel_data(ch);
	uint64_t service_ns = (uint64_t)service_us * SL_NS_PER_US;
	uint32_t together = be->together;

	(void)batch;
	if (be->reply_ns != c->now_ns)
		service_ns =
			0; /* what ended it was no answer: says nothing on the backend's speed */
	else if (!service_us)
		service_ns = SL_NS_PER_US / 2; /* less than can be told */
	be->together = 0;
	sl_batcher_done(be->service->batcher, be->index, count, sent_ns, together, service_ns,
			c->now_ns);
}

static struct sl_flight *find_flight(const struct sl_service_backend *be, uint64_t batch)
{
	struct sl_list *l;

	sl_list_for_each (l, &be->flights) {
		struct sl_flight *f = sl_container_of(l, struct sl_flight, link);

		if (f->batch == batch)
			return f;
	}
	return NULL;
}

void sl_service_release(struct sl_exchange *x)
{
	struct sl_flight *f =
		x->send_ns ? find_flight(&x->service->backends[x->backend], x->batch) : NULL;

	if (f)
		sl_store_splice(&f->limbo, &x->request);
	else
		sl_store_free(&x->request, x->core->net->umem);
}

static void on_sent(void *app, struct sl_rpc_channel *ch, uint64_t batch)
{
	struct sl_core *c = app;
	struct sl_flight *f = find_flight(sl_rpc_channel_data(ch), batch);

	if (!f)
		return;
	sl_list_del(&f->link);
	sl_store_free(&f->limbo, c->net->umem);
	sl_pool_put(&c->flights, f);
}

static void on_state(void *app, struct sl_rpc_channel *ch, enum sl_rpc_state state)
{
	struct sl_core *c = app;
	struct sl_service_backend *be = sl_rpc_channel_data(ch);

	atomic_store(&be->link, state == SL_RPC_DOWN ? SL_LINK_DOWN : SL_LINK_UP);
	c->serving_changed = true;
	if (be->joined)
		sl_batcher_backend(be->service->batcher, be->index, state == SL_RPC_UP, c->now_ns);
}

const struct sl_rpc_ops sl_service_rpc_ops = {
	.reply = on_reply,
	.failed = on_failed,
	.batch_done = on_batch_done,
	.sent = on_sent,
	.state = on_state,
};

void sl_core_adopt(struct sl_core *c, uint32_t pool, uint32_t backend, struct sl_transport *t)
{
	if (sl_service_wants(c, pool, backend)) {
		sl_rpc_adopt(sl_core_channel(c, pool, backend), t, c->now_ns);
		return;
	}
	/* Dialled for before it was taken out of the configuration. */
	sl_rpc_dial_drop(t);
	sl_core_link_set(c, pool, backend, SL_LINK_DOWN);
}

bool sl_service_wants(const struct sl_core *c, uint32_t pool, uint32_t backend)
{
	const struct sl_service_backend *be = &c->services[pool].backends[backend];

	return be->wanted && be->channel;
}

enum sl_link sl_core_link(const struct sl_core *c, uint32_t pool, uint32_t backend)
{
	return (enum sl_link)atomic_load(&c->services[pool].backends[backend].link);
}

void sl_core_link_set(struct sl_core *c, uint32_t pool, uint32_t backend, enum sl_link link)
{
	atomic_store(&c->services[pool].backends[backend].link, (int)link);
}

int sl_service_init(struct sl_service *s, struct sl_core *c, uint32_t index)
{
	s->core = c;
	s->index = index;
	s->wanted = true;
	s->pool = &c->cfg->pools[index];
	s->batcher = sl_batcher_create(s->pool, &sl_service_batch_ops, s,
				       &c->maps.hist[index * SL_STAGE_CNT], &c->maps.live[index],
				       c->maps.ctl ? &c->maps.ctl[index] : NULL);
	if (!s->batcher)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->pool->backend_cnt; i++) {
		struct sl_service_backend *be = &s->backends[i];
		struct sl_rpc_channel *ch =
			sl_rpc_channel_add(c->rpc, s->pool->backends[i].name, be);

		if (!ch)
			return -ENOMEM;
		sl_service_set_backend(s, i, ch);
		be->joined = true;
	}
	return 0;
}

void sl_service_set_backend(struct sl_service *s, uint32_t index, struct sl_rpc_channel *ch)
{
	struct sl_service_backend *be = &s->backends[index];

	be->service = s;
	be->index = (uint8_t)index;
	be->channel = ch;
	be->wanted = true;
	sl_list_init(&be->flights);
}

void sl_service_fini(struct sl_service *s)
{
	if (s->batcher)
		sl_batcher_destroy(s->batcher);
	s->batcher = NULL;
}
