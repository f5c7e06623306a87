/* SPDX-License-Identifier: Apache-2.0 */
#include "core/exchange.h"

#include <string.h>

#include "base/clock.h"
#include "base/hist.h"
#include "base/num.h"
#include "core/service.h"

_Static_assert((int)SL_HIST_BUCKETS == (int)SL_HIST_BUCKET_CNT, "one histogram layout");

void sl_stage_add(struct sl_core *c, const struct sl_exchange *x, enum sl_stage stage, uint64_t ns)
{
	struct sl_svc_hist *h;

	if (!x->service)
		return;
	h = &c->maps.hist[x->service->index * SL_STAGE_CNT + stage];
	h->count++;
	h->sum_ns += ns;
	sl_hist_add((uint64_t *)h->bucket, ns);
}

/* RFC 9218 urgency, or what the route says. */
static uint8_t class_of(const struct sl_cfg_route *r, const struct sl_request *rq)
{
	if (r->priority >= 0)
		return (uint8_t)r->priority;
	if (rq->urgency < 0)
		return SL_CLASS_NORMAL;
	if (rq->urgency <= 1)
		return SL_CLASS_LATENCY;
	return rq->urgency <= 5 ? SL_CLASS_NORMAL : SL_CLASS_BULK;
}

static const struct sl_header *find_header(const struct sl_request *rq, const char *name)
{
	struct sl_span want = sl_span_cstr(name);

	for (uint32_t i = 0; i < rq->header_cnt; i++) {
		if (sl_span_eq_nocase(rq->headers[i].name, want))
			return &rq->headers[i];
	}
	return NULL;
}

/* The earliest of what the client and the route say; a client cannot ask for more than the route.
 */
static uint64_t deadline_of(const struct sl_core *c, const struct sl_cfg_route *r,
			    const struct sl_request *rq)
{
	uint64_t ns = r->deadline_ns ? r->deadline_ns : UINT64_MAX;
	const struct sl_header *h = r->deadline_header ? find_header(rq, r->deadline_header) : NULL;
	uint64_t ms;

	if (rq->timeout_ns && rq->timeout_ns < ns)
		ns = rq->timeout_ns;
	if (h && sl_parse_u64_max(h->value, UINT32_MAX, &ms) == 0 && ms * SL_NS_PER_MS < ns)
		ns = ms * SL_NS_PER_MS;
	return ns == UINT64_MAX ? ns : c->now_ns + ns;
}

static uint32_t fair_key(const struct sl_service *s, uint32_t addr, const struct sl_request *rq)
{
	const struct sl_header *h;
	uint32_t key = 2166136261u;

	if (s->pool->fair == SL_FAIR_NONE)
		return 0;
	h = s->pool->fair == SL_FAIR_HEADER ? find_header(rq, s->pool->fair_header) : NULL;
	if (!h)
		return addr;
	for (size_t i = 0; i < h->value.len; i++) /* FNV-1a: shares, not secrets */
		key = (key ^ h->value.ptr[i]) * 16777619u;
	return key;
}

static uint64_t body_limit(const struct sl_exchange *x)
{
	const struct sl_cfg_limits *l = &x->gen->cfg->limits;
	uint64_t limit = l->max_body;
	uint64_t pool = x->service ? x->service->pool->max_body : 0;

	if (x->stream.proto == SL_PROTO_GRPC)
		limit = l->max_message;
	if (pool && pool < limit)
		limit = pool;
	return x->route->max_body && x->route->max_body < limit ? x->route->max_body : limit;
}

/* SL_OUTCOME_OK: body and end are awaited; else what to answer. */
static enum sl_outcome admit(struct sl_exchange *x, uint32_t fair_addr, const struct sl_request *rq)
{
	struct sl_core *c = x->core;

	if (!x->route)
		return SL_OUTCOME_NO_ROUTE;
	if (rq->proto != SL_PROTO_DATAGRAM && !sl_route_allows(x->route, rq->method))
		return SL_OUTCOME_METHOD;
	if (x->route->pool < 0)
		return SL_OUTCOME_FIXED;
	x->service = &c->services[x->route->pool];
	if (rq->content_length != SL_LEN_UNKNOWN && rq->content_length > body_limit(x))
		return SL_OUTCOME_TOO_LARGE;
	if (!sl_meta_encode(x, rq))
		return SL_OUTCOME_NO_MEMORY;
	x->deadline_ns = deadline_of(c, x->route, rq);
	x->item.client = fair_key(x->service, fair_addr, rq);
	x->rpc_class = class_of(x->route, rq);
	x->idempotent =
		x->route->idempotent >= 0 ? x->route->idempotent : sl_method_idempotent(rq->method);
	return SL_OUTCOME_OK;
}

struct sl_exchange *sl_exchange_begin(struct sl_core *c, struct sl_client *cl,
				      const struct sl_cfg_route *route, uint32_t fair_addr,
				      const struct sl_request *rq)
{
	struct sl_exchange *x = sl_pool_get(&c->exchanges);
	enum sl_outcome o;

	if (!x) {
		c->stats.outcomes[SL_OUTCOME_NO_MEMORY]++;
		return NULL;
	}
	*x = (struct sl_exchange){
		.core = c,
		.gen = c->gen,
		.client = cl,
		.route = route,
		.take_ns = rq->take_ns ? rq->take_ns : c->now_ns,
		.deadline_ns = UINT64_MAX,
	};
	x->first_ns = rq->rx_ns && rq->rx_ns <= x->take_ns ? rq->rx_ns : x->take_ns;
	x->stream.proto = rq->proto;
	x->stream.method = rq->method;
	sl_list_init(&x->item.link);
	x->gen->exchanges++;
	c->stats.requests++;
	c->stats.protocols[rq->proto]++;
	if (cl)
		sl_client_stream_opened(cl);
	o = admit(x, fair_addr, rq);
	if (o != SL_OUTCOME_OK) {
		x->stream.refused = !rq->end;
		sl_exchange_fail(x, o);
	}
	return x;
}

size_t sl_exchange_body(struct sl_exchange *x, struct sl_chunk *chunk)
{
	size_t len = chunk->len, n;

	if (x->stream.refused || x->state != SL_EX_READING)
		return len;
	if (x->request.len - x->request_meta_len + len > body_limit(x)) {
		x->stream.refused = true;
		sl_exchange_fail(x, SL_OUTCOME_TOO_LARGE);
		return len;
	}
	n = sl_store_append(&x->request, x->core->net->umem, chunk);
	if (n < len) {
		/* Waiting for frames could wait for another half-read body: one has to give way. */
		x->stream.refused = true;
		sl_exchange_fail(x, SL_OUTCOME_NO_MEMORY);
	}
	return len;
}

void sl_exchange_end(struct sl_exchange *x)
{
	struct sl_core *c = x->core;
	enum sl_outcome o;

	x->request_ended = true;
	if (x->state != SL_EX_READING)
		return;
	x->parse_ns = c->now_ns;
	sl_stage_add(c, x, SL_STAGE_WIRE, x->take_ns - x->first_ns);
	sl_stage_add(c, x, SL_STAGE_PARSE, c->now_ns > x->take_ns ? c->now_ns - x->take_ns : 0);
	o = sl_service_submit(x);
	if (o != SL_OUTCOME_OK)
		sl_exchange_fail(x, o);
}

void sl_exchange_fail(struct sl_exchange *x, enum sl_outcome why)
{
	if (x->reply_started) {
		sl_reply_broken(x, why);
		return;
	}
	sl_service_forget(x);
	sl_service_release(x);
	sl_store_free(&x->reply, x->core->net->umem);
	x->reply_meta_len = 0;
	x->state = SL_EX_REPLYING;
	x->outcome = (uint8_t)why;
	x->reply_complete = true;
	sl_list_del(&x->item.link);
	sl_list_add_tail(&x->core->deferred, &x->item.link);
}

void sl_exchange_resume(struct sl_exchange *x)
{
	if ((x->state == SL_EX_REPLYING || x->reply_pending) && sl_list_empty(&x->item.link))
		sl_list_add_tail(&x->core->deferred, &x->item.link);
}

unsigned sl_exchange_run_deferred(struct sl_core *c)
{
	struct sl_list now = SL_LIST_INIT(now);
	struct sl_list *l;
	unsigned n = 0;

	/* What is put off meanwhile waits for the next burst, so that this ends. */
	sl_list_splice_tail(&now, &c->deferred);
	while ((l = sl_list_pop_head(&now))) {
		sl_reply_push(sl_container_of(l, struct sl_exchange, item.link));
		n++;
	}
	return n;
}

void sl_exchange_free(struct sl_exchange *x)
{
	struct sl_core *c = x->core;
	struct sl_client *cl = x->client;

	if (x->busy) {
		x->over = true;
		return;
	}
	sl_list_del(&x->item.link);
	sl_service_release(x);
	sl_store_free(&x->reply, c->net->umem);
	x->gen->exchanges--;
	sl_pool_put(&c->exchanges, x);
	if (cl)
		sl_client_stream_closed(cl);
}

bool sl_exchange_leave(struct sl_exchange *x)
{
	x->busy = false;
	if (!x->over)
		return true;
	sl_exchange_free(x);
	return false;
}

void sl_exchange_done(struct sl_exchange *x)
{
	struct sl_core *c = x->core;

	c->stats.outcomes[x->outcome]++;
	if (x->reply_ns) {
		sl_stage_add(c, x, SL_STAGE_REPLY, c->now_ns - x->reply_ns);
		sl_stage_add(c, x, SL_STAGE_TOTAL, c->now_ns - x->first_ns);
	}
	/* A reply may overtake the end of a refused request, never the compute of an accepted one.
	 */
	sl_service_forget(x);
	sl_exchange_free(x);
}

void sl_exchange_cancel(struct sl_exchange *x)
{
	x->core->stats.outcomes[SL_OUTCOME_CLIENT_GONE]++;
	sl_service_forget(x);
	x->state = SL_EX_REPLYING;
	sl_exchange_free(x);
}
