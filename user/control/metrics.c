/* SPDX-License-Identifier: Apache-2.0 */
#include "control/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/hist.h"
#include "base/log.h"
#include "config/agent_status.h"
#include "control/code_metrics.h"
#include "control/fields.h"
#include "control/metric_text.h"
#include "control/quota_metrics.h"
#include "control/otlp.h"
#include "control/request_feed.h"

enum { LE_FIRST_BIT = 10, LE_LAST_BIT = 34 };

static void write_head(const struct sl_metric_text *m, const char *prefix, const char *name,
		       const char *type, const char *help)
{
	char whole[160];

	snprintf(whole, sizeof(whole), "sluice_%s%s%s", prefix, name,
		 type[0] == 'c' ? "_total" : "");
	sl_metric_head(m, whole, type, help);
}

static void write_label(struct sl_strbuf *b, const char *name, const char *value)
{
	sl_metric_label(b, name, value);
}

struct metric_family {
	struct sl_strbuf *b;
	const char *prefix;
	const struct stat_field *field;
};

static const struct metric_unit {
	const char *suffix, *unit;
	double scale;
} units[] = {
	{"_ns", "_seconds", 1e9},
	{"_ms", "_seconds", 1e3},
	{"_mhz", "_per_second", 1e3},
};

static const struct metric_unit *unit_of(const char *name)
{
	size_t len = strlen(name);

	for (unsigned i = 0; i < SL_ARRAY_LEN(units); i++) {
		size_t n = strlen(units[i].suffix);

		if (len > n && strcmp(name + len - n, units[i].suffix) == 0)
			return &units[i];
	}
	return NULL;
}

static const char *name_of(const struct stat_field *f, char *buf, size_t size)
{
	const struct metric_unit *u = unit_of(f->name);

	if (!u)
		return f->name;
	snprintf(buf, size, "%.*s%s", (int)(strlen(f->name) - strlen(u->suffix)), f->name, u->unit);
	return buf;
}

static void sample_begin(const struct metric_family *f)
{
	char name[100];

	sl_strbuf_printf(f->b, "sluice_%s%s%s{", f->prefix, name_of(f->field, name, sizeof(name)),
			 f->field->kind == FIELD_COUNTER ? "_total" : "");
}

static void sample_end(const struct metric_family *f, const void *obj)
{
	const struct metric_unit *u = unit_of(f->field->name);
	uint64_t v = field_value(f->field, obj);

	if (u)
		sl_strbuf_printf(f->b, "} %.10g\n", (double)v / u->scale);
	else
		sl_strbuf_printf(f->b, "} %" PRIu64 "\n", v);
}

typedef void visit_fn(const struct metric_family *f, struct sl_gateway *g,
		      const struct sl_gateway_info *in);

static void render_table(struct sl_gateway *g, const struct sl_gateway_info *in,
			 const struct sl_metric_text *m, const char *prefix,
			 const struct stat_table *t, visit_fn *visit)
{
	for (unsigned i = 0; i < t->cnt; i++) {
		struct metric_family f = {m->b, prefix, &t->fields[i]};
		char name[100];

		write_head(m, prefix, name_of(f.field, name, sizeof(name)),
			   f.field->kind == FIELD_COUNTER ? "counter" : "gauge", f.field->help);
		visit(&f, g, in);
	}
}

static void visit_object_of_workers(const struct metric_family *f, const struct sl_gateway_info *in,
				    size_t offset)
{
	for (uint32_t w = 0; w < in->worker_cnt; w++) {
		sample_begin(f);
		sl_strbuf_printf(f->b, "worker=\"%u\"", w);
		sample_end(f, (const char *)&in->workers[w] + offset);
	}
}

static void visit_workers(const struct metric_family *f, struct sl_gateway *g,
			  const struct sl_gateway_info *in)
{
	(void)g;
	visit_object_of_workers(f, in, 0);
}

static void visit_tcp(const struct metric_family *f, struct sl_gateway *g,
		      const struct sl_gateway_info *in)
{
	(void)g;
	visit_object_of_workers(f, in, offsetof(struct sl_worker_info, tcp));
}

static void visit_sock(const struct metric_family *f, struct sl_gateway *g,
		       const struct sl_gateway_info *in)
{
	(void)g;
	visit_object_of_workers(f, in, offsetof(struct sl_worker_info, sock));
}

static void visit_udp(const struct metric_family *f, struct sl_gateway *g,
		      const struct sl_gateway_info *in)
{
	(void)g;
	visit_object_of_workers(f, in, offsetof(struct sl_worker_info, udp));
}

static void visit_h2(const struct metric_family *f, struct sl_gateway *g,
		     const struct sl_gateway_info *in)
{
	(void)g;
	visit_object_of_workers(f, in, offsetof(struct sl_worker_info, h2));
}

static void visit_tls(const struct metric_family *f, struct sl_gateway *g,
		      const struct sl_gateway_info *in)
{
	(void)g;
	visit_object_of_workers(f, in, offsetof(struct sl_worker_info, tls));
}

static void visit_core(const struct metric_family *f, struct sl_gateway *g,
		       const struct sl_gateway_info *in)
{
	(void)g;
	visit_object_of_workers(f, in, offsetof(struct sl_worker_info, core));
}

static void visit_ports(const struct metric_family *f, struct sl_gateway *g,
			const struct sl_gateway_info *in)
{
	(void)g;
	for (uint32_t w = 0; w < in->worker_cnt; w++) {
		for (uint32_t i = 0; i < in->workers[w].port_cnt; i++) {
			const struct sl_port_info *p = &in->workers[w].ports[i];

			sample_begin(f);
			sl_strbuf_printf(f->b, "worker=\"%u\",", w);
			write_label(f->b, "interface", p->ifname);
			sl_strbuf_printf(f->b, ",queue=\"%u\"", p->queue);
			sample_end(f, &p->stats);
		}
	}
}

static void backend_labels(struct sl_strbuf *b, uint32_t worker, const struct sl_backend_info *k)
{
	sl_strbuf_printf(b, "worker=\"%u\",", worker);
	write_label(b, "pool", k->pool);
	sl_strbuf_char(b, ',');
	write_label(b, "backend", k->name);
}

static void visit_each_backend(const struct metric_family *f, const struct sl_gateway_info *in,
			       size_t offset)
{
	for (uint32_t w = 0; w < in->worker_cnt; w++) {
		for (uint32_t i = 0; i < in->workers[w].backend_cnt; i++) {
			const struct sl_backend_info *k = &in->workers[w].backends[i];

			sample_begin(f);
			backend_labels(f->b, w, k);
			sample_end(f, (const char *)k + offset);
		}
	}
}

static void visit_backends(const struct metric_family *f, struct sl_gateway *g,
			   const struct sl_gateway_info *in)
{
	(void)g;
	visit_each_backend(f, in, offsetof(struct sl_backend_info, stats));
}

static void visit_dialled(const struct metric_family *f, struct sl_gateway *g,
			  const struct sl_gateway_info *in)
{
	(void)g;
	visit_each_backend(f, in, offsetof(struct sl_backend_info, dialled));
}

static void visit_health(const struct metric_family *f, struct sl_gateway *g,
			 const struct sl_gateway_info *in)
{
	(void)g;
	visit_each_backend(f, in, offsetof(struct sl_backend_info, health));
}

static void visit_live(const struct metric_family *f, struct sl_gateway *g,
		       const struct sl_gateway_info *in)
{
	struct sl_svc_live live;

	for (uint32_t w = 0; w < in->worker_cnt; w++) {
		for (uint32_t s = 0; s < in->cfg->pool_cnt; s++) {
			sl_gateway_live(g, w, sl_gateway_slot(g, s), &live);
			sample_begin(f);
			sl_strbuf_printf(f->b, "worker=\"%u\",", w);
			write_label(f->b, "pool", in->cfg->pools[s].name);
			sample_end(f, &live);
		}
	}
}

static void visit_subsets(const struct metric_family *f, struct sl_gateway *g,
			  const struct sl_gateway_info *in)
{
	(void)g;
	for (uint32_t w = 0; w < in->worker_cnt; w++) {
		for (uint32_t s = 0; s < in->cfg->pool_cnt; s++) {
			sample_begin(f);
			sl_strbuf_printf(f->b, "worker=\"%u\",", w);
			write_label(f->b, "pool", in->cfg->pools[s].name);
			sample_end(f, &in->workers[w].subsets[s]);
		}
	}
}

static void visit_agents(const struct metric_family *f, struct sl_gateway *g,
			 const struct sl_gateway_info *in)
{
	struct sl_agent_info a;

	(void)g, (void)in;
	for (uint32_t i = 0; i < SL_CFG_MAX_AGENTS; i++) {
		if (!sl_agent_status_get(i, &a))
			continue;
		sample_begin(f);
		sl_strbuf_printf(f->b, "agent=\"%u\"", i);
		sample_end(f, &a);
	}
}

static void visit_servers(const struct metric_family *f, struct sl_gateway *g,
			  const struct sl_gateway_info *in)
{
	struct sl_server_info s;

	(void)g, (void)in;
	for (uint32_t i = 0; i < (SL_CFG_MAX_AGENTS + SL_MAX_WORKERS) * SL_CFG_MAX_SERVERS; i++) {
		uint32_t entry = i / SL_CFG_MAX_SERVERS;

		if (!sl_agent_status_server_get(i / SL_CFG_MAX_SERVERS, i % SL_CFG_MAX_SERVERS, &s))
			continue;
		sample_begin(f);
		if (entry < SL_CFG_MAX_AGENTS)
			sl_strbuf_printf(f->b, "agent=\"%u\",", entry);
		else
			sl_strbuf_printf(f->b, "worker=\"%u\",", entry - SL_CFG_MAX_AGENTS);
		write_label(f->b, "server", s.name);
		sample_end(f, &s);
	}
}

static void render_named(const struct sl_metric_text *m, const struct sl_gateway_info *in,
			 const char *metric, const char *key, const struct stat_name *names,
			 unsigned cnt, size_t offset, const char *help)
{
	struct sl_strbuf *b = m->b;

	write_head(m, "", metric, "counter", help);
	for (uint32_t w = 0; w < in->worker_cnt; w++) {
		const uint64_t *v =
			(const uint64_t *)(const void *)((const char *)&in->workers[w] + offset);

		for (unsigned i = 0; i < cnt; i++)
			sl_strbuf_printf(b,
					 "sluice_%s_total{worker=\"%u\",%s=\"%s\"} %" PRIu64 "\n",
					 metric, w, key, names[i].name, v[i]);
	}
}

static void render_interfaces(const struct sl_metric_text *m, const struct sl_gateway_info *in)
{
	struct sl_strbuf *b = m->b;

	write_head(m, "", "rx_packets", "counter", "packets per verdict of the XDP program");
	for (uint32_t i = 0; i < in->interface_cnt; i++) {
		for (unsigned v = 0; v < SL_RX_VERDICT_CNT; v++) {
			sl_strbuf_str(b, "sluice_rx_packets_total{");
			write_label(b, "interface", in->interfaces[i].name);
			sl_strbuf_printf(b, ",verdict=\"%s\"} %" PRIu64 "\n", verdict_names[v].name,
					 in->interfaces[i].verdicts[v]);
		}
	}
	write_head(m, "", "offenders", "gauge",
		   "addresses whose packets are dropped for a time (penalty)");
	for (uint32_t i = 0; i < in->interface_cnt; i++) {
		sl_strbuf_str(b, "sluice_offenders{");
		write_label(b, "interface", in->interfaces[i].name);
		sl_strbuf_printf(b, "} %u\n", in->interfaces[i].offenders);
	}
	write_head(m, "", "interface_info", "info", "how the XDP program is attached");
	for (uint32_t i = 0; i < in->interface_cnt; i++) {
		sl_strbuf_str(b, "sluice_interface_info{");
		write_label(b, "interface", in->interfaces[i].name);
		sl_strbuf_char(b, ',');
		write_label(b, "attach", in->interfaces[i].attach);
		sl_strbuf_str(b, "} 1\n");
	}
	write_head(m, "", "port_info", "info", "mode of each AF_XDP socket");
	for (uint32_t w = 0; w < in->worker_cnt; w++) {
		for (uint32_t i = 0; i < in->workers[w].port_cnt; i++) {
			const struct sl_port_info *p = &in->workers[w].ports[i];

			sl_strbuf_printf(b, "sluice_port_info{worker=\"%u\",", w);
			write_label(b, "interface", p->ifname);
			sl_strbuf_printf(b, ",queue=\"%u\",mode=\"%s\"} 1\n", p->queue,
					 sl_port_mode_name((enum sl_port_mode)p->mode));
		}
	}
}

static bool is_up(const struct sl_backend_info *k)
{
	return k->state == SL_RPC_UP;
}

static bool is_on_fallback(const struct sl_backend_info *k)
{
	return k->on_fallback;
}

static void render_backend_states(const struct sl_metric_text *m, const struct sl_gateway_info *in)
{
	static const struct {
		const char *name, *help;
		bool (*is)(const struct sl_backend_info *k);
	} states[] = {
		{"backend_up", "1 while the backend can be used", is_up},
		{"backend_on_fallback", "1 while its fallback endpoint is in use", is_on_fallback},
	};
	struct sl_strbuf *b = m->b;

	for (unsigned s = 0; s < SL_ARRAY_LEN(states); s++) {
		write_head(m, "", states[s].name, "gauge", states[s].help);
		for (uint32_t w = 0; w < in->worker_cnt; w++) {
			for (uint32_t i = 0; i < in->workers[w].backend_cnt; i++) {
				const struct sl_backend_info *k = &in->workers[w].backends[i];

				sl_strbuf_printf(b, "sluice_%s{", states[s].name);
				backend_labels(b, w, k);
				sl_strbuf_printf(b, "} %d\n", states[s].is(k));
			}
		}
	}
}

static void render_certificates(const struct sl_metric_text *m, const struct sl_gateway_info *in)
{
	struct sl_strbuf *b = m->b;

	write_head(m, "", "tls_certificate_end_seconds", "gauge",
		   "when each certificate ends, in seconds since 1970");
	for (uint32_t i = 0; i < in->cfg->listener_cnt; i++) {
		const struct sl_cfg_listener *l = &in->cfg->listeners[i];
		const struct sl_tls_cert *c;

		for (unsigned k = 0; l->tls_server && (c = sl_tls_server_cert(l->tls_server, k));
		     k++) {
			sl_strbuf_str(b, "sluice_tls_certificate_end_seconds{");
			write_label(b, "listener", l->name);
			sl_strbuf_char(b, ',');
			write_label(b, "file", c->file);
			sl_strbuf_printf(b, "} %" PRId64 "\n", c->ends);
		}
	}
}

static void render_stage(struct sl_strbuf *b, const char *pool, unsigned stage,
			 const struct sl_svc_hist *h)
{
	uint64_t below = 0, all = 0;
	uint32_t at = 0;

	for (uint32_t i = 0; i < SL_HIST_BUCKET_CNT; i++)
		all += h->bucket[i];
	for (unsigned bit = LE_FIRST_BIT; bit <= LE_LAST_BIT; bit++) {
		for (; at < sl_hist_bucket(UINT64_C(1) << bit); at++)
			below += h->bucket[at];
		sl_strbuf_str(b, "sluice_stage_seconds_bucket{");
		write_label(b, "pool", pool);
		sl_strbuf_printf(b, ",stage=\"%s\",le=\"%.10g\"} %" PRIu64 "\n",
				 stage_names[stage].name, (double)(UINT64_C(1) << bit) / 1e9,
				 below);
	}
	sl_strbuf_str(b, "sluice_stage_seconds_bucket{");
	write_label(b, "pool", pool);
	sl_strbuf_printf(b, ",stage=\"%s\",le=\"+Inf\"} %" PRIu64 "\n", stage_names[stage].name,
			 all);
	sl_strbuf_str(b, "sluice_stage_seconds_sum{");
	write_label(b, "pool", pool);
	sl_strbuf_printf(b, ",stage=\"%s\"} %.9f\n", stage_names[stage].name,
			 (double)h->sum_ns / 1e9);
	sl_strbuf_str(b, "sluice_stage_seconds_count{");
	write_label(b, "pool", pool);
	sl_strbuf_printf(b, ",stage=\"%s\"} %" PRIu64 "\n", stage_names[stage].name, all);
}

static void render_stages(struct sl_gateway *g, const struct sl_metric_text *m,
			  const struct sl_gateway_info *in)
{
	struct sl_strbuf *b = m->b;
	struct sl_svc_hist sum;

	write_head(m, "", "stage_seconds", "histogram", "time that requests spent in each stage");
	for (uint32_t s = 0; g && s < in->cfg->pool_cnt; s++) {
		for (unsigned st = 0; st < SL_STAGE_CNT; st++) {
			sum = (struct sl_svc_hist){0};
			for (uint32_t w = 0; w < in->worker_cnt; w++) {
				const struct sl_svc_hist *h = sl_gateway_hist(
					g, w, sl_gateway_slot(g, s), (enum sl_stage)st);

				sl_hist_merge((uint64_t *)sum.bucket, (const uint64_t *)h->bucket);
				sum.sum_ns += h->sum_ns;
			}
			render_stage(b, in->cfg->pools[s].name, st, &sum);
		}
	}
}

static void render_gateway(struct sl_gateway *g, const struct sl_metric_text *m,
			   const struct sl_gateway_info *in)
{
	struct sl_strbuf *b = m->b;
	struct sl_err why = SL_ERR(128);

	write_head(m, "", "up", "gauge", "1: this gateway runs");
	sl_strbuf_str(b, "sluice_up 1\n");
	write_head(m, "", "ready", "gauge", "1 while every pool has a backend and nothing drains");
	sl_strbuf_printf(b, "sluice_ready %d\n", g && sl_gateway_ready(g, &why));
	write_head(m, "", "draining", "gauge", "1 while no new connections are taken");
	sl_strbuf_printf(b, "sluice_draining %d\n", in->draining);
	write_head(m, "", "uptime_seconds", "gauge", "since the start");
	sl_strbuf_printf(b, "sluice_uptime_seconds %.3f\n",
			 (double)(sl_now_ns() - in->start_ns) / 1e9);
	write_head(m, "", "broken_checks", "counter", "faults of our own that were stepped around");
	sl_strbuf_printf(b, "sluice_broken_checks_total %" PRIu64 "\n", sl_checks_broken());
	write_head(m, "", "event_lines_missed", "counter",
		   "lines that clients of `sluice events` did not take in time");
	sl_strbuf_printf(b, "sluice_event_lines_missed_total %" PRIu64 "\n",
			 sl_request_feed_missed());
	write_head(m, "", "log_lines_lost", "counter",
		   "lines that standard error did not take at once, of the gateway and its agents");
	sl_strbuf_printf(b, "sluice_log_lines_lost_total %" PRIu64 "\n", sl_log_lost());
}

static void render_trace(const struct sl_metric_text *m)
{
	struct sl_strbuf *b = m->b;
	struct sl_otlp_stats s = sl_otlp_stats();

	write_head(m, "", "trace_spans_exported", "counter", "spans that the collector has taken");
	sl_strbuf_printf(b, "sluice_trace_spans_exported_total %" PRIu64 "\n", s.exported);
	write_head(m, "", "trace_spans_discarded", "counter",
		   "spans that the collector refused, or that found no room while it was down");
	sl_strbuf_printf(b, "sluice_trace_spans_discarded_total %" PRIu64 "\n", s.dropped);
	write_head(m, "", "trace_requests_failed", "counter", "failed requests to the collector");
	sl_strbuf_printf(b, "sluice_trace_requests_failed_total %" PRIu64 "\n", s.failures);
}

static void render_all(struct sl_gateway *g, const struct sl_gateway_info *in,
		       const struct sl_metric_text *m)
{
	render_gateway(g, m, in);
	render_trace(m);
	render_interfaces(m, in);
	render_table(g, in, m, "worker_", &worker_fields, visit_workers);
	render_table(g, in, m, "tcp_", &tcp_fields, visit_tcp);
	render_table(g, in, m, "udp_", &udp_fields, visit_udp);
	render_table(g, in, m, "sock_", &sock_fields, visit_sock);
	render_table(g, in, m, "h2_", &h2_fields, visit_h2);
	render_table(g, in, m, "tls_", &tls_fields, visit_tls);
	render_table(g, in, m, "", &core_fields, visit_core);
	render_table(g, in, m, "port_", &port_fields, visit_ports);
	render_named(m, in, "drops", "reason", drop_names, SL_DROP_CNT,
		     offsetof(struct sl_worker_info, drops), "packets discarded in user space");
	render_named(m, in, "exchanges", "outcome", outcome_names, SL_OUTCOME_CNT,
		     offsetof(struct sl_worker_info, core.outcomes), "requests by how they ended");
	render_named(m, in, "front_errors", "error", error_names, SL_FRONT_ERR_CNT,
		     offsetof(struct sl_worker_info, core.front_errors),
		     "requests that broke their protocol or its limits");
	render_named(
		m, in, "tls_ends", "reason", tls_end_names, SL_TLS_END_CNT,
		offsetof(struct sl_worker_info, tls.ends),
		"handshakes that were not finished, and connections that broke, by the reason");
	render_named(m, in, "protocol_requests", "protocol", protocol_names, SL_PROTO_CNT,
		     offsetof(struct sl_worker_info, core.protocols), "requests per protocol");
	render_named(m, in, "address_limits", "limit", address_limit_names, SL_QUOTA_LIMIT_CNT,
		     offsetof(struct sl_worker_info, core.address_limits),
		     "refused as one client address had its share");
	render_named(m, in, "ended_for_others", "short_of", rank_names, SL_RANK_CNT,
		     offsetof(struct sl_worker_info, core.ended_for_others),
		     "slow requests of heavy clients ended as something was short");
	render_named(m, in, "evicted", "what", evicted_names, SL_EVICTED_CNT,
		     offsetof(struct sl_worker_info, core.evicted),
		     "connections closed because few connections or head buffers were left");
	sl_metrics_quotas(in, m);
	render_certificates(m, in);
	render_backend_states(m, in);
	render_table(g, in, m, "backend_", &backend_fields, visit_backends);
	render_table(g, in, m, "backend_", &dial_fields, visit_dialled);
	render_table(g, in, m, "backend_", &health_fields, visit_health);
	render_table(g, in, m, "service_", &live_fields, visit_live);
	render_table(g, in, m, "service_", &subset_fields, visit_subsets);
	render_table(g, in, m, "agent_", &agent_fields, visit_agents);
	render_table(g, in, m, "server_", &server_fields, visit_servers);
	render_stages(g, m, in);
	sl_code_metrics_render(g, in, m);
}

void sl_metrics_render(struct sl_gateway *g, bool openmetrics, struct sl_strbuf *b)
{
	const struct sl_metric_text m = {b, openmetrics};

	render_all(g, sl_gateway_info(g), &m);
	if (openmetrics)
		sl_strbuf_str(b, "# EOF\n");
}

void sl_metrics_heads(struct sl_strbuf *out)
{
	const struct sl_config nothing = {0};
	const struct sl_gateway_info info = {.cfg = &nothing};
	struct sl_strbuf all;
	const struct sl_metric_text m = {.b = &all};

	sl_strbuf_grow(&all, 1 << 20);
	render_all(NULL, &info, &m);
	for (const char *line = sl_strbuf_cstr(&all), *end; (end = strchr(line, '\n'));
	     line = end + 1) {
		if (line[0] == '#')
			sl_strbuf_add(out, line, (size_t)(end - line) + 1);
	}
	sl_strbuf_fini(&all);
}
