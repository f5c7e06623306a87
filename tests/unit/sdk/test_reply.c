/* SPDX-License-Identifier: Apache-2.0 */
/* Output: bytes of replies, their limits, and replies of many threads at any time. */
#include <pthread.h>
#include "base/rand.h"
#include "sdk_fake.h"
#include "suite.h"
#include "until.h"

static struct sl_request_view *held[FAKE_IN];
static unsigned held_cnt;

static void hold(void *arg, struct sl_batch *batch)
{
	(void)arg;
	for (unsigned i = 0; i < batch->count; i++)
		held[held_cnt++] = batch->requests[i];
}

static unsigned done_cnt;

static void setup(void)
{
	held_cnt = 0;
	done_cnt = 0;
}

/* --- bytes --- */

FIXTURE(setup, NULL)

TEST(a_reply_has_its_wire_form)
{
	static const uint8_t expected[] = "\x04\0\x03\0t/t"
					  "\x06\0\x02\0\xc9\0"
					  "\x07\0\x02\0\x05\0"
					  "\x08\0\x02\0no"
					  "\x05\0\x05\0\x03x-ab"
					  "\x09\0\x04\0\x03x-t";
	const size_t meta_len = sizeof(expected) - 1;
	const struct sl_header_arg headers[] = {{.name = "x-a", .value = "b", .value_len = 1},
						{.name = "x-t", .trailer = true}};
	struct sl_backend *b = fake_backend(hold, NULL, 0);
	struct fake *f = fake_connect(b);
	struct sl_rpc_entry e;
	const uint8_t *at;

	fake_ask(f, 7, "x");
	fake_settle(b);
	ck_assert_int_eq(sl_reply(held[0], &(struct sl_reply_args){.body = "hello",
								   .body_len = 5,
								   .content_type = "t/t",
								   .status = 201,
								   .grpc_status = 5,
								   .grpc_message = "no",
								   .headers = headers,
								   .header_cnt = 2}),
			 0);
	fake_settle(b);
	ck_assert(fake_answer(f, 7, &e, &at));
	ck_assert_int_eq(e.status, SL_RPC_OK);
	ck_assert_int_eq(e.flags, 0);
	ck_assert_uint_eq(e.len, 5);
	ck_assert_uint_eq(e.meta_len, meta_len);
	ck_assert_mem_eq(at, expected, meta_len);
	at += meta_len;
	/* Padding is zeros, not what the memory held before. */
	for (; (size_t)at % 8 != (size_t)(f->out[0].body) % 8; at++)
		ck_assert_uint_eq(*at, 0);
	ck_assert_mem_eq(at, "hello\0\0\0", 8);
	ck_assert_uint_eq(f->out[0].header.fragment_len, sizeof(e) + sl_rpc_pad8(meta_len) + 8);
	sl_backend_close(b);
	fake_free(f);
}

/* The parts of one reply stay in order; only the last one ends it. */
TEST(parts_of_a_reply_stay_in_order)
{
	struct sl_backend *b = fake_backend(hold, NULL, 0);
	struct fake *f = fake_connect(b);
	uint32_t next = 0;

	fake_ask(f, 1, "x");
	fake_settle(b);
	for (uint32_t i = 0; i < 10; i++)
		ck_assert_int_eq(
			sl_reply(held[0],
				 &(struct sl_reply_args){.body = &i, .body_len = 4, .more = i < 9}),
			0);
	ck_assert_uint_eq(b->open_cnt, 1); /* handed over, not yet taken */
	fake_settle(b);
	ck_assert_uint_eq(b->open_cnt, 0);
	for (unsigned i = 0; i < f->out_cnt; i++) {
		const struct fake_message *m = &f->out[i];
		const uint8_t *p = m->body + m->header.count * sizeof(struct sl_rpc_entry);

		for (unsigned k = 0; k < m->header.count; k++, p += 8, next++) {
			struct sl_rpc_entry e;
			uint32_t value;

			memcpy(&e, m->body + k * sizeof(e), sizeof(e));
			memcpy(&value, p, 4);
			ck_assert_uint_eq(value, next);
			ck_assert_int_eq(e.flags, next < 9 ? SL_ENTRY_MORE : 0);
		}
	}
	ck_assert_uint_eq(next, 10);
	sl_backend_close(b);
	fake_free(f);
}

/* --- without a copy --- */

static void on_done(void *arg)
{
	memset(arg, 0xff, 8); /* it is the program's again */
	done_cnt++;
}

static int lend(struct sl_request_view *rq, void *bytes, size_t len, bool more)
{
	return sl_reply_ref(
		rq,
		&(struct sl_reply_args){
			.body = bytes, .body_len = len, .content_type = "t/t", .more = more},
		on_done, bytes);
}

static void check_body(const struct fake *f, uint64_t id, const char *body)
{
	size_t len = strlen(body), padding = sl_rpc_pad8(len) - len;
	struct sl_rpc_entry e;
	const uint8_t *at;

	ck_assert(fake_answer(f, id, &e, &at));
	ck_assert_uint_eq(e.len, len);
	ck_assert_mem_eq(at + sl_rpc_pad8(e.meta_len), body, len);
	ck_assert_mem_eq(at + sl_rpc_pad8(e.meta_len) + len, "\0\0\0\0\0\0\0", padding);
}

/* Between others that are copied, as all make one message. */
TEST(a_lent_body_is_read_where_it_lies)
{
	char bytes[] = "this is changed";
	struct sl_backend *b = fake_backend(hold, NULL, 0);
	struct fake *f = fake_connect(b);

	for (uint64_t id = 1; id <= 3; id++)
		fake_ask(f, id, "x");
	fake_settle(b);
	ck_assert_int_eq(sl_reply(held[0], &(struct sl_reply_args){.body = "one", .body_len = 3}),
			 0);
	ck_assert_int_eq(lend(held[1], bytes, 15, false), 0);
	ck_assert_int_eq(sl_reply(held[2], &(struct sl_reply_args){.body = "three", .body_len = 5}),
			 0);
	memcpy(bytes, "to see it", 9); /* forbidden to programs: the copy has not seen it */
	ck_assert_uint_eq(done_cnt, 0);
	fake_settle(b);
	ck_assert_uint_eq(done_cnt, 1);
	ck_assert_uint_eq(fake_count(f, SL_RPC_RESPONSE), 1);
	check_body(f, 1, "one");
	check_body(f, 2, "to see ithanged");
	check_body(f, 3, "three");
	sl_backend_close(b);
	fake_free(f);
}

/* A device reads it after it was posted: it comes back when that says so. */
TEST(a_lent_body_comes_back_when_it_was_read)
{
	char bytes[] = "12345678";
	struct sl_backend *b = fake_backend(hold, NULL, 0);
	struct fake *f = fake_connect(b);

	f->base.copies = false;
	f->reads = true;
	fake_ask(f, 1, "x");
	fake_settle(b);
	ck_assert_int_eq(lend(held[0], bytes, 8, false), 0);
	fake_settle(b);
	check_body(f, 1, "12345678");
	ck_assert_uint_eq(b->open_cnt, 0);
	ck_assert_uint_eq(done_cnt, 0);
	f->reads = false;
	fake_settle(b);
	ck_assert_uint_eq(done_cnt, 1);
	sl_backend_close(b);
	fake_free(f);
}

/* In pieces, as there is credit; it is lent until the last of them is sent. */
TEST(a_lent_body_may_be_cut)
{
	enum { LEN = 3 * SL_RPC_INITIAL_WINDOW + 5 };
	static uint8_t bytes[LEN], copy[LEN + 8];
	struct sl_backend *b = fake_backend(hold, NULL, 0);
	struct fake *f = fake_connect(b);
	uint32_t have = 0;

	for (unsigned i = 0; i < LEN; i++)
		bytes[i] = (uint8_t)(i * 11 >> 4);
	fake_ask(f, 1, "x");
	fake_settle(b);
	ck_assert_int_eq(lend(held[0], bytes, LEN, false), 0);
	for (unsigned i = 0; i < 4; i++) {
		fake_settle(b);
		ck_assert_uint_eq(done_cnt, i == 3);
		fake_credit(f, 1, SL_RPC_INITIAL_WINDOW);
	}
	for (unsigned i = 0; i < f->out_cnt; i++) {
		const struct fake_message *m = &f->out[i];
		struct sl_rpc_entry e;

		ck_assert_int_eq(m->header.flags, SL_RPC_BATCH | SL_RPC_FIRST | SL_RPC_LAST);
		memcpy(&e, m->body, sizeof(e));
		ck_assert_uint_eq(e.meta_len != 0, i == 0);
		memcpy(copy + have, m->body + sizeof(e) + sl_rpc_pad8(e.meta_len), e.len);
		have += e.len;
	}
	ck_assert_uint_eq(have, LEN);
	memset(bytes, 0, 8); /* has come back */
	memset(copy, 0, 8);
	ck_assert_mem_eq(copy, bytes, LEN);
	sl_backend_close(b);
	fake_free(f);
}

/* --- messages of gRPC in pieces --- */

static struct sl_request_view *ask_one(struct sl_backend *b, struct fake *f)
{
	fake_ask(f, 1, "x");
	fake_settle(b);
	return held[0];
}

/* Each piece as the handler gives it, or cut where there is no credit; the wire sees one message. */
TEST(a_message_in_pieces_is_one_on_the_wire)
{
	enum { PIECE = 50000, PIECES = 5, LEN = PIECE * PIECES };
	static uint8_t bytes[LEN], copy[LEN + 8];
	struct sl_backend *b = fake_backend(hold, NULL, 0);
	struct fake *f = fake_connect(b);
	struct sl_request_view *rq = ask_one(b, f);
	struct sl_reply_args a = {.more = true, .in_pieces = true, .total_len = LEN, .status = 200};
	uint32_t have = 0, ends = 0;

	for (unsigned i = 0; i < LEN; i++)
		bytes[i] = (uint8_t)(i * 11 >> 4);
	for (unsigned i = 0; i < PIECES; i++) {
		int rc;

		a.body = bytes + i * PIECE;
		a.body_len = PIECE;
		while ((rc = sl_reply(rq, &a)) == -EAGAIN) {
			fake_settle(b);
			fake_credit(f, 1, SL_RPC_INITIAL_WINDOW);
			fake_settle(b);
		}
		ck_assert_int_eq(rc, 0);
	}
	ck_assert_int_eq(sl_reply(rq, &(struct sl_reply_args){.no_message = true}), 0);
	for (unsigned i = 0; i < 4; i++) {
		fake_credit(f, 1, SL_RPC_INITIAL_WINDOW);
		fake_settle(b);
	}
	for (unsigned i = 0; i < f->out_cnt; i++) {
		const struct fake_message *m = &f->out[i];
		const uint8_t *at = m->body + m->header.count * sizeof(struct sl_rpc_entry);

		for (unsigned k = 0; k < m->header.count; k++) {
			struct sl_rpc_entry e;

			memcpy(&e, m->body + k * sizeof(e), sizeof(e));
			ck_assert_uint_eq(e.flags,
					  have < LEN ? SL_ENTRY_MORE : SL_ENTRY_NO_MESSAGE);
			ck_assert_uint_eq(e.meta_len != 0, !have);
			ck_assert_uint_eq(e.rest, have < LEN ? LEN - have - e.len : 0);
			at += sl_rpc_pad8(e.meta_len);
			memcpy(copy + have, at, e.len);
			at += sl_rpc_pad8(e.len);
			have += e.len;
			ends += !e.len;
		}
	}
	ck_assert_uint_eq(have, LEN);
	ck_assert_uint_eq(ends, 1);
	ck_assert_mem_eq(copy, bytes, LEN);
	sl_backend_close(b);
	fake_free(f);
}

/* Arguments that the wire cannot carry are rejected, and the reply so far continues. */
TEST(nothing_but_its_rest_follows_a_piece)
{
	static const struct sl_header_arg header = {.name = "x", .value = "y", .value_len = 1};
	struct sl_backend *b = fake_backend(hold, NULL, 0);
	struct fake *f = fake_connect(b);
	struct sl_request_view *rq = ask_one(b, f);
	struct sl_reply_args first = {
		.body = "12", .body_len = 2, .in_pieces = true, .total_len = 5};
	struct sl_reply_args next = {.body = "345", .body_len = 4, .more = true};
	struct sl_rpc_entry e;
	const uint8_t *at;

	ck_assert_int_eq(sl_reply(rq, &first), -EINVAL); /* the last part, and not all of it */
	first.more = first.no_message = true;
	ck_assert_int_eq(sl_reply(rq, &first), -EINVAL);
	first.no_message = false;
	first.body_len = 0;
	ck_assert_int_eq(sl_reply(rq, &first), -EINVAL);
	first.body_len = 6;
	ck_assert_int_eq(sl_reply(rq, &first), -EINVAL);
	first.body_len = 2;
	first.total_len = SL_RPC_MAX_MESSAGE + 1ul;
	ck_assert_int_eq(sl_reply(rq, &first), -EMSGSIZE);
	first.total_len = 5;
	ck_assert_int_eq(sl_reply(rq, &first), 0);
	ck_assert_int_eq(sl_reply(rq, &next), -EINVAL); /* longer than what is left */
	next.body_len = 3;
	next.more = false;
	ck_assert_int_eq(sl_reply(rq, &next), -EINVAL);
	ck_assert_int_eq(sl_reply(rq, &(struct sl_reply_args){.no_message = true}), -EINVAL);
	next.more = true;
	next.headers = &header; /* allowed in a first part only */
	next.header_cnt = 1;
	ck_assert_int_eq(sl_reply(rq, &next), 0);
	ck_assert_int_eq(sl_reply(rq, &(struct sl_reply_args){.body = "6", .body_len = 1}), 0);
	fake_settle(b);
	ck_assert(fake_answer(f, 1, &e, &at));
	ck_assert_uint_eq(e.rest, 3);
	ck_assert_uint_eq(b->open_cnt, 0);
	sl_backend_close(b);
	fake_free(f);
}

/* In the midst of a message nothing but an error may end it. */
TEST(an_error_ends_a_message_in_pieces)
{
	struct sl_backend *b = fake_backend(hold, NULL, 0);
	struct fake *f = fake_connect(b);
	struct sl_request_view *rq = ask_one(b, f);
	struct sl_rpc_entry e;

	ck_assert_int_eq(sl_reply(rq, &(struct sl_reply_args){.body = "1",
							      .body_len = 1,
							      .more = true,
							      .in_pieces = true,
							      .total_len = 2}),
			 0);
	fake_settle(b);
	ck_assert_int_eq(sl_reply_error(rq, SL_RPC_LOST), 0);
	fake_settle(b);
	memcpy(&e, f->out[f->out_cnt - 1].body, sizeof(e));
	ck_assert_uint_eq(e.status, SL_RPC_LOST);
	ck_assert_uint_eq(b->open_cnt, 0);
	sl_backend_close(b);
	fake_free(f);
}

/* However the request ends. A call that fails has lent nothing. */
TEST(each_lent_body_comes_back_once)
{
	static uint8_t bytes[2 * SL_RPC_INITIAL_WINDOW];
	struct sl_backend *b = fake_backend(hold, NULL, 0);
	struct fake *f = fake_connect(b), *lost = fake_connect(b);

	for (uint64_t id = 1; id <= 4; id++)
		fake_ask(f, id, "x");
	fake_settle(b);
	fake_ask(lost, 9, "x");
	fake_settle(b);
	for (unsigned i = 0; i < 5; i++)
		ck_assert_int_eq(lend(held[i], bytes, sizeof(bytes), true), 0);
	fake_settle(b);
	ck_assert_uint_eq(done_cnt, 0); /* all wait for credit */
	ck_assert_int_eq(lend(held[0], bytes, 8, true), -EAGAIN);
	fake_cancel(f, 1);
	fake_settle(b);
	ck_assert_int_eq(lend(held[0], bytes, 8, false), -ECANCELED);
	fake_settle(b);
	ck_assert_uint_eq(done_cnt, 1);
	ck_assert_int_eq(sl_reply_error(held[1], SL_RPC_INTERNAL), 0); /* has the last word */
	fake_settle(b);
	ck_assert_uint_eq(done_cnt, 2);
	ck_assert(!lost->halted);
	lost->broken = true;
	fake_settle(b);
	ck_assert(lost->halted); /* before anything of it comes back */
	ck_assert_int_eq(lend(held[4], bytes, 8, false), -ECANCELED);
	fake_settle(b);
	ck_assert_uint_eq(done_cnt, 3);
	ck_assert_int_eq(lend(held[2], bytes, 8, false), 0); /* two wait at the end */
	sl_backend_close(b);
	ck_assert_uint_eq(done_cnt, 6);
	fake_free(f);
	fake_free(lost);
}

/* Replies of one class go together, up to so many bytes; classes apart. */
static void reply_slowly(void *arg, struct sl_batch *batch)
{
	(void)arg;
	for (unsigned i = 0; i < batch->count; i++) {
		uint64_t until = sl_now_ns() + 60 * SL_NS_PER_US;

		while (sl_now_ns() < until)
			;
		ck_assert_int_eq(sl_reply(batch->requests[i], &(struct sl_reply_args){.body = ""}),
				 0);
	}
}

/* Early replies go out while the handler runs, but not one by one if sending takes that long. */
TEST(early_replies_leave_together_if_sending_is_slow)
{
	struct sl_backend *b = fake_backend(reply_slowly, NULL, 0);
	struct fake *f = fake_connect(b);

	f->flush_ns = 100 * SL_NS_PER_US;
	for (uint64_t id = 1; id <= 32; id++)
		fake_ask(f, id, "x");
	fake_settle(b);
	ck_assert_uint_gt(f->out_cnt, 1);
	ck_assert_uint_lt(f->out_cnt, 16);
	sl_backend_close(b);
	fake_free(f);
}

TEST(replies_are_packed_by_class)
{
	static uint8_t body[60 << 10];
	struct sl_backend *b = fake_backend(hold, NULL, 0);
	struct fake *f = fake_connect(b);

	for (uint64_t id = 10; id <= 18; id++)
		fake_ask_part(f, id, NULL, 0, "x", 1, 1, SL_CLASS_BULK);
	fake_ask_part(f, 6, NULL, 0, "x", 1, 1, SL_CLASS_LATENCY);
	fake_ask_part(f, 7, NULL, 0, "x", 1, 1, SL_CLASS_LATENCY);
	fake_settle(b);
	for (unsigned i = 0; i < 11; i++)
		ck_assert_int_eq(sl_reply(held[i],
					  &(struct sl_reply_args){
						  .body = body,
						  .body_len = held[i]->priority == SL_CLASS_BULK
								      ? sizeof(body)
								      : 1}),
				 0);
	fake_settle(b);
	/* 4 + 4 + 1 of 60 KiB under 256 KiB, and the two urgent ones in one message. */
	{
		unsigned bulk = 0, urgent = 0, largest = 0;

		for (unsigned i = 0; i < f->out_cnt; i++) {
			const struct sl_rpc_header *h = &f->out[i].header;

			if (!(h->flags & SL_RPC_FIRST))
				continue;
			if (h->total_or_offset > largest)
				largest = h->total_or_offset;
			bulk += h->priority == SL_CLASS_BULK;
			urgent += h->priority == SL_CLASS_LATENCY;
			if (h->priority == SL_CLASS_LATENCY)
				ck_assert_uint_eq(h->count, 2);
		}
		ck_assert_uint_eq(bulk, 3);
		ck_assert_uint_eq(urgent, 1);
		ck_assert_uint_le(largest, SL_BE_RESPONSE_MAX);
	}
	sl_backend_close(b);
	fake_free(f);
}

/* A request says that its reply will be as urgent: bulk replies are cut for it before it is there. */
TEST_EACH(bulk_is_cut_once_an_urgent_request_has_come, 2)
{
	static uint8_t body[60 << 10];
	struct sl_backend *b = fake_backend(hold, NULL, 0);
	struct fake *f = fake_connect(b);

	f->base.slice_min = 8 << 10;
	fake_ask_part(f, 1, NULL, 0, "x", 1, 1, SL_CLASS_BULK);
	if (_i)
		fake_ask_part(f, 2, NULL, 0, "x", 1, 1, SL_CLASS_LATENCY);
	fake_settle(b);
	for (unsigned i = 0; i < held_cnt; i++) {
		if (held[i]->priority == SL_CLASS_BULK)
			ck_assert_int_eq(sl_reply(held[i],
						  &(struct sl_reply_args){
							  .body = body, .body_len = sizeof(body)}),
					 0);
	}
	fake_settle(b);
	ck_assert_int_eq(fake_count(f, SL_RPC_RESPONSE) > 1, _i);
	sl_backend_close(b);
	fake_free(f);
}

/* --- gRPC --- */

/* A message is empty only where its call succeeds, or where it is not the last part. */
TEST_EACH(a_failing_status_without_a_body_has_no_message, 4)
{
	const struct sl_reply_args a = {
		.body = "x", .body_len = _i & 1, .grpc_status = _i & 2 ? 5 : 0};
	struct sl_backend *b = fake_backend(hold, NULL, 0);
	struct fake *f = fake_connect(b);
	struct sl_rpc_entry e;
	const uint8_t *at;

	fake_ask(f, 1, "x");
	fake_settle(b);
	ck_assert_int_eq(sl_reply(held[0], &a), 0);
	fake_settle(b);
	ck_assert(fake_answer(f, 1, &e, &at));
	ck_assert_int_eq(e.flags & SL_ENTRY_NO_MESSAGE, _i == 2 ? SL_ENTRY_NO_MESSAGE : 0);
	sl_backend_close(b);
	fake_free(f);
}

/* --- limits --- */

TEST(each_limit_of_a_reply_holds)
{
	static char value[SL_RPC_MAX_META];
	static char name[300];
	struct sl_header_arg h = {.name = "x", .value = value, .value_len = sizeof(value)};
	struct sl_reply_args a = {.body = value, .body_len = SL_RPC_MAX_MESSAGE + 1ul};
	struct sl_backend *b = fake_backend(hold, NULL, 0);
	struct fake *f = fake_connect(b);
	struct sl_rpc_entry e;
	const uint8_t *at;

	fake_ask(f, 1, "x");
	fake_settle(b);
	ck_assert_int_eq(sl_reply(held[0], &a), -EMSGSIZE);
	a.body_len = 1;
	a.headers = &h;
	a.header_cnt = 1;
	ck_assert_int_eq(sl_reply(held[0], &a), -EMSGSIZE);
	h.value_len = SIZE_MAX - 4; /* a sum that would wrap */
	ck_assert_int_eq(sl_reply(held[0], &a), -EMSGSIZE);
	h.value_len = 1;
	memset(name, 'n', sizeof(name) - 1);
	h.name = name; /* its length is a byte */
	ck_assert_int_eq(sl_reply(held[0], &a), -EMSGSIZE);
	ck_assert_uint_eq(b->open_cnt, 1);
	/* Still open, and the most that fits does. */
	h.name = "x";
	h.value_len = SL_RPC_MAX_META - 6;
	ck_assert_int_eq(sl_reply(held[0], &a), 0);
	fake_settle(b);
	ck_assert(fake_answer(f, 1, &e, &at));
	ck_assert_uint_eq(e.meta_len, SL_RPC_MAX_META);
	sl_backend_close(b);
	fake_free(f);
}

/* --- many threads, late --- */

enum { THREADS = 8, EACH = 400, ALL = THREADS * EACH };

static _Atomic unsigned next_reply, cancelled;
static unsigned order[ALL];

static void *reply_some(void *arg)
{
	unsigned i;

	(void)arg;
	while ((i = atomic_fetch_add(&next_reply, 1)) < ALL) {
		struct sl_request_view *rq = held[order[i]];
		int rc;

		if (i % 3 == 0)
			rc = sl_reply(rq, &(struct sl_reply_args){.body = rq->body,
								  .body_len = rq->body_len,
								  .more = true});
		else
			rc = 0;
		if (rc == 0)
			rc = i % 7 ? sl_reply(rq, &(struct sl_reply_args){.body = rq->body,
									  .body_len = rq->body_len})
				   : sl_reply_error(rq, SL_RPC_INTERNAL);
		if (rc == -ECANCELED)
			atomic_fetch_add(&cancelled, 1);
		else if (rc)
			abort();
		if (i % 16 == 0)
			usleep(50);
	}
	return NULL;
}

/* Each request has its one answer, by whichever thread, in whichever order; lost channels none. */
TEST_EACH(many_threads_answer_each_request_once, 2)
{
	static uint8_t ended[2][ALL];
	struct sl_backend *b = fake_backend(hold, NULL, 0);
	struct fake *f[2] = {fake_connect(b), fake_connect(b)};
	pthread_t threads[THREADS];
	struct sl_prng rng;
	uint64_t until = sl_now_ns() + UNTIL_S * SL_NS_PER_SEC;

	sl_prng_seed(&rng, 5);
	for (unsigned i = 0; i < ALL; i++) {
		char body[16];

		snprintf(body, sizeof(body), "%u", i);
		fake_ask(f[i % 2], i, body);
		order[i] = i;
	}
	fake_settle(b);
	ck_assert_uint_eq(held_cnt, ALL);
	for (unsigned i = ALL - 1; i; i--) {
		unsigned k = (unsigned)sl_prng_below(&rng, i + 1), swap = order[i];

		order[i] = order[k];
		order[k] = swap;
	}
	atomic_store(&next_reply, 0);
	for (unsigned i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, reply_some, NULL), 0);
	while (b->open_cnt && sl_now_ns() < until) {
		sl_backend_poll(b, 1000);
		/* In the midst of it one gateway is lost. */
		if (_i && atomic_load(&next_reply) > ALL / 2)
			f[1]->broken = true;
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	fake_settle(b);
	ck_assert_uint_eq(b->open_cnt, 0);
	ck_assert_uint_eq(atomic_load(&b->foreign_used), 0);
	ck_assert_int_eq(f[1]->closed, _i);
	for (unsigned w = 0; w < 2; w++) {
		for (unsigned i = 0; i < f[w]->out_cnt; i++) {
			const struct fake_message *m = &f[w]->out[i];

			for (unsigned k = 0; k < m->header.count; k++) {
				struct sl_rpc_entry e;

				memcpy(&e, m->body + k * sizeof(e), sizeof(e));
				ck_assert_uint_lt(e.id, ALL);
				ck_assert_uint_eq(e.id % 2, w);
				ck_assert_msg(!ended[w][e.id], "answered twice");
				ended[w][e.id] = !(e.flags & SL_ENTRY_MORE);
			}
		}
	}
	for (unsigned i = 0; i < ALL; i++) {
		if (i % 2 == 0 || !_i)
			ck_assert_msg(ended[i % 2][i], "request %u has no answer", i);
	}
	if (!_i)
		ck_assert_uint_eq(atomic_load(&cancelled), 0);
	sl_backend_close(b);
	fake_free(f[0]);
	fake_free(f[1]);
}
