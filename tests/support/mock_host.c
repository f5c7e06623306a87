/* SPDX-License-Identifier: Apache-2.0 */
#include "mock_host.h"

#include <stdarg.h>

static const char *mock_broken;

void mock_breach(const char *what)
{
	if (!mock_broken)
		mock_broken = what;
#ifdef MOCK_ABORT
	fprintf(stderr, "contract broken: %s\n", what);
	abort();
#endif
}

static void mock_log(struct mock *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void mock_log(struct mock *m, const char *fmt, ...)
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

static void mock_log_bytes(struct mock *m, const void *p, size_t n)
{
	if (n > MOCK_LOG - 1 - m->log_len)
		n = MOCK_LOG - 1 - m->log_len;
	if (n)
		memcpy(m->log + m->log_len, p, n);
	m->log_len += n;
	m->log[m->log_len] = 0;
}

static void mock_log_body(struct mock *m, struct mock_stream *s)
{
	mock_log(m, "%u[%zu]", s->no, s->body_len);
	mock_log_bytes(m, s->body, s->body_len);
}

void mock_announce(struct mock_stream *s)
{
	struct mock *m = s->m;

	s->announced = m->inside ? ++m->announced : 0;
	if (!s->announced)
		MOCK_CALL(m, m->ops->ready(m->state, &m->env, &s->st));
}

static struct mock_stream *mock_due(struct mock *m)
{
	struct mock_stream *first = NULL;

	for (unsigned i = 0; i < MOCK_STREAMS; i++) {
		struct mock_stream *s = &m->streams[i];

		if (s->live && s->announced && (!first || s->announced < first->announced))
			first = s;
	}
	return first;
}

void mock_burst(struct mock *m)
{
	struct mock_stream *s;

	while ((s = mock_due(m))) {
		mock_announce(s);
		if (s->live && s->answer_due)
			mock_answer(s);
	}
}

void mock_writable(struct mock *m)
{
	MOCK_CALL(m, m->ops->writable(m->state, &m->env));
}

void mock_eof(struct mock *m)
{
	MOCK_CALL(m, m->ops->eof(m->state, &m->env, true));
}

void mock_gone(struct mock *m)
{
	MOCK_CALL(m, m->ops->eof(m->state, &m->env, false));
}

void mock_timeout(struct mock *m)
{
	MOCK_CALL(m, m->ops->timeout(m->state, &m->env));
}

void mock_drain(struct mock *m)
{
	MOCK_CALL(m, m->ops->drain(m->state, &m->env));
}

void mock_keep(struct mock_stream *s, struct sl_span bytes)
{
	if (s->reply_len + bytes.len > s->reply_cap) {
		s->reply_cap = (s->reply_len + bytes.len) * 2;
		s->reply = realloc(s->reply, s->reply_cap);
	}
	if (bytes.len)
		memcpy(s->reply + s->reply_len, bytes.ptr, bytes.len);
	s->reply_len += bytes.len;
}

void mock_message(struct mock_stream *s, uint64_t len)
{
	uint8_t prefix[SL_PREFIX_MAX];

	if (s->st.prefix)
		mock_keep(s, sl_span_of(prefix, s->st.prefix(prefix, len, false)));
}

/* As the core: what the client would go on in is decided now, and a refusal wants no more of it. */
static struct sl_reply mock_decide(struct mock_stream *s, struct sl_reply r)
{
	if (s->st.upgrade && s->m->agrees) {
		r.status = 101;
		r.upgrade = sl_span_str("websocket");
		r.body_len = SL_LEN_UNKNOWN;
	}
	if (s->st.upgrade && r.status != 101)
		s->st.refused |= !s->whole;
	return r;
}

void mock_head(struct mock_stream *s, const struct sl_reply *r)
{
	MOCK_MUST(s->live && !s->answered && !s->has_head);
	s->head = mock_decide(s, *r);
	s->has_head = true;
	mock_announce(s);
}

void mock_bytes(struct mock_stream *s, struct sl_span bytes)
{
	MOCK_MUST(s->live && s->has_head && !s->answered);
	mock_keep(s, bytes);
	mock_announce(s);
}

void mock_continue(struct mock_stream *s)
{
	MOCK_MUST(s->live && s->st.awaits && !s->has_head);
	s->st.awaits = false;
	mock_announce(s);
}

/* Its backend says something before the reply. */
void mock_interim(struct mock_stream *s, unsigned status, const struct sl_header *fields,
		  uint32_t cnt)
{
	const struct sl_reply r = {
		.status = (uint16_t)status, .headers = fields, .header_cnt = cnt};
	struct mock *m = s->m;

	MOCK_MUST(s->live && !s->has_head && m->ops->interim);
	MOCK_CALL(m, m->ops->interim(m->state, &m->env, &s->st, &r));
}

void mock_end(struct mock_stream *s, const struct sl_reply *tail)
{
	MOCK_MUST(s->live && s->has_head && !s->answered);
	s->tail = tail ? *tail : s->head;
	s->answered = s->ended = true;
	mock_announce(s);
}

void mock_break(struct mock_stream *s, enum sl_outcome why)
{
	struct sl_reply_parts own;

	MOCK_MUST(s->live && !s->answered);
	sl_reply_own(why, &own);
	s->answered = true;
	s->tail = own.reply;
	s->broken = s->st.started;
	s->reply_len = s->taken = 0;
	if (!s->broken) {
		s->head = own.reply;
		s->st.refused |= s->st.upgrade && !s->whole;
		s->has_head = s->ended = true;
		mock_keep(s, sl_outcome_text(why));
	}
	mock_announce(s);
}

void mock_answer(struct mock_stream *s)
{
	struct mock *m = s->m;
	struct sl_span body = m->echo ? sl_span_of(s->body, s->body_len) : m->reply_body;
	struct sl_reply r = m->reply;

	MOCK_MUST(s->live);
	if (s->answered || s->has_head)
		return;
	s->answer_due = m->in_parts && m->inside; /* parts are a backend's, which is not as fast */
	if (s->answer_due) {
		s->announced = ++m->announced;
		return;
	}
	if (r.body_len != SL_LEN_UNKNOWN)
		r.body_len =
			body.len +
			(s->st.prefix ? s->st.prefix((uint8_t[SL_PREFIX_MAX]){0}, 0, false) : 0);
	if (m->in_parts) {
		unsigned no = s->no;

		mock_head(s, &r);
		if (s->live && s->no == no) /* the head may have been all that its front wanted */
			mock_message(s, body.len);
		while (s->live && s->no == no && body.len) {
			struct sl_span part = sl_span_first(body, m->part_max);

			mock_bytes(s, part);
			body = sl_span_skip(body, part.len);
		}
		if (s->live && s->no == no)
			mock_end(s, NULL);
		return;
	}
	s->head = s->tail = mock_decide(s, r);
	s->has_head = s->ended = s->answered = true;
	mock_message(s, body.len);
	mock_keep(s, body);
	mock_announce(s);
}

void mock_go_on(struct mock_stream *s, bool end)
{
	if (s->answered || s->answer_due)
		return;
	if (!s->has_head)
		mock_head(s, &s->m->reply);
	else if (end)
		mock_end(s, NULL);
	else
		mock_bytes(s, sl_span_str("some"));
}

static struct sl_stream *mock_begin(void *conn, const struct sl_request *rq)
{
	struct mock *m = conn;
	struct mock_stream *s = NULL;

	MOCK_MUST(!m->upcall && !m->closed);
	for (unsigned i = 0; i < MOCK_STREAMS && !s; i++) {
		if (!m->streams[i].live)
			s = &m->streams[i];
	}
	if (!s || (m->exhausted && m->begun + 1 >= m->exhausted))
		return NULL;
	memset(&s->st, 0, sizeof(s->st));
	s->m = m;
	s->live = true;
	s->whole = rq->end;
	s->announced = 0;
	s->answer_due = s->answered = s->has_head = s->ended = s->broken = s->end_shown = false;
	s->body_len = s->messages_end = s->reply_len = s->taken = s->shown = 0;
	s->no = m->begun++;
	m->rx_ns = rq->rx_ns;
	m->take_ns = rq->take_ns;
	MOCK_MUST((rq->service || (rq->path.len && rq->method_name.len)) && rq->body_max);
	mock_log(m, "%.*s %.*s", (int)rq->method_name.len, rq->method_name.ptr, (int)rq->path.len,
		 rq->path.ptr);
	if (rq->query.len)
		mock_log(m, "?%.*s", (int)rq->query.len, rq->query.ptr);
	mock_log(m, " @%.*s", (int)rq->authority.len, rq->authority.ptr);
	if (rq->content_length != SL_LEN_UNKNOWN)
		mock_log(m, " cl=%llu", (unsigned long long)rq->content_length);
	if (rq->urgency >= 0)
		mock_log(m, " u=%d", rq->urgency);
	if (rq->upgrade.len)
		mock_log(m, " %s=%.*s", rq->must_upgrade ? "must-upgrade" : "upgrade",
			 (int)rq->upgrade.len, rq->upgrade.ptr);
	s->st.open_ended = m->parts;
	s->st.awaits = m->awaits && rq->expect;
	if (m->upgrades && rq->upgrade.len) {
		s->st.upgrade = s->st.open_ended = true;
		s->whole = false;
	}
	if (rq->content_type.len)
		mock_log(m, " ct=%.*s", (int)rq->content_type.len, rq->content_type.ptr);
	for (uint32_t i = 0; i < rq->header_cnt; i++) {
		const struct sl_header *h = &rq->headers[i];

		/* tests use short names for this */
		if (h->name.len == 1 || h->name.len == 2 ||
		    (m->log_all && !sl_span_eq(h->name, sl_span_str("content-type"))) ||
		    sl_span_starts(h->name, sl_span_str("x-log")))
			mock_log(m, " %.*s:(%.*s)", (int)h->name.len, h->name.ptr,
				 (int)h->value.len, h->value.ptr);
	}
	mock_log(m, s->whole ? " end\n" : "\n");
	m->upcall++;
	if (m->answer == MOCK_IN_BEGIN) {
		s->st.refused = !s->whole;
		mock_answer(s);
	} else if (m->answer == MOCK_AT_END && s->whole) {
		mock_answer(s);
	}
	m->upcall--;
	return &s->st;
}

static size_t mock_body(void *conn, struct sl_stream *st, struct sl_chunk *chunk)
{
	struct mock *m = conn;
	struct mock_stream *s = (struct mock_stream *)st;
	size_t n = chunk->len < m->body_max ? chunk->len : m->body_max;

	MOCK_MUST(s->live && !s->whole && !st->refused && !m->upcall && chunk->len);
	m->upcall++;
	if (s->body_len + n > s->body_cap) {
		s->body_cap = (s->body_len + n) * 2;
		s->body = realloc(s->body, s->body_cap);
	}
	if (n)
		memcpy(s->body + s->body_len, chunk->ptr, n);
	s->body_len += n;
	if (st->windowed)
		st->passed += (uint32_t)n;
	if (m->take_frames && n == chunk->len && chunk->frame) {
		/* Its owner may write over all of it. */
		memset(chunk->frame->data, 0xff,
		       (size_t)(chunk->ptr + chunk->len - chunk->frame->data));
		chunk->frame->next = m->taken;
		m->taken = chunk->frame;
		chunk->frame = NULL;
	}
	if (m->answer == MOCK_IN_BODY && !s->answered) {
		st->refused = true;
		mock_answer(s);
	}
	m->upcall--;
	return n;
}

static bool mock_body_message(void *conn, struct sl_stream *st, uint32_t len, bool compressed)
{
	struct mock *m = conn;
	struct mock_stream *s = (struct mock_stream *)st;

	MOCK_MUST(s->live && !s->whole && !st->refused && st->open_ended && !m->upcall);
	MOCK_MUST(s->body_len == s->messages_end); /* the one before is over */
	s->messages_end += len;
	s->compressed += compressed;
	return true;
}

static void mock_request_trailers(void *conn, struct sl_stream *st, const struct sl_header *fields,
				  uint32_t cnt)
{
	struct mock *m = conn;
	struct mock_stream *s = (struct mock_stream *)st;

	MOCK_MUST(s->live && !s->whole && !st->refused && st->open_ended && !m->upcall);
	for (uint32_t i = 0; i < cnt; i++)
		mock_log(m, "%u %.*s:(%.*s)\n", s->no, (int)fields[i].name.len, fields[i].name.ptr,
			 (int)fields[i].value.len, fields[i].value.ptr);
}

static void mock_request_end(void *conn, struct sl_stream *st)
{
	struct mock *m = conn;
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

static bool mock_pull_head(void *conn, struct sl_stream *st, struct sl_reply_parts *out)
{
	struct mock *m = conn;
	struct mock_stream *s = (struct mock_stream *)st;

	MOCK_MUST(s->live && m->inside && !m->upcall && !st->started);
	m->heads_asked++;
	out->reply = s->head;
	out->reply.whole = s->ended;
	return s->has_head;
}

static struct sl_piece mock_peek(void *conn, struct sl_stream *st)
{
	struct mock *m = conn;
	struct mock_stream *s = (struct mock_stream *)st;
	size_t left = s->reply_len - s->taken;
	struct sl_piece p = {.behind = SL_MORE};

	MOCK_MUST(s->live && m->inside && !m->upcall && s->has_head);
	m->peeks++;
	s->shown = 0;
	if (s->broken) {
		p.behind = SL_BROKEN;
		return p;
	}
	s->shown = left < m->peek_max ? left : m->peek_max;
	s->end_shown = s->ended && s->shown == left;
	if (s->shown)
		p.bytes = sl_span_of(s->reply + s->taken, s->shown);
	if (s->end_shown)
		p.behind = SL_END;
	return p;
}

static void mock_take(void *conn, struct sl_stream *st, size_t n)
{
	struct mock *m = conn;
	struct mock_stream *s = (struct mock_stream *)st;

	MOCK_MUST(s->live && m->inside && !m->upcall && st->started && n && n <= s->shown);
	memset(s->reply + s->taken, 0xdd, n); /* as memory that is lent or given back */
	s->taken += n;
	s->shown -= n;
}

static bool mock_whole(void *conn, const struct sl_stream *st)
{
	(void)conn;
	return ((const struct mock_stream *)st)->ended;
}

static bool mock_trailers(void *conn, struct sl_stream *st, struct sl_reply_parts *out)
{
	struct mock *m = conn;
	struct mock_stream *s = (struct mock_stream *)st;

	MOCK_MUST(s->live && m->inside && !m->upcall && st->started && st->trailers);
	MOCK_MUST(s->broken || (s->end_shown && s->taken == s->reply_len));
	out->reply = s->tail;
	return !s->broken;
}

/* Nothing that the client was to get may be left, unless it has no place for a body. */
static void mock_done(void *conn, struct sl_stream *st)
{
	struct mock *m = conn;
	struct mock_stream *s = (struct mock_stream *)st;

	MOCK_MUST(s->live && m->inside && !m->upcall && st->started);
	s->live = false;
	m->done++;
	memset(st, 0xdd, sizeof(*st));
}

static void mock_cancel(void *conn, struct sl_stream *st)
{
	struct mock *m = conn;
	struct mock_stream *s = (struct mock_stream *)st;

	MOCK_MUST(s->live && m->inside && !m->upcall);
	if (!s->whole && !st->refused) {
		mock_log_body(m, s);
		mock_log(m, " cancel\n");
	}
	s->live = false;
	m->cancelled++;
	memset(st, 0xdd, sizeof(*st));
}

static size_t mock_write(void *conn, const void *bytes, size_t len)
{
	struct mock *m = conn;

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

static bool mock_write_head(void *conn, const void *bytes, size_t len)
{
	struct mock *m = conn;

	MOCK_MUST(!m->closed && len && len <= SL_FRONT_HEAD_OUT);
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

static size_t mock_room(void *conn)
{
	struct mock *m = conn;

	return m->room;
}

static void mock_later(void *conn)
{
	struct mock *m = conn;

	MOCK_MUST(m->inside && !m->closed);
	m->later++;
}

static bool mock_hold(void *conn, int32_t frames)
{
	struct mock *m = conn;

	m->held += (uint32_t)frames;
	return true;
}

static void mock_close(void *conn, bool at_once)
{
	struct mock *m = conn;

	MOCK_MUST(!m->closed && m->begun == m->done + m->cancelled);
	m->closed++;
	m->reset += at_once;
}

static const struct sl_front_cb mock_ops = {
	.begin = mock_begin,
	.body = mock_body,
	.message = mock_body_message,
	.request_trailers = mock_request_trailers,
	.end = mock_request_end,
	.head = mock_pull_head,
	.peek = mock_peek,
	.take = mock_take,
	.whole = mock_whole,
	.trailers = mock_trailers,
	.done = mock_done,
	.cancel = mock_cancel,
	.write = mock_write,
	.write_head = mock_write_head,
	.room = mock_room,
	.later = mock_later,
	.hold = mock_hold,
	.close = mock_close,
};

struct mock *mock_new(const struct sl_front_ops *ops)
{
	struct mock *m = calloc(1, sizeof(*m));

	m->log = calloc(1, MOCK_LOG);
	m->out = calloc(1, MOCK_OUT);
	m->ops = ops;
	sl_front_limits_default(&m->limits);
	if (sl_umem_init(&m->umem, 2048, 64))
		abort();
	if (sl_mempool_init(&m->heads, m->limits.max_head, 64, 4))
		abort();
	m->env = (struct sl_front_env){
		.umem = &m->umem,
		.heads = &m->heads,
		.limits = &m->limits,
		.cb = &mock_ops,
		.now_ns = &m->now_ns,
		.date = MOCK_DATE,
		.errors = m->errors,
	};
	return m;
}

void mock_open(struct mock *m)
{
	m->env.draining = false;
	m->begun = m->done = m->cancelled = m->closed = m->reset = 0;
	m->log_len = m->out_len = 0;
	m->log[0] = 0;
	memset(m->errors, 0, sizeof(m->errors));
	m->answer = MOCK_AT_END;
	m->reply = (struct sl_reply){.status = 200};
	m->reply_body = sl_span_str("ok");
	m->log_all = m->echo = m->in_parts = m->take_frames = m->parts = m->awaits = false;
	m->room = m->body_max = m->peek_max = SIZE_MAX;
	m->exhausted = m->heads_fail = m->later = 0;
	m->part_max = 7;
	memset(m->state, 0, sizeof(m->state));
	MOCK_CALL(m, m->ops->open(m->state, &m->env, m, m->source));
}

size_t mock_chunk(struct mock *m, struct sl_chunk *c)
{
	size_t n;

	MOCK_CALL(m, n = m->ops->input(m->state, &m->env, c));
	mock_burst(m);
	return n;
}

size_t mock_input(struct mock *m, const void *bytes, size_t len)
{
	size_t used = 0, n;

	do {
		struct sl_chunk c = {.ptr = (const uint8_t *)bytes + used, .len = len - used};

		n = used < len ? mock_chunk(m, &c) : 0;
		MOCK_MUST(n <= len - used);
		used += n;
	} while (n);
	return used;
}

struct mock_stream *mock_find(struct mock *m, unsigned no)
{
	for (unsigned i = 0; i < MOCK_STREAMS; i++) {
		if (m->streams[i].live && m->streams[i].no == no)
			return &m->streams[i];
	}
	return NULL;
}

const char *mock_shut(struct mock *m)
{
	const char *broken;
	uint32_t census[SL_FRAME_STATE_CNT];

	MOCK_CALL(m, m->ops->close(m->state, &m->env));
	while (m->taken) {
		struct sl_frame *f = m->taken;

		m->taken = f->next;
		sl_frame_put(&m->umem, f);
	}
	sl_umem_census(&m->umem, census);
	MOCK_MUST(m->begun == m->done + m->cancelled);
	MOCK_MUST(census[SL_FRAME_FREE] == m->umem.frame_cnt);
	MOCK_MUST(sl_mempool_used(&m->heads) == 0);
	MOCK_MUST(m->held == 0);
	for (unsigned i = 0; i < MOCK_STREAMS; i++)
		MOCK_MUST(!m->streams[i].live);
	broken = mock_broken;
	mock_broken = NULL;
	return broken;
}

void mock_free(struct mock *m)
{
	for (unsigned i = 0; i < MOCK_STREAMS; i++) {
		free(m->streams[i].body);
		free(m->streams[i].reply);
	}
	sl_mempool_fini(&m->heads);
	sl_umem_fini(&m->umem);
	free(m->log);
	free(m->out);
	free(m);
}
