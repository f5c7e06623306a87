/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/fnv.h"
#include "base/num.h"
#include "core/api_key.h"
#include "core/client.h"
#include "core/cors.h"
#include "core/event.h"
#include "core/hedge.h"
#include "core/mirror.h"
#include "core/offender.h"
#include "core/pool.h"
#include "core/quota.h"
#include "core/route_pools.h"
#include "core/router.h"
#include "core/rules.h"
#include "front/path.h"
#include "front/tls/cert.h"

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

static uint32_t fair_key(const struct sl_cfg_pool *pool, uint32_t addr, const struct sl_request *rq)
{
	const struct sl_header *h;

	if (pool->fair == SL_FAIR_NONE)
		return 0;
	h = pool->fair == SL_FAIR_HEADER ? find_header(rq, pool->fair_header) : NULL;
	return h ? sl_fnv32(SL_FNV32, h->value.ptr, h->value.len) : addr;
}

static uint64_t lower_limit(uint64_t limit, uint64_t other)
{
	return other && other < limit ? other : limit;
}

/*
 * Decides a fixed reply. Below 400 it waits for the request's end: some clients stop sending at an
 * early one.
 */
static enum sl_outcome admit_fixed(struct sl_exchange *x, const struct sl_request *rq)
{
	x->body_max = lower_limit(rq->body_max, x->route->max_body);
	if (rq->end || x->route->redirect || x->route->reply_status >= 400)
		return SL_OUTCOME_FIXED;
	return rq->content_length != SL_LEN_UNKNOWN && rq->content_length > x->body_max
		       ? SL_OUTCOME_TOO_LARGE
		       : SL_OUTCOME_OK;
}

static uint64_t body_max(const struct sl_exchange *x, const struct sl_request *rq)
{
	if (x->stream.upgrade)
		return UINT64_MAX;
	if (x->stream.open_ended)
		return lower_limit(lower_limit(UINT64_MAX, x->route->max_body),
				   x->route->stream_auto ? x->pool->cfg->max_body : 0);
	return lower_limit(lower_limit(rq->body_max, x->pool->cfg->max_body), x->route->max_body);
}

static bool is_misdirected(const struct sl_client *cl, const struct sl_request *rq)
{
	struct sl_span host = sl_router_host(rq->authority);
	SL_UNINIT uint8_t lower[256];
	SL_UNINIT struct sl_conn_info info;

	sl_client_addrs(cl, &info);
	if (!info.tls.sni.len || sl_span_eq_nocase(host, info.tls.sni))
		return false;
	if (host.len > sizeof(lower))
		return true;
	for (size_t i = 0; i < host.len; i++)
		lower[i] = sl_ascii_lower(host.ptr[i]);
	return !sl_tls_cert_covers(info.tls.cert, sl_span_of(lower, host.len));
}

static enum sl_outcome admit_request(struct sl_exchange *x, const struct sl_route_match *match,
				     enum sl_outcome unless, const struct sl_request *rq)
{
	const struct sl_cfg_pool *pool;
	struct sl_core *c = x->core;
	enum sl_outcome o;

	if (x->client->filtered && rq->coalesces && is_misdirected(x->client, rq))
		return SL_OUTCOME_MISDIRECTED;
	if (!x->route)
		return unless;
	if (!match->method_ok)
		return SL_OUTCOME_METHOD;
	if (rq->must_upgrade && !x->stream.upgrade)
		return SL_OUTCOME_UPGRADE;
	if (x->route->pool >= 0 && !sl_addr_quota_admits_request(&c->quotas, x->quota, c->now_ns)) {
		sl_offender_count(x->client, NULL);
		return SL_OUTCOME_ADDRESS_LIMIT;
	}
	o = x->route->keys ? sl_api_key_check(x, rq) : SL_OUTCOME_OK;
	if (o != SL_OUTCOME_OK)
		return o;
	o = x->route->quota_cnt ? sl_quotas_admit(x, rq) : SL_OUTCOME_OK;
	if (o != SL_OUTCOME_OK)
		return o;
	if (x->route->pool < 0)
		return admit_fixed(x, rq);
	x->pool = x->wcfg->pools[x->route->pool].pool;
	sl_pool_get(x->pool);
	x->hist = &x->pool->hist;
	pool = x->pool->cfg;
	x->body_max = body_max(x, rq);
	if (rq->content_length != SL_LEN_UNKNOWN && rq->content_length > x->body_max)
		return SL_OUTCOME_TOO_LARGE;
	x->deadline_ns = deadline_of(c, x->route, rq);
	x->own_deadline = x->deadline_ns == c->now_ns + x->route->deadline_ns;
	if (!sl_meta_encode(x, rq))
		return SL_OUTCOME_NO_MEMORY;
	x->item.client = fair_key(pool, (uint32_t)x->quota->hash, rq);
	x->item.unproven = rq->unproven && pool->fair != SL_FAIR_NONE;
	x->rpc_class = class_of(x->route, rq);
	x->idempotent =
		x->route->idempotent >= 0 ? x->route->idempotent : sl_method_idempotent(rq->method);
	return sl_unlikely(x->route->pools) ? sl_route_pools_begin(x, rq) : SL_OUTCOME_OK;
}

static struct sl_exchange *new_exchange(struct sl_core *c, const struct sl_client *cl, bool whole,
					bool for_backend, enum sl_outcome *why)
{
	struct sl_addr_quota *a = sl_client_quota(cl);
	struct sl_addr_quotas *t = &c->quotas;
	bool may = sl_addr_quota_admits(t, a, SL_QUOTA_EXCHANGES, 1) &&
		   (whole || sl_addr_quota_admits(t, a, SL_QUOTA_READING, 1));
	bool has = may && sl_core_has_exchange(c, for_backend);
	struct sl_exchange *x = has ? sl_mempool_get(&c->exchanges) : NULL;

	if (!x) {
		*why = may ? SL_OUTCOME_NO_MEMORY : SL_OUTCOME_ADDRESS_LIMIT;
		c->stats.requests++;
		c->stats.outcomes[*why]++;
	}
	if (!may)
		sl_offender_count(cl, NULL);
	return x;
}

static SL_COLD void begin_extras(struct sl_exchange *x)
{
	if (x->extra & SL_EXTRA_MIRROR)
		sl_mirror_send(x);
	if (x->extra & SL_EXTRA_HEDGE)
		sl_hedge_begin(x);
}

static void submit_exchange(struct sl_exchange *x)
{
	struct sl_core *c = x->core;
	enum sl_outcome o;

	if (!x->pool) {
		sl_exchange_fail(x, SL_OUTCOME_FIXED);
		return;
	}
	x->parse_ns = c->now_ns;
	sl_hist_stage_add(*x->hist, SL_STAGE_WIRE, x->take_ns - x->first_ns);
	sl_hist_stage_add(*x->hist, SL_STAGE_PARSE,
			  c->now_ns > x->take_ns ? c->now_ns - x->take_ns : 0);
	o = x->stream.open_ended ? sl_stream_open(x) : sl_dispatch_submit(x);
	if (o != SL_OUTCOME_OK)
		sl_exchange_fail(x, o);
	else if (sl_unlikely(x->extra & (SL_EXTRA_MIRROR | SL_EXTRA_HEDGE)))
		begin_extras(x);
}

static bool may_upgrade(struct sl_exchange *x, const struct sl_request *rq)
{
	struct sl_span list = rq->upgrade, protocol;

	while (sl_span_next_element(&list, &protocol)) {
		for (uint32_t i = 0; i < x->route->upgrade_cnt; i++) {
			x->upgrade = (uint8_t)i;
			if (sl_span_eq_nocase(protocol, sl_exchange_upgrade(x)))
				return true;
		}
	}
	return false;
}

static void note_ignored_upgrade(struct sl_exchange *x, const struct sl_request *rq)
{
	static const struct sl_span h2c = SL_SPAN_LIT("h2c"), http = SL_SPAN_LIT("http/");
	struct sl_span list = rq->upgrade, protocol;
	bool other = false;

	if (x->stream.upgrade || rq->must_upgrade)
		return;
	while (sl_span_next_element(&list, &protocol))
		other |= protocol.len && !sl_span_eq_nocase(protocol, h2c) &&
			 !sl_span_eq_nocase(sl_span_first(protocol, http.len), http);
	x->core->stats.upgrades_ignored += other;
	if (x->note)
		x->note->upgrade_ignored = other;
}

static void answer_directly(struct sl_exchange *x, const struct sl_request *rq, enum sl_outcome o)
{
	sl_exchange_fail(x, o);
	if (o == SL_OUTCOME_FIXED && x->route->redirect)
		x->outcome = (uint8_t)sl_redirect_encode(x, rq);
	sl_exchange_charge(x);
}

static void count_exchange(struct sl_exchange *x)
{
	struct sl_addr_quota *a = x->quota;

	sl_addr_quota_set_exchanges(&x->core->quotas, a, a->cnt[SL_QUOTA_EXCHANGES] + 1);
	x->reading = sl_exchange_reads(x);
	a->cnt[SL_QUOTA_READING] += x->reading;
	x->client->reading += x->reading;
	x->client->streams++;
}

static bool keep_rules(struct sl_exchange *x, const struct sl_request *rq)
{
	return !x->route || !x->route->reply_rules.varies || sl_rules_keep_reply(x, rq);
}

enum { WHOLE_MAX = 64 << 10 };

/*
 * Returns true if the request is forwarded while it is read. With stream = auto, a small one is
 * read first, and can be retried.
 */
static bool is_stream(const struct sl_cfg_route *r, const struct sl_request *rq, bool upgrades)
{
	if (!r->stream || !r->stream_auto || upgrades)
		return r->stream;
	if (rq->expect && r->backend_continues)
		return true;
	return !rq->end && (rq->content_length == SL_LEN_UNKNOWN || rq->content_length > WHOLE_MAX);
}

static void count_refused(struct sl_core *c, const struct sl_request *rq,
			  const struct sl_cfg_route *route, enum sl_outcome why)
{
	struct sl_code_at at =
		sl_code_find(&(struct sl_code_end){.proto = rq->proto, .outcome = why});

	sl_route_codes_add(sl_worker_cfg_route_codes(c->wcfg, route), at, 0);
	if (route && route->pool >= 0)
		sl_codes_add(&c->wcfg->pools[route->pool].pool->codes, at);
}

static struct sl_exchange *begin_at(struct sl_client *cl, const struct sl_request *rq,
				    const struct sl_route_match *match, enum sl_outcome unless)
{
	struct sl_core *c = cl->core;
	bool for_backend = match->route && match->method_ok && match->route->pool >= 0;
	enum sl_outcome o;
	struct sl_exchange *x = new_exchange(c, cl, rq->end, for_backend, &o);

	if (!x) {
		count_refused(c, rq, match->route, o);
		if (sl_events_noted(c))
			sl_event_refused(c, cl, rq, match->route, o);
		return NULL;
	}
	*x = (struct sl_exchange){
		.core = c,
		.wcfg = c->wcfg,
		.client = cl,
		.quota = sl_client_quota(cl),
		.route = match->route,
		.allowed = match->methods,
		.take_ns = rq->take_ns ? rq->take_ns : c->now_ns,
		.deadline_ns = UINT64_MAX,
		.proto = rq->proto,
		.open = !rq->end || rq->must_upgrade, /* upgrades stay open */
	};
	x->first_ns = rq->rx_ns && rq->rx_ns <= x->take_ns ? rq->rx_ns : x->take_ns;
	sl_list_init(&x->item.link);
	sl_list_init(&x->rate_node);
	sl_list_init(&x->quota_node);
	if (x->route && x->route->cors.origin_cnt)
		sl_cors_begin(x, &x->route->cors, rq);
	if (sl_events_noted(c))
		sl_event_begin(x, rq);
	sl_worker_cfg_get(x->wcfg);
	c->stats.requests++;
	c->stats.protocols[rq->proto]++;
	x->stream.upgrade = for_backend && x->route->stream && may_upgrade(x, rq);
	if (for_backend && rq->upgrade.len)
		note_ignored_upgrade(x, rq);
	x->stream.open_ended = for_backend && is_stream(x->route, rq, x->stream.upgrade);
	x->stream.awaits = x->stream.open_ended && x->route->backend_continues && rq->expect;
	x->open |= x->stream.upgrade;
	c->stats.streams += x->stream.open_ended;
	count_exchange(x);
	o = !keep_rules(x, rq) ? SL_OUTCOME_NO_MEMORY : admit_request(x, match, unless, rq);
	sl_exchange_charge(x);
	if (o != SL_OUTCOME_OK)
		answer_directly(x, rq, o);
	else if (!x->open || (x->stream.open_ended && !x->held))
		submit_exchange(x);
	else if (x->deadline_ns != UINT64_MAX)
		sl_timer_set(&c->late, &x->late, x->deadline_ns);
	if (x->open || x->stream.open_ended)
		sl_min_rate_join(x);
	return x;
}

static const struct sl_cfg_route own_options = {
	.prefix = "*", .prefix_len = 1, .pool = -1, .reply_status = 200};

static struct sl_route_match find_route(const struct sl_client *cl, const struct sl_request *rq,
					struct sl_span path)
{
	struct sl_request read_so = *rq;

	read_so.path = path;
	return sl_router_find(cl->core->wcfg->router, sl_client_listener(cl), &read_so);
}

static struct sl_exchange *begin_by_path(struct sl_client *cl, const struct sl_request *rq)
{
	struct sl_route_match match =
		sl_router_find(cl->core->wcfg->router, sl_client_listener(cl), rq);

	if (!match.route && rq->method == SL_METHOD_OPTIONS &&
	    sl_span_eq(rq->path, sl_span_str("*")))
		match = (struct sl_route_match){&own_options, SL_METHODS_SERVED, true};
	return begin_at(cl, rq, &match, SL_OUTCOME_NO_ROUTE);
}

static struct sl_exchange *refuse_path(struct sl_client *cl, const struct sl_request *rq)
{
	return begin_at(cl, rq, &(struct sl_route_match){0}, SL_OUTCOME_PATH);
}

static struct sl_exchange *begin_normalised(struct sl_client *cl, const struct sl_request *rq,
					    uint8_t *buf, uint8_t *literal, uint8_t *resolved)
{
	struct sl_path_readings readings;
	struct sl_request plain = *rq;
	struct sl_route_match match;

	if (!sl_path_normalise(rq->path, buf, &plain.path) ||
	    !sl_path_read(plain.path, literal, resolved, &readings))
		return refuse_path(cl, rq);
	if (plain.call.len)
		plain.call = sl_span_skip(plain.path, 1);
	match = find_route(cl, &plain, readings.literal);
	return begin_at(cl, &plain, &match, SL_OUTCOME_NO_ROUTE);
}

static bool stays_within(const struct sl_cfg_route *route, const struct sl_cfg_route *resolved,
			 bool climbs)
{
	return route == resolved && !(climbs && route && route->pool >= 0 && route->strip_prefix);
}

/* Begins at a suspicious path. Not inlined: keeps its buffers off the stack of other requests. */
static __attribute__((noinline)) struct sl_exchange *begin_devious(struct sl_client *cl,
								   const struct sl_request *rq)
{
	SL_UNINIT uint8_t literal[SL_CFG_TARGET_MAX], resolved[SL_CFG_TARGET_MAX],
		plain[SL_CFG_TARGET_MAX];
	struct sl_path_readings readings;
	struct sl_route_match match;
	int8_t policy;
	bool ok;

	if (rq->path.len > sizeof(literal))
		return refuse_path(cl, rq);
	ok = sl_path_read(rq->path, literal, resolved, &readings);
	match = find_route(cl, rq, ok ? readings.literal : rq->path);
	policy = match.route ? match.route->path : SL_PATH_AUTO;
	switch (policy == SL_PATH_AUTO ? (int)cl->core->cfg->limits.path : policy) {
	case SL_PATH_RAW: ok = true; break;
	case SL_PATH_NORMALISE: return begin_normalised(cl, rq, plain, literal, resolved);
	case SL_PATH_REFUSE: ok = ok && sl_path_is_plain(rq->path); break;
	default:
		ok = ok && stays_within(match.route, find_route(cl, rq, readings.resolved).route,
					readings.climbs);
	}
	if (!ok)
		return refuse_path(cl, rq);
	return begin_at(cl, rq, &match, SL_OUTCOME_NO_ROUTE);
}

/*
 * Answers a preflight for a route with `cors`, with or without method OPTIONS. Returns true and *x;
 * false: another request.
 */
static bool answer_preflight(struct sl_client *cl, const struct sl_request *rq,
			     struct sl_exchange **x)
{
	struct sl_request asked = *rq;
	struct sl_route_match match;

	asked.method = sl_cors_asked(rq);
	if (asked.method == SL_METHOD_OTHER || !sl_path_is_simple(rq->path))
		return false;
	match = sl_router_find(cl->core->wcfg->router, sl_client_listener(cl), &asked);
	if (!match.route || !match.method_ok || !match.route->cors.origin_cnt)
		return false;
	*x = begin_at(cl, rq, &(struct sl_route_match){0}, SL_OUTCOME_PREFLIGHT);
	if (*x)
		sl_cors_begin(*x, &match.route->cors, rq);
	return true;
}

static struct sl_exchange *route_request(struct sl_client *cl, const struct sl_request *rq)
{
	const struct sl_router *router = cl->core->wcfg->router;
	struct sl_exchange *x;

	if (rq->service)
		return begin_at(cl, rq,
				&(struct sl_route_match){
					.route = sl_router_find_service(
						router, sl_client_listener(cl), rq->service),
					.method_ok = true},
				SL_OUTCOME_NO_ROUTE);
	if (sl_unlikely(rq->method == SL_METHOD_OPTIONS) && answer_preflight(cl, rq, &x))
		return x;
	return sl_path_is_simple(rq->path) ? begin_by_path(cl, rq) : begin_devious(cl, rq);
}

struct sl_stream *sl_request_begin(void *conn, const struct sl_request *rq)
{
	struct sl_exchange *x = route_request(conn, rq);

	return x ? &x->stream : NULL;
}

bool sl_request_message(void *conn, struct sl_stream *st, uint32_t len, bool compressed)
{
	struct sl_exchange *x = (struct sl_exchange *)st;

	(void)conn;
	if (!x->stream.refused && !sl_stream_message(x, len, compressed))
		sl_exchange_fail(x, SL_OUTCOME_NO_MEMORY);
	return !x->stream.refused;
}

static bool settle_pool(struct sl_exchange *x, bool end)
{
	bool release;
	enum sl_outcome o = sl_route_pools_settle(x, end, &release);

	if (o != SL_OUTCOME_OK) {
		sl_exchange_fail(x, o);
		return false;
	}
	if (!release)
		return true;
	sl_exchange_has_read(x);
	sl_timer_cancel(&x->core->late, &x->late);
	submit_exchange(x);
	sl_stream_pump(x);
	return true;
}

static size_t take_body(struct sl_exchange *x, struct sl_chunk *chunk)
{
	size_t len = chunk->len;

	if (x->stream.refused)
		return len;
	if (x->stream.open_ended ? sl_stream_is_full(x) : x->pool && !sl_body_may_read(x))
		return 0;
	x->body_len += len;
	if (x->body_len > x->body_max)
		sl_exchange_fail(x, SL_OUTCOME_TOO_LARGE);
	else if (!x->pool)
		;
	else if (!sl_exchange_may_store(x, len))
		sl_exchange_fail(x, SL_OUTCOME_ADDRESS_LIMIT);
	else if (x->stream.open_ended
			 ? !sl_stream_take(x, chunk)
			 : sl_store_append(&x->request, x->core->net->umem, chunk) < len)
		/* Waiting could block on other half-read bodies. */
		sl_exchange_fail(x, SL_OUTCOME_NO_MEMORY);
	sl_exchange_charge(x);
	if (!x->stream.open_ended)
		sl_body_was_read(x, len);
	return len;
}

static size_t take_and_look(struct sl_exchange *x, struct sl_chunk *chunk)
{
	struct sl_span bytes = sl_span_of(chunk->ptr, chunk->len);
	/* Its memory may be free after it was sent. */
	bool before = x->stream.open_ended && !x->held;
	size_t n;

	if (before && !x->stream.refused && !sl_stream_is_full(x))
		sl_route_pools_read(x, bytes);
	n = take_body(x, chunk);
	if (x->looks && n && !before)
		sl_route_pools_read(x, bytes);
	if (x->looks)
		(void)settle_pool(x, false);
	return n;
}

size_t sl_request_body(void *conn, struct sl_stream *st, struct sl_chunk *chunk)
{
	struct sl_exchange *x = (struct sl_exchange *)st;

	(void)conn;
	return sl_unlikely(x->looks) ? take_and_look(x, chunk) : take_body(x, chunk);
}

void sl_request_trailers(void *conn, struct sl_stream *st, const struct sl_header *fields,
			 uint32_t cnt)
{
	struct sl_exchange *x = (struct sl_exchange *)st;

	(void)conn;
	if (!sl_meta_encode_trailers(x, fields, cnt))
		sl_exchange_fail(x, SL_OUTCOME_NO_MEMORY);
}

void sl_request_end(void *conn, struct sl_stream *st)
{
	struct sl_exchange *x = (struct sl_exchange *)st;

	(void)conn;
	x->open = false;
	if (sl_unlikely(x->looks) && !settle_pool(x, true))
		return;
	if (x->stream.open_ended) {
		sl_stream_pump(x);
		return;
	}
	sl_exchange_has_read(x);
	sl_timer_cancel(&x->core->late, &x->late);
	sl_list_del(&x->item.link); /* paused or not */
	submit_exchange(x);
}
