/* SPDX-License-Identifier: Apache-2.0 */
/* Token buckets of many clients: rates, replacement, open requests, several threads. */
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/rand.h"
#include "core/quota_table.h"
#include "suite.h"

#define S  SL_NS_PER_SEC
#define MS SL_NS_PER_MS

static struct sl_quota_table *t;
static uint64_t now;

static void set_up(void)
{
	t = sl_quota_table_new(16384);
	ck_assert_ptr_nonnull(t);
	now = 1000 * S;
}

static void tear_down(void)
{
	sl_quota_table_put(t);
}

static uint64_t hash_of(uint64_t client)
{
	return sl_siphash13_words(&t->key, &client, 1);
}

/* 10 requests a second, 20 at once. */
static bool admits(uint64_t client)
{
	return !sl_quota_take(sl_quota_find(t, hash_of(client), now), S / 10, 0, 2 * S, now);
}

FIXTURE(set_up, tear_down)

TEST(a_bucket_gives_its_burst_and_then_its_rate)
{
	unsigned n = 0;

	while (admits(1))
		n++;
	ck_assert_uint_eq(n, 20);
	for (unsigned i = 0; i < 100; i++) {
		now += S / 10;
		ck_assert(admits(1) && !admits(1));
	}
	now += 3600 * S; /* it fills up to its burst and no more */
	for (n = 0; admits(1);)
		n++;
	ck_assert_uint_eq(n, 20);
}

TEST(a_refusal_says_when_the_bucket_has_a_token)
{
	struct sl_quota_bucket *b = sl_quota_find(t, hash_of(1), now);
	uint64_t wait;

	for (unsigned i = 0; i < 20; i++)
		ck_assert(admits(1));
	now += 30 * MS;
	wait = sl_quota_take(b, S / 10, 0, 2 * S, now);
	ck_assert_uint_eq(wait, 70 * MS);
	now += wait - 1;
	ck_assert(!admits(1));
	now += 1;
	ck_assert(admits(1));
}

TEST(returned_tokens_can_be_taken_again)
{
	for (unsigned i = 0; i < 20; i++)
		ck_assert(admits(1));
	sl_quota_return(sl_quota_find(t, hash_of(1), now), S / 10);
	ck_assert(admits(1) && !admits(1));
}

TEST(charges_make_debts_up_to_their_limit)
{
	struct sl_quota_bucket *b = sl_quota_find(t, hash_of(1), now);

	sl_quota_charge(b, 5 * S, 10 * S, now);
	ck_assert_uint_eq(sl_quota_take(b, 0, S / 10, 2 * S, now), 3 * S + S / 10);
	sl_quota_charge(b, UINT64_MAX, 10 * S, now);
	ck_assert_uint_eq(sl_quota_take(b, 0, S / 10, 2 * S, now), 8 * S + S / 10);
	now += 8 * S + S / 10;
	ck_assert_uint_eq(sl_quota_take(b, 0, S / 10, 2 * S, now), 0); /* takes none */
	ck_assert_uint_eq(sl_quota_take(b, 0, S / 10, 2 * S, now), 0);
}

/*
 * Ten seconds: 10,000 clients ask 5 times a second each, which their rate allows, and one 20,000
 * times a second.
 */
TEST(ten_thousand_clients_keep_their_share_beside_a_greedy_one)
{
	uint64_t others = 0, greedy = 0;

	for (unsigned tick = 0; tick < 50; tick++, now += S / 5) {
		for (uint64_t client = 1; client <= 10000; client++) {
			others += admits(client);
			greedy += (client & 1) && admits(0);
		}
	}
	ck_assert_uint_eq(others, 500000);
	ck_assert_uint_eq(greedy, 20 + 98); /* its burst, and 9.8 s of its rate */
	ck_assert_uint_eq(t->evicted, 0);
}

/* Each new client of the attacker has a full bucket, and replaces such ones. */
TEST(many_new_clients_do_not_give_a_greedy_one_its_burst_again)
{
	unsigned n = 0;

	while (admits(0))
		n++;
	for (uint64_t client = 1; client <= 1000000; client++) {
		ck_assert(admits(client));
		n += client % 100 == 0 && admits(0);
	}
	ck_assert_uint_eq(n, 20);
	ck_assert_uint_gt(t->evicted, 900000); /* buckets that lacked a token */
}

TEST(full_buckets_are_replaced_without_a_loss)
{
	for (uint64_t client = 0; client < 100000; client++) {
		ck_assert(admits(client));
		now += S / 5000;
	}
	ck_assert_uint_eq(t->evicted, 0);
}

TEST(a_table_takes_its_clients_with_few_replacements)
{
	for (uint64_t client = 0; client < 16384; client++)
		ck_assert(admits(client));
	ck_assert_uint_lt(t->evicted, 16384 / 256);
}

TEST(open_requests_are_counted_and_limited)
{
	for (unsigned i = 0; i < 8; i++)
		ck_assert(sl_quota_open(t, hash_of(1), 8, now));
	ck_assert(!sl_quota_open(t, hash_of(1), 8, now));
	ck_assert(sl_quota_open(t, hash_of(2), 8, now));
	sl_quota_close(t, hash_of(1));
	ck_assert(sl_quota_open(t, hash_of(1), 8, now) && !sl_quota_open(t, hash_of(1), 8, now));
}

TEST(clients_with_open_requests_are_not_replaced)
{
	for (uint64_t client = 0; client < 1000; client++)
		ck_assert(sl_quota_open(t, hash_of(client), 1, now));
	for (uint64_t client = 1000; client < 500000; client++)
		ck_assert(admits(client));
	for (uint64_t client = 0; client < 1000; client++)
		ck_assert(!sl_quota_open(t, hash_of(client), 1, now));
	for (uint64_t client = 0; client < 1000; client++)
		sl_quota_close(t, hash_of(client));
	for (uint64_t client = 0; client < 1000; client++)
		ck_assert(sl_quota_open(t, hash_of(client), 1, now));
}

TEST(a_close_without_an_open_request_changes_nothing)
{
	sl_quota_close(t, hash_of(1));
	ck_assert(admits(1));
	sl_quota_close(t, hash_of(1));
	ck_assert(sl_quota_open(t, hash_of(1), 1, now) && !sl_quota_open(t, hash_of(1), 1, now));
}

enum { THREADS = 4, TURNS = 200000 };

static void *take_many(void *arg)
{
	uint64_t *admitted = arg;

	for (unsigned i = 0; i < TURNS; i++) {
		*admitted += admits(i % 8);
		sl_quota_find(t, hash_of(100 + i % 30000), now);
		if (sl_quota_open(t, hash_of(50), 3, now))
			sl_quota_close(t, hash_of(50));
	}
	return NULL;
}

/* The time stands still: all workers together give each of the 8 clients its burst. */
TEST(workers_share_a_bucket)
{
	pthread_t threads[THREADS];
	uint64_t admitted[THREADS] = {0}, all = 0;

	for (uint64_t client = 0; client < 8; client++)
		ck_assert(admits(client));
	ck_assert(sl_quota_open(t, hash_of(50), 3, now));
	for (unsigned i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, take_many, &admitted[i]), 0);
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		all += admitted[i];
	}
	ck_assert_uint_eq(all, 8 * 19);
	ck_assert(sl_quota_open(t, hash_of(50), 2, now) && !sl_quota_open(t, hash_of(50), 2, now));
}

static void *charge_many(void *arg)
{
	for (unsigned i = 0; i < TURNS; i++) {
		sl_quota_charge(arg, 2, UINT64_MAX, now);
		ck_assert_uint_eq(sl_quota_take(arg, 2, 0, UINT64_MAX, now), 0);
		sl_quota_return(arg, 1);
	}
	return NULL;
}

TEST(no_token_of_two_workers_is_lost)
{
	struct sl_quota_bucket *b = sl_quota_find(t, hash_of(1), now);
	pthread_t threads[THREADS];

	for (unsigned i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, charge_many, b), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_eq(b->full_ns, now + UINT64_C(3) * THREADS * TURNS);
}
