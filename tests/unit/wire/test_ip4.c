/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/ip4.h"

#include "unit.h"
#include "base/rand.h"
#include "suite.h"

enum { PAYLOAD = 30 };

static uint8_t packet[20 + PAYLOAD];
static struct sl_ip4_hdr *const hdr = (struct sl_ip4_hdr *)packet;
static struct sl_ip4_view v;

static void make(void)
{
	sl_ip4_write(hdr, htobe32(0x0a000001), htobe32(0x0a000002), SL_IP_PROTO_TCP, PAYLOAD, 7,
		     true);
}

static int parse(size_t len)
{
	return sl_ip4_parse(flush_copy(packet, len), len, &v);
}

TEST(a_written_header_parses)
{
	static const uint8_t want[] = {0x45, 0, 0,  50, 0, 7, 0x40, 0, 64, 6,
				       0,    0, 10, 0,  0, 1, 10,   0, 0,  2};

	make();
	ck_assert_mem_eq(packet, want, sizeof(want));
	ck_assert_int_eq(parse(sizeof(packet)), 20);
	ck_assert_uint_eq(v.payload_len, PAYLOAD);
	ck_assert_uint_eq(v.hdr_len, 20);
	ck_assert_uint_eq(v.protocol, SL_IP_PROTO_TCP);
	ck_assert(!v.fragment);
}

TEST(length_field_against_frame)
{
	make();
	hdr->total_len_be = htobe16(20 + 5);
	ck_assert_int_eq(parse(sizeof(packet)), 20); /* the rest is padding */
	ck_assert_uint_eq(v.payload_len, 5);
	hdr->total_len_be = htobe16(sizeof(packet) + 1);
	ck_assert_int_eq(parse(sizeof(packet)), SL_WIRE_LENGTH);
	hdr->total_len_be = htobe16(19);
	ck_assert_int_eq(parse(sizeof(packet)), SL_WIRE_HEADER);
	hdr->total_len_be = htobe16(20);
	ck_assert_int_eq(parse(20), 20);
	ck_assert_uint_eq(v.payload_len, 0);
}

TEST(header_length_and_version)
{
	make();
	hdr->ver_ihl = 0x44;
	ck_assert_int_eq(parse(sizeof(packet)), SL_WIRE_HEADER);
	hdr->ver_ihl = 0x46;
	ck_assert_int_eq(parse(sizeof(packet)), 24);
	ck_assert_uint_eq(v.payload_len, PAYLOAD - 4);
	hdr->total_len_be = htobe16(23);
	ck_assert_int_eq(parse(sizeof(packet)), SL_WIRE_HEADER);
	hdr->total_len_be = htobe16(60);
	hdr->ver_ihl = 0x4f; /* options beyond the frame */
	ck_assert_int_eq(parse(sizeof(packet)), SL_WIRE_LENGTH);
	make();
	hdr->ver_ihl = 0x65;
	ck_assert_int_eq(parse(sizeof(packet)), SL_WIRE_TYPE);
}

TEST(every_cut_is_noticed)
{
	make();
	for (size_t n = 0; n < 20; n++)
		ck_assert_int_eq(parse(n), SL_WIRE_TRUNCATED);
	for (size_t n = 20; n < sizeof(packet); n++)
		ck_assert_int_eq(parse(n), SL_WIRE_LENGTH);
}

TEST(fragments_are_flagged)
{
	make();
	hdr->frag_be = htobe16(SL_IP4_MF);
	parse(sizeof(packet));
	ck_assert(v.fragment);
	hdr->frag_be = htobe16(1);
	parse(sizeof(packet));
	ck_assert(v.fragment);
	hdr->frag_be = htobe16(0x8000); /* the reserved bit makes none */
	parse(sizeof(packet));
	ck_assert(!v.fragment);
}

TEST(random_bytes_stay_inside)
{
	struct sl_prng r;

	sl_prng_seed(&r, 1);
	for (int i = 0; i < 2000; i++) {
		size_t len = sl_prng_below(&r, sizeof(packet) + 1);
		int n;

		for (size_t k = 0; k < sizeof(packet); k++)
			packet[k] = (uint8_t)sl_prng_u64(&r);
		packet[0] = (uint8_t)(0x40 | (packet[0] & 15));
		packet[2] = 0;
		n = parse(len);
		ck_assert(n < 0 || (size_t)n + v.payload_len <= len);
	}
}

TEST(sources_that_cannot_be)
{
	ck_assert(sl_ip4_src_invalid(htobe32(0x00000001)));
	ck_assert(sl_ip4_src_invalid(htobe32(0x7f000001)));
	ck_assert(sl_ip4_src_invalid(htobe32(0xe0000001)));
	ck_assert(sl_ip4_src_invalid(htobe32(0xf0000001)));
	ck_assert(sl_ip4_src_invalid(htobe32(0xffffffff)));
	ck_assert(!sl_ip4_src_invalid(htobe32(0x01000000)));
	ck_assert(!sl_ip4_src_invalid(htobe32(0x80000001)));
	ck_assert(!sl_ip4_src_invalid(htobe32(0xdfffffff)));
}
