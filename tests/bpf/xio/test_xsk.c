/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ports on AF_XDP: real packets over a veth, in and out, and every frame accounted for at the end.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "base/check.h"
#include "base/clock.h"
#include "xio/xdp/acl_map.h"
#include "xio/xdp/xdp.h"
#include "xio/xsk_port.h"
#include "netns.h"
#include "suite.h"

enum {
	QUEUES = 2,
	FRAMES = 1024,
	DPORT = 7000,
	PACKET_LEN = 200,
	SEQ_OFF = 60, /* where a packet carries its number, as four bytes */
	WAIT_MS = 2000,
};

static struct sl_xdp xdp;
static struct sl_umem umem;
static struct sl_port *ports[QUEUES];
static int peer; /* packet socket at the other end */
static struct sl_err err = SL_ERR(256);

/* ---- peer ---- */

static void build_datagram(uint8_t *p, unsigned sport, uint32_t seq)
{
	static const uint8_t head[] = {
		2,    0,  0, 0,
		0,    1,  2, 0,
		0,    0,  0, 2,
		8,    0, /* Ethernet */
		0x45, 0,  0, PACKET_LEN - 14,
		0,    0,  0, 0,
		64,   17, 0, 0, /* IPv4 */
		10,   0,  0, 2,
		10,   0,  0, 1,
	};

	memset(p, 0, PACKET_LEN);
	memcpy(p, head, sizeof(head));
	p[34] = (uint8_t)(sport >> 8);
	p[35] = (uint8_t)sport;
	p[36] = DPORT >> 8;
	p[37] = DPORT & 0xff;
	p[39] = PACKET_LEN - 34;
	memcpy(p + SEQ_OFF, &seq, sizeof(seq));
}

static void peer_send(unsigned sport, uint32_t seq)
{
	uint8_t p[PACKET_LEN];

	build_datagram(p, sport, seq);
	ck_assert_int_eq(send(peer, p, sizeof(p), 0), sizeof(p));
}

/* A segment of a TCP connection that exists already. */
static void peer_send_segment(uint32_t seq)
{
	uint8_t p[PACKET_LEN];

	build_datagram(p, DPORT, seq);
	p[23] = 6;
	p[46] = 5 << 4; /* header length */
	p[47] = 0x10;   /* ACK */
	ck_assert_int_eq(send(peer, p, sizeof(p), 0), sizeof(p));
}

/* The number in the next packet that arrives at the peer, or -1. */
static int64_t peer_recv(void)
{
	uint8_t p[2048];
	uint32_t seq;
	ssize_t len = recv(peer, p, sizeof(p), MSG_DONTWAIT);

	if (len < 0)
		return -1;
	ck_assert_int_eq(len, PACKET_LEN);
	memcpy(&seq, p + SEQ_OFF, sizeof(seq));
	return seq;
}

/* ---- helpers ---- */

static void listen_on_address(void)
{
	struct sl_listener_key key = {
		.addr = {10, 0, 0, 1}, .port = htons(DPORT), .family = 4, .protocol = 17};
	const struct sl_listener l = {.listener = 3, .shed_service = SL_ANY_SERVICE};

	ck_assert_int_eq(sl_xdp_listen(&xdp, &key, &l), 0);
	key.protocol = 6;
	ck_assert_int_eq(sl_xdp_listen(&xdp, &key, &l), 0);
}

static void open_xdp(bool generic)
{
	const struct sl_xdp_options o = {.worker_cnt = 1, .generic = generic};

	ck_assert_msg(sl_xdp_open(&xdp, "sl0", &o, &err) == 0, "%s", err.text);
	ck_assert_int_eq(sl_xdp_edge_mac(&xdp, (const uint8_t[]){2, 0, 0, 0, 0, 1}), 0);
	listen_on_address();
}

static void open_port(unsigned queue, const struct sl_xsk_options *o)
{
	struct sl_xsk_options with_index = *o;

	with_index.port_index = (uint8_t)queue;
	ck_assert_msg(sl_xsk_open(&ports[queue], &umem, &xdp, (uint16_t)queue, &with_index, &err) ==
			      0,
		      "%s", err.text);
}

static void open_umem(uint32_t frame_cnt)
{
	ck_assert_int_eq(sl_umem_init(&umem, 2048, frame_cnt), 0);
}

static void open_arena(unsigned queues, uint32_t frame_cnt)
{
	const struct sl_xsk_options o = {.rx_size = 256, .tx_size = 256, .fill_size = 256};

	ck_assert_int_eq(test_netns_enter(), 0);
	ck_assert_int_eq(test_veth("sl0", "sl1", queues), 0);
	peer = test_packet_socket("sl1");
	ck_assert_int_ge(peer, 0);
	open_xdp(false);
	open_umem(frame_cnt);
	for (unsigned q = 0; q < queues; q++)
		open_port(q, &o);
}

static void flush(void)
{
	for (unsigned q = 0; q < QUEUES; q++) {
		if (ports[q])
			ports[q]->ops->flush(ports[q]);
	}
}

static unsigned rx(unsigned queue, struct sl_frame **frames, unsigned max)
{
	return ports[queue]->ops->rx_burst(ports[queue], frames, max, sl_now_ns());
}

/* Waits for at least one frame; 0 when none comes. */
static unsigned rx_wait(unsigned queue, struct sl_frame **frames, unsigned max)
{
	struct pollfd pfd = {.fd = ports[queue]->fd, .events = POLLIN};

	flush();
	poll(&pfd, 1, WAIT_MS);
	return rx(queue, frames, max);
}

static void pause_ms(long ms)
{
	const struct timespec ts = {.tv_nsec = ms * 1000 * 1000};

	nanosleep(&ts, NULL);
}

static void drain_tx(void)
{
	for (int i = 0; i < WAIT_MS; i++) {
		unsigned left = 0;

		flush();
		for (unsigned q = 0; q < QUEUES; q++)
			left += ports[q] ? ports[q]->ops->tx_pending(ports[q]) : 0;
		if (left == 0)
			return;
		pause_ms(1);
	}
	ck_abort_msg("frames stay in the tx ring");
}

/* Closes everything; no frame may be missing. */
static void close_arena(void)
{
	uint32_t census[SL_FRAME_STATE_CNT];

	drain_tx();
	for (unsigned q = 0; q < QUEUES; q++) {
		if (ports[q])
			ports[q]->ops->close(ports[q]);
		ports[q] = NULL;
	}
	sl_umem_census(&umem, census);
	ck_assert_uint_eq(census[SL_FRAME_FREE], umem.frame_cnt);
	ck_assert_uint_eq(umem.free_cnt, umem.frame_cnt);
	sl_umem_fini(&umem);
	sl_xdp_close(&xdp);
	close(peer);
}

static uint32_t in_state(enum sl_frame_state state)
{
	uint32_t census[SL_FRAME_STATE_CNT];

	sl_umem_census(&umem, census);
	return census[state];
}

static struct sl_frame *new_tx_frame(uint32_t seq, bool retain)
{
	struct sl_frame *f = sl_frame_get(&umem, SL_FRAME_TX, SL_FRAME_HEADROOM);

	ck_assert_ptr_nonnull(f);
	build_datagram(f->data, DPORT, seq);
	f->len = PACKET_LEN;
	f->retain = retain;
	return f;
}

/* ---- tests ---- */

static void check_received(const struct sl_frame *f, uint64_t start_ns, uint64_t now_ns)
{
	ck_assert_uint_eq(f->state, SL_FRAME_RX);
	ck_assert_uint_eq(f->len, PACKET_LEN);
	ck_assert_uint_ge(f->rx_ns, start_ns);
	ck_assert_uint_le(f->rx_ns, now_ns);
	ck_assert_uint_ge(f->take_ns, f->rx_ns);
}

/* Takes what has come on the queue and sends it back. */
static void echo_queue(unsigned queue, uint64_t start_ns)
{
	struct sl_frame *frames[SL_BURST];
	unsigned cnt = rx(queue, frames, SL_BURST);

	for (unsigned i = 0; i < cnt; i++) {
		check_received(frames[i], start_ns, sl_now_ns());
		ck_assert_uint_eq(frames[i]->port, queue);
		sl_frame_to(&umem, frames[i], SL_FRAME_HELD);
		sl_frame_to(&umem, frames[i], SL_FRAME_TX);
	}
	ck_assert_uint_eq(ports[queue]->ops->tx_burst(ports[queue], frames, cnt), cnt);
}

static void echo_all(unsigned queues, uint32_t total)
{
	const uint64_t start_ns = sl_now_ns();
	uint8_t *seen = calloc(total, 1);
	uint32_t sent = 0, back = 0;
	int64_t seq;

	ck_assert_ptr_nonnull(seen);
	while (back < total) {
		ck_assert_uint_lt(sl_now_ns() - start_ns, 30 * SL_NS_PER_SEC);
		for (unsigned i = 0; i < 32 && sent < total; i++, sent++)
			peer_send(1000 + sent % 64, sent);
		for (unsigned q = 0; q < queues; q++)
			echo_queue(q, start_ns);
		flush();
		while ((seq = peer_recv()) >= 0) {
			ck_assert_int_lt(seq, total);
			ck_assert_uint_eq(seen[seq], 0);
			seen[seq] = 1;
			back++;
		}
	}
	free(seen);
}

TEST(packets_are_echoed)
{
	enum { TOTAL = 20000 };
	uint64_t verdicts[SL_RX_VERDICT_CNT];
	const struct sl_port_stats *st;

	open_arena(1, FRAMES);
	ck_assert_uint_eq(ports[0]->mode, SL_PORT_COPY);
	ck_assert(ports[0]->partial_csum);
	ck_assert_uint_eq(ports[0]->mtu, 1500);
	echo_all(1, TOTAL);
	st = &ports[0]->stats;
	ck_assert_uint_eq(st->rx_packets, TOTAL);
	ck_assert_uint_eq(st->tx_packets, TOTAL);
	ck_assert_uint_eq(st->rx_bytes, TOTAL * PACKET_LEN);
	ck_assert_uint_eq(st->tx_bytes, TOTAL * PACKET_LEN);
	ck_assert_int_eq(sl_xdp_verdicts(&xdp, verdicts), 0);
	ck_assert_uint_eq(verdicts[SL_RX_REDIRECT], TOTAL);
	close_arena();
}

TEST(echo_on_two_queues)
{
	enum { TOTAL = 8000 };

	open_arena(2, FRAMES);
	echo_all(2, TOTAL);
	ck_assert_uint_gt(ports[0]->stats.rx_packets, 0);
	ck_assert_uint_gt(ports[1]->stats.rx_packets, 0);
	ck_assert_uint_eq(ports[0]->stats.rx_packets + ports[1]->stats.rx_packets, TOTAL);
	close_arena();
}

TEST(echo_in_generic_mode)
{
	const struct sl_xsk_options o = {.port_index = 0};

	ck_assert_int_eq(test_netns_enter(), 0);
	ck_assert_int_eq(test_veth("sl0", "sl1", 1), 0);
	peer = test_packet_socket("sl1");
	open_xdp(true);
	ck_assert(xdp.generic);
	ck_assert_msg(strncmp(xdp.mode, "generic", 7) == 0, "%s", xdp.mode);
	open_umem(FRAMES);
	open_port(0, &o);
	ck_assert_uint_eq(ports[0]->mode, SL_PORT_GENERIC);
	echo_all(1, 2000);
	close_arena();
}

TEST(echo_with_busy_polling)
{
	const struct sl_xsk_options o = {.busy_poll_us = 20};

	open_arena(1, FRAMES);
	ports[0]->ops->close(ports[0]);
	open_port(0, &o);
	echo_all(1, 2000);
	ck_assert_uint_gt(ports[0]->stats.rx_wakeups, 0); /* each flush polls */
	close_arena();
}

TEST(retained_frames_come_back_unacked)
{
	struct sl_frame *frames[4];

	open_arena(1, FRAMES);
	for (uint32_t i = 0; i < 4; i++)
		frames[i] = new_tx_frame(i, i < 2);
	ck_assert_uint_eq(ports[0]->ops->tx_burst(ports[0], frames, 4), 4);
	ck_assert_uint_eq(ports[0]->ops->tx_pending(ports[0]), 4);
	ck_assert_uint_eq(in_state(SL_FRAME_TX), 4);
	sl_frame_acked(&umem, frames[1]); /* while it is in the ring */
	ck_assert_uint_eq(frames[1]->state, SL_FRAME_TX);
	drain_tx();
	ck_assert_uint_eq(in_state(SL_FRAME_TX), 0);
	ck_assert_uint_eq(in_state(SL_FRAME_UNACKED), 1);
	ck_assert_uint_eq(frames[0]->state, SL_FRAME_UNACKED);
	/* a retransmission */
	ck_assert_uint_eq(ports[0]->ops->tx_burst(ports[0], frames, 1), 1);
	ck_assert_uint_eq(frames[0]->state, SL_FRAME_TX);
	drain_tx();
	ck_assert_uint_eq(frames[0]->state, SL_FRAME_UNACKED);
	for (uint32_t i = 0; i < 4; i++)
		ck_assert_int_eq(peer_recv(), i);
	ck_assert_int_eq(peer_recv(), 0);
	sl_frame_acked(&umem, frames[0]);
	close_arena();
}

TEST(full_tx_ring_takes_a_part)
{
	enum { RING = 256, CNT = 300 };
	struct sl_frame *frames[CNT];
	unsigned taken;

	open_arena(1, FRAMES);
	for (uint32_t i = 0; i < CNT; i++)
		frames[i] = new_tx_frame(i, false);
	taken = ports[0]->ops->tx_burst(ports[0], frames, CNT);
	ck_assert_uint_eq(taken, RING);
	ck_assert_uint_eq(ports[0]->ops->tx_burst(ports[0], frames + taken, CNT - taken), 0);
	ck_assert_uint_eq(sl_xsk_tx_unsent(ports[0]), RING);
	ports[0]->ops->flush(ports[0]);
	ck_assert_uint_eq(sl_xsk_tx_unsent(ports[0]), 0); /* all of it, whatever the budget */
	drain_tx();
	ck_assert_uint_eq(ports[0]->ops->tx_burst(ports[0], frames + taken, CNT - taken),
			  CNT - taken);
	drain_tx();
	for (int i = 0; i < CNT; i++)
		ck_assert_int_eq(peer_recv(), i);
	close_arena();
}

TEST(starved_of_frames_and_back)
{
	enum { FEW = 64, FILL = FEW / 4 };
	struct sl_frame *held[FEW], *f;
	struct sl_port_stats stats;
	unsigned cnt = 0;
	uint32_t seq;

	open_arena(1, FEW);
	while ((f = sl_frame_get(&umem, SL_FRAME_HELD, 0)))
		held[cnt++] = f;
	ck_assert_uint_eq(cnt, FEW - FILL);
	for (seq = 0; seq < FILL + 5; seq++)
		peer_send_segment(seq);
	pause_ms(20);
	struct sl_frame *got[FEW];
	ck_assert_uint_eq(rx_wait(0, got, FEW), FILL);
	sl_xsk_stats(ports[0], &stats);
	ck_assert_uint_ge(stats.rx_dropped + stats.fill_empty, 5);
	ck_assert_uint_eq(stats.rx_packets, FILL);
	/* nothing to refill with: no harm */
	flush();
	ck_assert_uint_eq(rx(0, got + FILL, FEW - FILL), 0);
	for (unsigned i = 0; i < FILL; i++)
		sl_frame_put(&umem, got[i]);
	while (cnt > 0)
		sl_frame_put(&umem, held[--cnt]);
	flush();
	peer_send(DPORT, 4711);
	ck_assert_uint_eq(rx_wait(0, got, FEW), 1);
	ck_assert_mem_eq(got[0]->data + SEQ_OFF, &(uint32_t){4711}, 4);
	sl_frame_put(&umem, got[0]);
	close_arena();
}

static unsigned receive_all(unsigned *segments)
{
	struct sl_frame *frames[SL_BURST];
	unsigned cnt, total = 0;

	*segments = 0;
	while ((cnt = rx(0, frames, SL_BURST)) > 0) {
		for (unsigned i = 0; i < cnt; i++) {
			*segments += frames[i]->data[23] == 6;
			sl_frame_put(&umem, frames[i]);
		}
		total += cnt;
	}
	flush();
	return total;
}

static uint64_t refused(void)
{
	uint64_t verdicts[SL_RX_VERDICT_CNT];

	ck_assert_int_eq(sl_xdp_verdicts(&xdp, verdicts), 0);
	return verdicts[SL_RX_SHED_QUEUE];
}

/*
 * A flood of what would open something new gets half of the frames, and one in 16 of the rest: the
 * segments behind it find room. LUCKY is six standard deviations above that share.
 */
TEST(flood_leaves_room)
{
	enum { FILL = FRAMES / 4, HALF = FILL / 2, FLOOD = 600, SEGMENTS = 60, LUCKY = 62 };
	unsigned got, segments;

	open_arena(1, FRAMES);
	for (unsigned round = 0; round < 3; round++) {
		const uint64_t before = refused();

		for (uint32_t i = 0; i < FLOOD; i++)
			peer_send(DPORT, i);
		for (uint32_t i = 0; i < SEGMENTS; i++)
			peer_send_segment(i);
		pause_ms(20);
		got = receive_all(&segments);
		ck_assert_uint_eq(segments, SEGMENTS);
		ck_assert_uint_ge(got - segments, HALF);
		ck_assert_uint_le(got - segments, HALF + LUCKY);
		ck_assert_uint_eq(refused() - before, FLOOD - (got - segments));
	}
	close_arena();
}

/* No more than half of the frames are theirs when segments wait there, and all that is left. */
TEST(waiting_segments_limit_new_connections)
{
	enum { FILL = FRAMES / 4, HALF = FILL / 2, WAITING = 96, FLOOD = 100, LUCKY = 26 };
	struct sl_frame *f;
	unsigned got, segments;

	open_arena(1, FRAMES);
	peer_send(DPORT, 0); /* one in use, so that the limit is set anew */
	for (uint32_t i = 0; i < WAITING; i++)
		peer_send_segment(i);
	ck_assert_uint_eq(rx_wait(0, &f, 1), 1);
	sl_frame_put(&umem, f);
	for (uint32_t i = 0; i < FLOOD; i++)
		peer_send(DPORT, i);
	pause_ms(20);
	got = receive_all(&segments);
	ck_assert_uint_eq(segments, WAITING);
	ck_assert_uint_ge(got - segments, HALF - WAITING);
	ck_assert_uint_le(got - segments, HALF - WAITING + LUCKY);
	close_arena();
}

/* A stamp belongs to one packet: what lies in the frame from before does not count. */
TEST(stamp_is_read_once)
{
	struct sl_frame *f;
	struct sl_rx_meta meta;

	open_arena(1, FRAMES);
	peer_send(DPORT, 1);
	ck_assert_uint_eq(rx_wait(0, &f, 1), 1);
	ck_assert_uint_gt(f->rx_ns, 0);
	memcpy(&meta, f->data - sizeof(meta), sizeof(meta));
	ck_assert_uint_ne(meta.magic, SL_RX_META_MAGIC);
	sl_frame_put(&umem, f);
	close_arena();
}

TEST(close_with_frames_everywhere)
{
	struct sl_frame *f, *tx[2];

	open_arena(1, FRAMES);
	for (uint32_t i = 0; i < 20; i++)
		peer_send(DPORT, i);
	pause_ms(20);
	ck_assert_uint_eq(rx(0, &f, 1), 1); /* the others stay in the rx ring */
	sl_frame_put(&umem, f);
	tx[0] = new_tx_frame(1, false); /* in the tx ring, never flushed */
	tx[1] = new_tx_frame(2, true);
	ck_assert_uint_eq(ports[0]->ops->tx_burst(ports[0], tx, 2), 2);
	ports[0]->ops->close(ports[0]);
	ports[0] = NULL;
	ck_assert_uint_eq(in_state(SL_FRAME_UNACKED), 1);
	ck_assert_uint_eq(in_state(SL_FRAME_FREE), FRAMES - 1);
	sl_frame_acked(&umem, tx[1]);
	close_arena();
}

/* After the close packets go to the kernel, and the queue is free for the next socket. */
TEST(reopen_at_once)
{
	const struct sl_xsk_options o = {.port_index = 0};
	uint64_t verdicts[SL_RX_VERDICT_CNT];
	struct sl_frame *f;

	open_arena(1, FRAMES);
	for (int i = 0; i < 5; i++) {
		ports[0]->ops->close(ports[0]);
		peer_send(DPORT, 1);
		open_port(0, &o);
	}
	peer_send(DPORT, 2);
	ck_assert_uint_eq(rx_wait(0, &f, 1), 1);
	ck_assert_mem_eq(f->data + SEQ_OFF, &(uint32_t){2}, 4);
	sl_frame_put(&umem, f);
	ck_assert_int_eq(sl_xdp_verdicts(&xdp, verdicts), 0);
	ck_assert_uint_eq(verdicts[SL_RX_NO_SOCKET], 5);
	ck_assert_uint_eq(verdicts[SL_RX_REDIRECT], 1);
	close_arena();
}

TEST(interface_down_and_up)
{
	struct sl_frame *frames[4], *tx;
	unsigned n = 0;

	open_arena(1, FRAMES);
	ck_assert_int_eq(sl_xsk_status(ports[0], &err), 0);
	ck_assert_int_eq(test_sh("ip link set sl0 down"), 0);
	ck_assert_int_eq(sl_xsk_status(ports[0], &err), -ENETDOWN);
	ck_assert_str_eq(err.text, "interface sl0 is down");
	tx = new_tx_frame(1, false);
	ck_assert_uint_eq(ports[0]->ops->tx_burst(ports[0], &tx, 1), 1);
	flush();
	ck_assert_uint_eq(rx(0, frames, 4), 0);
	ck_assert_int_eq(test_sh("ip link set sl0 up"), 0);
	ck_assert_int_eq(sl_xsk_status(ports[0], &err), 0);
	drain_tx();
	/* The kernel drops packets until it has seen the carrier, some time after the command. */
	for (int i = 0; i < 50 && !n; i++) {
		peer_send(DPORT, 2);
		n = rx_wait(0, frames, 4);
	}
	ck_assert_uint_gt(n, 0);
	while (n)
		sl_frame_put(&umem, frames[--n]);
	close_arena();
}

TEST(a_deleted_interface_is_noticed)
{
	struct sl_frame *frames[4], *tx;

	open_arena(1, FRAMES);
	ck_assert_int_eq(test_sh("ip link del sl1"), 0);
	ck_assert_int_eq(sl_xsk_status(ports[0], &err), -ENODEV);
	ck_assert_str_eq(err.text, "interface sl0 is gone");
	for (uint32_t i = 0; i < 3; i++) {
		tx = new_tx_frame(i, false);
		ck_assert_uint_eq(ports[0]->ops->tx_burst(ports[0], &tx, 1), 1);
		flush();
		ck_assert_uint_eq(rx(0, frames, 4), 0);
	}
	ports[0]->ops->close(ports[0]);
	ports[0] = NULL;
	close_arena();
}

/* ---- refusals ---- */

static int try_port(unsigned queue, enum sl_xsk_wish wish)
{
	const struct sl_xsk_options o = {.port_index = 1, .wish = wish};
	struct sl_port *p = NULL;
	int res = sl_xsk_open(&p, &umem, &xdp, (uint16_t)queue, &o, &err);

	if (p)
		p->ops->close(p);
	return res;
}

TEST(impossible_ports_are_refused_with_the_reason)
{
	open_arena(1, FRAMES);
	ck_assert_int_eq(try_port(7, SL_XSK_BEST), -EINVAL);
	ck_assert_str_eq(err.text, "sl0 has no queue 7 for an AF_XDP socket");
	ck_assert_int_eq(try_port(SL_MAX_QUEUES, SL_XSK_BEST), -E2BIG);
	ck_assert_str_eq(err.text, "sl0 queue 64: queues from 0 to 63 are supported");
	ports[0]->ops->close(ports[0]);
	ports[0] = NULL;
	ck_assert_int_eq(try_port(0, SL_XSK_ZEROCOPY_ONLY), -EOPNOTSUPP);
	ck_assert_int_eq(try_port(0, SL_XSK_BEST), 0);
	close_arena();
}

TEST(an_mtu_above_the_frame_is_limited_to_it)
{
	const struct sl_xsk_options o = {.port_index = 0};

	open_arena(1, FRAMES);
	ports[0]->ops->close(ports[0]);
	ck_assert_int_eq(test_sh("ip link set sl0 mtu 1771"), 0);
	open_port(0, &o);
	ck_assert_uint_eq(ports[0]->mtu, 1770);
	ck_assert(!ports[0]->chains);
	ck_assert_uint_eq(ports[0]->rx_mtu, 1770);
	close_arena();
}

/* The largest packet that a frame holds arrives. */
TEST(the_largest_packet_arrives)
{
	enum { LEN = 1770 + 14 };
	const struct sl_xsk_options o = {.port_index = 0};
	uint8_t p[LEN];
	struct sl_frame *f;

	open_arena(1, FRAMES);
	ports[0]->ops->close(ports[0]);
	ck_assert_int_eq(test_sh("ip link set sl0 mtu 1770 && ip link set sl1 mtu 1770"), 0);
	open_port(0, &o);
	ck_assert_uint_eq(ports[0]->mtu, 1770);
	memset(p, 0x5a, sizeof(p));
	build_datagram(p, DPORT, 9);
	ck_assert_int_eq(send(peer, p, sizeof(p), 0), LEN);
	ck_assert_uint_eq(rx_wait(0, &f, 1), 1);
	ck_assert_uint_eq(f->len, LEN);
	ck_assert_mem_eq(f->data, p, LEN);
	sl_frame_put(&umem, f);
	close_arena();
}
