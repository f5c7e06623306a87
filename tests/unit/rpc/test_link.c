/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output and its order: a message that fits a slot bypasses the queue, but never overtakes what
 * waits there. The fake transport has room for so many messages.
 */
#include <errno.h>
#include "rpc/link.h"
#include "suite.h"

enum { MESSAGES = 24, SMALL = 64, LARGE = 64 << 10, SLICE = 8 << 10 };

static struct {
	struct sl_transport base;
	unsigned room, posted_cnt;
	int lost; /* result of the next posts */
	struct sl_rpc_header posted[32];
	size_t bytes[32];
	unsigned spans[32];
	uint64_t cookies[32];
	const struct sl_transport *by[32];
	unsigned completed_cnt;   /* posts that sent() has reported */
	struct sl_message *comes; /* once */
} fake;

static unsigned sent_cnt;
static struct sl_send *sent[MESSAGES];
static uint8_t payload[LARGE];
static struct sl_span spans[MESSAGES];
static struct sl_send sends[MESSAGES];
static struct sl_link link_;

static int post(struct sl_transport *t, const struct sl_rpc_header *h, const struct sl_span *s,
		unsigned cnt, uint64_t cookie)
{
	size_t bytes = 0;

	if (fake.lost)
		return fake.lost;
	if (!fake.room)
		return -EAGAIN;
	fake.room--;
	for (unsigned i = 0; i < cnt; i++)
		bytes += s[i].len;
	fake.bytes[fake.posted_cnt] = bytes;
	fake.spans[fake.posted_cnt] = cnt;
	fake.cookies[fake.posted_cnt] = cookie;
	fake.by[fake.posted_cnt] = t;
	fake.posted[fake.posted_cnt++] = *h;
	return 0;
}

static void nothing(struct sl_transport *t)
{
	(void)t;
}

static uint32_t window(const struct sl_transport *t)
{
	return fake.room ? t->bulk_max : 0;
}

static unsigned complete(struct sl_transport *t, uint64_t *cookies, unsigned max)
{
	unsigned n = 0;

	(void)t;
	while (n < max && fake.completed_cnt < fake.posted_cnt)
		cookies[n++] = fake.cookies[fake.completed_cnt++];
	return n;
}

static int receive(struct sl_transport *t, struct sl_message *m, unsigned max)
{
	(void)t, (void)max;
	if (!fake.comes)
		return 0;
	*m = *fake.comes;
	fake.comes = NULL;
	return 1;
}

static void release(struct sl_transport *t, const struct sl_message *m)
{
	(void)t, (void)m;
}

static const struct sl_transport_ops fake_ops = {.post = post,
						 .flush = nothing,
						 .poll = receive,
						 .release = release,
						 .sent = complete,
						 .window = window,
						 .progress = nothing,
						 .close = nothing};

static void on_sent(void *ctx, struct sl_send *s)
{
	(void)ctx;
	sent[sent_cnt++] = s;
}

static unsigned heard_cnt;

static void on_cancel(void *ctx, uint64_t id)
{
	(void)ctx, (void)id;
	heard_cnt++;
}

static void on_window(void *ctx, uint64_t id, uint32_t bytes)
{
	(void)ctx, (void)id, (void)bytes;
	heard_cnt++;
}

static const struct sl_link_ops link_ops = {
	.sent = on_sent, .cancel = on_cancel, .window = on_window};

static void setup(unsigned room)
{
	memset(&fake, 0, sizeof(fake));
	memset(&link_, 0, sizeof(link_));
	sent_cnt = 0;
	fake.base = (struct sl_transport){.ops = &fake_ops,
					  .copies = true,
					  .slot_len = SL_RPC_SLOT_SIZE,
					  .bulk_max = LARGE,
					  .slice_min = SLICE};
	fake.room = room;
	link_.ops = &link_ops;
	sl_link_init(&link_, &fake.base, 1, false);
}

static void send_at(unsigned i, uint32_t len, enum sl_rpc_class class, uint64_t now_ns)
{
	spans[i] = sl_span_of(payload, len);
	sends[i] = (struct sl_send){
		.header = {.version_type = SL_RPC_VERSION << 4 | SL_RPC_REQUEST,
			   .count = (uint16_t)(i + 1)},
		.total = len,
		.deadline_ns = UINT64_MAX,
		.spans = &spans[i],
		.span_cnt = 1,
	};
	sl_link_send(&link_, &sends[i], class, now_ns);
}

static void send_one(unsigned i, uint32_t len, enum sl_rpc_class class)
{
	send_at(i, len, class, 1);
}

static void check_whole(unsigned at, unsigned i)
{
	const struct sl_rpc_header *h = &fake.posted[at];

	ck_assert_uint_lt(at, fake.posted_cnt);
	ck_assert_uint_eq(h->count, i + 1);
	ck_assert_uint_eq(h->flags, SL_RPC_BATCH | SL_RPC_FIRST | SL_RPC_LAST);
	ck_assert_uint_eq(h->fragment_len, sends[i].total);
	ck_assert_uint_eq(h->total_or_offset, sends[i].total);
	ck_assert_uint_eq(fake.bytes[at], sends[i].total);
}

TEST(a_small_message_goes_at_once)
{
	setup(8);
	send_one(0, SMALL, SL_CLASS_LATENCY);
	check_whole(0, 0);
	ck_assert_uint_eq(fake.posted[0].priority, SL_CLASS_LATENCY);
	ck_assert_uint_eq(sent_cnt, 1);
	ck_assert(sl_link_idle(&link_));
	/* One that is lent stays the link's until the transport is done with it. */
	fake.base.copies = false;
	send_one(1, SMALL, SL_CLASS_NORMAL);
	check_whole(1, 1);
	ck_assert_uint_eq(fake.cookies[1], (uintptr_t)&sends[1]);
	ck_assert_uint_eq(sent_cnt, 1);
	ck_assert_ptr_eq(sl_link_unsent(&link_), &sends[1]);
	ck_assert_uint_gt(sends[1].offset, 0); /* it has left: not to be repeated */
}

/* All completions are reported: the owner may sleep after the poll. */
TEST(all_completed_sends_are_reported_in_one_poll)
{
	setup(MESSAGES);
	fake.base.copies = false;
	for (unsigned i = 0; i < MESSAGES; i++)
		send_one(i, SMALL, SL_CLASS_NORMAL);
	ck_assert_uint_eq(sent_cnt, 0);
	ck_assert_int_eq(sl_link_poll(&link_, 2), 0);
	ck_assert_uint_eq(sent_cnt, MESSAGES);
	ck_assert_ptr_null(sl_link_unsent(&link_));
}

TEST(a_small_message_overtakes_nothing_that_waits)
{
	setup(1);
	for (unsigned i = 0; i < 3; i++)
		send_one(i, SMALL, SL_CLASS_NORMAL);
	ck_assert_uint_eq(fake.posted_cnt, 1);
	ck_assert_uint_eq(sends[1].offset, 0);
	/* Room has come meanwhile. */
	fake.room = 8;
	send_one(3, SMALL, SL_CLASS_NORMAL);
	sl_link_flush(&link_, 2);
	for (unsigned i = 0; i < 4; i++)
		check_whole(i, i);
	ck_assert_uint_eq(sent_cnt, 4);
	ck_assert(sl_link_idle(&link_));
}

/* Beyond the cap on posted bytes only the control class goes; a long message goes in slices. */
TEST(beyond_the_cap_only_control_goes)
{
	setup(32);
	send_one(0, SMALL, SL_CLASS_LATENCY);
	check_whole(0, 0);
	fake.base.posted_bytes = link_.out.o->dql.limit;
	sl_tx_port_count(&link_.out, fake.base.posted_bytes, 1);
	send_one(1, SMALL, SL_CLASS_NORMAL);
	ck_assert_uint_eq(fake.posted_cnt, 1);
	send_one(2, SMALL, SL_CLASS_CONTROL);
	check_whole(1, 2);
	fake.base.posted_bytes = 0;
	sl_link_flush(&link_, 2);
	check_whole(2, 1);
	send_one(3, LARGE, SL_CLASS_BULK);
	ck_assert_uint_gt(fake.posted_cnt, 4);
	ck_assert_uint_eq(fake.posted[3].flags, SL_RPC_BATCH | SL_RPC_FIRST);
	ck_assert_uint_eq(sent_cnt, 4);
}

/* Whatever is about: an urgent class is, for a while after its last message. */
TEST(messages_are_cut_while_something_urgent_is_about)
{
	setup(32);
	send_one(0, LARGE, SL_CLASS_BULK);
	check_whole(0, 0);
	send_one(1, SMALL, SL_CLASS_LATENCY);
	check_whole(1, 1);
	send_at(2, LARGE, SL_CLASS_BULK, SL_LINK_QUIET_NS);
	ck_assert_uint_eq(fake.posted[2].fragment_len, SLICE);
	fake.posted_cnt = 0;
	send_at(3, LARGE, SL_CLASS_BULK, 1 + SL_LINK_QUIET_NS);
	check_whole(0, 3);
}

/* A device reads so many pieces; of bytes in more of them it would need a copy. */
TEST_EACH(a_message_is_cut_where_its_spans_are_too_many, 2)
{
	enum { SPANS = 100, MAX = 30 };
	static struct sl_span many[SPANS];
	const uint32_t each = _i ? 64 : 512;

	setup(32);
	fake.base.spans_max = MAX;
	for (unsigned i = 0; i < SPANS; i++)
		many[i] = sl_span_of(payload, each);
	sends[0] = (struct sl_send){
		.header = {.version_type = SL_RPC_VERSION << 4 | SL_RPC_REQUEST, .count = 1},
		.total = SPANS * each,
		.deadline_ns = UINT64_MAX,
		.spans = many,
		.span_cnt = SPANS,
	};
	sl_link_send(&link_, &sends[0], SL_CLASS_BULK, 1);
	ck_assert(sl_link_idle(&link_));
	if (_i) {
		ck_assert_uint_eq(fake.posted_cnt, 1); /* short as they are, a copy is cheaper */
		return;
	}
	ck_assert_uint_eq(fake.posted[0].fragment_len, MAX * each);
	for (unsigned i = 0; i < fake.posted_cnt; i++)
		ck_assert_uint_le(fake.spans[i], MAX);
	ck_assert_uint_eq(link_.stats.bytes_sent, SPANS * each);
}

/* The transport says of the last piece when it has read it, and of no other. */
TEST(a_message_that_is_lent_in_pieces_is_the_links_until_the_last_is_read)
{
	unsigned last;

	setup(32);
	fake.base.copies = false;
	send_one(0, SMALL, SL_CLASS_LATENCY);
	send_one(1, LARGE, SL_CLASS_BULK);
	sl_link_flush(&link_, 2);
	ck_assert_uint_gt(fake.posted_cnt, 2);
	last = fake.posted_cnt - 1;
	for (unsigned i = 1; i < last; i++)
		ck_assert_uint_eq(fake.cookies[i], 0);
	ck_assert(fake.posted[last].flags & SL_RPC_LAST);
	ck_assert_uint_eq(fake.cookies[last], (uintptr_t)&sends[1]);
	ck_assert_uint_eq(sent_cnt, 0);
}

TEST(unsent_messages_are_known_when_the_channel_is_lost)
{
	setup(8);
	fake.lost = -ENOTCONN;
	send_one(0, SMALL, SL_CLASS_NORMAL);
	ck_assert_int_eq(link_.error, -ENOTCONN);
	fake.lost = 0;
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_ptr_eq(sl_link_unsent(&link_), &sends[i]);
		ck_assert_uint_eq(sends[i].offset, 0); /* safe to send elsewhere */
		ck_assert_ptr_null(sl_link_unsent(&link_));
		send_one(i + 1, SMALL, SL_CLASS_NORMAL);
	}
	ck_assert_uint_eq(fake.posted_cnt, 0);
}

/* Slices count as messages, whichever way they take. */
TEST(each_message_that_leaves_is_counted)
{
	uint64_t bytes = 0;

	setup(32);
	send_one(0, SMALL, SL_CLASS_NORMAL);
	send_one(1, LARGE, SL_CLASS_BULK);
	sl_link_flush(&link_, 2);
	ck_assert(sl_link_idle(&link_));
	ck_assert_uint_gt(fake.posted_cnt, 2);
	for (unsigned i = 0; i < fake.posted_cnt; i++)
		bytes += fake.posted[i].fragment_len;
	ck_assert_uint_eq(link_.stats.messages_sent, fake.posted_cnt);
	ck_assert_uint_eq(link_.stats.bytes_sent, bytes);
}

/* --- what is heard first --- */

TEST(a_new_link_without_messages_sends_a_ping)
{
	setup(8);
	link_.unheard = true;
	ck_assert(sl_link_has_work(&link_));
	sl_link_flush(&link_, 1);
	sl_link_flush(&link_, 2);
	ck_assert(!sl_link_has_work(&link_));
	ck_assert_uint_eq(fake.posted_cnt, 1);
	ck_assert_uint_eq(fake.posted[0].version_type & 15, SL_RPC_PING);
}

/* The answer to a PING would be one more message each way. */
TEST(a_new_link_with_a_message_sends_no_ping)
{
	setup(8);
	link_.unheard = true;
	send_one(0, SMALL, SL_CLASS_NORMAL);
	sl_link_flush(&link_, 1);
	sl_link_flush(&link_, 2);
	ck_assert_uint_eq(fake.posted_cnt, 1);
	ck_assert_uint_eq(fake.posted[0].version_type & 15, SL_RPC_REQUEST);
}

/* Nothing has been heard of what found no room; and the PING waits for room too. */
TEST(a_new_link_without_room_sends_its_ping_later)
{
	setup(0);
	link_.unheard = true;
	send_one(0, SMALL, SL_CLASS_NORMAL);
	sl_link_flush(&link_, 1);
	ck_assert_uint_eq(fake.posted_cnt, 0);
	ck_assert(sl_link_has_work(&link_));
	fake.room = 8;
	sl_link_flush(&link_, 2);
	ck_assert_uint_eq(fake.posted[0].version_type & 15, SL_RPC_PING);
	ck_assert_uint_eq(fake.posted[1].version_type & 15, SL_RPC_REQUEST);
	ck_assert_uint_eq(fake.posted_cnt, 2);
}

/* Lent bytes are read by one way only. So nothing new begins while a link waits to go on. */
TEST(a_link_goes_on_between_messages_under_load)
{
	struct sl_transport other;

	setup(3);
	fake.base.copies = false;
	other = fake.base;
	send_one(0, SMALL, SL_CLASS_LATENCY);
	for (unsigned i = 1; i < MESSAGES; i++)
		send_one(i, LARGE, SL_CLASS_BULK);
	ck_assert_uint_eq(fake.posted_cnt, 3);
	link_.second = &other;
	link_.move = SL_MOVE_OFFERED;
	link_.probed_ok = link_.move_due = true;
	fake.room = 32;
	sl_link_flush(&link_, 2);
	ck_assert_uint_eq(fake.posted[fake.posted_cnt - 1].count, 2);
	ck_assert(fake.posted[fake.posted_cnt - 1].flags & SL_RPC_LAST);
	fake.posted_cnt = 0;
	sl_link_flush(&link_, 3);
	ck_assert_uint_eq(link_.move, SL_MOVE_HALF);
	ck_assert_uint_eq(fake.posted[0].version_type & 15, SL_RPC_MIGRATE);
	ck_assert_ptr_eq(fake.by[0], &fake.base);
	for (unsigned i = 1; i < fake.posted_cnt; i++)
		ck_assert_ptr_eq(fake.by[i], &other);
	ck_assert_uint_eq(fake.posted[1].count, 3);
	ck_assert(fake.posted[1].flags & SL_RPC_FIRST);
}

/* And what is begun has its turn by the cap, among all that share the way. */
TEST(a_link_that_is_to_go_on_keeps_its_turn)
{
	struct sl_transport other;

	setup(3);
	fake.base.copies = false;
	other = fake.base;
	send_one(0, SMALL, SL_CLASS_LATENCY);
	send_one(1, LARGE, SL_CLASS_BULK);
	link_.second = &other;
	link_.move = SL_MOVE_OFFERED;
	link_.probed_ok = link_.move_due = true;
	fake.room = 32;
	fake.base.posted_bytes = link_.out.o->dql.limit;
	sl_tx_port_count(&link_.out, fake.base.posted_bytes, 1);
	sl_link_flush(&link_, 2);
	ck_assert_uint_eq(fake.posted_cnt, 3);
	ck_assert(!sl_list_empty(&link_.out.node));
	fake.base.posted_bytes = 0;
	sl_link_flush(&link_, 3);
	sl_link_flush(&link_, 4);
	ck_assert_uint_eq(link_.move, SL_MOVE_HALF);
}

/* Looks at it each unit of time from `from` to `to`, and sends what is due. */
static void keep_alive(uint64_t from, uint64_t to, uint64_t patience_ns)
{
	for (uint64_t now = from; now <= to && !link_.error; now++) {
		sl_link_keep_alive(&link_, patience_ns, now);
		sl_link_flush(&link_, now);
	}
}

static void setup_silence(uint64_t silence_ns, uint64_t interval_ns)
{
	setup(32);
	link_.alive = (struct sl_keepalive){.silence_ns = silence_ns, .interval_ns = interval_ns};
	link_.last_rx_ns = 1;
}

static void hear_list(enum sl_rpc_type type, unsigned cnt, size_t size)
{
	struct sl_message m = {.header = {.version_type = (uint8_t)(SL_RPC_VERSION << 4 | type),
					  .flags = SL_RPC_FIRST | SL_RPC_LAST,
					  .count = (uint16_t)cnt,
					  .fragment_len = (uint32_t)(cnt * size),
					  .total_or_offset = (uint32_t)(cnt * size)},
			       .body = payload};

	heard_cnt = 0;
	link_.takes = SL_RPC_REQUEST;
	fake.comes = &m;
	sl_link_poll(&link_, 1);
}

/* Each is a call of the owner's: a liar would keep it for as long as its ring is large. */
TEST(a_list_has_a_bound)
{
	setup(MESSAGES);
	hear_list(SL_RPC_CANCEL, SL_RPC_MAX_CANCELS, sizeof(uint64_t));
	ck_assert_uint_eq(heard_cnt, SL_RPC_MAX_CANCELS);
	hear_list(SL_RPC_WINDOW, SL_RPC_MAX_WINDOWS, sizeof(struct sl_rpc_window));
	ck_assert_uint_eq(heard_cnt, SL_RPC_MAX_WINDOWS);
	ck_assert_int_eq(link_.error, 0);
	hear_list(SL_RPC_CANCEL, SL_RPC_MAX_CANCELS + 1, sizeof(uint64_t));
	ck_assert_uint_eq(heard_cnt, 0);
	ck_assert_int_eq(link_.error, -EPROTO);
	setup(MESSAGES);
	hear_list(SL_RPC_WINDOW, SL_RPC_MAX_WINDOWS + 1, sizeof(struct sl_rpc_window));
	ck_assert_uint_eq(heard_cnt, 0);
	ck_assert_int_eq(link_.error, -EPROTO);
}

TEST(three_unanswered_pings_end_a_link)
{
	setup_silence(50, 10);
	keep_alive(1, 50, 0);
	ck_assert_uint_eq(fake.posted_cnt, 0);
	keep_alive(51, 80, 0);
	ck_assert_uint_eq(fake.posted_cnt, 3);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_uint_eq(fake.posted[i].version_type & 15, SL_RPC_PING);
		ck_assert_uint_eq(fake.posted[i].id, i + 1);
	}
	/* The third has its time, too. */
	ck_assert_int_eq(link_.error, 0);
	keep_alive(81, 81, 0);
	ck_assert_int_eq(link_.error, -ETIMEDOUT);
}

TEST(a_received_message_restarts_the_keepalive)
{
	setup_silence(50, 10);
	keep_alive(1, 80, 0);
	ck_assert_uint_eq(fake.posted_cnt, 3);
	link_.last_rx_ns = 80;
	keep_alive(81, 129, 0);
	ck_assert_uint_eq(fake.posted_cnt, 3);
	ck_assert_uint_eq(link_.alive.next_ns, 130);
	keep_alive(130, 159, 0);
	ck_assert_uint_eq(fake.posted_cnt, 6);
	ck_assert_int_eq(link_.error, 0);
	keep_alive(160, 160, 0);
	ck_assert_int_eq(link_.error, -ETIMEDOUT);
}

/* Nor was the peer heard by a worker that did not run. */
TEST(time_without_pings_ends_no_link)
{
	setup_silence(50, 10);
	keep_alive(1000000, 1000029, 0);
	ck_assert_uint_eq(fake.posted_cnt, 3);
	ck_assert_int_eq(link_.error, 0);
	/* Nor by one that did not read the peer's answer. */
	link_.last_rx_ns = 1000035;
	keep_alive(2000000, 2000029, 0);
	ck_assert_uint_eq(fake.posted_cnt, 6);
	ck_assert_int_eq(link_.error, 0);
	keep_alive(3000000, 3000000, 0);
	ck_assert_int_eq(link_.error, -ETIMEDOUT);
}

TEST(a_busy_peer_is_pinged_until_its_patience_ends)
{
	setup_silence(10, 10);
	keep_alive(1, 100, 100);
	ck_assert_uint_eq(fake.posted_cnt, 9);
	ck_assert_int_eq(link_.error, 0);
	keep_alive(101, 101, 100);
	ck_assert_int_eq(link_.error, -ETIMEDOUT);
}
