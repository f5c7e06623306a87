/* SPDX-License-Identifier: Apache-2.0 */
/* tx.c, path.c and listener.c. */
#include <errno.h>
#include "net_bed.h"
#include "sluice/abi.h"
#include "suite.h"

static struct sl_net_path path_for(uint8_t family, uint8_t vlan_cnt)
{
	struct sl_net_path path = {
		.vlan = {vlan_cnt == 2 ? PKT_VLAN_OUTER : PKT_VLAN_INNER, PKT_VLAN_INNER},
		.vlan_cnt = vlan_cnt,
		.vlan_ad = vlan_cnt == 2,
		.family = family,
	};

	memcpy(path.local, family == 4 ? pkt_our_ip4 : pkt_our_ip6, 16);
	memcpy(path.remote, family == 4 ? pkt_peer_ip4 : pkt_peer_ip6, 16);
	memcpy(path.mac, pkt_peer_mac, 6);
	return path;
}

static struct sl_frame *frame_of(struct bed *b, const void *bytes, size_t len)
{
	struct sl_frame *f = sl_frame_get(&b->umem, SL_FRAME_TX, SL_FRAME_HEADROOM);

	ck_assert_ptr_nonnull(f);
	memcpy(f->data, bytes, len);
	f->len = (uint16_t)len;
	return f;
}

/* Headers equal those of an independently built packet, for each family and number of tags. */
TEST_EACH(headers_are_written_as_read, 6)
{
	uint8_t family = _i < 3 ? 4 : 6, vlan_cnt = (uint8_t)(_i % 3);
	struct sl_net_path path = path_for(family, vlan_cnt);
	struct pkt p;
	struct bed b;

	bed_begin(&b);
	pkt_build(&p, &(struct pkt_spec){.family = family,
					 .vlan_cnt = vlan_cnt,
					 .from_us = true,
					 .payload = "hello",
					 .payload_len = 5});
	ck_assert_uint_eq(sl_net_header_len(&path), p.l4);

	struct sl_frame *f = frame_of(&b, p.b + p.l4, p.len - p.l4);

	memset(f->data + 6, 0, 2);
	uint16_t csum_be = sl_net_l4_csum(&path, PKT_UDP, f->data, f->len);

	memcpy(f->data + 6, &csum_be, 2);
	ck_assert(sl_net_send(&b.net, f, &path, PKT_UDP));
	ck_assert_uint_eq(sl_fake_sent_cnt(&b.port), 0); /* not before the flush */
	sl_net_flush(&b.net);
	ck_assert_uint_eq(sl_fake_sent_cnt(&b.port), 1);
	ck_assert_uint_eq(b.port.flush_cnt, 1);
	f = sl_fake_sent(&b.port, 0);
	ck_assert_uint_eq(f->len, p.len);
	ck_assert_mem_eq(f->data, p.b, p.len);
	bed_end(&b);
}

/* The way back of what came in leads to its sender. */
TEST_EACH(a_reply_goes_back_the_way_it_came, 6)
{
	uint8_t family = _i < 3 ? 4 : 6, vlan_cnt = (uint8_t)(_i % 3);
	struct pkt in, out;
	struct bed b;

	bed_begin(&b);
	pkt_build(&in, &(struct pkt_spec){.family = family, .vlan_cnt = vlan_cnt});
	pkt_build(&out,
		  &(struct pkt_spec){.family = family, .vlan_cnt = vlan_cnt, .from_us = true});
	bed_input(&b, &in);
	ck_assert(sl_net_send(&b.net, frame_of(&b, out.b + out.l4, out.len - out.l4), &b.path,
			      PKT_UDP));
	sl_net_flush(&b.net);
	ck_assert_mem_eq(sl_fake_sent(&b.port, 0)->data, out.b, out.len);
	bed_end(&b);
}

TEST(frames_that_the_ring_does_not_take_stay_in_order)
{
	struct bed b;

	bed_begin(&b);
	b.port.tx_room = 10;
	for (uint8_t i = 0; i < SL_BURST + 5; i++)
		ck_assert(sl_net_tx(&b.net, frame_of(&b, &i, 1)));
	ck_assert_uint_eq(sl_fake_sent_cnt(&b.port), 10);
	for (uint8_t i = 0; i < SL_BURST + 5; i++) {
		if (sl_fake_sent_cnt(&b.port) == 0)
			sl_net_flush(&b.net);
		ck_assert_uint_eq(sl_fake_sent(&b.port, 0)->data[0], i);
		ck_assert_uint_eq(sl_fake_complete(&b.port, 1), 1);
	}
	ck_assert_uint_eq(bed_drops(&b), 0);
	bed_end(&b);
}

TEST(a_full_ring_refuses_and_tells_the_owner_of_the_frame)
{
	struct sl_frame *retained;
	struct bed b;

	bed_begin(&b);
	b.port.tx_room = 0;
	for (uint8_t i = 0; i < SL_BURST; i++)
		ck_assert(sl_net_tx(&b.net, frame_of(&b, &i, 1)));
	uint32_t free_before = b.umem.free_cnt;

	ck_assert(!sl_net_tx(&b.net, frame_of(&b, "x", 1)));
	ck_assert_uint_eq(b.net.drops[SL_DROP_TX_FULL], 1);
	ck_assert_uint_eq(b.umem.free_cnt, free_before);

	retained = frame_of(&b, "y", 1);
	retained->retain = 1;
	ck_assert(!sl_net_tx(&b.net, retained));
	ck_assert_uint_eq(b.net.drops[SL_DROP_TX_FULL], 2);
	ck_assert_uint_eq(retained->state, SL_FRAME_UNACKED);
	sl_frame_acked(&b.umem, retained);
	bed_end(&b);
}

TEST(a_retained_frame_outlives_its_transmission)
{
	struct bed b;

	bed_begin(&b);
	struct sl_frame *f = frame_of(&b, "z", 1);

	/* sent, completed, kept; sent again from UNACKED; acknowledged while in the ring */
	f->retain = 1;
	ck_assert(sl_net_tx(&b.net, f));
	sl_net_flush(&b.net);
	ck_assert_uint_eq(f->state, SL_FRAME_TX);
	sl_fake_complete(&b.port, 1);
	ck_assert_uint_eq(f->state, SL_FRAME_UNACKED);
	ck_assert(sl_net_tx(&b.net, f));
	sl_net_flush(&b.net);
	ck_assert_uint_eq(f->state, SL_FRAME_TX);
	sl_frame_acked(&b.umem, f);
	ck_assert_uint_eq(f->state, SL_FRAME_TX);
	sl_fake_complete(&b.port, 1);
	ck_assert_uint_eq(f->state, SL_FRAME_FREE);
	bed_end(&b);
}

/* Pending frames are freed at the end; a retained frame stays its owner's. */
TEST(fini_frees_pending_frames)
{
	uint32_t census[SL_FRAME_STATE_CNT];
	struct bed b;

	bed_begin(&b);
	struct sl_frame *f = frame_of(&b, "z", 1);

	f->retain = 1;
	ck_assert(sl_net_tx(&b.net, f));
	ck_assert(sl_net_tx(&b.net, frame_of(&b, "y", 1)));
	sl_net_fini(&b.net);
	sl_umem_census(&b.umem, census);
	ck_assert_uint_eq(census[SL_FRAME_UNACKED], 1);
	ck_assert_uint_eq(census[SL_FRAME_FREE], BED_FRAMES - 1);
	sl_frame_put(&b.umem, f);
	bed_end(&b);
}

TEST(ports_are_numbered_in_order)
{
	struct sl_fake_port second;
	struct sl_umem other = {0};
	struct bed b;

	bed_begin(&b);
	sl_fake_port_init(&second, &b.umem, 2);
	ck_assert_int_eq(sl_net_add_port(&b.net, &second.port), -EINVAL);
	sl_fake_port_init(&second, &other, 1);
	ck_assert_int_eq(sl_net_add_port(&b.net, &second.port), -EINVAL);
	sl_fake_port_init(&second, &b.umem, 1);
	ck_assert_int_eq(sl_net_add_port(&b.net, &second.port), 0);

	struct sl_frame *f = frame_of(&b, "z", 1);

	f->port = 1;
	ck_assert(sl_net_tx(&b.net, f));
	sl_net_flush(&b.net);
	ck_assert_uint_eq(sl_fake_sent_cnt(&second), 1);
	ck_assert_uint_eq(sl_fake_sent_cnt(&b.port), 0);
	sl_fake_complete(&second, 1);
	bed_end(&b);
}

TEST(all_nets_of_a_process_hash_alike)
{
	static const uint8_t zero[16];
	struct sl_net other;
	struct bed b;

	bed_begin(&b);
	ck_assert_int_eq(sl_net_init(&other, &b.umem), 0);
	ck_assert_mem_eq(other.hash_key, b.net.hash_key, 16);
	ck_assert_mem_ne(other.hash_key, zero, 16);
	sl_net_fini(&other);
	bed_end(&b);
}

static int find4(const struct bed *b, const uint8_t *addr, uint16_t port, uint8_t protocol)
{
	return sl_net_find_listener(&b->net, 4, addr, htobe16(port), protocol);
}

TEST(listeners_match_exactly_or_any)
{
	static const uint8_t a[16] = {10, 0, 0, 1}, c[16] = {10, 0, 0, 3}, all[16] = {224, 0, 0, 1},
			     bcast[16] = {255, 255, 255, 255}, none[16] = {0};
	const struct sl_net_listener l[] = {
		{.at.port_be = htobe16(80), .at.family = 4, .protocol = PKT_TCP, .listener = 3},
		{.at.addr = {10, 0, 0, 1},
		 .at.port_be = htobe16(80),
		 .at.family = 4,
		 .protocol = PKT_TCP,
		 .listener = 4},
		{.at.addr = {10, 0, 0, 1},
		 .at.port_be = htobe16(81),
		 .at.family = 4,
		 .protocol = PKT_UDP,
		 .listener = 5},
		{.at.addr = {0x20, 1},
		 .at.port_be = htobe16(80),
		 .at.family = 6,
		 .protocol = PKT_TCP,
		 .listener = 6},
		{.at.port_be = htobe16(82), .at.family = 6, .protocol = PKT_TCP, .listener = 7},
		{.at.addr = {10, 0, 0, 1},
		 .at.port_be = htobe16(83),
		 .at.family = 4,
		 .protocol = PKT_TCP,
		 .listener = 8},
		{.at.port_be = htobe16(83), .at.family = 4, .protocol = PKT_TCP, .listener = 9},
	};
	static const uint8_t v6[16] = {0x20, 1}, v6_other[16] = {0x20, 2}, group[16] = {0xff, 2};
	struct bed b;

	bed_begin(&b);
	ck_assert_int_eq(find4(&b, a, 80, PKT_TCP), -1);
	ck_assert_int_eq(sl_net_set_listeners(&b.net, l, SL_ARRAY_LEN(l)), 0);
	ck_assert_int_eq(find4(&b, a, 80, PKT_TCP), 4);
	ck_assert_int_eq(find4(&b, a, 83, PKT_TCP), 8); /* in whatever order they are given */
	ck_assert_int_eq(find4(&b, c, 83, PKT_TCP), 9);
	ck_assert_int_eq(find4(&b, c, 80, PKT_TCP), 3);
	ck_assert_int_eq(find4(&b, all, 80, PKT_TCP), -1);
	ck_assert_int_eq(find4(&b, bcast, 80, PKT_TCP), -1);
	ck_assert_int_eq(find4(&b, none, 81, PKT_UDP), -1);
	ck_assert_int_eq(find4(&b, a, 80, PKT_UDP), -1);
	ck_assert_int_eq(find4(&b, a, 81, PKT_UDP), 5);
	ck_assert_int_eq(find4(&b, c, 81, PKT_UDP), -1);
	ck_assert_int_eq(sl_net_find_listener(&b.net, 6, v6, htobe16(80), PKT_TCP), 6);
	ck_assert_int_eq(sl_net_find_listener(&b.net, 6, v6_other, htobe16(80), PKT_TCP), -1);
	ck_assert_int_eq(sl_net_find_listener(&b.net, 6, v6_other, htobe16(82), PKT_TCP), 7);
	ck_assert_int_eq(sl_net_find_listener(&b.net, 6, group, htobe16(82), PKT_TCP), -1);
	ck_assert(sl_net_serves(&b.net, 4, c));
	ck_assert(!sl_net_serves(&b.net, 4, all));

	/* a new set replaces the old one */
	ck_assert_int_eq(sl_net_set_listeners(&b.net, l + 2, 2), 0);
	ck_assert_int_eq(find4(&b, a, 80, PKT_TCP), -1);
	ck_assert_int_eq(find4(&b, a, 81, PKT_UDP), 5);
	ck_assert(sl_net_serves(&b.net, 4, a));
	ck_assert(!sl_net_serves(&b.net, 4, c));
	ck_assert(!sl_net_serves(&b.net, 6, v6_other));
	bed_end(&b);
}

/* So many that their runs of slots meet: what is not served is still not found. */
TEST(as_many_listeners_as_allowed_and_no_more)
{
	static struct sl_net_listener l[SL_MAX_LISTENERS + 1];
	static const uint8_t addr[16] = {10, 0, 0, 1};
	unsigned found = 0;
	struct bed b;

	bed_begin(&b);
	for (unsigned i = 0; i <= SL_MAX_LISTENERS; i++)
		l[i] = (struct sl_net_listener){.at.addr = {10, 0, 0, 1},
						.at.port_be = htobe16((uint16_t)(1000 + i * 7)),
						.at.family = 4,
						.protocol = PKT_TCP,
						.listener = (uint16_t)i};
	ck_assert_int_eq(sl_net_set_listeners(&b.net, l, SL_MAX_LISTENERS + 1), -EINVAL);
	ck_assert_int_eq(sl_net_set_listeners(&b.net, l, SL_MAX_LISTENERS), 0);
	for (unsigned i = 0; i < SL_MAX_LISTENERS; i++)
		ck_assert_int_eq(find4(&b, addr, (uint16_t)(1000 + i * 7), PKT_TCP), (int)i);
	for (uint32_t port = 0; port < 65536; port++) {
		found += find4(&b, addr, (uint16_t)port, PKT_TCP) >= 0;
		found += find4(&b, addr, (uint16_t)port, PKT_UDP) >= 0;
		found += sl_net_find_listener(&b.net, 6, addr, (uint16_t)port, PKT_TCP) >= 0;
	}
	ck_assert_uint_eq(found, SL_MAX_LISTENERS);
	ck_assert_int_eq(sl_net_set_listeners(&b.net, NULL, 0), 0);
	ck_assert_int_eq(find4(&b, addr, 1000, PKT_TCP), -1);
	bed_end(&b);
}
