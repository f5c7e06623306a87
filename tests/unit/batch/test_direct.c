/* SPDX-License-Identifier: Apache-2.0 */
/* A direct pool: each request goes to the least loaded backend at once. */
#include "fixture.h"
#include "suite.h"

static const struct sl_cfg_batch direct = {.policy = SL_POLICY_DIRECT};

FIXTURE(NULL, tear_down)

static void submit_many(unsigned cnt)
{
	for (unsigned i = 0; i < cnt; i++)
		ck_assert_int_eq(submit_for(i, UINT64_MAX), SL_OUTCOME_OK);
	sl_batcher_pump(b, now_ns);
	ck_assert_uint_eq(sl_batcher_queue_len(b), 0);
}

static void outstanding(unsigned backend, uint32_t batches, uint32_t requests)
{
	uint32_t have_batches, have_requests;

	sl_batcher_outstanding(b, backend, &have_batches, &have_requests);
	ck_assert_uint_eq(have_batches, batches);
	ck_assert_uint_eq(have_requests, requests);
}

TEST(direct_requests_do_not_wait)
{
	start(direct, 1);
	for (unsigned i = 0; i < 50; i++) {
		now_ns += MS;
		submit_many(1);
	}
	outstanding(0, 50, 50);
	/* In any order, and whatever it took. */
	sl_batcher_done(b, 0, 1, sent[40].at_ns, 1, 900 * MS, now_ns);
	sl_batcher_done(b, 0, 1, sent[3].at_ns, 0, 0, now_ns);
	outstanding(0, 48, 48);
	submit_many(1);
	outstanding(0, 49, 49);
}

TEST(simultaneous_requests_are_spread)
{
	start(direct, 3);
	submit_many(30);
	for (unsigned i = 0; i < 3; i++)
		outstanding(i, 1, 10);
	sl_batcher_done(b, 1, 10, now_ns, 10, MS, now_ns);
	submit_many(1);
	outstanding(1, 1, 1);
	submit_many(60); /* at most 64 in a batch */
	outstanding(0, 2, 30);
}

/* One request at a time: no backend is left out because another one is asked first. */
TEST(a_low_load_goes_to_each_of_equal_backends)
{
	unsigned got[3] = {0};

	start(direct, 3);
	sl_batcher_seed(b, 7);
	for (unsigned i = 0; i < 60; i++) {
		now_ns += MS;
		submit_many(1);
		got[sent[sent_cnt - 1].backend]++;
		sl_batcher_done(b, sent[sent_cnt - 1].backend, 1, now_ns, 1, MS, now_ns);
	}
	for (unsigned i = 0; i < 3; i++)
		ck_assert_uint_ge(got[i], 10);
}

TEST(one_without_credit_is_left_alone_for_a_while)
{
	start(direct, 1);
	refuse = -EAGAIN;
	ck_assert_int_eq(submit_for(1, UINT64_MAX), SL_OUTCOME_OK);
	sl_batcher_pump(b, now_ns);
	ck_assert_uint_eq(send_calls, 1);
	ck_assert_uint_lt(sl_batcher_next_ns(b), now_ns + MS);
	sl_batcher_pump(b, now_ns);
	ck_assert_uint_eq(send_calls, 1);
	refuse = 0;
	now_ns += MS;
	sl_batcher_pump(b, now_ns);
	outstanding(0, 1, 1);
}

TEST(a_backend_that_goes_down_gets_no_more)
{
	start(direct, 2);
	submit_many(2);
	sl_batcher_backend(b, 0, false, now_ns);
	submit_many(4);
	outstanding(0, 1, 1);
	outstanding(1, 2, 5);
	sl_batcher_done(b, 0, 1, now_ns, 0, 0, now_ns);
	outstanding(0, 0, 0);
}

/* The server behind a backend may restart meanwhile; requests that wait longer are refused. */
TEST(without_a_backend_requests_wait_for_a_while)
{
	start(direct, 1);
	sl_batcher_backend(b, 0, false, now_ns);
	ck_assert_int_eq(submit_for(1, UINT64_MAX), SL_OUTCOME_OK);
	sl_batcher_pump(b, now_ns);
	ck_assert_uint_le(sl_batcher_next_ns(b), now_ns + 2000 * MS);
	now_ns += 1900 * MS;
	sl_batcher_pump(b, now_ns);
	ck_assert_uint_eq(drops[SL_OUTCOME_NO_BACKEND], 0);
	ck_assert_int_eq(submit_for(2, UINT64_MAX), SL_OUTCOME_OK);
	now_ns += 200 * MS;
	sl_batcher_pump(b, now_ns);
	ck_assert_uint_eq(drops[SL_OUTCOME_NO_BACKEND], 1);
	sl_batcher_backend(b, 0, true, now_ns);
	sl_batcher_pump(b, now_ns);
	outstanding(0, 1, 1);
}

/* One that has failed a request before is better than none. */
TEST(a_request_may_return_to_the_only_backend)
{
	start(direct, 2);
	ck_assert_int_eq(submit_item((struct sl_batch_item){
				 .deadline_ns = UINT64_MAX, .excluded = {0}, .excluded_cnt = 1}),
			 SL_OUTCOME_OK);
	sl_batcher_pump(b, now_ns);
	outstanding(1, 1, 1);
	sl_batcher_backend(b, 1, false, now_ns);
	ck_assert_int_eq(submit_item((struct sl_batch_item){
				 .deadline_ns = UINT64_MAX, .excluded = {0}, .excluded_cnt = 1}),
			 SL_OUTCOME_OK);
	sl_batcher_pump(b, now_ns);
	outstanding(0, 1, 1);
}

/* A reload may change the kind: what is on its way is counted as what it was. */
TEST(batches_of_another_kind_before_a_reload_end_as_theirs)
{
	struct sl_batcher *old;
	struct sl_cfg_pool next;

	start(adaptive, 1);
	ck_assert_int_eq(submit_for(1, UINT64_MAX), SL_OUTCOME_OK);
	sl_batcher_pump(b, now_ns);
	ck_assert_uint_eq(sent_cnt, 1);
	next = pool;
	next.batch.policy = SL_POLICY_DIRECT;
	old = b;
	b = sl_batcher_create_next(&next, 1, 0, &ops, NULL, &live, &ctl);
	sl_batcher_take_over(b, old);
	sl_batcher_destroy(old);
	now_ns += MS;
	submit_many(5);
	outstanding(0, 2, 6);
	sl_batcher_done(b, 0, 1, sent[0].at_ns, 1, MS, now_ns);
	outstanding(0, 1, 5);
	sl_batcher_done(b, 0, 5, sent[1].at_ns, 1, MS, now_ns);
	outstanding(0, 0, 0);
}

TEST(expired_requests_are_not_sent)
{
	start(direct, 1);
	ck_assert_int_eq(submit_for(1, now_ns + MS), SL_OUTCOME_OK);
	now_ns += 2 * MS;
	sl_batcher_pump(b, now_ns);
	ck_assert_uint_eq(drops[SL_OUTCOME_EXPIRED], 1);
	ck_assert_uint_eq(send_calls, 0);
}
