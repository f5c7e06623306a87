/* SPDX-License-Identifier: Apache-2.0 */
#include "control/code_metrics.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "control/metric_text.h"
#include "core/trace.h"
#include "front/codes.h"
#include "front/exemplar.h"

enum { LABELS_MAX = 64 << 10 };

void sl_codes_sum(struct sl_codes *to, const struct sl_codes *from)
{
	for (unsigned i = 0; i < SL_CODE_CNT; i++)
		to->http[i] += from->http[i];
	for (unsigned i = 0; i < SL_CODE_GRPC_CNT; i++)
		to->grpc[i] += from->grpc[i];
}

void sl_codes_of_pool(struct sl_gateway *g, const struct sl_gateway_info *in, uint32_t pool,
		      struct sl_codes *out)
{
	*out = (struct sl_codes){0};
	for (uint32_t w = 0; w < in->worker_cnt; w++)
		sl_codes_sum(out, sl_gateway_pool_codes(g, w, pool));
}

static void add_backend(struct sl_backend_sum *to, const struct sl_backend_info *k)
{
	to->workers[k->state < SL_BACKEND_SUM_STATES ? k->state : 0]++;
	to->on_fallback |= k->on_fallback;
	to->drained |= k->health.drained;
	to->ejected |= k->health.ejected;
	to->silent |= k->health.silent;
	to->weight = k->health.weight;
	to->outstanding += k->stats.outstanding;
	to->failures += k->stats.failures;
	to->info = k->info;
	if (!k->codes)
		return;
	sl_codes_sum(&to->codes.codes, &k->codes->codes);
	sl_hist_merge(to->codes.bucket, k->codes->bucket);
	to->codes.sum_ns += k->codes->sum_ns;
}

static bool is_backend(const struct sl_backend_info *k, const char *pool, const char *name)
{
	return strcmp(k->name, name) == 0 && strcmp(k->pool, pool) == 0;
}

void sl_codes_each_backend(const struct sl_gateway_info *in,
			   void (*visit)(void *arg, const struct sl_backend_sum *sum), void *arg)
{
	uint32_t next[SL_MAX_WORKERS] = {0};

	for (uint32_t p = 0; in->worker_cnt && p < in->cfg->pool_cnt; p++) {
		const struct sl_cfg_pool *pool = &in->cfg->pools[p];

		for (uint32_t i = 0; i < pool->backend_cnt; i++) {
			struct sl_backend_sum sum = {.pool = pool->name,
						     .name = pool->backends[i].name};

			for (uint32_t w = 0; w < in->worker_cnt; w++) {
				const struct sl_worker_info *wi = &in->workers[w];

				if (next[w] < wi->backend_cnt &&
				    is_backend(&wi->backends[next[w]], sum.pool, sum.name))
					add_backend(&sum, &wi->backends[next[w]++]);
			}
			visit(arg, &sum);
		}
	}
}

struct code_family {
	const struct sl_metric_text *m;
	struct sl_strbuf *b;
	const char *name;
	bool grpc;
	struct sl_strbuf labels;
};

static void family_begin(struct code_family *f, const struct sl_metric_text *m, const char *name,
			 bool grpc, const char *type, const char *help)
{
	f->m = m;
	f->b = m->b;
	f->name = name;
	f->grpc = grpc;
	sl_metric_head(m, name, type, help);
}

static void set_label(struct code_family *f, const char *name, const char *value)
{
	if (f->labels.len)
		sl_strbuf_char(&f->labels, ',');
	sl_metric_label(&f->labels, name, value);
}

static bool is_always_shown(unsigned index)
{
	switch (index) {
	case SL_CODE_200:
	case SL_CODE_404:
	case SL_CODE_429:
	case SL_CODE_500:
	case SL_CODE_502:
	case SL_CODE_503:
	case SL_CODE_504: return true;
	default: return false;
	}
}

static void put_http(const struct code_family *f, const struct sl_codes *c)
{
	for (unsigned i = 0; i < SL_CODE_CNT; i++) {
		if (!c->http[i] && !is_always_shown(i))
			continue;
		sl_strbuf_printf(f->b, "%s{%s,class=\"%uxx\",code=\"", f->name,
				 sl_strbuf_cstr(&f->labels), sl_code_class(i));
		if (sl_code_status(i))
			sl_strbuf_printf(f->b, "%u\"} %" PRIu64 "\n", sl_code_status(i),
					 c->http[i]);
		else
			sl_strbuf_printf(f->b, "other\"} %" PRIu64 "\n", c->http[i]);
	}
}

static void put_grpc(const struct code_family *f, const struct sl_codes *c)
{
	uint64_t all = 0;

	for (unsigned i = 0; i < SL_CODE_GRPC_CNT; i++)
		all += c->grpc[i];
	for (unsigned i = 0; all && i < SL_CODE_GRPC_CNT; i++) {
		sl_strbuf_printf(f->b, "%s{%s,grpc_status=\"", f->name, sl_strbuf_cstr(&f->labels));
		if (i < SL_CODE_GRPC_OTHER)
			sl_strbuf_printf(f->b, "%u\"} %" PRIu64 "\n", i, c->grpc[i]);
		else
			sl_strbuf_printf(f->b, "other\"} %" PRIu64 "\n", c->grpc[i]);
	}
}

static void put_codes(struct code_family *f, const struct sl_codes *c)
{
	if (f->grpc)
		put_grpc(f, c);
	else
		put_http(f, c);
	sl_strbuf_reset(&f->labels);
}

bool sl_codes_is_first_route(const struct sl_gateway *g, uint32_t route)
{
	const struct sl_route_codes *r = sl_gateway_route_codes(g, 0, route);

	for (uint32_t i = 0; i < route; i++) {
		if (sl_gateway_route_codes(g, 0, i) == r)
			return false;
	}
	return true;
}

static void render_routes(struct sl_gateway *g, const struct sl_gateway_info *in,
			  struct code_family *f)
{
	for (uint32_t i = 0; g && i <= in->cfg->route_cnt; i++) {
		struct sl_codes sum = {0};

		if (!sl_codes_is_first_route(g, i))
			continue;
		for (uint32_t w = 0; w < in->worker_cnt; w++)
			sl_codes_sum(&sum, &sl_gateway_route_codes(g, w, i)->codes);
		set_label(f, "route", sl_gateway_route_codes(g, 0, i)->label);
		put_codes(f, &sum);
	}
}

static void render_pools(struct sl_gateway *g, const struct sl_gateway_info *in,
			 struct code_family *f)
{
	struct sl_codes sum;

	for (uint32_t p = 0; g && p < in->cfg->pool_cnt; p++) {
		sl_codes_of_pool(g, in, p, &sum);
		set_label(f, "pool", in->cfg->pools[p].name);
		put_codes(f, &sum);
	}
}

static void put_backend(void *arg, const struct sl_backend_sum *sum)
{
	struct code_family *f = arg;

	set_label(f, "pool", sum->pool);
	set_label(f, "backend", sum->name);
	put_codes(f, &sum->codes.codes);
}

static void render_codes(struct sl_gateway *g, const struct sl_gateway_info *in,
			 const struct sl_metric_text *m, struct code_family *f)
{
	family_begin(f, m, "sluice_route_responses_total", false, "counter",
		     "replies to clients by route and HTTP status; route \"\": none matched");
	render_routes(g, in, f);
	family_begin(f, m, "sluice_route_grpc_responses_total", true, "counter",
		     "replies to gRPC clients by route and gRPC status");
	render_routes(g, in, f);
	family_begin(f, m, "sluice_pool_responses_total", false, "counter",
		     "replies to clients by pool and HTTP status, with those of the gateway");
	render_pools(g, in, f);
	family_begin(f, m, "sluice_pool_grpc_responses_total", true, "counter",
		     "replies to gRPC clients by pool and gRPC status");
	render_pools(g, in, f);
	family_begin(f, m, "sluice_backend_responses_total", false, "counter",
		     "replies of each backend by HTTP status, as it sent them");
	sl_codes_each_backend(in, put_backend, f);
	family_begin(f, m, "sluice_backend_grpc_responses_total", true, "counter",
		     "replies of each backend by gRPC status, as it sent them");
	sl_codes_each_backend(in, put_backend, f);
}

static void put_bucket(const struct code_family *f, double bound, uint64_t below,
		       const struct sl_exemplar *e)
{
	char id[2 * sizeof(e->trace_id)];

	sl_strbuf_printf(f->b, "%s_bucket{%s", f->name, sl_strbuf_cstr(&f->labels));
	sl_metric_bound(f->m, bound);
	sl_strbuf_printf(f->b, "} %" PRIu64, below);
	if (e && e->unix_ns) {
		sl_trace_hex(id, e->trace_id, sizeof(e->trace_id));
		sl_strbuf_printf(f->b, " # {trace_id=\"%.*s\"} %.9f %" PRIu64 ".%03" PRIu64,
				 (int)sizeof(id), id, (double)e->ns / 1e9,
				 e->unix_ns / SL_NS_PER_SEC,
				 e->unix_ns % SL_NS_PER_SEC / SL_NS_PER_MS);
	}
	sl_strbuf_char(f->b, '\n');
}

static void put_buckets(struct code_family *f, const uint64_t *bucket, uint64_t sum_ns,
			const struct sl_exemplar *exemplars)
{
	const char *labels = sl_strbuf_cstr(&f->labels);
	uint64_t below = 0;

	for (unsigned i = 0; i <= SL_CODE_BOUND_CNT; i++) {
		below += bucket[i];
		put_bucket(f, i < SL_CODE_BOUND_CNT ? (double)sl_code_bound_ns(i) / 1e9 : INFINITY,
			   below, exemplars ? &exemplars[i] : NULL);
	}
	sl_strbuf_printf(f->b, "%s_sum{%s} %.9f\n", f->name, labels, (double)sum_ns / 1e9);
	sl_strbuf_printf(f->b, "%s_count{%s} %" PRIu64 "\n", f->name, labels, below);
	sl_strbuf_reset(&f->labels);
}

static void put_backend_time(void *arg, const struct sl_backend_sum *sum)
{
	const struct sl_backend_codes *codes = &sum->codes;
	uint64_t bucket[SL_CODE_BOUND_CNT + 1] = {0};
	struct code_family *f = arg;
	unsigned at = 0;

	/* A value counts by its bucket's lower bound, at most 12 % below it. */
	for (uint32_t i = 0; i < SL_HIST_BUCKETS; i++) {
		while (at < SL_CODE_BOUND_CNT && sl_hist_lower(i) > sl_code_bound_ns(at))
			at++;
		bucket[at] += codes->bucket[i];
	}
	set_label(f, "pool", sum->pool);
	set_label(f, "backend", sum->name);
	put_buckets(f, bucket, codes->sum_ns, NULL);
}

static void put_duration(struct code_family *f, const char *route, const char *key,
			 const struct sl_duration *d, const struct sl_exemplar *exemplars)
{
	unsigned index = d->index - 1u;
	char code[16] = "other";

	if (f->grpc && d->index && index < SL_CODE_GRPC_OTHER)
		snprintf(code, sizeof(code), "%u", index);
	else if (!f->grpc && d->index && sl_code_status(index))
		snprintf(code, sizeof(code), "%u", sl_code_status(index));
	set_label(f, "http_route", route);
	set_label(f, key, code);
	if (f->grpc)
		set_label(f, "rpc_system", "grpc");
	put_buckets(f, d->bucket, d->sum_ns, exemplars);
}

static bool is_used(const struct sl_duration *d)
{
	uint64_t all = 0;

	for (unsigned i = 0; i <= SL_CODE_BOUND_CNT; i++)
		all += d->bucket[i];
	return all;
}

static void render_durations(struct sl_gateway *g, const struct sl_gateway_info *in,
			     struct code_family *f, const char *key)
{
	for (uint32_t i = 0; g && i <= in->cfg->route_cnt; i++) {
		struct sl_exemplar exemplars[SL_DURATION_SLOTS][SL_EXEMPLAR_BUCKETS] = {0};
		struct sl_duration sum[SL_DURATION_SLOTS] = {0};

		if (!sl_codes_is_first_route(g, i))
			continue;
		for (uint32_t w = 0; w < in->worker_cnt; w++) {
			const struct sl_route_codes *r = sl_gateway_route_codes(g, w, i);

			sl_durations_merge(sum, f->grpc ? r->grpc : r->http);
			if (f->m->openmetrics)
				sl_exemplars_merge(exemplars, sum, r, f->grpc);
		}
		for (unsigned s = 0; s < SL_DURATION_SLOTS; s++) {
			if (is_used(&sum[s]))
				put_duration(f, sl_gateway_route_codes(g, 0, i)->label, key,
					     &sum[s], exemplars[s]);
		}
	}
}

void sl_code_metrics_render(struct sl_gateway *g, const struct sl_gateway_info *in,
			    const struct sl_metric_text *m)
{
	struct code_family f;

	sl_strbuf_grow(&f.labels, LABELS_MAX);
	render_codes(g, in, m, &f);
	family_begin(&f, m, "sluice_backend_seconds", false, "histogram",
		     "from sending a request to a backend to the first part of its reply");
	sl_codes_each_backend(in, put_backend_time, &f);
	family_begin(&f, m, "http_server_request_duration_seconds", false, "histogram",
		     "requests but gRPC, from the first byte to the last of the reply");
	render_durations(g, in, &f, "http_response_status_code");
	family_begin(&f, m, "rpc_server_duration_seconds", true, "histogram",
		     "gRPC calls, from the first byte to the last of the reply");
	render_durations(g, in, &f, "rpc_grpc_status_code");
	if (f.labels.err)
		m->b->err = f.labels.err;
	sl_strbuf_fini(&f.labels);
}
