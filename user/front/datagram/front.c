/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/mempool.h"
#include "front/datagram/datagram.h"

enum {
	SLOTS = 16384,
	REPLY_KEPT = 1472, /* fits an MTU of 1500; longer replies are not cached */
	TTL_S = 10,
	PAYLOAD_MAX = 4096, /* more than a frame can hold */
};

struct datagram_request {
	struct sl_list link;
	struct sl_stream *st;
	struct sl_datagram rq; /* views no longer valid */
	uint32_t slot;
	uint8_t way[SL_DATAGRAM_WAY_SIZE];
};

struct sl_datagrams {
	const struct sl_datagram_cb *ops;
	void *conn;
	struct sl_list open;
	struct sl_mempool requests;
	struct sl_datagram_cache cache;
	uint8_t payload[PAYLOAD_MAX];
};

static struct sl_datagrams *datagrams_of(void *state)
{
	return *(struct sl_datagrams **)state;
}

enum sl_datagram_status sl_datagram_status_of(enum sl_outcome why)
{
	static const uint8_t statuses[SL_OUTCOME_CNT] = {
#define X(name, metric, http, grpc, datagram, retry_after_s, text)                                 \
	[SL_OUTCOME_##name] = SL_DATAGRAM_##datagram,
		SL_OUTCOMES(X)
#undef X
	};

	return (enum sl_datagram_status)statuses[why];
}

struct datagram_answer {
	enum sl_datagram_status status;
	uint16_t code;
	uint32_t service_us;
};

static void send_answer(struct sl_datagrams *d, const struct sl_front_env *env,
			const struct sl_datagram *rq, const void *way, struct datagram_answer a,
			struct sl_span payload, const uint32_t *slot)
{
	const enum sl_datagram_status was = a.status;
	const bool amplifies = SL_DATAGRAM_HEAD + payload.len > rq->reply_max;
	uint8_t head[SL_DATAGRAM_HEAD];

	sl_datagram_format(rq, &a.status, a.code, a.service_us, d->ops->room(d->conn, way),
			   &payload, head);
	if (a.status != was)
		d->ops->drop(d->conn, amplifies ? SL_DROP_DGRAM_AMPLIFY : SL_DROP_DGRAM_TOO_LARGE);
	/* A request that was not executed may be retried. */
	if (slot && (a.status == SL_DATAGRAM_OVERLOADED || a.status == SL_DATAGRAM_NO_SERVICE))
		sl_datagram_forget(&d->cache, *slot);
	else if (slot)
		sl_datagram_answered(&d->cache, *slot, head, payload, *env->now_ns);
	d->ops->send(d->conn, way, sl_span_of(head, sizeof(head)), payload);
}

static void refuse_request(struct sl_datagrams *d, const struct sl_front_env *env,
			   const struct sl_datagram *rq, const void *way,
			   enum sl_datagram_status status, const uint32_t *slot)
{
	send_answer(d, env, rq, way, (struct datagram_answer){.status = status},
		    sl_span_of(NULL, 0), slot);
}

static void withhold_reply(struct sl_datagrams *d, const struct sl_front_env *env,
			   const struct sl_datagram *rq, const void *way, enum sl_drop why)
{
	d->ops->drop(d->conn, why);
	refuse_request(d, env, rq, way, SL_DATAGRAM_REPLY_TOO_LARGE, NULL);
}

static struct sl_span gather_reply(struct sl_datagrams *d, const struct sl_front_env *env,
				   struct sl_stream *st)
{
	struct sl_piece piece = env->cb->peek(d->conn, st);
	size_t len = 0;

	if (piece.behind == SL_END)
		return piece.bytes;
	while (piece.bytes.len && piece.bytes.len <= PAYLOAD_MAX - len) {
		memcpy(d->payload + len, piece.bytes.ptr, piece.bytes.len);
		len += piece.bytes.len;
		env->cb->take(d->conn, st, piece.bytes.len);
		piece = env->cb->peek(d->conn, st);
	}
	return sl_span_of(d->payload, len);
}

static void reply_ready(void *state, const struct sl_front_env *env, struct sl_stream *st)
{
	struct sl_datagrams *d = datagrams_of(state);
	struct sl_span payload = sl_span_of(NULL, 0);
	struct datagram_request *q = st->own;
	SL_UNINIT struct sl_reply_parts parts;
	const struct sl_reply *r = &parts.reply;
	struct datagram_answer a = {.status = SL_DATAGRAM_OK};
	bool fits;

	if (!env->cb->head(d->conn, st, &parts))
		return;
	fits = r->body_len <= PAYLOAD_MAX;
	if (fits && !r->whole)
		return;
	st->started = true;
	a.code = r->status;
	a.service_us = r->service_us;
	if (r->gateway) {
		a.status = sl_datagram_status_of((enum sl_outcome)r->outcome);
	} else if (!fits) {
		a.status = SL_DATAGRAM_REPLY_TOO_LARGE;
		d->ops->drop(d->conn, SL_DROP_DGRAM_TOO_LARGE);
	}
	if (a.status == SL_DATAGRAM_OK)
		payload = gather_reply(d, env, st);
	send_answer(d, env, &q->rq, q->way, a, payload, &q->slot);
	if (payload.len && payload.ptr != d->payload) /* sent in place */
		env->cb->take(d->conn, st, payload.len);
	sl_list_del(&q->link);
	sl_mempool_put(&d->requests, q);
	env->cb->done(d->conn, st);
}

static void start_request(struct sl_datagrams *d, const struct sl_front_env *env,
			  const struct sl_datagram *rq, const void *way, size_t way_len,
			  const struct sl_chunk *chunk, uint32_t slot)
{
	struct sl_chunk body = {.ptr = rq->payload.ptr, .len = rq->payload.len};
	struct sl_request head = {
		.proto = SL_PROTO_DATAGRAM,
		.method = SL_METHOD_POST,
		.urgency = -1,
		.end = rq->payload.len == 0,
		.unproven = true,
		.service = rq->service,
		.call = rq->method,
		.content_length = rq->payload.len,
		.body_max = env->limits->max_body,
		.timeout_ns = (uint64_t)rq->deadline_us * SL_NS_PER_US,
		.rx_ns = chunk->rx_ns,
		.take_ns = chunk->take_ns,
	};
	struct datagram_request *q = sl_mempool_get(&d->requests);
	struct sl_stream *st = q ? env->cb->begin(d->conn, &head) : NULL;

	if (!st) {
		if (q)
			sl_mempool_put(&d->requests, q);
		refuse_request(d, env, rq, way, SL_DATAGRAM_OVERLOADED, &slot);
		return;
	}
	*q = (struct datagram_request){.st = st, .rq = *rq, .slot = slot};
	memcpy(q->way, way, way_len);
	sl_list_add_tail(&d->open, &q->link);
	st->own = q;
	if (!body.len)
		return;
	if (!st->refused)
		env->cb->body(d->conn, st, &body);
	if (!st->refused)
		env->cb->end(d->conn, st);
}

void sl_datagram_input(void *state, const struct sl_front_env *env,
		       const struct sl_datagram_source *src, const void *way, size_t way_len,
		       struct sl_chunk *chunk)
{
	struct sl_datagrams *d = datagrams_of(state);
	struct sl_datagram rq;
	struct sl_span kept;
	uint32_t slot;

	SL_CHECK(way_len <= SL_DATAGRAM_WAY_SIZE);
	switch (sl_datagram_parse(sl_span_of(chunk->ptr, chunk->len), &rq)) {
	case SL_DATAGRAM_IS_MALFORMED: d->ops->drop(d->conn, SL_DROP_DGRAM_MALFORMED); return;
	case SL_DATAGRAM_IS_OTHER_VERSION:
		refuse_request(d, env, &rq, way, SL_DATAGRAM_VERSION, NULL);
		return;
	case SL_DATAGRAM_IS_REQUEST: break;
	}
	switch (sl_datagram_seen(&d->cache, src, rq.id, rq.reply_max, *env->now_ns, &slot, &kept)) {
	case SL_DATAGRAM_NEW: start_request(d, env, &rq, way, way_len, chunk, slot); return;
	case SL_DATAGRAM_PENDING: d->ops->drop(d->conn, SL_DROP_DGRAM_DUPLICATE); return;
	case SL_DATAGRAM_ANSWERED:
		/* The path MTU may have shrunk. */
		if (kept.len > d->ops->room(d->conn, way))
			withhold_reply(d, env, &rq, way, SL_DROP_DGRAM_TOO_LARGE);
		else
			d->ops->send(d->conn, way, kept, sl_span_of(NULL, 0));
		return;
	case SL_DATAGRAM_AMPLIFY:
		/* The client may have shortened it for its path MTU. */
		withhold_reply(d, env, &rq, way, SL_DROP_DGRAM_AMPLIFY);
		return;
	case SL_DATAGRAM_FULL:
		refuse_request(d, env, &rq, way, SL_DATAGRAM_OVERLOADED, NULL);
		return;
	}
}

struct sl_datagrams *sl_datagrams_create(const struct sl_datagram_cb *ops, uint32_t requests,
					 const uint8_t key[16])
{
	struct sl_datagrams *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->ops = ops;
	sl_list_init(&d->open);
	if (sl_mempool_init(&d->requests, sizeof(struct datagram_request), 8,
			    requests < SLOTS ? requests : SLOTS) ||
	    sl_datagram_cache_init(&d->cache, SLOTS, REPLY_KEPT, TTL_S * SL_NS_PER_SEC, key)) {
		sl_datagrams_destroy(d);
		return NULL;
	}
	return d;
}

void sl_datagrams_destroy(struct sl_datagrams *d)
{
	if (!d)
		return;
	sl_datagram_cache_fini(&d->cache);
	sl_mempool_fini(&d->requests);
	free(d);
}

static void open_front(void *state, const struct sl_front_env *env, void *conn, uint32_t source)
{
	struct sl_datagrams *d = env->datagram;

	(void)source;
	d->conn = conn;
	*(struct sl_datagrams **)state = d;
}

static void close_front(void *state, const struct sl_front_env *env)
{
	struct sl_datagrams *d = datagrams_of(state);
	struct datagram_request *q;

	while ((q = sl_list_first(&d->open, struct datagram_request, link))) {
		sl_list_del(&q->link);
		sl_datagram_forget(&d->cache, q->slot);
		env->cb->cancel(d->conn, q->st);
		sl_mempool_put(&d->requests, q);
	}
}

const struct sl_front_ops sl_front_datagram = {
	.name = "datagram",
	.open = open_front,
	.ready = reply_ready,
	.close = close_front,
};
