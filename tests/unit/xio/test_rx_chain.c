/* SPDX-License-Identifier: Apache-2.0 */
/* Segments of packets that are longer than a frame. */
#include <string.h>
#include "suite.h"
#include "wire/csum.h"
#include "wire/eth.h"
#include "wire/ip4.h"
#include "wire/ip6.h"
#include "wire/tcp.h"
#include "xio/rx_chain.h"

enum { PART = 1000, PARTS = 3, TOTAL = PART * PARTS, ROOM = 256, TS = 12, SEQ = 5000 };

static uint8_t area[PARTS][2048];
static struct sl_frame frames[PARTS];
static struct sl_rx_chain chain;
static size_t l4;

static uint64_t pseudo(const uint8_t *ip, uint8_t family, uint32_t len)
{
	const struct sl_ip4_hdr *v4 = (const struct sl_ip4_hdr *)ip;
	const struct sl_ip6_hdr *v6 = (const struct sl_ip6_hdr *)ip;

	return family == 4 ? sl_csum_pseudo4(v4->src_be, v4->dst_be, SL_IP_PROTO_TCP, len)
			   : sl_csum_pseudo6(v6->src, v6->dst, SL_IP_PROTO_TCP, len);
}

static struct sl_tcp_hdr *tcp_of(const struct sl_frame *f)
{
	return (struct sl_tcp_hdr *)(f->data + l4);
}

/* One segment of TOTAL bytes in three frames, as a local sender with TSO leaves it. */
static void make(uint8_t family, uint8_t flags)
{
	const uint8_t a[16] = {10, 1}, b[16] = {10, 2};
	const uint16_t l4_len = sizeof(struct sl_tcp_hdr) + TS + TOTAL;
	uint8_t *p = area[0] + ROOM;
	uint32_t src, dst;

	memset(area, 0, sizeof(area));
	memset(frames, 0, sizeof(frames));
	memset(&chain, 0, sizeof(chain));
	memcpy(&src, a, 4);
	memcpy(&dst, b, 4);
	sl_eth_write(p, a, b, NULL, 0, family == 4 ? SL_ETHERTYPE_IP4 : SL_ETHERTYPE_IP6);
	if (family == 4) {
		sl_ip4_write((struct sl_ip4_hdr *)(p + 14), src, dst, SL_IP_PROTO_TCP, l4_len, 0,
			     true);
		sl_csum_ip4_fill((struct sl_ip4_hdr *)(p + 14), 20);
	} else {
		sl_ip6_write((struct sl_ip6_hdr *)(p + 14), a, b, SL_IP_PROTO_TCP, l4_len);
	}
	l4 = family == 4 ? 34 : 54;
	frames[0].data = p;
	sl_tcp_write(tcp_of(&frames[0]), 1, 2, SEQ, 7, flags, 100, TS);
	tcp_of(&frames[0])->csum_be = sl_csum_fold(pseudo(p + 14, family, l4_len));
	frames[0].len = (uint16_t)(l4 + 20 + TS + PART);
	for (int i = 0; i < PARTS; i++) {
		uint8_t *payload = i ? area[i] + ROOM : p + l4 + 20 + TS;

		memset(payload, 'a' + i, PART);
		if (i)
			frames[i].len = PART;
		if (i)
			frames[i].data = payload;
	}
}

TEST_EACH(each_frame_becomes_a_segment, 2)
{
	const uint8_t family = _i ? 6 : 4;

	make(family, SL_TCP_ACK | SL_TCP_PSH | SL_TCP_FIN);
	for (int i = 0; i < PARTS; i++) {
		const struct sl_frame *f = &frames[i];
		const struct sl_tcp_hdr *tcp;
		struct sl_ip4_view v4;
		struct sl_ip6_view v6;

		ck_assert(sl_rx_chain_take(&chain, &frames[i], i < PARTS - 1));
		ck_assert_uint_eq(f->len, l4 + 20 + TS + PART);
		if (family == 4) {
			ck_assert_int_eq(sl_ip4_parse(f->data + 14, f->len - 14u, &v4), 20);
			ck_assert(sl_csum_ip4_ok(v4.hdr, 20));
			ck_assert_uint_eq(v4.payload_len, 20 + TS + PART);
		} else {
			ck_assert_int_eq(sl_ip6_parse(f->data + 14, f->len - 14u, &v6), 40);
			ck_assert_uint_eq(v6.payload_len, 20 + TS + PART);
		}
		ck_assert_int_eq(sl_tcp_parse(f->data + l4, f->len - l4, &tcp), 20 + TS);
		ck_assert_uint_eq(be32toh(tcp->seq_be), SEQ + (uint32_t)i * PART);
		ck_assert_uint_eq(tcp->flags, i < PARTS - 1 ? SL_TCP_ACK
							    : SL_TCP_ACK | SL_TCP_PSH | SL_TCP_FIN);
		ck_assert(sl_csum_l4_partial(pseudo(f->data + 14, family, 20 + TS + PART),
					     tcp->csum_be));
		ck_assert_int_eq(f->data[l4 + 20 + TS], 'a' + i);
		ck_assert_int_eq(f->data[f->len - 1], 'a' + i);
	}
	ck_assert(!chain.open);
}

/* Takes the chain. Returns how many frames were dropped. */
static int dropped(void)
{
	int n = 0;

	for (int i = 0; i < PARTS; i++)
		n += !sl_rx_chain_take(&chain, &frames[i], i < PARTS - 1);
	ck_assert(!chain.open);
	return n;
}

TEST(other_long_packets_are_dropped)
{
	make(4, SL_TCP_ACK);
	tcp_of(&frames[0])->csum_be ^= 1; /* a whole checksum */
	ck_assert_int_eq(dropped(), PARTS);
	make(4, SL_TCP_ACK | SL_TCP_SYN);
	ck_assert_int_eq(dropped(), PARTS);
	make(4, SL_TCP_ACK);
	frames[0].data[14 + 9] = SL_IP_PROTO_UDP;
	ck_assert_int_eq(dropped(), PARTS);
	make(6, SL_TCP_ACK);
	frames[0].data[14] = 0;
	ck_assert_int_eq(dropped(), PARTS);
	for (size_t len = 0; len < l4 + 20 + TS; len++) {
		make(6, SL_TCP_ACK);
		frames[0].len = (uint16_t)len; /* headers in two frames */
		ck_assert_int_eq(dropped(), PARTS);
	}
}

TEST(wrong_lengths_end_a_chain)
{
	make(4, SL_TCP_ACK);
	frames[1].len = TOTAL;
	ck_assert_int_eq(dropped(), 2);
	make(4, SL_TCP_ACK);
	frames[2].len--;
	ck_assert_int_eq(dropped(), 1);
}

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

/* Changes up to four bytes of the headers, and sometimes a length. */
static void spoil(uint32_t *state)
{
	for (uint32_t n = next_random(state) % 4; n; n--)
		frames[0].data[next_random(state) % (l4 + 20)] = (uint8_t)next_random(state);
	if (next_random(state) % 4 == 0)
		frames[next_random(state) % PARTS].len = (uint16_t)(next_random(state) % 1792);
}

TEST(hostile_chains_stay_inside_their_frames)
{
	uint32_t state = 1, kept = 0, lost = 0;

	for (int n = 0; n < 100000; n++) {
		make(n % 2 ? 6 : 4, SL_TCP_ACK);
		spoil(&state);
		for (int i = 0; i < PARTS; i++) {
			if (!sl_rx_chain_take(&chain, &frames[i], i < PARTS - 1)) {
				lost++;
				continue;
			}
			kept++;
			ck_assert(frames[i].data >= area[i]);
			ck_assert(frames[i].data + frames[i].len <= area[i] + sizeof(area[i]));
		}
		ck_assert(!chain.open);
	}
	ck_assert_uint_gt(kept, 1000);
	ck_assert_uint_gt(lost, 1000);
}

TEST(single_frames_pass)
{
	make(4, SL_TCP_ACK);
	frames[0].data[12] = 0xff;
	ck_assert(sl_rx_chain_take(&chain, &frames[0], false));
	ck_assert_uint_eq(frames[0].data[12], 0xff);
}
