/* SPDX-License-Identifier: Apache-2.0 */
/* How far a gateway may send ahead on a stream, and how much a program may leave unsent. */
#include "sdk_fake.h"
#include "suite.h"

enum {
	STREAMS = SL_RPC_WIDE_MAX + 2,
	PART = 4096,
	COST = PART + sizeof(struct sl_rpc_entry),
	MUCH = 6 * SL_RPC_PART_WINDOW, /* more than any caller keeps */
};

static struct sl_request_view *streams[512];
static unsigned stream_cnt, told_writable;
static bool pauses; /* the handler of parts */
static struct sl_backend *b;
static struct fake *f;
static uint64_t sent[512];

static void on_open(void *arg, struct sl_request_view *rq)
{
	(void)arg;
	streams[stream_cnt++] = rq;
}

static void on_data(void *arg, struct sl_request_view *rq, const void *bytes, size_t len,
		    size_t left)
{
	(void)arg, (void)bytes, (void)len, (void)left;
	if (pauses)
		sl_stream_pause(rq);
}

static void on_end(void *arg, struct sl_request_view *rq)
{
	(void)arg, (void)rq;
}

static void on_writable(void *arg, struct sl_request_view *rq)
{
	(void)arg, (void)rq;
	told_writable++;
}

static void refuse(void *arg, struct sl_batch *batch)
{
	(void)arg;
	for (unsigned i = 0; i < batch->count; i++)
		sl_reply_error(batch->requests[i], SL_RPC_NO_METHOD);
}

static const struct sl_stream_ops ops = {
	.on_open = on_open, .on_data = on_data, .on_end = on_end, .on_cancel = on_end};

static void set_up(void)
{
	b = fake_backend(refuse, NULL, 0);
	b->opt.on_stream = &ops;
	b->opt.on_writable = on_writable;
	f = fake_connect(b);
	stream_cnt = told_writable = 0;
	pauses = false;
	memset(sent, 0, sizeof(sent));
}

static void tear_down(void)
{
	sl_backend_close(b);
	fake_free(f);
}

FIXTURE(set_up, tear_down)

static void say(uint64_t id, uint32_t len, uint8_t flags)
{
	static const uint8_t bytes[PART];
	struct sl_rpc_entry e;
	uint8_t *entry;

	fake_ask_part(f, id, NULL, 0, bytes, len, len, SL_CLASS_NORMAL);
	entry = f->in[f->in_cnt - 1].body;
	memcpy(&e, entry, sizeof(e));
	e.flags = flags | SL_ENTRY_MORE;
	memcpy(entry, &e, sizeof(e));
	fake_settle(b);
}

static void part(uint64_t id)
{
	say(id, PART, SL_ENTRY_PART);
	sent[id] += COST;
}

/* Returns the stream credit that the gateway has left. */
static uint64_t credit(uint64_t id)
{
	uint64_t given = SL_RPC_PART_WINDOW;

	for (unsigned i = 0; i < f->out_cnt; i++) {
		const struct fake_message *m = &f->out[i];
		struct sl_rpc_window w;

		if ((m->header.version_type & 15) != SL_RPC_WINDOW)
			continue;
		for (unsigned k = 0; k < m->header.count; k++) {
			memcpy(&w, m->body + k * sizeof(w), sizeof(w));
			given += w.id == id ? w.bytes : 0;
		}
	}
	ck_assert_uint_ge(given, sent[id]);
	return given - sent[id];
}

/* Many that stand still cost memory, and a few may be fast. */
TEST(few_streams_may_send_far_ahead)
{
	for (uint64_t id = 1; id <= STREAMS; id++) {
		say(id, 0, SL_ENTRY_STREAM);
		for (unsigned i = 0; i < MUCH / PART; i++)
			part(id);
		if (id <= SL_RPC_WIDE_MAX) {
			ck_assert_uint_gt(credit(id), SL_RPC_INITIAL_WINDOW / 2);
			ck_assert_uint_le(credit(id), SL_RPC_INITIAL_WINDOW);
		} else {
			ck_assert_uint_gt(credit(id), SL_RPC_PART_WINDOW / 2 - COST);
			ck_assert_uint_le(credit(id), SL_RPC_PART_WINDOW);
		}
	}
	ck_assert_uint_eq(stream_cnt, STREAMS);
	/* When one of them is over another one takes its place. */
	ck_assert_int_eq(sl_reply(streams[0], &(struct sl_reply_args){.status = 200}), 0);
	fake_settle(b);
	part(STREAMS);
	part(STREAMS);
	ck_assert_uint_gt(credit(STREAMS), SL_RPC_INITIAL_WINDOW / 2);
	ck_assert_uint_le(credit(STREAMS - 1), SL_RPC_PART_WINDOW);
}

TEST(a_paused_stream_is_given_nothing)
{
	say(1, 0, SL_ENTRY_STREAM);
	part(1);
	pauses = true;
	part(1); /* half a window is taken with this one */
	fake_settle(b);
	ck_assert_uint_lt(credit(1), SL_RPC_PART_WINDOW / 2);
	sl_stream_resume(streams[0]);
	fake_settle(b);
	ck_assert_uint_gt(credit(1), SL_RPC_PART_WINDOW / 2);
}

/*
 * The client may send all of the stream before it reads the reply; the handler is not called any
 * more.
 */
TEST(behind_its_reply_a_stream_is_taken_and_not_kept)
{
	static const uint8_t bytes[2 * SL_RPC_STREAM_WINDOW];
	size_t before;

	pauses = true;
	say(1, 0, SL_ENTRY_STREAM);
	before = b->request_mem.used;
	for (unsigned i = 0; i < 3; i++)
		part(1);
	ck_assert_uint_gt(b->request_mem.used, before + 2 * PART);
	/* Longer than its credit: it waits for its client. */
	ck_assert_int_eq(sl_reply(streams[0], &(struct sl_reply_args){.body = bytes,
								      .body_len = sizeof(bytes)}),
			 0);
	fake_settle(b);
	ck_assert_uint_eq(b->open_cnt, 1);
	ck_assert_uint_eq(b->request_mem.used, before);
	for (unsigned i = 0; i < MUCH / PART; i++) {
		ck_assert_uint_ge(credit(1), COST);
		part(1);
		ck_assert_uint_eq(b->request_mem.used, before);
	}
	fake_cancel(f, 1);
}

TEST(parts_of_a_cancelled_stream_are_freed)
{
	size_t before;

	pauses = true;
	say(1, 0, SL_ENTRY_STREAM);
	before = b->request_mem.used;
	part(1);
	part(1);
	ck_assert_uint_gt(b->request_mem.used, before);
	fake_cancel(f, 1);
	fake_settle(b);
	ck_assert_uint_eq(b->request_mem.used, before);
	part(1); /* it was on its way */
	ck_assert_uint_eq(b->request_mem.used, before);
	sl_reply_error(streams[0], SL_RPC_CANCELLED);
}

TEST(a_message_without_bytes_counts_as_kept)
{
	pauses = true;
	say(1, 0, SL_ENTRY_STREAM);
	for (unsigned i = 0; i < 9; i++) /* one of them is reported */
		say(1, 0, SL_ENTRY_PART);
	ck_assert_uint_eq(((struct request *)streams[0])->in_kept, 8 * SL_RPC_MIN_COST);
	sl_reply_error(streams[0], SL_RPC_CANCELLED);
}

/* Streams that stand still keep their memory: a further stream is refused, and no other is lost. */
TEST(a_stream_for_which_there_is_no_memory_is_refused)
{
	enum { MANY = 128 };
	unsigned refused = 0;

	b->request_mem.limit = MANY * PART;
	pauses = true;
	for (uint64_t id = 1; id <= MANY / 2; id++)
		say(id, 0, SL_ENTRY_STREAM);
	for (unsigned i = 0; i < SL_RPC_PART_WINDOW / PART; i++)
		for (uint64_t id = 1; id <= MANY / 2; id++)
			say(id, PART, SL_ENTRY_PART);
	ck_assert(!f->closed);
	for (uint64_t id = 1; id <= MANY / 2; id++) {
		struct sl_rpc_entry e;
		const uint8_t *at;

		if (!fake_answer(f, id, &e, &at))
			continue;
		ck_assert_uint_eq(e.status, SL_RPC_REFUSED);
		ck_assert(sl_request_cancelled(streams[id - 1]));
		refused++;
	}
	ck_assert_uint_gt(refused, 0);
	ck_assert_uint_lt(refused, MANY / 2);
	for (unsigned i = 0; i < stream_cnt; i++)
		sl_reply_error(streams[i], SL_RPC_INTERNAL);
	fake_settle(b);
}

/* It is the transport that is slow, not a client: then a program is told to wait as well. */
TEST(bytes_held_back_by_the_transport_are_bounded)
{
	static const uint8_t bytes[PART];
	struct sl_reply_args a = {.body = bytes, .body_len = PART, .status = 200, .more = true};
	size_t taken = 0;
	int rc = 0;

	f->full = true;
	for (uint64_t id = 1; id <= SL_ARRAY_LEN(streams) && !rc; id++) {
		say(id, 0, SL_ENTRY_STREAM);
		for (unsigned i = 0; i < 4 && !rc; i++) {
			rc = sl_reply(streams[id - 1], &a);
			taken += rc ? 0 : PART;
		}
	}
	ck_assert_int_eq(rc, -EAGAIN);
	ck_assert_uint_gt(taken, SL_BE_UNSENT_MEM * 3 / 4);
	ck_assert_uint_le(taken, SL_BE_UNSENT_MEM);
	fake_settle(b);
	ck_assert_uint_eq(told_writable, 0);
	f->full = false;
	for (unsigned i = 0; i < 1000 && !told_writable; i++)
		sl_backend_poll(b, 0);
	ck_assert_uint_eq(told_writable, 1);
	ck_assert_int_eq(sl_reply(streams[stream_cnt - 1], &a), 0);
	for (unsigned i = 0; i < stream_cnt; i++)
		sl_reply_error(streams[i], SL_RPC_INTERNAL);
}
