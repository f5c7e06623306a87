/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TCP over the fake port: what one segment and one connection cost, Ethernet and IP included. Two
 * stacks exchange frames by copying, which is part of the figures (measured alone in the last row).
 */
#include <stdlib.h>
#include "bench.h"
#include "tcp/internal.h"
#include "xio/fake_port.h"

enum { BURST = 32, BURSTS = 200, FRAMES = 4096, MSS = 1448, CONNS = 512 };

struct host {
	struct sl_umem umem;
	struct sl_fake_port port;
	struct sl_net net;
	struct sl_tcp *tcp;
	struct sl_tcp_conn *conn;
	uint64_t bytes, closed;
	uint64_t busy_ns; /* in our own stack, without the copies between the ports */
};

static struct host host[2];
static uint8_t text[BURST * MSS];
static uint64_t now = SL_NS_PER_SEC;

static void *on_accepted(void *app, struct sl_tcp_conn *c, uint16_t listener,
			 const struct sl_tcp_addr *local, const struct sl_tcp_addr *remote)
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

static void on_closed(void *handle, enum sl_tcp_close why)
{
	(void)why;
	((struct host *)handle)->closed++;
}

static const struct sl_tcp_ops ops = {on_accepted, on_connected, on_data,
				      on_fin,      on_writable,  on_closed};

static void start(struct host *h, uint8_t side)
{
	struct sl_net_listener l = {.port_be = htobe16(80), .family = 4, .protocol = 6};
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
	uint64_t start_ns = sl_now_ns();
	unsigned cnt;

	while ((cnt = h->port.port.ops->rx_burst(&h->port.port, frames, SL_BURST, now)) > 0)
		sl_net_input(&h->net, frames, cnt, now);
	sl_net_set_now(&h->net, now);
	sl_tcp_timer(h->tcp);
	sl_tcp_output(h->tcp);
	sl_net_flush(&h->net);
	h->busy_ns += sl_now_ns() - start_ns;
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
	struct sl_tcp_addr local = {.addr = {10, 0, 0, 1}, .family = 4};
	struct sl_tcp_addr remote = {.addr = {10, 0, 0, 2}, .port_be = htobe16(80), .family = 4};

	sl_net_set_now(&host[0].net, now);
	if (!sl_tcp_connect(host[0].tcp, 0, host[1].port.port.mac, &local, &remote, &host[0]))
		exit(1);
	sl_tcp_output(host[0].tcp);
	sl_net_flush(&host[0].net);
}

static void send_text(struct host *h, size_t len)
{
	uint64_t start_ns = sl_now_ns();

	if (sl_tcp_send(h->conn, text, len) != len)
		exit(1);
	sl_tcp_output(h->tcp);
	sl_net_flush(&h->net);
	h->busy_ns += sl_now_ns() - start_ns;
}

/* Host 0 sends bursts; its time and that of host 1 are taken apart. */
static void bench_segments(size_t payload, const char *sent, const char *received)
{
	double best[2] = {1e18, 1e18};

	for (int round = 0; round < BENCH_ROUNDS; round++) {
		host[0].busy_ns = host[1].busy_ns = 0;
		for (int i = 0; i < BURSTS; i++) {
			host[0].conn->cwnd = 1 << 20;
			send_text(&host[0], BURST * payload);
			exchange();
		}
		for (int i = 0; i < 2; i++) {
			double ns = (double)host[i].busy_ns / BURSTS / BURST;

			best[i] = ns < best[i] ? ns : best[i];
		}
	}
	bench_row(sent, best[0], "ns/op");
	bench_row(received, best[1], "ns/op");
}

/* Small requests, one segment each way: 1 byte keeps copying out of it. */
static void bench_ping(void)
{
	double best = 1e18;

	for (int round = 0; round < BENCH_ROUNDS; round++) {
		host[0].busy_ns = host[1].busy_ns = 0;
		for (int i = 0; i < BURSTS; i++) {
			send_text(&host[0], 1);
			now += 10 * SL_NS_PER_US;
			carry(&host[0], &host[1]);
			send_text(&host[1], 1);
			receive(&host[1]);
			carry(&host[1], &host[0]);
			receive(&host[0]);
		}
		double ns = (double)host[1].busy_ns / BURSTS;

		best = ns < best ? ns : best;
	}
	bench_row("tcp_request_and_reply_1_byte", best, "ns/op");
}

static void bench_connections(void)
{
	double best = 1e18;

	for (int round = 0; round < BENCH_ROUNDS; round++) {
		uint64_t before = host[1].closed;

		host[1].busy_ns = 0;
		for (int i = 0; i < CONNS; i++) {
			connect_one();
			exchange();
			sl_tcp_close(host[0].conn);
			sl_tcp_output(host[0].tcp);
			sl_net_flush(&host[0].net);
			exchange();
			exchange();
		}
		if (host[1].closed - before != CONNS)
			exit(1);
		double ns = (double)host[1].busy_ns / CONNS;

		best = ns < best ? ns : best;
		now += 120 * SL_NS_PER_SEC; /* TIME-WAIT of host 0 */
		exchange();
	}
	bench_row("tcp_connection_set_up_and_torn_down", best, "ns/op");
}

static void bench_flood(void)
{
	struct sl_tcp_stats st;
	double best = 1e18;

	for (int round = 0; round < BENCH_ROUNDS; round++) {
		host[1].busy_ns = 0;
		for (int i = 0; i < 64; i++) {
			now += SL_NS_PER_US;
			connect_one();
			sl_tcp_abort(host[0].conn);
			carry(&host[0], &host[1]);
			receive(&host[1]);
			sl_fake_complete(&host[1].port, UINT32_MAX);
		}
		double ns = (double)host[1].busy_ns / 64;

		best = ns < best ? ns : best;
	}
	sl_tcp_stats(host[1].tcp, &st);
	bench_row("tcp_syn_cookie_sent", best, "ns/op");
}

int main(void)
{
	start(&host[0], 0);
	start(&host[1], 1);
	connect_one();
	exchange();
	bench_segments(MSS, "tcp_segment_sent_1448", "tcp_segment_received_1448");
	bench_ping();
	sl_tcp_close(host[0].conn);
	sl_tcp_output(host[0].tcp);
	sl_net_flush(&host[0].net);
	exchange();
	exchange();
	bench_connections();
	host[1].tcp->cfg.max_half_open = 0;
	bench_flood();
	return 0;
}
