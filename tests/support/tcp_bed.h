/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments in, segments out. The test plays the peer and the application; time moves when it says
 * so.
 *
 *   in(.seq = 1, .len = 100)            the peer sends 100 bytes with ACK; the burst is processed
 *   out(.seq = 1, .ack = 101, .len = 5) the next segment that we sent must be this one
 *   out_none()                          and we sent nothing else
 *
 * Numbers are relative: 0 is the SYN of either side, 1 the first byte. A payload byte at relative
 * number n is pattern(n), in both directions, and both are compared. bed_end() counts frames, those
 * too that each connection was said to hold, and connections.
 */
#ifndef SL_TESTS_TCP_BED_H
#define SL_TESTS_TCP_BED_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include "packet.h"
#include "base/clock.h"
#include "tcp/internal.h"
#include "fake_port.h"

enum { F = SL_TCP_FIN, S = SL_TCP_SYN, R = SL_TCP_RST, P = SL_TCP_PSH, A = SL_TCP_ACK };
enum { BED_FRAMES = 2048, BED_OUT = 4096, ANY = -1 };

#define MS  SL_NS_PER_MS
#define SEC SL_NS_PER_SEC

struct seg {
	uint32_t seq, ack, len;
	uint8_t flags; /* in: 0 means ACK; out: 0 means ACK, PSH ignored */
	int wnd;       /* in: 0 means 65535, ANY means 0; out: 0 is not compared */
	bool no_ack_field;
	/* options; in: as given, except that an open connection's timestamps are added by
	 * themselves */
	uint16_t mss;
	int ws; /* scale + 1; 0 none */
	bool sack_ok;
	bool ts, no_ts;
	uint32_t ts_val, ts_ecr;
	unsigned sacks;
	uint32_t sack[4][2];
	const uint8_t *raw_opt; /* instead of all these */
	size_t raw_opt_len;
	uint16_t sport;
	uint8_t peer;   /* last byte of the peer's address, 0: as pkt_peer_ip */
	uint8_t router; /* last byte of the source MAC, 0: as pkt_peer_mac */
	bool bad_csum, partial_csum, raw_seq, hold, alter;
};

struct app {
	unsigned accepted, connected, fins, closed, writables;
	enum sl_tcp_close_reason why;
	struct sl_tcp_conn *conn; /* the last one */
	uint32_t got;             /* bytes, all like pattern() */
	size_t appetite;          /* bytes that it takes from now on */
	bool refuse, take_frames, close_on_fin, abort_on_data, close_on_data, check_off;
	uint16_t listener;
	struct sl_addr local, remote;
};

struct bed {
	struct sl_umem umem;
	struct sl_fake_port port;
	struct sl_net net;
	struct sl_tcp *tcp;
	struct app app;
	struct sl_tcp_config cfg;
	uint8_t family, vlan_cnt;
	uint32_t peer_isn, our_isn;
	bool know_isn, ts, last_alter;
	int64_t held;              /* frames, as `holds` tells */
	uint32_t peer_ts, last_ts; /* the peer's timestamp; the last one that we echoed */
	struct {
		uint8_t b[2048];
		size_t len;
	} outq[BED_OUT];
	unsigned out_head, out_tail;
};

static struct bed bed;

static inline uint8_t pattern(uint32_t n)
{
	return (uint8_t)(n * 7 + (n >> 8) + 3);
}

static inline void *app_accepted(void *app, struct sl_tcp_conn *c, uint16_t listener,
				 const struct sl_addr *local, const struct sl_addr *remote)
{
	struct app *a = app;

	a->accepted++;
	a->conn = c;
	a->listener = listener;
	a->local = *local;
	a->remote = *remote;
	return a->refuse ? NULL : a;
}

static inline void app_connected(void *handle, struct sl_tcp_conn *c)
{
	struct app *a = handle;

	a->connected++;
	a->conn = c;
}

static inline size_t app_data(void *handle, struct sl_chunk *chunk)
{
	struct app *a = handle;
	size_t n = chunk->len < a->appetite ? chunk->len : a->appetite;

	ck_assert_uint_eq(a->fins, 0);
	for (size_t i = 0; i < n && !a->check_off; i++) {
		if (chunk->ptr[i] != pattern(a->got + 1 + (uint32_t)i))
			ck_abort_msg("byte %zu differs", a->got + i);
	}
	a->got += (uint32_t)n;
	a->appetite -= n;
	if (a->take_frames && n == chunk->len) {
		struct sl_frame *f = chunk->frame;

		ck_assert_int_eq(f->state, SL_FRAME_HELD);
		ck_assert_ptr_eq(f->data, chunk->ptr);
		ck_assert_uint_eq(f->len, chunk->len);
		chunk->frame = NULL;
		sl_frame_put(&bed.umem, f);
	}
	if (a->abort_on_data)
		sl_tcp_abort(a->conn);
	if (a->close_on_data)
		sl_tcp_close(a->conn);
	return n;
}

static inline void app_fin(void *handle)
{
	struct app *a = handle;

	a->fins++;
	if (a->close_on_fin)
		sl_tcp_close(a->conn);
}

static inline void app_writable(void *handle)
{
	((struct app *)handle)->writables++;
}

static inline void app_closed(void *handle, enum sl_tcp_close_reason why)
{
	struct app *a = handle;

	a->closed++;
	a->why = why;
}

static inline void app_holds(void *handle, int32_t frames)
{
	(void)handle;
	bed.held += frames;
}

static const struct sl_tcp_ops app_ops = {
	.accepted = app_accepted,
	.connected = app_connected,
	.data = app_data,
	.fin = app_fin,
	.writable = app_writable,
	.closed = app_closed,
	.holds = app_holds,
};

/*
 * Defaults of the tests: no keep-alive, everything else as in production. Change, then bed_start.
 */
static inline void bed_defaults(void)
{
	memset(&bed, 0, sizeof(bed));
	sl_tcp_config_default(&bed.cfg);
	bed.cfg.max_conns = 64;
	bed.cfg.keepalive_ns = 0;
	bed.family = 4;
	bed.peer_isn = 0xfffffff0; /* wraps soon */
	bed.peer_ts = 1000;
	bed.app.appetite = SIZE_MAX;
}

static inline void bed_start(void)
{
	struct sl_net_listener l[2] = {
		{.at.port_be = htobe16(PKT_OUR_PORT), .at.family = 4, .protocol = 6, .listener = 7},
		{.at.port_be = htobe16(PKT_OUR_PORT), .at.family = 6, .protocol = 6, .listener = 8},
	};

	memcpy(l[0].at.addr, pkt_our_ip4, 16);
	memcpy(l[1].at.addr, pkt_our_ip6, 16);
	ck_assert_int_eq(sl_umem_init(&bed.umem, 2048, BED_FRAMES), 0);
	sl_fake_port_init(&bed.port, &bed.umem, 0);
	ck_assert_int_eq(sl_net_init(&bed.net, &bed.umem), 0);
	ck_assert_int_eq(sl_net_add_port(&bed.net, &bed.port.port), 0);
	ck_assert_int_eq(sl_net_set_listeners(&bed.net, l, 2), 0);
	sl_net_set_now(&bed.net, 5 * SEC);
	bed.tcp = sl_tcp_create(&bed.net, &bed.cfg, &app_ops, &bed.app);
	ck_assert_ptr_nonnull(bed.tcp);
}

/* One turn of output, off the ring, so that frames complete at once. Returns true if more waits. */
static inline bool bed_turn(void)
{
	bool more = sl_tcp_output(bed.tcp);

	sl_net_flush(&bed.net);
	for (uint32_t i = 0; i < sl_fake_sent_cnt(&bed.port); i++) {
		struct sl_frame *f = sl_fake_sent(&bed.port, i);

		ck_assert_uint_lt(bed.out_head - bed.out_tail, BED_OUT);
		memcpy(bed.outq[bed.out_head % BED_OUT].b, f->data, f->len);
		bed.outq[bed.out_head++ % BED_OUT].len = f->len;
	}
	sl_fake_complete(&bed.port, UINT32_MAX);
	return more;
}

static inline void bed_collect(void)
{
	while (bed_turn())
		;
}

static inline void bed_burst(void)
{
	struct sl_frame *frames[SL_BURST];
	unsigned cnt;

	while ((cnt = bed.port.port.ops->rx_burst(&bed.port.port, frames, SL_BURST,
						  bed.net.now_ns)) > 0)
		sl_net_input(&bed.net, frames, cnt, bed.net.now_ns);
	bed_collect();
}

/* Time passes, and timers fire when they are due. */
static inline void after(uint64_t ns)
{
	uint64_t end = bed.net.now_ns + ns;

	for (;;) {
		uint64_t next = sl_tcp_next_ns(bed.tcp);

		if (next > end)
			break;
		if (next > bed.net.now_ns)
			sl_net_set_now(&bed.net, next);
		sl_tcp_timer(bed.tcp);
		bed_collect();
	}
	bed.peer_ts += (uint32_t)(ns / MS);
	sl_net_set_now(&bed.net, end);
}

static inline size_t put_opts(uint8_t *p, const struct seg *s)
{
	struct sl_tcp_opts o = SL_TCP_OPTS_NONE;

	if (s->raw_opt) {
		memcpy(p, s->raw_opt, s->raw_opt_len);
		return s->raw_opt_len;
	}
	o.mss = s->mss;
	o.wscale = (int8_t)(s->ws - 1);
	o.sack_ok = s->sack_ok;
	o.has_ts = s->ts || (bed.ts && !s->no_ts);
	o.ts_val = s->ts_val ? s->ts_val : bed.peer_ts;
	o.ts_ecr = s->ts_ecr ? s->ts_ecr : bed.last_ts;
	o.sack_cnt = (uint8_t)s->sacks;
	for (unsigned i = 0; i < s->sacks; i++) {
		o.sack[i].start = bed.our_isn + s->sack[i][0];
		o.sack[i].end = bed.our_isn + s->sack[i][1];
	}
	return s->flags & S ? sl_tcp_opt_write_syn(p, &o) : sl_tcp_opt_write(p, &o);
}

static inline void build(struct pkt *p, const struct seg *s)
{
	uint8_t bytes[2048], opts[40];
	size_t opt_len = put_opts(opts, s);
	struct pkt_spec spec = {
		.family = bed.family,
		.protocol = PKT_TCP,
		.vlan_cnt = bed.vlan_cnt,
		.sport = s->sport,
		.seq = bed.peer_isn + s->seq,
		.ack = bed.our_isn + s->ack,
		.flags = s->flags ? s->flags : A,
		.payload = bytes,
		.payload_len = opt_len + s->len,
	};
	uint8_t *tcp;

	memcpy(bytes, opts, opt_len);
	for (uint32_t i = 0; i < s->len; i++)
		bytes[opt_len + i] = (uint8_t)(pattern(s->seq + i) ^ (s->alter ? 0xff : 0));
	if (!(spec.flags & A) || s->no_ack_field)
		spec.ack = 0;
	pkt_build(p, &spec);
	tcp = p->b + p->l4;
	tcp[12] = (uint8_t)((20 + opt_len) / 4 << 4);
	sl_put_be16(tcp + 14, s->wnd == ANY ? 0 : s->wnd ? (uint16_t)s->wnd : 65535);
	if (s->router)
		p->b[11] = s->router;
	if (s->peer)
		p->b[p->l3 + (bed.family == 4 ? 15 : 23)] = s->peer;
	pkt_fix_ip(p);
	pkt_fix_l4(p);
	if (s->bad_csum)
		tcp[16] ^= 1;
	if (s->partial_csum)
		pkt_partial_l4(p);
}

static inline void bed_in(const struct seg *s)
{
	struct pkt p;

	build(&p, s);
	ck_assert(sl_fake_inject(&bed.port, p.b, p.len, 0));
	if (!s->hold)
		bed_burst();
}
#define in(...) bed_in(&(struct seg){__VA_ARGS__})

struct got {
	struct seg s;
	const uint8_t *eth;
	size_t l3, l4;
	struct sl_tcp_opts o;
};

/* Takes the next segment that we sent apart; every checksum and length is verified. */
static inline bool next_out(struct got *g)
{
	struct pkt p = {.family = bed.family, .protocol = PKT_TCP};
	const struct sl_tcp_hdr *h;
	size_t hdr_len;

	if (bed.out_tail == bed.out_head)
		return false;
	g->eth = bed.outq[bed.out_tail % BED_OUT].b;
	p.len = bed.outq[bed.out_tail++ % BED_OUT].len;
	memcpy(p.b, g->eth, p.len);
	p.l3 = 14 + 4u * bed.vlan_cnt;
	p.l4 = p.l3 + (bed.family == 4 ? 20 : 40);
	g->l3 = p.l3;
	g->l4 = p.l4;
	ck_assert_uint_eq(sl_get_be16(p.b + p.l3 + (bed.family == 4 ? 2 : 4)),
			  p.len - (bed.family == 4 ? p.l3 : p.l4));
	ck_assert_uint_eq(pkt_sum(p.b + p.l4, p.len - p.l4, pkt_pseudo(&p)), 0xffff);
	h = (const struct sl_tcp_hdr *)(g->eth + p.l4);
	hdr_len = (h->data_off >> 4) * 4u;
	if (!bed.know_isn) {
		bed.our_isn = be32toh(h->seq_be);
		bed.know_isn = true;
	}
	g->o = (struct sl_tcp_opts)SL_TCP_OPTS_NONE;
	ck_assert_int_eq(sl_tcp_opt_parse(g->eth + p.l4 + 20, hdr_len - 20, &g->o), 0);
	g->s = (struct seg){
		.seq = be32toh(h->seq_be) - bed.our_isn,
		.ack = be32toh(h->ack_be) - bed.peer_isn,
		.flags = h->flags,
		.wnd = be16toh(h->wnd_be),
		.len = (uint32_t)(p.len - p.l4 - hdr_len),
	};
	if (g->o.has_ts)
		bed.last_ts = g->o.ts_val;
	for (uint32_t i = 0; i < g->s.len; i++) {
		if (g->eth[p.l4 + hdr_len + i] != pattern(g->s.seq + i))
			ck_abort_msg("sent byte %u differs", g->s.seq + i);
	}
	return true;
}

static inline void bed_out(const struct seg *want, const char *file, int line)
{
	uint8_t flags = want->flags ? want->flags : A;
	struct got g;

	if (!next_out(&g))
		ck_abort_msg("%s:%d: nothing was sent", file, line);
	if (g.s.seq != want->seq || ((flags & A) && g.s.ack != want->ack) || g.s.len != want->len ||
	    (g.s.flags & ~P) != (flags & ~P))
		ck_abort_msg(
			"%s:%d: want seq %u ack %u len %u flags %02x, sent seq %u ack %u len %u "
			"flags %02x",
			file, line, want->seq, want->ack, want->len, flags, g.s.seq, g.s.ack,
			g.s.len, g.s.flags);
	if (want->wnd && g.s.wnd != (want->wnd == ANY ? 0 : want->wnd))
		ck_abort_msg("%s:%d: want wnd %d, sent %d", file, line, want->wnd, g.s.wnd);
	if (want->sacks || want->sack[0][1]) {
		ck_assert_uint_eq(g.o.sack_cnt, want->sacks);
		for (unsigned i = 0; i < want->sacks; i++) {
			ck_assert_uint_eq(g.o.sack[i].start - bed.peer_isn, want->sack[i][0]);
			ck_assert_uint_eq(g.o.sack[i].end - bed.peer_isn, want->sack[i][1]);
		}
	}
}
#define out(...) bed_out(&(struct seg){__VA_ARGS__}, __FILE__, __LINE__)

static inline void bed_out_none(const char *file, int line)
{
	struct got g;

	if (next_out(&g))
		ck_abort_msg("%s:%d: sent seq %u ack %u len %u flags %02x", file, line, g.s.seq,
			     g.s.ack, g.s.len, g.s.flags);
}
#define out_none() bed_out_none(__FILE__, __LINE__)

/* Throws away what we sent; returns how many segments. */
static inline unsigned out_skip(void)
{
	struct got g;
	unsigned cnt = 0;

	while (next_out(&g))
		cnt++;
	return cnt;
}

static inline uint64_t drops(enum sl_drop why)
{
	return bed.net.drops[why];
}

static inline struct sl_tcp_stats stats(void)
{
	struct sl_tcp_stats st;

	sl_tcp_stats(bed.tcp, &st);
	return st;
}

/* Sends pattern bytes from relative number `seq` on. */
static inline size_t app_send(uint32_t seq, size_t len)
{
	uint8_t *buf = malloc(len);
	size_t took;

	for (size_t i = 0; i < len; i++)
		buf[i] = pattern(seq + (uint32_t)i);
	took = sl_tcp_send(bed.app.conn, buf, len);
	free(buf);
	return took;
}

static inline void app_sends(uint32_t seq, size_t len)
{
	ck_assert_uint_eq(app_send(seq, len), len);
	bed_collect();
}

/* A connection with nothing negotiated but an MSS of 1000. */
static inline void open_plain(void)
{
	in(.flags = S, .mss = 1000);
	out(.flags = S | A, .ack = 1);
	in(.seq = 1, .ack = 1);
	ck_assert_uint_eq(bed.app.accepted, 1);
	out_none();
}

/* As Linux opens: MSS 1460, SACK, timestamps, scale 7. MSS in effect: 1448. */
static inline void open_full(void)
{
	in(.flags = S, .mss = 1460, .sack_ok = true, .ts = true, .ws = 8);
	out(.flags = S | A, .ack = 1);
	bed.ts = true;
	in(.seq = 1, .ack = 1);
	ck_assert_uint_eq(bed.app.accepted, 1);
	out_none();
}

/* SACK without timestamps, MSS 1000, round trip 100 ms. */
static inline void open_sack(void)
{
	in(.flags = S, .mss = 1000, .sack_ok = true, .ws = 1);
	out(.flags = S | A, .ack = 1);
	after(100 * MS);
	in(.seq = 1, .ack = 1);
	ck_assert_uint_eq(bed.app.accepted, 1);
	out_none();
}

static inline void bed_end(void)
{
	uint32_t census[SL_FRAME_STATE_CNT];
	int64_t held = 0;

	for (uint32_t i = 0; i < sl_mempool_capacity(&bed.tcp->conns); i++) {
		const struct sl_tcp_conn *c = sl_mempool_at(&bed.tcp->conns, i);

		if (sl_mempool_in_use(&bed.tcp->conns, i) && c->state != SL_TCPS_CLOSED &&
		    c->handle)
			held += sl_tcp_held_frames(c);
	}
	ck_assert_int_eq(bed.held, held);
	sl_tcp_destroy(bed.tcp);
	sl_net_flush(&bed.net);
	sl_fake_complete(&bed.port, UINT32_MAX);
	sl_umem_census(&bed.umem, census);
	ck_assert_uint_eq(census[SL_FRAME_FREE], BED_FRAMES);
	sl_net_fini(&bed.net);
	sl_umem_fini(&bed.umem);
}

static inline uint32_t frames_free(void)
{
	return bed.umem.free_cnt;
}

static inline void setup(void)
{
	bed_defaults();
	bed_start();
}

/* Changes the configuration of a test, between bed_defaults() and bed_start(). */
#define reconfigure(...)                                                                           \
	do {                                                                                       \
		bed_end();                                                                         \
		bed_defaults();                                                                    \
		__VA_ARGS__;                                                                       \
		bed_start();                                                                       \
	} while (0)

#endif
