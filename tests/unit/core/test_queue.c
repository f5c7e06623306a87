/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of a service against a plain list of what is in it. */
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "base/rand.h"
#include "core/queue.h"

enum { CAP = 200, CLIENTS = 6 };

static struct sl_batch_queue q;
static struct sl_batch_item items[CAP];
static struct sl_prng rng;

static void set_up(void)
{
	ck_assert_int_eq(sl_queue_init(&q, CAP, 5), 0);
	memset(items, 0, sizeof(items));
	sl_prng_seed(&rng, 31);
}

static void tear_down(void)
{
	sl_queue_fini(&q);
}

static void put(unsigned i, unsigned lane, uint32_t client, uint64_t due_ns, uint64_t queued_ns)
{
	items[i] = (struct sl_batch_item){
		.lane = (uint8_t)lane, .client = client, .due_ns = due_ns, .queued_ns = queued_ns};
	sl_queue_push(&q, &items[i]);
}

static void assert_first_is_least(unsigned lane)
{
	const struct sl_batch_item *first = sl_lane_first(&q.lanes[lane]);
	uint32_t len = 0;

	for (unsigned i = 0; i < CAP; i++) {
		if (!items[i].queued || items[i].lane != lane)
			continue;
		len++;
		ck_assert(first->due_ns < items[i].due_ns ||
			  (first->due_ns == items[i].due_ns &&
			   first->queued_ns <= items[i].queued_ns));
	}
	ck_assert_uint_eq(q.lanes[lane].len, len);
	ck_assert(len || !first);
}

static void assert_shares(void)
{
	uint32_t cnt[CLIENTS] = {0}, most = 0, active = 0;
	const struct sl_batch_item *heavy = sl_queue_heaviest(&q);

	for (unsigned i = 0; i < CAP; i++) {
		if (items[i].queued)
			cnt[items[i].client]++;
	}
	for (uint32_t c = 0; c < CLIENTS; c++) {
		ck_assert_uint_eq(sl_queue_client_cnt(&q, c), cnt[c]);
		most = cnt[c] > most ? cnt[c] : most;
		active += cnt[c] != 0;
	}
	ck_assert_uint_eq(q.heaviest, most);
	ck_assert_uint_eq(q.active, active);
	ck_assert(most ? cnt[heavy->client] == most : !heavy);
	for (unsigned i = 0; i < CAP && heavy; i++) /* its newest */
		ck_assert(!items[i].queued || items[i].client != heavy->client ||
			  items[i].queued_ns <= heavy->queued_ns);
}

START_TEST(order_and_shares_hold_under_chance)
{
	for (unsigned step = 0; step < 20000; step++) {
		unsigned i = (unsigned)sl_prng_below(&rng, CAP);

		if (items[i].queued)
			sl_queue_remove(&q, &items[i]);
		else if (sl_prng_below(&rng, 10) < 9)
			put(i, (unsigned)sl_prng_below(&rng, SL_LANES),
			    (uint32_t)sl_prng_below(&rng, CLIENTS), sl_prng_below(&rng, 50), step);
		for (unsigned lane = 0; lane < SL_LANES; lane++)
			assert_first_is_least(lane);
		if (step % 7 == 0)
			assert_shares();
	}
}
END_TEST

START_TEST(removal_is_undone)
{
	for (unsigned i = 0; i < 4; i++)
		put(i, 0, 1, 10, i);
	sl_queue_remove(&q, &items[0]);
	sl_queue_remove(&q, &items[1]);
	sl_queue_push_back(&q, &items[1]);
	sl_queue_push_back(&q, &items[0]);
	ck_assert_ptr_eq(sl_lane_first(&q.lanes[0]), &items[0]);
	ck_assert_ptr_eq(sl_lane_oldest(&q.lanes[0]), &items[0]);
	ck_assert_ptr_eq(sl_queue_heaviest(&q), &items[3]);
	assert_shares();
}
END_TEST

START_TEST(reorder_follows_new_due_times)
{
	for (unsigned round = 0; round < 200; round++) {
		unsigned cnt = 1 + (unsigned)sl_prng_below(&rng, CAP);

		for (unsigned i = 0; i < cnt; i++)
			put(i, 0, 1, sl_prng_below(&rng, 1000), i);
		for (unsigned i = 0; i < cnt; i++)
			items[i].due_ns = sl_prng_below(&rng, 1000);
		sl_queue_reorder(&q, 0);
		while (q.len) {
			assert_first_is_least(0);
			sl_queue_remove(&q, sl_lane_first(&q.lanes[0]));
		}
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("queue");
	SRunner *sr = srunner_create(s);
	TCase *tc = tcase_create("queue");
	int failed;

	tcase_add_checked_fixture(tc, set_up, tear_down);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, order_and_shares_hold_under_chance);
	tcase_add_test(tc, removal_is_undone);
	tcase_add_test(tc, reorder_follows_new_due_times);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
