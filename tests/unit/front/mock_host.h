/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host for fronts, as the core would be: it logs what the front tells it, answers as the test
 * says, and checks the contract of front.h at every call (mock_broken names the first breach).
 *
 *   mock.log   one line per request: "GET /a?q @host [cl=N] [u=N] [te]", then its body and its end
 *   mock.out   the bytes for the client
 */
#ifndef MOCK_HOST_H
#define MOCK_HOST_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/pool.h"
#include "front/front.h"

#define MOCK_DATE "Sun, 06 Nov 1994 08:49:37 GMT"

enum { MOCK_STREAMS = 64, MOCK_OUT = 4 << 20, MOCK_LOG = 2 << 20 };

enum mock_answer {
	MOCK_AT_END,   /* when the request is whole */
	MOCK_IN_BEGIN, /* refuses the body */
	MOCK_LATER,    /* when the test calls mock_answer() */
	MOCK_IN_BODY,  /* refuses the rest of it */
};

struct mock;
struct mock_stream {
	struct sl_stream st; /* first, as in the core */
	struct mock *m;
	bool live, whole, answered, started;
	size_t sent; /* of the reply's body */
	char *body;
	size_t body_len, body_cap;
	unsigned no;
};

struct mock {
	uint64_t state[SL_FRONT_STATE_SIZE / 8];
	const struct sl_front_ops *ops;
	struct sl_front_env env;
	struct sl_front_limits limits;
	struct sl_umem umem;
	struct sl_pool heads;
	uint64_t rx_ns, take_ns; /* of the last request */
	uint64_t now_ns, errors[SL_FRONT_ERR_CNT];
	struct mock_stream streams[MOCK_STREAMS];
	unsigned begun, done, cancelled, closed, reset, resumed;
	char *log, *out;
	size_t log_len, out_len;
	/* what the test chooses */
	enum mock_answer answer;
	struct sl_reply reply;
	bool echo;     /* the body is the request's */
	bool in_parts; /* reply with the head first, then pieces of part_max bytes */
	size_t part_max;
	unsigned heads_fail; /* that many calls of write_head find no frame */
	size_t room;         /* what the client's window takes; SIZE_MAX no limit */
	size_t body_max;     /* bytes taken per body upcall */
	bool take_frames;
	unsigned exhausted; /* begin fails from this request on; 0 never */
	struct sl_frame *taken;
	int upcall; /* inside begin, body or end */
};

static const char *mock_broken;

static inline void mock_breach(const char *what)
{
	if (!mock_broken)
		mock_broken = what;
#ifdef MOCK_ABORT
	fprintf(stderr, "contract broken: %s\n", what);
	abort();
#endif
}
#define MOCK_MUST(cond) ((cond) ? (void)0 : mock_breach(#cond))

static inline void mock_log(struct mock *m, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
static inline void mock_log(struct mock *m, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (m->log_len < MOCK_LOG)
		m->log_len +=
			(size_t)vsnprintf(m->log + m->log_len, MOCK_LOG - m->log_len, fmt, ap);
	va_end(ap);
	if (m->log_len >= MOCK_LOG)
		m->log_len = MOCK_LOG - 1;
}

static inline void mock_log_bytes(struct mock *m, const void *p, size_t n)
{
	if (n > MOCK_LOG - 1 - m->log_len)
		n = MOCK_LOG - 1 - m->log_len;
	if (n)
		memcpy(m->log + m->log_len, p, n);
	m->log_len += n;
	m->log[m->log_len] = 0;
}

static inline void mock_log_body(struct mock *m, struct mock_stream *s)
{
	mock_log(m, "%u[%zu]", s->no, s->body_len);
	mock_log_bytes(m, s->body, s->body_len);
}

/* Gives the reply, or goes on with it. */
static inline void mock_answer(struct mock_stream *s)
{
	struct mock *m = s->m;
	struct sl_reply r = m->reply;
	struct sl_span body = r.body;

	MOCK_MUST(s->live);
	if (s->answered)
		return;
	if (m->echo)
		body = sl_span_of(s->body, s->body_len);
	if (!s->started) {
		int64_t n;

		if (m->in_parts) {
			r.body = sl_span_of(NULL, 0);
			r.end = false;
		} else {
			r.body = body;
			r.end = true;
		}
		if (r.body_len != SL_LEN_UNKNOWN)
			r.body_len = body.len;
		if (r.end)
			s->answered = true;
		n = m->ops->reply(m->state, &m->env, &s->st, &r);
		if (n < 0) {
			s->answered = false;
			return;
		}
		s->started = true;
		MOCK_MUST((size_t)n <= r.body.len);
		s->sent = (size_t)n;
		if (r.end && s->sent < body.len)
			s->answered = false;
		if (s->answered || !m->in_parts)
			return;
	}
	while (s->live && !s->answered) {
		size_t left = body.len - s->sent;
		size_t want = m->in_parts && left > m->part_max ? m->part_max : left, n;

		s->answered = want == left;
		n = m->ops->more(m->state, &m->env, &s->st,
				 sl_span_of(want ? body.ptr + s->sent : NULL, want), want == left);
		MOCK_MUST(n <= want);
		s->sent += n;
		if (n < want) {
			s->answered = false;
			return;
		}
	}
}

static inline struct sl_stream *mock_begin(void *host, const struct sl_request *rq)
{
	struct mock *m = host;
	struct mock_stream *s = NULL;

	MOCK_MUST(!m->upcall && !m->closed);
	for (unsigned i = 0; i < MOCK_STREAMS && !s; i++) {
		if (!m->streams[i].live)
			s = &m->streams[i];
	}
	if (!s || (m->exhausted && m->begun + 1 >= m->exhausted))
		return NULL;
	memset(&s->st, 0xee, sizeof(s->st));
	s->st.refused = false;
	s->m = m;
	s->live = true;
	s->whole = rq->end;
	s->answered = s->started = false;
	s->sent = 0;
	s->body_len = 0;
	s->no = m->begun++;
	m->rx_ns = rq->rx_ns;
	m->take_ns = rq->take_ns;
	MOCK_MUST(rq->path.len && rq->method_name.len);
	mock_log(m, "%.*s %.*s", (int)rq->method_name.len, rq->method_name.ptr, (int)rq->path.len,
		 rq->path.ptr);
	if (rq->query.len)
		mock_log(m, "?%.*s", (int)rq->query.len, rq->query.ptr);
	mock_log(m, " @%.*s", (int)rq->authority.len, rq->authority.ptr);
	if (rq->content_length != SL_LEN_UNKNOWN)
		mock_log(m, " cl=%llu", (unsigned long long)rq->content_length);
	if (rq->urgency >= 0)
		mock_log(m, " u=%d", rq->urgency);
	if (rq->content_type.len)
		mock_log(m, " ct=%.*s", (int)rq->content_type.len, rq->content_type.ptr);
	for (uint32_t i = 0; i < rq->header_cnt; i++) {
		const struct sl_header *h = &rq->headers[i];

		/* tests use short names for this */
		if (h->name.len == 1 || h->name.len == 2 ||
		    sl_span_starts(h->name, sl_span_str("x-log")))
			mock_log(m, " %.*s:(%.*s)", (int)h->name.len, h->name.ptr,
				 (int)h->value.len, h->value.ptr);
	}
	mock_log(m, rq->end ? " end\n" : "\n");
	m->upcall++;
	if (m->answer == MOCK_IN_BEGIN) {
		s->st.refused = !rq->end;
		mock_answer(s);
	} else if (m->answer == MOCK_AT_END && rq->end) {
		mock_answer(s);
	}
	m->upcall--;
	return &s->st;
}

static inline size_t mock_body(void *host, struct sl_stream *st, struct sl_chunk *chunk)
{
	struct mock *m = host;
	struct mock_stream *s = (struct mock_stream *)st;
	size_t n = chunk->len < m->body_max ? chunk->len : m->body_max;

	MOCK_MUST(s->live && !s->whole && !st->refused && !m->upcall && chunk->len);
	m->upcall++;
	if (s->body_len + n > s->body_cap) {
		s->body_cap = (s->body_len + n) * 2;
		s->body = realloc(s->body, s->body_cap);
	}
	memcpy(s->body + s->body_len, chunk->ptr, n);
	s->body_len += n;
	if (m->take_frames && n == chunk->len && chunk->frame) {
		chunk->frame->next = m->taken;
		m->taken = chunk->frame;
		chunk->frame = NULL;
	}
	if (m->answer == MOCK_IN_BODY && !s->started) {
		st->refused = true;
		mock_answer(s);
	}
	m->upcall--;
	return n;
}

static inline void mock_end(void *host, struct sl_stream *st)
{
	struct mock *m = host;
	struct mock_stream *s = (struct mock_stream *)st;

	MOCK_MUST(s->live && !s->whole && !st->refused && !m->upcall);
	m->upcall++;
	s->whole = true;
	mock_log_body(m, s);
	mock_log(m, " end\n");
	if (m->answer == MOCK_AT_END || m->answer == MOCK_IN_BODY)
		mock_answer(s);
	m->upcall--;
}

static inline void mock_done(void *host, struct sl_stream *st)
{
	struct mock *m = host;
	struct mock_stream *s = (struct mock_stream *)st;

	MOCK_MUST(s->live && !m->upcall);
	s->live = false;
	m->done++;
	memset(st, 0xdd, sizeof(*st));
}

static inline void mock_cancel(void *host, struct sl_stream *st)
{
	struct mock *m = host;
	struct mock_stream *s = (struct mock_stream *)st;

	MOCK_MUST(s->live && !m->upcall);
	if (!s->whole && !st->refused) {
		mock_log_body(m, s);
		mock_log(m, " cancel\n");
	}
	s->live = false;
	m->cancelled++;
	memset(st, 0xdd, sizeof(*st));
}

static inline size_t mock_write(void *host, const void *bytes, size_t len)
{
	struct mock *m = host;

	MOCK_MUST(!m->closed);
	if (len > m->room)
		len = m->room;
	if (len > MOCK_OUT - m->out_len)
		len = MOCK_OUT - m->out_len;
	memcpy(m->out + m->out_len, bytes, len);
	m->out_len += len;
	if (m->room != SIZE_MAX)
		m->room -= len;
	return len;
}

static inline bool mock_write_head(void *host, const void *bytes, size_t len)
{
	struct mock *m = host;

	MOCK_MUST(!m->closed && len && len <= 16384);
	if (m->heads_fail) {
		m->heads_fail--;
		return false;
	}
	if (len > MOCK_OUT - m->out_len)
		return false;
	memcpy(m->out + m->out_len, bytes, len);
	m->out_len += len;
	if (m->room != SIZE_MAX)
		m->room -= len < m->room ? len : m->room;
	return true;
}

static inline size_t mock_room(void *host)
{
	struct mock *m = host;

	return m->room;
}

static inline void mock_close(void *host)
{
	struct mock *m = host;

	MOCK_MUST(!m->closed && m->begun == m->done + m->cancelled);
	m->closed++;
}

static inline void mock_reset(void *host)
{
	struct mock *m = host;

	m->reset++;
	mock_close(host);
}

static inline void mock_resume(void *host, struct sl_stream *st)
{
	struct mock *m = host;

	m->resumed++;
	MOCK_MUST(((struct mock_stream *)st)->live);
	mock_answer((struct mock_stream *)st);
}

static const struct sl_host_ops mock_ops = {
	.begin = mock_begin,
	.body = mock_body,
	.end = mock_end,
	.done = mock_done,
	.cancel = mock_cancel,
	.write = mock_write,
	.write_head = mock_write_head,
	.room = mock_room,
	.close = mock_close,
	.reset = mock_reset,
	.resume = mock_resume,
};

static inline struct mock *mock_new(const struct sl_front_ops *ops)
{
	struct mock *m = calloc(1, sizeof(*m));

	m->log = calloc(1, MOCK_LOG);
	m->out = calloc(1, MOCK_OUT);
	m->ops = ops;
	sl_front_limits_default(&m->limits);
	if (sl_umem_init(&m->umem, 2048, 64))
		abort();
	if (sl_pool_init(&m->heads, m->limits.max_head, 64, 4))
		abort();
	m->env = (struct sl_front_env){
		.umem = &m->umem,
		.heads = &m->heads,
		.limits = &m->limits,
		.host = &mock_ops,
		.now_ns = &m->now_ns,
		.date = MOCK_DATE,
		.errors = m->errors,
	};
	return m;
}

/* A fresh connection with the choices that most tests want. */
static inline void mock_open(struct mock *m)
{
	m->env.draining = false;
	m->begun = m->done = m->cancelled = m->closed = m->reset = m->resumed = 0;
	m->log_len = m->out_len = 0;
	m->log[0] = 0;
	memset(m->errors, 0, sizeof(m->errors));
	m->answer = MOCK_AT_END;
	m->reply = (struct sl_reply){.status = 200, .body = sl_span_str("ok")};
	m->echo = m->in_parts = m->take_frames = false;
	m->room = m->body_max = SIZE_MAX;
	m->exhausted = m->heads_fail = 0;
	m->part_max = 7;
	memset(m->state, 0, sizeof(m->state));
	m->ops->open(m->state, &m->env, m);
}

/* Bytes of the client, offered again as long as some are used. Returns how many were. */
static inline size_t mock_input(struct mock *m, const void *bytes, size_t len)
{
	size_t used = 0, n;

	do {
		struct sl_chunk c = {.ptr = (const uint8_t *)bytes + used, .len = len - used};

		n = used < len ? m->ops->input(m->state, &m->env, &c) : 0;
		MOCK_MUST(n <= len - used);
		used += n;
	} while (n);
	return used;
}

static inline struct mock_stream *mock_find(struct mock *m, unsigned no)
{
	for (unsigned i = 0; i < MOCK_STREAMS; i++) {
		if (m->streams[i].live && m->streams[i].no == no)
			return &m->streams[i];
	}
	return NULL;
}

/* The connection ends; returns NULL, or what leaked or was broken since the start. */
static inline const char *mock_shut(struct mock *m)
{
	const char *broken;
	uint32_t census[SL_FRAME_STATE_CNT];

	m->ops->close(m->state, &m->env);
	while (m->taken) {
		struct sl_frame *f = m->taken;

		m->taken = f->next;
		sl_frame_put(&m->umem, f);
	}
	sl_umem_census(&m->umem, census);
	MOCK_MUST(m->begun == m->done + m->cancelled);
	MOCK_MUST(census[SL_FRAME_FREE] == m->umem.frame_cnt);
	MOCK_MUST(sl_pool_used(&m->heads) == 0);
	for (unsigned i = 0; i < MOCK_STREAMS; i++)
		MOCK_MUST(!m->streams[i].live);
	broken = mock_broken;
	mock_broken = NULL;
	return broken;
}

static inline void mock_free(struct mock *m)
{
	for (unsigned i = 0; i < MOCK_STREAMS; i++)
		free(m->streams[i].body);
	sl_pool_fini(&m->heads);
	sl_umem_fini(&m->umem);
	free(m->log);
	free(m->out);
	free(m);
}

#endif
