/* SPDX-License-Identifier: Apache-2.0 */
/* Clients at one address cannot keep clients at another from being served. 10.0.0.1 attacks. */
#include "core_arena.h"

/* --- shares of an address --- */

TEST(an_address_has_its_part_of_the_exchanges_that_read)
{
	struct peer *bad, *good;

	start("max_connections = 32 max_exchanges = 64 address_reading = 0.25");
	bad = dial(BAD);
	h2_begin(bad, 65535);
	for (uint32_t id = 1; id < 2 * 40; id += 2)
		h2_head(bad, id, "/pool", true);
	run(10);
	ck_assert_uint_eq(sl_mempool_used(&core.exchanges), 16);
	ck_assert_uint_eq(core.stats.address_limits[SL_QUOTA_READING], 24);
	ck_assert_uint_eq(core.stats.outcomes[SL_OUTCOME_ADDRESS_LIMIT], 24);

	good = dial(GOOD);
	say_text(good, "POST /pool HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n1");
	ck_assert_uint_eq(sl_mempool_used(&core.exchanges), 17);
	stop();
}

TEST(an_address_has_its_part_of_all_exchanges)
{
	struct peer *bad;

	start("max_connections = 32 max_exchanges = 64 address_exchanges = 0.5");
	bad = dial(BAD);
	h2_begin(bad, 0);
	for (uint32_t id = 1; id < 2 * 60; id += 2)
		h2_head(bad, id, "/long", false);
	run(10);
	ck_assert_uint_eq(sl_mempool_used(&core.exchanges), 32);
	ck_assert_uint_eq(core.stats.address_limits[SL_QUOTA_EXCHANGES], 28);
	is_served(dial(GOOD));
	sl_tcp_abort(bad->conn);
	run(5);
	ck_assert_uint_eq(sl_mempool_used(&core.exchanges), 0);
	stop();
}

TEST(an_address_has_its_part_of_the_connections)
{
	unsigned open = 0;

	start("max_connections = 16 max_exchanges = 64");
	for (int i = 0; i < 12; i++)
		open += try_dial(BAD)->conn != NULL;
	ck_assert_uint_eq(open, 8);
	ck_assert_uint_eq(core.stats.address_limits[SL_QUOTA_CONNECTIONS], 4);
	is_served(dial(GOOD));
	sl_tcp_abort(peers[0].conn);
	run(5);
	is_served(dial(BAD));
	ck_assert_uint_eq(sl_mempool_used(&core.quotas.pool), 2);
	stop();
}

TEST(an_address_has_its_part_of_the_frames)
{
	static uint8_t body[1 << 20];
	struct peer *bad, *good;
	const char *head = "POST /pool HTTP/1.1\r\nHost: a\r\nContent-Length: 1048577\r\n\r\n";

	start("max_connections = 32 max_exchanges = 64 address_frames = 0.25"); /* 1024 frames */
	bad = dial(BAD);
	say_text(bad, head);
	say(bad, body, sizeof(body));
	bad = dial(BAD);
	say_text(bad, head);
	say(bad, body, sizeof(body));
	run(20);
	ck_assert_uint_ge(count(bad, "HTTP/1.1 429 "), 1);
	ck_assert_uint_ge(core.stats.address_limits[SL_QUOTA_FRAMES], 1);
	ck_assert_uint_ge(server_end.umem.free_cnt, FRAMES - 1100);

	good = dial(GOOD);
	say_text(good, head);
	say(good, body, sizeof(body));
	ck_assert_uint_eq(count(good, "HTTP/1.1 "), 0); /* it is read on */
	ck_assert_ptr_nonnull(good->conn);
	stop();
}

TEST(an_address_has_so_many_requests_a_second)
{
	static const char post[] = "POST /pool HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
	struct peer *bad = NULL, *good;
	unsigned refused = 0;

	start("max_connections = 32 max_exchanges = 64 address_requests = 5");
	for (int i = 0; i < 7; i++) { /* each waits for a backend, so each needs a connection */
		bad = dial(BAD);
		say_text(bad, post);
		refused += count(bad, "HTTP/1.1 429 ");
	}
	ck_assert_uint_eq(refused, 2);
	good = dial(GOOD);
	say_text(good, post);
	ck_assert_uint_eq(count(good, "HTTP/1.1 429 "), 0);

	sl_tcp_abort(bad->conn); /* a new connection is no new bucket */
	run(2);
	bad = dial(BAD);
	say_text(bad, post);
	ck_assert_uint_eq(count(bad, "HTTP/1.1 429 "), 1);
	run(1000);
	say_text(bad, post);
	ck_assert_uint_eq(count(bad, "HTTP/1.1 429 "), 1);
	wait_for_no_backend();
	ck_assert_uint_eq(count(bad, "HTTP/1.1 503 "), 1);
	ck_assert_uint_eq(count(good, "HTTP/1.1 503 "), 1);
	stop();
}

TEST(requests_of_an_address_are_limited_unless_said_otherwise)
{
	static const char post[] = "POST /pool HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
	const struct sl_addr address = {.addr = {10, 0, 0, BAD}, .family = 4};
	struct sl_addr_quota *quota;
	struct peer *bad, *good;
	uint32_t begun = 0;
	uint64_t later_ns;

	start("max_connections = 32 max_exchanges = 64");
	bad = dial(BAD);
	later_ns = core.now_ns + 100 * SL_NS_PER_MS; /* the bucket gets nothing back before */
	quota = sl_addr_quota_open(&core.quotas, &address);
	while (begun < 1000000 && sl_addr_quota_admits_request(&core.quotas, quota, later_ns))
		begun++;
	ck_assert_uint_eq(begun, 250000);
	say_text(bad, post);
	ck_assert_uint_eq(count(bad, "HTTP/1.1 429 "), 1);
	good = dial(GOOD);
	say_text(good, post);
	wait_for_no_backend();
	ck_assert_uint_eq(count(good, "HTTP/1.1 503 "), 1);
	sl_addr_quota_close(&core.quotas, quota, core.now_ns);
	stop();
}

static uint32_t hash_of_host(uint8_t host)
{
	uint64_t words[2] = {UINT64_C(0x0a000000) + host, 4};

	return (uint32_t)sl_siphash13_words(&core.quotas.key, words, 2);
}

/* Two addresses whose hashes are one modulo 4096: whatever counts by less than all of them mixes them up. */
static uint8_t colliding_hosts(uint8_t *other)
{
	for (uint8_t a = 1; a < 255; a++) {
		for (uint8_t b = (uint8_t)(a + 1); b < 255; b++) {
			if (!((hash_of_host(a) ^ hash_of_host(b)) & 4095)) {
				*other = b;
				return a;
			}
		}
	}
	ck_abort_msg("no two hosts collide under this key");
}

TEST(http2_memory_of_one_address_is_not_counted_to_another)
{
	static const uint8_t key[16] = "a key of no-one";
	struct peer *good;
	uint8_t a, b = 0;

	start("max_connections = 64 max_exchanges = 64 address_connections = 0.1"); /* 6 */
	core.quotas.key = sl_sipkey_from(key);
	a = colliding_hosts(&b);
	for (int i = 0; i < 6; i++)
		h2_begin(dial(a), 65535);
	for (int i = 0; i < 6; i++) {
		good = dial(b);
		h2_begin(good, 65535);
		h2_head(good, 1, "/", false);
		run(2);
		ck_assert_ptr_nonnull(good->conn);
		ck_assert_uint_eq(h2_count(good, 1), 1); /* HEADERS: it is answered */
	}
	stop();
}

/* --- time and rate of a stream --- */

#define SHORT "max_connections = 32 max_exchanges = 64 send_timeout = 1s body_timeout = 1s "

static const char ping[] = "\0\0\x8\6\0\0\0\0\0abcdefgh";
enum { RST_STREAM = 3 };

/* Keeps the connection busy while its stream stands still. */
static void ping_for(struct peer *p, unsigned ms)
{
	for (unsigned t = 0; t < ms; t += 200) {
		if (p->conn)
			say(p, ping, sizeof(ping) - 1);
		run_by(198, SL_NS_PER_MS);
	}
}

TEST(a_reply_that_no_window_lets_out_ends_by_itself)
{
	struct peer *bad;

	start(SHORT);
	bad = dial(BAD);
	h2_begin(bad, 0);
	h2_head(bad, 1, "/long", false);
	ping_for(bad, 600);
	ck_assert_uint_eq(sl_mempool_used(&core.exchanges), 1);
	ping_for(bad, 1400);
	ck_assert_uint_eq(sl_mempool_used(&core.exchanges), 0);
	ck_assert_uint_eq(h2_count(bad, RST_STREAM), 1);
	ck_assert_uint_eq(core.stats.slow_readers, 1);
	ck_assert_ptr_nonnull(bad->conn); /* the others of its streams go on */
	stop();
}

TEST(a_window_that_opens_byte_by_byte_is_too_slow)
{
	static const char more[] = "\0\0\4\x8\0\0\0\0\1\0\0\0\x28"; /* 40 bytes for stream 1 */
	struct peer *bad;

	start(SHORT "send_rate = 500");
	bad = dial(BAD);
	h2_begin(bad, 0);
	h2_head(bad, 1, "/long", false);
	for (int i = 0; i < 15; i++) {
		say(bad, more, sizeof(more) - 1);
		run_by(198, SL_NS_PER_MS);
	}
	ck_assert_uint_eq(core.stats.slow_readers, 1);
	ck_assert_uint_eq(h2_count(bad, RST_STREAM), 1);
	stop();
}

TEST(a_window_that_opens_fast_enough_is_left_alone)
{
	static const char more[] = "\0\0\4\x8\0\0\0\0\1\0\0\0\xc8"; /* 200 bytes */
	struct peer *p;

	start(SHORT "send_rate = 500");
	p = dial(GOOD);
	h2_begin(p, 0);
	h2_head(p, 1, "/long", false);
	for (int i = 0; i < 25; i++) {
		say(p, more, sizeof(more) - 1);
		run_by(198, SL_NS_PER_MS);
	}
	ck_assert_uint_eq(core.stats.slow_readers, 0);
	ck_assert_uint_eq(sl_mempool_used(&core.exchanges), 1);
	stop();
}

/* Those behind the one that the client takes first wait without a fault of its. */
TEST(a_stream_behind_others_that_move_is_left_alone)
{
	static const char more[] = "\0\0\4\x8\0\0\0\0\0\0\0\0\xc8"; /* 200 bytes for all */
	struct peer *p;

	start(SHORT "send_rate = 500");
	p = dial(GOOD);
	h2_begin(p, 1 << 20);
	for (uint32_t id = 1; id < 2 * 12; id += 2)
		h2_head(p, id, "/long", false);
	for (int i = 0; i < 25; i++) {
		say(p, more, sizeof(more) - 1);
		run_by(198, SL_NS_PER_MS);
	}
	ck_assert_uint_eq(core.stats.slow_readers, 0);
	ck_assert_uint_ge(sl_mempool_used(&core.exchanges), 3);
	stop();
}

TEST(a_body_that_stands_still_ends_although_the_connection_is_busy)
{
	static const char early_seen[] = "\0\0\x8\6\1\0\0\0\0slearly";
	struct peer *bad;

	start(SHORT);
	bad = dial(BAD);
	h2_begin(bad, 65535);
	h2_head(bad, 1, "/pool", true);
	ping_for(bad, 600);
	ck_assert_uint_eq(sl_mempool_used(&core.exchanges), 1);
	ping_for(bad, 1400);
	ck_assert_uint_eq(sl_mempool_used(&core.exchanges), 0);
	ck_assert_uint_eq(core.stats.outcomes[SL_OUTCOME_REQUEST_TIMEOUT], 1);
	ck_assert_uint_eq(core.stats.slow_bodies, 1);
	ck_assert_uint_eq(h2_count(bad, RST_STREAM), 0);
	say(bad, early_seen, sizeof(early_seen));
	run_by(1, SL_NS_PER_MS);
	ck_assert_uint_eq(h2_count(bad, RST_STREAM), 1);
	ck_assert_ptr_nonnull(bad->conn);
	stop();
}

/* HEADERS of POST /pool, content-type application/grpc, and DATA with a whole message, without END_STREAM. */
static const char unended_call[] = "\0\0\x1f\1\4\0\0\0\1\x83\x86\4\5/pool\x41\1a"
				   "\xf\x10\x10"
				   "application/grpc"
				   "\0\0\6\0\0\0\0\0\1\0\0\0\0\1x";

/* It may wait for an answer that only a route with stream = yes can give; body_timeout is 20 s. */
TEST(a_call_that_does_not_end_after_its_message_is_told_why)
{
	static const char end[] = "\0\0\0\0\1\0\0\0\1";
	struct peer *p, *q;

	start("max_connections = 32 max_exchanges = 64");
	p = dial(BAD);
	h2_begin(p, 65535);
	say(p, unended_call, sizeof(unended_call) - 1);
	q = dial(GOOD);
	h2_begin(q, 65535);
	say(q, unended_call, sizeof(unended_call) - 1);
	run_by(1400, SL_NS_PER_MS);
	ck_assert_uint_eq(core.stats.outcomes[SL_OUTCOME_NOT_UNARY], 0);
	say(q, end, sizeof(end) - 1); /* late, but it has ended */
	run_by(1400, SL_NS_PER_MS);
	ck_assert_uint_eq(core.stats.outcomes[SL_OUTCOME_NOT_UNARY], 1);
	ck_assert_uint_eq(core.stats.outcomes[SL_OUTCOME_REQUEST_TIMEOUT], 0);
	stop();
}

static void send_slowly(struct peer *p, size_t step, int steps)
{
	static const char bytes[1000];

	say_text(p, "POST /pool HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n");
	say(p, bytes, 1000);
	for (int i = 0; i < steps; i++) {
		say(p, bytes, step);
		run_by(198, SL_NS_PER_MS);
	}
}

TEST(a_body_that_trickles_is_too_slow)
{
	struct peer *bad;

	start(SHORT "body_rate = 500");
	bad = dial(BAD);
	send_slowly(bad, 40, 15);
	ck_assert_uint_eq(count(bad, "HTTP/1.1 408 "), 1);
	ck_assert_uint_eq(core.stats.slow_bodies, 1);
	ck_assert_uint_eq(sl_mempool_used(&core.exchanges), 0);
	stop();
}

TEST(a_body_that_comes_steadily_is_waited_for)
{
	struct peer *p;

	start(SHORT "body_rate = 500");
	p = dial(GOOD);
	send_slowly(p, 200, 25);
	ck_assert_uint_eq(p->heard_len, 0);
	ck_assert_ptr_nonnull(p->conn);
	stop();
}

/* A reply that TCP could hold as a whole is not the core's any more, but still costs memory. */
TEST(a_client_that_asks_but_never_reads_is_ended)
{
	struct peer *bad;

	client_rcv_buf = 8192;
	client_rcv_buf = 8192;
	start(SHORT "idle_timeout = 60s");
	bad = dial(BAD);
	bad->deaf = true;
	for (int i = 0; i < 12; i++)
		say_text(bad, "GET /long HTTP/1.1\r\nHost: a\r\n\r\n");
	for (int i = 0; i < 30 && bad->conn; i++) {
		say_text(bad, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
		run_by(198, SL_NS_PER_MS);
	}
	ck_assert_ptr_null(bad->conn);
	ck_assert_uint_eq(core.stats.clients_timed_out, 1);
	stop();
}

/* --- when something is short --- */

TEST(the_heaviest_gives_up_exchanges_for_newcomers)
{
	struct peer *bad[2], *good;

	start("max_connections = 32 max_exchanges = 64 address_exchanges = 1 address_reading = 1");
	good = dial(GOOD);
	h2_begin(good, 65535);
	h2_head(good, 1, "/pool", true);
	for (int i = 0; i < 2; i++) {
		bad[i] = dial(BAD);
		h2_begin(bad[i], 65535);
		for (uint32_t id = 1; id < 2 * 50; id += 2)
			h2_head(bad[i], id, "/pool", true);
	}
	run(20);
	ck_assert_uint_lt(sl_mempool_used(&core.exchanges), 61);
	ck_assert_uint_ge(core.stats.ended_for_others[SL_RANK_EXCHANGES], 40);
	ck_assert_uint_eq(core.stats.outcomes[SL_OUTCOME_NO_MEMORY], 0);
	ck_assert_uint_eq(h2_count(good, RST_STREAM), 0);
	for (uint32_t id = 3; id < 12; id += 2)
		h2_head(good, id, "/pool", true);
	is_served(dial(GOOD));
	ck_assert_uint_eq(h2_count(good, RST_STREAM), 0);
	ck_assert_uint_eq(core.stats.outcomes[SL_OUTCOME_NO_MEMORY], 0);
	stop();
}

TEST(many_that_hold_a_little_and_stand_still_give_way_too)
{
	start("max_connections = 64 max_exchanges = 64");
	for (uint8_t host = 10; host < 20; host++) {
		struct peer *p = dial(host);

		h2_begin(p, 65535);
		for (uint32_t id = 1; id < 2 * 6; id += 2)
			h2_head(p, id, "/pool", true);
	}
	run_by(800, SL_NS_PER_MS);
	is_served(dial(GOOD));
	ck_assert_uint_ge(core.stats.ended_for_others[SL_RANK_EXCHANGES], 1);
	stop();
}

TEST(request_with_most_frames_is_evicted_for_new_ones)
{
	static uint8_t body[2 << 20];
	const char *head = "POST /pool HTTP/1.1\r\nHost: a\r\nContent-Length: 2097153\r\n\r\n";
	struct peer *good;

	start("max_connections = 32 max_exchanges = 64 address_frames = 1");
	good = dial(GOOD);
	say_text(good, head);
	say(good, body, 100000);
	for (int i = 0; i < 5; i++) { /* 10 MiB of 8 */
		struct peer *bad = dial(BAD);

		say_text(bad, head);
		say(bad, body, sizeof(body));
	}
	ck_assert_uint_ge(core.stats.ended_for_others[SL_RANK_FRAMES], 1);
	ck_assert_uint_gt(server_end.umem.free_cnt, FRAMES / 8 - 64);
	ck_assert_uint_eq(core.stats.outcomes[SL_OUTCOME_NO_MEMORY], 0);
	say(good, body, 500000);
	ck_assert_ptr_nonnull(good->conn);
	ck_assert_uint_eq(good->heard_len, 0);
	is_served(dial(GOOD));
	stop();
}

/* Replies that were given to TCP are no exchange's any more. */
TEST(unread_reply_is_evicted_before_a_moving_body)
{
	static uint8_t body[1 << 20];
	struct peer *good;

	client_rcv_buf = 8192;
	start("max_connections = 64 address_connections = 1 max_exchanges = 4096 address_frames = 1 "
	      "send_timeout = 60s");
	client_rcv_buf = 0;
	for (int i = 0; i < 50; i++) {
		struct peer *bad = dial(BAD);

		bad->deaf = true;
		for (int k = 0; k < 30; k++)
			say_text(bad, "GET /long HTTP/1.1\r\nHost: a\r\n\r\n");
	}
	leave_frames(3);
	run_by(600, SL_NS_PER_MS);
	good = dial(GOOD);
	say_text(good, "POST /pool HTTP/1.1\r\nHost: a\r\nContent-Length: 1048577\r\n\r\n");
	say(good, body, sizeof(body) / 2);
	ck_assert_ptr_nonnull(good->conn);
	ck_assert_uint_eq(good->heard_len, 0);
	ck_assert_uint_ge(core.stats.ended_for_others[SL_RANK_FRAMES], 1);
	give_frames_back();
	stop();
}

TEST(idle_connections_give_way_to_newcomers)
{
	struct peer *busy;

	start("max_connections = 32 max_exchanges = 64 address_connections = 1");
	busy = dial(GOOD);
	for (int i = 0; i < 40; i++)
		try_dial(BAD);
	ck_assert_uint_ge(core.stats.evicted[SL_EVICTED_IDLE_CONNECTION], 8);
	is_served(dial(GOOD));
	is_served(dial(GOOD + 1));
	is_served(busy);
	stop();
}

TEST(connections_that_have_been_served_are_idle_again)
{
	start("max_connections = 32 max_exchanges = 64 address_connections = 1");
	for (int i = 0; i < 40; i++) {
		struct peer *p = try_dial(BAD);

		if (p->conn)
			is_served(p);
	}
	ck_assert_uint_ge(core.stats.evicted[SL_EVICTED_IDLE_CONNECTION], 8);
	is_served(dial(GOOD));
	stop();
}

/* A head of 3,000 bytes in two parts. */
static void begin_long_head(struct peer *p)
{
	char text[3000];

	memset(text, 'y', sizeof(text));
	say_text(p, "GET / HTTP/1.1\r\nHost: a\r\nX-Long: ");
	say(p, text, sizeof(text));
}

TEST(heads_that_do_not_end_give_way_to_newcomers)
{
	struct peer *good;
	void *taken[512];
	unsigned n = 0;

	start("max_connections = 64 max_exchanges = 64 header_timeout = 60s");
	while (sl_mempool_used(&core.heads) + 8 < sl_mempool_capacity(&core.heads) * 7 / 8)
		taken[n++] = sl_mempool_get(&core.heads);
	for (int i = 0; i < 30; i++)
		begin_long_head(dial(BAD));
	good = dial(GOOD);
	begin_long_head(good);
	run(100);
	ck_assert_ptr_nonnull(good->conn);
	say_text(good, "\r\n\r\n");
	run(5);
	ck_assert_uint_eq(count(good, "HTTP/1.1 200 OK\r\n"), 1);
	ck_assert_uint_ge(core.stats.evicted[SL_EVICTED_PARTIAL_HEAD], 20);
	ck_assert_uint_eq(count(good, "503"), 0);
	while (n)
		sl_mempool_put(&core.heads, taken[--n]);
	stop();
}

TEST(a_newcomer_may_connect_when_bodies_may_not)
{
	struct sl_frame *taken[FRAMES];
	struct sl_umem *u = &server_end.umem;
	unsigned n = 0;

	start("max_connections = 32 max_exchanges = 64");
	while (u->free_cnt > u->low_water * 3 / 4)
		taken[n++] = sl_frame_get(u, SL_FRAME_HELD, 0);
	is_served(dial(GOOD));
	while (n)
		sl_frame_put(u, taken[--n]);
	stop();
}

TEST(the_last_exchanges_are_for_replies_of_the_gateway_itself)
{
	void *taken[64];
	struct peer *p;
	unsigned n = 0;

	start("max_connections = 32 max_exchanges = 64");
	while (sl_mempool_used(&core.exchanges) < 63)
		taken[n++] = sl_mempool_get(&core.exchanges);
	p = dial(GOOD);
	is_served(p);
	say_text(p, "POST /pool HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
	ck_assert_uint_eq(core.stats.outcomes[SL_OUTCOME_NO_MEMORY], 1);
	is_served(dial(GOOD));
	while (n)
		sl_mempool_put(&core.exchanges, taken[--n]);
	stop();
}
