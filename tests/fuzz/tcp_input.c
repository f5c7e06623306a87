/* SPDX-License-Identifier: Apache-2.0 */
// FUZZ_LDFLAGS: -Itests/support tests/support/fake_port.c
/* fuzz: max_len=2048 */
/*
 * Frames through eth, ip and tcp towards connections in all states, with an application that sends,
 * stalls, closes and aborts, and a clock. After every step the books of every connection must agree
 * with what is in its queues, and in the end every frame must be free.
 *
 * Input: one byte of options, then steps: a byte of kind and target, then what the kind needs
 * (missing bytes are 0). Numbers of segments count from what the connection expects, so that most
 * of them get in.
 */
#include <stdio.h>
#include <stdlib.h>
#include "base/bytes.h"
#include "base/clock.h"
#include "tcp/internal.h"
#include "wire/csum.h"
#include "wire/eth.h"
#include "wire/ip6.h"
#include "fake_port.h"

enum {
	OPT_IP6 = 1,
	OPT_COOKIES = 4,
	OPT_SMALL = 8,
	OPT_KEEPALIVE = 16,
	FRAMES = 512,
	SLOTS = 16,
};

struct reader {
	const uint8_t *p;
	size_t left;
};

struct peer {
	struct sl_tcp_conn *conn; /* NULL: none, or half-open */
	uint32_t seq, ack;        /* last segment seen from us: what to answer */
	size_t appetite;
};

static struct sl_umem umem;
static struct sl_fake_port port;
static struct sl_net net;
static struct sl_tcp *tcp;
static struct peer peers[SLOTS];
static uint8_t family;
static bool ready;

static const uint8_t our_mac[6] = {2, 0, 0, 0, 0, 1}, peer_mac[6] = {2, 0, 0, 0, 0, 9};
static const uint8_t our_ip[16] = {192, 0, 2, 1}, peer_ip[16] = {198, 51, 100, 7};
static const uint8_t our_ip6[16] = {0x20, 1, 0xd, 0xb8, [15] = 1};
static const uint8_t peer_ip6[16] = {0x20, 1, 0xd, 0xb8, [15] = 7};

/* The checks are no part of what is explored. */
#define UNTRACED __attribute__((no_sanitize("coverage")))

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

UNTRACED static void require(int cond, const char *what)
{
	if (cond)
		return;
	fprintf(stderr, "tcp_input: %s\n", what);
	abort();
}

static uint8_t get8(struct reader *r)
{
	if (!r->left)
		return 0;
	r->left--;
	return *r->p++;
}

static uint16_t get16(struct reader *r)
{
	uint16_t low = get8(r);

	return (uint16_t)(low | get8(r) << 8);
}

static struct peer *peer_at(uint16_t port_be)
{
	return &peers[be16toh(port_be) % SLOTS];
}

static void *on_accepted(void *app, struct sl_tcp_conn *c, uint16_t listener,
			 const struct sl_addr *local, const struct sl_addr *remote)
{
	struct peer *p = peer_at(remote->port_be);

	(void)app, (void)listener, (void)local;
	if (p->conn) /* raw frames can come from any port */
		return NULL;
	p->conn = c;
	p->appetite = SIZE_MAX;
	return p;
}

static void on_connected(void *handle, struct sl_tcp_conn *c)
{
	(void)handle, (void)c;
}

static size_t on_data(void *handle, struct sl_chunk *chunk)
{
	struct peer *p = handle;
	size_t n = chunk->len < p->appetite ? chunk->len : p->appetite;

	require(p->conn != NULL, "data after the end");
	p->appetite -= n;
	uint8_t first = n ? chunk->ptr[0] : 0;

	if (n == chunk->len && (n & 3) == 1) {
		struct sl_frame *f = chunk->frame;

		chunk->frame = NULL;
		sl_frame_put(&umem, f);
	}
	if ((first & 0x1f) == 0x11)
		sl_tcp_resume(p->conn);
	if (first == 0xee)
		sl_tcp_close(p->conn);
	if (first == 0xff) {
		sl_tcp_abort(p->conn);
		p->conn = NULL;
	}
	return n;
}

static void on_fin(void *handle)
{
	require(((struct peer *)handle)->conn != NULL, "fin after the end");
}

static void on_writable(void *handle)
{
	struct peer *p = handle;

	(void)sl_tcp_send(p->conn, "0123456789", 10);
}

static void on_closed(void *handle, enum sl_tcp_close_reason why)
{
	struct peer *p = handle;

	(void)why;
	require(p->conn != NULL, "closed twice");
	p->conn = NULL;
}

static const struct sl_tcp_ops ops = {
	.accepted = on_accepted,
	.connected = on_connected,
	.data = on_data,
	.fin = on_fin,
	.writable = on_writable,
	.closed = on_closed,
};

UNTRACED static void check_send_queue(const struct sl_tcp_conn *c)
{
	uint32_t sacked = 0, lost = 0, retx = 0, cnt = 0, seq = c->snd_una;
	bool sent = true;

	for (struct sl_frame *f = frame_of(tcp, c->txq_head); f; f = f->next) {
		if (frame_link(f) == c->txq_send) {
			require(seq == c->snd_nxt, "snd_nxt");
			sent = false;
		}
		require(f->seq == seq, "hole in the send queue");
		require(f->state == SL_FRAME_UNACKED || f->state == SL_FRAME_TX, "frame state");
		require(f->retain, "not retained");
		seq = txf_end(f);
		cnt++;
		if (f->flags & SL_TXF_SACKED)
			sacked += txf_len(f);
		if (f->flags & SL_TXF_LOST)
			lost += txf_len(f);
		if (f->flags & SL_TXF_RETX)
			retx += txf_len(f);
		require(sent || !(f->flags & ~SL_TXF_FIN), "flags of an unsent frame");
	}
	if (sent && c->state >= SL_TCPS_ESTABLISHED)
		require(seq == c->snd_nxt && !c->txq_send, "snd_nxt at the end");
	if (c->state >= SL_TCPS_ESTABLISHED)
		require(seq == c->snd_end, "snd_end");
	require(cnt == c->txq_cnt, "txq_cnt");
	require(lost == c->lost_out && retx == c->retrans_out, "lost or repeated bytes");
	if (c->flags & SL_TCPF_SACK)
		require(sacked == c->sacked_out, "sacked bytes");
}

UNTRACED static void check_receive_queues(const struct sl_tcp_conn *c)
{
	uint32_t bytes = 0, cnt = 0, edge = c->rcv_nxt;

	for (struct sl_frame *f = frame_of(tcp, c->rxq_head); f; f = f->next) {
		require(f->state == SL_FRAME_HELD && f->len, "unread frame");
		bytes += f->len;
	}
	require(bytes == c->rcv_queued, "rcv_queued");
	for (struct sl_frame *f = frame_of(tcp, c->ooo_head); f; f = f->next, cnt++) {
		require(f->state == SL_FRAME_HELD && (f->len || f->flags), "frame behind a hole");
		require(cnt ? sl_seq_geq(f->seq, edge) : sl_seq_gt(f->seq, edge), "order");
		edge = f->seq + f->len;
	}
	require(cnt == c->ooo_cnt, "ooo_cnt");
	require(c->state < SL_TCPS_ESTABLISHED || sl_seq_leq(edge, c->rcv_adv) || !cnt,
		"beyond the window");
}

/* All live connections stand in the flow table. */
UNTRACED static void check_books(void)
{
	uint32_t ooo = 0, conns = 0, half_open = 0;

	for (uint32_t i = 0; i <= tcp->flows.mask + tcp->flows.split; i++) {
		for (int k = 0; k < SL_FLOW_SLOTS; k++) {
			struct sl_flow_entry *e = &tcp->flows.buckets[i].slot[k];
			struct sl_tcp_conn *c;

			if (!e->hash || e->value >= SL_TCP_TW_BASE)
				continue;
			c = conn_of(tcp, e->value + 1);
			require(c->state != SL_TCPS_CLOSED, "dead in the flow table");
			check_send_queue(c);
			check_receive_queues(c);
			require(c->cwnd > 0 || c->state < SL_TCPS_ESTABLISHED, "cwnd");
			ooo += c->ooo_cnt;
			conns++;
			if (c->state == SL_TCPS_SYN_RCVD && !(c->flags & SL_TCPF_ACTIVE))
				half_open++;
			/* A connection with bytes in flight has a timer for them. */
			require(c->snd_una == c->snd_nxt || (c->flags & SL_TCPF_DIRTY) ||
					(c->rtx_at && sl_timer_pending(&c->timer)),
				"no timer");
		}
	}
	require(ooo == tcp->ooo_total, "ooo_total");
	require(conns == tcp->conn_cnt, "conn_cnt");
	require(half_open == tcp->half_open, "half_open");
}

/* Learns from what we sent what a peer would answer. */
static void observe(const struct sl_frame *f)
{
	size_t l3 = 14, l4 = l3 + (family == 4 ? 20 : 40);
	const struct sl_tcp_hdr *h = (const struct sl_tcp_hdr *)(f->data + l4);
	struct peer *p = peer_at(h->dport_be);

	require(f->len >= l4 + SL_TCP_HDR_MIN, "short frame");
	require(f->len <= 1514, "frame over the MTU");
	p->seq = be32toh(h->ack_be);
	p->ack = be32toh(h->seq_be) + (uint32_t)(f->len - l4 - (h->data_off >> 4) * 4u) +
		 ((h->flags & (SL_TCP_SYN | SL_TCP_FIN)) ? 1u : 0u);
}

static void flush(bool complete)
{
	sl_tcp_output(tcp);
	sl_net_flush(&net);
	for (uint32_t i = 0; i < sl_fake_sent_cnt(&port); i++)
		observe(sl_fake_sent(&port, i));
	if (complete)
		sl_fake_complete(&port, UINT32_MAX);
}

static void burst(void)
{
	struct sl_frame *frames[SL_BURST];
	unsigned cnt;

	while ((cnt = port.port.ops->rx_burst(&port.port, frames, SL_BURST, net.now_ns)) > 0)
		sl_net_input(&net, frames, cnt, net.now_ns);
}

static void inject(const uint8_t *bytes, size_t len)
{
	(void)sl_fake_inject(&port, bytes, len, 0);
}

static size_t put_headers(uint8_t *b, size_t tcp_len)
{
	size_t l3 = sl_eth_write(b, our_mac, peer_mac, NULL, 0,
				 family == 4 ? SL_ETHERTYPE_IP4 : SL_ETHERTYPE_IP6);

	if (family == 4) {
		struct sl_ip4_hdr *ip = (struct sl_ip4_hdr *)(b + l3);
		uint32_t src, dst;

		memcpy(&src, peer_ip, 4);
		memcpy(&dst, our_ip, 4);
		sl_ip4_write(ip, src, dst, SL_IP_PROTO_TCP, (uint16_t)tcp_len, 0, true);
		sl_csum_ip4_fill(ip, sizeof(*ip));
		return l3 + sizeof(*ip);
	}
	sl_ip6_write((struct sl_ip6_hdr *)(b + l3), peer_ip6, our_ip6, SL_IP_PROTO_TCP,
		     (uint16_t)tcp_len);
	return l3 + sizeof(struct sl_ip6_hdr);
}

/* From the IP header that put_headers() wrote. */
static uint64_t pseudo_of(const uint8_t *l3, size_t tcp_len)
{
	const struct sl_ip4_hdr *ip4 = (const struct sl_ip4_hdr *)l3;
	const struct sl_ip6_hdr *ip6 = (const struct sl_ip6_hdr *)l3;

	return family == 4
		       ? sl_csum_pseudo4(ip4->src_be, ip4->dst_be, SL_IP_PROTO_TCP,
					 (uint32_t)tcp_len)
		       : sl_csum_pseudo6(ip6->src, ip6->dst, SL_IP_PROTO_TCP, (uint32_t)tcp_len);
}

static void send_segment(unsigned slot, uint8_t flags, uint32_t seq, uint32_t ack, uint16_t wnd,
			 const uint8_t *opts, size_t opt_len, const uint8_t *payload, size_t len)
{
	uint8_t b[2048];
	size_t tcp_len = SL_TCP_HDR_MIN + opt_len + len, l4 = put_headers(b, tcp_len);
	struct sl_tcp_hdr *h = (struct sl_tcp_hdr *)(b + l4);

	sl_tcp_write(h, htobe16((uint16_t)(1024 + slot)), htobe16(80), seq, ack, flags, wnd,
		     opt_len);
	if (opt_len)
		memcpy(b + l4 + SL_TCP_HDR_MIN, opts, opt_len);
	if (len)
		memcpy(b + l4 + SL_TCP_HDR_MIN + opt_len, payload, len);
	h->csum_be = 0;
	h->csum_be = sl_csum_finish(sl_csum_add(h, tcp_len, pseudo_of(b + 14, tcp_len)));
	inject(b, l4 + tcp_len);
}

/* Options: some of the usual ones, or whatever bytes there are. */
static size_t choose_options(struct reader *r, uint8_t how, unsigned slot, uint8_t flags,
			     uint8_t *out)
{
	struct sl_tcp_opts o = SL_TCP_OPTS_NONE;
	uint32_t base = peers[slot].conn ? peers[slot].conn->snd_una : peers[slot].ack;

	if (how & 0x80) {
		size_t len = how & 0x24u;

		for (size_t i = 0; i < len; i++)
			out[i] = get8(r);
		return len;
	}
	o.has_ts = how & 1;
	o.ts_val = (uint32_t)(net.now_ns / SL_NS_PER_MS) + (uint32_t)(int8_t)get8(r);
	o.ts_ecr = peers[slot].conn ? ts_clock(tcp, peers[slot].conn->ts_off) - get8(r) : 0;
	if (flags & SL_TCP_SYN) {
		o.mss = get16(r);
		o.wscale = (int8_t)(how & 2 ? get8(r) & 15 : -1);
		o.wscale = o.wscale > 14 ? 14 : o.wscale;
		o.sack_ok = how & 4;
		return sl_tcp_opt_write_syn(out, &o);
	}
	o.sack_cnt = (uint8_t)(how >> 3 & 3);
	for (unsigned i = 0; i < o.sack_cnt; i++) {
		o.sack[i].start = base + (uint32_t)(int16_t)get16(r);
		o.sack[i].end = o.sack[i].start + get16(r);
	}
	return sl_tcp_opt_write(out, &o);
}

static void step_segment(struct reader *r, unsigned slot)
{
	uint8_t flags = get8(r), how = get8(r), opts[SL_TCP_OPT_MAX], payload[1400];
	struct peer *p = &peers[slot];
	uint32_t seq = (p->conn ? p->conn->rcv_nxt : p->seq) + (uint32_t)(int16_t)get16(r);
	uint32_t ack = (p->conn ? p->conn->snd_nxt : p->ack) + (uint32_t)(int16_t)get16(r);
	uint16_t wnd = get16(r);
	size_t len = get16(r) % sizeof(payload);
	size_t opt_len = choose_options(r, how, slot, flags, opts);

	memset(payload, get8(r), len);
	send_segment(slot, flags, seq, ack, wnd, opts, opt_len, payload, len);
}

static void step_raw(struct reader *r)
{
	uint8_t b[512];
	size_t len = get8(r) * 2u;

	for (size_t i = 0; i < len; i++)
		b[i] = get8(r);
	inject(b, len);
}

static void step_icmp(struct reader *r, unsigned slot)
{
	struct sl_tcp_conn *c = peers[slot].conn;
	uint8_t ip[40] = {0}, l4[8];

	if (!c)
		return;
	ip[0] = family == 4 ? 0x45 : 0x60;
	memcpy(ip + (family == 4 ? 12 : 8), c->path.local, family == 4 ? 4 : 16);
	memcpy(ip + (family == 4 ? 16 : 24), c->path.remote, family == 4 ? 4 : 16);
	memcpy(l4, &c->local_port_be, 2);
	memcpy(l4 + 2, &c->remote_port_be, 2);
	sl_put_be32(l4 + 4, c->snd_una + get8(r));
	net.tcp.icmp_error(net.tcp.ctx, ip, l4, get16(r) % 2000, get8(r) & 1);
}

static void step_connect(unsigned slot)
{
	struct sl_addr local = {.family = family, .port_be = htobe16(80)};
	struct sl_addr remote = {.family = family, .port_be = htobe16((uint16_t)(1024 + slot))};
	struct peer *p = &peers[slot];

	if (p->conn)
		return;
	memcpy(local.addr, family == 4 ? our_ip : our_ip6, 16);
	memcpy(remote.addr, family == 4 ? peer_ip : peer_ip6, 16);
	p->appetite = SIZE_MAX;
	p->conn = sl_tcp_connect(tcp, 0, peer_mac, &local, &remote, p);
}

static void step_app(struct reader *r, unsigned slot, unsigned kind)
{
	static const uint8_t zeros[20000];
	struct peer *p = &peers[slot];

	if (!p->conn)
		return;
	switch (kind) {
	case 0: (void)sl_tcp_send(p->conn, zeros, get16(r) % sizeof(zeros)); break;
	case 1: (void)sl_tcp_send_head(p->conn, zeros, get16(r) % 3000); break;
	case 2: p->appetite = get16(r); break;
	case 3:
		p->appetite = p->appetite > SIZE_MAX - 65536 ? p->appetite : p->appetite + get16(r);
		sl_tcp_resume(p->conn);
		break;
	case 4: sl_tcp_shutdown(p->conn); break;
	case 5: sl_tcp_close(p->conn); break;
	case 6:
		sl_tcp_abort(p->conn);
		p->conn = NULL;
		break;
	default: break;
	}
}

static void pass_time(uint64_t ns)
{
	uint64_t end = net.now_ns + ns;

	for (int i = 0; i < 64 && sl_tcp_next_ns(tcp) <= end; i++) {
		uint64_t next = sl_tcp_next_ns(tcp);

		if (next > net.now_ns)
			sl_net_set_now(&net, next);
		sl_tcp_timer(tcp);
		flush(true);
	}
	sl_net_set_now(&net, end);
	sl_tcp_timer(tcp);
}

static void step(struct reader *r)
{
	uint8_t op = get8(r);
	unsigned slot = op & 15, kind = op >> 4;

	switch (kind) {
	case 0:
	case 1:
	case 2:
	case 3: step_segment(r, slot); break;
	case 4: step_raw(r); break;
	case 5: pass_time(get16(r) * SL_NS_PER_MS / 4); break;
	case 6: pass_time(get8(r) * SL_NS_PER_SEC); break;
	case 7: step_connect(slot); break;
	case 8: step_icmp(r, slot); break;
	default: step_app(r, slot, kind - 9); break;
	}
	if (kind < 5 && (op & 0x10)) /* part of a burst */
		return;
	burst();
	port.tx_room = op == 0x57 ? 1 : SL_FAKE_RING;
	flush(!(op & 1) || kind != 5);
	check_books();
}

/* Slots 0..5: established with everything, plain, half-open, closing, half-closed, with a hole. */
static void open_some(void)
{
	static const uint8_t full[20] = {2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0,
					 0, 1, 0, 0,    0, 0, 1, 3,  3, 7};
	static const uint8_t ts[12] = {1, 1, 8, 10, 0, 0, 0, 2, 0, 0, 0, 0};
	static const uint8_t text[100];

	for (unsigned i = 0; i < 6; i++) {
		bool with = i != 1;

		send_segment(i, SL_TCP_SYN, 1000 * i - 10, 0, 20000, full, with ? 20 : 0, NULL, 0);
		burst();
		flush(true);
		if (i == 2)
			continue;
		send_segment(i, SL_TCP_ACK, peers[i].seq, peers[i].ack, 20000, ts, with ? 12 : 0,
			     NULL, 0);
		burst();
		flush(true);
		if (!peers[i].conn)
			continue;
		if (i == 3)
			sl_tcp_close(peers[i].conn);
		if (i == 4)
			send_segment(i, SL_TCP_ACK | SL_TCP_FIN, peers[i].seq, peers[i].ack, 500,
				     ts, 12, text, 50);
		if (i == 5)
			send_segment(i, SL_TCP_ACK, peers[i].seq + 50, peers[i].ack, 5000, ts, 12,
				     text, 50);
		if (i != 3)
			(void)sl_tcp_send(peers[i].conn, text, sizeof(text));
		burst();
		flush(true);
	}
}

static void start(uint8_t options)
{
	struct sl_net_listener l[2] = {
		{.at.port_be = htobe16(80), .at.family = 4, .protocol = SL_IP_PROTO_TCP},
		{.at.port_be = htobe16(80), .at.family = 6, .protocol = SL_IP_PROTO_TCP},
	};
	struct sl_tcp_config cfg;

	if (!ready) {
		require(!sl_umem_init(&umem, 2048, FRAMES), "umem");
		ready = true;
	}
	sl_fake_port_init(&port, &umem, 0);
	require(!sl_net_init(&net, &umem) && !sl_net_add_port(&net, &port.port) &&
			!sl_net_set_listeners(&net, l, 2),
		"net");
	memset(net.hash_key, 7, sizeof(net.hash_key)); /* the same run for the same input */
	memset(peers, 0, sizeof(peers));
	family = options & OPT_IP6 ? 6 : 4;
	sl_net_set_now(&net, 1000 * SL_NS_PER_SEC);
	sl_tcp_config_default(&cfg);
	cfg.max_conns = 24;
	cfg.max_half_open = options & OPT_COOKIES ? 1 : 8;
	cfg.max_ooo_frames = 16;
	if (options & OPT_SMALL) {
		cfg.rcv_buf = 3000;
		cfg.snd_buf = 5000;
	}
	if (options & OPT_KEEPALIVE)
		cfg.keepalive_ns = 5 * SL_NS_PER_SEC;
	tcp = sl_tcp_create(&net, &cfg, &ops, NULL);
	require(tcp != NULL, "tcp");
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct reader r = {bytes, len};
	uint32_t census[SL_FRAME_STATE_CNT];

	start(get8(&r));
	open_some();
	check_books();
	for (int i = 0; i < 200 && r.left; i++)
		step(&r);
	burst();
	flush(true);
	check_books();
	sl_tcp_destroy(tcp);
	sl_net_flush(&net);
	port.tx_room = SL_FAKE_RING;
	sl_net_flush(&net);
	sl_fake_complete(&port, UINT32_MAX);
	sl_umem_census(&umem, census);
	require(census[SL_FRAME_FREE] == FRAMES, "frames lost");
	sl_net_fini(&net);
	return 0;
}
