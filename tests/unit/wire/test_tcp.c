/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/tcp.h"

#include "unit.h"
#include "suite.h"

static uint8_t segment[64];
static const struct sl_tcp_hdr *hdr;

static int parse(size_t len)
{
	return sl_tcp_parse(flush_copy(segment, len), len, &hdr);
}

TEST(a_written_header_parses)
{
	static const uint8_t want[] = {0x01, 0xbb, 0x1f, 0x90, 1,    2,    3, 4, 5, 6,
				       7,    8,    0x80, 0x12, 0x72, 0x10, 0, 0, 0, 0};

	sl_tcp_write((struct sl_tcp_hdr *)segment, htobe16(443), htobe16(8080), 0x01020304,
		     0x05060708, SL_TCP_SYN | SL_TCP_ACK, 0x7210, 12);
	ck_assert_mem_eq(segment, want, sizeof(want));
	ck_assert_int_eq(parse(sizeof(segment)), 32);
	ck_assert_uint_eq(be32toh(hdr->seq_be), 0x01020304);
}

TEST(data_offset_against_segment)
{
	for (size_t n = 0; n < 20; n++)
		ck_assert_int_eq(parse(n), SL_WIRE_TRUNCATED);
	for (unsigned words = 0; words < 16; words++) {
		segment[12] = (uint8_t)(words << 4 | 0xf); /* reserved bits do not count */
		ck_assert_int_eq(parse(60), words < 5 ? SL_WIRE_HEADER : (int)words * 4);
		if (words > 5)
			ck_assert_int_eq(parse(words * 4 - 1), SL_WIRE_LENGTH);
		if (words >= 5)
			ck_assert_int_eq(parse(words * 4), (int)words * 4);
	}
}

TEST(sequence_numbers_wrap)
{
	static const uint32_t starts[] = {0, 1, 0x7fffffff, 0x80000000, 0xfffffff0, 0xffffffff};

	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		uint32_t a = starts[i], b = a + 100, far = a + 0x7fffffff;

		ck_assert(sl_seq_lt(a, b) && !sl_seq_lt(b, a) && !sl_seq_lt(a, a));
		ck_assert(sl_seq_leq(a, b) && !sl_seq_leq(b, a) && sl_seq_leq(a, a));
		ck_assert(sl_seq_gt(b, a) && !sl_seq_gt(a, b) && !sl_seq_gt(a, a));
		ck_assert(sl_seq_geq(b, a) && !sl_seq_geq(a, b) && sl_seq_geq(a, a));
		ck_assert(sl_seq_lt(a, far) && sl_seq_gt(a, far + 2));
		ck_assert_int_eq(sl_seq_diff(b, a), 100);
		ck_assert_int_eq(sl_seq_diff(a, b), -100);
		ck_assert_uint_eq(sl_seq_max(a, b), b);
		ck_assert_uint_eq(sl_seq_max(b, a), b);
		ck_assert(sl_seq_in(a, a, 100) && sl_seq_in(a + 99, a, 100));
		ck_assert(!sl_seq_in(b, a, 100) && !sl_seq_in(a - 1, a, 100));
		ck_assert(!sl_seq_in(a, a, 0));
	}
}
