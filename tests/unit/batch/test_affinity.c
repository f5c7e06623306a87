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

TEST(load_is_bounded_by_the_average_and_its_deviation)
{
	ck_assert(sl_affinity_within(0, 0, 8));
	ck_assert(sl_affinity_within(1, 1, 8));
	ck_assert(!sl_affinity_within(2, 1, 8));
	ck_assert(sl_affinity_within(143, 799, 8)); /* 1.25 * 100 + 2 * sqrt(87.5) = 143.7 */
	ck_assert(!sl_affinity_within(144, 799, 8));
	ck_assert(sl_affinity_within(UINT32_MAX - 1, UINT32_MAX, 1));
	ck_assert(sl_affinity_below_mean(99, 799, 8));
	ck_assert(!sl_affinity_below_mean(100, 799, 8));
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

/* All have one key: it is spread evenly, once it is known to be hot. */
TEST_EACH(one_key_does_not_collapse_onto_a_backend, 4)
{
	static const unsigned cnts[] = {2, 3, 5, 8};
	unsigned cnt = cnts[_i];

	start(direct, cnt);
	sl_batcher_set_affinity(b, points_of(cnt));
	for (unsigned n = 1; n <= 160; n++) {
		now_ns += MS;
		submit_key(7);
		if (n == 1)
			ck_assert_uint_eq(requests_at(sl_batcher_home(b, sl_affinity_mix(8))), 1);
		for (unsigned i = 0; n >= 32 && i < cnt; i++)
			ck_assert_uint_le(requests_at(i), (n + cnt - 1) / cnt);
	}
}

/* A key is not hot for long after its requests have ended. */
TEST(hot_key_has_one_home_again)
{
	struct sl_affinity *a = points_of(8);
	uint64_t hot = sl_affinity_mix(1);

	for (unsigned n = 0; n < 3; n++)
		sl_affinity_note(a, hot, 8);
	ck_assert_uint_eq(sl_affinity_homes(a, hot, 8), 1);
	for (unsigned n = 0; n < 997; n++)
		sl_affinity_note(a, n % 2 ? hot : sl_affinity_mix(n + 2), 8);
	ck_assert_uint_ge(sl_affinity_homes(a, hot, 8), 16);
	ck_assert_uint_eq(sl_affinity_homes(a, sl_affinity_mix(4), 8), 1);
	for (unsigned n = 0; n < 8000; n++)
		sl_affinity_note(a, sl_affinity_mix(n + 2000), 8);
	ck_assert_uint_eq(sl_affinity_homes(a, hot, 8), 1);
	sl_affinity_destroy(a);
}

/* Others that collide take the place of the rarest. */
TEST(hot_key_stays_among_many_others)
{
	struct sl_affinity *a = points_of(8);
	uint64_t hot = sl_affinity_mix(1);

	for (unsigned n = 0; n < 20000; n++) {
		sl_affinity_note(a, hot % 1024 + ((uint64_t)n << 48 | (uint64_t)n << 16), 8);
		if (n % 8 == 0)
			sl_affinity_note(a, hot, 8);
	}
	ck_assert_uint_ge(sl_affinity_homes(a, hot, 8), 4);
	sl_affinity_destroy(a);
}

static bool is_home(const void *arg, unsigned backend)
{
	return *(const unsigned *)arg == backend;
}

TEST(homes_are_the_first_different_backends)
{
	struct sl_affinity *a = points_of(8);

	for (unsigned key = 1; key < 200; key++) {
		uint64_t hash = sl_affinity_mix(key);
		unsigned found[9] = {0};

		for (unsigned cnt = 1; cnt <= 8; cnt++) {
			for (unsigned i = 0; i < 8; i++)
				found[cnt] +=
					sl_affinity_find_among(a, hash, cnt, is_home, &i) == i;
			ck_assert_uint_eq(found[cnt], cnt);
		}
		ck_assert_uint_eq(sl_affinity_find_among(a, hash, 1, is_up, NULL),
				  sl_affinity_find(a, hash, is_up, NULL));
	}
	sl_affinity_destroy(a);
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
