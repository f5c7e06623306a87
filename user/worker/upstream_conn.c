/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TCP's handle is a small object: TCP may keep a connection longer than its user.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/min.h"
#include "net/net.h"
#include "tcp/tcp.h"
#include "worker/upstream_impl.h"

struct upstream_conn;

enum { SEND_FRAMES = 16 }; /* with less than 3/4 of all frames free */
enum { RESETS = 32, FLUSHES_MAX = 64 };

struct tcp_handle {
	struct sl_list link;
	struct upstream_conn *conn; /* NULL: closed on this side */
	struct sl_tcp_conn *tcp;    /* then */
};

struct upstream_conn {
	struct sl_tcp_conn *tcp;
	struct tcp_handle *handle;
	struct sl_list received;
	bool wants_input;
	bool busy;
	bool ended; /* the server has ended its side in order */
	bool shut;  /* this side has done so */
	bool reset; /* its place is needed now */
	/* The protocol's connection, of proto->conn_size; last. */
	struct origin_conn origin;
};

static struct upstream_conn *conn_of(struct origin_conn *c)
{
	return sl_container_of(c, struct upstream_conn, origin);
}

static struct sl_upstream_list *list_of(const struct upstream_conn *c)
{
	return upstream_of(c->origin.server)->list;
}

static void note_input(struct upstream_conn *c)
{
	sl_list_del(&c->received);
	sl_list_add_tail(&list_of(c)->received, &c->received);
	list_of(c)->events++;
}

static void *on_accepted(void *app, struct sl_tcp_conn *c, uint16_t listener,
			 const struct sl_addr *local, const struct sl_addr *remote)
{
	(void)app, (void)c, (void)listener, (void)local, (void)remote;
	return NULL;
}

static void on_connected(void *handle, struct sl_tcp_conn *tcp)
{
	struct upstream_conn *c = ((struct tcp_handle *)handle)->conn;

	if (!c)
		return;
	/* Frames of replies wait here while clients do not read. */
	(void)sl_tcp_narrow(tcp, true);
	c->wants_input = true;
	list_of(c)->events++;
	(void)origin_conn_up(&c->origin);
}

static size_t on_data(void *handle, struct sl_chunk *chunk)
{
	struct upstream_conn *c = ((struct tcp_handle *)handle)->conn;
	const struct origin_proto *proto;
	size_t used = 0;

	if (!c)
		return chunk->len;
	proto = c->origin.server->proto;
	note_input(c);
	while (used < chunk->len && c->wants_input && c->origin.state == ORIGIN_UP) {
		struct origin_space space = proto->space(&c->origin);
		size_t n = chunk->len - used < space.len ? chunk->len - used : space.len;

		if (!n)
			break;
		memcpy(space.at, chunk->ptr + used, n);
		used += n;
		(void)proto->input(&c->origin, n);
	}
	return c->origin.state == ORIGIN_UP ? used : chunk->len;
}

static void on_fin(void *handle)
{
	struct upstream_conn *c = ((struct tcp_handle *)handle)->conn;

	if (!c || c->origin.state != ORIGIN_UP)
		return;
	c->ended = true;
	list_of(c)->events++;
	c->origin.server->proto->eof(&c->origin, NULL);
}

static void on_writable(void *handle)
{
	struct upstream_conn *c = ((struct tcp_handle *)handle)->conn;

	if (c && c->origin.state == ORIGIN_UP)
		origin_conn_write(&c->origin);
}

static const char *text_of(enum sl_tcp_close_reason why)
{
	switch (why) {
	case SL_TCP_UNREACHABLE: return "Connection refused";
	case SL_TCP_TIMEOUT: return "Connection timed out";
	case SL_TCP_RESET: return "Connection reset by peer";
	default: return "closed";
	}
}

static void on_closed(void *handle, enum sl_tcp_close_reason why)
{
	struct upstream_conn *c = ((struct tcp_handle *)handle)->conn;

	sl_list_del(&((struct tcp_handle *)handle)->link);
	free(handle);
	if (!c)
		return;
	c->tcp = NULL;
	list_of(c)->events++;
	if (c->origin.state == ORIGIN_CONNECTING)
		origin_conn_failed(&c->origin, text_of(why));
	else if (c->origin.state == ORIGIN_UP)
		c->origin.server->proto->eof(&c->origin,
					     why == SL_TCP_CLOSED ? NULL : text_of(why));
	if (c->origin.state == ORIGIN_UP)
		origin_conn_close(&c->origin, text_of(why));
}

/* A server that reads slowly must not take the frames of clients. */
static bool on_full(void *handle)
{
	const struct upstream_conn *c = ((struct tcp_handle *)handle)->conn;
	const struct sl_umem *umem = c ? list_of(c)->umem : NULL;

	return !c || !c->tcp ||
	       (sl_tcp_unread_frames(c->tcp) >= SEND_FRAMES &&
		umem->free_cnt < umem->frame_cnt / 4 * 3);
}

const struct sl_tcp_ops upstream_tcp_ops = {
	.accepted = on_accepted,
	.connected = on_connected,
	.data = on_data,
	.fin = on_fin,
	.writable = on_writable,
	.closed = on_closed,
	.full = on_full,
};

static ssize_t io_send(struct origin_conn *o, const struct iovec *iov, unsigned cnt)
{
	struct sl_tcp_conn *tcp = conn_of(o)->tcp;
	size_t sum = 0;

	if (!tcp)
		return -EPIPE;
	for (unsigned i = 0; i < cnt; i++) {
		size_t n = sl_tcp_send(tcp, iov[i].iov_base, iov[i].iov_len);

		sum += n;
		if (n < iov[i].iov_len)
			break;
	}
	return sum ? (ssize_t)sum : -EAGAIN;
}

static bool io_shut(struct origin_conn *o)
{
	if (!conn_of(o)->tcp)
		return false;
	conn_of(o)->shut = true;
	sl_tcp_shutdown(conn_of(o)->tcp);
	return true;
}

static void io_read(struct origin_conn *o)
{
	struct upstream_conn *c = conn_of(o);

	if (!c->tcp)
		return;
	sl_tcp_resume(c->tcp);
	if (c->origin.state == ORIGIN_UP)
		c->origin.server->proto->pause(o);
}

static void io_wait(struct origin_conn *o, bool input, bool writable)
{
	struct upstream_conn *c = conn_of(o);

	if (input && !c->wants_input)
		note_input(c);
	c->wants_input = input;
	if (writable && c->tcp)
		sl_tcp_want_write(c->tcp);
}

static void io_idle(struct origin_conn *o)
{
	conn_of(o)->busy = false;
	origin_conn_idle(o);
}

static void io_busy(struct origin_conn *o)
{
	conn_of(o)->busy = true;
	origin_conn_busy(o);
}

const struct origin_io upstream_io = {
	.send = io_send,
	.shut = io_shut,
	.read = io_read,
	.wait = io_wait,
	.write_soon = origin_conn_write_soon,
	.idle = io_idle,
	.busy = io_busy,
	.room = origin_conn_room,
	.close = origin_conn_close,
};

void upstream_conns_pause(struct sl_upstream_list *l)
{
	struct sl_list now;
	struct upstream_conn *c;

	sl_list_init(&now);
	sl_list_splice_tail(&now, &l->received);
	while ((c = sl_list_first(&now, struct upstream_conn, received))) {
		sl_list_del(&c->received);
		if (c->wants_input)
			io_read(&c->origin);
	}
}

/*
 * Returns true if the connection ends by FIN. A reset frees local port and frames at once.
 */
static bool ends_in_order(const struct upstream_conn *c)
{
	if (c->shut)
		return c->ended;
	return !c->reset && (c->ended || !c->busy) && !sl_tcp_held_frames(c->tcp);
}

/* The smallest ring takes 64 resets. */
static void reset_conn(struct sl_upstream_list *l, struct sl_tcp_conn *tcp)
{
	uint32_t pending = 1;

	sl_tcp_abort(tcp);
	if (!l->stopping || ++l->resets % RESETS)
		return;
	for (unsigned n = 0; pending && n < FLUSHES_MAX; n++) {
		sl_net_flush(l->stopping);
		pending = 0;
		for (unsigned i = 0; i < l->stopping->port_cnt; i++) {
			const struct sl_port *p = l->stopping->ports[i];

			pending += p->ops->tx_pending(p);
		}
	}
}

void upstream_conn_gone(struct origin_conn *o)
{
	struct upstream_conn *c = conn_of(o);
	struct sl_tcp_conn *tcp = c->tcp;
	bool in_order = tcp && ends_in_order(c);

	sl_list_del(&c->received);
	c->tcp = NULL;
	if (!tcp)
		return;
	if (!in_order) {
		free(c->handle);
		reset_conn(list_of(c), tcp);
		return;
	}
	c->handle->conn = NULL;
	c->handle->tcp = tcp;
	sl_list_add_tail(&list_of(c)->closing, &c->handle->link);
	sl_tcp_close(tcp);
}

void upstream_conn_free(struct origin_conn *c)
{
	free(conn_of(c));
}

static bool reset_closing(struct sl_upstream_list *l)
{
	struct sl_list *at = sl_list_pop_head(&l->closing);
	struct tcp_handle *h;

	if (!at)
		return false;
	h = sl_container_of(at, struct tcp_handle, link);
	reset_conn(l, h->tcp);
	free(h);
	return true;
}

void upstream_handles_reset(struct sl_upstream_list *l)
{
	while (reset_closing(l))
		;
}

static void close_idle(struct sl_upstream_list *l)
{
	struct sl_list *at;

	sl_list_for_each (at, &l->servers) {
		struct sl_upstream *u = sl_container_of(at, struct sl_upstream, link);
		struct sl_list *ready = &u->origin.ready;
		struct origin_conn *c = sl_container_of(ready->prev, struct origin_conn, ready);

		if (sl_list_empty(ready) || !sl_timer_pending(&c->timer.t))
			continue;
		conn_of(c)->reset = true;
		origin_conn_close(c, "its place is needed");
		return;
	}
}

/* No further connection, or none at all. */
static void report_failure(struct origin_server *s, int error)
{
	if (error == ENOBUFS && !reset_closing(upstream_of(s)->list))
		close_idle(upstream_of(s)->list);
	if (error == EHOSTUNREACH)
		origin_server_down(s, "no route by an interface with XDP");
	else
		origin_server_short(s, error == EADDRINUSE ? "all tcp.server_ports are in use"
							   : "too many connections");
}

bool upstream_conn_open(struct origin_server *s)
{
	struct sl_upstream *u = upstream_of(s);
	struct sl_addr local = u->local[atomic_load_explicit(&u->which, memory_order_acquire)];
	struct upstream_conn *c =
		calloc(1, offsetof(struct upstream_conn, origin) + s->proto->conn_size);
	struct tcp_handle *handle = malloc(sizeof(*handle));
	int error = ENOBUFS;

	if (c && handle && upstream_has_place(u)) {
		*handle = (struct tcp_handle){.conn = c};
		sl_list_init(&handle->link);
		c->handle = handle;
		c->origin.server = s;
		sl_list_init(&c->received);
		c->tcp = sl_tcp_open(u->list->tcp, &local, &u->remote, handle);
		error = errno;
	}
	if (!c || !c->tcp) {
		free(c);
		free(handle);
		report_failure(s, error);
		return false;
	}
	origin_conn_init(&c->origin);
	origin_conn_connecting(&c->origin);
	return true;
}
