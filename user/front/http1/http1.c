/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pool.h"
#include "front/http1/http1_conn.h"
#include "front/http1/http1_scan.h"

/* Of a head that is incomplete: counted to the client. NULL: it has too many, or there is none. */
static struct sl_frame *take_frame(struct http1 *h, const struct sl_front_env *env)
{
	struct sl_frame *f;

	if (sl_umem_low(env->umem) || !env->host->hold(h->host, 1))
		return NULL;
	f = sl_frame_get(env->umem, SL_FRAME_HELD, 0);
	if (!f)
		env->host->hold(h->host, -1);
	return f;
}

static void put_frame(struct http1 *h, const struct sl_front_env *env)
{
	sl_frame_put(env->umem, h->part.frame);
	env->host->hold(h->host, -1);
}

static void drop_part(struct http1 *h, const struct sl_front_env *env)
{
	if (!h->part_len)
		return;
	if (h->flags & CONN_POOLED)
		sl_front_head_put(env, h->part.buf);
	else
		put_frame(h, env);
	h->part.buf = NULL;
	h->part_len = 0;
	h->flags &= (uint8_t)~CONN_POOLED;
}

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
		env->host->cancel(h->host, st);
	}
}

/* Ends the connection in order (or by reset), cancelling what is left. */
static void shut_down(struct http1 *h, const struct sl_front_env *env, bool reset)
{
	if (h->flags & CONN_CLOSED)
		return;
	h->flags |= CONN_CLOSED;
	h->phase = PHASE_DEAD;
	drop_part(h, env);
	cancel_all(h, env);
	env->host->close(h->host, reset);
}

void sl_http1_advance(struct http1 *h, const struct sl_front_env *env)
{
	struct sl_stream *st;

	while ((st = h->head)) {
		uint8_t flags;

		sl_http1_pull(h, env, st);
		if (st->state == REPLY_NONE && (st->flags & ST_EXPECT) && !st->awaits) {
			static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";

			/* RFC 9110 10.1.1: an interim answer, so it waits for its turn as well. */
			if (st->refused || env->host->write_head(h->host, text, sizeof(text) - 1))
				st->flags &= (uint8_t)~ST_EXPECT;
		}
		if (st->state != REPLY_DONE || !(st->flags & (ST_RX_OVER | ST_CLOSE)))
			return;
		/* The oldest stream is over on both sides. */
		flags = st->flags;
		if (sl_http1_rx(h) == st)
			h->phase = PHASE_DEAD;
		unlink_stream(h, st);
		env->host->done(h->host, st);
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

/* The client broke the protocol: what came before is answered, then the error, then the end. */
static void fail(struct http1 *h, const struct sl_front_env *env, unsigned status,
		 enum sl_front_error error)
{
	struct sl_stream *st = sl_http1_rx(h);

	if (env->errors)
		env->errors[error]++;
	drop_part(h, env);
	h->phase = PHASE_DEAD;
	if (st) {
		bool started = st->state != REPLY_NONE;
		bool reset = st->state == REPLY_UNTIL_CLOSE;

		if (st->method == SL_METHOD_HEAD)
			h->flags |= CONN_NO_BODY;
		unlink_stream(h, st);
		env->host->cancel(h->host, st);
		if (started) { /* no error can follow a broken reply */
			shut_down(h, env, reset);
			return;
		}
	}
	h->error = (uint16_t)status;
}

static void refuse_head(struct http1 *h, const struct sl_front_env *env,
			const struct sl_http1_head *head)
{
	if (head->rq.method == SL_METHOD_HEAD)
		h->flags |= CONN_NO_BODY;
	fail(h, env, head->status, head->error);
}

/* A stream joins the list. */
static void adopt(struct http1 *h, const struct sl_front_env *env, struct sl_stream *st,
		  const struct sl_http1_head *head)
{
	st->body_left = head->rq.end ? 0 : head->rq.content_length;
	st->method = head->rq.method;
	st->version_minor = head->minor;
	st->flags = head->rq.end ? ST_RX_OVER : 0;
	if (head->rq.expect)
		st->flags |= ST_EXPECT;
	/*
	 * What comes behind its head is of another protocol. If the reply refuses that, it must not be
	 * read as requests either: whoever wrote it may not be who wrote the head.
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

/* A whole head. `more`: bytes of the client follow it, so it does not wait for 100 (Continue). */
static void begin(struct http1 *h, const struct sl_front_env *env, struct sl_http1_head *head,
		  bool more)
{
	struct sl_stream *st;

	if (more)
		head->rq.expect = false;
	head->rq.body_max = env->limits->max_body;
	st = env->host->begin(h->host, &head->rq);
	drop_part(h, env);
	memset(&h->chunked, 0, sizeof(h->chunked));
	if (!st) {
		sl_http1_refuse(head, 503, SL_FRONT_ERR_NO_EXCHANGE);
		refuse_head(h, env, head);
		return;
	}
	adopt(h, env, st, head);
	h->chunked.unbounded = h->chunked.stops = st->open_ended;
	if (!head->rq.end || st->upgrade) {
		h->flags |= CONN_RX;
		h->phase = head->chunked ? PHASE_CHUNKED : PHASE_BODY;
	} else {
		h->phase = st->flags & ST_CLOSE ? PHASE_DEAD : PHASE_HEAD;
	}
}

/* Memory for at least one more byte of what is partial; empty if it was refused for want of it. */
static struct sl_mspan part_space(struct http1 *h, const struct sl_front_env *env)
{
	size_t max = env->limits->max_head, cap = env->umem->frame_size;

	if (cap > max)
		cap = max;
	if (!h->part_len) {
		h->part.frame = take_frame(h, env);
		if (h->part.frame)
			return sl_mspan_of(h->part.frame->data, cap);
		fail(h, env, 503, SL_FRONT_ERR_NO_FRAME);
		return sl_mspan_of(NULL, 0);
	}
	/* A partial head has filled its frame: on to a buffer that holds any head. */
	if (!(h->flags & CONN_POOLED) && h->part_len == cap) {
		uint8_t *buf = env->heads ? sl_front_head_get(env, h->host) : NULL;

		if (!buf) {
			fail(h, env, env->heads ? 503 : 431,
			     env->heads ? SL_FRONT_ERR_NO_FRAME : SL_FRONT_ERR_HEAD_TOO_LARGE);
			return sl_mspan_of(NULL, 0);
		}
		memcpy(buf, h->part.frame->data, h->part_len);
		put_frame(h, env);
		h->part.buf = buf;
		h->flags |= CONN_POOLED;
	}
	if (h->flags & CONN_POOLED)
		return sl_mspan_of(h->part.buf, max);
	return sl_mspan_of(h->part.frame->data, cap);
}

/* Whether bytes that were added to a partial head may complete it or make it refusable. */
static bool worth_parsing(const struct sl_front_limits *limits, struct sl_span part, size_t old)
{
	size_t line = (size_t)limits->max_target + 2;
	const uint8_t *end = part.ptr + part.len;
	const uint8_t *p = part.ptr + old;

	if (part.len >= limits->max_head || (old < line && part.len >= line))
		return true;
	while ((p = sl_scan_value(p, part.ptr, end)) < end && *p == '\r')
		p++;
	return p < end; /* LF: the end of a line; else one that is nowhere allowed */
}

/*
 * Appends to what is partial, as far as there is room: *len. It is parsed again only when a line of it
 * has become complete, so a client that sends byte by byte costs at most one parse per field. Empty:
 * no parse could say more now, or it was refused.
 */
static struct sl_span keep_part(struct http1 *h, const struct sl_front_env *env, const uint8_t *ptr,
				size_t *len)
{
	size_t old = h->part_len;
	struct sl_mspan space = part_space(h, env);
	struct sl_span part;

	if (!space.len)
		return sl_span_of(NULL, 0);
	if (*len > space.len - old)
		*len = space.len - old;
	memcpy(space.ptr + old, ptr, *len);
	part = sl_span_of(space.ptr, old + *len);
	h->part_len = (uint32_t)part.len;
	/* The first piece has been found incomplete already. */
	return old && worth_parsing(env->limits, part, old) ? part : sl_span_of(NULL, 0);
}

static size_t gather(struct http1 *h, const struct sl_front_env *env, const uint8_t *ptr,
		     size_t len)
{
	size_t old = h->part_len;
	struct sl_span part = keep_part(h, env, ptr, &len);
	SL_UNSET struct sl_http1_head head;
	ssize_t n = part.len ? sl_http1_parse(part, env->limits, &head) : 0;

	if (n == 0)
		return len;
	if (n < 0) {
		refuse_head(h, env, &head);
		return len;
	}
	head.rq.rx_ns = h->rx_ns;
	head.rq.take_ns = h->take_ns;
	begin(h, env, &head, (size_t)n < part.len);
	return (size_t)n - old;
}

static size_t input_head(struct http1 *h, const struct sl_front_env *env,
			 const struct sl_chunk *chunk, size_t off)
{
	struct sl_span in = sl_span_of(chunk->ptr + off, chunk->len - off);
	SL_UNSET struct sl_http1_head head;
	ssize_t n;

	if (h->part_len)
		return gather(h, env, in.ptr, in.len);
	n = sl_http1_parse(in, env->limits, &head);
	if (n > 0) {
		head.rq.rx_ns = chunk->rx_ns;
		head.rq.take_ns = chunk->take_ns;
		begin(h, env, &head, (size_t)n < in.len);
		return (size_t)n;
	}
	if (n < 0) {
		refuse_head(h, env, &head);
		return in.len;
	}
	h->rx_ns = chunk->rx_ns;
	h->take_ns = chunk->take_ns;
	return gather(h, env, in.ptr, in.len);
}

/* Body bytes to the host, which may keep the frame if they are the rest of it. */
static size_t deliver(struct http1 *h, const struct sl_front_env *env, struct sl_chunk *chunk,
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

	st->flags &= (uint8_t)~ST_EXPECT; /* it did not wait */
	if (st->refused)
		return len;
	taken = env->host->body(h->host, st, &part);
	SL_CHECK(taken <= len);
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
		env->host->end(h->host, st);
}

static size_t input_body(struct http1 *h, const struct sl_front_env *env, struct sl_chunk *chunk,
			 size_t off)
{
	struct sl_stream *st = sl_http1_rx(h);
	size_t len = chunk->len - off, taken;

	if (len > st->body_left)
		len = (size_t)st->body_left;
	taken = deliver(h, env, chunk, off, len);
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
		fail(h, env, status,
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
	taken = deliver(h, env, chunk, off, len);
	c->left -= taken;
	return framing + taken;
}

static size_t input_trailers(struct http1 *h, const struct sl_front_env *env,
			     const struct sl_chunk *chunk, size_t off)
{
	struct sl_span in = sl_span_of(chunk->ptr + off, chunk->len - off);
	struct sl_stream *st = sl_http1_rx(h);
	size_t old = h->part_len;
	SL_UNSET struct sl_http1_head head;
	ssize_t n = old ? 0 : sl_http1_trailers(in, env->limits, &head);

	if (n == 0) {
		struct sl_span part = keep_part(h, env, in.ptr, &in.len);

		n = part.len ? sl_http1_trailers(part, env->limits, &head) : 0;
	}
	if (n == 0)
		return in.len;
	if (n < 0) {
		fail(h, env, head.status, head.error);
		return in.len;
	}
	if (head.rq.header_cnt && !st->refused)
		env->host->request_trailers(h->host, st, head.headers, head.rq.header_cnt);
	drop_part(h, env);
	body_over(h, env);
	return (size_t)n - old;
}

/* Returns how many bytes were used; 0: the rest has to wait. */
static size_t input_step(struct http1 *h, const struct sl_front_env *env, struct sl_chunk *chunk,
			 size_t off)
{
	const struct sl_stream *rx = sl_http1_rx(h);

	if (rx && rx->refused) /* its answer may be the end of the input */
		sl_http1_advance(h, env);
	switch (h->phase) {
	case PHASE_HEAD:
		/* Unless too many wait for their replies; some of these may be there already. */
		if (h->count >= env->limits->max_pipeline)
			sl_http1_advance(h, env);
		if (h->count >= env->limits->max_pipeline || h->phase == PHASE_DEAD)
			return 0;
		return input_head(h, env, chunk, off);
	case PHASE_BODY: return input_body(h, env, chunk, off);
	case PHASE_CHUNKED: return input_chunked(h, env, chunk, off);
	case PHASE_TRAILERS: return input_trailers(h, env, chunk, off);
	default: return 0; /* DEAD */
	}
}

static size_t input(void *state, const struct sl_front_env *env, struct sl_chunk *chunk)
{
	struct http1 *h = state;
	size_t used = 0, n = 1;

	while (n && used < chunk->len) {
		n = input_step(h, env, chunk, used);
		used += n;
	}
	/* When a reply begins is for ready() to say. */
	if (!h->head || h->head->state != REPLY_NONE || h->head->flags & ST_EXPECT)
		sl_http1_advance(h, env);
	return h->phase == PHASE_DEAD ? chunk->len : used;
}

static void ready(void *state, const struct sl_front_env *env, struct sl_stream *st)
{
	struct http1 *h = state;

	if (st == h->head)
		sl_http1_advance(h, env);
}

/* No more will be read; what is incomplete is answered with `status`, behind what is pending. */
static void stop_reading(struct http1 *h, const struct sl_front_env *env, unsigned status,
			 enum sl_front_error error)
{
	struct sl_stream *st = sl_http1_rx(h);

	if (h->phase == PHASE_DEAD)
		return;
	if (st && st->state == REPLY_DONE) /* it has its answer */
		st->flags |= ST_CLOSE;
	else if (st || h->part_len)
		fail(h, env, status, error);
	else if (h->tail)
		h->tail->flags |= ST_CLOSE;
	h->flags |= CONN_CLOSE;
	h->phase = PHASE_DEAD;
	sl_http1_advance(h, env);
}

/*
 * Of what has gone on in another protocol: no more of the client's comes to its backend, which ends
 * its own side then. False: there is no such thing.
 */
static bool end_upgraded(struct http1 *h, const struct sl_front_env *env)
{
	struct sl_stream *st = sl_http1_rx(h);

	if (!st || !st->upgrade)
		return false;
	body_over(h, env);
	sl_http1_advance(h, env);
	return true;
}

static void eof(void *state, const struct sl_front_env *env)
{
	struct http1 *h = state;
	struct sl_http1_head head = {.status = 400, .error = SL_FRONT_ERR_BAD_REQUEST};
	uint8_t *buf;

	if (end_upgraded(h, env))
		return;
	if (h->part_len &&
	    h->phase == PHASE_HEAD) { /* it may be refusable for a better reason than its end */
		buf = h->flags & CONN_POOLED ? h->part.buf : h->part.frame->data;
		if (sl_http1_parse(sl_span_of(buf, h->part_len), env->limits, &head) >= 0)
			sl_http1_refuse(&head, 400, SL_FRONT_ERR_BAD_REQUEST);
		if (head.rq.method == SL_METHOD_HEAD)
			h->flags |= CONN_NO_BODY;
	}
	stop_reading(h, env, head.status, head.error);
}

static void timeout(void *state, const struct sl_front_env *env)
{
	stop_reading(state, env, 408, SL_FRONT_ERR_TIMEOUT);
}

static void drain(void *state, const struct sl_front_env *env)
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

static void conn_open(void *state, const struct sl_front_env *env, void *host, uint32_t source)
{
	struct http1 *h = state;

	(void)env, (void)source;
	memset(h, 0, sizeof(*h));
	h->host = host;
}

static void writable(void *state, const struct sl_front_env *env)
{
	sl_http1_advance(state, env);
}

static void conn_close(void *state, const struct sl_front_env *env)
{
	struct http1 *h = state;

	h->flags |= CONN_CLOSED;
	h->phase = PHASE_DEAD;
	drop_part(h, env);
	cancel_all(h, env);
}

static enum sl_front_rest rest(const void *state)
{
	const struct http1 *h = state;

	return h->head || h->part_len ? SL_FRONT_BUSY : SL_FRONT_IDLE;
}

const struct sl_front_ops sl_front_http1 = {
	.name = "http1",
	.open = conn_open,
	.input = input,
	.eof = eof,
	.ready = ready,
	.writable = writable,
	.drain = drain,
	.timeout = timeout,
	.close = conn_close,
	.rest = rest,
};
