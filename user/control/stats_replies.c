/* SPDX-License-Identifier: Apache-2.0 */
#include "control/stats_replies.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "control/code_metrics.h"
#include "control/fields.h"
#include "control/notes.h"
#include "config/server.h"

enum { RECENT = 10 };

static void set_int(json_t *o, const char *key, uint64_t v)
{
	json_object_set_new(o, key, json_integer((json_int_t)v));
}

static json_t *http_json(const struct sl_codes *c)
{
	json_t *o = json_object();
	char key[16];

	for (unsigned i = 0; i < SL_CODE_CNT; i++) {
		if (!c->http[i])
			continue;
		if (sl_code_status(i))
			snprintf(key, sizeof(key), "%u", sl_code_status(i));
		else
			snprintf(key, sizeof(key), "%uxx", sl_code_class(i));
		set_int(o, key, c->http[i]);
	}
	return o;
}

static json_t *grpc_json(const struct sl_codes *c)
{
	json_t *o = json_object();
	char key[16];

	for (unsigned i = 0; i < SL_CODE_GRPC_CNT; i++) {
		if (!c->grpc[i])
			continue;
		snprintf(key, sizeof(key), i < SL_CODE_GRPC_OTHER ? "%u" : "other", i);
		set_int(o, key, c->grpc[i]);
	}
	return o;
}

static void set_samples(json_t *o, json_t *recent, json_t *last)
{
	if (recent)
		json_object_set_new(o, "recent", recent);
	if (last)
		json_object_set_new(o, "last", last);
}

static void add_codes(json_t *o, const struct sl_codes *c)
{
	json_object_set_new(o, "codes", http_json(c));
	json_object_set_new(o, "grpc_codes", grpc_json(c));
}

void sl_stats_add_pool(json_t *o, struct sl_gateway *g, const struct sl_gateway_info *in,
		       uint32_t pool, struct sl_history *h)
{
	struct sl_codes codes;
	const char *name = in->cfg->pools[pool].name;

	sl_codes_of_pool(g, in, pool, &codes);
	add_codes(o, &codes);
	set_samples(o, sl_history_pool(h, name, RECENT), sl_history_pool(h, name, 1));
}

static const struct sl_cfg_backend *find_server(const struct sl_config *cfg, const char *pool,
						const char *name)
{
	for (uint32_t p = 0; p < cfg->pool_cnt; p++) {
		const struct sl_cfg_pool *at = &cfg->pools[p];

		for (uint32_t i = 0; strcmp(at->name, pool) == 0 && i < at->backend_cnt; i++) {
			if (strcmp(at->backends[i].name, name) == 0)
				return sl_server_is(&at->backends[i]) ? &at->backends[i] : NULL;
		}
	}
	return NULL;
}

struct backend_list {
	json_t *list;
	const struct sl_config *cfg;
	struct sl_history *h;
};

static const char *state_of(const struct sl_backend_sum *s)
{
	static const unsigned best[] = {SL_RPC_UP, SL_RPC_DRAINING, SL_RPC_CONNECTING, SL_RPC_DOWN};

	for (unsigned i = 0; i < SL_ARRAY_LEN(best); i++) {
		if (s->workers[best[i]])
			return rpc_state_name(best[i]);
	}
	return "unused";
}

static void add_backend(void *arg, const struct sl_backend_sum *s)
{
	struct backend_list *l = arg;
	const struct sl_cfg_backend *server = find_server(l->cfg, s->pool, s->name);
	json_t *o = json_object();

	if (server) {
		json_object_set_new(o, "way", sl_json_text(sl_cfg_way_name(server)));
		json_object_set_new(o, "way_why", sl_json_text(server->way_why));
	}
	json_object_set_new(o, "pool", sl_json_text(s->pool));
	json_object_set_new(o, "name", sl_json_text(s->name));
	json_object_set_new(o, "state", sl_json_text(state_of(s)));
	set_int(o, "workers_up", s->workers[SL_RPC_UP]);
	json_object_set_new(o, "on_fallback", json_boolean(s->on_fallback));
	json_object_set_new(o, "info", sl_json_text(s->info ? s->info : ""));
	json_object_set_new(o, "drained", json_boolean(s->drained));
	json_object_set_new(o, "ejected", json_boolean(s->ejected));
	json_object_set_new(o, "silent", json_boolean(s->silent));
	set_int(o, "weight", s->weight);
	set_int(o, "outstanding", s->outstanding);
	set_int(o, "failures", s->failures);
	add_codes(o, &s->codes.codes);
	set_int(o, "p50_ns", sl_hist_quantile(s->codes.bucket, 0.5));
	set_int(o, "p99_ns", sl_hist_quantile(s->codes.bucket, 0.99));
	set_samples(o, sl_history_backend(l->h, s->pool, s->name, RECENT),
		    sl_history_backend(l->h, s->pool, s->name, 1));
	json_array_append_new(l->list, o);
}

static json_t *routes_json(struct sl_gateway *g, const struct sl_gateway_info *in)
{
	json_t *list = json_array();

	for (uint32_t i = 0; in->worker_cnt && i <= in->cfg->route_cnt; i++) {
		const struct sl_cfg_route *r = i < in->cfg->route_cnt ? &in->cfg->routes[i] : NULL;
		struct sl_codes sum = {0};
		json_t *o;

		if (!sl_codes_is_first_route(g, i))
			continue;
		for (uint32_t w = 0; w < in->worker_cnt; w++)
			sl_codes_sum(&sum, &sl_gateway_route_codes(g, w, i)->codes);
		o = json_object();
		json_object_set_new(o, "route",
				    sl_json_text(sl_gateway_route_codes(g, 0, i)->label));
		json_object_set_new(
			o, "pool",
			sl_json_text(r && r->pool >= 0 ? in->cfg->pools[r->pool].name : ""));
		add_codes(o, &sum);
		json_array_append_new(list, o);
	}
	return list;
}

static json_t *listeners_json(const struct sl_config *cfg)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < cfg->listener_cnt; i++) {
		const struct sl_cfg_listener *l = &cfg->listeners[i];
		char at[SL_ADDR_TEXT];
		json_t *o = json_object();

		json_object_set_new(o, "name", sl_json_text(l->name));
		json_object_set_new(o, "address",
				    sl_json_text(l->at.family ? sl_addr_text(&l->at, at) : "*"));
		set_int(o, "port", ntohs(l->at.port_be));
		json_object_set_new(o, "tls", json_boolean(l->tls != NULL));
		json_object_set_new(o, "datagram", json_boolean(l->datagram));
		json_array_append_new(list, o);
	}
	return list;
}

void sl_stats_add_lists(json_t *o, struct sl_gateway *g, const struct sl_gateway_info *in,
			struct sl_history *h)
{
	struct backend_list l = {json_array(), in->cfg, h};

	sl_codes_each_backend(in, add_backend, &l);
	json_object_set_new(o, "backends", l.list);
	json_object_set_new(o, "routes", routes_json(g, in));
	json_object_set_new(o, "listeners", listeners_json(in->cfg));
}
