/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/udp.h"

#include "unit.h"
#include "suite.h"

static uint8_t datagram[20];
static struct sl_udp_view v;

static int parse(size_t len)
{
	return sl_udp_parse(flush_copy(datagram, len), len, &v);
}

TEST(a_written_header_parses)
{
	static const uint8_t want[] = {0, 53, 0x1f, 0x90, 0, 20, 0, 0};

	sl_udp_write((struct sl_udp_hdr *)datagram, htobe16(53), htobe16(8080), 12);
	ck_assert_mem_eq(datagram, want, sizeof(want));
	ck_assert_int_eq(parse(sizeof(datagram)), 8);
	ck_assert_uint_eq(v.payload_len, 12);
	ck_assert_uint_eq(be16toh(v.hdr->sport_be), 53);
}

TEST(length_against_packet)
{
	for (size_t n = 0; n < 8; n++)
		ck_assert_int_eq(parse(n), SL_WIRE_TRUNCATED);
	for (uint16_t claimed = 0; claimed < 22; claimed++) {
		sl_put_be16(datagram + 4, claimed);
		ck_assert_int_eq(parse(20), claimed < 8    ? SL_WIRE_HEADER
					    : claimed > 20 ? SL_WIRE_LENGTH
							   : 8);
		if (claimed >= 8 && claimed <= 20)
			ck_assert_uint_eq(v.payload_len, claimed - 8u);
	}
}
