/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include "base/num.h"
#include "front/http1_conn.h"

enum {
	INLINE_BODY = 4096,     /* up to here one copy costs less than a second write */
	DISCARD_MAX = 64 << 10, /* of an unwanted body, rather than closing the connection */
	CHUNK_OVERHEAD = 32,    /* size line, CRLF and last chunk */
};

static const struct sl_span last_chunk = SL_SPAN_LIT("0\r\n\r\n");

/* A reply that the front makes up by itself. `text` holds its body. */
static void own_reply(struct sl_reply *r, unsigned status, char text[64])
{
	int n = snprintf(text, 64, "%u %s\n", status, sl_status_text(status));

	*r = (struct sl_reply){
		.status = (uint16_t)status,
		.end = true,
		.gateway = true,
		.content_type = sl_span_str("text/plain"),
		.body_len = (uint64_t)n,
		.body = sl_span_of(text, (size_t)n),
	};
}

static enum sl_http1_framing choose_framing(const struct sl_stream *st, const struct sl_reply *r,
					    uint64_t len)
{
	if (st->method == SL_METHOD_HEAD || r->status == 204 || r->status == 304)
		return SL_HTTP1_NO_BODY;
	if (len != SL_LEN_UNKNOWN)
		return SL_HTTP1_LENGTH;
	return st->version_minor ? SL_HTTP1_CHUNKS : SL_HTTP1_UNTIL_CLOSE;
}

/* Whether the connection can outlive this reply: what the client still sends must be skippable. */
static void decide_close(struct http1 *h, const struct sl_front_env *env, struct sl_stream *st,
			 enum sl_http1_framing framing)
{
	bool rx_over = st->flags & ST_RX_OVER;

	if (framing == SL_HTTP1_UNTIL_CLOSE)
		st->flags |= ST_CLOSE;
	if (!rx_over && (st->body_left > DISCARD_MAX || (st->flags & ST_EXPECT)))
		st->flags |= ST_CLOSE;
	if (env->draining && st == h->tail)
		st->flags |= ST_CLOSE;
}

/* "size CRLF data CRLF" and, behind the last one, the last chunk. */
static size_t put_chunk(uint8_t *p, struct sl_span data, bool last)
{
	uint8_t *from = p;

	if (data.ptr && data.len) {
		p += sl_format_hex_u64((char *)p, data.len);
		*p++ = '\r';
		*p++ = '\n';
		memcpy(p, data.ptr, data.len);
		p += data.len;
		*p++ = '\r';
		*p++ = '\n';
	}
	if (last) {
		memcpy(p, last_chunk.ptr, last_chunk.len);
		p += last_chunk.len;
	}
	return (size_t)(p - from);
}

bool sl_http1_last_chunk(struct http1 *h, const struct sl_front_env *env, struct sl_stream *st)
{
	if (!env->host->write_head(h->host, last_chunk.ptr, last_chunk.len))
		return false;
	st->state = REPLY_DONE;
	return true;
}

/*
 * Chunks of what there is room for. Each is written as a whole or not at all, so a chunk never
 * promises bytes that might not come.
 */
static size_t write_chunks(struct http1 *h, const struct sl_front_env *env, struct sl_stream *st,
			   struct sl_span body, bool end)
{
	uint8_t buf[SL_HTTP1_HEAD_OUT];
	size_t taken = 0;

	if (!body.len) {
		if (end && !sl_http1_last_chunk(h, env, st))
			st->state = REPLY_LAST_CHUNK;
		return 0;
	}
	while (taken < body.len) {
		struct sl_span part =
			sl_span_first(sl_span_skip(body, taken), sizeof(buf) - CHUNK_OVERHEAD);
		size_t room = env->host->room(h->host);
		bool last;

		if (room <= CHUNK_OVERHEAD)
			break;
		part = sl_span_first(part, room - CHUNK_OVERHEAD);
		last = end && taken + part.len == body.len;
		if (!env->host->write_head(h->host, buf, put_chunk(buf, part, last)))
			break;
		taken += part.len;
		if (last)
			st->state = REPLY_DONE;
	}
	return taken;
}

/* Bytes of a started reply. Returns how many were taken; completes it if all were, with `end`. */
static size_t write_body(struct http1 *h, const struct sl_front_env *env, struct sl_stream *st,
			 struct sl_span body, bool end)
{
	size_t taken = body.len, n;

	switch (st->state) {
	case REPLY_CHUNKS: taken = write_chunks(h, env, st, body, end); break;
	case REPLY_LENGTH:
		/* What exceeds the stated length would be read as the next reply: swallowed. */
		n = body.len < st->reply_left ? body.len : (size_t)st->reply_left;
		if (n) {
			size_t done = env->host->write(h->host, body.ptr, n);

			st->reply_left -= done;
			taken = done < n ? done : body.len;
		}
		break;
	case REPLY_UNTIL_CLOSE:
		if (body.len)
			taken = env->host->write(h->host, body.ptr, body.len);
		break;
	default: break; /* SWALLOW */
	}
	if (taken < body.len)
		st->flags |= ST_WAITING;
	else if (end && st->state != REPLY_LAST_CHUNK)
		st->state = REPLY_DONE;
	return taken;
}

/* After a step of its reply: broken off, complete, or to be continued. */
static void settle(struct http1 *h, const struct sl_front_env *env, struct sl_stream *st)
{
	if (st->state != REPLY_DONE)
		return;
	if (st->reply_left) { /* the host ended it short of its length */
		st->state = REPLY_LENGTH;
		sl_http1_abort(h, env, st);
		return;
	}
	sl_http1_advance(h, env);
}

/* Head and, if it is small, body in one write. Returns bytes of body taken, -1: no room. */
static int64_t write_start(struct http1 *h, const struct sl_front_env *env, struct sl_stream *st,
			   const struct sl_reply *r, bool *bad)
{
	static const uint8_t states[] = {
		[SL_HTTP1_NO_BODY] = REPLY_SWALLOW,
		[SL_HTTP1_LENGTH] = REPLY_LENGTH,
		[SL_HTTP1_CHUNKS] = REPLY_CHUNKS,
		[SL_HTTP1_UNTIL_CLOSE] = REPLY_UNTIL_CLOSE,
	};
	uint8_t buf[SL_HTTP1_HEAD_OUT];
	uint64_t len = r->body_len == SL_LEN_UNKNOWN && r->end ? r->body.len : r->body_len;
	enum sl_http1_framing framing = choose_framing(st, r, len);
	size_t n, body = 0;

	decide_close(h, env, st, framing);
	n = sl_http1_format(buf, sizeof(buf), r, len, env->date, framing,
			    st->flags & ST_CLOSE ? SL_HTTP1_CLOSE
			    : st->version_minor  ? SL_HTTP1_PERSIST
						 : SL_HTTP1_KEEP_ALIVE);
	*bad = n == 0;
	if (*bad)
		return -1;
	if (framing == SL_HTTP1_LENGTH && r->body.len <= INLINE_BODY &&
	    r->body.len <= sizeof(buf) - n && r->body.len <= len) {
		body = r->body.len;
		if (body)
			memcpy(buf + n, r->body.ptr, body);
	}
	if (!env->host->write_head(h->host, buf, n + body))
		return -1;
	st->state = states[framing];
	st->reply_left = framing == SL_HTTP1_LENGTH ? len - body : 0;
	sl_http1_stop_input(h, st);
	return (int64_t)body;
}

static bool write_bad_gateway(struct http1 *h, const struct sl_front_env *env, struct sl_stream *st)
{
	struct sl_reply own;
	char text[64];
	bool bad;

	own_reply(&own, 502, text);
	if (write_start(h, env, st, &own, &bad) < 0)
		return false;
	st->state = REPLY_SWALLOW;
	st->reply_left = 0;
	return true;
}

bool sl_http1_bad_gateway(struct http1 *h, const struct sl_front_env *env, struct sl_stream *st)
{
	if (!env->host->room(h->host) || !write_bad_gateway(h, env, st))
		return false;
	st->state = REPLY_DONE;
	return true;
}

int64_t sl_http1_reply(void *state, const struct sl_front_env *env, struct sl_stream *st,
		       const struct sl_reply *r)
{
	struct http1 *h = state;
	int64_t taken = -1;
	bool bad = false;

	if (h->flags & CONN_BEGIN)
		sl_http1_adopt(h, env, st);
	SL_CHECK(st->state == REPLY_NONE);
	/* A client that does not read its replies gets no further ones. */
	if (st == h->head && env->host->room(h->host))
		taken = write_start(h, env, st, r, &bad);
	if (bad) {
		if (env->errors)
			env->errors[SL_FRONT_ERR_BAD_REPLY]++;
		taken = write_bad_gateway(h, env, st) ? 0 : -1;
	}
	if (taken < 0) {
		st->flags |= ST_WAITING;
		return -1;
	}
	taken += (int64_t)write_body(h, env, st, sl_span_skip(r->body, (size_t)taken), r->end);
	settle(h, env, st);
	return taken;
}

size_t sl_http1_more(void *state, const struct sl_front_env *env, struct sl_stream *st,
		     struct sl_span body, bool end)
{
	struct http1 *h = state;
	size_t taken;

	SL_CHECK(st == h->head && st->state != REPLY_NONE && st->state != REPLY_DONE);
	taken = write_body(h, env, st, body, end);
	settle(h, env, st);
	return taken;
}

void sl_http1_abort(void *state, const struct sl_front_env *env, struct sl_stream *st)
{
	struct http1 *h = state;
	bool reset = st->state == REPLY_UNTIL_CLOSE; /* closing in order would look complete */

	if (st->state == REPLY_NONE) {
		st->flags |= ST_ABORTED;
		sl_http1_advance(h, env);
		return;
	}
	/* Done once we are out of the host's upcall; the connection breaks there. */
	st->flags |= ST_ABORTED | ST_CLOSE | ST_RX_OVER;
	st->state = REPLY_DONE;
	st->reply_left = reset;
	h->phase = PHASE_DEAD;
	if (sl_http1_rx(h) == st)
		sl_http1_rx_over(h);
	sl_http1_advance(h, env);
}

void sl_http1_write_error(struct http1 *h, const struct sl_front_env *env)
{
	uint8_t buf[1024];
	static const struct sl_header allow = {
		.name = SL_SPAN_LIT("allow"),
		.value = SL_SPAN_LIT("GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH"),
	};
	struct sl_reply r;
	char text[64];
	size_t n;

	own_reply(&r, h->error, text);
	if (h->error == 405) {
		r.headers = &allow;
		r.header_cnt = 1;
	}
	if (h->error == 503)
		r.retry_after_s = 1;
	n = sl_http1_format(buf, sizeof(buf), &r, r.body_len, env->date, SL_HTTP1_LENGTH,
			    SL_HTTP1_CLOSE);
	if (!(h->flags & CONN_NO_BODY)) {
		memcpy(buf + n, r.body.ptr, r.body.len);
		n += r.body.len;
	}
	/* If even that does not fit, the client learns from the close. */
	(void)env->host->write_head(h->host, buf, n);
}
