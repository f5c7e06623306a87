/* SPDX-License-Identifier: Apache-2.0 */
#include "core/client.h"

#include <string.h>

#include "base/clock.h"

enum {
	DETECT_LEN = 4,       /* "PRI " tells HTTP/2 from HTTP/1.1 */
	ROOM_MIN = 64,        /* of the send buffer: with less the fronts wait */
	TIMER_GRAIN_MS = 250, /* time-outs are looked at this often at the most */
};

/* --- the list of clients: by index, for half of what pointers take --- */

struct sl_client *sl_client_next(struct sl_core *c, const struct sl_client *cl)
{
	uint32_t link = cl ? cl->next : c->client_head;

	return link ? sl_pool_at(&c->clients, link - 1) : NULL;
}

static void list_add(struct sl_core *c, struct sl_client *cl)
{
	struct sl_client *old = sl_client_next(c, NULL);
	uint32_t link = sl_pool_index(&c->clients, cl) + 1;

	cl->next = c->client_head;
	c->client_head = link;
	if (old)
		old->prev = link;
}

static void list_del(struct sl_core *c, const struct sl_client *cl)
{
	struct sl_client *next = sl_client_next(c, cl);

	if (cl->prev)
		((struct sl_client *)sl_pool_at(&c->clients, cl->prev - 1))->next = cl->next;
	else
		c->client_head = cl->next;
	if (next)
		next->prev = cl->prev;
}

static const struct sl_front_ops *front_of(const struct sl_client *cl)
{
	static const struct sl_front_ops *const fronts[] = {
		[SL_CLIENT_NEW] = NULL,
		[SL_CLIENT_HTTP1] = &sl_front_http1,
		[SL_CLIENT_H2] = &sl_front_h2,
	};

	return fronts[cl->proto];
}

/* --- phases: what a client is waited for, and for how long --- */

static uint64_t phase_limit_ns(const struct sl_client *cl)
{
	const struct sl_cfg_limits *l = &cl->core->cfg->limits;

	switch (cl->phase) {
	case SL_CLIENT_HEAD: return l->header_timeout_ns;
	case SL_CLIENT_BODY: return l->body_timeout_ns;
	case SL_CLIENT_SEND: return l->send_timeout_ns;
	case SL_CLIENT_WAIT: return 0;
	default: return l->idle_timeout_ns;
	}
}

/* In whole milliseconds that have passed for sure. */
static uint64_t waited_ns(const struct sl_client *cl)
{
	int32_t ms = (int32_t)((uint32_t)(cl->core->now_ns / SL_NS_PER_MS) - cl->phase_ms);

	return ms > 0 ? (uint64_t)ms * SL_NS_PER_MS : 0;
}

static void set_phase(struct sl_client *cl, enum sl_client_phase phase)
{
	cl->phase = (uint8_t)phase;
	cl->phase_ms = (uint32_t)((cl->core->now_ns + SL_NS_PER_MS - 1) / SL_NS_PER_MS);
}

/* After input or output: the head's clock runs from its first byte, the others' from the last one.
 */
static void note_progress(struct sl_client *cl)
{
	const struct sl_front_ops *front = front_of(cl);
	enum sl_client_phase next = SL_CLIENT_IDLE;

	if (cl->phase == SL_CLIENT_RESET)
		return;
	if (cl->blocked)
		next = SL_CLIENT_SEND;
	else if (cl->reading)
		next = SL_CLIENT_BODY;
	else if (cl->streams)
		next = SL_CLIENT_WAIT;
	else if (cl->first_len || (front && !front->idle(cl->state)))
		next = SL_CLIENT_HEAD;
	else if (front && front->waits && front->waits(cl->state))
		next = SL_CLIENT_WAIT;
	if (next != SL_CLIENT_HEAD || cl->phase != SL_CLIENT_HEAD)
		set_phase(cl, next);
}

static void arm_timer(struct sl_client *cl)
{
	uint64_t limit = phase_limit_ns(cl);
	uint64_t waited = waited_ns(cl);
	uint64_t soonest = TIMER_GRAIN_MS * SL_NS_PER_MS;
	uint64_t left = limit > waited ? limit - waited : 0;

	/* Lazy: the data path only stores phase_ms, and the timer finds out what is due. */
	if (!limit)
		left = cl->core->cfg->limits.idle_timeout_ns;
	sl_timer_set(&cl->core->wheel, &cl->timer,
		     cl->core->now_ns + (left > soonest ? left : soonest));
}

void sl_client_timer(struct sl_client *cl)
{
	const struct sl_front_ops *front = front_of(cl);
	uint64_t limit = phase_limit_ns(cl);

	if (cl->phase == SL_CLIENT_RESET) {
		sl_client_abort(cl);
		return;
	}
	if (!limit || waited_ns(cl) < limit) {
		arm_timer(cl);
		return;
	}
	cl->core->stats.clients_timed_out++;
	if (cl->phase == SL_CLIENT_SEND) {
		sl_client_abort(cl);
		return;
	}
	if (front && cl->phase == SL_CLIENT_IDLE)
		front->drain(cl->state, &cl->core->env); /* HTTP/2 has a GOAWAY for it */
	else if (front)
		front->timeout(cl->state, &cl->core->env);
	else
		sl_tcp_close(cl->conn);
	set_phase(cl, SL_CLIENT_SEND); /* time for what was just written; then it is aborted */
	arm_timer(cl);
}

/* --- what a front asks of its client --- */

static struct sl_stream *host_begin(void *host, const struct sl_request *rq)
{
	struct sl_client *cl = host;
	const struct sl_cfg_route *route = sl_route_find(cl->core->cfg, rq->path, rq->method);
	struct sl_exchange *x = sl_exchange_begin(cl->core, cl, route, cl->fair_addr, rq);

	if (!x)
		return NULL;
	if (rq->end)
		sl_exchange_end(x);
	else
		cl->reading++;
	return &x->stream;
}

static size_t host_body(void *host, struct sl_stream *st, struct sl_chunk *chunk)
{
	(void)host;
	return sl_exchange_body((struct sl_exchange *)st, chunk);
}

static void stop_reading(struct sl_client *cl, const struct sl_exchange *x)
{
	if (!x->request_ended && cl->reading)
		cl->reading--;
}

static void host_end(void *host, struct sl_stream *st)
{
	struct sl_exchange *x = (struct sl_exchange *)st;

	stop_reading(host, x);
	sl_exchange_end(x);
}

static void host_done(void *host, struct sl_stream *st)
{
	struct sl_exchange *x = (struct sl_exchange *)st;

	stop_reading(host, x);
	x->request_ended = true;
	sl_exchange_done(x);
}

static void host_cancel(void *host, struct sl_stream *st)
{
	struct sl_exchange *x = (struct sl_exchange *)st;

	stop_reading(host, x);
	x->request_ended = true;
	sl_exchange_cancel(x);
}

static size_t host_write(void *host, const void *bytes, size_t len)
{
	struct sl_client *cl = host;
	size_t n = cl->conn ? sl_tcp_send(cl->conn, bytes, len) : 0;

	cl->blocked = n < len;
	return n;
}

static void wait_for_room(struct sl_client *cl)
{
	cl->blocked = true;
	sl_tcp_want_write(cl->conn);
}

static bool host_write_head(void *host, const void *bytes, size_t len)
{
	struct sl_client *cl = host;

	if (!cl->conn)
		return false;
	if (sl_tcp_send_head(cl->conn, bytes, len))
		return true;
	wait_for_room(cl);
	return false;
}

static size_t host_room(void *host)
{
	struct sl_client *cl = host;
	size_t room = cl->conn ? sl_tcp_send_room(cl->conn) : 0;

	/* Who finds so little does not write at all: nobody else would tell TCP that he waits. */
	if (cl->conn && room < ROOM_MIN)
		wait_for_room(cl);
	return room;
}

static void host_close(void *host)
{
	struct sl_client *cl = host;

	if (cl->closing || !cl->conn)
		return;
	cl->closing = true;
	sl_tcp_close(cl->conn);
}

/* Put off to the timers: the front that asks for it is still on the stack. */
static void host_reset(void *host)
{
	struct sl_client *cl = host;

	if (!cl->conn)
		return;
	cl->closing = true;
	set_phase(cl, SL_CLIENT_RESET);
	sl_timer_set(&cl->core->wheel, &cl->timer, cl->core->now_ns);
}

static void host_resume(void *host, struct sl_stream *st)
{
	(void)host;
	sl_exchange_resume((struct sl_exchange *)st);
}

const struct sl_host_ops sl_client_host_ops = {
	.begin = host_begin,
	.body = host_body,
	.end = host_end,
	.done = host_done,
	.cancel = host_cancel,
	.write = host_write,
	.write_head = host_write_head,
	.room = host_room,
	.close = host_close,
	.resume = host_resume,
	.reset = host_reset,
};

const struct sl_front_ops *sl_client_front(struct sl_client *cl, void **state)
{
	*state = cl->state;
	return front_of(cl);
}

void sl_client_stream_opened(struct sl_client *cl)
{
	cl->streams++;
}

void sl_client_stream_closed(struct sl_client *cl)
{
	cl->streams--;
}

void sl_client_progress(struct sl_client *cl)
{
	/* A call of the front is on the stack: it goes on by itself. */
	if (cl->in_input || !cl->conn)
		return;
	note_progress(cl);
	if (cl->paused && !cl->closing) {
		cl->paused = false;
		sl_tcp_resume(cl->conn);
	}
}

/* --- what TCP tells a client --- */

static uint32_t hash_addr(const struct sl_tcp_addr *a)
{
	uint32_t h = 2166136261u;
	unsigned len = a->family == 4 ? 4 : 8; /* an IPv6 customer is its /64 */

	for (unsigned i = 0; i < len; i++)
		h = (h ^ a->addr[i]) * 16777619u;
	return h;
}

static void *on_accepted(void *app, struct sl_tcp_conn *conn, uint16_t listener,
			 const struct sl_tcp_addr *local, const struct sl_tcp_addr *remote)
{
	struct sl_core *c = app;
	struct sl_client *cl = c->draining ? NULL : sl_pool_get(&c->clients);

	(void)listener;
	(void)local;
	if (!cl)
		return NULL;
	memset(cl, 0, sizeof(*cl));
	cl->core = c;
	cl->conn = conn;
	cl->fair_addr = hash_addr(remote);
	list_add(c, cl);
	set_phase(cl, SL_CLIENT_IDLE);
	arm_timer(cl);
	c->stats.clients++;
	return cl;
}

static size_t feed(struct sl_client *cl, struct sl_chunk *chunk)
{
	size_t n;

	cl->in_input = true;
	n = front_of(cl)->input(cl->state, &cl->core->env, chunk);
	cl->in_input = false;
	return n;
}

static void open_front(struct sl_client *cl, const struct sl_front_ops *front)
{
	cl->proto = front == &sl_front_h2 ? SL_CLIENT_H2 : SL_CLIENT_HTTP1;
	memset(cl->state, 0, sizeof(cl->state));
	front->open(cl->state, &cl->core->env, cl);
}

/*
 * Which protocol? Decided by the first four bytes; those of a shorter first segment are kept here
 * until more have come. Returns bytes of the chunk used, with cl->proto set once it is known.
 */
static size_t detect(struct sl_client *cl, const struct sl_chunk *chunk)
{
	uint8_t first[DETECT_LEN], kept_len = cl->first_len;
	size_t want = (size_t)DETECT_LEN - cl->first_len;
	size_t n = chunk->len < want ? chunk->len : want;
	const struct sl_front_ops *front;

	memcpy(first, cl->first, cl->first_len);
	memcpy(first + cl->first_len, chunk->ptr, n);
	front = sl_front_detect(sl_span_of(first, cl->first_len + n));
	if (!front) {
		memcpy(cl->first + cl->first_len, chunk->ptr, n);
		cl->first_len = (uint8_t)(cl->first_len + n);
		return n;
	}
	cl->first_len = 0;
	open_front(cl, front);
	if (kept_len) {
		struct sl_chunk kept = {.ptr = first,
					.len = kept_len,
					.rx_ns = chunk->rx_ns,
					.take_ns = chunk->take_ns};

		feed(cl, &kept); /* less than a head: always used up */
	}
	return 0;
}

static size_t on_data(void *handle, struct sl_chunk *chunk)
{
	struct sl_client *cl = handle;
	size_t len = chunk->len, used = 0;

	if (cl->closing)
		return len;
	if (!cl->proto) {
		used = detect(cl, chunk);
		if (!cl->proto) {
			note_progress(cl);
			return used;
		}
	}
	used = feed(cl, chunk);
	cl->paused = used < len;
	note_progress(cl);
	return used;
}

static void on_fin(void *handle)
{
	struct sl_client *cl = handle;

	if (cl->closing)
		return;
	if (cl->proto)
		front_of(cl)->eof(cl->state, &cl->core->env);
	else
		host_close(cl);
}

static void on_writable(void *handle)
{
	struct sl_client *cl = handle;

	cl->blocked = false;
	if (cl->proto)
		front_of(cl)->writable(cl->state, &cl->core->env);
	note_progress(cl);
}

static void client_free(struct sl_client *cl)
{
	struct sl_core *c = cl->core;

	cl->conn = NULL;
	if (cl->proto)
		front_of(cl)->close(cl->state, &c->env);
	sl_timer_cancel(&c->wheel, &cl->timer);
	list_del(c, cl);
	sl_pool_put(&c->clients, cl);
	c->stats.clients--;
}

static void on_closed(void *handle, enum sl_tcp_close why)
{
	(void)why;
	client_free(handle);
}

void sl_client_abort(struct sl_client *cl)
{
	sl_tcp_abort(cl->conn);
	client_free(cl);
}

void sl_client_drain(struct sl_client *cl)
{
	if (cl->proto)
		front_of(cl)->drain(cl->state, &cl->core->env);
	else
		host_close(cl);
}

const struct sl_tcp_ops sl_client_tcp_ops = {
	.accepted = on_accepted,
	.data = on_data,
	.fin = on_fin,
	.writable = on_writable,
	.closed = on_closed,
};
