/* SPDX-License-Identifier: Apache-2.0 */
/* Consistent hashing with bounded loads, alone and in a batcher. */
#include <stdio.h>

#include "batch/affinity.h"
#include "fixture.h"
#include "suite.h"

enum { KEYS = 20000 };

static const struct sl_cfg_batch direct = {.policy = SL_POLICY_DIRECT};
static char names[1024][16];
static struct sl_affinity_backend list[1024];
static bool down[1024];

FIXTURE(NULL, tear_down)

static struct sl_affinity *points_of(unsigned cnt)
{
	struct sl_affinity *a;

	for (unsigned i = 0; i < cnt; i++) {
		snprintf(names[i], sizeof(names[i]), "b%u", i);
		list[i] = (struct sl_affinity_backend){names[i], (uint16_t)i};
		down[i] = false;
	}
	a = sl_affinity_create(list, cnt);
	ck_assert_ptr_nonnull(a);
	return a;
}

static bool is_up(const void *arg, unsigned backend)
{
	(void)arg;
	return !down[backend];
}

static unsigned home(const struct sl_affinity *a, unsigned key)
{
	return sl_affinity_find(a, sl_affinity_mix(key + 1), is_up, NULL);
}

static const unsigned sizes[] = {1, 2, 3, 8, 50, 1024};

TEST_EACH(keys_are_spread, 6)
{
	unsigned cnt = sizes[_i], most = 0;
	unsigned got[1024] = {0};
	struct sl_affinity *a = points_of(cnt);

	for (unsigned k = 0; k < KEYS; k++)
		most = ++got[home(a, k)] > most ? got[home(a, k)] : most;
	/* The bound of loads does the rest. */
	ck_assert_uint_le(most, cnt > 100 ? 3 * KEYS / cnt : 13 * KEYS / cnt / 10);
	sl_affinity_destroy(a);
}

/* Only keys of the lost one move, and they come back with it. */
TEST_EACH(loss_moves_the_keys_of_one, 6)
{
	unsigned cnt = sizes[_i], moved = 0, lost = cnt / 2;
	struct sl_affinity *a = points_of(cnt);
	static unsigned before[KEYS];

	for (unsigned k = 0; k < KEYS; k++)
		before[k] = home(a, k);
	down[lost] = true;
	for (unsigned k = 0; k < KEYS; k++) {
		unsigned now = home(a, k);

		moved += before[k] != now;
		ck_assert(before[k] == lost ? now != lost : now == before[k]);
	}
	ck_assert_uint_le(moved, cnt > 100 ? 3 * KEYS / cnt : 13 * KEYS / cnt / 10);
	ck_assert_uint_gt(moved, 0);
	down[lost] = false;
	for (unsigned k = 0; k < KEYS; k++)
		ck_assert_uint_eq(home(a, k), before[k]);
	sl_affinity_destroy(a);
}

/* Numbers and order are of one configuration, names stay: a removed backend moves its keys only. */
TEST(homes_depend_on_names_only)
{
	struct sl_affinity *a = points_of(8), *other;

	for (unsigned i = 0; i < 7; i++) /* backwards, without b0 */
		list[i] = (struct sl_affinity_backend){names[7 - i], (uint16_t)i};
	other = sl_affinity_create(list, 7);
	for (unsigned k = 0; k < KEYS; k++) {
		unsigned was = home(a, k);

		if (was)
			ck_assert_uint_eq(home(other, k), 7 - was);
	}
	sl_affinity_destroy(a);
	sl_affinity_destroy(other);
}

TEST(load_is_bounded_by_the_average)
{
	ck_assert(sl_affinity_within(0, 0, 8));
	ck_assert(!sl_affinity_within(1, 1, 8));
	ck_assert(sl_affinity_within(1, 7, 8));
	ck_assert(sl_affinity_within(124, 799, 8));
	ck_assert(!sl_affinity_within(125, 799, 8));
	ck_assert(sl_affinity_within(UINT32_MAX - 1, UINT32_MAX, 1));
}

static void submit_key(unsigned key)
{
	sent_cnt = 0;
	ck_assert_int_eq(submit_item((struct sl_batch_item){.deadline_ns = UINT64_MAX,
							    .key = sl_affinity_mix(key + 1)}),
			 SL_OUTCOME_OK);
	sl_batcher_pump(b, now_ns);
}

static uint32_t requests_at(unsigned backend)
{
	uint32_t batches, requests;

	sl_batcher_outstanding(b, backend, &batches, &requests);
	return requests;
}

TEST(direct_requests_go_to_their_home)
{
	start(direct, 4);
	sl_batcher_set_affinity(b, points_of(4));
	for (unsigned k = 0; k < 200; k++) {
		unsigned at = sl_batcher_home(b, sl_affinity_mix(k % 10 + 1));

		now_ns += MS;
		submit_key(k % 10);
		ck_assert_uint_eq(requests_at(at), 1);
		sl_batcher_done(b, at, 1, now_ns, 1, MS, now_ns);
	}
}

/* All have one key: no backend gets more than 1.25 times the average. */
TEST_EACH(one_key_does_not_collapse_onto_a_backend, 4)
{
	static const unsigned cnts[] = {2, 3, 5, 8};
	unsigned cnt = cnts[_i];

	start(direct, cnt);
	sl_batcher_set_affinity(b, points_of(cnt));
	for (unsigned n = 1; n <= 160; n++) {
		now_ns += MS;
		submit_key(7);
		for (unsigned i = 0; i < cnt; i++)
			ck_assert_uint_le(4 * requests_at(i) * cnt, 5 * n + 4 * cnt - 1);
	}
	ck_assert_uint_ge(4 * requests_at(sl_batcher_home(b, sl_affinity_mix(8))) * cnt, 5 * 160);
}

TEST(backend_that_refused_a_request_is_not_its_home)
{
	unsigned at;

	start(direct, 3);
	sl_batcher_set_affinity(b, points_of(3));
	at = sl_batcher_home(b, sl_affinity_mix(1));
	ck_assert_int_eq(submit_item((struct sl_batch_item){.deadline_ns = UINT64_MAX,
							    .key = sl_affinity_mix(1),
							    .excluded = {(uint16_t)at},
							    .excluded_cnt = 1}),
			 SL_OUTCOME_OK);
	sl_batcher_pump(b, now_ns);
	ck_assert_uint_eq(requests_at(at), 0);
	sl_batcher_backend(b, at, false, now_ns);
	submit_key(0);
	ck_assert_uint_eq(requests_at(at), 0);
	ck_assert_uint_eq(requests_at(0) + requests_at(1) + requests_at(2), 2);
}

/* Requests of one batch have one home, as long as the loads allow it. */
TEST(batch_has_the_keys_of_its_backend)
{
	start((struct sl_cfg_batch){.policy = SL_POLICY_FIXED, .size = 8, .max_size = 8}, 4);
	sl_batcher_set_affinity(b, points_of(4));
	for (unsigned k = 0; k < 32; k++)
		ck_assert_int_eq(submit_item((struct sl_batch_item){.deadline_ns = UINT64_MAX,
								    .key = sl_affinity_mix(k + 1)}),
				 SL_OUTCOME_OK);
	sl_batcher_pump(b, now_ns);
	ck_assert_uint_gt(sent_cnt, 2);
	/* The first batch finds idle backends only: all of it is at home. */
	for (unsigned i = 0; i < sent[0].cnt; i++)
		ck_assert_uint_eq(sl_batcher_home(b, sent[0].items[i]->key), sent[0].backend);
	ck_assert_uint_eq(drops[SL_OUTCOME_NO_BACKEND], 0);
}
