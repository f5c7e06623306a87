/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of a service against a plain list of what is in it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/rand.h"
#include "batch/queue.h"
#include "alloc.h"
#include "suite.h"
#include "unit.h"

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
		unit_check(first->due_ns < items[i].due_ns ||
			   (first->due_ns == items[i].due_ns &&
			    first->queued_ns <= items[i].queued_ns));
	}
	unit_check(q.lanes[lane].len == len);
	unit_check(len || !first);
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
		unit_check(sl_queue_share_cnt(&q, &(struct sl_batch_item){.client = c}) == cnt[c]);
		most = cnt[c] > most ? cnt[c] : most;
		active += cnt[c] != 0;
	}
	unit_check(q.heaviest == most);
	unit_check(q.active == active);
	unit_check(most ? cnt[heavy->client] == most : !heavy);
	for (unsigned i = 0; i < CAP && heavy; i++) /* its newest */
		unit_check(!items[i].queued || items[i].client != heavy->client ||
			   items[i].queued_ns <= heavy->queued_ns);
}

FIXTURE(set_up, tear_down)

TEST(order_and_shares_hold_under_chance)
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

TEST(unproven_sources_have_one_share)
{
	for (unsigned i = 0; i < 10; i++) {
		items[i] = (struct sl_batch_item){
			.client = i, .unproven = true, .due_ns = 1, .queued_ns = i};
		sl_queue_push(&q, &items[i]);
	}
	for (unsigned i = 10; i < 14; i++)
		put(i, 0, 3, 1, i);
	ck_assert_uint_eq(q.active, 2);
	ck_assert_uint_eq(sl_queue_share_cnt(&q, &items[0]), 10);
	ck_assert_uint_eq(sl_queue_share_cnt(&q, &items[10]), 4);
	ck_assert_ptr_eq(sl_queue_heaviest(&q), &items[9]);
	for (unsigned i = 0; i < 7; i++)
		sl_queue_remove(&q, &items[i]);
	ck_assert_ptr_eq(sl_queue_heaviest(&q), &items[13]);
}

/* As many as may wait, and more names than any table of hashes would keep apart. */
TEST(no_client_shares_its_share)
{
	for (unsigned round = 0; round < 50; round++) {
		for (unsigned i = 0; i < CAP; i++)
			put(i, 0, (uint32_t)sl_prng_u64(&rng), 1, i);
		ck_assert_uint_eq(q.active, CAP);
		ck_assert_uint_eq(q.heaviest, 1);
		for (unsigned i = 0; i < CAP; i++) {
			ck_assert_uint_eq(sl_queue_share_cnt(&q, &items[i]), 1);
			sl_queue_remove(&q, &items[i]);
		}
		ck_assert_uint_eq(q.active, 0);
	}
}

TEST(removal_is_undone)
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

TEST(reorder_follows_new_due_times)
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

/* A service that a reload ends takes its queue along. */
TEST(a_queue_that_ends_gives_back_its_memory)
{
	struct sl_batch_queue other;
	long before = allocs_alive;

	ck_assert_int_eq(sl_queue_init(&other, CAP, 5), 0);
	ck_assert_int_gt(allocs_alive, before);
	sl_queue_fini(&other);
	ck_assert_int_eq(allocs_alive, before);
}

/* Each allocation that fails, in turn. */
TEST(queue_init_fails_without_memory)
{
	struct sl_batch_queue other;
	long before = allocs_alive;
	int rc;

	for (unsigned n = 0;; n++) {
		allocs_left = n;
		rc = sl_queue_init(&other, CAP, 5);
		allocs_left = UINT32_MAX;
		if (rc == 0)
			break;
		ck_assert_int_eq(rc, -ENOMEM);
		ck_assert_int_eq(allocs_alive, before);
	}
	sl_queue_fini(&other);
	ck_assert_int_eq(allocs_alive, before);
}
