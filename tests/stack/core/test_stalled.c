/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams whose backend takes nothing: what waits for it gives way to others, whose fault it is not
 * either. The backend takes what the credit of each stream lets out, and gives more only as it is told.
 */
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core_arena.h"
#include "core/client.h"
#include "core/pool.h"
#include "base/tlv.h"
#include "rpc/transport.h"

/* Returns the TCP connection below all filters. */
static struct sl_tcp_conn *tcp_of(const struct sl_client *cl)
{
	return sl_client_transport(cl).self;
}

enum { DATA = 0, HEADERS = 1, RST_STREAM = 3, WINDOW_UPDATE = 8, PIECE = 16384 };

static struct sl_transport backend;
static unsigned requests; /* requests that the backend has heard of */
static uint64_t last_id;
static struct sl_rpc_window granted; /* the backend's next grant */
static uint16_t says;                /* before that: a status, of a reply that goes on */

static int stalled_post(struct sl_transport *t, const struct sl_rpc_header *h,
			const struct sl_span *spans, unsigned cnt, uint64_t cookie)
{
	struct sl_rpc_entry e;

	(void)t, (void)cookie;
	if ((h->version_type & 15) != SL_RPC_REQUEST || !(h->flags & SL_RPC_FIRST))
		return 0;
	ck_assert(cnt && spans[0].len >= sizeof(e));
	memcpy(&e, spans[0].ptr, sizeof(e));
	if (e.flags & SL_ENTRY_PART)
		return 0;
	requests++;
	last_id = e.id;
	return 0;
}

/* The beginning of a reply to the last request. */
static void say_status(const struct sl_transport *t, struct sl_message *m)
{
	static struct {
		struct sl_rpc_entry e;
		uint8_t meta[8];
	} body;
	struct sl_tlv_writer w = {.at = body.meta, .end = body.meta + sizeof(body.meta)};

	sl_tlv_put_u16(&w, SL_META_STATUS, says);
	says = 0;
	body.e = (struct sl_rpc_entry){
		.id = last_id, .meta_len = (uint16_t)(w.at - body.meta), .flags = SL_ENTRY_MORE};
	*m = (struct sl_message){
		.header = {.version_type = SL_RPC_VERSION << 4 | SL_RPC_RESPONSE,
			   .flags = SL_RPC_BATCH | SL_RPC_FIRST | SL_RPC_LAST,
			   .priority = SL_CLASS_NORMAL,
			   .count = 1,
			   .fragment_len = sizeof(body),
			   .total_or_offset = sizeof(body),
			   .id = t->peer_epoch << 48 | 1},
		.body = (const uint8_t *)&body,
	};
}

static int stalled_poll(struct sl_transport *t, struct sl_message *m, unsigned max)
{
	static struct sl_rpc_window body;

	(void)max;
	if (says) {
		say_status(t, m);
		return 1;
	}
	if (!granted.bytes)
		return 0;
	body = granted;
	granted.bytes = 0;
	*m = (struct sl_message){
		.header = {.version_type = SL_RPC_VERSION << 4 | SL_RPC_WINDOW,
			   .flags = SL_RPC_FIRST | SL_RPC_LAST,
			   .count = 1,
			   .fragment_len = sizeof(body),
			   .total_or_offset = sizeof(body),
			   .id = t->peer_epoch << 48 | 1},
		.body = (const uint8_t *)&body,
	};
	return 1;
}

static void stalled_release(struct sl_transport *t, const struct sl_message *m)
{
	(void)t, (void)m;
}

static uint32_t stalled_window(const struct sl_transport *t)
{
	return t->bulk_max;
}

static void stalled_nothing(struct sl_transport *t)
{
	(void)t;
}

static bool stalled_arm(struct sl_transport *t, bool want_room)
{
	(void)t, (void)want_room;
	return true;
}

static int stalled_check(struct sl_transport *t)
{
	(void)t;
	return 0;
}

static void stalled_close(struct sl_transport *t)
{
	close(t->fd);
}

static const struct sl_transport_ops stalled_ops = {
	.name = "stalled",
	.post = stalled_post,
	.flush = stalled_nothing,
	.poll = stalled_poll,
	.release = stalled_release,
	.window = stalled_window,
	.progress = stalled_nothing,
	.arm = stalled_arm,
	.disarm = stalled_nothing,
	.check = stalled_check,
	.close = stalled_close,
};

/* The pool's route streams, to a backend that is up. */
static void start_stalled(const char *limits)
{
	start(limits);
	for (uint32_t i = 0; i < cfg->route_cnt; i++)
		cfg->routes[i].stream = true;
	backend = (struct sl_transport){.ops = &stalled_ops,
					.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
					.copies = true,
					.slot_len = SL_RPC_SLOT_SIZE,
					.bulk_max = PIECE,
					.slice_min = 4096,
					.peer_epoch = 7,
					.rate_bps = 8000000000};
	requests = 0;
	granted.bytes = 0;
	sl_backend_ref_adopt(core.wcfg->pools[0].backends[0], &backend);
}

static void data(struct peer *p, uint32_t id, size_t len)
{
	static uint8_t bytes[9 + PIECE];

	bytes[1] = (uint8_t)(len >> 8);
	bytes[2] = (uint8_t)len;
	bytes[7] = (uint8_t)(id >> 8);
	bytes[8] = (uint8_t)id;
	say(p, bytes, 9 + len);
}

/* As much as any stream may send ahead: its first window. */
static void fill_stream(struct peer *p, uint32_t id)
{
	h2_head(p, id, "/pool", true);
	for (int i = 0; i < 3; i++)
		data(p, id, PIECE);
}

static struct peer *h2_dial(uint8_t host)
{
	static const char settings_heard[] = "\0\0\0\4\1\0\0\0\0";
	struct peer *p = dial(host);

	p->heard_len = 0;
	h2_begin(p, 65535);
	say(p, settings_heard, sizeof(settings_heard) - 1);
	return p;
}

#define STALLED "max_connections = 64 max_exchanges = 4096 "

/* Some addresses have the frames between them; or have had many other streams before, that are silent. */
TEST_EACH(streams_to_a_stalled_backend_are_evicted, 2)
{
	enum { CONNS = 12, STREAMS = 40, SILENT = 80 };
	struct peer *early, *good;
	unsigned before;

	start_stalled(STALLED);
	early = h2_dial(GOOD + 1);
	for (uint32_t k = 0; k < 4; k++)
		fill_stream(early, 2 * k + 1);
	for (unsigned i = 0; _i && i < 3; i++) {
		struct peer *bad = h2_dial((uint8_t)(10 + i));

		for (uint32_t k = 0; k < SILENT; k++)
			h2_head(bad, 2 * k + 1, "/pool", true);
	}
	run_by(600, SL_NS_PER_MS);
	for (int i = 0; i < CONNS; i++) {
		struct peer *bad = h2_dial((uint8_t)(10 + i % 3));

		for (uint32_t k = 0; k < STREAMS; k++)
			fill_stream(bad, 2 * k + 1);
	}
	run_by(1000, SL_NS_PER_MS);
	ck_assert_uint_eq(core.stats.outcomes[SL_OUTCOME_NO_MEMORY], 0);
	good = h2_dial(GOOD);
	before = requests;
	fill_stream(good, 1);
	run_by(1000, SL_NS_PER_MS);
	ck_assert_uint_eq(requests, before + 1);
	ck_assert_uint_eq(h2_count(good, HEADERS), 0);
	ck_assert_uint_eq(h2_count(good, RST_STREAM), 0);
	ck_assert_uint_eq(h2_count(early, RST_STREAM), 0);
	ck_assert_uint_ge(core.stats.ended_for_others[SL_RANK_FRAMES], 1);
	ck_assert_uint_gt(server_end.umem.free_cnt, FRAMES / SL_SHORT_FRAMES - 64);
	stop();
}

/* The same by HTTP/1, where TCP keeps what the stream does not take. */
TEST(http1_streams_to_a_stalled_backend_are_evicted)
{
	enum { CONNS = 58 };
	static uint8_t body[192 << 10];
	struct peer *good;

	start_stalled(STALLED "address_frames = 0.5 address_connections = 1");
	for (int i = 0; i < CONNS; i++) {
		struct peer *bad = dial((uint8_t)(10 + i % 3));

		say_text(bad, "POST /pool HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
		sl_tcp_send(bad->conn, body, sizeof(body));
		run(20);
	}
	ck_assert_uint_eq(requests, CONNS);
	leave_frames(2);
	run_by(1000, SL_NS_PER_MS);
	ck_assert_uint_gt(server_end.umem.free_cnt, FRAMES / SL_SHORT_FRAMES - 64);
	ck_assert_uint_ge(core.stats.ended_for_others[SL_RANK_FRAMES], 1);
	good = dial(GOOD);
	say_text(good, "POST /pool HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
	say(good, body, 70000);
	run_by(1000, SL_NS_PER_MS);
	ck_assert_uint_eq(requests, CONNS + 1);
	ck_assert_ptr_nonnull(good->conn);
	ck_assert_uint_eq(good->heard_len, 0);
	give_frames_back();
	stop();
}

/* It has more, and moves: the other one, which was the last to come, goes. */
TEST(a_stream_that_its_backend_takes_is_not_the_first)
{
	static uint8_t body[192 << 10];
	struct peer *switched_cnt, *stands;
	uint64_t moving;

	start_stalled(STALLED "address_frames = 1");
	switched_cnt = h2_dial(BAD);
	fill_stream(switched_cnt, 1);
	moving = last_id;
	stands = dial(BAD);
	say_text(stands, "POST /pool HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
	sl_tcp_send(stands->conn, body, sizeof(body));
	run(20);
	for (int i = 0; i < 12; i++) {
		granted = (struct sl_rpc_window){.id = moving, .bytes = PIECE};
		run_by(49, SL_NS_PER_MS);
		data(switched_cnt, 1, PIECE);
	}
	leave_frames(2);
	run(1);
	ck_assert_uint_eq(core.stats.ended_for_others[SL_RANK_FRAMES], 1);
	ck_assert_ptr_null(stands->conn);
	ck_assert_uint_eq(h2_count(switched_cnt, RST_STREAM), 0);
	give_frames_back();
	stop();
}

/*
 * The stream was paused while its limit was low. The limit rises when its backend takes that,
 * because round trips have become longer.
 */
TEST(a_stream_goes_on_though_its_round_trips_grow)
{
	enum { TRUSTED = 32, TURNS = 24 };
	static uint8_t body[64 << 10];
	struct peer *others, *p;
	uint64_t before = 0;

	start_stalled(STALLED "address_frames = 1");
	others = h2_dial(GOOD);
	for (uint32_t k = 0; k < TRUSTED; k++) {
		h2_head(others, 2 * k + 1, "/pool", true);
		data(others, 2 * k + 1, 1);
	}
	p = dial(BAD);
	say_text(p, "POST /pool HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\n");
	for (int i = 0; i < TURNS; i++) {
		if (i == TURNS - 2)
			tcp_of(sl_client_next(&core, NULL))->srtt_us = 100000;
		before = core.stats.stream_bytes_in;
		sl_tcp_send(p->conn, body, sizeof(body));
		granted = (struct sl_rpc_window){.id = last_id, .bytes = 2 * PIECE};
		run(10);
	}
	ck_assert_uint_ge(core.stats.stream_bytes_in, before + PIECE);
	stop();
}

/* Bytes and trailers behind a refused CONNECT are dropped. */
TEST(trailers_behind_a_refused_upgrade_go_nowhere)
{
	static const char head[] = "\0\0\x29\1\4\0\0\0\1\x02\x07"
				   "CONNECT\x86\x04\x05/pool\x00\x09"
				   ":protocol\x09websocket\x01\x01"
				   "a";
	static const char trailers[] = "\0\0\5\1\5\0\0\0\1\x40\x01t\x01x";
	static const char *protocols[] = {"websocket"};
	struct peer *p;

	start_stalled(STALLED);
	for (uint32_t i = 0; i < cfg->route_cnt; i++) {
		cfg->routes[i].upgrades = protocols;
		cfg->routes[i].upgrade_cnt = 1;
		cfg->routes[i].forward_all = true;
	}
	core.limits.upgrades = true;
	p = h2_dial(GOOD);
	say(p, head, sizeof(head) - 1);
	say(p, trailers, sizeof(trailers) - 1);
	ck_assert_uint_eq(requests, 1);
	says = 403;
	run(5);
	ck_assert_uint_eq(h2_count(p, HEADERS), 1);
	ck_assert_uint_eq(core.stats.stream_parts_in, 0);
	for (uint32_t i = 0; i < cfg->route_cnt; i++) {
		cfg->routes[i].upgrades = NULL;
		cfg->routes[i].upgrade_cnt = 0;
	}
	stop();
}

/* Streams that say nothing take no frames, but exchanges. */
TEST_EACH(silent_streams_leave_exchanges_to_others, 2)
{
	struct peer *good;
	unsigned before;

	start_stalled("max_connections = 64 max_exchanges = 64 address_exchanges = 0.75");
	for (int i = 0; i < 4; i++) {
		struct peer *bad = h2_dial(i % 2 ? 3 : BAD);

		for (uint32_t k = 0; k < 24; k++)
			h2_head(bad, 2 * k + 1, "/pool", _i);
	}
	run_by(1000, SL_NS_PER_MS);
	good = h2_dial(GOOD);
	before = requests;
	h2_head(good, 1, "/pool", _i);
	run_by(1000, SL_NS_PER_MS);
	ck_assert_uint_eq(requests, before + 1);
	ck_assert_uint_eq(h2_count(good, HEADERS), 0);
	ck_assert_uint_eq(h2_count(good, RST_STREAM), 0);
	ck_assert_uint_ge(core.stats.ended_for_others[SL_RANK_EXCHANGES], 1);
	stop();
}
