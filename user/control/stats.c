/* SPDX-License-Identifier: Apache-2.0 */
#include "control/stats.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hist.h"
#include "control/fields.h"

enum { WINDOW_NS = 2000000000 };

static void sum_hist(struct sl_gateway *g, uint32_t workers, uint32_t service, unsigned stage,
		     struct sl_svc_hist *out)
{
	memset(out, 0, sizeof(*out));
	for (uint32_t w = 0; w < workers; w++) {
		const struct sl_svc_hist *h = sl_gateway_hist(g, w, service, (enum sl_stage)stage);

		sl_hist_merge((uint64_t *)out->bucket, (const uint64_t *)h->bucket);
		out->count += h->count;
		out->sum_ns += h->sum_ns;
	}
}

int sl_window_init(struct sl_window *w, uint32_t service_max)
{
	*w = (struct sl_window){.cnt = service_max * SL_STAGE_CNT};
	w->older = calloc(w->cnt + 1, sizeof(*w->older));
	w->newer = calloc(w->cnt + 1, sizeof(*w->newer));
	if (w->older && w->newer)
		return 0;
	sl_window_fini(w);
	return -ENOMEM;
}

void sl_window_fini(struct sl_window *w)
{
	free(w->older);
	free(w->newer);
	*w = (struct sl_window){0};
}

void sl_window_tick(struct sl_window *w, struct sl_gateway *g, uint64_t now_ns)
{
	const struct sl_gateway_info *in;
	struct sl_svc_hist *swap = w->older;

	if (now_ns < w->next_ns)
		return;
	w->next_ns = now_ns + WINDOW_NS;
	w->older = w->newer;
	w->newer = swap;
	in = sl_gateway_info(g);
	for (uint32_t i = 0; i < w->cnt; i++)
		sum_hist(g, in->worker_cnt, i / SL_STAGE_CNT, i % SL_STAGE_CNT, &w->newer[i]);
}

static void set_int(json_t *o, const char *key, uint64_t v)
{
	json_object_set_new(o, key, json_integer((json_int_t)v));
}

static void add_table(json_t *o, const struct stat_table *t, const void *obj)
{
	for (unsigned i = 0; i < t->cnt; i++)
		set_int(o, t->fields[i].name, field_value(&t->fields[i], obj));
}

static json_t *table_json(const struct stat_table *t, const void *obj)
{
	json_t *o = json_object();

	add_table(o, t, obj);
	return o;
}

static json_t *named_json(const struct stat_name *names, unsigned cnt, const uint64_t *v)
{
	json_t *o = json_object();

	for (unsigned i = 0; i < cnt; i++)
		set_int(o, names[i].name, v[i]);
	return o;
}

static json_t *interface_json(const struct sl_interface_info *i)
{
	json_t *o = json_object();

	json_object_set_new(o, "name", json_string(i->name));
	json_object_set_new(o, "attach", json_string(i->attach));
	json_object_set_new(o, "verdicts",
			    named_json(verdict_names, SL_RX_VERDICT_CNT, i->verdicts));
	return o;
}

static json_t *port_json(const struct sl_port_info *p)
{
	json_t *o = json_object();

	json_object_set_new(o, "interface", json_string(p->ifname));
	set_int(o, "queue", p->queue);
	json_object_set_new(o, "mode", json_string(sl_port_mode_name((enum sl_port_mode)p->mode)));
	add_table(o, &port_fields, &p->stats);
	return o;
}

static json_t *backend_json(const struct sl_backend_info *b)
{
	json_t *o = json_object();

	json_object_set_new(o, "pool", json_string(b->pool));
	json_object_set_new(o, "name", json_string(b->name));
	json_object_set_new(o, "state", json_string(rpc_state_name(b->state)));
	json_object_set_new(o, "info", json_string(b->info));
	json_object_set_new(o, "on_fallback", json_boolean(b->on_fallback));
	add_table(o, &backend_fields, &b->stats);
	return o;
}

static json_t *worker_json(const struct sl_worker_info *w)
{
	json_t *o = json_object(), *ports = json_array(), *backends = json_array();
	json_t *core = table_json(&core_fields, &w->core);

	json_object_set_new(o, "cpu", json_integer(w->cpu));
	add_table(o, &worker_fields, w);
	json_object_set_new(o, "tcp", table_json(&tcp_fields, &w->tcp));
	json_object_set_new(core, "outcomes",
			    named_json(outcome_names, SL_OUTCOME_CNT, w->core.outcomes));
	json_object_set_new(core, "front_errors",
			    named_json(error_names, SL_FRONT_ERR_CNT, w->core.front_errors));
	json_object_set_new(core, "protocols",
			    named_json(protocol_names, SL_PROTO_CNT, w->core.protocols));
	json_object_set_new(o, "core", core);
	json_object_set_new(o, "drops", named_json(drop_names, SL_DROP_CNT, w->drops));
	for (uint32_t i = 0; i < w->port_cnt; i++)
		json_array_append_new(ports, port_json(&w->ports[i]));
	for (uint32_t i = 0; i < w->backend_cnt; i++)
		json_array_append_new(backends, backend_json(&w->backends[i]));
	json_object_set_new(o, "ports", ports);
	json_object_set_new(o, "backends", backends);
	return o;
}

static void add_quantiles(json_t *o, const uint64_t *bucket)
{
	set_int(o, "p50_ns", sl_hist_quantile(bucket, 0.5));
	set_int(o, "p90_ns", sl_hist_quantile(bucket, 0.9));
	set_int(o, "p99_ns", sl_hist_quantile(bucket, 0.99));
}

static json_t *stage_json(const struct sl_svc_hist *h, const struct sl_svc_hist *older)
{
	json_t *o = json_object(), *recent = json_object();
	uint64_t diff[SL_HIST_BUCKET_CNT];

	set_int(o, "count", h->count);
	set_int(o, "mean_ns", h->count ? h->sum_ns / h->count : 0);
	add_quantiles(o, (const uint64_t *)h->bucket);
	sl_hist_diff(diff, (const uint64_t *)h->bucket, (const uint64_t *)older->bucket);
	set_int(recent, "count", sl_hist_count(diff));
	add_quantiles(recent, diff);
	json_object_set_new(o, "recent", recent);
	return o;
}

static json_t *service_json(struct sl_gateway *g, const struct sl_gateway_info *in,
			    const struct sl_window *win, uint32_t s)
{
	json_t *o = json_object(), *live = json_array(), *stages = json_object();
	struct sl_svc_hist h;
	struct sl_svc_live l;

	json_object_set_new(o, "pool", json_string(in->cfg->pools[s].name));
	for (uint32_t w = 0; w < in->worker_cnt; w++) {
		sl_gateway_live(g, w, s, &l);
		json_array_append_new(live, table_json(&live_fields, &l));
	}
	json_object_set_new(o, "live", live);
	json_object_set_new(o, "override", sl_override_json(sl_gateway_ctl(g, s)));
	for (unsigned st = 0; st < SL_STAGE_CNT; st++) {
		sum_hist(g, in->worker_cnt, s, st, &h);
		json_object_set_new(stages, stage_names[st].name,
				    stage_json(&h, &win->older[s * SL_STAGE_CNT + st]));
	}
	json_object_set_new(o, "stages", stages);
	return o;
}

json_t *sl_stats_json(struct sl_gateway *g, const struct sl_window *win)
{
	const struct sl_gateway_info *in = sl_gateway_info(g);
	json_t *o = json_object(), *list;
	uint64_t now = sl_now_ns();
	char why[128] = "";

	set_int(o, "time_ns", now);
	set_int(o, "uptime_ns", now - in->start_ns);
	json_object_set_new(o, "config", json_string(in->cfg->file));
	json_object_set_new(o, "ready", json_boolean(sl_gateway_ready(g, why, sizeof(why))));
	json_object_set_new(o, "why_not_ready", json_string(why));
	json_object_set_new(o, "draining", json_boolean(in->draining));
	list = json_array();
	for (uint32_t i = 0; i < in->interface_cnt; i++)
		json_array_append_new(list, interface_json(&in->interfaces[i]));
	json_object_set_new(o, "interfaces", list);
	list = json_array();
	for (uint32_t w = 0; w < in->worker_cnt; w++)
		json_array_append_new(list, worker_json(&in->workers[w]));
	json_object_set_new(o, "workers", list);
	list = json_array();
	for (uint32_t s = 0; s < in->cfg->pool_cnt; s++) {
		if (in->cfg->pools[s].name)
			json_array_append_new(list, service_json(g, in, win, s));
	}
	json_object_set_new(o, "services", list);
	return o;
}
