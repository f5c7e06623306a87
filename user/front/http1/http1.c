/* SPDX-License-Identifier: Apache-2.0 */
#include "front/http1/conn.h"

static void unlink_stream(struct http1 *h, struct sl_stream *st)
{
	struct sl_stream *prev = NULL, *s = h->head;

	while (s && s != st) {
		prev = s;
		s = s->next;
	}
	SL_CHECK(s);
	if (prev)
		prev->next = st->next;
	else
		h->head = st->next;
	if (sl_http1_rx(h) == st)
		sl_http1_rx_over(h);
	if (h->tail == st)
		h->tail = prev;
	st->next = NULL;
	h->count--;
}

static void cancel_all(struct http1 *h, const struct sl_front_env *env)
{
	while (h->head) {
		struct sl_stream *st = h->head;

		unlink_stream(h, st);
		env->cb->cancel(h->conn, st);
	}
}

static void shut_down(struct http1 *h, const struct sl_front_env *env, bool reset)
{
	if (h->flags & CONN_CLOSED)
		return;
	h->flags |= CONN_CLOSED;
	h->phase = PHASE_DEAD;
	sl_http1_drop_part(h, env);
	cancel_all(h, env);
	env->cb->close(h->conn, reset);
}

void sl_http1_advance(struct http1 *h, const struct sl_front_env *env)
{
	struct sl_stream *st;

	while ((st = h->head)) {
		uint8_t flags;

		sl_http1_pull(h, env, st);
		if (st->state == REPLY_NONE && (st->flags & ST_EXPECT) && !st->awaits) {
			static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";

			/* RFC 9110 10.1.1: an interim reply waits for its turn. */
			if (st->refused || env->cb->write_head(h->conn, text, sizeof(text) - 1))
				st->flags &= (uint8_t)~ST_EXPECT;
		}
		if (st->state != REPLY_DONE || !(st->flags & (ST_RX_OVER | ST_CLOSE)))
			return;
		flags = st->flags;
		if (sl_http1_rx(h) == st)
			h->phase = PHASE_DEAD;
		unlink_stream(h, st);
		env->cb->done(h->conn, st);
		h->discarded = 0;
		if (flags & ST_CLOSE)
			shut_down(h, env, flags & ST_RESET);
	}
	if (h->flags & CONN_CLOSED)
		return;
	if (h->error)
		sl_http1_write_error(h, env);
	if (h->error || (h->flags & CONN_CLOSE))
		shut_down(h, env, false);
}

void sl_http1_fail(struct http1 *h, const struct sl_front_env *env, unsigned status,
		   enum sl_front_error error)
{
	struct sl_stream *st = sl_http1_rx(h);

	if (env->errors)
		env->errors[error]++;
	sl_http1_drop_part(h, env);
	h->phase = PHASE_DEAD;
	if (st) {
		bool started = st->state != REPLY_NONE;
		bool reset = st->state == REPLY_UNTIL_CLOSE;

		if (st->method == SL_METHOD_HEAD)
			h->flags |= CONN_NO_BODY;
		unlink_stream(h, st);
		env->cb->cancel(h->conn, st);
		if (started) { /* no error can follow a partial reply */
			shut_down(h, env, reset);
			return;
		}
	}
	h->error = (uint16_t)status;
}

void sl_http1_refuse_request(struct http1 *h, const struct sl_front_env *env,
			     const struct sl_request *rq, unsigned status,
			     enum sl_front_error error)
{
	struct sl_span id = {0};

	if (!sl_http1_rx(h) && env->cb->refused)
		id = env->cb->refused(h->conn, rq, status, error);
	sl_http1_fail(h, env, status, error);
	if (h->error && id.len)
		sl_http1_keep_id(h, env, id);
}

static void refuse_head(struct http1 *h, const struct sl_front_env *env,
			const struct sl_http1_head *head)
{
	if (head->rq.method == SL_METHOD_HEAD)
		h->flags |= CONN_NO_BODY;
	sl_http1_refuse_request(h, env, &head->rq, head->status, head->error);
}

static void adopt_stream(struct http1 *h, const struct sl_front_env *env, struct sl_stream *st,
			 const struct sl_http1_head *head)
{
	st->body_left = head->rq.end ? 0 : head->rq.content_length;
	st->method = head->rq.method;
	st->version_minor = head->minor;
	st->flags = head->rq.end ? ST_RX_OVER : 0;
	if (head->rq.expect)
		st->flags |= ST_EXPECT;
	/*
	 * Bytes after the head must not be parsed as requests, even after a refusal: their author
	 * may differ.
	 */
	if (st->upgrade) {
		st->body_left = SL_LEN_UNKNOWN;
		st->flags = ST_CLOSE;
	}
	if (!head->keep_alive || env->draining || (h->flags & CONN_DRAIN))
		st->flags |= ST_CLOSE;
	if (h->tail)
		h->tail->next = st;
	else
		h->head = st;
	h->tail = st;
	h->count++;
}

static void begin_request(struct http1 *h, const struct sl_front_env *env,
			  struct sl_http1_head *head, bool more)
{
	struct sl_stream *st;

	if (more)
		head->rq.expect = false;
	head->rq.body_max = env->limits->max_body;
	st = env->cb->begin(h->conn, &head->rq);
	sl_http1_drop_part(h, env);
	memset(&h->chunked, 0, sizeof(h->chunked));
	if (!st) {
		if (head->rq.method == SL_METHOD_HEAD)
			h->flags |= CONN_NO_BODY;
		sl_http1_refuse_request(h, env, NULL, 503, SL_FRONT_ERR_NO_EXCHANGE);
		return;
	}
	adopt_stream(h, env, st, head);
	st->trailers = head->trailers && head->minor;
	h->chunked.unbounded = h->chunked.stops = st->open_ended;
	if (!head->rq.end || st->upgrade) {
		h->flags |= CONN_RX;
		h->phase = head->chunked ? PHASE_CHUNKED : PHASE_BODY;
	} else {
		h->phase = st->flags & ST_CLOSE ? PHASE_DEAD : PHASE_HEAD;
	}
}

static size_t gather_head(struct http1 *h, const struct sl_front_env *env, const uint8_t *ptr,
			  size_t len)
{
	size_t old = h->part_len;
	struct sl_span part = sl_http1_keep_part(h, env, ptr, &len);
	SL_UNINIT struct sl_http1_head head;
	ssize_t n = part.len ? sl_http1_parse(part, env->limits, &head) : 0;

	if (n == 0)
		return len;
	if (n < 0) {
		refuse_head(h, env, &head);
		return len;
	}
	head.rq.rx_ns = h->rx_ns;
	head.rq.take_ns = h->take_ns;
	begin_request(h, env, &head, (size_t)n < part.len);
	return (size_t)n - old;
}

static size_t input_head(struct http1 *h, const struct sl_front_env *env,
			 const struct sl_chunk *chunk, size_t off)
{
	struct sl_span in = sl_span_of(chunk->ptr + off, chunk->len - off);
	SL_UNINIT struct sl_http1_head head;
	ssize_t n;

	if (h->part_len)
		return gather_head(h, env, in.ptr, in.len);
	n = sl_http1_parse(in, env->limits, &head);
	if (n > 0) {
		head.rq.rx_ns = chunk->rx_ns;
		head.rq.take_ns = chunk->take_ns;
		begin_request(h, env, &head, (size_t)n < in.len);
		return (size_t)n;
	}
	if (n < 0) {
		refuse_head(h, env, &head);
		return in.len;
	}
	h->rx_ns = chunk->rx_ns;
	h->take_ns = chunk->take_ns;
	return gather_head(h, env, in.ptr, in.len);
}

/* The core may take the frame with its last bytes. */
static size_t deliver_body(struct http1 *h, const struct sl_front_env *env, struct sl_chunk *chunk,
			   size_t off, size_t len)
{
	bool rest = off + len == chunk->len;
	struct sl_chunk part = {
		.ptr = chunk->ptr + off,
		.len = len,
		.frame = rest ? chunk->frame : NULL,
		.rx_ns = chunk->rx_ns,
		.take_ns = chunk->take_ns,
	};
	struct sl_stream *st = sl_http1_rx(h);
	size_t taken;

	st->flags &= (uint8_t)~ST_EXPECT;
	if (st->refused) {
		h->discarded += (uint32_t)len;
		return len;
	}
	taken = env->cb->body(h->conn, st, &part);
	if (!SL_ENSURE(taken <= len)) {
		sl_http1_fail(h, env, 500, SL_FRONT_ERR_BAD_REPLY);
		return len;
	}
	if (rest && taken == len && !part.frame)
		chunk->frame = NULL;
	return taken;
}

static void body_over(struct http1 *h, const struct sl_front_env *env)
{
	struct sl_stream *st = sl_http1_rx(h);

	sl_http1_rx_over(h);
	st->flags |= ST_RX_OVER;
	h->phase = st->flags & ST_CLOSE ? PHASE_DEAD : PHASE_HEAD;
	if (!st->refused)
		env->cb->end(h->conn, st);
}

static size_t input_body(struct http1 *h, const struct sl_front_env *env, struct sl_chunk *chunk,
			 size_t off)
{
	struct sl_stream *st = sl_http1_rx(h);
	size_t len = chunk->len - off, taken;

	if (len > st->body_left)
		len = (size_t)st->body_left;
	taken = deliver_body(h, env, chunk, off, len);
	st->body_left -= taken;
	if (st->body_left == 0)
		body_over(h, env);
	return taken;
}

static size_t input_chunked(struct http1 *h, const struct sl_front_env *env, struct sl_chunk *chunk,
			    size_t off)
{
	struct sl_http1_chunked *c = &h->chunked;
	size_t framing, len, taken;
	unsigned status;

	framing = sl_http1_chunked_next(c, sl_span_of(chunk->ptr + off, chunk->len - off),
					env->limits, &status);
	if (status) {
		sl_http1_fail(h, env, status,
			      status == 413   ? SL_FRONT_ERR_BODY_TOO_LARGE
			      : status == 431 ? SL_FRONT_ERR_HEAD_TOO_LARGE
					      : SL_FRONT_ERR_SMUGGLING);
		return chunk->len - off;
	}
	if (c->state == SL_CHUNKED_DONE) {
		body_over(h, env);
		return framing;
	}
	if (c->stops && c->state == SL_CHUNKED_TRAILER) {
		memset(&h->part, 0, sizeof(h->part));
		h->phase = PHASE_TRAILERS;
		return framing;
	}
	off += framing;
	len = chunk->len - off;
	if (c->state != SL_CHUNKED_DATA || !len)
		return framing;
	if (len > c->left)
		len = (size_t)c->left;
	taken = deliver_body(h, env, chunk, off, len);
	c->left -= taken;
	return framing + taken;
}

static size_t input_trailers(struct http1 *h, const struct sl_front_env *env,
			     const struct sl_chunk *chunk, size_t off)
{
	struct sl_span in = sl_span_of(chunk->ptr + off, chunk->len - off);
	struct sl_stream *st = sl_http1_rx(h);
	size_t old = h->part_len;
	SL_UNINIT struct sl_http1_head head;
	ssize_t n = old ? 0 : sl_http1_trailers(in, env->limits, &head);

	if (n == 0) {
		struct sl_span part = sl_http1_keep_part(h, env, in.ptr, &in.len);

		n = part.len ? sl_http1_trailers(part, env->limits, &head) : 0;
	}
	if (n == 0)
		return in.len;
	if (n < 0) {
		sl_http1_fail(h, env, head.status, head.error);
		return in.len;
	}
	if (head.rq.header_cnt && !st->refused)
		env->cb->request_trailers(h->conn, st, head.headers, head.rq.header_cnt);
	sl_http1_drop_part(h, env);
	body_over(h, env);
	return (size_t)n - old;
}

static size_t input_step(struct http1 *h, const struct sl_front_env *env, struct sl_chunk *chunk,
			 size_t off)
{
	const struct sl_stream *rx = sl_http1_rx(h);

	if (rx && rx->refused)
		sl_http1_advance(h, env);
	switch (h->phase) {
	case PHASE_HEAD:
		/* At the pipeline limit, ready replies are written first. */
		if (h->count >= env->limits->max_pipeline)
			sl_http1_advance(h, env);
		if (h->count >= env->limits->max_pipeline || h->phase == PHASE_DEAD)
			return 0;
		return input_head(h, env, chunk, off);
	case PHASE_BODY: return input_body(h, env, chunk, off);
	case PHASE_CHUNKED: return input_chunked(h, env, chunk, off);
	case PHASE_TRAILERS: return input_trailers(h, env, chunk, off);
	default: return 0;
	}
}

static void limit_discard(struct http1 *h, const struct sl_front_env *env)
{
	if (!h->head || h->discarded <= env->limits->max_discard)
		return;
	if (env->errors)
		env->errors[SL_FRONT_ERR_DISCARDED]++;
	shut_down(h, env, true);
}

static size_t conn_input(void *state, const struct sl_front_env *env, struct sl_chunk *chunk)
{
	struct http1 *h = state;
	size_t used = 0, n = 1;

	while (n && used < chunk->len) {
		n = input_step(h, env, chunk, used);
		used += n;
	}
	if (!h->head || h->head->state != REPLY_NONE || h->head->flags & ST_EXPECT)
		sl_http1_advance(h, env);
	if (h->phase == PHASE_DEAD) {
		h->discarded += (uint32_t)(chunk->len - used);
		used = chunk->len;
	}
	limit_discard(h, env);
	return used;
}

static void conn_ready(void *state, const struct sl_front_env *env, struct sl_stream *st)
{
	struct http1 *h = state;

	if (st == h->head)
		sl_http1_advance(h, env);
}

/* RFC 9110 15.2 */
static void conn_interim(void *state, const struct sl_front_env *env, struct sl_stream *st,
			 const struct sl_reply *r)
{
	SL_UNINIT uint8_t buf[SL_HTTP1_PART_OUT];
	const struct http1 *h = state;
	size_t n;

	if (st != h->head || st->state != REPLY_NONE || !st->version_minor)
		return;
	n = sl_http1_format_interim(buf, sizeof(buf), r);
	if (n)
		(void)env->cb->write_head(h->conn, buf, n);
	else if (env->errors)
		env->errors[SL_FRONT_ERR_BAD_REPLY]++;
}

static void stop_reading(struct http1 *h, const struct sl_front_env *env,
			 const struct sl_request *rq, unsigned status, enum sl_front_error error)
{
	struct sl_stream *st = sl_http1_rx(h);

	if (h->phase == PHASE_DEAD)
		return;
	if (st && st->state == REPLY_DONE)
		st->flags |= ST_CLOSE;
	else if (st || h->part_len)
		sl_http1_refuse_request(h, env, rq, status, error);
	else if (h->tail)
		h->tail->flags |= ST_CLOSE;
	h->flags |= CONN_CLOSE;
	h->phase = PHASE_DEAD;
	sl_http1_advance(h, env);
}

static bool end_upgraded(struct http1 *h, const struct sl_front_env *env)
{
	struct sl_stream *st = sl_http1_rx(h);

	if (!st || !st->upgrade)
		return false;
	body_over(h, env);
	sl_http1_advance(h, env);
	return true;
}

static bool give_up(struct http1 *h, const struct sl_front_env *env)
{
	struct sl_stream *st = h->head, *next;
	bool reset;

	while (st && (st == sl_http1_rx(h) || env->cb->whole(h->conn, st)))
		st = st->next;
	if (!st)
		return false;
	reset = st->state == REPLY_UNTIL_CLOSE;
	for (; st; st = next) {
		next = st->next;
		unlink_stream(h, st);
		env->cb->cancel(h->conn, st);
	}
	sl_http1_drop_part(h, env);
	h->phase = PHASE_DEAD;
	h->flags |= CONN_CLOSE;
	if (h->head)
		sl_http1_advance(h, env);
	else
		shut_down(h, env, reset);
	return true;
}

static void conn_eof(void *state, const struct sl_front_env *env, bool listens)
{
	struct http1 *h = state;
	struct sl_http1_head head = {.status = 400, .error = SL_FRONT_ERR_BAD_REQUEST};
	uint8_t *buf;

	if (end_upgraded(h, env) || (!listens && give_up(h, env)))
		return;
	if (h->part_len && h->phase == PHASE_HEAD) {
		buf = h->flags & CONN_POOLED ? h->part.buf : h->part.frame->data;
		if (sl_http1_parse(sl_span_of(buf, h->part_len), env->limits, &head) >= 0)
			sl_http1_refuse(&head, 400, SL_FRONT_ERR_BAD_REQUEST);
		if (head.rq.method == SL_METHOD_HEAD)
			h->flags |= CONN_NO_BODY;
	}
	stop_reading(h, env, &head.rq, head.status, head.error);
}

static void conn_timeout(void *state, const struct sl_front_env *env)
{
	stop_reading(state, env, NULL, 408, SL_FRONT_ERR_TIMEOUT);
}

static void conn_drain(void *state, const struct sl_front_env *env)
{
	struct http1 *h = state;

	h->flags |= CONN_DRAIN;
	if (h->phase == PHASE_DEAD || (h->part_len && h->phase == PHASE_HEAD))
		return;
	if (h->tail)
		h->tail->flags |= ST_CLOSE;
	if (end_upgraded(h, env) || sl_http1_rx(h))
		return;
	h->phase = PHASE_DEAD;
	h->flags |= CONN_CLOSE;
	sl_http1_advance(h, env);
}

static void conn_open(void *state, const struct sl_front_env *env, void *conn, uint32_t source)
{
	struct http1 *h = state;

	(void)env, (void)source;
	memset(h, 0, sizeof(*h));
	h->conn = conn;
}

static void conn_writable(void *state, const struct sl_front_env *env)
{
	sl_http1_advance(state, env);
}

static void conn_close(void *state, const struct sl_front_env *env)
{
	struct http1 *h = state;

	h->flags |= CONN_CLOSED;
	h->phase = PHASE_DEAD;
	sl_http1_drop_part(h, env);
	cancel_all(h, env);
}

static enum sl_front_rest conn_rest(const void *state)
{
	const struct http1 *h = state;

	return h->head || h->part_len ? SL_FRONT_BUSY : SL_FRONT_IDLE;
}

static uint64_t head_since(const void *state)
{
	const struct http1 *h = state;

	return h->part_len && h->phase == PHASE_HEAD ? h->take_ns : 0;
}

const struct sl_front_ops sl_front_http1 = {
	.name = "http1",
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
};
