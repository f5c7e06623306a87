/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/load/engine.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdlib.h>

#include "base/clock.h"
#include "tools/load/route.h"
#include "net/net.h"
#include "tcp/tcp.h"
#include "xio/probe.h"
#include "xio/xdp/xdp.h"
#include "xio/xsk_port.h"

enum {
	FRAME_SIZE = 2048,
	FRAMES_MIN = 8192,
	FRAMES_PER_CONN = 8,
};

struct xdp_io {
	struct sl_umem umem;
	struct sl_net net;
	struct sl_xdp xdp;
	struct sl_port *port;
	struct sl_tcp *tcp;
	struct sl_load_route route;
	bool umem_up, net_up, xdp_up;
};

static void on_connected(void *handle, struct sl_tcp_conn *conn)
{
	struct sl_load_conn *c = handle;

	(void)conn;
	sl_load_connected(c->load, c);
}

static size_t on_data(void *handle, struct sl_chunk *chunk)
{
	struct sl_load_conn *c = handle;

	sl_load_data(c->load, c, sl_span_of(chunk->ptr, chunk->len));
	return chunk->len;
}

static void on_closed(void *handle, enum sl_tcp_close_reason why)
{
	struct sl_load_conn *c = handle;

	(void)why;
	c->io = NULL;
	sl_load_closed(c->load, c);
}

static void on_fin(void *handle)
{
	struct sl_load_conn *c = handle;

	sl_tcp_abort(c->io);
	on_closed(handle, SL_TCP_CLOSED);
}

static void on_writable(void *handle)
{
	struct sl_load_conn *c = handle;

	c->dirty = true;
}

static void *on_accepted(void *app, struct sl_tcp_conn *c, uint16_t listener,
			 const struct sl_addr *local, const struct sl_addr *remote)
{
	(void)app;
	(void)c;
	(void)listener;
	(void)local;
	(void)remote;
	return NULL;
}

static const struct sl_tcp_ops tcp_ops = {
	.accepted = on_accepted,
	.connected = on_connected,
	.data = on_data,
	.fin = on_fin,
	.writable = on_writable,
	.closed = on_closed,
};

static int xdp_open(struct sl_load *l, struct sl_load_conn *c)
{
	struct xdp_io *io = l->io_state;

	c->io = sl_tcp_connect(io->tcp, 0, io->route.mac, &io->route.local, &l->o->to, c);
	return c->io ? 0 : -errno;
}

static bool xdp_has_room(struct sl_load *l, struct sl_load_conn *c, size_t len)
{
	(void)l;
	return sl_tcp_send_room(c->io) >= len;
}

static bool xdp_send(struct sl_load *l, struct sl_load_conn *c, struct sl_span bytes)
{
	return xdp_has_room(l, c, bytes.len) &&
	       sl_tcp_send(c->io, bytes.ptr, bytes.len) == bytes.len;
}

static void xdp_close(struct sl_load *l, struct sl_load_conn *c)
{
	(void)l;
	if (c->io)
		sl_tcp_abort(c->io);
	c->io = NULL;
}

static void transmit(struct xdp_io *io)
{
	sl_tcp_output(io->tcp);
	sl_net_flush(&io->net);
}

/* Never sleeps: wake-ups would be measured. Yields to backends on the core. */
static int xdp_poll(struct sl_load *l, uint64_t until_ns)
{
	struct xdp_io *io = l->io_state;
	struct sl_frame *frames[SL_BURST];
	unsigned n;

	transmit(io);
	for (;;) {
		l->now_ns = sl_now_ns();
		sl_net_set_now(&io->net, l->now_ns);
		n = io->port->ops->rx_burst(io->port, frames, SL_BURST, l->now_ns);
		if (n)
			sl_net_input(&io->net, frames, n, l->now_ns);
		sl_tcp_timer(io->tcp);
		if (n || l->now_ns >= until_ns)
			return 0;
		transmit(io);
		sched_yield();
	}
}

static void xdp_fini(struct sl_load *l)
{
	struct xdp_io *io = l->io_state;

	for (uint32_t i = 0; io->tcp && i < l->o->connections; i++)
		xdp_close(l, &l->conns[i]);
	if (io->tcp)
		transmit(io);
	if (io->tcp)
		sl_tcp_destroy(io->tcp);
	if (io->net_up)
		sl_net_fini(&io->net);
	if (io->port)
		io->port->ops->close(io->port);
	if (io->xdp_up)
		sl_xdp_close(&io->xdp);
	if (io->umem_up)
		sl_umem_fini(&io->umem);
	free(io);
}

static const struct sl_load_io xdp_ops = {
	.open = xdp_open,
	.has_room = xdp_has_room,
	.send = xdp_send,
	.close = xdp_close,
	.poll = xdp_poll,
	.fini = xdp_fini,
};

static int open_port(struct xdp_io *io, const struct sl_load_options *o, struct sl_err *err)
{
	struct sl_xdp_options xo = {.worker_cnt = 1, .pin_root = ""};
	struct sl_xsk_options so = {.rx_size = 0};
	struct sl_listener_key key = {.family = o->to.family, .protocol = IPPROTO_TCP};
	struct sl_listener value = {.shed_service = SL_ANY_SERVICE};
	uint32_t want = o->connections * FRAMES_PER_CONN + FRAMES_MIN;
	uint32_t cnt = FRAMES_MIN;
	int rc;

	while (cnt < want)
		cnt *= 2;
	rc = sl_umem_init(&io->umem, FRAME_SIZE, cnt);
	if (rc)
		return sl_fail(err, rc, "cannot allocate %u frames: %s", cnt, strerror(-rc));
	io->umem_up = true;
	rc = sl_xdp_open(&io->xdp, o->interface, &xo, err);
	if (rc)
		return rc;
	io->xdp_up = true;
	/* Port 0 matches all TCP to this address. */
	memcpy(key.addr, io->route.local.addr, sizeof(key.addr));
	rc = sl_xdp_listen(&io->xdp, &key, &value);
	if (rc)
		sl_err_set(err, "cannot steer packets on %s: %s", o->interface, strerror(-rc));
	else
		rc = sl_xsk_open(&io->port, &io->umem, &io->xdp, o->queue, &so, err);
	return rc;
}

int sl_load_xdp_init(struct sl_load *l, struct sl_err *err)
{
	struct xdp_io *io = calloc(1, sizeof(*io));
	struct sl_tcp_config cfg;
	int rc;

	if (!io)
		return sl_fail(err, -ENOMEM, "no memory");
	l->io = &xdp_ops;
	l->io_state = io;
	rc = sl_load_find_route(&io->route, l->o->interface, &l->o->to, err);
	if (!rc)
		rc = open_port(io, l->o, err);
	if (rc)
		return rc;
	rc = sl_net_init(&io->net, &io->umem);
	io->net_up = !rc;
	if (!rc)
		rc = sl_net_add_port(&io->net, io->port);
	if (!rc) {
		sl_tcp_config_default(&cfg);
		cfg.max_conns = l->o->connections * 2 + 64;
		cfg.keepalive_ns = 0;
		cfg.snd_ahead = cfg.snd_buf;
		io->tcp = sl_tcp_create(&io->net, &cfg, &tcp_ops, io);
		rc = io->tcp ? 0 : -errno;
	}
	if (rc)
		sl_err_set(err, "cannot build the stack: %s", strerror(-rc));
	return rc;
}
