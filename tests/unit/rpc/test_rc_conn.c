/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verbs transport over a device that does what a test says: what a peer claims, what the device
 * has really done, and what follows for the owner's memory.
 */
#include "rc_bed.h"
#include "suite.h"

/* --- what was lent --- */

FIXTURE(set_up, tear_down)

/* The peer's claim about consumed messages says nothing about what our device still reads. */
TEST(a_claim_of_the_peer_frees_no_memory)
{
	uint64_t cookie;

	send_from(memory, BODY, 7);
	ck_assert(fake_reads(v, memory, BODY));
	claim(1);
	ck_assert_uint_eq(sent(&cookie), 0);
	ck_assert(fake_reads(v, memory, BODY));
	fake_complete(v, UINT32_MAX);
	ck_assert_uint_eq(sent(&cookie), 1);
	ck_assert_uint_eq(cookie, 7);
}

/* A claim gives back room: slots, and posted bytes, which are of our own memory. */
TEST(a_claim_of_the_peer_gives_room)
{
	for (unsigned i = 0; post_from(memory, BODY, 0) == 0; i++)
		ck_assert_uint_lt(i, SLOTS);
	t->ops->flush(t);
	claim(t->credits.sent);
	ck_assert_uint_eq(t->posted_bytes, 0);
	ck_assert_uint_eq(t->credits.done, t->credits.sent);
}

/* Bytes that post() has copied are their owner's at once; those behind lent ones as well. */
TEST(copied_bytes_are_their_owners_at_once)
{
	uint64_t cookie;

	send_from(memory, SMALL, 1);
	ck_assert(!fake_reads(v, memory, SMALL));
	ck_assert_uint_eq(sent(&cookie), 1);
	send_from(memory, BODY, 2);
	send_from(memory + BODY, SMALL, 3);
	ck_assert_uint_eq(sent(&cookie), 0);
	fake_complete(v, UINT32_MAX);
	ck_assert_uint_eq(sent(&cookie), 2);
	ck_assert_uint_eq(cookie, 3);
}

/* --- large messages --- */

enum { PARTS = 20, PART = 600, SEAM = 8, FRONT = 24 };

/*
 * Copies the bytes of the WRITEs from the first one on; returns their length. Each WRITE follows
 * the last.
 */
static uint32_t written(unsigned first, uint8_t *to)
{
	const struct fake_qp *qp = fake_qp(v);
	uint32_t len = 0;

	for (unsigned i = first; i != qp->posted; i++) {
		const struct fake_send *s = &qp->sends[i % FAKE_SENDS];

		ck_assert_uint_eq(s->to, v->peer_bulk + len);
		for (unsigned k = 0; k < s->sge_cnt; len += s->sge[k++].length)
			memcpy(to + len, (const void *)(uintptr_t)s->sge[k].addr, s->sge[k].length);
	}
	return len;
}

/* Header and body lie one behind the other, whatever is copied and whatever is not; the last WRITE tells. */
TEST(a_large_message_lies_in_one_piece)
{
	static uint8_t seams[FRONT + PARTS * SEAM], want[PARTS * (PART + SEAM) + FRONT],
		got[64 << 10];
	struct sl_span spans[2 * PARTS + 1] = {sl_span_of(seams, FRONT)};
	struct sl_rpc_header h = {.version_type = SL_RPC_VERSION << 4 | SL_RPC_REQUEST,
				  .flags = SL_RPC_BATCH | SL_RPC_FIRST | SL_RPC_LAST,
				  .count = 1,
				  .fragment_len = sizeof(want),
				  .total_or_offset = sizeof(want)};
	const struct fake_qp *qp = fake_qp(v);
	unsigned first = qp->posted;
	uint32_t at = FRONT;

	for (unsigned i = 0; i < sizeof(seams); i++)
		seams[i] = (uint8_t)i;
	memcpy(want, seams, FRONT);
	for (unsigned i = 0; i < PARTS; i++) {
		uint8_t *part = memory + i * 1000;

		memset(part, 'a' + (int)i, PART);
		spans[2 * i + 1] = sl_span_of(part, PART);
		spans[2 * i + 2] = sl_span_of(seams + FRONT + i * SEAM, SEAM);
		memcpy(want + at, part, PART);
		memcpy(want + at + PART, seams + FRONT + i * SEAM, SEAM);
		at += PART + SEAM;
	}
	ck_assert_int_eq(t->ops->post(t, &h, spans, 2 * PARTS + 1, 9), 0);
	t->ops->flush(t);
	ck_assert_uint_eq(written(first, got), sizeof(h) + sizeof(want));
	ck_assert_mem_eq(got + sizeof(h), want, sizeof(want));
	ck_assert_mem_eq(got, &h, sizeof(h));
	/* 41 pieces: three WRITEs, of which the last takes a slot of the peer. */
	ck_assert_uint_eq(qp->posted - first, 3);
	for (unsigned i = first; i != qp->posted; i++) {
		const struct fake_send *s = &qp->sends[i % FAKE_SENDS];
		bool last = i + 1 == qp->posted;

		ck_assert_int_eq(s->opcode, last ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE);
		ck_assert(!last ||
			  (s->signalled && ntohl(s->imm_data) == sizeof(h) + sizeof(want)));
	}
	for (unsigned i = 0; i < PARTS; i++)
		ck_assert(fake_reads(v, memory + i * 1000, PART));
}

/* A peer's WRITE of header and body, at the place where the next one goes. */
static const uint8_t *take_large(uint32_t at, uint32_t len, char c)
{
	static uint8_t bytes[BODY + sizeof(struct sl_rpc_header)];
	const struct sl_rpc_header h = {.version_type = SL_RPC_VERSION << 4 | SL_RPC_RESPONSE,
					.flags = SL_RPC_BATCH | SL_RPC_FIRST | SL_RPC_LAST,
					.count = 1,
					.fragment_len = len,
					.total_or_offset = len};
	struct sl_message m;

	memcpy(bytes, &h, sizeof(h));
	memset(bytes + sizeof(h), c, len);
	ck_assert(fake_write(v, at, bytes, (uint32_t)sizeof(h) + len, (uint32_t)sizeof(h) + len));
	ck_assert_int_eq(t->ops->poll(t, &m, 1), 1);
	ck_assert_mem_eq(&m.header, &h, sizeof(h));
	ck_assert_mem_eq(m.body, bytes + sizeof(h), len);
	t->ops->release(t, &m);
	t->ops->flush(t);
	return m.body;
}

/* One behind the other, each at a multiple of 64; what does not fit before the ring's end is at its start. */
TEST(large_messages_arrive_where_they_were_written)
{
	const uint32_t step = (BODY + sizeof(struct sl_rpc_header) + 63) / 64 * 64;
	uint32_t at = 0;

	for (unsigned i = 0; i < 3 * BULK / step; i++) {
		const uint8_t *body = take_large(at, BODY, (char)('a' + i % 26));

		ck_assert_ptr_eq(body, v->rx_bulk + at + sizeof(struct sl_rpc_header));
		at += step;
		if (at + BODY + sizeof(struct sl_rpc_header) > BULK)
			at = 0;
	}
}

/* --- again what was lent --- */

/* Each doorbell with lent bytes asks for a completion: nothing may come behind that would. */
TEST(each_doorbell_with_lent_bytes_asks_for_a_completion)
{
	uint64_t cookie;

	send_from(memory, SMALL, 1); /* asks, and has no answer yet */
	ck_assert_uint_eq(sent(&cookie), 1);
	for (unsigned i = 0; i < 5; i++) {
		/* (8 KiB would ask for that reason.) */
		send_from(memory, 5000, 2 + i);
		if (i & 1)
			send_from(memory, SMALL, 0);
	}
	fake_complete(v, UINT32_MAX);
	ck_assert_uint_eq(sent(&cookie), 4);
	ck_assert_uint_eq(sent(&cookie), 1);
	ck_assert_uint_eq(cookie, 6);
}

/* The first slices of a batch are lent without a cookie; its last one may be copied. */
TEST(slices_are_lent_until_their_batch_is)
{
	uint64_t cookie;

	ck_assert_int_eq(post_from(memory, BODY, 0), 0);
	send_from(memory + BODY, SMALL, 9);
	ck_assert_uint_eq(sent(&cookie), 0);
	fake_complete(v, 1);
	ck_assert_uint_eq(sent(&cookie), 0);
	fake_complete(v, UINT32_MAX);
	ck_assert_uint_eq(sent(&cookie), 1);
	ck_assert_uint_eq(cookie, 9);
}

/* Sleeping: room is what the device completes, whatever the peer has claimed before. */
TEST(arming_sees_completions)
{
	uint64_t cookie;

	send_from(memory, BODY, 7);
	claim(1);
	ck_assert(t->ops->arm(t, false));
	fake_complete(v, UINT32_MAX);
	ck_assert(!t->ops->arm(t, false));
	ck_assert_uint_eq(sent(&cookie), 1);
	ck_assert(t->ops->arm(t, false));
}

/* --- halt --- */

/* The owner reuses its memory right behind halt(): the device must have let go of it. */
TEST(halt_waits_for_the_device_to_let_go)
{
	send_from(memory, BODY, 1);
	send_from(memory + BODY, BODY, 2);
	fake_complete(v, 1);
	fake.flush_after = 5;
	t->ops->halt(t);
	ck_assert(!fake_reads(v, memory, 2 * BODY));
	ck_assert_uint_eq(fake.errors, 1);
	ck_assert_uint_eq(fake.resets, 0);
}

/* Slices of a long batch are lent before there is a cookie. */
TEST(halt_waits_for_a_part_of_a_batch_too)
{
	send_from(memory, BODY, 0);
	t->ops->halt(t);
	ck_assert(!fake_reads(v, memory, BODY));
}

/* Sends without a requested completion get none when the queue pair ends. */
TEST(halt_does_not_wait_for_unrequested_completions)
{
	send_from(memory, BODY, 1);
	send_from(memory, SMALL, 0);
	fake_complete(v, UINT32_MAX);
	t->ops->halt(t);
	ck_assert_uint_eq(fake.resets, 0);
}

/* A device that does not answer in time is made to stop. */
TEST(a_device_that_does_not_answer_is_made_to_stop)
{
	send_from(memory, BODY, 1);
	fake.deaf = true;
	t->ops->halt(t);
	ck_assert(!fake_reads(v, memory, BODY));
	ck_assert_uint_eq(fake.resets, 1);
}

TEST(halt_with_nothing_lent_ends_nothing)
{
	send_from(memory, SMALL, 0);
	t->ops->halt(t);
	ck_assert_uint_eq(fake.errors, 0);
}

/* --- completions --- */

/* A queue of completions that fails gives none, and ends the channel. */
TEST(a_broken_completion_queue_ends_the_channel)
{
	const struct fake_slots *s = fake_slots(v);
	unsigned slots = s->put - s->got;
	struct sl_message m;

	((struct fake_cq *)v->qp.rx_cq)->broken = true;
	ck_assert(!t->ops->arm(t, false));
	ck_assert(rc_rx_fifo_empty(&v->rx_fifo));
	ck_assert(v->gone);
	ck_assert_int_eq(t->ops->poll(t, &m, 1), -ENOTCONN);
	ck_assert_uint_eq(s->put - s->got, slots);
}

/* The peer has no slot, time after time: the channel ends, and says why. */
TEST(a_peer_without_slots_ends_the_channel)
{
	struct sl_message m;

	send_from(memory, SMALL, 0);
	fake_finish(fake_qp(v), IBV_WC_RNR_RETRY_EXC_ERR);
	t->ops->progress(t);
	ck_assert_int_eq(t->ops->poll(t, &m, 1), -ENOBUFS);
}

/* After 2^32 messages the counts begin again, and no completion is taken for another's. */
TEST(counts_begin_again_after_the_32_bits)
{
	struct sl_credits *c = &t->credits;

	c->sent = c->acked = c->done = v->reaped = v->zcopy_upto = UINT32_MAX - 5;
	v->wr_sent = v->wr_done = UINT32_MAX - 5;
	for (unsigned i = 0; i < 10; i++) {
		send_from(memory, SMALL, 0);
		fake_complete(v, UINT32_MAX);
		t->ops->progress(t);
		ck_assert_uint_eq(v->signaled, 0);
		ck_assert_uint_eq(v->wr_done, v->wr_sent);
		ck_assert_uint_eq(c->done, c->sent);
		claim(c->sent);
	}
}
