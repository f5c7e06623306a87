/* SPDX-License-Identifier: Apache-2.0 */
#include "control/stats.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hist.h"
#include "config/agent_status.h"
#include "control/fields.h"
#include "control/stats_replies.h"

enum { WINDOW_NS = 2000000000 };

static void sum_hist(struct sl_gateway *g, uint32_t workers, uint32_t slot, unsigned stage,
		     struct sl_svc_hist *out)
{
	memset(out, 0, sizeof(*out));
	for (uint32_t w = 0; w < workers; w++) {
		const struct sl_svc_hist *h = sl_gateway_hist(g, w, slot, (enum sl_stage)stage);

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
	w->history = sl_history_new();
	w->notes = sl_notes_new();
	if (w->older && w->newer && w->history && w->notes)
		return 0;
	sl_window_fini(w);
	return -ENOMEM;
}

void sl_window_fini(struct sl_window *w)
{
	free(w->older);
	free(w->newer);
	sl_history_free(w->history);
	sl_notes_free(w->notes);
	*w = (struct sl_window){0};
}

bool sl_window_tick(struct sl_window *w, struct sl_gateway *g, uint64_t now_ns)
{
	const struct sl_gateway_info *in;
	struct sl_svc_hist *swap = w->older;

	if (now_ns < w->next_ns)
		return false;
	w->next_ns = now_ns + WINDOW_NS;
	w->older = w->newer;
	w->newer = swap;
	in = sl_gateway_info(g);
	for (uint32_t p = 0; p < in->cfg->pool_cnt; p++) {
		const uint32_t slot = sl_gateway_slot(g, p);

		for (unsigned st = 0; st < SL_STAGE_CNT; st++)
			sum_hist(g, in->worker_cnt, slot, st, &w->newer[slot * SL_STAGE_CNT + st]);
	}
	return true;
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

static json_t *port_json(const struct sl_port_info *p)
{
	json_t *o = json_object();

	json_object_set_new(o, "interface", sl_json_text(p->ifname));
	set_int(o, "queue", p->queue);
	json_object_set_new(o, "mode", sl_json_text(sl_port_mode_name((enum sl_port_mode)p->mode)));
	add_table(o, &port_fields, &p->stats);
	return o;
}

static json_t *backend_json(const struct sl_backend_info *b)
{
	json_t *o = json_object();

	json_object_set_new(o, "pool", sl_json_text(b->pool));
	json_object_set_new(o, "name", sl_json_text(b->name));
	json_object_set_new(o, "state", sl_json_text(rpc_state_name(b->state)));
	json_object_set_new(o, "info", sl_json_text(b->info));
	json_object_set_new(o, "on_fallback", json_boolean(b->on_fallback));
	add_table(o, &dial_fields, &b->dialled);
	add_table(o, &health_fields, &b->health);
	json_object_set_new(o, "backup", json_boolean(b->health.backup));
	json_object_set_new(o, "other_zone", json_boolean(b->health.other_zone));
	add_table(o, &backend_fields, &b->stats);
	return o;
}

static json_t *refused_json(const struct sl_top_refused *r)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < SL_TOP_REFUSED_CNT && r->list[i].rank; i++) {
		char text[SL_QUOTA_TEXT];
		json_t *o = json_object();

		json_object_set_new(o, "address",
				    sl_json_text(sl_top_refused_text(&r->list[i].addr, text)));
		for (unsigned k = 0; k < SL_QUOTA_LIMIT_CNT; k++) {
			if (r->list[i].cnt[k])
				set_int(o, address_limit_names[k].name, r->list[i].cnt[k]);
		}
		json_array_append_new(list, o);
	}
	return list;
}

static json_t *worker_json(const struct sl_worker_info *w)
{
	json_t *o = json_object(), *ports = json_array(), *backends = json_array();
	json_t *core = table_json(&core_fields, &w->core), *tls = table_json(&tls_fields, &w->tls);

	json_object_set_new(o, "cpu", json_integer(w->cpu));
	add_table(o, &worker_fields, w);
	json_object_set_new(o, "tcp", table_json(&tcp_fields, &w->tcp));
	json_object_set_new(o, "udp", table_json(&udp_fields, &w->udp));
	json_object_set_new(o, "sock", table_json(&sock_fields, &w->sock));
	json_object_set_new(o, "h2", table_json(&h2_fields, &w->h2));
	json_object_set_new(tls, "ends", named_json(tls_end_names, SL_TLS_END_CNT, w->tls.ends));
	json_object_set_new(o, "tls", tls);
	json_object_set_new(core, "outcomes",
			    named_json(outcome_names, SL_OUTCOME_CNT, w->core.outcomes));
	json_object_set_new(core, "front_errors",
			    named_json(error_names, SL_FRONT_ERR_CNT, w->core.front_errors));
	json_object_set_new(core, "protocols",
			    named_json(protocol_names, SL_PROTO_CNT, w->core.protocols));
	json_object_set_new(
		core, "address_limits",
		named_json(address_limit_names, SL_QUOTA_LIMIT_CNT, w->core.address_limits));
	json_object_set_new(core, "refused_addresses", refused_json(&w->core.refused));
	json_object_set_new(core, "ended_for_others",
			    named_json(rank_names, SL_RANK_CNT, w->core.ended_for_others));
	json_object_set_new(core, "evicted",
			    named_json(evicted_names, SL_EVICTED_CNT, w->core.evicted));
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

static json_t *service_json(struct sl_gateway *g, const struct sl_gateway_info *in,
			    const struct sl_window *win, uint32_t s)
{
	json_t *o = json_object(), *live = json_array(), *stages = json_object();
	json_t *subsets = json_array();
	uint32_t slot = sl_gateway_slot(g, s);
	uint64_t diff[SL_HIST_BUCKET_CNT];
	struct sl_svc_hist h;
	struct sl_svc_live l;

	json_object_set_new(o, "pool", sl_json_text(in->cfg->pools[s].name));
	for (uint32_t w = 0; w < in->worker_cnt; w++) {
		sl_gateway_live(g, w, slot, &l);
		json_array_append_new(live, table_json(&live_fields, &l));
		json_array_append_new(subsets,
				      table_json(&subset_fields, &in->workers[w].subsets[s]));
	}
	json_object_set_new(o, "live", live);
	json_object_set_new(o, "subsets", subsets);
	json_object_set_new(o, "override", sl_override_json(sl_gateway_ctl(g, slot)));
	for (unsigned st = 0; st < SL_STAGE_CNT; st++) {
		const struct sl_svc_hist *older = &win->older[slot * SL_STAGE_CNT + st];
		json_t *stage = json_object(), *recent = json_object();

		sum_hist(g, in->worker_cnt, slot, st, &h);
		set_int(stage, "count", h.count);
		set_int(stage, "mean_ns", h.count ? h.sum_ns / h.count : 0);
		add_quantiles(stage, (const uint64_t *)h.bucket);
		sl_hist_diff(diff, (const uint64_t *)h.bucket, (const uint64_t *)older->bucket);
		set_int(recent, "count", sl_hist_count(diff));
		add_quantiles(recent, diff);
		json_object_set_new(stage, "recent", recent);
		json_object_set_new(stages, stage_names[st].name, stage);
	}
	json_object_set_new(o, "stages", stages);
	sl_stats_add_pool(o, g, in, s, win->history);
	return o;
}

static json_t *certificates_json(const struct sl_config *cfg)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < cfg->listener_cnt; i++) {
		const struct sl_cfg_listener *l = &cfg->listeners[i];
		const struct sl_tls_cert *c;

		for (unsigned k = 0; l->tls_server && (c = sl_tls_server_cert(l->tls_server, k));
		     k++) {
			json_t *o = json_pack("{s:s, s:o, s:I}", "listener", l->name, "file",
					      sl_json_text(c->file), "ends", (json_int_t)c->ends);

			json_array_append_new(list, o);
		}
	}
	return list;
}

static json_t *servers_json(uint32_t entry)
{
	json_t *servers = json_array();
	struct sl_server_info s;

	for (uint32_t line = 0; line < SL_CFG_MAX_SERVERS; line++) {
		json_t *server;

		if (!sl_agent_status_server_get(entry, line, &s))
			continue;
		server = table_json(&server_fields, &s);
		json_object_set_new(server, "name", sl_json_text(s.name));
		if (*s.why)
			json_object_set_new(server, "why", sl_json_text(s.why));
		json_array_append_new(servers, server);
	}
	return servers;
}

static json_t *stack_json(uint32_t worker_cnt)
{
	json_t *list = json_array();

	for (uint32_t w = 0; w < worker_cnt; w++) {
		json_t *servers = servers_json(SL_AGENT_STATUS_WORKER(w));
		json_t *o = json_object();

		if (!json_array_size(servers)) {
			json_decref(servers);
			json_decref(o);
			continue;
		}
		set_int(o, "worker", w);
		json_object_set_new(o, "servers", servers);
		json_array_append_new(list, o);
	}
	return list;
}

static json_t *agents_json(void)
{
	json_t *list = json_array();
	struct sl_agent_info a;

	for (uint32_t i = 0; i < SL_CFG_MAX_AGENTS; i++) {
		json_t *o = sl_agent_status_get(i, &a) ? table_json(&agent_fields, &a) : NULL;

		if (!o)
			continue;
		set_int(o, "number", i);
		set_int(o, "pid", a.pid);
		json_object_set_new(o, "servers", servers_json(i));
		json_array_append_new(list, o);
	}
	return list;
}

json_t *sl_stats_json(struct sl_gateway *g, const struct sl_window *win)
{
	const struct sl_gateway_info *in = sl_gateway_info(g);
	json_t *o = json_object(), *list;
	uint64_t now = sl_now_ns();
	struct sl_err why = SL_ERR(128);

	set_int(o, "time_ns", now);
	set_int(o, "uptime_ns", now - in->start_ns);
	json_object_set_new(o, "config", sl_json_text(in->cfg->file));
	json_object_set_new(o, "ready", json_boolean(sl_gateway_ready(g, &why)));
	json_object_set_new(o, "why_not_ready", sl_json_text(why.text));
	json_object_set_new(o, "draining", json_boolean(in->draining));
	list = json_array();
	for (uint32_t i = 0; i < in->interface_cnt; i++)
		json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:i, s:o}", "name",
						      in->interfaces[i].name, "attach",
						      in->interfaces[i].attach, "server_replies",
						      in->interfaces[i].replies, "offenders",
						      (int)in->interfaces[i].offenders, "verdicts",
						      named_json(verdict_names, SL_RX_VERDICT_CNT,
								 in->interfaces[i].verdicts)));
	json_object_set_new(o, "interfaces", list);
	list = json_array();
	for (uint32_t w = 0; w < in->worker_cnt; w++)
		json_array_append_new(list, worker_json(&in->workers[w]));
	json_object_set_new(o, "workers", list);
	list = json_array();
	for (uint32_t s = 0; s < in->cfg->pool_cnt; s++)
		json_array_append_new(list, service_json(g, in, win, s));
	json_object_set(o, "services", list);
	json_object_set_new(o, "pools", list);
	sl_stats_add_lists(o, g, in, win->history);
	json_object_set_new(o, "agents", agents_json());
	json_object_set_new(o, "stack", stack_json(in->worker_cnt));
	json_object_set_new(o, "certificates", certificates_json(in->cfg));
	return o;
}
