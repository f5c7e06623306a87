/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/icmp.h"

#include "unit.h"
#include "base/rand.h"
#include "wire/ip4.h"
#include "wire/ip6.h"
#include "suite.h"

static uint8_t quoted[80];
static struct sl_icmp_quote q;

/* A segment of ours, 1500 bytes long, of which an error quotes the start. */
static void make4(uint8_t protocol)
{
	sl_ip4_write((struct sl_ip4_hdr *)quoted, htobe32(0x0a000001), htobe32(0x0a000002),
		     protocol, 1480, 0, true);
	memcpy(quoted + 20, (const uint8_t[]){1, 2, 3, 4, 5, 6, 7, 8}, 8);
}

static void make6(uint8_t protocol)
{
	static const uint8_t src[16] = {0x20, [15] = 1}, dst[16] = {0x20, [15] = 2};

	sl_ip6_write((struct sl_ip6_hdr *)quoted, src, dst, protocol, 1460);
	memcpy(quoted + 40, (const uint8_t[]){1, 2, 3, 4, 5, 6, 7, 8}, 8);
}

static int quote4(size_t len)
{
	return sl_icmp4_quote(flush_copy(quoted, len), len, &q);
}

static int quote6(size_t len)
{
	return sl_icmp6_quote(flush_copy(quoted, len), len, &q);
}

static void check_ports(uint8_t family, uint32_t seq, uint16_t ip_len)
{
	ck_assert_uint_eq(q.family, family);
	ck_assert_uint_eq(be16toh(q.sport_be), 0x0102);
	ck_assert_uint_eq(be16toh(q.dport_be), 0x0304);
	ck_assert_uint_eq(q.seq, seq);
	ck_assert_uint_eq(q.ip_len, ip_len);
}

TEST(each_header_is_read_to_its_length)
{
	static const uint8_t too_big[] = {2, 0, 0, 0, 0, 0, 5, 0};
	static const uint8_t needed[] = {3, 4, 0, 0, 0, 0, 5, 0xdc};
	static const uint8_t echo[] = {8, 0, 0, 0, 0, 1, 0, 2};
	const struct sl_icmp_hdr *h;

	for (size_t n = 0; n < 8; n++)
		ck_assert_int_eq(sl_icmp_parse(flush_copy(echo, n), n, &h), SL_WIRE_TRUNCATED);
	ck_assert_int_eq(sl_icmp_parse(flush_copy(too_big, 8), 8, &h), 8);
	ck_assert_uint_eq(be32toh(h->mtu6_be), 1280);
	ck_assert_int_eq(sl_icmp_parse(flush_copy(needed, 8), 8, &h), 8);
	ck_assert_uint_eq(be16toh(h->mtu4_be), 1500);
	ck_assert_int_eq(sl_icmp_parse(flush_copy(echo, 8), 8, &h), 8);
	ck_assert_uint_eq(be16toh(h->id_be), 1);
	ck_assert_uint_eq(be16toh(h->seq_be), 2);
	ck_assert(sl_icmp4_is_error(SL_ICMP4_UNREACHABLE) && !sl_icmp4_is_error(SL_ICMP4_ECHO));
	ck_assert(sl_icmp6_is_error(SL_ICMP6_PACKET_TOO_BIG) && !sl_icmp6_is_error(SL_ICMP6_ECHO));
}

TEST(quotes_of_ip4)
{
	make4(SL_IP_PROTO_TCP);
	ck_assert_int_eq(quote4(28), 0);
	check_ports(4, 0x05060708, 1500);
	ck_assert_uint_eq(sl_get_be32(q.src), 0x0a000001);
	ck_assert_uint_eq(sl_get_be32(q.dst), 0x0a000002);
	for (size_t n = 0; n < 28; n++)
		ck_assert_int_eq(quote4(n), SL_WIRE_TRUNCATED);
	make4(SL_IP_PROTO_UDP);
	ck_assert_int_eq(quote4(60), 0);
	check_ports(4, 0, 1500);
	make4(SL_IP_PROTO_ICMP);
	ck_assert_int_eq(quote4(60), SL_WIRE_TYPE);
}

TEST(malformed_quotes_of_ip4)
{
	make4(SL_IP_PROTO_TCP);
	quoted[0] = 0x65;
	ck_assert_int_eq(quote4(60), SL_WIRE_TYPE);
	quoted[0] = 0x44;
	ck_assert_int_eq(quote4(60), SL_WIRE_HEADER);
	quoted[0] = 0x4f;
	ck_assert_int_eq(quote4(59), SL_WIRE_TRUNCATED);
	ck_assert_int_eq(quote4(68), 0);
	make4(SL_IP_PROTO_TCP);
	quoted[7] = 1; /* a later fragment has no ports */
	ck_assert_int_eq(quote4(60), SL_WIRE_HEADER);
	make4(SL_IP_PROTO_TCP);
	sl_put_be16(quoted + 2, 27);
	ck_assert_int_eq(quote4(60), SL_WIRE_HEADER);
}

TEST(quotes_of_ip6)
{
	make6(SL_IP_PROTO_TCP);
	ck_assert_int_eq(quote6(48), 0);
	check_ports(6, 0x05060708, 1500);
	ck_assert_uint_eq(q.src[15], 1);
	ck_assert_uint_eq(q.dst[15], 2);
	for (size_t n = 0; n < 48; n++)
		ck_assert_int_eq(quote6(n), SL_WIRE_TRUNCATED);
	make6(SL_IP6_EXT_DEST);
	memcpy(quoted + 40, (const uint8_t[]){SL_IP_PROTO_UDP, 0, 0, 0, 0, 0, 0, 0}, 8);
	memcpy(quoted + 48, (const uint8_t[]){1, 2, 3, 4, 5, 6, 7, 8}, 8);
	ck_assert_int_eq(quote6(56), 0);
	check_ports(6, 0, 1500);
	for (size_t n = 40; n < 56; n++)
		ck_assert_int_eq(quote6(n), SL_WIRE_TRUNCATED);
}

TEST(malformed_quotes_of_ip6)
{
	make6(SL_IP6_EXT_FRAGMENT);
	memcpy(quoted + 40, (const uint8_t[]){SL_IP_PROTO_TCP, 0, 0, 1, 0, 0, 0, 0}, 8);
	ck_assert_int_eq(quote6(80), SL_WIRE_HEADER);
	make6(SL_IP6_EXT_ROUTING);
	ck_assert_int_eq(quote6(80), SL_WIRE_EXTENSION); /* segments left */
	make6(SL_IP_PROTO_ICMP6);
	ck_assert_int_eq(quote6(80), SL_WIRE_TYPE);
	make6(SL_IP_PROTO_TCP);
	sl_put_be16(quoted + 4, 7);
	ck_assert_int_eq(quote6(80), SL_WIRE_HEADER);
	quoted[0] = 0x45;
	ck_assert_int_eq(quote6(80), SL_WIRE_TYPE);
}

TEST(random_quotes_stay_inside)
{
	struct sl_prng r;

	sl_prng_seed(&r, 1);
	for (int i = 0; i < 4000; i++) {
		size_t len = sl_prng_below(&r, sizeof(quoted) + 1);

		make6((uint8_t[]){0, 43, 44, 60, 6}[sl_prng_below(&r, 5)]);
		for (size_t k = 40; k < sizeof(quoted); k++)
			quoted[k] = (uint8_t)sl_prng_below(&r, 3);
		quote6(len);
		make4(SL_IP_PROTO_TCP);
		quoted[0] = (uint8_t)(0x40 | sl_prng_below(&r, 16));
		quote4(len);
	}
}
