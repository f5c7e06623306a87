/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames that TCP holds for a connection count for its address. When frames are short, they are
 * taken back step by step.
 */
#include "core_arena.h"

/* Returns the TCP connection below all filters. */
static struct sl_tcp_conn *tcp_of(const struct sl_client *cl)
{
	return sl_client_transport(cl).self;
}

static uint32_t frames_of(const struct peer *p)
{
	struct sl_client *cl = NULL;

	ck_assert_ptr_nonnull(p->conn);
	while ((cl = sl_client_next(&core, cl))) {
		if (tcp_of(cl)->remote_port_be == p->conn->local_port_be)
			return sl_client_quota(cl)->cnt[SL_QUOTA_FRAMES];
	}
	ck_abort_msg("there is no such client");
}

/* So many connections that ask for much and read nothing. */
static void ask_and_not_read(unsigned cnt)
{
	for (unsigned i = 0; i < cnt; i++) {
		struct peer *bad = dial(BAD);

		bad->deaf = true;
		for (int k = 0; k < 30; k++)
			say_text(bad, "GET /long HTTP/1.1\r\nHost: a\r\n\r\n");
	}
}

#define LARGE                                                                                      \
	"max_connections = 64 address_connections = 1 max_exchanges = 4096 send_timeout = 60s "

TEST(bytes_queued_in_tcp_count_for_the_address)
{
	struct peer *good;

	client_rcv_buf = 8192;
	start(LARGE "address_frames = 0.125"); /* 512 frames, of them 384 to be sent */
	ask_and_not_read(50);
	ck_assert_uint_ge(frames_of(&peers[0]), 350);
	ck_assert_uint_le(frames_of(&peers[0]), 384 + 4 * 50);
	ck_assert_uint_ge(server_end.umem.free_cnt, FRAMES - 512 - 64);
	ck_assert_uint_ge(core.stats.address_limits[SL_QUOTA_FRAMES], 1);
	for (int i = 0; i < 50; i++)
		ck_assert_ptr_nonnull(peers[i].conn);
	good = dial(GOOD);
	for (unsigned i = 1; i < 7; i++) {
		say_text(good, "GET /long HTTP/1.1\r\nHost: a\r\n\r\n");
		run(5);
		ck_assert_uint_eq(count(good, "HTTP/1.1 200 OK\r\n"), i);
	}
	ck_assert_uint_eq(frames_of(good), 0);
	for (int i = 0; i < 50; i++)
		sl_tcp_abort(peers[i].conn);
	run(5);
	ck_assert_uint_eq(sl_mempool_used(&core.quotas.pool), 1);
	client_rcv_buf = 0;
	stop();
}

/* Each has a little, and takes it as it is asked to. */
TEST(reading_client_continues_at_the_limit_of_its_address)
{
	struct peer *p[8];

	start(LARGE "address_frames = 0.01"); /* 40 frames, of them 30 to be sent */
	for (int i = 0; i < 8; i++)
		p[i] = dial(BAD);
	for (int k = 0; k < 6; k++) {
		for (int i = 0; i < 8; i++)
			sl_tcp_send(p[i]->conn, "GET /long HTTP/1.1\r\nHost: a\r\n\r\n", 31);
	}
	run(200);
	for (int i = 0; i < 8; i++)
		ck_assert_uint_eq(count(p[i], "HTTP/1.1 200 OK\r\n"), 6);
	ck_assert_uint_eq(frames_of(p[0]), 0);
	stop();
}

TEST(client_with_most_unread_bytes_is_evicted_at_once)
{
	static uint8_t body[1 << 20];
	struct peer *good;

	client_rcv_buf = 8192;
	start(LARGE "address_frames = 1");
	client_rcv_buf = 0;
	good = dial(GOOD);
	say_text(good, "POST /pool HTTP/1.1\r\nHost: a\r\nContent-Length: 1048577\r\n\r\n");
	say(good, body, sizeof(body) / 16);
	ask_and_not_read(50);
	leave_frames(2);
	say(good, body, sizeof(body) / 8);
	ck_assert_ptr_nonnull(good->conn);
	ck_assert_uint_eq(good->heard_len, 0);
	ck_assert_uint_ge(core.stats.ended_for_others[SL_RANK_FRAMES], 1);
	give_frames_back();
	stop();
}

/* Where most places for connections were never used, those that are used are still found at once. */
TEST(victim_is_found_among_many_slots)
{
	static uint8_t body[1 << 20];
	struct peer *good;

	client_rcv_buf = 8192;
	start("max_connections = 60000 max_exchanges = 4096 send_timeout = 60s address_frames = 1");
	client_rcv_buf = 0;
	ask_and_not_read(50);
	run_by(600, SL_NS_PER_MS);
	good = dial(GOOD);
	say_text(good, "POST /pool HTTP/1.1\r\nHost: a\r\nContent-Length: 1048577\r\n\r\n");
	say(good, body, sizeof(body));
	ck_assert_ptr_nonnull(good->conn);
	ck_assert_uint_eq(good->heard_len, 0);
	stop();
}

/* --- half-open connections --- */

/* SYNs of this address whose answers it never heard of. */
static void open_by_half(uint8_t host, unsigned cnt)
{
	struct sl_addr local = {.addr = {10, 0, 0, host}, .family = 4};
	struct sl_addr remote = {.addr = {10, 0, 1, 1}, .port_be = htobe16(80), .family = 4};
	static struct peer nobody;

	for (unsigned i = 0; i < cnt; i++) {
		struct sl_tcp_conn *c = sl_tcp_connect(client_tcp, 0, server_end.port.port.mac,
						       &local, &remote, &nobody);

		ck_assert_ptr_nonnull(c);
		run_by(1, SL_NS_PER_MS); /* one step: the SYN is on the wire */
		sl_tcp_abort(c);
	}
	run(1);
}

static struct sl_tcp_stats tcp_stats(void)
{
	struct sl_tcp_stats s;

	sl_tcp_stats(core.tcp, &s);
	return s;
}

TEST(half_open_connections_do_not_keep_clients_out)
{
	start("max_connections = 64 max_exchanges = 64");
	open_by_half(BAD, 200);
	ck_assert_uint_eq(tcp_stats().half_open, 4);
	ck_assert_uint_eq(tcp_stats().syn_cookies_sent, 196);
	is_served(dial(GOOD));
	is_served(dial(BAD));
	ck_assert_uint_eq(tcp_stats().syn_cookies_ok, 2);
	stop();
}

TEST(nor_do_they_together_with_idle_ones)
{
	start("max_connections = 32 max_exchanges = 64 address_connections = 1");
	open_by_half(BAD, 50);
	for (int i = 0; i < 40; i++)
		try_dial(BAD);
	ck_assert_uint_eq(tcp_stats().half_open, 2);
	for (uint8_t i = 0; i < 3; i++)
		is_served(dial(GOOD + i));
	ck_assert_uint_ge(core.stats.evicted[SL_EVICTED_IDLE_CONNECTION], 8);
	stop();
}

/* Not even for longer than others have been idle. */
TEST(connection_with_a_partial_head_is_not_idle)
{
	struct peer *slow;

	start("max_connections = 32 max_exchanges = 64 address_connections = 1 header_timeout = 60s");
	slow = dial(BAD);
	say_text(slow, "GET / HTTP/1.1\r\nHost");
	run_by(2000, SL_NS_PER_MS);
	for (int i = 0; i < 40; i++)
		try_dial(BAD);
	for (uint8_t i = 0; i < 3; i++)
		is_served(dial(GOOD + i));
	ck_assert_uint_ge(core.stats.evicted[SL_EVICTED_IDLE_CONNECTION], 8);
	slow->heard_len = 0;
	say_text(slow, ": a\r\n\r\n");
	run(20);
	ck_assert_uint_gt(slow->heard_len, 0);
	stop();
}

/* --- bodies while frames get fewer --- */

#define BODIES "max_connections = 32 max_exchanges = 64 body_timeout = 300ms "

static const char half_a_million[] =
	"POST /pool HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\n";
static const char twenty_thousand[] =
	"POST /pool HTTP/1.1\r\nHost: a\r\nContent-Length: 20000\r\n\r\n";
static const uint8_t zeros[500000];

TEST(windows_of_the_heavy_shrink_first)
{
	struct peer *bad, *good;

	start(BODIES);
	bad = dial(BAD);
	say_text(bad, half_a_million);
	say(bad, zeros, 100000);
	ck_assert_uint_ge(bad->conn->snd_wnd, 200000);
	leave_frames(SL_NARROW_PARTS);
	say(bad, zeros, 300000);
	run(5);
	ck_assert_uint_le(bad->conn->snd_wnd, SL_TCP_NARROW);
	ck_assert_uint_ge(bad->conn->snd_wnd, SL_TCP_NARROW / 2);
	ck_assert_uint_eq(core.stats.request_windows_shrunk, 1);
	ck_assert_uint_eq(core.stats.request_reads_paused, 0);
	good = dial(GOOD);
	say_text(good, twenty_thousand);
	say(good, zeros, 19000);
	run(5);
	ck_assert_uint_ge(good->conn->snd_wnd, 200000);
	give_frames_back();
	say(bad, zeros, 20000);
	run(5);
	ck_assert_uint_ge(bad->conn->snd_wnd, 200000);
	say(bad, zeros, 80000);
	wait_for_no_backend();
	ck_assert_uint_eq(count(bad, "HTTP/1.1 503 "), 1); /* it was whole; there is no backend */
	stop();
}

TEST(bodies_of_the_heavy_wait_and_go_on)
{
	struct sl_exchange *x;
	struct peer *bad, *good;
	uint64_t before;
	size_t sent;

	start(BODIES);
	bad = dial(BAD);
	say_text(bad, half_a_million);
	say(bad, zeros, 100000);
	leave_frames(SL_PAUSE_PARTS);
	sent = sl_tcp_send(bad->conn, zeros, 400000);
	ck_assert_uint_ge(sent, 200000);
	run(50);
	x = sl_list_first(&core.paused_bodies, struct sl_exchange, item.link);
	ck_assert_ptr_nonnull(x);
	before = x->body_len;
	ck_assert_uint_lt(before, 105000);
	run_by(600, SL_NS_PER_MS); /* longer than bodies have */
	ck_assert_uint_eq(x->body_len, before);
	good = dial(GOOD);
	say_text(good, twenty_thousand);
	say(good, zeros, 20000);
	run(5);
	ck_assert(!sl_list_empty(&core.paused_bodies));
	give_frames_back();
	say(bad, zeros, 400000 - sent);
	run(100);
	wait_for_no_backend();
	ck_assert_uint_eq(count(good, "HTTP/1.1 503 "), 1);
	ck_assert_uint_eq(count(bad, "HTTP/1.1 503 "), 1);
	ck_assert_uint_eq(count(bad, "HTTP/1.1 "), 1);
	ck_assert_uint_ge(core.stats.request_reads_paused, 1);
	ck_assert_uint_eq(core.stats.slow_bodies, 0);
	stop();
}

/* This host's connection has so many frames, as its account counts them. */
static void weigh(const struct peer *p, uint32_t frames)
{
	struct sl_client *cl = NULL;

	while ((cl = sl_client_next(&core, cl))) {
		if (tcp_of(cl)->remote_port_be == p->conn->local_port_be)
			sl_addr_quota_set_frames(&core.quotas, sl_client_quota(cl), frames);
	}
}

/* Where others have more, a body goes on, also if the first of these has little more. */
TEST(only_bodies_of_the_heavy_wait)
{
	struct peer *good, *bad[2];

	start(BODIES "body_rate = 0");
	bad[0] = dial(BAD);
	bad[1] = dial(GOOD + 1);
	weigh(bad[0], 160);
	weigh(bad[1], 250);
	good = dial(GOOD);
	say_text(good, half_a_million);
	while (frames_of(good) < 100)
		say(good, zeros, 1000);
	leave_frames(SL_PAUSE_PARTS);
	say(good, zeros, 10000);
	ck_assert_uint_le(frames_of(good), 120);
	ck_assert_uint_eq(core.stats.request_reads_paused, 0);
	weigh(bad[1], 200);
	say(good, zeros, 10000);
	ck_assert_uint_eq(core.stats.request_reads_paused, 1);
	for (int i = 0; i < 2; i++)
		weigh(bad[i], 0);
	give_frames_back();
	stop();
}

TEST(paused_body_without_progress_is_evicted)
{
	struct peer *bad, *good;

	start(BODIES "body_rate = 0");
	bad = dial(BAD);
	say_text(bad, half_a_million);
	say(bad, zeros, 100000);
	good = dial(GOOD);
	say_text(good, twenty_thousand);
	say(good, zeros, 10000);
	leave_frames(SL_PAUSE_PARTS);
	sl_tcp_send(bad->conn, zeros, 400000);
	for (int i = 0; i < 14; i++) {
		run_by(99, SL_NS_PER_MS);
		say(good, zeros, 100);
	}
	ck_assert_ptr_null(bad->conn);
	ck_assert_uint_eq(core.stats.ended_for_others[SL_RANK_FRAMES], 1);
	say(good, zeros, 8600);
	wait_for_no_backend();
	ck_assert_uint_eq(count(good, "HTTP/1.1 503 "), 1);
	give_frames_back();
	stop();
}

/* Nothing but their age tells the two apart. */
TEST(of_equals_the_older_gives_way)
{
	struct peer *bad[2];

	start("max_connections = 32 max_exchanges = 64 body_timeout = 60s body_rate = 0");
	for (int i = 0; i < 2; i++) {
		bad[i] = dial(BAD);
		say_text(bad[i], half_a_million);
		say(bad[i], zeros, 100000);
	}
	leave_frames(SL_PAUSE_PARTS);
	for (int i = 0; i < 2; i++)
		sl_tcp_send(bad[i]->conn, zeros, 300000);
	for (int i = 0; i < 5000 && !core.stats.ended_for_others[SL_RANK_FRAMES]; i++)
		run_by(1, SL_NS_PER_MS);
	ck_assert_uint_eq(core.stats.ended_for_others[SL_RANK_FRAMES], 1);
	run(1);
	ck_assert_ptr_null(bad[0]->conn);
	ck_assert_ptr_nonnull(bad[1]->conn);
	give_frames_back();
	stop();
}

/* A worker that sleeps while nothing is due looks at a body that does not come as early as others. */
TEST(time_out_of_a_paused_body_is_not_missed)
{
	const struct sl_exchange *x;
	uint64_t check_ns;

	start("max_connections = 32 max_exchanges = 64 header_timeout = 60s body_timeout = 60s");
	say_text(dial(BAD), twenty_thousand);
	x = sl_list_first(&core.min_rate_list, struct sl_exchange, rate_node);
	ck_assert_ptr_nonnull(x);
	check_ns = x->check_ns;
	while (x->check_ns == check_ns) {
		if (now < sl_core_next_ns(&core))
			now = sl_core_next_ns(&core);
		run_by(1, SL_NS_PER_MS);
	}
	ck_assert_uint_ge(now, check_ns);
	ck_assert_uint_le(now, check_ns + 2 * SL_NS_PER_MS);
	stop();
}

/* --- the same for streams of HTTP/2, by windows of their own --- */

static void h2_data(struct peer *p, uint8_t id, unsigned frames)
{
	uint8_t bytes[9 + 16384] = {0, 0x40, 0, 0, 0, 0, 0, 0, id};

	while (frames--)
		say(p, bytes, sizeof(bytes));
	run(5);
}

/* Returns by how much the stream's window was opened since its beginning. */
static uint32_t h2_opened(const struct peer *p, uint8_t id)
{
	uint32_t sum = 0;

	for (size_t at = 0; at + 13 <= p->heard_len;) {
		const uint8_t *f = p->heard + at;

		if (f[3] == 8 && f[8] == id)
			sum += sl_get_be32(f + 9);
		at += 9u + ((size_t)f[0] << 16 | (size_t)f[1] << 8 | f[2]);
	}
	return sum;
}

enum { H2_FIRST = 48 << 10, H2_WINDOW = 256 << 10 };

/* A connection with a body under way on stream 1, that knows of the gateway's windows. */
static struct peer *h2_body(void)
{
	static const char settings_heard[] = "\0\0\0\4\1\0\0\0\0";
	struct peer *p = dial(BAD);

	h2_begin(p, 65535);
	say(p, settings_heard, sizeof(settings_heard) - 1);
	h2_head(p, 1, "/pool", true);
	h2_data(p, 1, 3); /* then it may send more ahead */
	ck_assert_uint_ge(H2_FIRST + h2_opened(p, 1) - 3 * 16384, H2_WINDOW / 2);
	h2_data(p, 1, 2);
	return p;
}

TEST(a_heavy_stream_s_window_shrinks_and_grows)
{
	struct peer *bad;

	start(BODIES "body_rate = 0");
	bad = h2_body();
	leave_frames(SL_NARROW_PARTS);
	h2_data(bad, 1, 10);
	ck_assert_uint_eq(core.stats.request_windows_shrunk, 1);
	ck_assert_uint_eq(H2_FIRST + h2_opened(bad, 1) - 15 * 16384, 32 << 10);
	give_frames_back();
	h2_data(bad, 1, 1);
	ck_assert_uint_ge(H2_FIRST + h2_opened(bad, 1) - 16 * 16384, H2_WINDOW / 2);
	stop();
}

TEST(a_heavy_stream_waits_and_the_others_of_its_connection_do_not)
{
	enum { HEADERS = 1, PING = 6 };
	static const char again[] = "\0\0\x8\6\0\0\0\0\0abcdefgh";
	struct peer *bad;
	uint32_t opened;

	start(BODIES "body_rate = 0");
	bad = h2_body();
	opened = h2_opened(bad, 1);
	leave_frames(SL_PAUSE_PARTS);
	h2_data(bad, 1, 10);
	ck_assert_uint_eq(core.stats.request_reads_paused, 1);
	ck_assert_uint_eq(h2_opened(bad, 1), opened);
	h2_head(bad, 3, "/", false);
	say(bad, again, sizeof(again) - 1);
	run(5);
	ck_assert_uint_eq(h2_count(bad, HEADERS), 1);
	run_by(600, SL_NS_PER_MS);
	ck_assert_uint_eq(h2_count(bad, HEADERS), 1); /* no 408 either */
	give_frames_back();
	run(5);
	ck_assert_uint_ge(H2_FIRST + h2_opened(bad, 1) - 15 * 16384, 32 << 10);
	h2_data(bad, 1, 2);
	ck_assert_uint_ge(H2_FIRST + h2_opened(bad, 1) - 17 * 16384, H2_WINDOW / 2);
	ck_assert_uint_eq(core.stats.slow_bodies, 0);
	stop();
}
