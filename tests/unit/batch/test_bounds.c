/* SPDX-License-Identifier: Apache-2.0 */
/* The batcher: bounds that cannot be kept, deadlines, what to expect of backends, plans. */
#include "batch/internal.h"
#include "fixture.h"
#include "suite.h"

FIXTURE(NULL, tear_down)

/* A bound that cannot be kept must not mean that nothing is served, and what was slow once is tried
 * again. */
TEST(impossible_bound_is_widened)
{
	start(adaptive, 1);
	for (unsigned i = 0; i < 20; i++) {
		submit(1);
		pump(1);
		ck_assert_uint_eq(sent_cnt, 1);
		now_ns += 300 * MS;
		answer(&sent[--sent_cnt], 300 * MS);
		pump(10 * MS);
	}
	ck_assert_uint_gt(live.bound_ns, 600 * MS);
	/* A request with a hopeless deadline of its own is refused, but for one try a second. */
	ck_assert_int_eq(submit_for(1, now_ns + 50 * MS), SL_OUTCOME_SHED);
	now_ns += 2000 * MS;
	ck_assert_int_eq(submit_for(1, now_ns + 50 * MS), SL_OUTCOME_OK);
	pump(1);
	ck_assert_uint_eq(sent_cnt, 1);
}

/* Requests that wait before anything is known are not judged by a bound that may be impossible. */
TEST(slow_backend_sheds_nothing_at_first)
{
	start(adaptive, 1);
	submit(1);
	pump(1);
	submit(7);
	for (unsigned ms = 0; ms < 300; ms++)
		pump(MS);
	answer(&sent[0], 300 * MS);
	submit(1); /* before the controller's next look */
	pump(1);
	for (unsigned i = 1; i < sent_cnt; i++) {
		now_ns += 320 * MS;
		answer(&sent[i], 320 * MS);
		pump(1);
	}
	for (unsigned why = 0; why < SL_OUTCOME_CNT; why++)
		ck_assert_uint_eq(drops[why], 0);
	ck_assert_uint_eq(sl_batcher_queue_len(b), 0);
	ck_assert_uint_gt(live.bound_ns, 600 * MS);
}

/* Whatever is believed of the backend, and whatever the bound. */
TEST(idle_backend_and_empty_queue_never_shed)
{
	struct sl_prng rng;

	start(adaptive, 2);
	sl_prng_seed(&rng, 21);
	for (unsigned i = 0; i < 5000; i++) {
		uint64_t took = MS / 4 << sl_prng_below(&rng, 12);

		if (i % 50 == 0)
			ctl.bound_ns = MS << sl_prng_below(&rng, 10);
		submit(1);
		pump(0);
		ck_assert_uint_eq(sent_cnt, 1);
		if (sl_prng_below(&rng, 4) == 0)
			(void)submit_for(2, UINT64_MAX); /* this one may be */
		now_ns += took;
		answer(&sent[0], took);
		sent[0] = sent[--sent_cnt];
		while (sl_batcher_queue_len(b) || sent_cnt) {
			pump(MS);
			while (sent_cnt)
				answer(&sent[--sent_cnt], MS);
		}
	}
}

/* A request late already when it comes (the worker was held up) is sent as well. */
TEST(late_request_is_sent_if_nothing_is_in_its_way)
{
	struct sl_batch_item *it = &items[ITEMS - 1];

	start(adaptive, 1);
	teach(1);
	*it = (struct sl_batch_item){
		.deadline_ns = UINT64_MAX, .arrived_ns = now_ns - 150 * MS, .policy = -1};
	ck_assert_int_eq(sl_batcher_submit(b, it, now_ns), SL_OUTCOME_OK);
	pump(0);
	ck_assert_uint_eq(sent_cnt, 1);
	answer(&sent[0], takes(1));
	/* But a request that cannot meet its own deadline is: the result would be useless. */
	ck_assert_int_eq(submit_for(1, now_ns + MS), SL_OUTCOME_SHED);
}

TEST(slow_backend_then_fast_recovers)
{
	unsigned waiting = 8, served = 0;
	uint64_t ends_ns = 0;

	start(adaptive, 1);
	for (unsigned ms = 0; ms < 6000; ms++) {
		uint64_t took = ms < 4000 ? 300 * MS : 2 * MS;

		for (; waiting; waiting--) /* refused clients come back in the next millisecond */
			(void)submit_for(waiting, UINT64_MAX);
		pump(MS);
		if (sent_cnt && !ends_ns)
			ends_ns = now_ns + took;
		if (ends_ns && now_ns >= ends_ns) {
			if (ms >= 5000)
				served += sent[0].cnt;
			answer(&sent[0], took);
			sent[0] = sent[1];
			ends_ns = --sent_cnt ? now_ns + took : 0;
		}
		waiting = 8 - sl_batcher_queue_len(b);
		for (unsigned i = 0; i < sent_cnt; i++)
			waiting -= waiting < sent[i].cnt ? waiting : sent[i].cnt;
	}
	ck_assert_uint_eq(drops[SL_OUTCOME_SHED] + drops[SL_OUTCOME_EXPIRED], 0);
	ck_assert_uint_gt(served, 1500);
	ck_assert_uint_eq(live.bound_ns, 100 * MS);
}

TEST(wider_bound_applies_to_queued_requests)
{
	start(adaptive, 1);
	teach(1);
	submit(4);
	pump(1);
	submit_for(2, UINT64_MAX);
	now_ns++;
	submit_for(1, now_ns + 300 * MS); /* due after the one before, but for the wider bound */
	ctl.bound_ns = 1000 * MS;
	pump(11 * MS);
	ck_assert_uint_eq(items[(item_cnt - 2) % ITEMS].due_ns,
			  items[(item_cnt - 2) % ITEMS].arrived_ns + 1000 * MS);
	ctl.batch_size = 1;
	pump(1);
	answer(&sent[0], takes(4));
	for (unsigned i = 1; i < 3; i++) {
		static const uint32_t order[] = {0, 1, 2};

		pump(11 * MS);
		ck_assert_uint_eq(sent[i].items[0]->client, order[i]);
		answer(&sent[i], takes(1));
	}
}

/* The operator's deadline is one like a client's. */
TEST(forced_deadline_is_kept)
{
	start(adaptive, 1);
	teach(1);
	ctl.deadline_ns = 20 * MS;
	pump(200 * MS);
	submit(3);
	pump(1);
	ck_assert_uint_eq(sent[0].items[0]->deadline_ns, sent[0].items[0]->arrived_ns + 20 * MS);
	(void)submit_for(9, UINT64_MAX);
	pump(25 * MS);
	ck_assert_uint_eq(drops[SL_OUTCOME_EXPIRED], 1);
}

/*
 * The backend merges each batch with as many requests of another gateway: alpha and beta are what
 * they are, and the plan leaves room for the others.
 */
TEST(merged_batches_do_not_skew_the_fit)
{
	uint32_t alone;

	start(adaptive, 1);
	teach(1);
	pump(11 * MS);
	alone = live.batch_cap;
	for (unsigned i = 0; i < 200; i++) {
		unsigned cnt = 1 + i % 16;

		submit(cnt);
		pump(1);
		ck_assert_uint_eq(sent_cnt, 1);
		now_ns += takes(cnt + 20);
		answer_merged(&sent[--sent_cnt], cnt + 20, takes(cnt + 20));
		pump(MS);
	}
	pump(200 * MS);
	ck_assert_uint_gt(live.alpha_ns, 3 * MS);
	ck_assert_uint_lt(live.alpha_ns, 5 * MS);
	ck_assert_uint_gt(live.beta_ns, MS / 5);
	ck_assert_uint_lt(live.beta_ns, MS / 3);
	ck_assert_uint_lt(live.dev_ns, MS / 4);
	ck_assert_uint_ge(live.batch_cap + 21, alone);
	ck_assert_uint_le(live.batch_cap + 18, alone);
	/* One that has less time left than the others take is hopeless behind them. */
	submit(1);
	pump(1);
	ck_assert_int_eq(submit_for(1, now_ns + takes(21) + takes(5)), SL_OUTCOME_SHED);
}

/* Larger than any batch of ours may be, and however large a backend claims. */
TEST(merged_batches_may_be_of_any_size)
{
	start(adaptive, 1);
	for (unsigned i = 0; i < 50; i++) {
		submit(1);
		pump(1);
		now_ns += takes(200);
		answer_merged(&sent[--sent_cnt], i % 10 ? 200 : UINT32_MAX, takes(200));
		pump(MS);
	}
	ck_assert_uint_ge(live.batch_cap, 1);
	ck_assert_uint_le(live.batch_cap, 64);
}

/* Clients that come back at once after each refusal must not keep a wrong notion alive. */
TEST(one_pause_is_forgotten)
{
	unsigned served = 0;

	start(adaptive, 1);
	teach(1);
	for (unsigned i = 0; i < 8; i++) { /* the backend is stopped for a while */
		submit(1);
		pump(1);
		ck_assert_uint_eq(sent_cnt, 1);
		now_ns += 400 * MS;
		answer(&sent[--sent_cnt], 400 * MS);
		pump(10 * MS);
	}
	for (unsigned ms = 0; ms < 3000; ms++) {
		for (unsigned k = 0; k < 20; k++)
			(void)submit_for(k, now_ns + 80 * MS);
		pump(MS);
		while (sent_cnt) {
			served += ms >= 2000 ? sent[sent_cnt - 1].cnt : 0;
			now_ns += takes(sent[sent_cnt - 1].cnt);
			sent_cnt--;
			answer(&sent[sent_cnt], takes(sent[sent_cnt].cnt));
		}
	}
	ck_assert_uint_gt(served, 1000);
}

/* --- expectations and plans --- */

TEST(faster_backend_is_preferred)
{
	unsigned of[2] = {0, 0};

	start(adaptive, 2);
	for (unsigned i = 0; i < 300; i++) {
		submit(1 + i % 8 * 2);
		pump(1);
		while (sl_batcher_queue_len(b) || sent_cnt) {
			while (sent_cnt) {
				struct sent *s = &sent[--sent_cnt];
				uint64_t took = takes(s->cnt) * (s->backend ? 3 : 1);

				of[s->backend] += i >= 250;
				now_ns += took;
				answer(s, took);
			}
			pump(MS);
		}
	}
	ck_assert_uint_ge(of[0], 40);
	ck_assert_uint_eq(of[1], 0); /* idle both of them, so nothing goes to the slow one */
}

TEST(backend_without_credit_is_left_alone_for_a_while)
{
	start(adaptive, 1);
	refuse = -EAGAIN;
	submit(1);
	pump(1);
	ck_assert_uint_eq(send_calls, 1);
	pump(1);
	pump(1);
	ck_assert_uint_eq(send_calls, 1);
	ck_assert_uint_le(sl_batcher_next_ns(b), now_ns + MS);
	pump(MS);
	ck_assert_uint_eq(send_calls, 2);
}

TEST(batch_that_is_late_may_be_later_still)
{
	start(adaptive, 1);
	teach(1);
	submit(4);
	pump(1);
	pump(takes(4) + 20 * MS);
	ck_assert_int_eq(submit_for(1, now_ns + 15 * MS), SL_OUTCOME_SHED);
	ck_assert_int_eq(submit_for(1, now_ns + 40 * MS), SL_OUTCOME_OK);
}

/* Margins are for those that stand in line. */
TEST(tight_deadline_on_an_idle_backend_is_tried)
{
	start(adaptive, 1);
	teach(1);
	for (unsigned i = 0; i < 60; i++) {
		uint64_t took = takes(1) + i % 2 * MS;

		submit(1);
		pump(1);
		now_ns += took;
		answer(&sent[--sent_cnt], took);
	}
	ck_assert_uint_gt(live.dev_ns, MS / 4);
	submit_for(1, now_ns + takes(1) + MS);
	pump(0);
	ck_assert_uint_eq(sent_cnt, 1);
}

TEST(second_batch_may_end_first)
{
	start((struct sl_cfg_batch){.policy = SL_POLICY_FIXED, .size = 4}, 1);
	submit(4);
	pump(1);
	submit(4);
	pump(1);
	ck_assert_uint_eq(sent_cnt, 2);
	ck_assert(sl_batcher_replied(b, 0, sent[0].at_ns, 0));
	ck_assert(!sl_batcher_replied(b, 0, sent[1].at_ns, 0));
	answer(&sent[1], 0); /* cancelled */
	assert_outstanding(0, 1, 4);
	ck_assert(sl_batcher_replied(b, 0, sent[0].at_ns, 0));
	answer(&sent[0], takes(4));
}

TEST(sizes_are_explored_by_doubling)
{
	start(adaptive, 1);
	submit(60);
	for (unsigned i = 0, most = 4; i < 4; i++, most *= 2) {
		pump(11 * MS);
		ck_assert_uint_eq(sent_cnt, i + 1);
		ck_assert_uint_eq(sent[i].cnt, most);
		now_ns += takes(most);
		answer(&sent[i], takes(most));
	}
}

/* A request waits for the batch before its own, then for its own. */
TEST(two_batches_fit_in_the_bound)
{
	start(adaptive, 1);
	teach(1);
	ctl.bound_ns = 22 * MS;
	for (unsigned i = 0; i < 100; i++) /* nothing arrives */
		pump(10 * MS);
	pump(200 * MS);
	ck_assert_uint_ge(live.batch_cap, 24);
	ck_assert_uint_le(live.batch_cap, 28); /* 11 ms */
}

/* 4 ms and a quarter each: at one a millisecond batches of 6 keep up, with 5 % to spare. */
TEST(smallest_size_that_keeps_up_is_reported)
{
	uint64_t ends_ns = 0;

	start(adaptive, 1);
	teach(1);
	for (unsigned i = 0; i < 6000; i++) {
		submit(1);
		pump(MS / 2);
		pump(MS / 2);
		if (sent_cnt && !ends_ns)
			ends_ns = sent[0].at_ns + takes(sent[0].cnt);
		if (sent_cnt && now_ns >= ends_ns) {
			answer(&sent[0], takes(sent[0].cnt));
			sent[0] = sent[1];
			ends_ns = --sent_cnt ? now_ns + takes(sent[0].cnt) : 0;
		}
	}
	ck_assert_uint_ge(live.batch_low, 5);
	ck_assert_uint_le(live.batch_low, 7);
	ck_assert_uint_gt(live.arrival_mhz, 900 * 1000);
	ck_assert_uint_lt(live.arrival_mhz, 1100 * 1000);
}

TEST(slack_may_be_spent_on_larger_batches)
{
	start((struct sl_cfg_batch){.policy = SL_POLICY_ADAPTIVE, .eta = 0.5}, 1);
	for (unsigned i = 0; i < 40; i++) {
		submit(1 + i % 8);
		pump(60 * MS);
		while (sent_cnt) {
			now_ns += takes(sent[sent_cnt - 1].cnt);
			sent_cnt--;
			answer(&sent[sent_cnt], takes(sent[sent_cnt].cnt));
		}
	}
	pump(200 * MS);
	submit(1);
	pump(20 * MS);
	ck_assert_uint_eq(sent_cnt, 0);
	submit(1);
	pump(MS);
	ck_assert_uint_eq(sent_cnt, 0);
	ck_assert_uint_lt(sl_batcher_next_ns(b), now_ns + 30 * MS);
	pump(30 * MS);
	ck_assert_uint_eq(sent_cnt, 1);
	ck_assert_uint_eq(sent[0].cnt, 2);
}

/* Under overload the oldest, which no batch worth its time can have, goes for the newest. */
TEST(oldest_goes_for_the_newest_under_overload)
{
	uint64_t ends_ns = 0, newest_ns = 0;
	unsigned first = 0;

	start(adaptive, 1);
	teach(1);
	ctl.bound_ns = 22 * MS; /* one batch in the line */
	for (unsigned ms = 0; ms < 2000; ms++) {
		for (unsigned k = 0; k < 12; k++)
			(void)submit_for(k, UINT64_MAX);
		pump(MS);
		if (sent_cnt > first && !ends_ns)
			ends_ns = now_ns + takes(sent[first].cnt);
		if (ends_ns && now_ns >= ends_ns) {
			uint64_t least_ns = UINT64_MAX;

			for (unsigned i = 0; i < sent[first].cnt; i++) {
				uint64_t waited =
					sent[first].at_ns - sent[first].items[i]->arrived_ns;

				least_ns = waited < least_ns ? waited : least_ns;
			}
			if (ms > 1000 && least_ns > newest_ns)
				newest_ns = least_ns;
			answer(&sent[first], takes(sent[first].cnt));
			ends_ns = 0;
			first++;
		}
		if (first == sent_cnt)
			first = sent_cnt = 0;
	}
	ck_assert_uint_le(newest_ns, 2 * MS); /* each batch has the newest */
	ck_assert_uint_gt(drops[SL_OUTCOME_SHED], 0);
}

/* So many batches of its own are enough to conclude from, and no fewer. */
TEST(a_backend_is_tested_by_its_eighth_batch)
{
	start(adaptive, 1);
	for (unsigned i = 0; i < 8; i++) {
		ck_assert(sl_expect_untested(b, 0, now_ns));
		submit(1);
		pump(1);
		ck_assert_uint_eq(sent_cnt, 1);
		now_ns += takes(1);
		answer(&sent[0], takes(1));
		sent_cnt = 0;
	}
	ck_assert(!sl_expect_untested(b, 0, now_ns));
}

/* A bound that no backend can keep is widened by what the fastest one takes, and by how that varies. */
TEST(widened_bound_includes_the_margin)
{
	double least, dev;

	start(adaptive, 1);
	ctl.bound_ns = 2 * MS;
	for (unsigned i = 0; i < 60; i++) {
		uint64_t ns = takes(1) + i % 2 * MS;

		submit(1);
		pump(MS);
		for (unsigned k = 0; k < sent_cnt; k++) {
			now_ns += ns;
			answer(&sent[k], ns);
		}
		sent_cnt = 0;
	}
	dev = b->controller.backends[0].fit.dev_ns;
	ck_assert_double_gt(dev, (double)MS / 8);
	least = 4 * b->controller.summary.fastest_ns + b->controller.rtt_ns;
	ck_assert_double_ge(b->controller.bound_ns, least + (double)MS / 8);
}
