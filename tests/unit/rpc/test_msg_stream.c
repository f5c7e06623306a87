/* SPDX-License-Identifier: Apache-2.0 */
/* Messages over a byte stream: one end writes to a buffer, from which the other end takes. */
#include <errno.h>
#include <string.h>

#include "rpc/msg_stream.h"
#include "suite.h"

enum { SLOTS = 64, BODY = 100, BULK = 1000, SIZE = BODY + sizeof(struct sl_rpc_header) };

static struct sl_transport from, to;
static struct sl_msg_stream stream;
static uint8_t bytes[8192];
static uint32_t head, tail;
static bool full;

static bool put(struct sl_transport *t, const void *at, size_t len)
{
	(void)t;
	memcpy(bytes + tail, at, len);
	tail += (uint32_t)len;
	return !full;
}

static int post_to(struct sl_transport *t, const struct sl_rpc_header *h,
		   const struct sl_span *spans, unsigned cnt, uint64_t cookie)
{
	(void)cookie;
	return sl_msg_stream_post(t, h, spans, cnt, sizeof(bytes) - tail, put);
}

static const struct sl_transport_ops ops = {.post = post_to};

static void set_up(void)
{
	from = to = (struct sl_transport){.ops = &ops, .bulk_max = BULK};
	sl_credits_init(&from.credits, SLOTS, SLOTS, sizeof(bytes));
	sl_credits_init(&to.credits, SLOTS, SLOTS, sizeof(bytes));
	stream = (struct sl_msg_stream){.lent = 0};
	head = tail = 0;
	full = false;
}

static void tear_down(void)
{
}

FIXTURE(set_up, tear_down)

static int post(uint8_t type, uint32_t len, uint32_t room)
{
	static const uint8_t zeros[2 * BULK];
	const struct sl_span span = sl_span_of(zeros, len);
	const struct sl_rpc_header h = {.version_type = (uint8_t)(SL_RPC_VERSION << 4 | type),
					.flags = SL_RPC_FIRST | SL_RPC_LAST,
					.fragment_len = len,
					.total_or_offset = len,
					.count = type == SL_RPC_REQUEST};

	return sl_msg_stream_post(&from, &h, &span, 1, room, put);
}

static int take(struct sl_message *m)
{
	return sl_msg_stream_take(&to, &stream, bytes, &head, tail, m);
}

TEST(a_message_is_taken_when_all_of_it_has_come)
{
	struct sl_message m;
	uint32_t all;

	ck_assert_int_eq(post(SL_RPC_REQUEST, BODY, sizeof(bytes)), 0);
	ck_assert_uint_eq(tail, SIZE);
	for (all = tail, tail = 0; tail < all; tail++)
		ck_assert_int_eq(take(&m), SL_MSG_INCOMPLETE);
	ck_assert_int_eq(take(&m), SL_MSG_LENT);
	ck_assert_ptr_eq(m.body, bytes + sizeof(m.header));
	ck_assert_uint_eq(head, all);
	ck_assert_uint_eq(to.credits.consumed, 0);
	sl_msg_stream_release(&to, &stream, &m);
	ck_assert_uint_eq(to.credits.consumed, 1);
}

TEST(a_message_waits_for_room_and_credits)
{
	ck_assert_int_eq(post(SL_RPC_REQUEST, BODY, SIZE - 1), -EAGAIN);
	ck_assert_int_eq(post(SL_RPC_REQUEST, BULK + 1, sizeof(bytes)), -EAGAIN);
	ck_assert_uint_eq(from.credits.sent + tail, 0);
	while (sl_credits_room(&from.credits, SL_CREDIT_DATA)) {
		tail = 0;
		ck_assert_int_eq(post(SL_RPC_REQUEST, BODY, SIZE), 0);
	}
	tail = 0;
	ck_assert_int_eq(post(SL_RPC_REQUEST, BODY, SIZE), -EAGAIN);
	ck_assert_uint_eq(tail, 0);
	full = true;
	sl_credits_init(&from.credits, SLOTS, SLOTS, sizeof(bytes));
	ck_assert_int_eq(post(SL_RPC_REQUEST, BODY, SIZE), -ENOMEM);
}

/* A CREDIT costs no release by the owner, but does not overtake a lent message. */
TEST(a_credit_is_released_with_the_lent_message_before_it)
{
	struct sl_message lent, m;

	ck_assert_int_eq(post(SL_RPC_CREDIT, 0, sizeof(bytes)), 0);
	ck_assert_int_eq(take(&m), SL_MSG_CREDIT);
	ck_assert_uint_eq(to.credits.consumed, 1);
	ck_assert_int_eq(post(SL_RPC_REQUEST, BODY, sizeof(bytes)), 0);
	ck_assert_int_eq(post(SL_RPC_CREDIT, 0, sizeof(bytes)), 0);
	ck_assert_int_eq(take(&lent), SL_MSG_LENT);
	ck_assert_int_eq(take(&m), SL_MSG_CREDIT);
	ck_assert_uint_eq(to.credits.consumed, 1);
	sl_msg_stream_release(&to, &stream, &lent);
	ck_assert_uint_eq(to.credits.consumed, 3);
}

TEST(a_message_that_breaks_the_protocol_is_refused)
{
	struct sl_rpc_header h;
	struct sl_message m;

	ck_assert_int_eq(post(SL_RPC_REQUEST, BODY, sizeof(bytes)), 0);
	memcpy(&h, bytes, sizeof(h));
	h.consumed = 1; /* nothing was sent to it */
	memcpy(bytes, &h, sizeof(h));
	ck_assert_int_eq(take(&m), -EPROTO);
	h.consumed = 0;
	h.fragment_len = BULK + 1;
	memcpy(bytes, &h, sizeof(h));
	ck_assert_int_eq(take(&m), -EPROTO);
	ck_assert_uint_eq(stream.lent + stream.rx_next + head, 0);
}

/* The other end has filled its window: it learns that there is room again. */
TEST(a_credit_is_sent_when_due)
{
	sl_msg_stream_credit(&from);
	ck_assert_uint_eq(tail, 0);
	from.credits.consumed = SLOTS;
	sl_msg_stream_credit(&from);
	ck_assert_uint_eq(tail, sizeof(struct sl_rpc_header));
	sl_msg_stream_credit(&from);
	ck_assert_uint_eq(tail, sizeof(struct sl_rpc_header));
}
