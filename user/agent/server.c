/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/internal.h"
#include "base/clock.h"
#include "base/log.h"

enum {
	RETRY_MIN_MS = 20, /* (start) */
	RETRY_MAX_MS = 5000,
	SHORT_MAX_MS = 500, /* while it has connections */
	BATCH_MAX = 256,
};
#define SHORT_NS (10 * SL_NS_PER_SEC) /* between log lines: too few connections */
#define SAY_NS   (60 * SL_NS_PER_SEC) /* the same: a server is down */

/* The gateway tries another backend or waits. */
static void refuse_waiting(struct agent_server *s)
{
	struct origin_call *next;

	while ((next = origin_queue_any(&s->waiting)) ||
	       (next = sl_list_first(&s->resting, struct origin_call, link)))
		agent_call_refuse(next);
}

/* Ready is a server that was reached and passes its health checks. */
static void tell_ready(struct agent_server *s)
{
	bool ready = !s->down_ns && !s->unhealthy;

	if (s->told_unready == !ready)
		return;
	s->told_unready = !ready;
	sl_backend_ready(s->backend, ready);
}

static void tell_why(const struct agent_server *s)
{
	if (s->status)
		sl_agent_status_server_set_why(s->status, s->why);
}

void agent_server_up(struct agent_server *s)
{
	s->retry_ms = RETRY_MIN_MS;
	agent_timer_cancel(s->a, &s->retry);
	if (!s->down_ns)
		return;
	if (s->said_ns)
		sl_log_info("agent: %s: the server is back", s->name);
	s->down_ns = s->said_ns = 0;
	snprintf(s->why, sizeof(s->why), "%s", s->unhealthy ? "health checks fail" : "");
	tell_why(s);
	tell_ready(s);
}

void agent_server_healthy(struct agent_server *s)
{
	bool was = s->unhealthy;

	s->unhealthy = false;
	if (s->down_ns)
		agent_server_up(s);
	if (!was)
		return;
	if (s->said_unhealthy)
		sl_log_info("agent: %s: the health check succeeds", s->name);
	s->said_unhealthy = false;
	s->why[0] = 0;
	tell_why(s);
	tell_ready(s);
}

void agent_server_unhealthy(struct agent_server *s, const char *why)
{
	char text[sizeof(s->why)];

	snprintf(text, sizeof(text), "health check: %s", why);
	if (s->down_ns) /* says more */
		return;
	if (!s->said_unhealthy)
		sl_log_warn("agent: %s: %s; it gets no requests", s->name, text);
	s->unhealthy = s->said_unhealthy = true;
	snprintf(s->why, sizeof(s->why), "%s", text);
	tell_why(s);
	tell_ready(s); /* before calls are refused */
	refuse_waiting(s);
}

void agent_server_retry(struct agent_server *s)
{
	struct agent *a = s->a;
	uint32_t max = s->down_ns ? RETRY_MAX_MS : SHORT_MAX_MS;
	uint64_t jitter = sl_prng_below(&a->prng, s->retry_ms / 2 + 1);

	if (sl_timer_pending(&s->retry.t))
		return;
	agent_timer_set(a, &s->retry, a->now_ns + (s->retry_ms + jitter) * SL_NS_PER_MS);
	s->retry_ms = s->retry_ms * 2 < max ? s->retry_ms * 2 : max;
}

static void say_down(struct agent_server *s)
{
	struct agent *a = s->a;
	uint64_t at_ns = sl_timer_expires_ns(&a->wheel, &s->retry.t);
	char where[128];

	s->said_ns = a->now_ns;
	agent_address_text(s, where, sizeof(where));
	sl_log_warn(
		"agent: %s: %s%s%s%s; retrying in %llu ms", s->name,
		s->addr_len ? "cannot connect to " : "", s->addr_len ? where : "",
		s->addr_len ? ": " : "", s->why,
		(unsigned long long)(at_ns > a->now_ns ? (at_ns - a->now_ns) / SL_NS_PER_MS : 0));
}

void agent_server_down(struct agent_server *s, const char *why)
{
	struct agent *a = s->a;

	bool is_new = !s->down_ns;

	if (s->conn_cnt > s->connecting) {
		agent_server_retry(s); /* it answers on other connections */
		return;
	}
	if (is_new)
		s->down_ns = a->now_ns;
	agent_server_retry(s);
	if (is_new || strncmp(s->why, why, sizeof(s->why) - 1) != 0) {
		snprintf(s->why, sizeof(s->why), "%s", why);
		tell_why(s);
		is_new |= !s->said_ns;
	}
	if (is_new || a->now_ns >= s->said_ns + SAY_NS)
		say_down(s);
	tell_ready(s); /* before calls are refused */
	refuse_waiting(s);
}

void agent_server_short(struct agent_server *s, const char *why)
{
	if (!s->conn_cnt) {
		agent_server_down(s, why);
		return;
	}
	agent_server_retry(s);
	SL_LOG_EVERY(SHORT_NS, SL_LOG_WARN,
		     "agent: %s: no further connection: %s; %u are open, %u requests wait", s->name,
		     why, s->conn_cnt, s->waiting.cnt);
}

/* Gateways return only once the server is reachable. */
void agent_server_timer(struct agent_server *s)
{
	if (!s->addr_len)
		agent_address_look_up(s);
	else if ((s->down_ns || !sl_list_empty(&s->resting)) && !s->connecting)
		(void)agent_conn_open(s);
}

void agent_server_moved(struct agent_server *s)
{
	agent_timer_cancel(s->a, &s->retry);
	s->retry_ms = RETRY_MIN_MS;
	s->found = true;
	agent_server_timer(s);
}

static void on_batch(void *arg, struct sl_batch *batch)
{
	struct agent_server *s = arg;

	for (unsigned i = 0; i < batch->count; i++) {
		if (s->told_unready || !agent_call_new(s, batch->requests[i], false))
			(void)sl_reply_error(batch->requests[i], SL_RPC_REFUSED);
	}
}

static void on_open(void *arg, struct sl_request_view *rq)
{
	struct agent_server *s = arg;

	if (s->told_unready || !agent_call_new(s, rq, true))
		(void)sl_reply_error(rq, SL_RPC_REFUSED);
}

static void on_data(void *arg, struct sl_request_view *rq, const void *bytes, size_t len,
		    size_t left)
{
	(void)arg;
	if (rq->own)
		agent_call_data(rq->own, bytes, len, left);
}

static void on_end(void *arg, struct sl_request_view *rq)
{
	(void)arg;
	if (rq->own)
		agent_call_data_end(rq->own);
}

static void on_cancelled(void *arg, struct sl_request_view *rq)
{
	(void)arg;
	if (rq->own)
		agent_call_fail(rq->own, SL_RPC_CANCELLED);
}

static void on_writable(void *arg, struct sl_request_view *rq)
{
	struct origin_call *call = rq->own;

	(void)arg;
	if (call && call->conn)
		agent_conn_resume(call);
}

static bool may_connect(struct agent_server *s)
{
	if (s->conn_cnt < AGENT_CONNS_MAX)
		return true;
	agent_server_short(s, "an agent has no more to one server");
	return false;
}

void agent_server_pump(struct agent_server *s)
{
	uint32_t per = s->proto->calls_per_conn, wanted;
	struct origin_shares shares = agent_server_shares(s);
	struct agent_conn *c;
	struct origin_call *call;

	while ((call = origin_queue_next(&s->waiting, &shares)) &&
	       (c = sl_list_first(&s->ready, struct agent_conn, ready))) {
		origin_queue_take(&s->waiting, call);
		agent_call_assign(call, c);
		s->proto->start(&c->origin, call);
		agent_conn_room(c);
		shares.busy = s->busy_cnt;
	}
	if (s->probe && !s->connecting && !sl_timer_pending(&s->retry.t))
		(void)agent_conn_open(s);
	s->probe = false;
	if (!call)
		return;
	if (sl_timer_pending(&s->retry.t))
		return;
	wanted = shares.busy < shares.places ? shares.places - shares.busy : 1;
	wanted = wanted < s->waiting.cnt ? wanted : s->waiting.cnt;
	wanted = (wanted + per - 1) / per;
	while (s->connecting < wanted && may_connect(s) && agent_conn_open(s))
		;
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
	static const struct sl_stream_ops on_stream = {
		.open = on_open, .data = on_data, .end = on_end, .cancel = on_cancelled};
	struct sl_backend_options o = {
		.listen = s->listen,
		.key_file = opt->key_file,
		.handle = on_batch,
		.arg = s,
		.max_batch = BATCH_MAX,
		.inline_handler = true,
		.cancelled = on_cancelled,
		.writable = on_writable,
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
	agent_address_begin(s);
	s->found = s->addr_len != 0;
	s->down_ns = s->a->now_ns;
	if (s->found)
		snprintf(s->why, sizeof(s->why), "the first connection is being opened");
	else
		snprintf(s->why, sizeof(s->why), "%.64s is being resolved", s->url.host);
	tell_why(s);
	tell_ready(s);
	if (s->found)
		agent_timer_set(s->a, &s->retry, s->a->now_ns);
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
	s->retry_ms = RETRY_MIN_MS;
	s->retry.kind = AGENT_TIMER_SERVER;
	s->rest.kind = AGENT_TIMER_REST;
	s->lookup.kind = AGENT_TIMER_LOOKUP;
	sl_list_init(&s->query.link);
	sl_list_init(&s->link);
	origin_queue_init(&s->waiting, &a->clients);
	sl_list_init(&s->resting);
	sl_list_init(&s->ready);
	sl_list_init(&s->conns);
	origin_concurrency_limit_init(&s->limit, opt->concurrency);
	s->name = strdup(opt->name ? opt->name : opt->to);
	s->listen = strdup(opt->listen);
	s->origin.origin = &a->origin;
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
		s->unhealthy = opt->health.interval_ns != 0;
		if (!agent_probe_init(&s->health, s, &opt->health)) {
			sl_err_set(err, "out of memory");
			agent_server_free(s);
			return NULL;
		}
		s->status = sl_agent_status_server_add(opt->number, s->name);
		s->proto = s->url.proto == SL_SERVER_H2C ? &origin_h2 : &origin_h1;
		start_server(s);
		return s;
	}
	agent_server_free(s);
	return NULL;
}

void agent_server_free(struct agent_server *s)
{
	struct agent_conn *c;

	refuse_waiting(s);
	while ((c = sl_list_first(&s->conns, struct agent_conn, link)))
		agent_conn_close(c, "the agent ends");
	refuse_waiting(s);
	agent_timer_cancel(s->a, &s->retry);
	agent_timer_cancel(s->a, &s->rest);
	agent_timer_cancel(s->a, &s->lookup);
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
	if (s->status)
		sl_agent_status_server_set(
			s->status, &(struct sl_server_info){
					   .up = !s->down_ns,
					   .healthy = !s->unhealthy,
					   .in_flight = s->busy_cnt,
					   .waiting = s->waiting.cnt,
					   .concurrency = origin_concurrency_limit_now(&s->limit),
					   .connections = s->conn_cnt - s->connecting,
				   });
}
