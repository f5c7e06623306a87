/* SPDX-License-Identifier: Apache-2.0 */
/* TCP over the fake port: what one segment and one connection cost, Ethernet and IP included. */
#include "tcp_hosts.h"

enum { CONNS = 512 };

static void bed_enter(struct host *h)
{
	h->entered_ns = sl_now_ns();
}

static void bed_leave(struct host *h)
{
	h->busy_ns += sl_now_ns() - h->entered_ns;
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
			disconnect();
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
	disconnect();
	bench_connections();
	host[1].tcp->cfg.max_half_open = 0;
	bench_flood();
	return 0;
}
