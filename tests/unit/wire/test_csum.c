/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/csum.h"

#include "unit.h"
#include "base/rand.h"
#include "wire/tcp.h"
#include "wire/udp.h"
#include "suite.h"

enum { MAX = 4096 };

static uint8_t data[MAX + 64], copied[MAX + 128];
static struct sl_prng rnd;

/* RFC 1071, section 4.1, on big-endian words: the plain loop that everything is compared with. */
static uint16_t plain_sum(const uint8_t *p, size_t len, uint32_t start)
{
	uint64_t sum = start;

	for (size_t i = 0; i + 1 < len; i += 2)
		sum += (uint64_t)p[i] << 8 | p[i + 1];
	if (len & 1)
		sum += (uint64_t)p[len - 1] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

static void fill_random(void)
{
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)sl_prng_u64(&rnd);
}

/* Zero and all ones are the same number in one's complement. */
static void same_sum(uint16_t got_be, uint16_t want)
{
	uint16_t got = be16toh(got_be);

	ck_assert_msg(got % 0xffff == want % 0xffff, "%04x instead of %04x", got, want);
}

TEST(example_of_rfc_1071)
{
	static const uint8_t b[] = {0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7};

	ck_assert_uint_eq(be16toh(sl_csum_fold(sl_csum_add(b, 8, 0))), 0xddf2);
	ck_assert_uint_eq(be16toh(sl_csum_finish(sl_csum_add(b, 8, 0))), 0x220d);
}

TEST(all_variants_match_the_plain_loop)
{
	const struct sl_csum_ops *ops;

	sl_prng_seed(&rnd, 1);
	for (unsigned k = 0; (ops = sl_csum_ops_at(k)); k++) {
		for (int i = 0; i < 4000; i++) {
			size_t off = sl_prng_below(&rnd, 33);
			size_t len = i < 300 ? (size_t)i : sl_prng_below(&rnd, MAX);
			uint32_t start = (uint16_t)sl_prng_u64(&rnd);

			if (i % 50 == 0)
				fill_random();
			same_sum(sl_csum_fold(ops->add(data + off, len, htobe16((uint16_t)start))),
				 plain_sum(data + off, len, start));
		}
	}
	ck_assert_str_eq(sl_csum_variant(), sl_csum_ops_at(sl_csum_ops_at(1) ? 1 : 0)->name);
}

TEST(all_ones_carry_everywhere)
{
	const struct sl_csum_ops *ops;

	memset(data, 0xff, sizeof(data));
	for (unsigned k = 0; (ops = sl_csum_ops_at(k)); k++) {
		for (size_t len = 1; len < 700; len++) {
			uint64_t sum = ops->add(data, len, UINT64_MAX);

			ck_assert_uint_lt(sum, UINT64_C(1) << 33);
			same_sum(sl_csum_fold(sum), plain_sum(data, len, 0xffff));
		}
	}
}

TEST(reads_end_at_the_end)
{
	const struct sl_csum_ops *ops;
	uint8_t *src, *dst;

	sl_prng_seed(&rnd, 2);
	fill_random();
	for (size_t len = 0; len < 200; len++) {
		src = flush_copy(data, len);
		dst = flush_with_guard(len);
		same_sum(sl_csum_fold(sl_csum_add(src, len, 0)), plain_sum(data, len, 0));
		for (unsigned k = 0; (ops = sl_csum_ops_at(k)); k++) {
			memset(dst, 0, len);
			same_sum(sl_csum_fold(ops->copy(dst, src, len, 0)),
				 plain_sum(data, len, 0));
			if (len)
				ck_assert_mem_eq(dst, data, len);
		}
	}
}

TEST(copies_are_exact_and_write_no_more)
{
	sl_prng_seed(&rnd, 3);
	fill_random();
	for (int i = 0; i < 2000; i++) {
		size_t from = sl_prng_below(&rnd, 33), to = 1 + sl_prng_below(&rnd, 33);
		size_t len = sl_prng_below(&rnd, i % 2 ? 150 : MAX);

		memset(copied, 0x5a, sizeof(copied));
		same_sum(sl_csum_fold(sl_csum_copy(copied + to, data + from, len, 0)),
			 plain_sum(data + from, len, 0));
		if (len)
			ck_assert_mem_eq(copied + to, data + from, len);
		ck_assert_uint_eq(copied[to - 1], 0x5a);
		ck_assert_uint_eq(copied[to + len], 0x5a);
	}
}

TEST(pieces_join_at_odd_offsets)
{
	sl_prng_seed(&rnd, 4);
	for (int i = 0; i < 2000; i++) {
		size_t a = sl_prng_below(&rnd, 100), b = sl_prng_below(&rnd, 100);
		uint64_t sum;

		fill_random();
		sum = sl_csum_join(sl_csum_add(data, a, 0), sl_csum_add(data + a, b, 0), a);
		same_sum(sl_csum_fold(sum), plain_sum(data, a + b, 0));
	}
}

TEST(fold_takes_any_sum)
{
	ck_assert_uint_eq(sl_csum_fold(0), 0);
	ck_assert_uint_eq(sl_csum_fold(UINT64_MAX), 0xffff);
	ck_assert_uint_eq(sl_csum_fold(UINT64_C(0xffffffff00000000)), 0xffff);
	ck_assert_uint_eq(sl_csum_fold(UINT64_C(0xfffffffffffffffe)), 0xfffe);
	ck_assert_uint_eq(sl_csum_fold(0x1ffff), 1);
	ck_assert_uint_eq(sl_csum_fold(UINT64_C(0xffffffff7fff8001)), 1); /* a carry in each step */
	ck_assert_uint_eq(sl_csum_fold(UINT64_C(0xffffffffffff0000)), 0xffff);
	ck_assert_uint_eq(sl_csum_fold(UINT64_C(0x1fffeffff)), 0xffff);
}

/* 10.0.0.1:1234 to 10.0.0.2:5678, "A"; both checksums computed by another program. */
static const uint8_t dgram[] = {0x45, 0x00, 0x00, 0x1d, 0x12, 0x34, 0x40, 0x00, 0x40, 0x11,
				0x14, 0x9a, 0x0a, 0x00, 0x00, 0x01, 0x0a, 0x00, 0x00, 0x02,
				0x04, 0xd2, 0x16, 0x2e, 0x00, 0x09, 0x8f, 0xd9, 0x41};

TEST(a_known_packet_is_right)
{
	uint8_t p[sizeof(dgram)];
	struct sl_ip4_hdr *ip = (struct sl_ip4_hdr *)p;
	struct sl_udp_hdr *udp = (struct sl_udp_hdr *)(p + 20);
	uint64_t pseudo;

	memcpy(p, dgram, sizeof(dgram));
	pseudo = sl_csum_pseudo4(ip->src_be, ip->dst_be, SL_IP_PROTO_UDP, 9);
	ck_assert(sl_csum_ip4_ok(ip, 20));
	ck_assert(sl_csum_l4_ok(pseudo, udp, 9));
	sl_csum_ip4_fill(ip, 20);
	udp->csum_be = 0;
	udp->csum_be = sl_csum_finish(sl_csum_add(udp, 9, pseudo));
	ck_assert_mem_eq(p, dgram, sizeof(dgram));
	p[28] ^= 1;
	ck_assert(!sl_csum_l4_ok(pseudo, udp, 9));
	p[8]--;
	ck_assert(!sl_csum_ip4_ok(ip, 20));
}

/* One pass over pseudo-header and bytes, laid out in memory as the RFCs draw them. */
static uint16_t plain_l4(const uint8_t *addrs, size_t addrs_len, uint8_t proto, const uint8_t *l4,
			 size_t len)
{
	return plain_sum(l4, len, plain_sum(addrs, addrs_len, proto + (uint32_t)len));
}

TEST(sums_match_the_pseudo_header)
{
	static uint8_t packet[40 + 1500];
	const struct sl_ip4_hdr *ip4 = (const struct sl_ip4_hdr *)(packet + 20);
	const struct sl_ip6_hdr *ip6 = (const struct sl_ip6_hdr *)packet;
	uint8_t *l4 = packet + 40;

	sl_prng_seed(&rnd, 6);
	for (uint32_t len = 20; len < 1500; len += 1 + (uint32_t)sl_prng_below(&rnd, 40)) {
		for (size_t i = 0; i < sizeof(packet); i++)
			packet[i] = (uint8_t)sl_prng_u64(&rnd);
		for (uint8_t proto = 6; proto <= 17; proto += 11) {
			uint64_t p4 = sl_csum_pseudo4(ip4->src_be, ip4->dst_be, proto, len);
			uint64_t p6 = sl_csum_pseudo6(ip6->src, ip6->dst, proto, len);

			same_sum(sl_csum_fold(sl_csum_add(l4, len, p4)),
				 plain_l4(packet + 32, 8, proto, l4, len));
			same_sum(sl_csum_fold(sl_csum_add(l4, len, p6)),
				 plain_l4(packet + 8, 32, proto, l4, len));
		}
	}
}

TEST(partial_checksums_of_veth)
{
	uint8_t packet[60] = {0};
	struct sl_ip4_hdr *ip = (struct sl_ip4_hdr *)packet;
	struct sl_tcp_hdr *tcp = (struct sl_tcp_hdr *)(packet + 20);
	uint64_t pseudo;

	sl_ip4_write(ip, htobe32(0xc0a80001), htobe32(0xc0a800ff), SL_IP_PROTO_TCP, 40, 0, true);
	pseudo = sl_csum_pseudo4(ip->src_be, ip->dst_be, SL_IP_PROTO_TCP, 40);
	/* c0a8 + 0001 + c0a8 + 00ff + 0006 + 0028 */
	tcp->csum_be = htobe16(0x827f);
	ck_assert(sl_csum_l4_partial(pseudo, tcp->csum_be));
	ck_assert(!sl_csum_l4_ok(pseudo, tcp, 40));
	tcp->csum_be = 0;
	tcp->csum_be = sl_csum_finish(sl_csum_add(tcp, 40, pseudo));
	ck_assert(sl_csum_l4_ok(pseudo, tcp, 40));
	ck_assert(!sl_csum_l4_partial(pseudo, tcp->csum_be));
}

TEST(icmp_with_and_without_pseudo_header)
{
	uint8_t echo[] = {8, 0, 0xf7, 0xfc, 0, 1, 0, 2};
	uint8_t packet[48] = {[6] = 58, [7] = 64, [8] = 0xfe, 0x80, [23] = 1, 0xfe, 0x80, [39] = 2,
			      128,      0,        0,          0,    0,        1,    0,    2};
	const struct sl_ip6_hdr *ip = (const struct sl_ip6_hdr *)packet;
	struct sl_icmp_hdr *icmp = (struct sl_icmp_hdr *)(packet + 40);
	uint16_t sum;

	ck_assert(sl_csum_icmp4_ok((const struct sl_icmp_hdr *)echo, 8));
	echo[7] = 3;
	ck_assert(!sl_csum_icmp4_ok((const struct sl_icmp_hdr *)echo, 8));
	sum = plain_l4(packet + 8, 32, 58, packet + 40, 8);
	icmp->csum_be = htobe16((uint16_t)~sum);
	ck_assert(sl_csum_icmp6_ok(ip, icmp, 8));
	packet[8]++;
	ck_assert(!sl_csum_icmp6_ok(ip, icmp, 8));
}
