/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/eth.h"

#include "unit.h"
#include "suite.h"

static const uint8_t plain[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x08, 0x00};
static const uint8_t one_tag[] = {1,  2,  3,  4,    5,    6,    7,    8,    9,
				  10, 11, 12, 0x81, 0x00, 0x20, 0x05, 0x86, 0xdd};
static const uint8_t two_tags[] = {1,  2,    3,    4,    5,    6,    7,    8,    9,    10,   11,
				   12, 0x88, 0xa8, 0x00, 0x64, 0x81, 0x00, 0xe0, 0x05, 0x08, 0x00};
static const uint8_t three_tags[] = {1,    2,    3,    4,    5,    6,    7,    8,    9,
				     10,   11,   12,   0x81, 0x00, 0x00, 0x01, 0x81, 0x00,
				     0x00, 0x02, 0x81, 0x00, 0x00, 0x03, 0x08, 0x00};

static int parse_flush(const uint8_t *bytes, size_t len, struct sl_eth_view *v)
{
	return sl_eth_parse(flush_copy(bytes, len), len, v);
}

TEST(frames_with_up_to_two_tags)
{
	struct sl_eth_view v;

	ck_assert_int_eq(parse_flush(plain, sizeof(plain), &v), 14);
	ck_assert_uint_eq(v.type, SL_ETHERTYPE_IP4);
	ck_assert_uint_eq(v.vlan_cnt, 0);
	ck_assert_uint_eq(v.hdr->src[0], 7);
	ck_assert_int_eq(parse_flush(one_tag, sizeof(one_tag), &v), 18);
	ck_assert_uint_eq(v.type, SL_ETHERTYPE_IP6);
	ck_assert_uint_eq(v.vlan_cnt, 1);
	ck_assert_uint_eq(be16toh(v.vlan[0].tci_be), 0x2005);
	ck_assert_int_eq(parse_flush(two_tags, sizeof(two_tags), &v), 22);
	ck_assert_uint_eq(v.type, SL_ETHERTYPE_IP4);
	ck_assert_uint_eq(v.vlan_cnt, 2);
	ck_assert_uint_eq(be16toh(v.vlan[0].tpid_be), SL_ETHERTYPE_QINQ);
	ck_assert_uint_eq(be16toh(v.vlan[0].tci_be), 100);
	ck_assert_uint_eq(be16toh(v.vlan[1].tpid_be), SL_ETHERTYPE_VLAN);
	ck_assert_uint_eq(be16toh(v.vlan[1].tci_be), 0xe005);
}

TEST(a_third_tag_is_refused)
{
	struct sl_eth_view v;

	ck_assert_int_eq(parse_flush(three_tags, sizeof(three_tags), &v), SL_WIRE_TYPE);
}

TEST(every_cut_is_noticed)
{
	struct sl_eth_view v;

	for (size_t n = 0; n < sizeof(plain); n++)
		ck_assert_int_eq(parse_flush(plain, n, &v), SL_WIRE_TRUNCATED);
	for (size_t n = 0; n < sizeof(two_tags); n++)
		ck_assert_int_eq(parse_flush(two_tags, n, &v), SL_WIRE_TRUNCATED);
}

TEST(a_written_header_parses_to_the_same)
{
	struct sl_eth_view v;
	uint8_t *out = flush_with_guard(SL_ETH_HDR_MAX);

	parse_flush(two_tags, sizeof(two_tags), &v);
	ck_assert_uint_eq(sl_eth_write(out, v.hdr->dst, v.hdr->src, v.vlan, v.vlan_cnt, v.type),
			  sl_eth_hdr_len(2));
	ck_assert_mem_eq(out, two_tags, sizeof(two_tags));
	ck_assert_uint_eq(sl_eth_write(out, v.hdr->dst, v.hdr->src, NULL, 0, v.type), 14);
	ck_assert_mem_eq(out, plain, sizeof(plain));
}

TEST(multicast_is_a_bit)
{
	ck_assert(sl_eth_is_multicast((const uint8_t[]){1, 0, 0, 0, 0, 0}));
	ck_assert(sl_eth_is_multicast((const uint8_t[]){255, 255, 255, 255, 255, 255}));
	ck_assert(!sl_eth_is_multicast((const uint8_t[]){2, 1, 1, 1, 1, 1}));
}
