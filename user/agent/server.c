/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server: what waits for it, its connections, and whether it is there. Read from the bottom:
 * agent_server_new; on_batch -> waiting; agent_server_pump -> connections.
 */
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "agent/internal.h"
#include "base/clock.h"
#include "base/log.h"

enum {
	RETRY_MIN_MS = 10, /* (start) */
	RETRY_MAX_MS = 500,
	BATCH_MAX = 256,
};
#define PATIENCE_NS (2 * SL_NS_PER_SEC)  /* of requests, with a server that is being restarted */
#define SHORT_NS    (10 * SL_NS_PER_SEC) /* between lines about too few connections */

/* --- is it there? --- */

/* It gets none, so others may have them. */
static void refuse_waiting(struct agent_server *s)
{
	struct sl_list *next;

	while ((next = agent_queue_next(&s->waiting)) ||
	       (next = sl_list_empty(&s->resting) ? NULL : s->resting.next))
		agent_call_fail(sl_container_of(next, struct agent_call, link), SL_RPC_REFUSED);
}

static void tell_ready(struct agent_server *s, bool ready)
{
	if (s->told_unready == !ready)
		return;
	s->told_unready = !ready;
	sl_backend_ready(s->backend, ready && !s->leaving);
}

void agent_server_up(struct agent_server *s)
{
	s->retry_ms = RETRY_MIN_MS;
	agent_timer_cancel(s->a, &s->retry);
	if (!s->down_ns)
		return;
	sl_log_info("agent: %s: the server is back", s->name);
	s->down_ns = 0;
	tell_ready(s, true);
}

void agent_server_retry(struct agent_server *s)
{
	struct agent *a = s->a;

	if (sl_timer_pending(&s->retry.t))
		return;
	agent_timer_set(a, &s->retry, a->now_ns + s->retry_ms * SL_NS_PER_MS);
	s->retry_ms = s->retry_ms * 2 < RETRY_MAX_MS ? s->retry_ms * 2 : RETRY_MAX_MS;
}

void agent_server_down(struct agent_server *s, const char *why)
{
	struct agent *a = s->a;

	agent_server_retry(s);
	if (s->conn_cnt > s->connecting)
		return; /* it answers on others */
	if (!s->down_ns) {
		s->down_ns = a->now_ns;
		sl_log_warn("agent: %s: cannot connect: %s", s->name, why);
	}
	if (a->now_ns - s->down_ns < PATIENCE_NS)
		return;
	refuse_waiting(s);
	tell_ready(s, false);
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

/* Whoever is told to go elsewhere comes back only if somebody looks. */
void agent_server_timer(struct agent_server *s)
{
	if (s->told_unready && !s->connecting)
		(void)agent_conn_open(s);
}

/* --- its requests --- */

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
	struct agent_call *call = rq->own;

	(void)arg;
	if (call && call->conn)
		call->server->proto->resume(call->conn, call);
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
	uint32_t limit = agent_limit_now(&s->limit), per = s->proto->calls_per_conn, wanted;
	struct agent_conn *c;
	struct sl_list *next;

	while ((next = agent_queue_next(&s->waiting)) && s->busy_cnt < limit &&
	       (c = sl_list_first(&s->ready, struct agent_conn, ready))) {
		struct agent_call *call = sl_container_of(next, struct agent_call, link);

		agent_queue_take(&s->waiting, next);
		agent_call_assign(call, c);
		s->proto->start(c, call);
		agent_conn_room(c);
	}
	if (!next || s->busy_cnt >= limit)
		return;
	if (sl_timer_pending(&s->retry.t))
		return;
	wanted = limit - s->busy_cnt < s->waiting.cnt ? limit - s->busy_cnt : s->waiting.cnt;
	wanted = (wanted + per - 1) / per;
	while (s->connecting < wanted && may_connect(s) && agent_conn_open(s))
		;
}

/* --- its beginning and end --- */

/* Its own name, unless it is told which one it is to have. */
static void call_it(struct agent_server *s, const char *host)
{
	struct agent_authority *to = s->authority;

	to->always = host != NULL;
	if (host)
		snprintf(to->text, sizeof(to->text), "%s", host);
	else if (s->url.local)
		snprintf(to->text, sizeof(to->text), "localhost");
	else
		snprintf(to->text, sizeof(to->text), strchr(s->url.host, ':') ? "[%s]:%u" : "%s:%u",
			 s->url.host, s->url.port);
}

/* Where it is. */
static int resolve(struct agent_server *s, struct sl_err *err)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
	struct sockaddr_un *un = (struct sockaddr_un *)&s->addr;
	char port[8];
	int rc;

	if (s->url.local) {
		un->sun_family = AF_UNIX;
		memcpy(un->sun_path, s->url.path, sizeof(un->sun_path));
		s->addr_len = sizeof(*un);
		return 0;
	}
	snprintf(port, sizeof(port), "%u", s->url.port);
	rc = getaddrinfo(s->url.host, port, &hints, &found);
	if (rc)
		return sl_fail(err, -1, "%s: %s", s->url.host, gai_strerror(rc));
	memcpy(&s->addr, found->ai_addr, found->ai_addrlen);
	s->addr_len = found->ai_addrlen;
	freeaddrinfo(found);
	return 0;
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
	sl_list_init(&s->link);
	agent_queue_init(&s->waiting);
	sl_list_init(&s->resting);
	sl_list_init(&s->ready);
	sl_list_init(&s->conns);
	agent_limit_init(&s->limit, opt->concurrency);
	s->name = strdup(opt->name ? opt->name : opt->to);
	s->listen = strdup(opt->listen);
	s->authority = calloc(1, sizeof(*s->authority));
	if (!s->name || !s->listen || !s->authority)
		sl_err_set(err, "out of memory");
	else if (!sl_server_url_parse(opt->to, &s->url))
		sl_err_set(err,
			   "found \"%s\"; allowed: http://HOST:PORT, h2c://HOST:PORT, "
			   "http+unix:///PATH or h2c+unix:///PATH",
			   opt->to);
	else if (opt->host && !sl_server_authority_ok(opt->host))
		sl_err_set(err, "found host \"%s\"; allowed: NAME, NAME:PORT or [IPV6]:PORT",
			   opt->host);
	else if (!resolve(s, err) && !open_backend(s, opt, err)) {
		call_it(s, opt->host);
		s->board = sl_board_server_add(opt->number, s->name);
		s->proto = s->url.proto == SL_SERVER_H2C ? &agent_h2 : &agent_h1;
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
	sl_list_del(&s->link);
	if (s->board)
		sl_board_server_remove(s->board);
	sl_backend_close(s->backend);
	free(s->name);
	free(s->listen);
	free(s->authority);
	free(s);
}

void agent_server_tell(const struct agent_server *s)
{
	if (s->board)
		sl_board_server_set(s->board, &(struct sl_server_info){
						      .up = !s->down_ns,
						      .in_flight = s->busy_cnt,
						      .waiting = s->waiting.cnt,
						      .concurrency = agent_limit_now(&s->limit),
						      .connections = s->conn_cnt - s->connecting,
					      });
}
