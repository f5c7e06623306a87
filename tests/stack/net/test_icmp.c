/* SPDX-License-Identifier: Apache-2.0 */
/* icmp.c: which errors reach the flow that they quote, and what they say. */
#include "net_bed.h"
#include "suite.h"

struct icmp_case {
	const char *what;
	uint8_t family, type, code;
	uint32_t mtu;      /* in the message */
	uint16_t ip_len;   /* length of the quoted packet; 0: 1500 */
	enum sl_drop drop; /* SL_DROP_CNT: reaches tcp */
	uint32_t told;     /* MTU that tcp is told */
	bool hard;
};

#define PASSES SL_DROP_CNT
#define IGN    SL_DROP_ICMP_IGNORED
#define MALF   SL_DROP_ICMP_MALFORMED

static const struct icmp_case cases[] = {
	{"fragmentation needed", 4, 3, 4, 1400, 0, PASSES, 1400, false},
	{"no mtu told: plateau", 4, 3, 4, 0, 0, PASSES, 1492, false},
	{"no mtu told: small packet", 4, 3, 4, 0, 296, PASSES, 68, false},
	{"no mtu told: smallest packet", 4, 3, 4, 0, 68, IGN, 0, false},
	{"mtu 68", 4, 3, 4, 68, 0, PASSES, 68, false},
	{"mtu 67", 4, 3, 4, 67, 0, IGN, 0, false},
	{"length of the quote in it", 4, 3, 4, 1400, 28, PASSES, 1400, false},
	{"net unreachable", 4, 3, 0, 0, 0, PASSES, 0, false},
	{"host unreachable", 4, 3, 1, 0, 0, PASSES, 0, false},
	{"protocol unreachable", 4, 3, 2, 0, 0, PASSES, 0, true},
	{"port unreachable", 4, 3, 3, 0, 0, PASSES, 0, true},
	{"prohibited", 4, 3, 13, 0, 0, PASSES, 0, false},
	{"time exceeded", 4, 11, 0, 0, 0, PASSES, 0, false},
	{"echo", 4, 8, 0, 0, 0, MALF, 0, false},
	{"too big", 6, 2, 0, 1400, 0, PASSES, 1400, false},
	{"mtu 1280", 6, 2, 0, 1280, 0, PASSES, 1280, false},
	{"mtu 1279", 6, 2, 0, 1279, 0, IGN, 0, false},
	{"length of the quote in it, ipv6", 6, 2, 0, 1400, 48, PASSES, 1400, false},
	{"no route", 6, 1, 0, 0, 0, PASSES, 0, false},
	{"port unreachable, ipv6", 6, 1, 4, 0, 0, PASSES, 0, true},
	{"time exceeded, ipv6", 6, 3, 0, 0, 0, PASSES, 0, false},
	{"echo, ipv6", 6, 128, 0, 0, 0, MALF, 0, false},
};

/* An error about a TCP segment from us, as a router would send it, quoting `quote` bytes of it. */
static void build_error(struct pkt *p, const struct icmp_case *c, size_t quote)
{
	uint8_t payload[600] = {0};
	struct pkt sent;

	pkt_build(&sent, &(struct pkt_spec){.family = c->family,
					    .protocol = PKT_TCP,
					    .from_us = true,
					    .seq = 0x11223344});
	uint8_t *len_field = sent.b + sent.l3 + (c->family == 4 ? 2 : 4);
	uint16_t ip_len = c->ip_len ? c->ip_len : 1500;

	sl_put_be16(len_field, c->family == 4 ? ip_len : (uint16_t)(ip_len - 40));
	if (c->family == 4)
		sl_put_be16(payload + 2, (uint16_t)c->mtu);
	else
		sl_put_be32(payload, c->mtu);
	memcpy(payload + 4, sent.b + sent.l3, sent.len - sent.l3);
	if (quote == 0)
		quote = sent.len - sent.l3;
	pkt_build(p, &(struct pkt_spec){.family = c->family,
					.protocol = c->family == 4 ? PKT_ICMP : PKT_ICMP6,
					.type = c->type,
					.code = c->code,
					.payload = payload,
					.payload_len = 4 + quote});
}

TEST_EACH(each_error_has_its_meaning, SL_ARRAY_LEN(cases))
{
	const struct icmp_case *c = &cases[_i];
	struct pkt p;
	struct bed b;

	bed_begin(&b);
	build_error(&p, c, 0);
	bed_input(&b, &p);
	if (c->drop == PASSES) {
		ck_assert_msg(b.icmp_cnt == 1 && bed_drops(&b) == 0, "%s: lost", c->what);
		ck_assert_msg(b.mtu == c->told, "%s: mtu %u", c->what, b.mtu);
		ck_assert_msg(b.hard == c->hard, "%s: hard", c->what);
		ck_assert_uint_eq(b.quoted_sport, PKT_OUR_PORT);
		ck_assert_uint_eq(b.quoted[0] >> 4, c->family);
	} else {
		ck_assert_msg(b.net.drops[c->drop] == 1, "%s: not dropped", c->what);
		ck_assert_uint_eq(bed_drops(&b), 1);
		ck_assert_uint_eq(b.icmp_cnt, 0);
	}
	ck_assert_uint_eq(b.tcp_cnt + b.udp_cnt, 0);
	bed_end(&b);
}

static const struct icmp_case too_big[2] = {
	{"fragmentation needed", 4, 3, 4, 1400, 0, PASSES, 1400, false},
	{"too big", 6, 2, 0, 1400, 0, PASSES, 1400, false},
};

enum { QUOTE_OFF = 8 };

static void malformed(struct pkt *p, const char *what)
{
	struct bed b;

	bed_begin(&b);
	bed_input(&b, p);
	ck_assert_msg(b.net.drops[SL_DROP_ICMP_MALFORMED] == 1 && bed_drops(&b) == 1 &&
			      b.icmp_cnt == 0,
		      "%s (IPv%u) is not malformed", what, p->family);
	bed_end(&b);
}

/* Changes a byte of the quoted packet and repairs the ICMP checksum. */
static void damage_quote(const struct icmp_case *c, size_t off, uint8_t value, const char *what)
{
	struct pkt p;

	build_error(&p, c, 0);
	p.b[p.l4 + QUOTE_OFF + off] = value;
	pkt_fix_l4(&p);
	malformed(&p, what);
}

TEST_EACH(an_error_that_quotes_no_packet_of_ours_is_malformed, 2)
{
	const struct icmp_case *c = &too_big[_i];
	bool v4 = c->family == 4;
	struct pkt p;

	build_error(&p, c, 0);
	p.b[pkt_csum_off(&p)] ^= 1;
	malformed(&p, "wrong checksum");
	damage_quote(c, 0, 0x55, "quoted version");
	damage_quote(c, v4 ? 9 : 6, 47, "quoted protocol");
	damage_quote(c, v4 ? 15 : 23, 99, "quoted source is not the receiver");
	if (v4) {
		damage_quote(c, 0, 0x44, "quoted IHL");
		damage_quote(c, 0, 0x4f, "quoted IHL over the quote");
		damage_quote(c, 7, 1, "quoted later fragment");
	}
	for (size_t quote = 1; quote < (v4 ? 28 : 48); quote++) {
		build_error(&p, c, quote);
		malformed(&p, "cut quote");
	}
	for (size_t len = 0; len < 8; len++) {
		build_error(&p, c, 0);
		p.len = p.l4 + len;
		pkt_fix_ip(&p);
		if (len >= 4)
			pkt_fix_l4(&p);
		malformed(&p, "cut ICMP header");
	}
}

/* We send no extension headers, so a packet with one is not ours, well formed as it may be. */
TEST(a_quote_with_an_extension_is_not_ours)
{
	static const uint8_t ext[8] = {PKT_TCP, 0, 1, 4};
	struct pkt p;

	build_error(&p, &too_big[1], 0);
	pkt_insert(&p, p.l4 + QUOTE_OFF + 40, ext, sizeof(ext));
	p.b[p.l4 + QUOTE_OFF + 6] = 60;
	pkt_fix_ip(&p);
	pkt_fix_l4(&p);
	malformed(&p, "quoted extension header");
}

TEST_EACH(eight_bytes_of_transport_are_enough, 2)
{
	const struct icmp_case *c = &too_big[_i];
	struct pkt p;
	struct bed b;

	bed_begin(&b);
	build_error(&p, c, c->family == 4 ? 28 : 48);
	bed_input(&b, &p);
	ck_assert_uint_eq(b.icmp_cnt, 1);
	bed_end(&b);
}

TEST_EACH(an_error_for_an_l4_without_interest_is_ignored, 2)
{
	const struct icmp_case *c = &too_big[_i];
	struct pkt p;
	struct bed b;

	bed_begin(&b);
	build_error(&p, c, 0);
	p.b[p.l4 + QUOTE_OFF + (c->family == 4 ? 9 : 6)] = PKT_UDP;
	pkt_fix_l4(&p);
	bed_input(&b, &p);
	ck_assert_uint_eq(b.net.drops[SL_DROP_ICMP_IGNORED], 1);
	ck_assert_uint_eq(bed_drops(&b), 1);
	bed_end(&b);
}
