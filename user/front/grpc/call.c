/* SPDX-License-Identifier: Apache-2.0 */
#include "front/grpc/call.h"

#include "base/check.h"

enum { BUF_MIN = 512 };

#define HEALTH     "/grpc.health.v1.Health"
#define REFLECTION "/grpc.reflection.v1.ServerReflection"
#define ALPHA      "/grpc.reflection.v1alpha.ServerReflection"

static const struct answered {
	struct sl_span path, service;
	enum sl_call_kind kind;
} all_answered[] = {
	{SL_SPAN_LIT(HEALTH "/Check"), SL_SPAN_LIT(HEALTH), SL_CALL_CHECK},
	{SL_SPAN_LIT(HEALTH "/Watch"), SL_SPAN_LIT(HEALTH), SL_CALL_WATCH},
	{SL_SPAN_LIT(REFLECTION "/ServerReflectionInfo"), SL_SPAN_LIT(REFLECTION), SL_CALL_REFLECT},
	{SL_SPAN_LIT(ALPHA "/ServerReflectionInfo"), SL_SPAN_LIT(ALPHA), SL_CALL_REFLECT},
};

static const struct answered *answered_at(struct sl_span path)
{
	for (size_t i = 0; i < SL_ARRAY_LEN(all_answered); i++) {
		if (sl_span_eq(path, all_answered[i].path))
			return &all_answered[i];
	}
	return NULL;
}

enum sl_call_kind sl_call_kind_of(const struct h2_conn *c, const struct sl_request *rq)
{
	const struct answered *a = answered_at(rq->path);
	const struct sl_front_env *env = c->front;

	if (!a || (a->kind == SL_CALL_REFLECT ? !env->descriptors : !env->serving) ||
	    (env->routed && env->routed(c->conn, rq, a->service)))
		return SL_CALL_NONE;
	return a->kind;
}

static bool is_draining(const struct h2_call *k)
{
	return k->s->conn->front->draining || (k->s->conn->flags & H2_DRAIN);
}

void sl_call_part(struct h2_call *k, struct sl_span bytes)
{
	if (bytes.len)
		k->parts[k->part_cnt++] = bytes;
}

uint8_t *sl_call_small(struct h2_call *k)
{
	return k->small + k->small_len;
}

void sl_call_small_part(struct h2_call *k, const uint8_t *end)
{
	uint8_t *start = sl_call_small(k);

	k->small_len = (uint8_t)(end - k->small);
	sl_call_part(k, sl_span_of(start, (size_t)(end - start)));
}

static void pump_call(struct h2_call *k);

static void send_answer(struct h2_call *k)
{
	k->answering = false;
	k->part = k->part_cnt = 0;
	if (k->kind == SL_CALL_CHECK)
		sl_call_finish(k, SL_GRPC_OK, NULL);
	else if (k->kind == SL_CALL_REFLECT)
		k->head += k->asked;
	pump_call(k);
}

static ssize_t read_answer(nghttp2_session *session, int32_t id, uint8_t *buf, size_t cap,
			   uint32_t *flags, nghttp2_data_source *source, void *arg)
{
	struct h2_stream *s = source->ptr;
	struct h2_call *k = s->call;
	size_t n = 0;

	(void)session;
	(void)id;
	(void)arg;
	while (n < cap && k->answering) {
		struct sl_span *p = &k->parts[k->part];
		size_t len = cap - n < p->len ? cap - n : p->len;

		memcpy(buf + n, p->ptr, len);
		n += len;
		*p = sl_span_skip(*p, len);
		if (!p->len && ++k->part == k->part_cnt)
			send_answer(k);
	}
	if (k->answering || !k->finished)
		return n ? (ssize_t)n : NGHTTP2_ERR_DEFERRED;
	*flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
	if (!sl_h2_call_trailers(s, k->status, k->why))
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	return (ssize_t)n;
}

static void go_on(struct h2_call *k)
{
	struct h2_stream *s = k->s;

	if (s->flags & ST_HEAD_SENT)
		nghttp2_session_resume_data(s->conn->session, s->id);
	else
		sl_h2_call_head(s, read_answer);
}

void sl_call_send(struct h2_call *k)
{
	size_t len = 0;

	for (unsigned i = 1; i < k->part_cnt; i++)
		len += k->parts[i].len;
	sl_grpc_put_prefix(k->small, (uint32_t)(len + k->parts[0].len - SL_GRPC_PREFIX));
	k->answering = true;
	go_on(k);
}

void sl_call_finish(struct h2_call *k, enum sl_grpc_status status, const char *why)
{
	if (k->finished)
		return;
	k->finished = true;
	k->status = (uint8_t)status;
	k->why = why;
	k->s->flags |= ST_DROP;
	if (k->s->flags & ST_HEAD_SENT || !status)
		go_on(k);
	else
		sl_h2_answer(k->s, 200, status, why, (struct sl_span){0});
}

static bool next_request(struct h2_call *k)
{
	uint32_t have = k->tail - k->head, len;
	const uint8_t *p;

	k->asked = 0;
	if (have < SL_GRPC_PREFIX) /* `buf` may be NULL */
		return false;
	p = k->buf + k->head;
	len = sl_get_be32(p + 1);
	if (p[0] == 1)
		sl_call_finish(k, SL_GRPC_UNIMPLEMENTED, "compressed messages are not supported");
	else if (p[0])
		sl_call_finish(k, SL_GRPC_INTERNAL, "reserved bits set in a message's prefix");
	else if (len > SL_CALL_MESSAGE_MAX)
		sl_call_finish(k, SL_GRPC_RESOURCE_EXHAUSTED, "message larger than the limit");
	else if (have >= SL_GRPC_PREFIX + len)
		k->asked = SL_GRPC_PREFIX + len;
	return k->asked;
}

static void begin_answer(struct h2_call *k)
{
	k->small_len = SL_GRPC_PREFIX;
	k->part = k->part_cnt = 0;
}

/* Unary and server streaming: one message, then END_STREAM. */
static void answer_one(struct h2_call *k)
{
	if (!k->whole || k->finished)
		return;
	if (!k->asked && !next_request(k)) {
		bool none = k->tail == k->head;

		sl_call_finish(k, none ? SL_GRPC_UNIMPLEMENTED : SL_GRPC_INTERNAL,
			       none ? "no message in a unary call"
				    : "the stream ended inside a message");
		return;
	}
	if (k->tail - k->head > k->asked) {
		sl_call_finish(k, SL_GRPC_UNIMPLEMENTED, "more than one message in a unary call");
		return;
	}
	begin_answer(k);
	if (k->kind == SL_CALL_CHECK)
		sl_health_check(k);
	else
		sl_health_watch(k);
}

static void answer_next(struct h2_call *k)
{
	if (next_request(k)) {
		begin_answer(k);
		sl_reflect(k);
	} else if (k->whole && k->tail > k->head) {
		sl_call_finish(k, SL_GRPC_INTERNAL, "the stream ended inside a message");
	} else if (k->whole) {
		sl_call_finish(k, SL_GRPC_OK, NULL);
	} else if (is_draining(k)) {
		sl_call_finish(k, SL_GRPC_UNAVAILABLE, "the connection is being closed");
	}
}

static void pump_call(struct h2_call *k)
{
	if (k->answering || k->finished)
		return;
	if (k->kind == SL_CALL_REFLECT)
		answer_next(k);
	else
		answer_one(k);
	if (k->kind == SL_CALL_WATCH && k->whole && !k->answering && is_draining(k))
		sl_call_finish(k, SL_GRPC_UNAVAILABLE, "the connection is being closed");
}

static bool make_room(struct h2_call *k, size_t len)
{
	size_t have = k->tail - k->head, cap = k->cap ? k->cap : BUF_MIN;
	uint8_t *to;

	if (k->cap - k->tail >= len)
		return true;
	if (have + len > SL_CALL_WAITING_MAX)
		return false;
	while (cap < have + len)
		cap *= 2;
	to = sl_h2_alloc(&k->s->conn->budget,
			 cap < SL_CALL_WAITING_MAX ? cap : SL_CALL_WAITING_MAX);
	if (!to)
		return false;
	if (have)
		memcpy(to, k->buf + k->head, have);
	for (unsigned i = k->part; i < k->part_cnt; i++) {
		if (k->parts[i].ptr >= k->buf && k->parts[i].ptr < k->buf + k->cap)
			k->parts[i].ptr = to + (k->parts[i].ptr - (k->buf + k->head));
	}
	sl_h2_free(&k->s->conn->budget, k->buf);
	k->buf = to;
	k->cap = (uint32_t)(cap < SL_CALL_WAITING_MAX ? cap : SL_CALL_WAITING_MAX);
	k->head = 0;
	k->tail = (uint32_t)have;
	return true;
}

void sl_call_input(struct h2_stream *s, struct sl_span bytes)
{
	struct h2_call *k = s->call;

	if (!bytes.len || k->finished)
		return;
	if (k->head == k->tail)
		k->head = k->tail = 0;
	if (!make_room(k, bytes.len)) {
		sl_h2_count(s->conn, SL_FRONT_ERR_GRPC_MESSAGE);
		sl_call_finish(k, SL_GRPC_RESOURCE_EXHAUSTED, "too many requests sent ahead");
		return;
	}
	memcpy(k->buf + k->tail, bytes.ptr, bytes.len);
	k->tail += (uint32_t)bytes.len;
	pump_call(k);
}

void sl_call_end(struct h2_stream *s)
{
	s->call->whole = true;
	if (s->call->kind == SL_CALL_WATCH) {
		sl_list_add_tail(&s->conn->env->watches, &s->call->link);
		s->conn->watches++;
	}
	pump_call(s->call);
}

/*
 * Watches and reflection may last forever: limited in total, per client address, and watches per
 * connection.
 */
static struct h2_call *call_new(struct h2_conn *c, enum sl_call_kind kind)
{
	const struct sl_h2_config *cfg = &c->env->cfg;
	struct h2_call *k;

	if (kind == SL_CALL_CHECK)
		return sl_h2_alloc(&c->budget, sizeof(*k));
	if (c->source->calls >= cfg->max_calls_per_source ||
	    (kind == SL_CALL_WATCH && c->watching >= cfg->max_watches))
		return NULL;
	k = sl_mempool_get(&c->env->calls);
	if (!k)
		return NULL;
	c->source->calls++;
	if (kind == SL_CALL_WATCH)
		c->watching++;
	return k;
}

void sl_call_begin(struct h2_stream *s, enum sl_call_kind kind)
{
	struct h2_call *k = call_new(s->conn, kind);

	if (!k) {
		sl_h2_count(s->conn, SL_FRONT_ERR_NO_EXCHANGE);
		sl_h2_answer(s, 503, SL_GRPC_RESOURCE_EXHAUSTED, "too many calls of this kind",
			     (struct sl_span){0});
		return;
	}
	memset(k, 0, sizeof(*k));
	sl_list_init(&k->link);
	k->s = s;
	k->kind = (uint8_t)kind;
	s->call = k;
	s->flags |= ST_CALL;
	if (kind == SL_CALL_REFLECT)
		go_on(k);
}

void sl_call_drain(struct h2_stream *s)
{
	pump_call(s->call);
}

void sl_call_free(struct h2_stream *s)
{
	struct h2_conn *c = s->conn;
	struct h2_call *k = s->call;

	if (!k)
		return;
	if (!sl_list_empty(&k->link))
		c->watches--;
	sl_list_del(&k->link);
	sl_h2_free(&c->budget, k->buf);
	if (k->kind == SL_CALL_CHECK) {
		sl_h2_free(&c->budget, k);
	} else {
		c->source->calls--;
		if (k->kind == SL_CALL_WATCH)
			c->watching--;
		sl_mempool_put(&c->env->calls, k);
	}
	s->call = NULL;
}

bool sl_call_rests(const struct h2_stream *s)
{
	const struct h2_call *k = s->call;

	if (!k || k->answering || k->finished)
		return false;
	return k->kind == SL_CALL_REFLECT ? k->head == k->tail : k->whole;
}

void sl_h2_env_serving_changed(struct sl_h2_env *e)
{
	struct sl_list now = SL_LIST_INIT(now);
	struct h2_call *k;

	sl_list_splice_tail(&now, &e->watches);
	/* Writing can end a connection and its watches, so `now` changes. */
	while ((k = sl_list_first(&now, struct h2_call, link))) {
		struct h2_conn *c = k->s->conn;

		sl_list_del(&k->link);
		sl_list_add_tail(&e->watches, &k->link);
		if (k->answering)
			continue;
		pump_call(k);
		sl_h2_flush(c);
		sl_h2_settle(c);
	}
}
