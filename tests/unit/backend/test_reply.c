/* SPDX-License-Identifier: Apache-2.0 */
/* What goes out: bytes of replies, their limits, and replies from many threads at any time. */
#include <pthread.h>
#include "base/rand.h"
#include "fake.h"

static struct sl_request_view *held[FAKE_IN];
static unsigned held_cnt;

static void hold(void *arg, struct sl_batch *batch)
{
	(void)arg;
	for (unsigned i = 0; i < batch->count; i++)
		held[held_cnt++] = batch->requests[i];
}

static void setup(void)
{
	held_cnt = 0;
}

/* --- bytes --- */

START_TEST(test_bytes)
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
END_TEST

/* The parts of one reply stay in order; only the last one ends it. */
START_TEST(test_parts)
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
END_TEST

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
START_TEST(test_early)
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
END_TEST

START_TEST(test_packing)
{
	static uint8_t body[100 << 10];
	struct sl_backend *b = fake_backend(hold, NULL, 0);
	struct fake *f = fake_connect(b);

	for (uint64_t id = 1; id <= 5; id++)
		fake_ask_part(f, id, NULL, 0, "x", 1, 1, SL_CLASS_BULK);
	fake_ask_part(f, 6, NULL, 0, "x", 1, 1, SL_CLASS_LATENCY);
	fake_ask_part(f, 7, NULL, 0, "x", 1, 1, SL_CLASS_LATENCY);
	fake_settle(b);
	for (unsigned i = 0; i < 7; i++)
		ck_assert_int_eq(
			sl_reply(held[i],
				 &(struct sl_reply_args){.body = body,
							 .body_len = i < 5 ? sizeof(body) : 1}),
			0);
	fake_settle(b);
	/* 2 + 2 + 1 of 100 KiB under 256 KiB, and the two urgent ones in one message. */
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
END_TEST

/* --- limits --- */

START_TEST(test_limits)
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
END_TEST

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
START_TEST(test_many_threads)
{
	static uint8_t ended[2][ALL];
	struct sl_backend *b = fake_backend(hold, NULL, 0);
	struct fake *f[2] = {fake_connect(b), fake_connect(b)};
	pthread_t threads[THREADS];
	struct sl_prng rng;
	uint64_t until = sl_now_ns() + 20 * SL_NS_PER_SEC;

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
END_TEST

int main(void)
{
	Suite *s = suite_create("backend replies");
	TCase *tc = tcase_create("replies");

	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, setup, NULL);
	tcase_add_test(tc, test_bytes);
	tcase_add_test(tc, test_parts);
	tcase_add_test(tc, test_early);
	tcase_add_test(tc, test_packing);
	tcase_add_test(tc, test_limits);
	tcase_add_loop_test(tc, test_many_threads, 0, 2);
	suite_add_tcase(s, tc);
	return fake_run(s);
}
