/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/internal.h"
#include "base/clock.h"
#include "base/log.h"

enum { BATCH_MAX = 256 };

/* Gateways return only once the server is reachable. */
static void retry_server(struct origin_server *o)
{
	struct agent_server *s = agent_server_of(o);

	if (!s->addr_len)
		agent_address_look_up(s);
	else
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
	.reply = sl_reply,
	.reply_error = sl_reply_error,
	.reply_interim = sl_reply_interim,
	.send_continue = sl_stream_send_continue,
	.pause = sl_stream_pause,
	.resume = sl_stream_resume,
	.connect = agent_conn_open,
	.retry = retry_server,
	.gone = agent_conn_gone,
	.free = agent_conn_free,
	.ready = tell_ready,
	.explain = tell_why,
	.address = write_address,
	.streams_max = agent_streams_max,
	.conns_max = AGENT_CONNS_MAX,
};

static void on_batch(void *arg, struct sl_batch *batch)
{
	struct agent_server *s = arg;

	for (unsigned i = 0; i < batch->count; i++) {
		if (s->origin.told_unready ||
		    !origin_call_new(&s->origin, batch->requests[i], false))
			(void)sl_reply_error(batch->requests[i], SL_RPC_REFUSED);
	}
}

static void on_open(void *arg, struct sl_request_view *rq)
{
	struct agent_server *s = arg;

	if (s->origin.told_unready || !origin_call_new(&s->origin, rq, true))
		(void)sl_reply_error(rq, SL_RPC_REFUSED);
}

static void on_data(void *arg, struct sl_request_view *rq, const void *bytes, size_t len,
		    size_t left)
{
	(void)arg;
	if (rq->own)
		origin_call_data(rq->own, bytes, len, left);
}

static void on_end(void *arg, struct sl_request_view *rq)
{
	(void)arg;
	if (rq->own)
		origin_call_data_end(rq->own);
}

static void on_cancelled(void *arg, struct sl_request_view *rq)
{
	(void)arg;
	if (rq->own)
		origin_call_fail(rq->own, SL_RPC_CANCELLED);
}

static void on_writable(void *arg, struct sl_request_view *rq)
{
	struct origin_call *call = rq->own;

	(void)arg;
	if (call && call->conn)
		agent_conn_resume(call);
}

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

static int open_backend(struct agent_server *s, const struct sl_agent_options *opt,
			struct sl_err *err)
{
	static const struct sl_stream_ops on_stream = {.on_open = on_open,
						       .on_data = on_data,
						       .on_end = on_end,
						       .on_cancel = on_cancelled};
	struct sl_backend_options o = {
		.listen = s->listen,
		.key_file = opt->key_file,
		.on_batch = on_batch,
		.arg = s,
		.max_batch = BATCH_MAX,
		.inline_handler = true,
		.on_cancel = on_cancelled,
		.on_writable = on_writable,
		.on_stream = &on_stream,
		.upgrades = true,
		.compressed = s->url.proto == SL_SERVER_H2C, /* HTTP/1.1 has no messages */
	};

	s->backend = sl_backend_open(&o, err->text, err->size);
	return s->backend ? 0 : -1;
}

/* A server gets no requests before its name is resolved, and a connection succeeds. */
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
			   "http+unix:///PATH or h2c+unix:///PATH",
			   opt->to);
	else if (opt->host && !sl_server_authority_ok(opt->host))
		sl_err_set(err, "found host \"%s\"; allowed: NAME, NAME:PORT or [IPV6]:PORT",
			   opt->host);
	else if (!open_backend(s, opt, err)) {
		call_it(s, opt->host);
		s->origin.unhealthy = opt->health.interval_ns != 0;
		if (!agent_probe_init(&s->health, s, &opt->health)) {
			sl_err_set(err, "out of memory");
			agent_server_free(s);
			return NULL;
		}
		s->status = sl_agent_status_server_add(opt->number, s->name);
		s->origin.proto = s->url.proto == SL_SERVER_H2C ? &origin_h2 : &origin_h1;
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
	agent_names_forget(s->a->names, &s->query);
	sl_list_del(&s->link);
	if (s->status)
		sl_agent_status_server_remove(s->status);
	sl_backend_close(s->backend);
	free(s->name);
	free(s->listen);
	free(s);
}

void agent_server_tell(const struct agent_server *s)
{
	const struct origin_server *o = &s->origin;

	if (s->status)
		sl_agent_status_server_set(
			s->status, &(struct sl_server_info){
					   .up = !o->down_ns,
					   .healthy = !o->unhealthy,
					   .in_flight = o->busy_cnt,
					   .waiting = o->waiting.cnt,
					   .concurrency = origin_concurrency_limit_now(&o->limit),
					   .connections = o->conn_cnt - o->connecting,
				   });
}
