/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "front/grpc/call.h"
#include "front/h2/conn.h"

enum {
	MAX_ACKS = 1000,
	MAX_SETTINGS = 32,
	HEAD_OUT = 128 << 10, /* nghttp2's estimate of a head; above the core's limit */
};

void sl_h2_config_default(struct sl_h2_config *cfg)
{
	*cfg = (struct sl_h2_config){
		.max_connections = 16384,
		.max_streams = 65536,
		.max_calls = 4096,
		.max_calls_per_source = 512,
		.max_watches = 4,
		.sources = 4096,
		.memory = 1ull << 30,
		.conn_memory = 512u << 10,
		.stream_window = 256u << 10,
		.conn_window = 1u << 20,
	};
}

static int create_option(struct sl_h2_env *e)
{
	if (nghttp2_option_new(&e->option) != 0)
		return -1;
	nghttp2_option_set_no_auto_window_update(e->option, 1);
	nghttp2_option_set_max_outbound_ack(e->option, MAX_ACKS);
	nghttp2_option_set_max_settings(e->option, MAX_SETTINGS);
	/* nghttp2 counts calls: a slow network would look like a flood. */
	nghttp2_option_set_max_continuations(e->option, SIZE_MAX);
	/* flood.c charges resets by the work they cost. */
	nghttp2_option_set_stream_reset_rate_limit(e->option, UINT64_MAX, UINT64_MAX);
	nghttp2_option_set_no_closed_streams(e->option, 1);
	/* message.c checks requests; nghttp2 would not answer malformed ones. */
	nghttp2_option_set_no_http_messaging(e->option, 1);
	nghttp2_option_set_max_send_header_block_length(e->option, HEAD_OUT);
	return 0;
}

struct sl_h2_env *sl_h2_env_create(const struct sl_h2_config *cfg,
				   const struct sl_front_limits *limits)
{
	struct sl_h2_env *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->cfg = *cfg;
	e->limits = limits;
	sl_list_init(&e->watches);
	e->head = malloc(limits->max_head);
	e->cookie = malloc(limits->max_head);
	e->fields = malloc(sl_h2_reply_scratch());
	e->sources = calloc(cfg->sources, sizeof(*e->sources));
	if (!e->head || !e->cookie || !e->fields || !e->sources || create_option(e) ||
	    sl_h2_callbacks(&e->callbacks) || sl_h2_mem_init(&e->mem, cfg->memory) ||
	    sl_mempool_init(&e->conns, sizeof(struct h2_conn), 64, cfg->max_connections) ||
	    sl_mempool_init(&e->streams, sizeof(struct h2_stream), 64, cfg->max_streams) ||
	    sl_mempool_init(&e->calls, sizeof(struct h2_call), 64, cfg->max_calls)) {
		sl_h2_env_destroy(e);
		return NULL;
	}
	return e;
}

void sl_h2_env_destroy(struct sl_h2_env *e)
{
	if (!e)
		return;
	sl_mempool_fini(&e->calls);
	sl_mempool_fini(&e->streams);
	sl_mempool_fini(&e->conns);
	sl_h2_mem_fini(&e->mem);
	nghttp2_session_callbacks_del(e->callbacks);
	nghttp2_option_del(e->option);
	free(e->sources);
	free(e->fields);
	free(e->cookie);
	free(e->head);
	free(e);
}

void sl_h2_env_stats(const struct sl_h2_env *e, struct sl_h2_stats *out)
{
	out->connections = sl_mempool_used(&e->conns);
	out->streams = sl_mempool_used(&e->streams);
	out->calls = sl_mempool_used(&e->calls);
	out->memory = e->mem.used;
	out->heads_put_off = e->heads_put_off;
}

void sl_h2_count(const struct h2_conn *c, enum sl_front_error error)
{
	if (c->front->errors)
		c->front->errors[error]++;
}

void sl_h2_fail(struct h2_conn *c, uint32_t code, enum sl_front_error error)
{
	if (c->flags & H2_FAILED)
		return;
	sl_h2_count(c, error);
	c->flags |= H2_FAILED;
	if (nghttp2_session_terminate_session(c->session, code) != 0)
		c->flags |= H2_BROKEN;
}

static void *take_share(struct sl_mempool *p, double share, uint32_t *has)
{
	void *one = share < 1 && *has >= share * sl_mempool_capacity(p) ? NULL : sl_mempool_get(p);

	*has += one != NULL;
	return one;
}

static void put_stream(struct h2_conn *c, struct h2_stream *s)
{
	c->source->streams--;
	sl_mempool_put(&c->env->streams, s);
}

struct h2_stream *sl_h2_stream_new(struct h2_conn *c, int32_t id)
{
	struct sl_h2_env *e = c->env;
	struct h2_stream *s =
		take_share(&e->streams, e->limits->address_streams, &c->source->streams);

	if (!s)
		return NULL;
	memset(s, 0, offsetof(struct h2_stream, text));
	s->conn = c;
	s->id = id;
	s->flags = ST_LOCAL;
	s->window = H2_FIRST_WINDOW;
	s->body_left = SL_LEN_UNKNOWN;
	sl_list_add_tail(&c->streams, &s->link);
	if (nghttp2_session_set_stream_user_data(c->session, id, s) != 0) {
		sl_list_del(&s->link);
		put_stream(c, s);
		return NULL;
	}
	return s;
}

static void free_all(struct h2_conn *c, struct sl_list *list)
{
	struct h2_stream *s;

	while ((s = sl_list_first(list, struct h2_stream, link))) {
		struct sl_stream *st = s->st;
		bool whole = s->flags & ST_END_SENT;

		sl_list_del(&s->link);
		sl_call_free(s);
		if (c->stuck == s)
			c->stuck = NULL;
		put_stream(c, s);
		if (st && whole)
			c->front->cb->done(c->conn, st);
		else if (st)
			c->front->cb->cancel(c->conn, st);
	}
}

static bool is_over(struct h2_conn *c)
{
	if (c->flags & H2_BROKEN)
		return true;
	if (c->out_len || nghttp2_session_want_write(c->session))
		return false;
	if (c->flags & H2_EOF)
		return sl_list_empty(&c->streams);
	return (c->flags & H2_FAILED) || !nghttp2_session_want_read(c->session);
}

static void end_session(struct h2_conn *c)
{
	nghttp2_session_del(c->session);
	c->session = NULL;
	c->out_len = 0;
}

void sl_h2_settle(struct h2_conn *c)
{
	free_all(c, &c->ended);
	sl_h2_early_reply_finish(c);
	if (c->flags & H2_CLOSED || !is_over(c))
		return;
	c->flags |= H2_CLOSED | H2_FAILED;
	sl_h2_head_drop(c);
	free_all(c, &c->ended);
	free_all(c, &c->streams);
	end_session(c);
	c->front->cb->close(c->conn, false);
}

static bool write_out(struct h2_conn *c)
{
	size_t n;

	if (!c->out_len)
		return true;
	n = c->front->cb->write(c->conn, c->out, c->out_len);
	c->out += n;
	c->out_len -= n;
	return c->out_len == 0;
}

static void write_frames(struct h2_conn *c)
{
	ssize_t n;

	while (write_out(c)) {
		n = nghttp2_session_mem_send(c->session, &c->out);
		if (n < 0)
			c->flags |= H2_BROKEN | H2_FAILED;
		if (n <= 0)
			break;
		c->out_len = (size_t)n;
	}
}

void sl_h2_flush(struct h2_conn *c)
{
	do {
		if (c->flags & (H2_CLOSED | H2_BROKEN))
			return;
		write_frames(c);
	} while (sl_h2_pull_waiting(c));
}

static int start_session(struct h2_conn *c)
{
	const struct sl_front_limits *l = c->env->limits;
	const struct sl_h2_config *cfg = &c->env->cfg;
	const nghttp2_settings_entry iv[] = {
		{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, l->max_streams},
		{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, H2_FIRST_WINDOW},
		{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, l->max_head},
		{NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
		{NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1},
	};
	size_t cnt = sizeof(iv) / sizeof(iv[0]) - !l->upgrades;

	if (nghttp2_session_server_new3(&c->session, c->env->callbacks, c, c->env->option,
					&c->budget.mem) != 0)
		return -1;
	if (nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, iv, cnt) != 0)
		return -1;
	return nghttp2_session_set_local_window_size(c->session, NGHTTP2_FLAG_NONE, 0,
						     (int32_t)cfg->conn_window);
}

static void open_budget(struct h2_conn *c)
{
	struct sl_h2_env *e = c->env;
	double share = e->limits->address_connections;

	sl_h2_budget_init(&c->budget, &e->mem, e->cfg.conn_memory);
	if (share >= 1)
		return;
	c->budget.of_source = &c->source->memory;
	c->budget.source_max = (uint64_t)(share * (double)e->cfg.memory);
	if (c->budget.source_max < c->budget.max)
		c->budget.source_max = c->budget.max;
}

static void conn_free(struct h2_conn *c)
{
	end_session(c);
	c->source->conns--;
	sl_mempool_put(&c->env->conns, c);
}

static void conn_open(void *state, const struct sl_front_env *env, void *conn, uint32_t source)
{
	struct sl_h2_env *e = env->h2;
	struct h2_conn *c = NULL;

	if (e && SL_ENSURE(source < e->cfg.sources))
		c = take_share(&e->conns, e->limits->address_connections,
			       &e->sources[source].conns);
	if (c) {
		memset(c, 0, sizeof(*c));
		c->env = e;
		c->front = env;
		c->conn = conn;
		c->source = &e->sources[source];
		sl_list_init(&c->streams);
		sl_list_init(&c->ended);
		sl_h2_flood_open(c);
		open_budget(c);
		if (start_session(c)) {
			conn_free(c);
			c = NULL;
		}
	}
	*(struct h2_conn **)state = c;
	if (c)
		return;
	if (env->errors)
		env->errors[SL_FRONT_ERR_NO_EXCHANGE]++;
	env->cb->close(conn, false);
}

static bool input_stuck(struct h2_conn *c, struct sl_chunk *chunk, size_t *used)
{
	size_t len = chunk->len < c->stuck_len ? chunk->len : c->stuck_len;
	size_t n = c->stuck ? sl_h2_deliver(c->stuck, chunk->ptr, len) : len;
	int32_t id = c->stuck ? c->stuck->id : 0;

	if (id)
		nghttp2_session_consume(c->session, id, n);
	else
		nghttp2_session_consume_connection(c->session, n);
	c->stuck_len -= n;
	*used = n;
	if (!c->stuck_len)
		c->stuck = NULL;
	return c->stuck_len == 0;
}

static size_t read_input(struct h2_conn *c, struct sl_chunk *chunk)
{
	bool core = c->flags & H2_GRPC_CORE;
	size_t used = 0;
	ssize_t n;

	/* Stuck bytes have already passed the guard. */
	c->walked = chunk->ptr + (c->stuck_len < chunk->len ? c->stuck_len : chunk->len);
	if (c->stuck_len && !input_stuck(c, chunk, &used))
		return used;
	if (core)
		n = sl_h2_idle_read(c, chunk->ptr + used, chunk->len - used);
	else
		n = nghttp2_session_mem_recv(c->session, chunk->ptr + used, chunk->len - used);
	if (n < 0) {
		switch (n) {
		case NGHTTP2_ERR_BAD_CLIENT_MAGIC:
			sl_h2_fail(c, NGHTTP2_PROTOCOL_ERROR, SL_FRONT_ERR_H2_PROTOCOL);
			break;
		case NGHTTP2_ERR_FLOODED:
			sl_h2_fail(c, NGHTTP2_ENHANCE_YOUR_CALM, SL_FRONT_ERR_H2_FLOOD);
			break;
		default: sl_h2_fail(c, NGHTTP2_INTERNAL_ERROR, SL_FRONT_ERR_NO_FRAME); break;
		}
		return chunk->len;
	}
	if (!core)
		sl_h2_flood_until(c, chunk->ptr + used + (size_t)n);
	return used + (size_t)n - c->stuck_len;
}

static size_t conn_input(void *state, const struct sl_front_env *env, struct sl_chunk *chunk)
{
	struct h2_conn *c = sl_h2_conn(state);
	size_t used, len = chunk->len;

	(void)env;
	if (!c || (c->flags & (H2_FAILED | H2_CLOSED)))
		return len;
	c->chunk = chunk;
	used = read_input(c, chunk);
	c->chunk = NULL;
	sl_h2_head_keep(c);
	sl_h2_flush(c);
	sl_h2_settle(c);
	return c->flags & H2_FAILED ? len : used;
}

static bool ends_with_its_client(const struct h2_conn *c, const struct h2_stream *s, bool listens)
{
	if (!(s->flags & ST_RX_OVER) || ((s->flags & ST_CALL) && sl_call_rests(s)))
		return true;
	return !listens && s->st && !c->front->cb->whole(c->conn, s->st);
}

static void conn_eof(void *state, const struct sl_front_env *env, bool listens)
{
	struct h2_conn *c = sl_h2_conn(state);
	struct sl_list *l, *tmp;

	(void)env;
	if (!c || (c->flags & H2_CLOSED))
		return;
	c->flags |= H2_EOF;
	sl_h2_head_drop(c);
	sl_list_for_each_safe (l, tmp, &c->streams) {
		struct h2_stream *s = sl_container_of(l, struct h2_stream, link);

		if (ends_with_its_client(c, s, listens))
			nghttp2_submit_rst_stream(c->session, NGHTTP2_FLAG_NONE, s->id,
						  NGHTTP2_CANCEL);
	}
	sl_h2_flush(c);
	sl_h2_settle(c);
}

static void conn_ready(void *state, const struct sl_front_env *env, struct sl_stream *st)
{
	struct h2_conn *c = sl_h2_conn(state);

	(void)env;
	sl_h2_passed(st->own);
	sl_h2_continue(st->own);
	sl_h2_pull(st->own);
	sl_h2_flush(c);
	sl_h2_settle(c);
}

static void conn_interim(void *state, const struct sl_front_env *env, struct sl_stream *st,
			 const struct sl_reply *r)
{
	struct h2_conn *c = sl_h2_conn(state);

	(void)env;
	sl_h2_interim(st->own, r);
	sl_h2_flush(c);
	sl_h2_settle(c);
}

static void conn_writable(void *state, const struct sl_front_env *env)
{
	struct h2_conn *c = sl_h2_conn(state);

	(void)env;
	if (!c)
		return;
	sl_h2_flush(c);
	sl_h2_settle(c);
}

/*
 * RFC 9113 6.8: GOAWAY has the highest identifier first, to keep requests in flight. The PING's
 * acknowledgement shows that the client knows.
 */
static void conn_drain(void *state, const struct sl_front_env *env)
{
	static const uint8_t mark[8] = "sldrain";
	struct h2_conn *c = sl_h2_conn(state);
	struct sl_list *l;

	(void)env;

	if (!c || (c->flags & (H2_DRAIN | H2_FAILED | H2_CLOSED)))
		return;
	c->flags |= H2_DRAIN;
	c->drain_ns = *c->front->now_ns;
	sl_list_for_each (l, &c->streams) {
		struct h2_stream *s = sl_container_of(l, struct h2_stream, link);

		if (s->flags & ST_CALL)
			sl_call_drain(s);
		else if (s->st && s->st->upgrade)
			sl_h2_upgrade_drain(s);
	}
	if (!(c->flags & H2_READY)) {
		nghttp2_session_terminate_session(c->session, NGHTTP2_NO_ERROR);
	} else {
		nghttp2_submit_shutdown_notice(c->session);
		sl_h2_flush(c); /* the PING must not overtake the GOAWAY */
		nghttp2_submit_ping(c->session, NGHTTP2_FLAG_NONE, mark);
	}
	sl_h2_flush(c);
	sl_h2_settle(c);
}

static void conn_timeout(void *state, const struct sl_front_env *env)
{
	struct h2_conn *c = sl_h2_conn(state);

	(void)env;
	if (!c || (c->flags & H2_CLOSED))
		return;
	sl_h2_fail(c, NGHTTP2_NO_ERROR, SL_FRONT_ERR_TIMEOUT);
	sl_h2_head_drop(c);
	sl_h2_flush(c);
	sl_h2_settle(c);
}

static void conn_close(void *state, const struct sl_front_env *env)
{
	struct h2_conn *c = sl_h2_conn(state);

	(void)env;
	if (!c)
		return;
	*(struct h2_conn **)state = NULL;
	c->flags |= H2_CLOSED | H2_FAILED;
	sl_h2_head_drop(c);
	free_all(c, &c->ended);
	free_all(c, &c->streams);
	conn_free(c);
}

/* Waiting calls and early replies are idle. The newest streams are likely busy. */
static enum sl_front_rest conn_rest(const void *state)
{
	const struct h2_conn *c = *(struct h2_conn *const *)state;

	if (!c)
		return SL_FRONT_IDLE;
	if (!(c->flags & H2_READY) || c->head.since_ns)
		return SL_FRONT_BUSY;
	for (const struct sl_list *l = c->streams.prev; l != &c->streams; l = l->prev) {
		const struct h2_stream *s = sl_container_of(l, struct h2_stream, link);

		if (!sl_h2_early_reply_pending(s) && !sl_call_rests(s))
			return SL_FRONT_BUSY;
	}
	return c->watches ? SL_FRONT_TELLS : SL_FRONT_IDLE;
}

static uint64_t head_since(const void *state)
{
	const struct h2_conn *c = *(struct h2_conn *const *)state;

	return c ? c->head.since_ns : 0;
}

static bool conn_flow(const void *state, const struct sl_stream *st, uint32_t *bytes)
{
	const struct h2_conn *c = *(struct h2_conn *const *)state;
	const struct h2_stream *s = st->own;

	*bytes = c->taken;
	return nghttp2_session_get_stream_remote_window_size(c->session, s->id) > 0;
}

static void conn_abandon(void *state, const struct sl_front_env *env, struct sl_stream *st)
{
	struct h2_conn *c = sl_h2_conn(state);
	const struct h2_stream *s = st->own;

	(void)env;
	nghttp2_submit_rst_stream(c->session, NGHTTP2_FLAG_NONE, s->id, NGHTTP2_ENHANCE_YOUR_CALM);
	sl_h2_flush(c);
	sl_h2_settle(c);
}

const struct sl_front_ops sl_front_h2 = {
	.name = "h2",
	.open = conn_open,
	.input = conn_input,
	.eof = conn_eof,
	.ready = conn_ready,
	.interim = conn_interim,
	.writable = conn_writable,
	.drain = conn_drain,
	.timeout = conn_timeout,
	.close = conn_close,
	.rest = conn_rest,
	.head_since = head_since,
	.flow = conn_flow,
	.abandon = conn_abandon,
};
