/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two stacks back to back over a seeded link. The applications of both sides send a pattern, check
 * what they get, and stop reading now and then.
 */
#ifndef SL_TESTS_STACK_TCP_SIM_H
#define SL_TESTS_STACK_TCP_SIM_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/clock.h"
#include "tcp/internal.h"
#include "fake_link.h"

struct sim_peer {
	struct sim_host *host;
	struct sl_tcp_conn *conn;
	uint64_t tx_seed, rx_seed;
	uint64_t tx_len, tx_off;
	uint64_t rx_len, rx_off;
	bool fin_in, shut, closed, stalled, lazy;
	enum sl_tcp_close_reason why;
	uint64_t done_ns;
};

struct sim_host {
	struct sl_umem umem;
	struct sl_fake_port port;
	struct sl_net net;
	struct sl_tcp *tcp;
	struct sl_prng prng;
	struct sim_peer *accepts; /* becomes the next accepted connection */
	struct sim_peer peer;
};

struct sim {
	struct sim_host host[2]; /* 0: client, 1: server */
	struct sl_fake_link link;
	uint64_t now_ns;
};

static inline uint8_t sim_byte(uint64_t seed, uint64_t off)
{
	uint64_t x = (off + seed) * UINT64_C(0x9e3779b97f4a7c15);

	return (uint8_t)(x >> 56 ^ x >> 24);
}

static inline void sim_write(struct sim_peer *p)
{
	uint8_t buf[4096];

	while (p->conn && p->tx_off < p->tx_len) {
		size_t n =
			p->tx_len - p->tx_off < sizeof(buf) ? p->tx_len - p->tx_off : sizeof(buf);
		size_t took;

		for (size_t i = 0; i < n; i++)
			buf[i] = sim_byte(p->tx_seed, p->tx_off + i);
		took = sl_tcp_send(p->conn, buf, n);
		p->tx_off += took;
		if (took < n)
			return;
	}
	if (p->conn && p->tx_off == p->tx_len && !p->shut) {
		p->shut = true;
		sl_tcp_shutdown(p->conn);
	}
}

static inline void *sim_accepted(void *app, struct sl_tcp_conn *c, uint16_t listener,
				 const struct sl_addr *local, const struct sl_addr *remote)
{
	struct sim_host *h = app;
	struct sim_peer *p = h->accepts;

	(void)listener, (void)local, (void)remote;
	if (!p)
		return NULL;
	p->conn = c;
	sim_write(p);
	return p;
}

static inline void sim_connected(void *handle, struct sl_tcp_conn *c)
{
	struct sim_peer *p = handle;

	p->conn = c;
	sim_write(p);
}

static inline size_t sim_data(void *handle, struct sl_chunk *chunk)
{
	struct sim_peer *p = handle;
	size_t n = chunk->len;

	/* libcheck pays with a system call for each assertion that it hears of. */
	if (p->fin_in)
		ck_abort_msg("data after fin");
	if (p->lazy && sl_prng_below(&p->host->prng, 16) == 0) {
		n = (size_t)sl_prng_below(&p->host->prng, n);
		p->stalled = true;
	}
	for (size_t i = 0; i < n; i++) {
		if (chunk->ptr[i] != sim_byte(p->rx_seed, p->rx_off + i))
			ck_abort_msg("byte %llu differs", (unsigned long long)(p->rx_off + i));
	}
	p->rx_off += n;
	if (p->rx_off == p->rx_len)
		p->done_ns = p->host->net.now_ns;
	if (n == chunk->len && (p->rx_off & 1)) { /* sometimes keep the frame for a moment */
		struct sl_frame *f = chunk->frame;

		chunk->frame = NULL;
		sl_frame_put(&p->host->umem, f);
	}
	return n;
}

static inline void sim_fin(void *handle)
{
	struct sim_peer *p = handle;

	ck_assert(!p->fin_in);
	p->fin_in = true;
}

static inline void sim_writable(void *handle)
{
	sim_write(handle);
}

static inline void sim_closed(void *handle, enum sl_tcp_close_reason why)
{
	struct sim_peer *p = handle;

	ck_assert(!p->closed);
	p->closed = true;
	p->why = why;
	p->conn = NULL;
}

static const struct sl_tcp_ops sim_ops = {
	.accepted = sim_accepted,
	.connected = sim_connected,
	.data = sim_data,
	.fin = sim_fin,
	.writable = sim_writable,
	.closed = sim_closed,
};

static inline void sim_host_init(struct sim_host *h, uint8_t side, uint64_t seed,
				 const struct sl_tcp_config *cfg, uint32_t frames)
{
	struct sl_net_listener l = {.at.port_be = htobe16(80), .at.family = 4, .protocol = 6};

	ck_assert_int_eq(sl_umem_init(&h->umem, 2048, frames), 0);
	sl_fake_port_init(&h->port, &h->umem, 0);
	h->port.port.mac[1] = (uint8_t)(side + 1);
	ck_assert_int_eq(sl_net_init(&h->net, &h->umem), 0);
	ck_assert_int_eq(sl_net_add_port(&h->net, &h->port.port), 0);
	ck_assert_int_eq(sl_net_set_listeners(&h->net, &l, 1), 0);
	sl_prng_seed(&h->prng, seed * 2 + side);
	sl_net_set_now(&h->net, 1000000000);
	h->tcp = sl_tcp_create(&h->net, cfg, &sim_ops, h);
	ck_assert_ptr_nonnull(h->tcp);
	h->peer = (struct sim_peer){
		.host = h, .tx_seed = seed * 2 + side, .rx_seed = seed * 2 + !side};
	h->accepts = &h->peer;
}

static inline void sim_init(struct sim *s, const struct sl_fake_link_config *link, uint64_t seed,
			    const struct sl_tcp_config *cfg, uint32_t frames)
{
	*s = (struct sim){.now_ns = 1000000000};
	sim_host_init(&s->host[0], 0, seed, cfg, frames);
	sim_host_init(&s->host[1], 1, seed, cfg, frames);
	ck_assert_int_eq(
		sl_fake_link_init(&s->link, &s->host[0].port, &s->host[1].port, link, 2048, seed),
		0);
}

static inline void sim_connect(struct sim *s)
{
	struct sl_addr local = {.addr = {10, 0, 0, 1}, .family = 4};
	struct sl_addr remote = {.addr = {10, 0, 0, 2}, .port_be = htobe16(80), .family = 4};
	struct sim_host *h = &s->host[0];

	ck_assert_ptr_nonnull(
		sl_tcp_connect(h->tcp, 0, s->host[1].port.port.mac, &local, &remote, &h->peer));
}

static inline void sim_run_host(struct sim_host *h, uint64_t now)
{
	struct sl_frame *frames[SL_BURST];
	unsigned cnt;

	sl_net_set_now(&h->net, now);
	while ((cnt = h->port.port.ops->rx_burst(&h->port.port, frames, SL_BURST, now)) > 0)
		sl_net_input(&h->net, frames, cnt, now);
	sl_tcp_timer(h->tcp);
	if (h->peer.stalled && h->peer.conn && sl_prng_below(&h->prng, 4) == 0) {
		h->peer.stalled = false;
		sl_tcp_resume(h->peer.conn);
	}
	sl_tcp_output(h->tcp);
	sl_net_flush(&h->net);
}

/* One event; false when nothing is left to happen. */
static inline bool sim_step(struct sim *s)
{
	uint64_t next = sl_fake_link_next_ns(&s->link);

	for (int i = 0; i < 2; i++) {
		uint64_t t = sl_tcp_next_ns(s->host[i].tcp);

		if (t < next)
			next = t;
		if (s->host[i].peer.stalled && s->now_ns + 1000000 < next)
			next = s->now_ns + 1000000;
	}
	if (next == UINT64_MAX)
		return false;
	if (next > s->now_ns)
		s->now_ns = next;
	sl_fake_link_step(&s->link, s->now_ns);
	sim_run_host(&s->host[0], s->now_ns);
	sim_run_host(&s->host[1], s->now_ns);
	sl_fake_link_step(&s->link, s->now_ns);
	return true;
}

static inline void sim_print_drops(const struct sim *s)
{
	static const char *const names[] = {
#define X(name, metric, help) metric,
		SL_DROPS(X)
#undef X
	};

	for (int i = 0; i < 2; i++) {
		for (int d = 0; d < SL_DROP_CNT; d++) {
			if (s->host[i].net.drops[d])
				fprintf(stderr, "host %d dropped %llu: %s\n", i,
					(unsigned long long)s->host[i].net.drops[d], names[d]);
		}
	}
}

/* Nothing may be left: neither connections nor frames. */
static inline void sim_fini(struct sim *s)
{
	for (int i = 0; i < 2; i++) {
		struct sim_host *h = &s->host[i];
		uint32_t census[SL_FRAME_STATE_CNT];

		sl_tcp_destroy(h->tcp);
		sl_net_flush(&h->net);
		sl_fake_complete(&h->port, UINT32_MAX);
		sl_umem_census(&h->umem, census);
		ck_assert_uint_eq(census[SL_FRAME_FREE], h->umem.frame_cnt);
		sl_net_fini(&h->net);
	}
	sl_fake_link_fini(&s->link);
	sl_umem_fini(&s->host[0].umem);
	sl_umem_fini(&s->host[1].umem);
}

#endif
