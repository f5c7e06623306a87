/* SPDX-License-Identifier: Apache-2.0 */
/* Input: merged into batches, bounded, parsed with suspicion. */
#include "sdk_fake.h"
#include "suite.h"

/* Calls: how many requests make a batch is for the clock to say. */
enum { SEEN = SL_BE_OPEN_MAX + 16 };

/* Arguments of the handler's calls. */
static struct {
	unsigned calls, counts[SEEN], total;
	struct sl_request_view *held[FAKE_IN];
	bool hold;
} seen;

static void handle(void *arg, struct sl_batch *batch)
{
	(void)arg;
	ck_assert_uint_lt(seen.calls, SEEN);
	seen.counts[seen.calls++] = batch->count;
	for (unsigned i = 0; i < batch->count; i++) {
		struct sl_request_view *rq = batch->requests[i];

		if (seen.hold)
			seen.held[seen.total++] = rq;
		else
			sl_reply(rq, &(struct sl_reply_args){.body = rq->body,
							     .body_len = rq->body_len});
	}
}

static size_t field(uint8_t *to, unsigned tag, const void *value, size_t len)
{
	sl_put_le16(to, (uint16_t)tag);
	sl_put_le16(to + 2, (uint16_t)len);
	memcpy(to + 4, value, len);
	return 4 + len;
}

static bool text_is(const char *ptr, size_t len, const char *expected)
{
	return len == strlen(expected) && memcmp(ptr, expected, len) == 0;
}

static void setup(void)
{
	memset(&seen, 0, sizeof(seen));
}

FIXTURE(setup, NULL)

/* Three gateways, one batch; more than the handler's maximum make two, in order of arrival. */
TEST(requests_of_several_gateways_make_one_batch)
{
	struct sl_backend *b = fake_backend(handle, NULL, 12);
	struct fake *f[3];

	b->flush_gap_ns = UINT64_MAX; /* this thread may lose its processor: no slow handler */
	for (unsigned i = 0; i < 3; i++)
		f[i] = fake_connect(b);
	for (uint64_t id = 1; id <= 4; id++) {
		for (unsigned i = 0; i < 3; i++)
			fake_ask(f[i], id, "x");
	}
	fake_settle(b);
	ck_assert_uint_eq(seen.calls, 1);
	ck_assert_uint_eq(seen.counts[0], 12);
	for (unsigned i = 0; i < 3; i++) {
		/* One RESPONSE each, however many replies. */
		ck_assert_uint_eq(fake_count(f[i], SL_RPC_RESPONSE), 1);
		for (uint64_t id = 1; id <= 4; id++)
			ck_assert_int_eq(fake_status(f[i], id), SL_RPC_OK);
	}
	for (uint64_t id = 5; id <= 11; id++) {
		for (unsigned i = 0; i < 3; i++)
			fake_ask(f[i], id, "x");
	}
	fake_settle(b);
	ck_assert_uint_eq(seen.calls, 3);
	ck_assert_uint_eq(seen.counts[1], 12);
	ck_assert_uint_eq(seen.counts[2], 9);
	sl_backend_close(b);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert(f[i]->closed);
		fake_free(f[i]);
	}
}

/* A message that arrives in pieces waits for its end; others do not wait for it. */
TEST(a_fragmented_message_holds_up_no_other)
{
	struct sl_backend *b = fake_backend(handle, NULL, 0);
	struct fake *f = fake_connect(b);

	fake_ask_part(f, 1, NULL, 0, "first...second..", 16, 8, SL_CLASS_NORMAL);
	fake_ask(f, 2, "whole");
	fake_settle(b);
	ck_assert_uint_eq(seen.calls, 1);
	ck_assert_uint_eq(seen.counts[0], 1);
	ck_assert_int_eq(fake_status(f, 2), SL_RPC_OK);
	fake_go_on(f, 0, "second..", 8);
	fake_settle(b);
	ck_assert_uint_eq(seen.calls, 2);
	{
		struct sl_rpc_entry e;
		const uint8_t *at;

		ck_assert(fake_answer(f, 1, &e, &at));
		ck_assert_uint_eq(e.len, 16);
		ck_assert_mem_eq(at, "first...second..", 16);
	}
	sl_backend_close(b);
	fake_free(f);
}

/* --- places of the program's own --- */

enum { ROWS = 8, ROW = 64 << 10 };

static struct {
	uint8_t row[ROWS][ROW];
	bool used[ROWS];
	unsigned taken, given_back;
	bool none;
} arena;

static void *place(void *arg, struct sl_request_view *rq)
{
	unsigned i = 0;

	(void)arg;
	ck_assert_ptr_null(rq->body);
	ck_assert_uint_le(rq->body_len, ROW);
	ck_assert(text_is(rq->path, rq->path_len, "/p"));
	if (arena.none)
		return NULL;
	while (arena.used[i])
		i++;
	ck_assert_uint_lt(i, ROWS);
	arena.used[i] = true;
	arena.taken++;
	rq->own = &arena.used[i];
	return arena.row[i];
}

static void unplace(void *arg, struct sl_request_view *rq)
{
	bool *used = rq->own;

	(void)arg;
	ck_assert(*used);
	ck_assert_ptr_eq(rq->body, arena.row[used - arena.used]);
	*used = false;
	memset((void *)(uintptr_t)rq->body, 0xff, rq->body_len);
	arena.given_back++;
}

static struct sl_backend *placing_backend(void)
{
	struct sl_backend *b = fake_backend(handle, NULL, 0);

	memset(&arena, 0, sizeof(arena));
	b->opt.place = place;
	b->opt.unplace = unplace;
	return b;
}

static void ask_placed(struct fake *f, uint64_t id, const void *body, uint32_t len, uint32_t sent)
{
	uint8_t meta[16];
	size_t n = field(meta, SL_META_PATH, "/p", 2);

	fake_ask_part(f, id, meta, n, body, len, sent, SL_CLASS_NORMAL);
}

/* A row is one body's until its request has ended, and the SDK keeps no copy. */
TEST(a_body_goes_where_the_program_says)
{
	static uint8_t body[ROW];
	struct sl_backend *b = placing_backend();
	struct fake *f = fake_connect(b);

	seen.hold = true;
	for (unsigned i = 0; i < ROW; i++)
		body[i] = (uint8_t)(i * 7 >> 3);
	ask_placed(f, 1, body, ROW, 4096);
	ask_placed(f, 2, "", 0, 0); /* needs no place */
	fake_settle(b);
	ck_assert_uint_eq(arena.taken, 1);
	ck_assert_uint_eq(seen.total, 1); /* the one without a body */
	fake_go_on(f, 0, body + 4096, ROW - 4096);
	fake_settle(b);
	ck_assert_uint_eq(seen.total, 2);
	ck_assert_ptr_eq(seen.held[1]->body, arena.row[0]);
	ck_assert_mem_eq(seen.held[1]->body, body, ROW);
	ck_assert_uint_eq(seen.held[1]->body_len, ROW);
	ck_assert_uint_lt(b->request_mem.used, ROW);
	ck_assert_uint_eq(arena.given_back, 0);
	for (unsigned i = 0; i < 2; i++)
		ck_assert_int_eq(sl_reply(seen.held[i], &(struct sl_reply_args){.body_len = 0}), 0);
	fake_settle(b);
	ck_assert_uint_eq(arena.taken, 1);
	ck_assert_uint_eq(arena.given_back, 1);
	sl_backend_close(b);
	fake_free(f);
}

TEST(without_a_place_a_body_is_the_sdks)
{
	struct sl_backend *b = placing_backend();
	struct fake *f = fake_connect(b);
	struct sl_rpc_entry e;
	const uint8_t *at;

	arena.none = true;
	ask_placed(f, 1, "as ever!", 8, 8);
	/* It counts for its gateway, like any. */
	for (uint64_t id = 2; id <= 5; id++)
		ask_placed(f, id, "12345678", ROW, 8);
	fake_settle(b);
	ck_assert(fake_answer(f, 1, &e, &at));
	ck_assert_mem_eq(at, "as ever!", 8);
	ck_assert_uint_ge(b->request_mem.used, 4 * ROW);
	sl_backend_close(b);
	ck_assert_uint_eq(arena.given_back, 0);
	fake_free(f);
}

/* However a request ends. */
TEST(each_place_is_given_back_once)
{
	struct sl_backend *b = placing_backend();
	struct fake *f = fake_connect(b), *lost = fake_connect(b);
	struct sl_request_view *gone = NULL;

	seen.hold = true;
	ask_placed(f, 1, "12345678", 16, 8); /* cancelled while it comes */
	ask_placed(lost, 1, "12345678", 16, 8);
	ask_placed(lost, 2, "12345678", 8, 8); /* a handler has it when its gateway goes */
	ask_placed(f, 2, "12345678", 8, 8);    /* and when the backend is closed */
	ask_placed(f, 3, "12345678", 16, 8);
	fake_settle(b);
	ck_assert_uint_eq(arena.taken, 5);
	fake_cancel(f, 1);
	fake_settle(b);
	ck_assert_uint_eq(arena.given_back, 1);
	lost->broken = true;
	fake_settle(b);
	ck_assert_uint_eq(arena.given_back, 2);
	ck_assert_uint_eq(seen.total, 2);
	for (unsigned i = 0; i < 2; i++) {
		if (sl_request_cancelled(seen.held[i]))
			gone = seen.held[i];
	}
	ck_assert_int_eq(sl_reply(gone, &(struct sl_reply_args){.body_len = 0}), -ECANCELED);
	fake_settle(b);
	ck_assert_uint_eq(arena.given_back, 3);
	sl_backend_close(b);
	ck_assert_uint_eq(arena.given_back, 5);
	fake_free(f);
	fake_free(lost);
}

/* --- limits --- */

/* A gateway that has asked for more than its share is refused, another is not. */
TEST(a_greedy_gateway_is_refused_and_another_is_not)
{
	struct sl_backend *b = fake_backend(handle, NULL, 0);
	struct fake *greedy = fake_connect(b), *other = fake_connect(b);

	seen.hold = true;
	for (uint64_t id = 1; id <= SL_BE_OPEN_MAX + 2; id++)
		fake_ask(greedy, id, "x");
	fake_settle(b);
	ck_assert_uint_eq(seen.total, SL_BE_OPEN_MAX);
	ck_assert_int_eq(fake_status(greedy, SL_BE_OPEN_MAX + 1), SL_RPC_REFUSED);
	ck_assert_int_eq(fake_status(greedy, SL_BE_OPEN_MAX + 2), SL_RPC_REFUSED);
	fake_ask(other, 1, "y");
	fake_settle(b);
	ck_assert_uint_eq(seen.total, SL_BE_OPEN_MAX + 1);
	/* Room again. */
	ck_assert_int_eq(sl_reply(seen.held[0], &(struct sl_reply_args){.body_len = 0}), 0);
	fake_settle(b);
	fake_ask(greedy, SL_BE_OPEN_MAX + 3, "z");
	fake_settle(b);
	ck_assert_uint_eq(seen.total, SL_BE_OPEN_MAX + 2);
	sl_backend_close(b);
	fake_free(greedy);
	fake_free(other);
}

TEST(a_channel_has_so_much_memory)
{
	enum { BIG = SL_RPC_MAX_MESSAGE };
	struct sl_backend *b = fake_backend(handle, NULL, 0);
	struct fake *f = fake_connect(b);

	/* Announced: little of it has come, but the room is taken. */
	for (uint64_t id = 1; id <= 4; id++)
		fake_ask_part(f, id, NULL, 0, "first...", BIG, 8, SL_CLASS_BULK);
	fake_settle(b);
	ck_assert_uint_eq(b->open_cnt, 3);
	ck_assert_int_eq(fake_status(f, 4), SL_RPC_REFUSED);
	ck_assert(!f->closed);
	sl_backend_close(b);
	fake_free(f);
}

TEST(an_id_that_comes_twice_ends_its_channel)
{
	struct sl_backend *b = fake_backend(handle, NULL, 0);
	struct fake *liar = fake_connect(b), *other = fake_connect(b);
	struct sl_backend_stats st = {.size = sizeof(st)};

	seen.hold = true;
	fake_ask(liar, 5, "x");
	fake_ask(other, 5, "x"); /* another channel: another request */
	fake_settle(b);
	ck_assert(!liar->closed && !other->closed);
	fake_ask(liar, 5, "y");
	fake_settle(b);
	ck_assert(liar->closed && !other->closed);
	sl_backend_stats(b, &st);
	ck_assert_uint_eq(st.bad_messages, 1);
	/* The handler's own are told so. */
	ck_assert(sl_request_cancelled(seen.held[0]));
	ck_assert(!sl_request_cancelled(seen.held[1]));
	ck_assert_int_eq(sl_reply(seen.held[0], &(struct sl_reply_args){.body_len = 0}),
			 -ECANCELED);
	fake_settle(b);
	b->tick_ns = 0;
	fake_settle(b);
	sl_backend_stats(b, &st);
	ck_assert_uint_eq(st.channels, 1);
	sl_backend_close(b);
	fake_free(liar);
	fake_free(other);
}

/* --- metadata --- */

TEST(the_handler_sees_the_fields_it_knows)
{
	struct sl_backend *b = fake_backend(handle, NULL, 0);
	struct fake *f = fake_connect(b);
	const struct sl_request_view *v;
	const char *value = NULL;
	uint8_t meta[256];
	size_t n = 0, len = 0;

	seen.hold = true;
	n += field(meta + n, SL_META_METHOD, "PUT", 3);
	n += field(meta + n, 999, "of a newer gateway", 18);
	n += field(meta + n, SL_META_PATH, "/a/b", 4);
	n += field(meta + n, SL_META_HEADER, "\x03x-a1", 5);
	n += field(meta + n, SL_META_HEADER, "\x04x-abc", 6);
	n += field(meta + n, SL_META_HEADER, "\x09x-empty", 1); /* name beyond the field */
	n += field(meta + n, SL_META_HEADER, "", 0);
	n += field(meta + n, SL_META_PROTOCOL, "\x02\x00", 2);
	n += field(meta + n, SL_META_QUERY, "q=1", 3);
	n += field(meta + n, SL_META_CONTENT_TYPE, "t/x", 3);
	fake_ask_part(f, 1, meta, n, "body", 4, 4, SL_CLASS_LATENCY);
	fake_settle(b);
	ck_assert_uint_eq(seen.total, 1);
	v = seen.held[0];
	ck_assert(text_is(v->method, v->method_len, "PUT"));
	ck_assert(text_is(v->path, v->path_len, "/a/b"));
	ck_assert(text_is(v->query, v->query_len, "q=1"));
	ck_assert(text_is(v->content_type, v->content_type_len, "t/x"));
	ck_assert(text_is((const char *)v->body, v->body_len, "body"));
	ck_assert_uint_eq((uintptr_t)v->body % 16, 0);
	ck_assert_uint_eq(v->protocol, 2);
	ck_assert_uint_eq(v->priority, SL_CLASS_LATENCY);
	ck_assert(sl_request_header(v, "x-a", &value, &len));
	ck_assert(text_is(value, len, "1"));
	ck_assert(sl_request_header(v, "x-ab", &value, &len));
	ck_assert(text_is(value, len, "c"));
	ck_assert(!sl_request_header(v, "x-", &value, &len));
	ck_assert(!sl_request_header(v, "x-empty", &value, &len));
	ck_assert(!sl_request_header(v, "", &value, &len));
	sl_backend_close(b);
	fake_free(f);
}

/* Lengths that lie are the request's fault: it gets its answer, and the channel goes on. */
TEST(wrong_lengths_fail_their_request_only)
{
	static const struct {
		const char *bytes;
		size_t len;
	} bad[] = {{"\x02\0\x05\0/abc", 8}, {"\x02\0\xff\xff", 4}, {"\x02\0\0", 3}, {"x", 1}};
	struct sl_backend *b = fake_backend(handle, NULL, 0);
	struct fake *f = fake_connect(b);

	for (unsigned i = 0; i < 4; i++)
		fake_ask_part(f, i + 1, bad[i].bytes, bad[i].len, "x", 1, 1, SL_CLASS_NORMAL);
	fake_ask(f, 5, "good");
	fake_settle(b);
	for (unsigned i = 0; i < 4; i++)
		ck_assert_int_eq(fake_status(f, i + 1), SL_RPC_BAD_REQUEST);
	ck_assert_int_eq(fake_status(f, 5), SL_RPC_OK);
	ck_assert_uint_eq(seen.counts[0], 1);
	sl_backend_close(b);
	fake_free(f);
}

/* --- gateways that are gone without a word --- */

TEST(a_silent_gateway_is_pinged_and_then_closed)
{
	const uint64_t sec = SL_NS_PER_SEC;
	struct sl_backend *b = fake_backend(handle, NULL, 0);
	struct fake *gone = fake_connect(b), *there = fake_connect(b);
	struct channel *ch[2] = {sl_container_of(b->channels.next, struct channel, node),
				 sl_container_of(b->channels.next->next, struct channel, node)};
	uint64_t start = ch[0]->link.last_rx_ns, now;

	/* A handler that takes an hour has not asked: silence alone says nothing. */
	sl_be_channel_tick(ch[0], start + 3600 * sec);
	ck_assert_int_eq(ch[0]->link.error, 0);
	sl_link_flush(&ch[0]->link, start);
	ck_assert_uint_eq(fake_count(gone, SL_RPC_PING), 1);
	for (unsigned i = 1; i <= 20; i++) {
		now = start + (3600 + i) * sec;
		sl_be_channel_tick(ch[0], now);
		sl_be_channel_tick(ch[0], now); /* once a second */
		sl_link_flush(&ch[0]->link, now);
		ch[1]->link.last_rx_ns = now; /* heard */
		sl_be_channel_tick(ch[1], now);
		sl_link_flush(&ch[1]->link, now);
		if (ch[0]->link.error)
			break;
	}
	ck_assert_int_eq(ch[0]->link.error, -ETIMEDOUT);
	ck_assert_uint_eq(fake_count(gone, SL_RPC_PING), 3);
	ck_assert_int_eq(ch[1]->link.error, 0);
	ck_assert_uint_eq(fake_count(there, SL_RPC_PING), 0);
	sl_backend_poll(b, 0);
	ck_assert(gone->closed && !there->closed);
	sl_backend_close(b);
	fake_free(gone);
	fake_free(there);
}

/* A reply in between starts the measurement again. */
TEST(a_reply_in_between_begins_anew)
{
	const uint64_t sec = SL_NS_PER_SEC;
	struct sl_backend *b = fake_backend(handle, NULL, 0);
	struct fake *f = fake_connect(b);
	struct channel *ch = sl_container_of(b->channels.next, struct channel, node);
	uint64_t start = ch->link.last_rx_ns;

	for (unsigned i = 6; i <= 8; i++) {
		sl_be_channel_tick(ch, start + i * sec);
		sl_link_flush(&ch->link, start + i * sec);
	}
	ck_assert_uint_eq(fake_count(f, SL_RPC_PING), 3);
	ch->link.last_rx_ns = start + 9 * sec;
	for (unsigned i = 10; i <= 16; i++) {
		sl_be_channel_tick(ch, start + i * sec);
		sl_link_flush(&ch->link, start + i * sec);
	}
	ck_assert_int_eq(ch->link.error, 0);
	ck_assert_uint_eq(fake_count(f, SL_RPC_PING), 6);
	sl_be_channel_tick(ch, start + 17 * sec);
	ck_assert_int_eq(ch->link.error, -ETIMEDOUT);
	sl_backend_close(b);
	fake_free(f);
}
