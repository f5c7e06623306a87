/* SPDX-License-Identifier: Apache-2.0 */
/* Interim replies of threads that do not wait for each other. */
#include <pthread.h>
#include "sdk_fake.h"
#include "suite.h"

enum { STREAMS = 3000, THREADS = 4 };

static struct sl_request_view *streams[STREAMS];
static unsigned stream_cnt, told_writable;

static void on_open(void *arg, struct sl_request_view *rq)
{
	(void)arg;
	streams[stream_cnt++] = rq;
}

static void on_data(void *arg, struct sl_request_view *rq, const void *bytes, size_t len,
		    size_t left)
{
	(void)arg, (void)rq, (void)bytes, (void)len, (void)left;
}

static void nothing(void *arg, struct sl_request_view *rq)
{
	(void)arg, (void)rq;
}

static void on_writable(void *arg, struct sl_request_view *rq)
{
	(void)arg, (void)rq;
	told_writable++;
}

static void no_batch(void *arg, struct sl_batch *batch)
{
	(void)arg, (void)batch;
}

static const struct sl_stream_ops ops = {
	.on_open = on_open, .on_data = on_data, .on_end = nothing, .on_cancel = nothing};

static struct sl_backend *b;
static struct fake *f;

static void set_up(void)
{
	b = fake_backend(no_batch, NULL, 0);
	b->opt.on_stream = &ops;
	b->opt.on_writable = on_writable;
	f = fake_connect(b);
	stream_cnt = told_writable = 0;
}

static void tear_down(void)
{
	for (unsigned i = 0; i < stream_cnt; i++)
		sl_reply_error(streams[i], SL_RPC_INTERNAL);
	sl_backend_close(b);
	fake_free(f);
}

FIXTURE(set_up, tear_down)

/* Its client waits to be told that it may go on. */
static void open_one(uint64_t id)
{
	struct sl_rpc_entry e;
	uint8_t *entry;

	fake_ask(f, id, "");
	entry = f->in[f->in_cnt - 1].body;
	memcpy(&e, entry, sizeof(e));
	e.flags = SL_ENTRY_STREAM | SL_ENTRY_MORE | SL_ENTRY_EXPECT;
	memcpy(entry, &e, sizeof(e));
}

/* Entries that were sent: in all, and of them those that are no part of a reply. */
static unsigned count_entries(unsigned *before)
{
	unsigned n = 0;

	*before = 0;
	for (unsigned i = 0; i < f->out_cnt; i++) {
		const struct fake_message *m = &f->out[i];

		if ((m->header.version_type & 15) != SL_RPC_RESPONSE)
			continue;
		for (unsigned k = 0; k < m->header.count; k++, n++) {
			struct sl_rpc_entry e;

			memcpy(&e, m->body + k * sizeof(e), sizeof(e));
			*before += (e.flags & SL_ENTRY_GO_ON) != 0;
		}
	}
	return n;
}

/* A gateway would end its link. As if the thread had looked before another one began the reply. */
TEST(interim_replies_behind_the_beginning_are_not_sent)
{
	static const uint8_t bytes[SL_RPC_STREAM_WINDOW - 8];
	const struct sl_reply_args a = {.body = bytes, .body_len = sizeof(bytes), .more = true};
	struct request *rq;
	unsigned before;

	open_one(1);
	fake_settle(b);
	rq = (struct request *)streams[0];
	ck_assert_int_eq(sl_reply(streams[0], &a), 0);
	ck_assert_int_eq(rq->room, 8);
	ck_assert_int_eq(sl_stream_send_continue(streams[0]), -EINVAL);
	ck_assert_int_eq(sl_reply_interim(streams[0], &(struct sl_reply_args){.status = 103}),
			 -EINVAL);
	rq->begun = false;
	rq->expects = true;
	ck_assert_int_eq(sl_stream_send_continue(streams[0]), 0);
	ck_assert_int_eq(sl_reply_interim(streams[0], &(struct sl_reply_args){.status = 103}), 0);
	ck_assert_int_eq(sl_reply(streams[0], &a), -EAGAIN);
	fake_settle(b);
	ck_assert_uint_eq(count_entries(&before), 1);
	ck_assert_uint_eq(before, 0);
	/* The credit that they would have used is back. */
	ck_assert_int_eq(rq->room, 8);
	fake_settle(b);
	ck_assert_uint_eq(told_writable, 1);
}

/* The rule of all functions of requests: after -EAGAIN nothing has happened, and on_writable follows. */
TEST(interim_reply_without_memory_can_be_repeated)
{
	static const struct sl_reply_args hint = {.status = 103};
	unsigned before;

	open_one(1);
	fake_settle(b);
	atomic_store(&b->foreign_used, SL_BE_REPLY_MEM);
	for (unsigned i = 0; i <= SL_RPC_MAX_INTERIM; i++)
		ck_assert_int_eq(sl_reply_interim(streams[0], &hint), -EAGAIN);
	ck_assert_int_eq(sl_stream_send_continue(streams[0]), -EAGAIN);
	ck_assert_int_eq(sl_be_reply_interim(streams[0], &hint, false), -ENOBUFS); /* version 1 */
	atomic_store(&b->foreign_used, 0);
	b->now_ns += SL_BE_WANT_NS;
	fake_settle(b);
	ck_assert_uint_eq(told_writable, 1);
	ck_assert_int_eq(sl_reply_interim(streams[0], &hint), 0);
	ck_assert_int_eq(sl_stream_send_continue(streams[0]), 0);
	fake_settle(b);
	(void)count_entries(&before);
	ck_assert_uint_eq(before, 2);
}

static pthread_barrier_t start;
static _Atomic unsigned went_on, hints;

static void *say_all(void *arg)
{
	for (unsigned i = 0; i < STREAMS; i++) {
		pthread_barrier_wait(&start);
		went_on += sl_stream_send_continue(streams[i]) == 0;
		for (unsigned k = 0; k < SL_RPC_MAX_INTERIM; k++)
			hints += sl_reply_interim(streams[i],
						  &(struct sl_reply_args){.status = 103}) == 0;
	}
	return arg;
}

TEST(the_number_of_interim_replies_is_limited)
{
	pthread_t threads[THREADS];
	unsigned before;

	for (uint64_t id = 1; id <= STREAMS; id++)
		open_one(id);
	while (stream_cnt < STREAMS)
		sl_backend_poll(b, 0);
	pthread_barrier_init(&start, NULL, THREADS);
	for (unsigned i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, say_all, NULL), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&start);
	fake_settle(b);
	ck_assert_uint_eq(went_on, STREAMS);
	ck_assert_uint_eq(hints, STREAMS * SL_RPC_MAX_INTERIM);
	ck_assert_uint_eq(count_entries(&before), went_on + hints);
	ck_assert_uint_eq(before, went_on + hints);
}
