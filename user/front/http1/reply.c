/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include "base/num.h"
#include "front/http1/conn.h"
#include "http/status.h"

enum {
	INLINE_BODY = 4096,     /* a copy costs less than a second write */
	DISCARD_MAX = 64 << 10, /* unneeded body that is read instead of closing */
	CHUNK_OVERHEAD = 32,
};

static const struct sl_span last_chunk = SL_SPAN_LIT("0\r\n\r\n");

static struct sl_span own_reply(struct sl_reply *r, unsigned status, char text[64])
{
	int n = snprintf(text, 64, "%u %s\n", status, sl_status_text(status));

	*r = (struct sl_reply){
		.status = (uint16_t)status,
		.gateway = true,
		.content_type = sl_span_str("text/plain"),
		.body_len = (uint64_t)n,
	};
	return sl_span_of(text, (size_t)n);
}

static enum sl_http1_framing choose_framing(const struct sl_stream *st, const struct sl_reply *r,
					    uint64_t len)
{
	if (st->method == SL_METHOD_HEAD || r->status == 204 || r->status == 304)
		return SL_HTTP1_NO_BODY;
	if (r->upgrade.len)
		return SL_HTTP1_UNTIL_CLOSE;
	if (st->trailers && r->trailer_cnt)
		return SL_HTTP1_CHUNKS;
	if (len != SL_LEN_UNKNOWN)
		return SL_HTTP1_LENGTH;
	return st->version_minor ? SL_HTTP1_CHUNKS : SL_HTTP1_UNTIL_CLOSE;
}

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

static enum sl_http1_connection connection_of(const struct sl_stream *st, const struct sl_reply *r)
{
	if (r->upgrade.len)
		return SL_HTTP1_UPGRADE;
	if (st->flags & ST_CLOSE)
		return SL_HTTP1_CLOSE;
	return st->version_minor ? SL_HTTP1_PERSIST : SL_HTTP1_KEEP_ALIVE;
}

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

static void break_off(struct http1 *h, struct sl_stream *st)
{
	st->flags |= ST_CLOSE | ST_RX_OVER;
	if (st->state == REPLY_UNTIL_CLOSE) /* an orderly close would end the reply */
		st->flags |= ST_RESET;
	st->state = REPLY_DONE;
	h->phase = PHASE_DEAD;
	if (sl_http1_rx(h) == st)
		sl_http1_rx_over(h);
}

static __attribute__((noinline)) void write_end(struct http1 *h, const struct sl_front_env *env,
						struct sl_stream *st)
{
	SL_UNINIT uint8_t buf[SL_FRONT_HEAD_OUT];
	SL_UNINIT struct sl_reply_parts parts;
	size_t n = 0;

	if (env->cb->trailers(h->conn, st, &parts))
		n = sl_http1_format_end(buf, sizeof(buf), &parts.reply);
	if (!n && env->errors)
		env->errors[SL_FRONT_ERR_BAD_REPLY]++;
	if (!n)
		break_off(h, st);
	else if (env->cb->write_head(h->conn, buf, n))
		st->state = REPLY_DONE;
}

/* Each chunk is written completely or not at all, the last data with the last chunk. */
static size_t write_chunks(struct http1 *h, const struct sl_front_env *env, struct sl_stream *st,
			   struct sl_piece piece)
{
	SL_UNINIT uint8_t buf[SL_HTTP1_PART_OUT];
	size_t taken = 0, room;

	do {
		struct sl_span part = sl_span_first(sl_span_skip(piece.bytes, taken),
						    sizeof(buf) - CHUNK_OVERHEAD);
		bool last;

		room = env->cb->room(h->conn);
		if (part.len && room <= CHUNK_OVERHEAD)
			break;
		part = sl_span_first(part, part.len ? room - CHUNK_OVERHEAD : 0);
		last = piece.behind == SL_END && taken + part.len == piece.bytes.len;
		last &= !st->trailers;
		if (!env->cb->write_head(h->conn, buf, put_chunk(buf, part, last)))
			break;
		taken += part.len;
		if (last)
			st->state = REPLY_DONE;
	} while (taken < piece.bytes.len);
	return taken;
}

static size_t write_body(struct http1 *h, const struct sl_front_env *env, struct sl_stream *st,
			 struct sl_piece piece)
{
	size_t len = piece.bytes.len, taken = len, within;

	switch (st->state) {
	case REPLY_CHUNKS:
		if (len || !st->trailers)
			return write_chunks(h, env, st, piece);
		write_end(h, env, st);
		return 0;
	case REPLY_LENGTH:
		/* Excess bytes would be parsed as the next reply. */
		within = st->reply_left < len ? (size_t)st->reply_left : len;
		taken = within ? env->cb->write(h->conn, piece.bytes.ptr, within) : 0;
		st->reply_left -= taken;
		if (taken == within)
			taken = len;
		break;
	case REPLY_UNTIL_CLOSE:
		if (len)
			taken = env->cb->write(h->conn, piece.bytes.ptr, len);
		break;
	default: break;
	}
	if (taken == len && piece.behind == SL_END && !st->reply_left)
		st->state = REPLY_DONE;
	return taken;
}

static bool write_piece(struct http1 *h, const struct sl_front_env *env, struct sl_stream *st)
{
	struct sl_piece piece = env->cb->peek(h->conn, st);
	size_t taken;

	if (piece.behind == SL_BROKEN) {
		break_off(h, st);
		return false;
	}
	if (!piece.bytes.len && piece.behind == SL_MORE)
		return false;
	taken = write_body(h, env, st, piece);
	if (taken)
		env->cb->take(h->conn, st, taken);
	if (taken < piece.bytes.len)
		return false;
	/* Trailers come after all bytes were taken. */
	if (piece.behind == SL_MORE || (taken && st->state == REPLY_CHUNKS))
		return true;
	if (st->reply_left)
		break_off(h, st);
	return false;
}

enum start { STARTED, NO_ROOM, BAD };

static enum start write_head_by(struct http1 *h, const struct sl_front_env *env,
				struct sl_stream *st, const struct sl_reply *r,
				struct sl_piece piece, size_t *taken, uint8_t *buf, size_t cap)
{
	static const uint8_t states[] = {
		[SL_HTTP1_NO_BODY] = REPLY_SWALLOW,
		[SL_HTTP1_LENGTH] = REPLY_LENGTH,
		[SL_HTTP1_CHUNKS] = REPLY_CHUNKS,
		[SL_HTTP1_UNTIL_CLOSE] = REPLY_UNTIL_CLOSE,
	};
	bool whole = r->body_len == SL_LEN_UNKNOWN && piece.behind == SL_END && !r->upgrade.len &&
		     st->method != SL_METHOD_HEAD;
	uint64_t len = whole ? piece.bytes.len : r->body_len;
	enum sl_http1_framing framing = choose_framing(st, r, len);
	size_t n;

	*taken = 0;
	decide_close(h, env, st, framing);
	n = sl_http1_format(buf, cap, r, len, env->date, framing, connection_of(st, r));
	if (!n)
		return BAD;
	if (framing == SL_HTTP1_LENGTH && piece.bytes.len <= INLINE_BODY &&
	    piece.bytes.len <= cap - n && piece.bytes.len <= len) {
		*taken = piece.bytes.len;
		if (*taken)
			memcpy(buf + n, piece.bytes.ptr, *taken);
	}
	if (!env->cb->write_head(h->conn, buf, n + *taken))
		return NO_ROOM;
	st->state = states[framing];
	st->reply_left = framing == SL_HTTP1_LENGTH ? len - *taken : 0;
	if (st->state == REPLY_LENGTH && !st->reply_left && piece.behind == SL_END &&
	    *taken == piece.bytes.len)
		st->state = REPLY_DONE;
	return STARTED;
}

static __attribute__((noinline)) enum start
write_large_head(struct http1 *h, const struct sl_front_env *env, struct sl_stream *st,
		 const struct sl_reply *r, struct sl_piece piece, size_t *taken)
{
	SL_UNINIT uint8_t buf[SL_FRONT_HEAD_OUT];

	return write_head_by(h, env, st, r, piece, taken, buf, sizeof(buf));
}

static enum start write_head(struct http1 *h, const struct sl_front_env *env, struct sl_stream *st,
			     const struct sl_reply *r, struct sl_piece piece, size_t *taken)
{
	SL_UNINIT uint8_t buf[SL_HTTP1_PART_OUT];
	enum start start = write_head_by(h, env, st, r, piece, taken, buf, sizeof(buf));

	return start == BAD ? write_large_head(h, env, st, r, piece, taken) : start;
}

static bool start_reply(struct http1 *h, const struct sl_front_env *env, struct sl_stream *st)
{
	SL_UNINIT struct sl_reply_parts parts;
	SL_UNINIT struct sl_reply own;
	SL_UNINIT struct sl_piece piece;
	SL_UNINIT char text[64];
	SL_UNINIT size_t taken;
	enum start start;

	if (!env->cb->head(h->conn, st, &parts) || !env->cb->room(h->conn))
		return false;
	piece = env->cb->peek(h->conn, st);
	start = write_head(h, env, st, &parts.reply, piece, &taken);
	if (start == BAD) {
		/* An invalid reply becomes 502 without its body. */
		if (env->errors)
			env->errors[SL_FRONT_ERR_BAD_REPLY]++;
		piece.bytes = own_reply(&own, 502, text);
		piece.behind = SL_END;
		start = write_head(h, env, st, &own, piece, &taken);
		if (start != STARTED)
			return false;
		taken = 0;
		st->state = REPLY_SWALLOW;
		st->reply_left = 0;
	}
	if (start != STARTED)
		return false;
	st->started = true;
	if (taken)
		env->cb->take(h->conn, st, taken);
	sl_http1_stop_input(h, st);
	return true;
}

void sl_http1_pull(struct http1 *h, const struct sl_front_env *env, struct sl_stream *st)
{
	if (st->state == REPLY_NONE && !start_reply(h, env, st))
		return;
	while (st->state != REPLY_DONE && write_piece(h, env, st))
		;
}

void sl_http1_write_error(struct http1 *h, const struct sl_front_env *env)
{
	struct sl_header id = {.name = sl_span_str("x-request-id")};
	uint8_t buf[1024];
	struct sl_span body;
	struct sl_reply r;
	char text[64];
	size_t n;

	body = own_reply(&r, h->error, text);
	if (h->error == 405) /* CONNECT and TRACE */
		r.allow = SL_METHODS_SERVED;
	if (h->error == 503)
		r.retry_after_s = 1;
	if (h->part_len) {
		id.value = sl_span_of(h->part.frame->data, h->part_len);
		r.headers = &id;
		r.header_cnt = 1;
	}
	n = sl_http1_format(buf, sizeof(buf), &r, r.body_len, env->date, SL_HTTP1_LENGTH,
			    SL_HTTP1_CLOSE);
	if (!(h->flags & CONN_NO_BODY)) {
		memcpy(buf + n, body.ptr, body.len);
		n += body.len;
	}
	(void)env->cb->write_head(h->conn, buf, n);
	sl_http1_drop_part(h, env);
}
