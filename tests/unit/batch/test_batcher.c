/* SPDX-License-Identifier: Apache-2.0 */
/* The batcher and its controller: order, shares, overrides, policies. */
#include "fixture.h"
#include "suite.h"

FIXTURE(NULL, tear_down)

TEST(outstanding_is_counted_until_done_whatever_happens)
{
	start(adaptive, 1);
	teach(1);
	submit(5);
	pump(1);
	assert_outstanding(0, 1, 5);
	sl_batcher_backend(b, 0, false, now_ns); /* lost, or draining: not yet reported */
	assert_outstanding(0, 1, 5);
	answer(&sent[0], 0);
	assert_outstanding(0, 0, 0);
	sl_batcher_backend(b, 0, true, now_ns);
	submit(3);
	pump(1);
	assert_outstanding(0, 1, 3);
	answer(&sent[1], 0);
	assert_outstanding(0, 0, 0);
	ck_assert_uint_eq(live.in_flight, 0);
}

TEST(accounting_holds_under_chance)
{
	struct sl_prng rng;
	unsigned batches[BACKENDS] = {0}, requests[BACKENDS] = {0}, open = 0;
	uint64_t accounted = 0, refused = 0, asked = 0;

	start(adaptive, BACKENDS);
	sl_prng_seed(&rng, 11);
	for (int step = 0; step < 20000; step++) {
		unsigned before = sent_cnt, what = (unsigned)sl_prng_below(&rng, 10);

		refuse = sl_prng_below(&rng, 12) == 0 ? -EAGAIN : 0;
		most_items = sl_prng_below(&rng, 20) == 0 ? 3 : UINT32_MAX;
		if (what < 5) {
			uint64_t ends = what ? UINT64_MAX : now_ns + sl_prng_below(&rng, 40) * MS;

			if (sl_batcher_queue_len(b) + open >= ITEMS / 2)
				continue;
			asked++;
			if (submit_for((uint32_t)sl_prng_below(&rng, 9), ends) != SL_OUTCOME_OK)
				refused++;
		} else if (what == 5) {
			sl_batcher_backend(b, (unsigned)sl_prng_below(&rng, BACKENDS),
					   sl_prng_below(&rng, 4) != 0, now_ns);
		} else if (what < 8 && sent_cnt) {
			struct sent *s = &sent[sl_prng_below(&rng, sent_cnt)];

			answer(s, sl_prng_below(&rng, 3) ? takes(s->cnt) : 0);
			batches[s->backend]--;
			requests[s->backend] -= s->cnt;
			open -= s->cnt;
			accounted += s->cnt;
			*s = sent[--sent_cnt];
			before = sent_cnt;
		}
		pump(sl_prng_below(&rng, 2 * MS));
		for (; before < sent_cnt; before++) {
			batches[sent[before].backend]++;
			requests[sent[before].backend] += sent[before].cnt;
			open += sent[before].cnt;
		}
		for (unsigned i = 0; i < BACKENDS; i++) {
			ck_assert_uint_le(batches[i], 2);
			assert_outstanding(i, batches[i], requests[i]);
		}
	}
	for (unsigned i = 0; i < SL_OUTCOME_CNT; i++)
		accounted += drops[i];
	ck_assert_uint_eq(accounted + refused + open + sl_batcher_queue_len(b), asked);
	ck_assert_uint_gt(asked, 1000);
}

TEST(earliest_due_goes_first)
{
	start(adaptive, 1);
	teach(1);
	ctl.batch_size = 1;
	pump(200 * MS);
	submit_for(1, now_ns + 90 * MS);
	submit_for(2, now_ns + 30 * MS);
	submit_for(3, now_ns + 60 * MS);
	for (unsigned i = 0; i < 3; i++) {
		pump(1);
		ck_assert_uint_eq(sent_cnt, i + 1);
		now_ns += takes(1);
		answer(&sent[i], takes(1));
	}
	ck_assert_uint_eq(sent[0].items[0]->client, 2);
	ck_assert_uint_eq(sent[1].items[0]->client, 3);
	ck_assert_uint_eq(sent[2].items[0]->client, 1);
}

TEST(hopeless_requests_are_never_sent)
{
	start(adaptive, 1);
	teach(1);
	submit(4);
	pump(1); /* busy for 5 ms */
	ck_assert_uint_eq(sent_cnt, 1);
	submit_for(7, now_ns + 30 * MS);
	(void)submit_for(8, now_ns + 3 * MS);
	pump(1); /* it cannot be ready in time: dropped at once, not when its time is over */
	ck_assert_uint_eq(drops[SL_OUTCOME_SHED] + drops[SL_OUTCOME_EXPIRED], 1);
	now_ns += takes(4);
	answer(&sent[0], takes(4));
	pump(1);
	ck_assert_uint_eq(sent_cnt, 2);
	ck_assert_uint_eq(sent[1].cnt, 1);
	ck_assert_uint_eq(sent[1].items[0]->client, 7);
	ck_assert_int_eq(submit_for(9, now_ns), SL_OUTCOME_EXPIRED);
}

/* Whatever is sent is expected in time, and under overload much is sent, the rest refused early. */
TEST(overload_is_shed_early_and_the_rest_is_in_time)
{
	unsigned first = 0, good = 0, late = 0;
	uint64_t ends_ns = 0;

	start(adaptive, 1);
	teach(1);
	for (unsigned ms = 0; ms < 3000; ms++) {
		for (unsigned k = 0; k < 8; k++) /* about 3.5 a ms can be served */
			(void)submit_for(k, UINT64_MAX);
		pump(MS);
		if (sent_cnt > first && !ends_ns)
			ends_ns = now_ns + takes(sent[first].cnt);
		if (ends_ns && now_ns >= ends_ns) {
			for (unsigned i = 0; i < sent[first].cnt; i++) {
				bool ok = now_ns <= sent[first].items[i]->due_ns + MS;

				good += ok;
				late += !ok;
			}
			answer(&sent[first], takes(sent[first].cnt));
			ends_ns = 0;
			first++;
			if (sent_cnt > first)
				ends_ns = now_ns + takes(sent[first].cnt);
		}
		if (first == sent_cnt)
			first = sent_cnt = 0;
		if (sent_cnt >= SENT_MAX - 2) {
			memmove(sent, &sent[first], (sent_cnt - first) * sizeof(sent[0]));
			sent_cnt -= first;
			first = 0;
		}
	}
	ck_assert_uint_gt(good, 9000);
	ck_assert_uint_lt(late, good / 100);
	ck_assert_uint_eq(drops[SL_OUTCOME_EXPIRED], 0);
	ck_assert_uint_gt(live.shed_level, 20000);
	ck_assert_uint_lt(live.shed_level, 65536);
	/* The load goes away: so does the level, although nothing arrives. */
	for (unsigned i = 0; i < 4000 && live.shed_level; i++) {
		ck_assert_uint_ne(sl_batcher_next_ns(b), UINT64_MAX);
		for (; first < sent_cnt; first++)
			answer(&sent[first], takes(sent[first].cnt));
		first = sent_cnt = 0;
		pump(MS);
	}
	ck_assert_uint_eq(live.shed_level, 0);
}

TEST(flood_of_one_client_leaves_room_for_others)
{
	unsigned of_flood = 0, of_others = 0;

	start((struct sl_cfg_batch){.policy = SL_POLICY_FIXED, .size = 64}, 1);
	refuse = -EAGAIN;
	for (unsigned i = 0; i < 3 * QUEUE; i++)
		(void)submit_for(1, UINT64_MAX);
	ck_assert_uint_eq(sl_batcher_queue_len(b), QUEUE);
	for (unsigned i = 0; i < 100; i++)
		ck_assert_int_eq(submit_for(2 + i % 2, UINT64_MAX), SL_OUTCOME_OK);
	ck_assert_uint_eq(drops[SL_OUTCOME_FAIR_SHARE], 100); /* all of them of the flood */
	ck_assert_int_eq(submit_for(1, UINT64_MAX), SL_OUTCOME_FAIR_SHARE);
	for (unsigned i = 0; i < 3 * QUEUE; i++)
		of_flood += sl_batcher_queued(&items[i]);
	for (unsigned i = 3 * QUEUE; i < item_cnt; i++)
		of_others += sl_batcher_queued(&items[i]);
	ck_assert_uint_eq(of_flood, QUEUE - 100);
	ck_assert_uint_eq(of_others, 100);
}

/* A thousand unproven names, each with one request, against a client with a few. */
TEST(spoofed_flood_does_not_push_out_a_client)
{
	unsigned of_client = 0;

	start((struct sl_cfg_batch){.policy = SL_POLICY_FIXED, .size = 64}, 1);
	refuse = -EAGAIN;
	for (unsigned i = 0; i < 5; i++)
		ck_assert_int_eq(submit_for(77, UINT64_MAX), SL_OUTCOME_OK);
	for (unsigned i = 0; i < 2 * QUEUE; i++)
		(void)submit_unproven(1000 + i);
	ck_assert_uint_eq(sl_batcher_queue_len(b), QUEUE);
	ck_assert_int_eq(submit_unproven(1), SL_OUTCOME_QUEUE_FULL);
	for (unsigned i = 0; i < 5; i++)
		ck_assert_int_eq(submit_for(77, UINT64_MAX), SL_OUTCOME_OK);
	for (unsigned i = 0; i < item_cnt; i++)
		of_client += items[i].queued && items[i].client == 77;
	ck_assert_uint_eq(of_client, 10);
	ck_assert_uint_eq(drops[SL_OUTCOME_QUEUE_FULL], 5); /* the newest of the flood */
}

TEST(shares_are_even_in_any_order_of_arrival)
{
	struct sl_prng rng;
	unsigned cnt[4] = {0};

	start((struct sl_cfg_batch){.policy = SL_POLICY_FIXED, .size = 64}, 1);
	refuse = -EAGAIN;
	sl_prng_seed(&rng, 5);
	for (unsigned i = 0; i < ITEMS - 1; i++) {
		uint64_t r = sl_prng_below(&rng, 100);

		(void)submit_for(r < 70 ? 0 : r < 80 ? 1 : r < 90 ? 2 : 3, UINT64_MAX);
	}
	for (unsigned i = 0; i < item_cnt; i++) {
		if (sl_batcher_queued(&items[i]))
			cnt[items[i].client]++;
	}
	for (unsigned i = 0; i < 4; i++) {
		ck_assert_uint_ge(cnt[i], QUEUE / 4 - 2);
		ck_assert_uint_le(cnt[i], QUEUE / 4 + 2);
	}
}

TEST(operator_overrides_within_a_period)
{
	start(adaptive, 1);
	teach(1);
	ctl = (struct sl_svc_ctl){.batch_size = 3, .shed_level = 1 + 30000, .bound_ns = 500 * MS};
	pump(10 * MS + 1);
	pump(200 * MS);
	ck_assert_uint_eq(live.batch_cap, 3);
	ck_assert_uint_eq(live.shed_level, 30000);
	ck_assert_uint_eq(live.bound_ns, 500 * MS);
	submit(10);
	pump(1);
	ck_assert_uint_eq(sent[0].cnt, 3);
	ck_assert_uint_eq(sent[0].items[0]->due_ns, sent[0].items[0]->arrived_ns + 500 * MS);
	now_ns += takes(3);
	answer(&sent[0], takes(3));
	ctl = (struct sl_svc_ctl){.batch_size = 0};
	pump(10 * MS); /* control returns */
	ck_assert_uint_eq(sent[1].cnt, 7);
	ck_assert_uint_gt(live.batch_cap, 10);
	ck_assert_uint_eq(live.shed_level, 0);
	ck_assert_uint_eq(live.bound_ns, 100 * MS);
	ck_assert_uint_eq(live.seq % 2, 0);
}

TEST(nonsense_in_the_map_does_no_harm)
{
	struct sl_prng rng;

	start(adaptive, 1);
	sl_prng_seed(&rng, 99);
	for (int i = 0; i < 3000; i++) {
		ctl = (struct sl_svc_ctl){.batch_size = (uint32_t)sl_prng_u64(&rng),
					  .shed_level = (uint32_t)sl_prng_u64(&rng),
					  .hold_ns = sl_prng_u64(&rng) >> sl_prng_below(&rng, 64),
					  .bound_ns = sl_prng_u64(&rng) >> sl_prng_below(&rng, 64),
					  .deadline_ns =
						  sl_prng_u64(&rng) >> sl_prng_below(&rng, 64)};
		if (i % 7 == 0)
			live.batch_cap = (uint32_t)sl_prng_u64(&rng);
		(void)submit_for(1, UINT64_MAX);
		pump(20 * MS);
		ck_assert_uint_le(live.shed_level, 65536);
		while (sent_cnt) {
			ck_assert_uint_le(sent[sent_cnt - 1].cnt, pool.batch.max_size);
			answer(&sent[--sent_cnt], 5 * MS);
		}
	}
}

TEST(published_size_is_the_one_in_force)
{
	start(adaptive, 1);
	teach(1);
	pump(200 * MS);
	submit(20);
	live.batch_cap = 6; /* as if the controller had said so */
	pump(1);
	ck_assert_uint_eq(sent[0].cnt, 6);
}

TEST(forced_hold_keeps_a_batch_open)
{
	start(adaptive, 1);
	teach(1);
	ctl.hold_ns = 1 + 20 * MS;
	pump(200 * MS);
	submit(2);
	pump(1);
	ck_assert_uint_eq(sent_cnt, 0);
	ck_assert_uint_le(sl_batcher_next_ns(b), now_ns + 20 * MS);
	submit(2);
	pump(20 * MS);
	ck_assert_uint_eq(sent_cnt, 1);
	ck_assert_uint_eq(sent[0].cnt, 4);
}

TEST(fixed_waits_for_size_or_delay)
{
	start((struct sl_cfg_batch){.policy = SL_POLICY_FIXED, .size = 4, .delay_ns = 10 * MS}, 1);
	submit(3);
	pump(1);
	ck_assert_uint_eq(sent_cnt, 0);
	submit(1);
	pump(1);
	ck_assert_uint_eq(sent[0].cnt, 4);
	now_ns += 5 * MS;
	answer(&sent[0], 5 * MS);
	submit(2);
	/* A worker polls on for a while after what the batcher's own time has sent. */
	ck_assert_uint_eq(pump(9 * MS), 0);
	ck_assert_uint_eq(sent_cnt, 1);
	ck_assert_uint_eq(pump(MS), 2);
	ck_assert_uint_eq(sent_cnt, 2);
	ck_assert_uint_eq(sent[1].cnt, 2);
	ck_assert_uint_eq(pump(1), 0);
}

TEST(aimd_grows_by_one_and_shrinks_by_a_tenth)
{
	unsigned size;

	start((struct sl_cfg_batch){.policy = SL_POLICY_AIMD}, 1);
	ctl.bound_ns = 10000 * MS;
	pump(200 * MS);
	for (unsigned i = 0; i < 30; i++) {
		submit(40 - sl_batcher_queue_len(b));
		sent_cnt = 0;
		pump(10 * MS);
		ck_assert_uint_eq(sent[0].cnt, i + 1);
		for (unsigned k = 0; k < sent_cnt; k++)
			sent[k].over = false;
		answer(&sent[0], 10 * MS);
		if (sent_cnt == 2) /* not full when answered: no second step */
			sl_batcher_done(b, 0, sent[1].cnt, sent[1].at_ns, 0, 0, now_ns);
	}
	submit(40 - sl_batcher_queue_len(b));
	sent_cnt = 0;
	pump(10 * MS);
	size = sent[0].cnt;
	answer(&sent[0], 5100 * MS); /* more than half of the bound */
	pump(10 * MS);
	ck_assert_uint_eq(live.batch_cap, size * 9 / 10);
}

TEST(routes_choose_their_policy)
{
	struct sl_batch_item *it = &items[ITEMS - 1];

	start((struct sl_cfg_batch){.policy = SL_POLICY_ADAPTIVE, .size = 2, .delay_ns = 50 * MS},
	      2);
	*it = (struct sl_batch_item){.deadline_ns = UINT64_MAX, .policy = SL_POLICY_FIXED};
	ck_assert_int_eq(sl_batcher_submit(b, it, now_ns), SL_OUTCOME_OK);
	submit(1);
	pump(1);
	ck_assert_uint_eq(sent_cnt, 1); /* the adaptive one; the other waits for a second */
	ck_assert_ptr_eq(sent[0].items[0], &items[0]);
	ck_assert_uint_eq(it->due_ns, UINT64_MAX); /* no bound under this policy */
	pump(50 * MS);
	ck_assert_uint_eq(sent_cnt, 2);
	ck_assert_ptr_eq(sent[1].items[0], it);
}

TEST(second_batch_is_sent_ahead_of_the_end)
{
	start(adaptive, 1);
	teach(1);
	submit(1);
	pump(1);
	ck_assert(sl_batcher_replied(b, 0, sent[0].at_ns, 2 * MS)); /* worth it */
	answer(&sent[0], takes(1));
	sent_cnt = 0;
	pump(200 * MS);
	submit(8); /* 6 ms */
	pump(1);
	ck_assert_uint_eq(sent_cnt, 1);
	submit(3);
	pump(1);
	ck_assert_uint_eq(sent_cnt, 1); /* not yet: it can still grow */
	submit(3);
	ck_assert_uint_lt(sl_batcher_next_ns(b), now_ns + 6 * MS);
	pump(4 * MS);
	ck_assert_uint_eq(sent_cnt, 1);
	pump(2 * MS);
	ck_assert_uint_eq(sent_cnt, 2);
	ck_assert_uint_eq(sent[1].cnt, 6);
	submit(1);
	pump(20 * MS);
	ck_assert_uint_eq(sent_cnt, 2); /* never three */
}

/* The first one goes alone, so that a round trip is measured; but its handler may keep it for ever. */
TEST_EACH(requests_do_not_wait_for_a_lost_batch, 2)
{
	start(_i ? (struct sl_cfg_batch){.policy = SL_POLICY_FIXED, .size = 4} : adaptive, 1);
	teach(1);
	pump(600 * MS);
	submit(4);
	pump(1);
	ck_assert_uint_eq(sent_cnt, 1);
	submit(1);
	pump(takes(4));
	ck_assert_uint_eq(sent_cnt, 1); /* it ends any moment */
	ck_assert_uint_lt(sl_batcher_next_ns(b), now_ns + 20 * MS);
	pump(20 * MS);
	ck_assert_uint_eq(sent_cnt, 2);
	for (unsigned i = 1; i < 10; i++) {
		now_ns += takes(1);
		answer(&sent[i], takes(1));
		submit(1);
		pump(_i ? 20 * MS : 1);
		ck_assert_uint_eq(sent_cnt, i + 2);
	}
	answer(&sent[0], 0);
}

TEST(request_is_not_sent_to_where_it_failed)
{
	start(adaptive, 2);
	for (unsigned i = 0; i < 6; i++) {
		items[i] = (struct sl_batch_item){.deadline_ns = UINT64_MAX,
						  .policy = -1,
						  .excluded = {i % 2 ? 0 : 1},
						  .excluded_cnt = 1};
		ck_assert_int_eq(sl_batcher_submit(b, &items[i], now_ns), SL_OUTCOME_OK);
	}
	pump(1);
	ck_assert_uint_eq(sent_cnt, 2);
	for (unsigned k = 0; k < 2; k++) {
		ck_assert_uint_ge(sent[k].cnt, 1);
		for (unsigned i = 0; i < sent[k].cnt; i++)
			ck_assert(!sl_batch_excludes(sent[k].items[i], sent[k].backend));
	}
	for (unsigned k = 0; k < 2; k++)
		answer(&sent[k], 0);
	refuse = -EAGAIN;
	items[6] = (struct sl_batch_item){
		.deadline_ns = UINT64_MAX, .policy = -1, .excluded = {1}, .excluded_cnt = 1};
	ck_assert_int_eq(sl_batcher_submit(b, &items[6], now_ns), SL_OUTCOME_OK);
	sl_batcher_backend(b, 0, false, now_ns); /* its last chance */
	ck_assert_uint_eq(drops[SL_OUTCOME_NO_BACKEND], 1);
	ck_assert(!sl_batcher_queued(&items[6]));
}

/* Whatever decides when it goes; but what queues at its backend may wait for one to come back. */
TEST_EACH(request_without_an_allowed_backend_is_dropped, SL_POLICY_CNT)
{
	start((struct sl_cfg_batch){.policy = (enum sl_policy)_i, .size = 8}, 2);
	refuse = -EAGAIN;
	items[0] = (struct sl_batch_item){
		.deadline_ns = UINT64_MAX, .policy = -1, .excluded = {1}, .excluded_cnt = 1};
	ck_assert_int_eq(sl_batcher_submit(b, &items[0], now_ns), SL_OUTCOME_OK);
	sl_batcher_backend(b, 0, false, now_ns);
	ck_assert_uint_eq(drops[SL_OUTCOME_NO_BACKEND], _i != SL_POLICY_DIRECT);
}

/* Whatever decides when they go, and whether others may come in place of those that went. */
TEST_EACH(without_a_backend_requests_wait_for_a_while, 2 * SL_POLICY_CNT)
{
	start((struct sl_cfg_batch){.policy = (enum sl_policy)(_i / 2), .max_size = 32, .size = 8},
	      3);
	pool.subset = _i % 2 ? 2 : 0;
	for (unsigned i = 0; i < 3; i++)
		sl_batcher_backend(b, i, false, now_ns);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(submit_for(i, now_ns + 5000 * MS), SL_OUTCOME_OK);
	pump(1);
	ck_assert_uint_le(sl_batcher_next_ns(b), now_ns + 2000 * MS);
	pump(1900 * MS);
	ck_assert_uint_eq(sl_batcher_queue_len(b), 3);
	ck_assert_int_eq(submit_for(4, UINT64_MAX), SL_OUTCOME_OK);
	pump(200 * MS);
	ck_assert_uint_eq(drops[SL_OUTCOME_NO_BACKEND], 3);
	ck_assert_uint_eq(sent_cnt, 0);
	sl_batcher_backend(b, 2, true, now_ns);
	pump(1);
	ck_assert_uint_eq(sent_cnt, 1);
	ck_assert_uint_eq(drops[SL_OUTCOME_NO_BACKEND], 3);
	ck_assert_uint_eq(drops[SL_OUTCOME_SHED], 0);
}

/* A pool whose backends have been away for long is not restarting. */
TEST(after_a_long_outage_requests_are_refused_at_once_until_a_backend_is_up)
{
	start(adaptive, 1);
	sl_batcher_backend(b, 0, false, now_ns);
	pump(9999 * MS);
	ck_assert_int_eq(submit_for(1, UINT64_MAX), SL_OUTCOME_OK);
	pump(1 * MS);
	ck_assert_int_eq(submit_for(2, UINT64_MAX), SL_OUTCOME_NO_BACKEND);
	sl_batcher_backend(b, 0, true, now_ns);
	sl_batcher_backend(b, 0, false, now_ns);
	ck_assert_int_eq(submit_for(3, UINT64_MAX), SL_OUTCOME_OK);
}

TEST(request_waiting_for_another_backend_is_sent_to_it)
{
	start(adaptive, 3);
	pool.subset = 2;
	sl_batcher_backend(b, 2, false, now_ns);
	refuse = -EAGAIN;
	items[0] = (struct sl_batch_item){
		.deadline_ns = UINT64_MAX, .policy = -1, .excluded = {1}, .excluded_cnt = 1};
	ck_assert_int_eq(sl_batcher_submit(b, &items[0], now_ns), SL_OUTCOME_OK);
	sl_batcher_backend(b, 1, false, now_ns);
	/* The last one has failed it, and is about to be down. */
	items[2] = (struct sl_batch_item){
		.deadline_ns = UINT64_MAX, .policy = -1, .excluded = {1, 0}, .excluded_cnt = 2};
	ck_assert_int_eq(sl_batcher_submit(b, &items[2], now_ns), SL_OUTCOME_OK);
	sl_batcher_backend(b, 0, false, now_ns);
	ck_assert(sl_batcher_queued(&items[0]) && sl_batcher_queued(&items[2]));
	refuse = 0;
	sl_batcher_backend(b, 2, true, now_ns);
	pump(1);
	ck_assert_uint_eq(sent[0].backend, 2);
	/* But not to one that has failed it, when that is the first to come. */
	answer(&sent[0], 0);
	sl_batcher_backend(b, 2, false, now_ns);
	items[1] = (struct sl_batch_item){
		.deadline_ns = UINT64_MAX, .policy = -1, .excluded = {1}, .excluded_cnt = 1};
	ck_assert_int_eq(sl_batcher_submit(b, &items[1], now_ns), SL_OUTCOME_OK);
	sl_batcher_backend(b, 1, true, now_ns);
	pump(1);
	ck_assert_uint_eq(drops[SL_OUTCOME_NO_BACKEND], 1);
}

TEST(backend_that_failed_a_request_is_not_idle_for_it)
{
	start(adaptive, 2);
	for (unsigned i = 0; i < 2; i++) {
		items[i] = (struct sl_batch_item){.deadline_ns = UINT64_MAX,
						  .policy = -1,
						  .excluded = {1},
						  .excluded_cnt = 1};
		ck_assert_int_eq(sl_batcher_submit(b, &items[i], now_ns), SL_OUTCOME_OK);
		ck_assert_int_eq(items[i].found_idle, !i);
		pump(1);
		ck_assert_uint_eq(sent[0].backend, 0);
	}
}

TEST(batch_that_no_message_holds_is_cut)
{
	start((struct sl_cfg_batch){.policy = SL_POLICY_FIXED, .size = 32}, 1);
	most_items = 10;
	submit(32);
	pump(1);
	ck_assert_uint_eq(sent[0].cnt, 8);
	ck_assert_uint_eq(sl_batcher_queue_len(b), 24);
	answer(&sent[0], 5 * MS);
	most_items = 0; /* not even one */
	pump(1);
	ck_assert_uint_eq(drops[SL_OUTCOME_TOO_LARGE], 24);
}

TEST(idle_batcher_looks_at_the_map_now_and_then)
{
	start(adaptive, 1);
	ck_assert_uint_le(sl_batcher_next_ns(b), now_ns + 200 * MS);
	ctl.shed_level = 65537;
	now_ns = sl_batcher_next_ns(b);
	sl_batcher_pump(b, now_ns);
	ck_assert_uint_eq(live.shed_level, 65536);
}
