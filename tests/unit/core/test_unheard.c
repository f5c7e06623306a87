/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of HTTP/2 clients towards a backend that has not shown yet that it reads. */
#include "core_talk.h"
#include "core/client.h"
#include "rpc/session.h"
#include "suite.h"
#include "tcp/conn.h"

/* Returns the TCP connection below all filters. */
static struct sl_tcp_conn *tcp_of(const struct sl_client *cl)
{
	return sl_client_transport(cl).self;
}

enum { DATA = 0, HEADERS = 1, RST = 3, WINDOW = 8, FRAME_HEAD = 9, PIECE = 16384 };
enum { FIRST = 48 << 10, NARROW = 32 << 10, WIDE = 256 << 10, TRUSTED = 32, STREAMS = TRUSTED + 2 };

static uint32_t said_on[2 * STREAMS]; /* bytes of DATA, by stream */

static void frame(uint8_t type, uint8_t flags, uint32_t id, const void *payload, size_t len)
{
	uint8_t bytes[FRAME_HEAD + PIECE] = {(uint8_t)(len >> 16), (uint8_t)(len >> 8),
					     (uint8_t)len, type, flags};

	sl_put_be32(bytes + 5, id);
	if (len)
		memcpy(bytes + FRAME_HEAD, payload, len);
	bed_say(0, bytes, FRAME_HEAD + len);
	bed_turns(2);
}

static void data(uint32_t id, size_t len)
{
	static const uint8_t zeros[PIECE];

	frame(DATA, 0, id, zeros, len);
	said_on[id] += (uint32_t)len;
}

static void post(uint32_t id)
{
	static const uint8_t head[] = "\x83\x86\x04\x02/o\x41\x01x";

	frame(HEADERS, 4, id, head, sizeof(head) - 1);
}

static uint32_t opened(uint32_t id)
{
	const uint8_t *p = bed.clients[0].heard;
	uint32_t sum = 0;

	for (size_t at = 0; at + FRAME_HEAD <= bed.clients[0].heard_len;
	     at += FRAME_HEAD + (size_t)sl_get_be24(p + at)) {
		if (p[at + 3] == WINDOW && sl_get_be32(p + at + 5) == id)
			sum += sl_get_be32(p + at + FRAME_HEAD);
	}
	return sum;
}

/* How much more may be sent now. */
static uint32_t window(uint32_t id)
{
	return FIRST + opened(id) - said_on[id];
}

static void set_up_h2(void)
{
	static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
	static const char *protocols[] = {"websocket"};

	set_up();
	stream();
	for (uint32_t i = 0; i < bed.cfg->route_cnt; i++) {
		bed.cfg->routes[i].upgrades = protocols;
		bed.cfg->routes[i].upgrade_cnt = 1;
	}
	bed.core.limits.upgrades = true;
	memset(said_on, 0, sizeof(said_on));
	bed_say(0, preface, sizeof(preface) - 1);
	frame(4, 0, 0, NULL, 0);
	frame(4, 1, 0, NULL, 0);
}

FIXTURE(set_up_h2, tear_down)

TEST(short_bodies_open_no_window)
{
	post(1);
	data(1, 1000);
	data(1, 10000);
	ck_assert_uint_eq(opened(1), 0);
	data(1, 6000);
	ck_assert_uint_ge(window(1), WIDE / 2);
}

/* A few of all, for as long as they last; when one of them is over another one takes its place. */
TEST(few_may_send_far_ahead)
{
	struct sl_rpc_window w = {.bytes = 1 << 20};
	struct sl_rpc_header h = bed_header(SL_RPC_WINDOW, 1, 1, sizeof(w));
	const uint32_t last = 2 * STREAMS - 1;

	bed.core.quotas.limits[SL_QUOTA_FRAMES] = 0;
	bed.core.keeping = UINT32_MAX / 2; /* too few frames for it */
	for (uint32_t i = 0; i < STREAMS; i++) {
		post(2 * i + 1);
		for (unsigned k = 0; k < 3; k++)
			data(2 * i + 1, PIECE);
	}
	for (uint32_t i = 0; i < STREAMS; i++) {
		if (i < TRUSTED) {
			ck_assert_uint_ge(window(2 * i + 1), WIDE / 2);
		} else {
			ck_assert_uint_le(window(2 * i + 1), NARROW);
		}
	}
	ck_assert_uint_eq(bed.core.trusted, TRUSTED);
	frame(RST, 0, 1, "\0\0\0\x8", 4);
	ck_assert_uint_eq(bed.core.trusted, TRUSTED - 1);
	w.id = other()->ids[STREAMS - 1];
	ck_assert(bed_message(other(), &h, &w));
	bed_turns(3);
	data(last, 100);
	ck_assert_uint_ge(window(last), WIDE / 2);
	ck_assert_uint_eq(bed.core.trusted, TRUSTED);
	/* The second one's backend listens. */
	w.id = other()->ids[1];
	ck_assert(bed_message(other(), &h, &w));
	bed_turns(3);
	for (unsigned k = 0; k < 14; k++)
		data(3, PIECE);
	ck_assert_uint_eq(bed.core.trusted, TRUSTED);
	ck_assert_uint_ge(window(3), WIDE / 2);
	ck_assert_uint_eq(outcomes(SL_OUTCOME_NO_MEMORY), 0);
}

/* A client that uses its windows fully gets updates of whole windows. */
TEST(an_upload_takes_few_rounds)
{
	struct sl_rpc_window w = {.bytes = 16 << 20};
	struct sl_rpc_header h = bed_header(SL_RPC_WINDOW, 1, 1, sizeof(w));
	unsigned rounds = 0;

	post(1);
	w.id = other()->ids[0];
	ck_assert(bed_message(other(), &h, &w));
	bed_turns(3);
	for (; said_on[1] < 1 << 20; rounds++) {
		for (uint32_t n = window(1); n; n -= n < PIECE ? n : PIECE)
			data(1, n < PIECE ? n : PIECE);
	}
	ck_assert_uint_le(rounds, 1 + (1 << 20) / WIDE);
}

/* A stream whose backend reads is as narrow as others, unless long round trips slow it down. */
TEST_EACH(window_of_an_answered_stream_fits_its_path, 2)
{
	enum { LONG_US = 1000000000 };

	struct sl_rpc_window w = {.bytes = 1 << 20};
	struct sl_rpc_header h = bed_header(SL_RPC_WINDOW, 1, 1, sizeof(w));
	uint32_t id = 2 * TRUSTED + 1;
	const struct sl_exchange *x;

	for (uint32_t i = 0; i <= TRUSTED; i++) {
		post(2 * i + 1);
		data(2 * i + 1, PIECE);
	}
	ck_assert_uint_le(window(id), FIRST);
	w.id = other()->ids[TRUSTED];
	x = bed.core.rpc->out.requests[w.id & SL_OUTSTANDING_INDEX].cookie;
	tcp_of(x->client)->srtt_us = _i ? LONG_US : 0;
	ck_assert(bed_message(other(), &h, &w));
	bed_turns(3);
	while (said_on[id] <= WIDE + NARROW) {
		ck_assert_uint_ge(window(id), NARROW / 2);
		data(id, NARROW / 2);
	}
	if (_i)
		ck_assert_uint_ge(window(id), WIDE / 2);
	else
		ck_assert_uint_le(window(id), NARROW);
	ck_assert_uint_eq(bed.core.trusted, TRUSTED);
}

/* Its channel takes nothing: the worker does not ask it for ever, and what came meanwhile goes then. */
TEST(parts_without_room_wait_for_their_backend)
{
	enum { PART = 5000, BODY = 3 * PART, STALLED = 4 }; /* within the first credit */

	bed.core.rpc->mem.limit = bed.core.rpc->mem.used + (1 << 20);
	for (uint32_t i = 0; i < STALLED; i++)
		post(2 * i + 1);
	other()->room = 0;
	for (uint32_t i = 0; i < STALLED; i++) {
		for (unsigned k = 0; k < 3; k++)
			data(2 * i + 1, PART);
	}
	ck_assert(!sl_list_empty(&bed.core.stalled));
	ck_assert_uint_gt(sl_core_next_ns(&bed.core), bed.core.now_ns);
	/* A client that leaves meanwhile is not waited for. */
	frame(RST, 0, 2 * STALLED - 1, "\0\0\0\x8", 4);
	ck_assert_uint_lt(other()->taken_len, BODY);
	other()->room = 1000000;
	bed_turns(20);
	ck_assert(sl_list_empty(&bed.core.stalled));
	ck_assert_uint_ge(other()->taken_len, (STALLED - 1) * BODY);
	ck_assert_uint_eq(bed.core.rpc->part_bytes, 0);
}

/* A client that opens and resets streams: their heads wait for it, and leave batches to others. */
TEST(unread_heads_leave_sent_batches_to_others)
{
	enum { RESETS = 200 };

	static const uint8_t head[] = "\x83\x86\x04\x02/e\x41\x01x";
	struct bed_backend *echo = &bed.backends[0];
	uint32_t id = 1;

	other()->room = 0;
	for (unsigned i = 0; i < RESETS; i++, id += 2) {
		post(id);
		frame(RST, 0, id, "\0\0\0\x8", 4);
	}
	ck_assert_uint_eq(sl_mempool_used(&bed.core.exchanges), 0);
	frame(HEADERS, 4, id, head, sizeof(head) - 1);
	ck_assert_uint_eq(echo->id_cnt + bed.backends[1].id_cnt, 1);
	/* Those that it takes make room for more. */
	other()->room = 1000000;
	bed_turns(20);
	other()->id_cnt = 0;
	post(id + 2);
	ck_assert_uint_eq(other()->id_cnt, 1);
	ck_assert_uint_eq(bed.core.rpc->out.used, 2);
}

static void call(uint32_t id)
{
	static const uint8_t head[] = "\x83\x86\x04\x02/o\x41\x01x\x0f\x10\x10"
				      "application/grpc";

	frame(HEADERS, 4, id, head, sizeof(head) - 1);
}

/* Messages without bytes take no credit of their backend, but each takes a place here. */
TEST(empty_messages_do_not_open_windows)
{
	enum { PREFIX = 5, EMPTY = PIECE / PREFIX * PREFIX };
	static const uint8_t prefix[PREFIX] = {0, 0, 1, 0, 0};
	struct sl_rpc_window w = {.bytes = 1 << 20};
	struct sl_rpc_header h = bed_header(SL_RPC_WINDOW, 1, 1, sizeof(w));

	call(1);
	frame(DATA, 0, 1, prefix, PREFIX);
	said_on[1] += PREFIX;
	for (unsigned i = 0; i < 4; i++)
		data(1, PIECE);
	for (unsigned i = 0; i < 2 * WIDE / EMPTY && window(1) >= EMPTY; i++)
		data(1, EMPTY);
	ck_assert_uint_lt(window(1), EMPTY);
	ck_assert_uint_le(said_on[1], FIRST + PIECE + WIDE);
	/* When they have gone on, there is room again. */
	w.id = other()->ids[0];
	ck_assert(bed_message(other(), &h, &w));
	bed_turns(20);
	ck_assert_uint_ge(window(1), WIDE / 2);
}

/* Before its backend agrees, and afterwards as far as it reads. */
TEST_EACH(unread_upgraded_stream_does_not_block_others, 2)
{
	static const uint8_t head[] = "\x02\x07"
				      "CONNECT\x86\x04\x02/o\x41\x01x\0\x09:protocol\x09websocket";
	static const uint8_t switching[] = {SL_META_STATUS, 0, 2, 0, 101, 0};
	unsigned asked;

	frame(HEADERS, 4, 1, head, sizeof(head) - 1);
	ck_assert_uint_eq(other()->id_cnt, 1);
	if (_i)
		reply_with(other()->ids[0], SL_ENTRY_MORE, sl_span_of(switching, sizeof(switching)),
			   "");
	for (unsigned i = 0; i < 2 * WIDE / PIECE && window(1) >= PIECE; i++)
		data(1, PIECE);
	ck_assert_uint_lt(window(1), PIECE);
	asked = other()->id_cnt;
	post(3);
	data(3, 10);
	ck_assert_uint_eq(other()->id_cnt, asked + 1);
}

/* It is answered already, and what comes behind it in the same segment is of nothing. */
TEST_EACH(an_upgrade_that_is_refused_at_once, 3)
{
	static const char heads[][64] = {
		"\0\0\x26\1\4\0\0\0\1\2\7CONNECT\x86\x04\2/?\x41\1x\0\x09:protocol\x09websocket",
		"\0\0\x26\1\4\0\0\0\1\2\7CONNECT\x86\x04\2/z\x41\1x\0\x09:protocol\x09websocket",
		"\0\0\x26\1\4\0\0\0\1\2\7CONNECT\x86\x04\2/e\x41\1x\0\x09:protocol\x09nosockets",
	};
	static const char end[] = "\0\0\5\0\1\0\0\0\1hello";
	char bytes[128];
	size_t len = 9 + 0x26;

	memcpy(bytes, heads[_i], len);
	memcpy(bytes + len, end, sizeof(end) - 1);
	bed_say(0, bytes, len + sizeof(end) - 1);
	bed_turns(3);
	ck_assert_uint_eq(outcomes(_i == 0 ? SL_OUTCOME_NO_ROUTE : SL_OUTCOME_UPGRADE), 1);
	ck_assert_uint_eq(sl_mempool_used(&bed.core.exchanges), 0);
}

static void lose_backend(void)
{
	bed.cfg->pools[1].batch.policy = SL_POLICY_DIRECT;
	other()->broken = -ENOTCONN;
	bed_turns(3);
}

/* Nor do those that wait for a backend to come up keep others out. */
TEST(stream_waiting_for_a_backend_is_evicted)
{
	lose_backend();
	bed.core.quotas.limits[SL_QUOTA_EXCHANGES] = 0;
	bed.core.quotas.limits[SL_QUOTA_READING] = 0;
	for (uint32_t i = 0; i < 70; i++)
		post(2 * i + 1);
	ck_assert_uint_ge(bed.core.stats.ended_for_others[SL_RANK_EXCHANGES], 1);
	bed_open(1);
	bed_say(1, GET("/e"), strlen(GET("/e")));
	bed_turns(3);
	ck_assert_uint_eq(bed.backends[0].id_cnt + bed.backends[1].id_cnt, 1);
	ck_assert_uint_eq(outcomes(SL_OUTCOME_NO_MEMORY), 0);
}

TEST(waiting_stream_is_evicted_for_its_frames)
{
	static struct sl_frame *taken[BED_FRAMES];
	unsigned n = 0;

	lose_backend();
	post(1);
	for (unsigned k = 0; k < 2; k++)
		data(1, PIECE);
	ck_assert_uint_eq(sl_mempool_used(&bed.core.exchanges), 1);
	while (bed.umem.free_cnt >= BED_FRAMES / 8 - 1)
		taken[n++] = sl_frame_get(&bed.umem, SL_FRAME_HELD, 0);
	bed_turns(3);
	ck_assert_uint_eq(bed.core.stats.ended_for_others[SL_RANK_FRAMES], 1);
	ck_assert_uint_eq(sl_mempool_used(&bed.core.exchanges), 0);
	while (n)
		sl_frame_put(&bed.umem, taken[--n]);
}
