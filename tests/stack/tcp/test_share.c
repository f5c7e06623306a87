/* SPDX-License-Identifier: Apache-2.0 */
/* One connection or address causes bounded work in a turn of the loop, and others go in between. */
#include "tcp_bed.h"
#include "suite.h"

FIXTURE(setup, bed_end)

enum { CONNS = 40, SEG = 1000, BULK = 500, FIRST_PORT = 20000, OTHER = 77 };
enum { BULK_MOST = SL_TCP_ADDR_SEGS + SL_TCP_LATER_SEGS };

static struct sl_tcp_conn *bulk[CONNS];

/* Opens a connection with SACK; its initial sequence number is kept in bed.our_isn. */
static struct sl_tcp_conn *open_from(uint16_t port, uint8_t peer)
{
	bed.know_isn = false;
	in(.flags = S, .mss = SEG, .sack_ok = true, .ws = 8, .sport = port, .peer = peer);
	out(.flags = S | A, .ack = 1);
	in(.seq = 1, .ack = 1, .sport = port, .peer = peer);
	return bed.app.conn;
}

static void queue_bulk(struct sl_tcp_conn *c, size_t bytes)
{
	bed.app.conn = c;
	ck_assert_uint_eq(app_send(1, bytes), bytes);
	c->cwnd = BULK * SEG;
}

/* Runs a turn. Returns the segments sent; *port_cnt[i]: by the connection to FIRST_PORT + i. */
static unsigned count_turn(unsigned *port_cnt, bool *more)
{
	unsigned n = 0;

	*more = bed_turn();
	for (; bed.out_tail != bed.out_head; bed.out_tail++, n++) {
		const uint8_t *tcp = bed.outq[bed.out_tail % BED_OUT].b + 14 + 20;
		unsigned i = sl_get_be16(tcp + 2) - FIRST_PORT;

		if (i < OTHER + 1)
			port_cnt[i]++;
	}
	return n;
}

TEST(a_turn_of_one_connection_is_bounded_and_the_next_follows_at_once)
{
	unsigned cnt[OTHER + 1] = {0}, turns = 0, n;
	bool more = true;

	bulk[0] = open_from(FIRST_PORT, 0);
	queue_bulk(bulk[0], BULK * SEG);
	for (; more; turns++) {
		n = count_turn(cnt, &more);
		ck_assert_uint_le(n, SL_TCP_CONN_SEGS + SL_TCP_LATER_SEGS);
		ck_assert_uint_eq(sl_tcp_next_ns(bed.tcp) <= bed.net.now_ns, more);
	}
	ck_assert_uint_eq(cnt[0], BULK);
	ck_assert_uint_ge(turns, 2);
	ck_assert_uint_gt(stats().sends_put_off, 0);
	ck_assert_uint_eq(in_flight(bulk[0]), BULK * SEG);
}

/* All get their turn: none is more than a share ahead. Another address does not wait at all. */
TEST(connections_of_one_address_send_in_turns_and_others_go_in_between)
{
	unsigned cnt[OTHER + 1] = {0}, n;
	struct sl_tcp_conn *other = open_from(FIRST_PORT + OTHER, 9);
	bool more = true;

	for (uint16_t i = 0; i < CONNS; i++)
		bulk[i] = open_from((uint16_t)(FIRST_PORT + i), 0);
	for (int i = 0; i < CONNS; i++)
		queue_bulk(bulk[i], 40 * SEG);
	for (unsigned turn = 0; more; turn++) {
		bed.app.conn = other;
		ck_assert_uint_eq(app_send(1, 1), 1);
		n = count_turn(cnt, &more);
		ck_assert_uint_le(n, BULK_MOST + 1);
		ck_assert_uint_eq(cnt[OTHER], turn < 10 ? turn + 1 : 10);
		ck_assert_uint_lt(turn, 20);
	}
	for (int i = 0; i < CONNS; i++)
		ck_assert_uint_eq(cnt[i], 40);
}

/* Retransmissions stay within the same limit. */
TEST(repetitions_are_bounded_as_well)
{
	unsigned cnt[OTHER + 1] = {0}, n, all = 0;
	bool more = true;

	bulk[0] = open_from(FIRST_PORT, 0);
	queue_bulk(bulk[0], BULK * SEG);
	bed_collect();
	out_skip();
	for (struct sl_frame *f = frame_of(bed.tcp, bulk[0]->txq_head); f; f = f->next)
		sl_tcp_mark_lost(bulk[0], f);
	sl_tcp_dirty(bulk[0]);
	while (more) {
		n = count_turn(cnt, &more);
		ck_assert_uint_le(n, SL_TCP_CONN_SEGS + SL_TCP_LATER_SEGS);
		all += n;
	}
	ck_assert_uint_eq(all, BULK);
	ck_assert_uint_eq(stats().retransmits, BULK);
}

/* A connection that ends while it waits for its turn is forgotten; its frames come back. */
TEST(a_connection_may_end_while_it_waits)
{
	unsigned cnt[OTHER + 1] = {0};
	bool more;

	for (uint16_t i = 0; i < 8; i++)
		bulk[i] = open_from((uint16_t)(FIRST_PORT + i), 0);
	for (int i = 0; i < 8; i++)
		queue_bulk(bulk[i], 100 * SEG);
	(void)count_turn(cnt, &more);
	ck_assert(more);
	for (int i = 0; i < 8; i += 2)
		sl_tcp_abort(bulk[i]);
	bed_collect();
	ck_assert_uint_eq(stats().conns, 4);
	ck_assert_uint_eq(sl_mempool_used(&bed.tcp->conns), 4);
}

/* Blocks with news in each acknowledgement: each is compared with all that was sent, but not all in one turn. */
TEST(comparisons_with_blocks_are_bounded_in_a_turn)
{
	enum { HEAD = 1, ACKS = 60 };

	bulk[0] = open_from(FIRST_PORT, 0);
	queue_bulk(bulk[0], BULK * SEG);
	bed_collect();
	out_skip();
	bed.tcp->walked = 0;
	for (uint32_t i = 0; i < ACKS; i++)
		in(.seq = 1, .ack = 1, .sport = FIRST_PORT, .hold = i + 1 < ACKS, .sacks = 1,
		   .sack = {{1 + (BULK - 1 - i) * SEG, 1 + (BULK - i) * SEG}});
	ck_assert_uint_le(bed.tcp->walked, SL_TCP_ADDR_WALKS + 3 * BULK);
	ck_assert_uint_gt(stats().acks_put_off, 0);
	in(.seq = 1, .ack = 1 + BULK * SEG, .sport = FIRST_PORT);
	ck_assert_uint_eq(in_flight(bulk[0]), 0);
	ck_assert_uint_eq(bulk[0]->sacked_out + bulk[0]->lost_out, 0);
}

/* An acknowledgement that moves the queue is heard, and a timer makes up for the detection. */
TEST(a_loss_is_found_though_its_acknowledgement_was_put_off)
{
	unsigned again = 0;
	struct got g;

	bulk[0] = open_from(FIRST_PORT, 0);
	queue_bulk(bulk[0], BULK * SEG);
	bed_collect();
	out_skip();
	after(20 * MS);
	for (uint32_t i = 0; i < 60; i++)
		in(.seq = 1, .ack = 1 + i * SEG, .sport = FIRST_PORT, .hold = i + 1 < 60,
		   .sacks = 1, .sack = {{1 + 100 * SEG, 1 + (101 + i) * SEG}});
	ck_assert_uint_gt(stats().acks_put_off, 0);
	out_skip();
	after(2 * MS);
	bed_burst();
	in(.seq = 1, .ack = 1 + 59 * SEG, .sport = FIRST_PORT, .sacks = 1,
	   .sack = {{1 + 100 * SEG, 1 + BULK * SEG}});
	after(300 * MS);
	while (next_out(&g))
		again += g.s.seq == 1 + 59 * SEG;
	ck_assert_uint_ge(again, 1);
}
