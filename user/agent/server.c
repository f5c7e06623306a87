/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/internal.h"
#include "base/clock.h"
#include "base/log.h"
#include "origin/backend.h"

static void retry_server(struct origin_server *o)
{
	struct agent_server *s = agent_server_of(o);

	if (!s->addr_len) {
		agent_address_look_up(s);
		return;
	}
	if (o->down_ns)
		agent_address_next(s);
	origin_server_try(o);
}

static void tell_ready(struct origin_server *s)
{
	sl_backend_ready(agent_server_of(s)->backend, !s->told_unready);
}

static void tell_why(const struct origin_server *s)
{
	struct sl_agent_status_server *status = agent_server_of(s)->status;

	if (status)
		sl_agent_status_server_set_why(status, s->why);
}

static void write_address(const struct origin_server *o, char *to, size_t len)
{
	const struct agent_server *s = agent_server_of(o);

	to[0] = 0;
	if (s->addr_len)
		agent_address_text(s, to, len);
}

const struct origin_owner agent_owner = {
	ORIGIN_BACKEND_REPLIES,       .connect = agent_conn_open, .retry = retry_server,
	.gone = agent_conn_gone,      .free = agent_conn_free,    .ready = tell_ready,
	.explain = tell_why,          .address = write_address,   .streams_max = agent_streams_max,
	.conns_max = AGENT_CONNS_MAX,
};

static void call_it(struct agent_server *s, const char *host)
{
	struct origin_authority *to = &s->origin.authority;

	to->always = host != NULL;
	if (host)
		snprintf(to->text, sizeof(to->text), "%s", host);
	else if (s->url.local)
		snprintf(to->text, sizeof(to->text), "localhost");
	else
		snprintf(to->text, sizeof(to->text), strchr(s->url.host, ':') ? "[%s]:%u" : "%s:%u",
			 s->url.host, s->url.port);
}

static int begin_backend(struct agent_server *s, const struct sl_agent_options *opt,
			 struct sl_err *err)
{
	struct sl_backend_options o = {.listen = s->listen, .key_file = opt->key_file};

	s->origin.proto = s->url.proto == SL_SERVER_H2 ? &origin_h2 : &origin_h1;
	origin_backend_callbacks(&o, &s->origin);
	s->backend = sl_backend_open(&o, err->text, err->size);
	return s->backend ? 0 : -1;
}

static int begin_tls(struct agent_server *s, const struct sl_agent_options *opt, struct sl_err *err)
{
	s->origin.secure = s->url.tls;
	if (!s->url.tls)
		return 0;
	if (agent_tls_server_init(&s->tls, &s->a->tls, &opt->tls, s->url.host,
				  s->url.proto == SL_SERVER_H2))
		return sl_fail(err, -1, "out of memory");
	return 0;
}

static void start_server(struct agent_server *s)
{
	char why[128];

	agent_address_begin(s);
	s->found = s->addr_len != 0;
	if (s->found)
		snprintf(why, sizeof(why), "the first connection is being opened");
	else
		snprintf(why, sizeof(why), "%.64s is being resolved", s->url.host);
	origin_server_begin(&s->origin, why);
	if (s->found)
		origin_timer_set(&s->a->origin, &s->origin.retry, s->a->origin.now_ns);
}

static void look_up(struct origin_timer *t)
{
	agent_address_look_up(sl_container_of(t, struct agent_server, lookup));
}

struct agent_server *agent_server_new(struct agent *a, const struct sl_agent_options *opt,
				      struct sl_err *err)
{
	struct agent_server *s = calloc(1, sizeof(*s));

	if (!s) {
		sl_err_set(err, "out of memory");
		return NULL;
	}
	s->a = a;
	origin_server_init(&s->origin, &a->origin, NULL, opt->concurrency);
	s->lookup.fn = look_up;
	sl_list_init(&s->query.link);
	sl_list_init(&s->link);
	s->name = strdup(opt->name ? opt->name : opt->to);
	s->listen = strdup(opt->listen);
	s->origin.name = s->name;
	if (!s->name || !s->listen)
		sl_err_set(err, "out of memory");
	else if (!sl_server_url_parse(opt->to, &s->url))
		sl_err_set(err,
			   "found \"%s\"; allowed: http://HOST:PORT, h2c://HOST:PORT, "
			   "https://HOST:PORT, h2://HOST:PORT, http+unix:///PATH or "
			   "h2c+unix:///PATH",
			   opt->to);
	else if (opt->host && !sl_server_authority_ok(opt->host))
		sl_err_set(err, "found host \"%s\"; allowed: NAME, NAME:PORT or [IPV6]:PORT",
			   opt->host);
	else if (!begin_tls(s, opt, err) && !begin_backend(s, opt, err)) {
		call_it(s, opt->host);
		s->origin.unhealthy = opt->health.interval_ns != 0;
		if (!agent_probe_init(&s->health, s, &opt->health)) {
			sl_err_set(err, "out of memory");
			agent_server_free(s);
			return NULL;
		}
		s->status = sl_agent_status_server_add(opt->number, s->name);
		start_server(s);
		return s;
	}
	agent_server_free(s);
	return NULL;
}

void agent_server_free(struct agent_server *s)
{
	origin_server_fini(&s->origin, "the agent ends");
	origin_timer_cancel(&s->a->origin, &s->lookup);
	agent_probe_fini(&s->health);
	agent_tls_server_fini(&s->tls);
	agent_names_forget(s->a->names, &s->query);
	sl_list_del(&s->link);
	if (s->status)
		sl_agent_status_server_remove(s->status);
	sl_backend_close(s->backend);
	free(s->name);
	free(s->listen);
	free(s);
}

void agent_server_retire(struct agent_server *s, const char *why)
{
	struct sl_list *at, *next;

	sl_list_for_each_safe (at, next, &s->origin.conns) {
		struct origin_conn *c = sl_container_of(at, struct origin_conn, link);

		c->stale = true;
		if (c->state == ORIGIN_UP && !sl_list_empty(&c->ready) &&
		    sl_timer_pending(&c->timer.t))
			origin_conn_close(c, why);
		else
			origin_conn_room(c);
	}
}

void agent_server_tell(const struct agent_server *s)
{
	const struct origin_server *o = &s->origin;

	if (s->status)
		sl_agent_status_server_set(
			s->status, &(struct sl_server_info){
					   .up = origin_server_is_up(o),
					   .healthy = !o->unhealthy,
					   .in_flight = o->busy_cnt,
					   .waiting = o->waiting.cnt,
					   .concurrency = origin_concurrency_limit_now(&o->limit),
					   .connections = o->conn_cnt - o->connecting,
				   });
}
