/* SPDX-License-Identifier: Apache-2.0 */
/* udp.c: checksum rules of IPv4 and IPv6, every refusal by name, and datagrams out. */
#include <errno.h>
#include "net_bed.h"
#include "udp/pmtu.h"
#include "udp/udp.h"
#include "suite.h"

enum { LISTENER = 9 };

struct udp_bed {
	struct bed b;
	struct sl_udp *udp;
	unsigned cnt;
	uint8_t data[2048];
	size_t len;
	struct sl_udp_peer peer;
	uint64_t rx_ns, take_ns;
	bool keep;
	struct sl_frame *kept;
};

static void on_datagram(void *app, const struct sl_udp_peer *peer, struct sl_chunk *chunk)
{
	struct udp_bed *u = app;

	u->cnt++;
	memcpy(u->data, chunk->ptr, chunk->len);
	u->len = chunk->len;
	u->peer = *peer;
	u->rx_ns = chunk->rx_ns;
	u->take_ns = chunk->take_ns;
	ck_assert_ptr_eq(chunk->frame->data, chunk->ptr);
	ck_assert_uint_eq(chunk->frame->state, SL_FRAME_HELD);
	if (u->keep) {
		u->kept = chunk->frame;
		chunk->frame = NULL;
	}
}

static void begin(struct udp_bed *u)
{
	const struct sl_net_listener l[] = {
		{.at.addr = {192, 0, 2, 1},
		 .at.port_be = htobe16(PKT_OUR_PORT),
		 .at.family = 4,
		 .protocol = PKT_UDP,
		 .listener = LISTENER},
		{.at.port_be = htobe16(PKT_OUR_PORT),
		 .at.family = 6,
		 .protocol = PKT_UDP,
		 .listener = 10},
	};

	memset(u, 0, sizeof(*u));
	bed_begin(&u->b);
	ck_assert_int_eq(sl_net_set_listeners(&u->b.net, l, 2), 0);
	u->udp = sl_udp_create(&u->b.net, on_datagram, u);
	ck_assert_ptr_nonnull(u->udp);
}

static void end(struct udp_bed *u)
{
	sl_udp_destroy(u->udp);
	ck_assert_ptr_null(u->b.net.udp.input);
	bed_end(&u->b);
}

typedef void damage_fn(struct pkt *p);

static void none(struct pkt *p)
{
	(void)p;
}

static void bad_payload(struct pkt *p)
{
	p->b[p->len - 1] ^= 0x80;
}

static void bad_source(struct pkt *p)
{
	p->b[p->l3 + (p->family == 4 ? 15 : 23)] ^= 1;
	if (p->family == 4)
		pkt_fix_ip4_csum(p);
}

static void no_checksum(struct pkt *p)
{
	sl_put_be16(p->b + p->l4 + 6, 0);
}

/* Bytes whose sum is all ones: the field would be 0, so 0xffff is sent. */
static void sum_is_zero(struct pkt *p)
{
	uint32_t rest;

	sl_put_be16(p->b + p->len - 2, 0);
	sl_put_be16(p->b + p->l4 + 6, 0);
	rest = pkt_sum(p->b + p->l4, p->len - p->l4, pkt_pseudo(p));
	sl_put_be16(p->b + p->len - 2, (uint16_t)~rest);
	sl_put_be16(p->b + p->l4 + 6, 0xffff);
}

static void udp_length(struct pkt *p, int by)
{
	uint8_t *field = p->b + p->l4 + 4;

	sl_put_be16(field, (uint16_t)(sl_get_be16(field) + by));
}

static void length_over_packet(struct pkt *p)
{
	udp_length(p, 1);
}

static void length_7(struct pkt *p)
{
	sl_put_be16(p->b + p->l4 + 4, 7);
}

static void length_0(struct pkt *p)
{
	sl_put_be16(p->b + p->l4 + 4, 0);
}

static void cut(struct pkt *p)
{
	p->len = p->l4 + 7;
	pkt_fix_ip(p);
}

static void source_port_0(struct pkt *p)
{
	sl_put_be16(p->b + p->l4, 0);
	pkt_fix_l4(p);
}

static void other_port(struct pkt *p)
{
	sl_put_be16(p->b + p->l4 + 2, PKT_OUR_PORT + 1);
	pkt_fix_l4(p);
}

/* Four bytes of IP payload behind the datagram: they are not part of it (nor of its checksum). */
static void trailing(struct pkt *p)
{
	memset(p->b + p->len, 0xab, 4);
	p->len += 4;
	pkt_fix_ip(p);
}

struct udp_case {
	const char *what;
	damage_fn *damage;
	enum sl_drop drop4, drop6; /* SL_DROP_CNT: gets through */
};

#define OK SL_DROP_CNT

static const struct udp_case cases[] = {
	{"valid", none, OK, OK},
	{"sum of zero", sum_is_zero, OK, OK},
	{"bytes behind", trailing, OK, OK},
	{"no checksum", no_checksum, OK, SL_DROP_UDP_CHECKSUM},
	{"payload damaged", bad_payload, SL_DROP_UDP_CHECKSUM, SL_DROP_UDP_CHECKSUM},
	{"source damaged", bad_source, SL_DROP_UDP_CHECKSUM, SL_DROP_UDP_CHECKSUM},
	{"partial checksum", pkt_partial_l4, SL_DROP_UDP_CHECKSUM, SL_DROP_UDP_CHECKSUM},
	{"length over packet", length_over_packet, SL_DROP_UDP_HEADER, SL_DROP_UDP_HEADER},
	{"length 7", length_7, SL_DROP_UDP_HEADER, SL_DROP_UDP_HEADER},
	{"length 0", length_0, SL_DROP_UDP_HEADER, SL_DROP_UDP_HEADER},
	{"cut header", cut, SL_DROP_UDP_HEADER, SL_DROP_UDP_HEADER},
	{"source port 0", source_port_0, SL_DROP_UDP_HEADER, SL_DROP_UDP_HEADER},
	{"other port", other_port, SL_DROP_NO_LISTENER, SL_DROP_NO_LISTENER},
};

TEST_EACH(each_datagram_meets_its_rule, 2 * SL_ARRAY_LEN(cases))
{
	const struct udp_case *c = &cases[_i / 2];
	uint8_t family = _i % 2 ? 6 : 4;
	enum sl_drop drop = family == 4 ? c->drop4 : c->drop6;
	struct udp_bed u;
	struct pkt p;

	begin(&u);
	pkt_build(&p,
		  &(struct pkt_spec){.family = family, .payload = "payload!", .payload_len = 8});
	c->damage(&p);
	bed_input(&u.b, &p);
	if (drop == OK) {
		ck_assert_msg(u.cnt == 1 && bed_drops(&u.b) == 0, "%s: lost", c->what);
		ck_assert_uint_eq(u.len, 8);
		ck_assert_mem_eq(u.data, p.b + p.l4 + 8, 8);
		ck_assert_uint_eq(u.rx_ns, 777);
		ck_assert_uint_eq(u.take_ns, 12345);
		ck_assert_uint_eq(u.peer.listener, family == 4 ? LISTENER : 10);
		ck_assert_uint_eq(be16toh(u.peer.local_port_be), PKT_OUR_PORT);
		ck_assert_uint_eq(be16toh(u.peer.remote_port_be), PKT_PEER_PORT);
		ck_assert_mem_eq(u.peer.path.remote, family == 4 ? pkt_peer_ip4 : pkt_peer_ip6, 16);
	} else {
		ck_assert_msg(u.b.net.drops[drop] == 1, "%s: not dropped as expected", c->what);
		ck_assert_uint_eq(bed_drops(&u.b), 1);
		ck_assert_uint_eq(u.cnt, 0);
	}
	end(&u);
}

TEST_EACH(a_partial_checksum_passes_on_a_marked_port, 2)
{
	struct udp_bed u;
	struct pkt p;

	begin(&u);
	u.b.port.port.partial_csum = true;
	pkt_build(&p, &(struct pkt_spec){.family = _i ? 6 : 4, .payload = "x", .payload_len = 1});
	bed_input(&u.b, &p);
	pkt_partial_l4(&p);
	bed_input(&u.b, &p);
	ck_assert_uint_eq(u.cnt, 2);
	bad_payload(&p); /* the device would have summed it up afterwards */
	bed_input(&u.b, &p);
	ck_assert_uint_eq(u.cnt, 3);
	pkt_fix_l4(&p);
	bad_payload(&p);
	bed_input(&u.b, &p);
	ck_assert_uint_eq(u.b.net.drops[SL_DROP_UDP_CHECKSUM], 1);
	end(&u);
}

TEST(a_kept_frame_is_the_applications)
{
	struct udp_bed u;
	struct pkt p;

	begin(&u);
	u.keep = true;
	pkt_build(&p, &(struct pkt_spec){.payload = "kept", .payload_len = 4});
	bed_input(&u.b, &p);
	ck_assert_uint_eq(u.kept->state, SL_FRAME_HELD);
	ck_assert_mem_eq(u.kept->data, "kept", 4);
	ck_assert_uint_eq(u.kept->len, 4);
	sl_frame_put(&u.b.umem, u.kept);
	end(&u);
}

TEST(an_empty_datagram_is_one)
{
	struct udp_bed u;
	struct pkt p;

	begin(&u);
	pkt_build(&p, &(struct pkt_spec){0});
	bed_input(&u.b, &p);
	ck_assert_uint_eq(u.cnt, 1);
	ck_assert_uint_eq(u.len, 0);
	end(&u);
}

/* Families and tags: the reply equals the packet built independently, whatever the spans. */
TEST_EACH(a_reply_is_the_packet_it_should_be, 6)
{
	uint8_t family = _i < 3 ? 4 : 6, vlan_cnt = (uint8_t)(_i % 3);
	const struct sl_span spans[] = {sl_span_of("abc", 3), sl_span_of(NULL, 0),
					sl_span_of("defgh", 5)};
	struct pkt_spec spec = {.family = family, .vlan_cnt = vlan_cnt};
	struct sl_udp_stats stats;
	struct udp_bed u;
	struct pkt p;

	begin(&u);
	pkt_build(&p, &spec);
	bed_input(&u.b, &p);
	ck_assert_int_eq(sl_udp_send(u.udp, &u.peer, spans, 3), 0);
	sl_net_flush(&u.b.net);
	spec.from_us = true;
	spec.payload = "abcdefgh";
	spec.payload_len = 8;
	pkt_build(&p, &spec);
	ck_assert_uint_eq(sl_fake_sent_cnt(&u.b.port), 1);
	ck_assert_uint_eq(sl_fake_sent(&u.b.port, 0)->len, p.len);
	ck_assert_mem_eq(sl_fake_sent(&u.b.port, 0)->data, p.b, p.len);
	sl_udp_stats(u.udp, &stats);
	ck_assert_uint_eq(stats.datagrams_in, 1);
	ck_assert_uint_eq(stats.datagrams_out, 1);
	ck_assert_uint_eq(stats.bytes_out, 8);
	end(&u);
}

/* RFC 768: a sum of zero goes out as all ones, since zero would mean "none". */
TEST(a_zero_sum_is_sent_as_ones)
{
	struct udp_bed u;
	struct pkt p;
	bool seen = false;

	begin(&u);
	pkt_build(&p, &(struct pkt_spec){0});
	bed_input(&u.b, &p);
	for (uint32_t i = 0; i < 65536 && !seen; i++) {
		uint8_t payload[2] = {(uint8_t)(i >> 8), (uint8_t)i};
		struct sl_span span = sl_span_of(payload, 2);

		ck_assert_int_eq(sl_udp_send(u.udp, &u.peer, &span, 1), 0);
		sl_net_flush(&u.b.net);
		const uint8_t *field = sl_fake_sent(&u.b.port, 0)->data + p.l4 + 6;

		if (sl_get_be16(field) == 0)
			ck_abort_msg("sent without a checksum");
		seen = sl_get_be16(field) == 0xffff;
		sl_fake_complete(&u.b.port, 1);
	}
	ck_assert(seen);
	end(&u);
}

TEST_EACH(the_largest_datagram_fills_the_mtu, 2)
{
	static uint8_t bytes[2000];
	uint8_t family = _i ? 6 : 4;
	struct sl_span span;
	struct udp_bed u;
	struct pkt p;
	size_t max;

	begin(&u);
	pkt_build(&p, &(struct pkt_spec){.family = family});
	bed_input(&u.b, &p);
	max = sl_udp_max_payload(u.udp, &u.peer);
	ck_assert_uint_eq(max, 1500u - (family == 4 ? 28u : 48u));
	span = sl_span_of(bytes, max);
	ck_assert_int_eq(sl_udp_send(u.udp, &u.peer, &span, 1), 0);
	sl_net_flush(&u.b.net);
	ck_assert_uint_eq(sl_fake_sent(&u.b.port, 0)->len, 1514);
	span.len = max + 1;
	ck_assert_int_eq(sl_udp_send(u.udp, &u.peer, &span, 1), -EMSGSIZE);
	struct sl_span two[2] = {sl_span_of(bytes, max), sl_span_of(bytes, SIZE_MAX)};

	ck_assert_int_eq(sl_udp_send(u.udp, &u.peer, two, 2), -EMSGSIZE);
	end(&u);
}

/* An ICMP error about `sent` (a frame of ours), as a router would send it. */
static void build_too_big(struct pkt *p, uint8_t family, const uint8_t *sent, uint32_t mtu)
{
	uint8_t payload[80] = {0};
	size_t quote = (family == 4 ? 20 : 40) + 8;

	if (family == 4)
		sl_put_be16(payload + 2, (uint16_t)mtu);
	else
		sl_put_be32(payload, mtu);
	memcpy(payload + 4, sent + 14, quote);
	pkt_build(p, &(struct pkt_spec){.family = family,
					.protocol = family == 4 ? PKT_ICMP : PKT_ICMP6,
					.type = family == 4 ? 3 : 2,
					.code = family == 4 ? 4 : 0,
					.payload = payload,
					.payload_len = 4 + quote});
}

/* Sends so many bytes of payload; the frame as it went out. */
static const uint8_t *send_len(struct udp_bed *u, size_t len, uint8_t fill)
{
	static uint8_t frame[2048], bytes[2048];
	struct sl_span span = sl_span_of(bytes, len);

	memset(bytes, fill, sizeof(bytes));
	ck_assert_int_eq(sl_udp_send(u->udp, &u->peer, &span, 1), 0);
	sl_net_flush(&u->b.net);
	memcpy(frame, sl_fake_sent(&u->b.port, 0)->data, sl_fake_sent(&u->b.port, 0)->len);
	sl_fake_complete(&u->b.port, 1);
	return frame;
}

/* Returns the path MTU after an error that reports `mtu` for `sent`. */
static size_t told(struct udp_bed *u, const uint8_t *sent, uint32_t mtu)
{
	struct pkt p;

	build_too_big(&p, u->peer.path.family, sent, mtu);
	bed_input(&u->b, &p);
	return sl_udp_max_payload(u->udp, &u->peer) + (u->peer.path.family == 4 ? 28 : 48);
}

TEST_EACH(a_narrow_path_is_learnt, 2)
{
	uint8_t family = _i ? 6 : 4;
	size_t full = 1500u - (family == 4 ? 28u : 48u);
	struct sl_udp_peer other;
	struct udp_bed u;
	struct pkt p;

	begin(&u);
	pkt_build(&p, &(struct pkt_spec){.family = family});
	bed_input(&u.b, &p);
	ck_assert_uint_eq(told(&u, send_len(&u, full, 1), 1400), 1400);
	ck_assert_uint_eq(bed_drops(&u.b), 0);
	ck_assert_uint_eq(told(&u, send_len(&u, full - 100, 2), 1300), 1300);
	/* wider again only when the time has passed */
	ck_assert_uint_eq(told(&u, send_len(&u, full - 200, 3), 1299), 1299);
	send_len(&u, 1299 - (family == 4 ? 28 : 48), 4);
	struct sl_span over = sl_span_of("", 1300 - (family == 4 ? 28 : 48));

	ck_assert_int_eq(sl_udp_send(u.udp, &u.peer, &over, 1), -EMSGSIZE);
	/* it is about that destination only */
	other = u.peer;
	other.path.remote[family == 4 ? 3 : 15] ^= 1;
	ck_assert_uint_eq(sl_udp_max_payload(u.udp, &other), full);
	ck_assert_uint_eq(bed_drops(&u.b), 0);
	u.b.net.now_ns += 601000000000;
	ck_assert_uint_eq(sl_udp_max_payload(u.udp, &u.peer), full);
	u.b.net.now_ns = 12345;
	end(&u);
}

TEST_EACH(a_forged_error_is_ignored, 2)
{
	uint8_t family = _i ? 6 : 4, forged[2048];
	size_t full = 1500u - (family == 4 ? 28u : 48u), l4 = 14 + (family == 4 ? 20u : 40u);
	uint32_t floor = family == 4 ? SL_UDP_PMTU_FLOOR4 : SL_UDP_PMTU_FLOOR6;
	struct udp_bed u;
	struct pkt p;

	begin(&u);
	pkt_build(&p, &(struct pkt_spec){.family = family});
	bed_input(&u.b, &p);
	/* each field of the quoted header: ports, length, checksum */
	for (size_t i = 2; i < 8; i++) {
		memcpy(forged, send_len(&u, full, (uint8_t)i), sizeof(forged));
		forged[l4 + i] ^= 1;
		ck_assert_uint_eq(told(&u, forged, 1400), 1500);
	}
	ck_assert_uint_eq(u.b.net.drops[SL_DROP_ICMP_IGNORED], 6);
	/* the same twice */
	memcpy(forged, send_len(&u, full, 1), sizeof(forged));
	ck_assert_uint_eq(told(&u, forged, 1400), 1400);
	ck_assert_uint_eq(told(&u, forged, 1300), 1400);
	/* about one that is small enough for every path */
	memcpy(forged, send_len(&u, floor - (family == 4 ? 28 : 48), 1), sizeof(forged));
	if (family == 4)
		ck_assert_uint_eq(told(&u, forged, 500), 1400);
	ck_assert_uint_eq(u.b.net.drops[SL_DROP_ICMP_IGNORED], family == 4 ? 8 : 7);
	/* never below the floor */
	memcpy(forged, send_len(&u, 1400u - (family == 4 ? 28u : 48u), 9), sizeof(forged));
	ck_assert_uint_eq(told(&u, forged, family == 4 ? 100 : 1280), floor);
	end(&u);
}

/* An error long after what it is about. */
TEST(an_old_error_is_ignored)
{
	static const uint8_t l4[8] = {1, 2, 3, 4, 5, 6, 7, 8};
	static const uint8_t addr[16] = {192, 0, 2, 7}, other[16] = {192, 0, 2, 8};
	static struct sl_udp_pmtu m;

	ck_assert_int_eq(sl_udp_pmtu_init(&m), 0);
	m.key = (struct sl_sipkey){1, 2}; /* the same places every time */
	sl_udp_pmtu_sent(&m, 4, addr, l4, 0);
	ck_assert(!sl_udp_pmtu_too_big(&m, 4, addr, l4, 1400, 10001000000));
	sl_udp_pmtu_sent(&m, 4, addr, l4, 0);
	ck_assert(!sl_udp_pmtu_too_big(&m, 6, addr, l4, 1400, 0));
	ck_assert(sl_udp_pmtu_too_big(&m, 4, addr, l4, 1400, 10000000000));
	ck_assert_uint_eq(sl_udp_pmtu_lookup(&m, 4, addr, 1500, 10000000000), 1400);
	ck_assert_uint_eq(sl_udp_pmtu_lookup(&m, 4, addr, 1200, 10000000000), 1200);
	ck_assert_uint_eq(sl_udp_pmtu_lookup(&m, 6, addr, 1500, 10000000000), 1500);
	/* each for ten minutes of its own */
	sl_udp_pmtu_sent(&m, 4, other, l4, 300000000000);
	ck_assert(sl_udp_pmtu_too_big(&m, 4, other, l4, 1300, 300000000000));
	ck_assert_uint_eq(sl_udp_pmtu_lookup(&m, 4, addr, 1500, 609999999999), 1400);
	ck_assert_uint_eq(sl_udp_pmtu_lookup(&m, 4, addr, 1500, 610000000000), 1500);
	ck_assert_uint_eq(sl_udp_pmtu_lookup(&m, 4, other, 1500, 610000000000), 1300);
	/* nothing new */
	sl_udp_pmtu_sent(&m, 4, addr, l4, 10000000000);
	ck_assert(!sl_udp_pmtu_too_big(&m, 4, addr, l4, 1400, 10000000000));
}

/* Errors that are not about size, or about no datagram of ours. */
TEST(unreachable_is_ignored)
{
	struct udp_bed u;
	struct pkt p;

	begin(&u);
	pkt_build(&p, &(struct pkt_spec){0});
	bed_input(&u.b, &p);
	build_too_big(&p, 4, send_len(&u, 1000, 1), 0);
	p.b[p.l4 + 1] = 3; /* port unreachable */
	pkt_fix_l4(&p);
	bed_input(&u.b, &p);
	ck_assert_uint_eq(u.b.net.drops[SL_DROP_ICMP_IGNORED], 1);
	ck_assert_uint_eq(sl_udp_max_payload(u.udp, &u.peer), 1472);
	end(&u);
}

TEST(sending_without_frames_or_room_fails)
{
	struct sl_span span = sl_span_of("x", 1);
	struct sl_frame *head = NULL, *f;
	struct udp_bed u;
	struct pkt p;

	begin(&u);
	pkt_build(&p, &(struct pkt_spec){0});
	bed_input(&u.b, &p);
	while ((f = sl_frame_get(&u.b.umem, SL_FRAME_HELD, 0))) {
		f->next = head;
		head = f;
	}
	ck_assert_int_eq(sl_udp_send(u.udp, &u.peer, &span, 1), -ENOBUFS);
	ck_assert_uint_eq(u.b.net.drops[SL_DROP_NO_FRAME], 1);
	sl_frame_put_list(&u.b.umem, head);

	u.b.port.tx_room = 0;
	for (unsigned i = 0; i < SL_BURST; i++)
		ck_assert_int_eq(sl_udp_send(u.udp, &u.peer, &span, 1), 0);
	ck_assert_int_eq(sl_udp_send(u.udp, &u.peer, &span, 1), -ENOBUFS);
	ck_assert_uint_eq(u.b.net.drops[SL_DROP_TX_FULL], 1);
	end(&u);
}
