/* SPDX-License-Identifier: Apache-2.0 */
#include "core/exchange.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/rand.h"
#include "front/datagram.h"

enum {
	DGRAM_SLOTS = 16384,
	DGRAM_REPLY_KEPT = 1472, /* what an MTU of 1500 takes; longer ones are computed again */
	DGRAM_TTL_S = 10,
	DGRAM_PAYLOAD_MAX = 4096, /* more than a frame, and so a datagram, can hold */
};

/* What the gateway says itself, per outcome. */
static const uint8_t own_status[SL_OUTCOME_CNT] = {
	[SL_OUTCOME_OK] = SL_DATAGRAM_INTERNAL,
	[SL_OUTCOME_FIXED] = SL_DATAGRAM_OK,
	[SL_OUTCOME_NO_ROUTE] = SL_DATAGRAM_NO_SERVICE,
	[SL_OUTCOME_METHOD] = SL_DATAGRAM_NO_SERVICE,
	[SL_OUTCOME_TOO_LARGE] = SL_DATAGRAM_TOO_LARGE,
	[SL_OUTCOME_SHED] = SL_DATAGRAM_OVERLOADED,
	[SL_OUTCOME_QUEUE_FULL] = SL_DATAGRAM_OVERLOADED,
	[SL_OUTCOME_FAIR_SHARE] = SL_DATAGRAM_OVERLOADED,
	[SL_OUTCOME_NO_BACKEND] = SL_DATAGRAM_UNAVAILABLE,
	[SL_OUTCOME_NO_MEMORY] = SL_DATAGRAM_OVERLOADED,
	[SL_OUTCOME_EXPIRED] = SL_DATAGRAM_EXPIRED,
	[SL_OUTCOME_BACKEND_LOST] = SL_DATAGRAM_UNAVAILABLE,
	[SL_OUTCOME_BACKEND_ERROR] = SL_DATAGRAM_INTERNAL,
	[SL_OUTCOME_CLIENT_GONE] = SL_DATAGRAM_INTERNAL,
	[SL_OUTCOME_REQUEST_TIMEOUT] = SL_DATAGRAM_EXPIRED,
};

enum sl_datagram_status sl_dgram_status(enum sl_outcome why)
{
	return (enum sl_datagram_status)own_status[why];
}

/* Where the reply of a request in flight goes. */
struct sl_dgram_request {
	struct sl_udp_peer peer;
	struct sl_datagram rq; /* its views are not valid any more */
	uint32_t slot;
};

struct sl_dgram {
	struct sl_pool requests;
	struct sl_datagram_cache cache;
	uint8_t payload[DGRAM_PAYLOAD_MAX]; /* of a reply that has come in several messages */
};

static void send_reply(struct sl_core *c, const struct sl_udp_peer *peer, struct sl_span head,
		       struct sl_span payload)
{
	struct sl_span spans[2] = {head, payload};

	/* One that cannot be sent is lost like any datagram, and counted by net: a retry gets it.
	 */
	(void)sl_udp_send(c->udp, peer, spans, 2);
}

/* Formats and sends; slot: remember it for retries, unless it is NULL. */
static void answer(struct sl_core *c, const struct sl_udp_peer *peer, const struct sl_datagram *rq,
		   enum sl_datagram_status status, const struct sl_reply *r, uint32_t service_us,
		   const uint32_t *slot)
{
	struct sl_span payload = r ? r->body : sl_span_of(NULL, 0);
	uint8_t head[SL_DATAGRAM_HEAD];

	sl_datagram_format(rq, &status, r ? r->status : 0, service_us,
			   sl_udp_max_payload(c->udp, peer), &payload, head);
	if (status == SL_DATAGRAM_REPLY_TOO_LARGE)
		sl_net_drop(c->net, SL_DROP_DGRAM_AMPLIFY);
	/* What was not carried out is worth another try. */
	if (slot && status == SL_DATAGRAM_OVERLOADED)
		sl_datagram_forget(&c->dgram->cache, *slot);
	else if (slot)
		sl_datagram_answered(&c->dgram->cache, *slot, head, payload, c->now_ns);
	send_reply(c, peer, sl_span_of(head, sizeof(head)), payload);
}

/* The path may have turned out to be narrower than the reply that was lost on it. */
static void answer_again(struct sl_core *c, const struct sl_udp_peer *peer,
			 const struct sl_datagram *rq, struct sl_span kept)
{
	if (kept.len > sl_udp_max_payload(c->udp, peer))
		answer(c, peer, rq, SL_DATAGRAM_REPLY_TOO_LARGE, NULL, 0, NULL);
	else
		send_reply(c, peer, kept, sl_span_of(NULL, 0));
}

static const struct sl_cfg_route *route_of(const struct sl_config *cfg, uint16_t service)
{
	for (uint32_t i = 0; i < cfg->route_cnt; i++) {
		if (cfg->routes[i].datagram_service == service)
			return &cfg->routes[i];
	}
	return NULL;
}

static uint32_t hash_source(const struct sl_udp_peer *p)
{
	uint32_t h = 2166136261u;
	unsigned len = p->family == 4 ? 4 : 8;

	for (unsigned i = 0; i < len; i++)
		h = (h ^ p->remote[i]) * 16777619u;
	return h;
}

static void start(struct sl_core *c, const struct sl_udp_peer *peer, const struct sl_datagram *rq,
		  struct sl_chunk *chunk, uint32_t slot)
{
	const struct sl_cfg_route *route = route_of(c->cfg, rq->service);
	struct sl_dgram_request *d = route ? sl_pool_get(&c->dgram->requests) : NULL;
	struct sl_exchange *x;
	struct sl_chunk body = {.ptr = rq->payload.ptr, .len = rq->payload.len};
	struct sl_request head = {
		.proto = SL_PROTO_DATAGRAM,
		.method = SL_METHOD_POST,
		.urgency = -1,
		.end = body.len == 0,
		.path = rq->method,
		.content_length = rq->payload.len,
		.timeout_ns = (uint64_t)rq->deadline_us * SL_NS_PER_US,
		.rx_ns = chunk->rx_ns,
		.take_ns = chunk->take_ns,
	};

	x = d ? sl_exchange_begin(c, NULL, route, hash_source(peer), &head) : NULL;
	if (!x) {
		if (d)
			sl_pool_put(&c->dgram->requests, d);
		answer(c, peer, rq, route ? SL_DATAGRAM_OVERLOADED : SL_DATAGRAM_NO_SERVICE, NULL,
		       0, NULL);
		sl_datagram_forget(&c->dgram->cache, slot);
		return;
	}
	*d = (struct sl_dgram_request){.peer = *peer, .rq = *rq, .slot = slot};
	x->dgram = d;
	if (body.len)
		sl_exchange_body(x, &body);
	sl_exchange_end(x);
}

static void on_datagram(void *app, const struct sl_udp_peer *peer, struct sl_chunk *chunk)
{
	struct sl_core *c = app;
	struct sl_datagram_source src = {.port_be = peer->remote_port_be,
					 .listener = peer->listener,
					 .family = peer->family};
	struct sl_datagram rq;
	struct sl_span kept;
	uint32_t slot;

	switch (sl_datagram_parse(sl_span_of(chunk->ptr, chunk->len), &rq)) {
	case SL_DATAGRAM_IS_MALFORMED: sl_net_drop(c->net, SL_DROP_DGRAM_MALFORMED); return;
	case SL_DATAGRAM_IS_OTHER_VERSION:
		answer(c, peer, &rq, SL_DATAGRAM_VERSION, NULL, 0, NULL);
		return;
	case SL_DATAGRAM_IS_REQUEST: break;
	}
	memcpy(src.addr, peer->remote, sizeof(src.addr));
	switch (sl_datagram_seen(&c->dgram->cache, &src, rq.id, rq.reply_max, c->now_ns, &slot,
				 &kept)) {
	case SL_DATAGRAM_NEW: start(c, peer, &rq, chunk, slot); return;
	case SL_DATAGRAM_PENDING: sl_net_drop(c->net, SL_DROP_DGRAM_DUPLICATE); return;
	case SL_DATAGRAM_ANSWERED: answer_again(c, peer, &rq, kept); return;
	case SL_DATAGRAM_AMPLIFY: sl_net_drop(c->net, SL_DROP_DGRAM_AMPLIFY); return;
	case SL_DATAGRAM_FULL: answer(c, peer, &rq, SL_DATAGRAM_OVERLOADED, NULL, 0, NULL); return;
	}
}

/* What is stored of the reply's body, in one piece. */
static struct sl_span gather(const struct sl_exchange *x)
{
	uint8_t *to = x->core->dgram->payload;
	size_t len = 0, n;

	for (const struct sl_frame *f = x->reply.head; f; f = f->next) {
		size_t skip = f == x->reply.head ? x->reply.off : 0;

		n = f->len - skip;
		if (n > DGRAM_PAYLOAD_MAX - len)
			n = DGRAM_PAYLOAD_MAX - len;
		memcpy(to + len, f->data + skip, n);
		len += n;
	}
	return sl_span_of(to, len);
}

/* A batch of replies is cut into messages anywhere, also in the middle of one. */
static bool is_worth_waiting(const struct sl_exchange *x, const struct sl_reply *r)
{
	return x->outcome == SL_OUTCOME_OK && !x->reply_complete && r->body_len != SL_LEN_UNKNOWN &&
	       r->body_len <= DGRAM_PAYLOAD_MAX;
}

bool sl_dgram_reply(struct sl_exchange *x, const struct sl_reply *r)
{
	struct sl_core *c = x->core;
	struct sl_dgram_request *d = x->dgram;
	bool own = r->gateway && x->outcome != SL_OUTCOME_FIXED;
	enum sl_datagram_status status = own ? sl_dgram_status(x->outcome) : SL_DATAGRAM_OK;
	struct sl_reply none = {.status = r->status}, all;
	bool whole = r->end && r->body.len == r->body_len;

	if (!whole && is_worth_waiting(x, r))
		return false;
	if (!whole && x->reply.len) {
		all = *r;
		all.body = gather(x);
		whole = all.body.len == all.body_len;
		r = &all;
	}
	/* What a backend streams does not fit a datagram. */
	if (!whole && !own)
		status = SL_DATAGRAM_REPLY_TOO_LARGE;
	if (status != SL_DATAGRAM_OK)
		r = &none;
	answer(c, &d->peer, &d->rq, status, r, x->service_us, &d->slot);
	sl_pool_put(&c->dgram->requests, d);
	x->dgram = NULL;
	x->reply_started = true;
	x->end_sent = true;
	sl_exchange_done(x);
	return true;
}

int sl_dgram_init(struct sl_core *c)
{
	uint32_t cnt = c->cfg->limits.max_exchanges < DGRAM_SLOTS ? c->cfg->limits.max_exchanges
								  : DGRAM_SLOTS;
	uint8_t key[16];
	int rc = sl_rand_bytes(key, sizeof(key));

	c->dgram = calloc(1, sizeof(*c->dgram));
	if (!c->dgram)
		return -ENOMEM;
	if (!rc)
		rc = sl_pool_init(&c->dgram->requests, sizeof(struct sl_dgram_request), 8, cnt);
	if (!rc)
		rc = sl_datagram_cache_init(&c->dgram->cache, DGRAM_SLOTS, DGRAM_REPLY_KEPT,
					    DGRAM_TTL_S * SL_NS_PER_SEC, key);
	c->udp = rc ? NULL : sl_udp_create(c->net, on_datagram, c);
	return rc || c->udp ? rc : -ENOMEM;
}

void sl_dgram_fini(struct sl_core *c)
{
	if (!c->dgram)
		return;
	if (c->udp)
		sl_udp_destroy(c->udp);
	sl_datagram_cache_fini(&c->dgram->cache);
	sl_pool_fini(&c->dgram->requests);
	free(c->dgram);
	c->dgram = NULL;
}
