/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/ip6.h"

#include "unit.h"
#include "base/rand.h"
#include "suite.h"

static const uint8_t src[16] = {0x20, 1, 0xd, 0xb8, [15] = 1}, dst[16] = {0xfe, 0x80, [15] = 2};
static uint8_t packet[400];
static size_t packet_len;
static struct sl_ip6_view v;

/* Starts a packet whose first header behind IPv6 is `next`. */
static void begin(uint8_t next)
{
	sl_ip6_write((struct sl_ip6_hdr *)packet, src, dst, next, 0);
	packet_len = sizeof(struct sl_ip6_hdr);
}

/* An extension header of len bytes (a multiple of 8) that is followed by `next`. */
static uint8_t *ext(uint8_t next, size_t len)
{
	uint8_t *p = packet + packet_len;

	memset(p, 0, len);
	p[0] = next;
	p[1] = (uint8_t)(len / 8 - 1);
	packet_len += len;
	return p;
}

static void end(size_t payload_len)
{
	memset(packet + packet_len, 0xee, payload_len);
	packet_len += payload_len;
	sl_put_be16(packet + 4, (uint16_t)(packet_len - sizeof(struct sl_ip6_hdr)));
}

static int parse(size_t len)
{
	return sl_ip6_parse(flush_copy(packet, len), len, &v);
}

TEST(a_plain_packet)
{
	begin(SL_IP_PROTO_TCP);
	end(20);
	ck_assert_int_eq(parse(packet_len), 40);
	ck_assert_uint_eq(v.protocol, SL_IP_PROTO_TCP);
	ck_assert_uint_eq(v.payload_len, 20);
	ck_assert(!v.fragment);
	ck_assert_int_eq(parse(packet_len + 6), 40); /* padding */
	ck_assert_uint_eq(v.payload_len, 20);
	ck_assert_mem_eq(v.hdr->src, src, 16);
	ck_assert_mem_eq(v.hdr->dst, dst, 16);
	packet[0] = 0x45;
	ck_assert_int_eq(parse(packet_len), SL_WIRE_TYPE);
}

TEST(extension_headers_are_walked)
{
	begin(SL_IP6_EXT_HOP);
	ext(SL_IP6_EXT_DEST, 8);
	ext(SL_IP6_EXT_ROUTING, 24);
	ext(SL_IP6_EXT_DEST, 16);
	ext(SL_IP_PROTO_UDP, 8);
	end(9);
	ck_assert_int_eq(parse(packet_len), 40 + 56);
	ck_assert_uint_eq(v.hdr_len, 96);
	ck_assert_uint_eq(v.protocol, SL_IP_PROTO_UDP);
	ck_assert_uint_eq(v.payload_len, 9);
}

TEST(every_cut_is_noticed)
{
	begin(SL_IP6_EXT_HOP);
	ext(SL_IP6_EXT_FRAGMENT, 16);
	ext(SL_IP_PROTO_TCP, 8);
	end(0);
	for (size_t n = 0; n < packet_len; n++)
		ck_assert_int_eq(parse(n), n < 40 ? SL_WIRE_TRUNCATED : SL_WIRE_LENGTH);
	/* Now the payload length agrees with the cut, and the headers exceed it. */
	for (size_t n = 40; n < packet_len; n++) {
		sl_put_be16(packet + 4, (uint16_t)(n - 40));
		ck_assert_int_eq(parse(n), SL_WIRE_LENGTH);
		ck_assert_int_eq(parse(packet_len), SL_WIRE_LENGTH);
	}
	sl_put_be16(packet + 4, 24);
	ck_assert_int_eq(parse(packet_len), 64);
}

TEST(the_walk_is_bounded)
{
	for (unsigned cnt = SL_IP6_EXT_MAX; cnt <= SL_IP6_EXT_MAX + 1; cnt++) {
		begin(SL_IP6_EXT_DEST);
		for (unsigned i = 1; i < cnt; i++)
			ext(SL_IP6_EXT_DEST, 8);
		ext(SL_IP_PROTO_TCP, 8);
		end(20);
		ck_assert_int_eq(parse(packet_len),
				 cnt == SL_IP6_EXT_MAX ? 40 + 64 : SL_WIRE_EXTENSION);
	}
}

TEST(misplaced_and_forbidden_headers)
{
	begin(SL_IP6_EXT_DEST);
	ext(SL_IP6_EXT_HOP, 8);
	ext(SL_IP_PROTO_TCP, 8);
	end(20);
	ck_assert_int_eq(parse(packet_len), SL_WIRE_EXTENSION);
	begin(SL_IP6_EXT_ROUTING);
	ext(SL_IP_PROTO_TCP, 8)[3] = 1; /* segments left */
	end(20);
	ck_assert_int_eq(parse(packet_len), SL_WIRE_EXTENSION);
}

TEST(fragments_end_the_walk)
{
	static const struct {
		uint16_t offset_and_more;
		bool fragment;
	} cases[] = {{0, false}, {1, true}, {8, true}, {0xfff8, true}, {6, false}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin(SL_IP6_EXT_FRAGMENT);
		sl_put_be16(ext(SL_IP6_EXT_DEST, 8) + 2, cases[i].offset_and_more);
		packet[41] = 0xff; /* reserved here, no length */
		ext(SL_IP_PROTO_TCP, 8);
		end(20);
		ck_assert_int_eq(parse(packet_len), cases[i].fragment ? 48 : 56);
		ck_assert_int_eq(v.fragment, cases[i].fragment);
		ck_assert_uint_eq(v.protocol,
				  cases[i].fragment ? SL_IP6_EXT_DEST : SL_IP_PROTO_TCP);
	}
}

TEST(unknown_headers_end_the_walk)
{
	begin(SL_IP6_EXT_NONE);
	end(0);
	ck_assert_int_eq(parse(packet_len), 40);
	ck_assert_uint_eq(v.protocol, SL_IP6_EXT_NONE);
	begin(51);
	end(24);
	ck_assert_int_eq(parse(packet_len), 40);
	ck_assert_uint_eq(v.protocol, 51);
}

TEST(random_bytes_stay_inside)
{
	static const uint8_t likely[] = {0, 43, 44, 60, 6, 17};
	struct sl_prng r;

	sl_prng_seed(&r, 1);
	for (int i = 0; i < 5000; i++) {
		size_t len = sl_prng_below(&r, 160);
		int n;

		for (size_t k = 0; k < len; k++)
			packet[k] = likely[sl_prng_below(&r, sizeof(likely))];
		packet[0] = 0x60;
		packet[4] = 0;
		packet[5] = (uint8_t)sl_prng_below(&r, 130);
		n = parse(len);
		ck_assert(n < 0 || (size_t)n + v.payload_len <= len);
		ck_assert(n != 0);
	}
}

TEST(sources_that_cannot_be)
{
	static const uint8_t any[16], loop[16] = {[15] = 1}, multi[16] = {0xff, 2, [15] = 1},
				      two[16] = {[15] = 2};

	ck_assert(sl_ip6_src_invalid(any));
	ck_assert(sl_ip6_src_invalid(loop));
	ck_assert(sl_ip6_src_invalid(multi));
	ck_assert(!sl_ip6_src_invalid(two));
	ck_assert(!sl_ip6_src_invalid(src));
	ck_assert(!sl_ip6_src_invalid(dst));
}
