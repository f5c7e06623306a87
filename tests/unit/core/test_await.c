/* SPDX-License-Identifier: Apache-2.0 */
/* Streams that find no backend, where one may come in a moment. */
#include "core/client.h"
#include "core_talk.h"
#include "suite.h"

static void set_up_alone(void)
{
	set_up();
	stream();
	bed.cfg->pools[1].batch.policy = SL_POLICY_DIRECT;
	other()->broken = -ENOTCONN;
	bed_turns(3);
}

FIXTURE(set_up_alone, tear_down)

static void come_up(void)
{
	bed_connect(2, false);
	bed_turns(3);
}

TEST(waiting_stream_keeps_its_body)
{
	say(POST(10) "one");
	say(" two");
	come_up();
	ck_sent("one two", 0);
	ck_assert_uint_eq(sent.opened, 1);
	say(" 10");
	ck_sent("one two 10", 1);
	reply(other()->ids[0], 0, "heard");
	ck_assert(heard("HTTP/1.1 200 OK\r\n"));
	ck_assert(heard("heard"));
	ck_assert_uint_eq(sl_client_quota(sl_client_next(&bed.core, NULL))->cnt[SL_QUOTA_FRAMES],
			  0);
}

TEST(and_with_its_end)
{
	say(POST(5) "hello");
	come_up();
	ck_sent("hello", 1);
	ck_assert_uint_eq(sent.open, 1);
}

/* Nothing of it is open any more when its backend hears of it. */
TEST(waiting_stream_without_a_body_is_complete)
{
	say("POST /o HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
	say("0\r\n\r\n");
	come_up();
	ck_sent("", 0);
	ck_assert_uint_eq(sent.opened, 1);
	ck_assert_uint_eq(sent.open, 0);
	ck_assert_uint_eq(other()->id_cnt, 1);
	ck_assert(sl_list_empty(&bed.core.stalled));
	reply(other()->ids[0], 0, "heard");
	ck_assert(heard("heard"));
}

static const struct sl_exchange *first_waiting(void)
{
	const struct sl_exchange *x = sl_list_first(&bed.core.wcfg->pools[1].pool->streams,
						    struct sl_exchange, item.link);

	ck_assert_ptr_nonnull(x);
	return x;
}

static size_t taken(void)
{
	const uint8_t *p = other()->taken, *end = p + other()->taken_len;
	struct sl_rpc_entry e;
	size_t n = 0;

	for (; p < end; p += sl_rpc_pad8(e.meta_len) + sl_rpc_pad8(e.len)) {
		memcpy(&e, p, sizeof(e));
		p += sizeof(e);
		n += e.flags & SL_ENTRY_PART ? e.len : 0;
	}
	return n;
}

/*
 * As much as there is room for, 8192 bytes with six lengths, goes at once: less than half of a window,
 * of which no backend tells.
 */
TEST(a_client_that_was_paused_goes_on)
{
	enum { TRUSTED = 32, PIECE = 1400, LAST = 1168, MORE = 1000 };
	static const uint8_t zeros[PIECE];

	bed.core.trusted = TRUSTED; /* others are */
	say(POST(20000));
	for (unsigned i = 0; i < 5; i++)
		bed_say(0, zeros, PIECE);
	bed_say(0, zeros, LAST);
	bed_say(0, zeros, MORE);
	bed_turns(3);
	ck_assert(sl_client_next(&bed.core, NULL)->paused);
	come_up();
	ck_assert_uint_eq(taken(), 5 * PIECE + LAST + MORE);
	bed.core.trusted = 0;
}

/* Each has a place, which no account would count. */
TEST(messages_without_bytes_are_charged)
{
	static const char preface[] =
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0\0\0\0\4\1\0\0\0\0";
	static const char head[] = "\0\0\x1c\1\4\0\0\0\1\x83\x86\x04\x02/o\x41\x01x\x0f\x10\x10"
				   "application/grpc";
	static const uint8_t messages[9 + 16380] = {0, 0x3f, 0xfc, [8] = 1};
	const struct sl_exchange *x;

	bed_say(0, preface, sizeof(preface) - 1);
	bed_say(0, head, sizeof(head) - 1);
	bed_say(0, messages, sizeof(messages));
	bed_turns(3);
	x = first_waiting();
	ck_assert_uint_ge(x->request.frames, 4);
	ck_assert_uint_eq(sl_client_quota(x->client)->cnt[SL_QUOTA_FRAMES],
			  x->request.frames + x->head.frames);
}

TEST(an_upgrade_that_its_client_ends_meanwhile_is_still_one)
{
	static const char *protocols[] = {"websocket"};

	for (uint32_t i = 0; i < bed.cfg->route_cnt; i++) {
		bed.cfg->routes[i].upgrades = protocols;
		bed.cfg->routes[i].upgrade_cnt = 1;
	}
	bed.core.limits.upgrades = true;
	say("GET /o HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
	bed_segment(0, BED_FIN | BED_ACK, NULL, 0);
	bed_turns(3);
	ck_assert(!first_waiting()->open);
	come_up();
	look_at(other());
	ck_assert_uint_eq(sent.open, 1);
}

/* A client that is not told to go on, and does, expects nothing any more. */
TEST_EACH(continue_is_sent_only_for_a_body_still_to_come, 2)
{
	struct sl_rpc_entry e;

	for (uint32_t i = 0; i < bed.cfg->route_cnt; i++)
		bed.cfg->routes[i].backend_continues = true;
	say("POST /o HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
	if (_i)
		say("hello");
	come_up();
	memcpy(&e, other()->taken, sizeof(e));
	ck_assert_int_eq(!(e.flags & SL_ENTRY_EXPECT), _i);
	ck_sent(_i ? "hello" : "", (unsigned)_i);
}

TEST(trailers_come_behind)
{
	static const char *names[] = {"x-a"};

	for (uint32_t i = 0; i < bed.cfg->route_cnt; i++) {
		bed.cfg->routes[i].forward_headers = names;
		bed.cfg->routes[i].forward_header_cnt = 1;
	}
	say("POST /o HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n");
	say("0\r\nx-a: b\r\n\r\n");
	come_up();
	ck_sent("one", 1);
	ck_assert_ptr_nonnull(memmem(other()->taken, other()->taken_len, "x-a", 3));
}

/* Until its backend is there, and the next time that its part is all down. */
TEST(waiting_streams_are_not_checked_without_a_cause)
{
	uint64_t soon = 10 * SL_NS_PER_MS;

	say(POST(5) "one");
	ck_assert_uint_gt(sl_core_next_ns(&bed.core) - bed.core.now_ns, soon);
	come_up();
	ck_sent("one", 0);
}

TEST(no_more_wait_than_the_pool_s_queue_has_room_for)
{
	bed.cfg->pools[1].max_queue = 2;
	for (unsigned i = 0; i < 4; i++) {
		if (i)
			bed_open(i);
		bed_say(i, GET("/o"), strlen(GET("/o")));
		bed_turns(3);
		ck_assert_int_eq(bed.clients[i].heard_len != 0, i >= 2);
	}
	ck_assert_uint_eq(outcomes(SL_OUTCOME_QUEUE_FULL), 2);
	/* There is room again once one of them has left. */
	bed_segment(0, BED_RST | BED_ACK, NULL, 0);
	bed_turns(3);
	bed_open(4);
	bed_say(4, GET("/o"), strlen(GET("/o")));
	bed_turns(3);
	ck_assert_uint_eq(bed.clients[4].heard_len, 0);
	come_up();
	ck_assert_uint_eq(other()->id_cnt, 2);
	ck_assert_uint_eq(bed.core.wcfg->pools[1].pool->stream_cnt, 0);
}

TEST(all_of_them_begin_in_order)
{
	enum { CNT = 4 };

	for (unsigned i = 0; i < CNT; i++) {
		if (i)
			bed_open(i);
		bed_say(i, GET("/o"), strlen(GET("/o")));
		bed_turns(3);
	}
	come_up();
	ck_assert_uint_eq(other()->id_cnt, CNT);
	for (unsigned i = 1; i < CNT; i++)
		ck_assert_uint_gt(other()->ids[i], other()->ids[i - 1]);
}

TEST(after_two_seconds_it_is_refused)
{
	say(POST(5) "one");
	bed_turn(1900 * SL_NS_PER_MS);
	bed_turns(3);
	ck_assert_uint_eq(bed.clients[0].heard_len, 0);
	bed_turn(200 * SL_NS_PER_MS);
	bed_turns(3);
	ck_assert(heard("HTTP/1.1 503 "));
	come_up();
	ck_assert_uint_eq(other()->id_cnt, 0);
}

TEST(its_own_time_may_be_over_before)
{
	for (uint32_t i = 0; i < bed.cfg->route_cnt; i++)
		bed.cfg->routes[i].deadline_ns = 500 * SL_NS_PER_MS;
	say(POST(5) "one");
	bed_turn(600 * SL_NS_PER_MS);
	bed_turns(3);
	ck_assert(heard("HTTP/1.1 504 "));
}

TEST(request_of_a_client_that_left_is_not_sent)
{
	say(POST(5) "one");
	bed_segment(0, BED_RST | BED_ACK, NULL, 0);
	bed_turns(3);
	ck_assert_uint_eq(outcomes(SL_OUTCOME_CLIENT_GONE), 1);
	come_up();
	ck_assert_uint_eq(other()->id_cnt, 0);
}

/* The backend is up, but the batch cannot be sent: the request waits on, and none overtakes it. */
TEST(unsendable_stream_is_tried_again)
{
	struct sl_sent_batch *f[4096];
	unsigned n = 0;

	say(POST(5) "one");
	while ((f[n] = sl_mempool_get(&bed.core.sent_batches)))
		n++;
	come_up();
	ck_assert_uint_eq(other()->id_cnt, 0);
	bed_open(1);
	bed_say(1, GET("/o"), strlen(GET("/o")));
	say(" ");
	ck_assert_uint_eq(bed.clients[1].heard_len, 0);
	ck_assert_uint_le(sl_core_next_ns(&bed.core) - bed.core.now_ns, SL_NS_PER_MS);
	while (n)
		sl_mempool_put(&bed.core.sent_batches, f[--n]);
	bed_turns(3);
	ck_assert_uint_eq(other()->id_cnt, 2);
	ck_assert_uint_lt(other()->ids[0], other()->ids[1]);
}

/* Not for want of room, but for good: those behind it go on. */
TEST(stream_that_can_never_be_sent_does_not_block_others)
{
	uint32_t cap = bed.core.span_cap;

	say(POST(5) "one");
	bed.core.span_cap = 0;
	come_up();
	ck_assert(heard("HTTP/1.1 503 "));
	ck_assert_uint_eq(bed.core.wcfg->pools[1].pool->stream_cnt, 0);
	bed.core.span_cap = cap;
}

/* A backend that starts again is awaited in a pool of any policy. */
TEST_EACH(it_waits_whatever_the_policy, SL_POLICY_CNT)
{
	bed.cfg->pools[1].batch.policy = (enum sl_policy)_i;
	say(POST(5) "hello");
	ck_assert(!heard("HTTP"));
	come_up();
	ck_sent("hello", 1);
}
