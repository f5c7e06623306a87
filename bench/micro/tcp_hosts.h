/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two TCP stacks over fake ports for the benches of TCP: host 0 is the client, host 1 serves.
 * Frames are copied between them; the copies count for no host.
 */
#ifndef SL_BENCH_MICRO_TCP_HOSTS_H
#define SL_BENCH_MICRO_TCP_HOSTS_H

#include <stdlib.h>
#include "bench.h"
#include "tcp/internal.h"
#include "fake_port.h"

enum { BURST = 32, BURSTS = 200, FRAMES = 4096, MSS = 1448 };

struct host {
	struct sl_umem umem;
	struct sl_fake_port port;
	struct sl_net net;
	struct sl_tcp *tcp;
	struct sl_tcp_conn *conn;
	uint64_t bytes, closed;
	uint64_t entered_ns, busy_ns; /* in our own stack, without the copies between the ports */
};

/* Around what is our own stack's; the bench that includes this counts or takes the time there. */
static void bed_enter(struct host *h);
static void bed_leave(struct host *h);

static struct host host[2];
static uint8_t text[BURST * MSS];
static uint64_t now = SL_NS_PER_SEC;

static void *on_accepted(void *app, struct sl_tcp_conn *c, uint16_t listener,
			 const struct sl_addr *local, const struct sl_addr *remote)
{
	struct host *h = app;

	(void)listener, (void)local, (void)remote;
	h->conn = c;
	return h;
}

static void on_connected(void *handle, struct sl_tcp_conn *c)
{
	((struct host *)handle)->conn = c;
}

static size_t on_data(void *handle, struct sl_chunk *chunk)
{
	((struct host *)handle)->bytes += chunk->len;
	return chunk->len;
}

static void on_fin(void *handle)
{
	struct host *h = handle;

	sl_tcp_close(h->conn);
}

static void on_writable(void *handle)
{
	(void)handle;
}

static void on_closed(void *handle, enum sl_tcp_close_reason why)
{
	(void)why;
	((struct host *)handle)->closed++;
}

static const struct sl_tcp_ops ops = {.accepted = on_accepted,
				      .connected = on_connected,
				      .data = on_data,
				      .fin = on_fin,
				      .writable = on_writable,
				      .closed = on_closed};

static void start(struct host *h, uint8_t side)
{
	struct sl_net_listener l = {.at.port_be = htobe16(80), .at.family = 4, .protocol = 6};
	struct sl_tcp_config cfg;

	if (sl_umem_init(&h->umem, 2048, FRAMES))
		exit(1);
	sl_fake_port_init(&h->port, &h->umem, 0);
	h->port.port.mac[1] = (uint8_t)(side + 1);
	if (sl_net_init(&h->net, &h->umem) || sl_net_add_port(&h->net, &h->port.port) ||
	    sl_net_set_listeners(&h->net, &l, 1))
		exit(1);
	sl_net_set_now(&h->net, now);
	sl_tcp_config_default(&cfg);
	cfg.rcv_buf = 1 << 20;
	cfg.snd_buf = 1 << 20;
	cfg.snd_ahead = 1 << 20; /* a burst is queued before the first window has grown */
	h->tcp = sl_tcp_create(&h->net, &cfg, &ops, h);
	if (!h->tcp)
		exit(1);
}

static void carry(struct host *from, struct host *to)
{
	uint32_t cnt = sl_fake_sent_cnt(&from->port);

	for (uint32_t i = 0; i < cnt; i++) {
		struct sl_frame *f = sl_fake_sent(&from->port, i);

		sl_fake_inject(&to->port, f->data, f->len, 0);
	}
	sl_fake_complete(&from->port, cnt);
}

static void receive(struct host *h)
{
	struct sl_frame *frames[SL_BURST];
	unsigned cnt;

	bed_enter(h);
	while ((cnt = h->port.port.ops->rx_burst(&h->port.port, frames, SL_BURST, now)) > 0)
		sl_net_input(&h->net, frames, cnt, now);
	sl_net_set_now(&h->net, now);
	sl_handover_poll(&h->net);
	sl_tcp_timer(h->tcp);
	sl_tcp_output(h->tcp);
	sl_net_flush(&h->net);
	bed_leave(h);
}

static void exchange(void)
{
	now += 10 * SL_NS_PER_US;
	carry(&host[0], &host[1]);
	receive(&host[1]);
	carry(&host[1], &host[0]);
	receive(&host[0]);
}

static void connect_one(void)
{
	struct sl_addr local = {.addr = {10, 0, 0, 1}, .family = 4};
	struct sl_addr remote = {.addr = {10, 0, 0, 2}, .port_be = htobe16(80), .family = 4};

	sl_net_set_now(&host[0].net, now);
	host[0].conn =
		sl_tcp_connect(host[0].tcp, 0, host[1].port.port.mac, &local, &remote, &host[0]);
	if (!host[0].conn)
		exit(1);
	sl_tcp_output(host[0].tcp);
	sl_net_flush(&host[0].net);
}

static void send_text(struct host *h, size_t len)
{
	bed_enter(h);
	if (sl_tcp_send(h->conn, text, len) != len)
		exit(1);
	sl_tcp_output(h->tcp);
	sl_net_flush(&h->net);
	bed_leave(h);
}

/* Closed by the client; the server forgets it, the client keeps it in TIME-WAIT. */
static void disconnect(void)
{
	sl_tcp_close(host[0].conn);
	sl_tcp_output(host[0].tcp);
	sl_net_flush(&host[0].net);
	exchange();
	exchange();
}

#endif
