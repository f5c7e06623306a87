/* SPDX-License-Identifier: Apache-2.0 */
#include "core/client.h"
#include "core/mirror.h"
#include "core/offender.h"

#include <string.h>

#include "base/clock.h"

enum {
	DETECT_LEN = 4, /* "PRI " tells HTTP/2 from HTTP/1.1 */
	ROOM_MIN = 64,  /* fronts wait with less */
};

const struct sl_front_ops *const sl_client_fronts[] = {
	[SL_CLIENT_NEW] = NULL,
	[SL_CLIENT_HTTP1] = &sl_front_http1,
	[SL_CLIENT_H2] = &sl_front_h2,
	[SL_CLIENT_DATAGRAM] = &sl_front_datagram,
	[SL_CLIENT_MIRROR] = &sl_mirror_front,
};

struct sl_client *sl_client_next(struct sl_core *c, const struct sl_client *cl)
{
	uint32_t link = cl ? cl->next : c->client_head;

	return link ? sl_mempool_at(&c->clients, link - 1) : NULL;
}

static void list_add(struct sl_core *c, struct sl_client *cl)
{
	struct sl_client *old = sl_client_next(c, NULL);
	uint32_t link = sl_mempool_index(&c->clients, cl) + 1;

	cl->next = c->client_head;
	c->client_head = link;
	if (old)
		old->prev = link;
}

static void list_del(struct sl_core *c, const struct sl_client *cl)
{
	struct sl_client *next = sl_client_next(c, cl);

	if (cl->prev)
		((struct sl_client *)sl_mempool_at(&c->clients, cl->prev - 1))->next = cl->next;
	else
		c->client_head = cl->next;
	if (next)
		next->prev = cl->prev;
}

static void close_stream(struct sl_client *cl)
{
	struct sl_conn s = sl_client_stream(cl);

	s.ops->close(s.self);
}

static void set_phase(struct sl_client *cl, enum sl_client_phase phase)
{
	cl->phase = (unsigned)phase & 7;
	cl->phase_ms = cl->core->now_ms;
}

/*
 * Sets the phase and restarts its time-out. A header's counts from the head's first byte, others
 * from the last byte.
 */
static void note_progress(struct sl_client *cl)
{
	static const enum sl_client_phase rests[] = {
		[SL_FRONT_BUSY] = SL_CLIENT_HEAD,
		[SL_FRONT_IDLE] = SL_CLIENT_IDLE,
		[SL_FRONT_TELLS] = SL_CLIENT_WAIT,
	};
	const struct sl_front_ops *front = sl_client_front(cl);
	enum sl_client_phase next = SL_CLIENT_IDLE;

	if (cl->phase == SL_CLIENT_RESET)
		return;
	if (cl->blocked)
		next = SL_CLIENT_SEND;
	else if (cl->reading)
		next = SL_CLIENT_BODY;
	else if (cl->streams)
		next = SL_CLIENT_WAIT;
	else if (cl->first_len)
		next = SL_CLIENT_HEAD;
	else if (front)
		next = rests[front->rest(cl->state)];
	if (next != SL_CLIENT_HEAD || cl->phase != SL_CLIENT_HEAD)
		set_phase(cl, next);
}

static void await_end(struct sl_client *cl)
{
	set_phase(cl, SL_CLIENT_SEND);
	sl_client_arm(cl);
}

void sl_client_timer(struct sl_client *cl)
{
	const struct sl_front_ops *front = sl_client_front(cl);
	enum sl_client_due due = sl_client_due(cl);

	if (cl->phase == SL_CLIENT_RESET) {
		sl_client_abort(cl);
		return;
	}
	if (due == SL_CLIENT_DUE_NOT) {
		sl_client_arm(cl);
		return;
	}
	cl->core->stats.clients_timed_out += !cl->drains;
	if (due == SL_CLIENT_DUE_UNREAD ||
	    (due == SL_CLIENT_DUE_PHASE && cl->phase == SL_CLIENT_SEND)) {
		sl_client_abort(cl);
		return;
	}
	if (front && due == SL_CLIENT_DUE_PHASE && cl->phase == SL_CLIENT_IDLE)
		front->drain(cl->state, &cl->core->env);
	else if (front)
		front->timeout(cl->state, &cl->core->env);
	else
		close_stream(cl);
	await_end(cl);
}

void sl_client_time_out(struct sl_client *cl)
{
	cl->core->stats.clients_timed_out++;
	sl_client_front(cl)->timeout(cl->state, &cl->core->env);
	await_end(cl);
}

static size_t tcp_write(void *self, const void *bytes, size_t len)
{
	return sl_tcp_send(self, bytes, len);
}

static bool tcp_write_head(void *self, const void *bytes, size_t len)
{
	return sl_tcp_send_head(self, bytes, len);
}

static size_t tcp_room(const void *self)
{
	return sl_tcp_send_room(self);
}

static void tcp_want_room(void *self)
{
	sl_tcp_want_write(self);
}

static void tcp_resume(void *self)
{
	sl_tcp_resume(self);
}

static void tcp_close(void *self)
{
	sl_tcp_close(self);
}

static void tcp_reset(void *self)
{
	sl_tcp_abort(self);
}

static bool tcp_narrow(void *self, bool narrow)
{
	return sl_tcp_narrow(self, narrow);
}

static uint32_t tcp_held_frames(const void *self)
{
	return sl_tcp_held_frames(self);
}

static uint32_t tcp_unread_frames(const void *self)
{
	return sl_tcp_unread_frames(self);
}

static uint64_t tcp_unread_ns(const void *self)
{
	return sl_tcp_unread_ns(self);
}

static uint32_t tcp_read_bytes(const void *self)
{
	return ((const struct sl_tcp_conn *)self)->snd_una;
}

static uint32_t tcp_rtt_us(const void *self)
{
	return sl_tcp_rtt_us(self);
}

static void tcp_info(const void *self, struct sl_conn_info *out)
{
	const struct sl_tcp_conn *c = self;

	*out = (struct sl_conn_info){
		.local = sl_net_local(&c->path, c->local_port_be),
		.peer = sl_net_remote(&c->path, c->remote_port_be),
	};
}

static uint8_t *tcp_lay(void *self, size_t min, bool beyond, size_t *room)
{
	return sl_tcp_lay(self, min, beyond, room);
}

static void tcp_commit(void *self, size_t len)
{
	sl_tcp_commit(self, len);
}

static bool tcp_fits_head(const void *self, size_t len)
{
	return sl_tcp_fits_head(self, len);
}

const struct sl_conn_ops sl_client_tcp_stream = {
	.write = tcp_write,
	.write_head = tcp_write_head,
	.room = tcp_room,
	.want_room = tcp_want_room,
	.resume = tcp_resume,
	.close = tcp_close,
	.reset = tcp_reset,
	.info = tcp_info,
	.lay = tcp_lay,
	.commit = tcp_commit,
	.fits_head = tcp_fits_head,
	.narrow = tcp_narrow,
	.held_frames = tcp_held_frames,
	.unread_frames = tcp_unread_frames,
	.unread_ns = tcp_unread_ns,
	.read_bytes = tcp_read_bytes,
	.rtt_us = tcp_rtt_us,
};

size_t sl_client_write(void *conn, const void *bytes, size_t len)
{
	struct sl_client *cl = conn;
	struct sl_conn s = sl_client_stream(cl);
	size_t n = cl->conn ? s.ops->write(s.self, bytes, len) : 0;

	cl->blocked = n < len;
	return n;
}

static void wait_for_room(struct sl_client *cl)
{
	struct sl_conn s = sl_client_stream(cl);

	cl->blocked = true;
	s.ops->want_room(s.self);
}

bool sl_client_write_head(void *conn, const void *bytes, size_t len)
{
	struct sl_client *cl = conn;
	struct sl_conn s = sl_client_stream(cl);

	if (!cl->conn)
		return false;
	if (s.ops->write_head(s.self, bytes, len))
		return true;
	wait_for_room(cl);
	return false;
}

size_t sl_client_room(void *conn)
{
	struct sl_client *cl = conn;
	struct sl_conn s = sl_client_stream(cl);
	size_t room = cl->conn ? s.ops->room(s.self) : 0;

	if (cl->conn && room < ROOM_MIN)
		wait_for_room(cl);
	return room;
}

void sl_client_later(void *conn)
{
	struct sl_client *cl = conn;
	struct sl_conn s = sl_client_stream(cl);

	if (cl->conn)
		s.ops->want_room(s.self);
}

bool sl_client_hold(void *conn, int32_t frames)
{
	struct sl_client *cl = conn;
	struct sl_addr_quotas *t = &cl->core->quotas;
	struct sl_addr_quota *a = sl_client_quota(cl);

	if (frames > 0 && !sl_addr_quota_admits(t, a, SL_QUOTA_FRAMES, (uint32_t)frames))
		return false;
	sl_addr_quota_add_frames(t, a, frames);
	return true;
}

void sl_client_close(void *conn, bool at_once)
{
	struct sl_client *cl = conn;
	bool again = cl->closing;

	if (!cl->conn)
		return;
	cl->closing = true;
	if (at_once) {
		/* A timer aborts it later: the calling front is on the stack. */
		set_phase(cl, SL_CLIENT_RESET);
		sl_timer_set(&cl->core->wheel, &cl->timer, cl->core->now_ns);
	} else if (!again) {
		close_stream(cl);
	}
}

void sl_client_restart_timeout(struct sl_client *cl)
{
	note_progress(cl);
}

void sl_client_progress(struct sl_client *cl)
{
	if (!cl->conn)
		return;
	note_progress(cl);
	if (cl->paused && !cl->closing) {
		struct sl_conn s = sl_client_stream(cl);

		cl->paused = false;
		s.ops->resume(s.self);
	}
}

static bool open_quota(struct sl_client *cl, const struct sl_addr *peer)
{
	struct sl_addr_quotas *t = &cl->core->quotas;
	struct sl_addr_quota *a = sl_addr_quota_open(t, peer);

	cl->quota = a ? sl_mempool_index(&t->pool, a) + 1 : 0;
	return a;
}

struct sl_client *sl_client_open(struct sl_core *c, struct sl_conn transport,
				 const struct sl_conn_info *info, bool awaits_proxy_header)
{
	struct sl_client *cl = c->draining ? NULL : sl_mempool_get(&c->clients);

	if (!cl)
		return NULL;
	memset(cl, 0, sizeof(*cl));
	cl->core = c;
	cl->conn = transport.self;
	cl->kernel = transport.ops == &sl_sock_stream;
	cl->listener = info->listener;
	cl->proxied = awaits_proxy_header;
	if (!awaits_proxy_header && !open_quota(cl, &info->peer)) {
		sl_offender_count(cl, &info->peer);
		sl_mempool_put(&c->clients, cl);
		return NULL;
	}
	(void)sl_client_narrow(cl, true);
	list_add(c, cl);
	set_phase(cl, SL_CLIENT_IDLE);
	sl_client_arm(cl);
	c->stats.clients++;
	return cl;
}

void sl_client_await_filters(struct sl_client *cl)
{
	set_phase(cl, SL_CLIENT_HEAD);
	sl_client_arm(cl);
}

static void on_named(void *handle)
{
	struct sl_client *cl = handle;
	struct sl_addr_quotas *t = &cl->core->quotas;
	struct sl_conn transport = sl_client_transport(cl);
	SL_UNINIT struct sl_conn_info info;
	int32_t frames;

	if (cl->quota)
		return;
	sl_client_addrs(cl, &info);
	if (!open_quota(cl, &info.peer)) {
		sl_client_close(cl, true);
		return;
	}
	frames = (int32_t)transport.ops->held_frames(transport.self);
	sl_addr_quota_add_frames(t, &t->unproven, -frames);
	sl_addr_quota_add_frames(t, sl_client_quota(cl), frames);
}

static void on_opened(void *handle)
{
	struct sl_client *cl = handle;

	if (cl->phase != SL_CLIENT_RESET)
		set_phase(cl, SL_CLIENT_IDLE);
}

static size_t feed_front(struct sl_client *cl, struct sl_chunk *chunk)
{
	return sl_client_front(cl)->input(cl->state, &cl->core->env, chunk);
}

static void open_front(struct sl_client *cl, const struct sl_front_ops *front)
{
	cl->proto = front == &sl_front_h2 ? SL_CLIENT_H2 : SL_CLIENT_HTTP1;
	if (cl->proto == SL_CLIENT_H2)
		(void)sl_client_narrow(cl, false);
	memset(cl->state, 0, sizeof(cl->state));
	front->open(cl->state, &cl->core->env, cl, cl->quota);
}

static const struct sl_front_ops *find_front(const struct sl_client *cl, struct sl_span first)
{
	struct sl_conn stream = sl_client_stream(cl);
	struct sl_conn_info info = {0};

	if (cl->filtered)
		stream.ops->info(stream.self, &info);
	switch (info.tls.alpn) {
	case SL_TLS_ALPN_H2: return &sl_front_h2;
	case SL_TLS_ALPN_HTTP1: return &sl_front_http1;
	default: return sl_front_detect(first);
	}
}

static size_t detect_front(struct sl_client *cl, const struct sl_chunk *chunk)
{
	uint8_t first[DETECT_LEN], kept_len = cl->first_len;
	size_t want = (size_t)DETECT_LEN - cl->first_len;
	size_t n = chunk->len < want ? chunk->len : want;
	const struct sl_front_ops *front;

	memcpy(first, cl->first, cl->first_len);
	memcpy(first + cl->first_len, chunk->ptr, n);
	front = find_front(cl, sl_span_of(first, cl->first_len + n));
	if (!front) {
		memcpy(cl->first + cl->first_len, chunk->ptr, n);
		cl->first_len = (unsigned)(cl->first_len + n) & 7;
		return n;
	}
	cl->first_len = 0;
	open_front(cl, front);
	if (kept_len) {
		struct sl_chunk kept = {.ptr = first,
					.len = kept_len,
					.rx_ns = chunk->rx_ns,
					.take_ns = chunk->take_ns};

		feed_front(cl, &kept);
	}
	return 0;
}

static size_t on_input(void *handle, struct sl_chunk *chunk)
{
	struct sl_client *cl = handle;
	size_t len = chunk->len, used = 0;

	if (cl->closing)
		return len;
	if (!cl->proto) {
		used = detect_front(cl, chunk);
		if (!cl->proto) {
			note_progress(cl);
			return used;
		}
	}
	used = feed_front(cl, chunk);
	cl->paused = used < len;
	if (cl->drains) {
		cl->drains = false;
		sl_client_drain(cl);
	}
	note_progress(cl);
	return used;
}

static bool listens_on(const struct sl_client *cl)
{
	const struct sl_config *cfg = cl->core->cfg;
	uint16_t n = sl_client_listener(cl);

	return n < cfg->listener_cnt && cfg->listeners[n].half_close == SL_HALF_CLOSE_ANSWER;
}

static void on_eof(void *handle)
{
	struct sl_client *cl = handle;

	if (cl->closing)
		return;
	if (cl->proto)
		sl_client_front(cl)->eof(cl->state, &cl->core->env, listens_on(cl));
	else
		sl_client_close(cl, false);
}

static void on_writable(void *handle)
{
	struct sl_client *cl = handle;

	cl->blocked = false;
	if (cl->proto)
		sl_client_front(cl)->writable(cl->state, &cl->core->env);
	sl_client_progress(cl);
}

static void client_free(struct sl_client *cl)
{
	struct sl_core *c = cl->core;

	cl->conn = NULL;
	cl->filtered = false;
	if (cl->proto)
		sl_client_front(cl)->close(cl->state, &c->env);
	sl_timer_cancel(&c->wheel, &cl->timer);
	if (cl->quota)
		sl_addr_quota_close(&c->quotas, sl_client_quota(cl), c->now_ns);
	list_del(c, cl);
	sl_mempool_put(&c->clients, cl);
	c->stats.clients--;
}

static void on_closed(void *handle)
{
	client_free(handle);
}

void sl_client_abort(struct sl_client *cl)
{
	struct sl_conn s = sl_client_stream(cl);

	s.ops->reset(s.self);
	client_free(cl);
}

void sl_client_drain(struct sl_client *cl)
{
	if (cl->proto) {
		sl_client_front(cl)->drain(cl->state, &cl->core->env);
	} else if (!cl->drains && !cl->closing && cl->phase != SL_CLIENT_SEND &&
		   cl->phase != SL_CLIENT_RESET) {
		cl->drains = true;
		set_phase(cl, (enum sl_client_phase)cl->phase); /* the second begins now */
		sl_client_arm(cl);
	}
}

void sl_client_open_datagrams(struct sl_client *cl, struct sl_core *c)
{
	cl->core = c;
	cl->proto = SL_CLIENT_DATAGRAM;
	sl_client_front(cl)->open(cl->state, &c->env, cl, 0);
}

void sl_client_close_datagrams(struct sl_client *cl)
{
	sl_client_front(cl)->close(cl->state, &cl->core->env);
}

const struct sl_conn_user sl_client_events = {
	.named = on_named,
	.opened = on_opened,
	.input = on_input,
	.eof = on_eof,
	.writable = on_writable,
	.closed = on_closed,
};
