/* SPDX-License-Identifier: Apache-2.0 */
/* Segments of packets that are longer than a frame. */
#include <string.h>
#include "suite.h"
#include "wire/csum.h"
#include "wire/eth.h"
#include "wire/ip4.h"
#include "wire/ip6.h"
#include "wire/tcp.h"
#include "xio/port.h"
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
	chain.partial_csum = true;
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

static enum sl_rx_chain_verdict take(struct sl_frame *f, bool more)
{
	enum sl_rx_chain_verdict verdict = sl_rx_chain_take(&chain, f, more);

	if (verdict != SL_RX_CHAIN_WAIT)
		chain.frame_cnt = 0;
	return verdict;
}

TEST_EACH(each_frame_becomes_a_segment, 2)
{
	const uint8_t family = _i ? 6 : 4;

	make(family, SL_TCP_ACK | SL_TCP_PSH | SL_TCP_FIN);
	for (int i = 0; i < PARTS; i++) {
		struct sl_frame *f = &frames[i];
		const struct sl_tcp_hdr *tcp;
		struct sl_ip4_view v4;
		struct sl_ip6_view v6;

		ck_assert_int_eq(take(f, i < PARTS - 1), SL_RX_CHAIN_PASS);
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

static int drops(struct sl_frame *f, bool more)
{
	enum sl_rx_chain_verdict verdict = sl_rx_chain_take(&chain, f, more);
	int n = (int)chain.frame_cnt;

	if (verdict != SL_RX_CHAIN_WAIT)
		chain.frame_cnt = 0;
	return verdict == SL_RX_CHAIN_DROP ? n : 0;
}

/* Takes the chain. Returns how many frames were dropped. */
static int dropped(void)
{
	int n = 0;

	for (int i = 0; i < PARTS; i++)
		n += drops(&frames[i], i < PARTS - 1);
	ck_assert(!chain.open);
	ck_assert_uint_eq(chain.frame_cnt, 0);
	return n;
}

TEST(other_long_packets_are_dropped)
{
	make(4, SL_TCP_ACK);
	tcp_of(&frames[0])->csum_be ^= 1; /* neither partial nor right */
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

/* As a sender whose MTU exceeds the frames: the checksum covers the payload. */
static void make_whole(uint8_t family)
{
	uint64_t sum;

	make(family, SL_TCP_ACK | SL_TCP_PSH);
	frames[0].len = (uint16_t)(frames[0].len - 1); /* odd pieces */
	memmove(frames[1].data - 1, frames[1].data, PART);
	frames[1].data--;
	frames[1].data[PART] = 'b';
	frames[1].len++;
	tcp_of(&frames[0])->csum_be = 0;
	sum = pseudo(frames[0].data + 14, family, sizeof(struct sl_tcp_hdr) + TS + TOTAL);
	for (uint32_t i = 0, at = 0; i < PARTS; i++) {
		const uint32_t from = i ? 0 : (uint32_t)l4;

		sum = sl_csum_join(sum, sl_csum_add(frames[i].data + from, frames[i].len - from, 0),
				   at);
		at += frames[i].len - from;
	}
	tcp_of(&frames[0])->csum_be = sl_csum_finish(sum);
}

TEST_EACH(segments_of_a_whole_checksum_leave_together, 2)
{
	const uint8_t family = _i ? 6 : 4;
	uint32_t seq = SEQ;

	make_whole(family);
	ck_assert_int_eq(sl_rx_chain_take(&chain, &frames[0], true), SL_RX_CHAIN_WAIT);
	ck_assert_int_eq(sl_rx_chain_take(&chain, &frames[1], true), SL_RX_CHAIN_WAIT);
	ck_assert_int_eq(sl_rx_chain_take(&chain, &frames[2], false), SL_RX_CHAIN_PASS);
	ck_assert_uint_eq(chain.frame_cnt, PARTS);
	for (uint32_t i = 0; i < PARTS; i++) {
		struct sl_frame *f = chain.frames[i];
		const uint32_t payload = (uint32_t)(f->len - l4 - 20 - TS);

		ck_assert_ptr_eq(f, &frames[i]);
		ck_assert_uint_eq(payload, i == 0 ? PART - 1 : i == 1 ? PART + 1 : PART);
		ck_assert_uint_eq(be32toh(tcp_of(f)->seq_be), seq);
		ck_assert(sl_csum_l4_partial(pseudo(f->data + 14, family, 20 + TS + payload),
					     tcp_of(f)->csum_be));
		ck_assert_uint_eq(tcp_of(f)->flags,
				  i + 1 < PARTS ? SL_TCP_ACK : SL_TCP_ACK | SL_TCP_PSH);
		seq += payload;
	}
}

/* As on NICs, whose packets never have a partial checksum. */
TEST_EACH(segments_have_whole_checksums_where_the_port_needs_them, 2)
{
	const uint8_t family = _i ? 6 : 4;

	make_whole(family);
	chain.partial_csum = false;
	ck_assert_int_eq(sl_rx_chain_take(&chain, &frames[0], true), SL_RX_CHAIN_WAIT);
	frames[1].rx_ns = 5;
	ck_assert_int_eq(sl_rx_chain_take(&chain, &frames[1], true), SL_RX_CHAIN_WAIT);
	ck_assert_uint_eq(frames[1].rx_ns, 0);
	ck_assert_int_eq(sl_rx_chain_take(&chain, &frames[2], false), SL_RX_CHAIN_PASS);
	for (uint32_t i = 0; i < PARTS; i++) {
		struct sl_frame *f = chain.frames[i];
		const uint32_t len = (uint32_t)(f->len - l4);

		ck_assert(sl_csum_l4_ok(pseudo(f->data + 14, family, len), f->data + l4, len));
	}
	make(family, SL_TCP_ACK);
	chain.partial_csum = false;
	ck_assert_int_eq(dropped(), PARTS);
}

TEST(one_wrong_bit_under_a_whole_checksum_drops_all)
{
	for (uint32_t i = 0; i < PARTS; i++) {
		make_whole(4);
		frames[i].data[frames[i].len - 1] ^= 4;
		ck_assert_int_eq(dropped(), PARTS);
	}
}

TEST(a_packet_of_too_many_frames_is_dropped)
{
	struct sl_frame more[SL_RX_CHAIN_FRAMES];
	int lost = 0;

	make_whole(6);
	frames[0].len = (uint16_t)(l4 + 20 + TS);
	ck_assert_int_eq(drops(&frames[0], true), 0);
	for (uint32_t i = 0; i < SL_RX_CHAIN_FRAMES; i++) {
		more[i] = (struct sl_frame){.data = area[1] + ROOM, .len = 1};
		lost += drops(&more[i], true);
	}
	lost += drops(&frames[2], false);
	ck_assert_int_eq(lost, SL_RX_CHAIN_FRAMES + 2);
}

TEST(an_mtu_above_the_frame_needs_chains)
{
	struct sl_umem umem = {.frame_size = SL_FRAME_SIZE_MAX};
	struct sl_port p = {.umem = &umem};

	sl_port_set_mtu(&p, 1500);
	ck_assert_uint_eq(p.mtu, 1500);
	ck_assert_uint_eq(p.rx_mtu, 1500);
	sl_port_set_mtu(&p, 9000);
	ck_assert_uint_eq(p.mtu, 3818);
	ck_assert_uint_eq(p.rx_mtu, 3818);
	p.chains = true;
	sl_port_set_mtu(&p, 9000);
	ck_assert_uint_eq(p.mtu, 3818);
	ck_assert_uint_eq(p.rx_mtu, 9000);
	sl_port_set_mtu(&p, 65535);
	ck_assert_uint_eq(p.rx_mtu, SL_MTU_MAX);
	sl_port_set_mtu(&p, 1280);
	ck_assert_uint_eq(p.rx_mtu, 1280);
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
			enum sl_rx_chain_verdict verdict =
				sl_rx_chain_take(&chain, &frames[i], i < PARTS - 1);

			if (verdict == SL_RX_CHAIN_WAIT)
				continue;
			lost += verdict == SL_RX_CHAIN_DROP ? chain.frame_cnt : 0;
			kept += verdict == SL_RX_CHAIN_PASS ? chain.frame_cnt : 0;
			chain.frame_cnt = 0;
			ck_assert(frames[i].data >= area[i]);
			ck_assert(frames[i].data + frames[i].len <= area[i] + sizeof(area[i]));
		}
		ck_assert_uint_eq(chain.frame_cnt, 0);
		ck_assert(!chain.open);
	}
	ck_assert_uint_gt(kept, 1000);
	ck_assert_uint_gt(lost, 1000);
}

TEST(single_frames_pass)
{
	make(4, SL_TCP_ACK);
	frames[0].data[12] = 0xff;
	ck_assert_int_eq(take(&frames[0], false), SL_RX_CHAIN_PASS);
	ck_assert_uint_eq(frames[0].data[12], 0xff);
}
