/* SPDX-License-Identifier: Apache-2.0 */
/* ring.h and mpsc.h */
#include "base/ring.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "base/mpsc.h"
#include "base/rand.h"
#include "unit.h"
#include "suite.h"

TEST(capacity_must_be_a_power_of_two)
{
	errno = 0;
	ck_assert_ptr_null(sl_ring_new(0));
	ck_assert_ptr_null(sl_ring_new(3));
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_ptr_null(sl_mpsc_new(1));
	ck_assert_ptr_null(sl_mpsc_new(6));
}

TEST(a_ring_fills_to_capacity_and_wraps)
{
	struct sl_ring *r = sl_ring_new(4);
	uint64_t in[6] = {1, 2, 3, 4, 5, 6}, out[6], next_in = 0, next_out = 0;
	struct sl_prng rnd;

	unit_check((uintptr_t)r % SL_CACHELINE == 0);
	unit_check(sl_ring_put_burst(r, in, 6) == 4);
	unit_check(sl_ring_count(r) == 4);
	unit_check(!sl_ring_put(r, 9));
	unit_check(sl_ring_get_burst(r, out, 6) == 4);
	ck_assert_mem_eq(in, out, 4 * sizeof(*in));
	unit_check(sl_ring_get_burst(r, out, 6) == 0);

	sl_prng_seed(&rnd, 1);
	for (int i = 0; i < 100000; i++) {
		uint32_t n = (uint32_t)sl_prng_below(&rnd, 7), did;

		for (uint32_t k = 0; k < n && k < 6; k++)
			in[k] = next_in + k;
		next_in += sl_ring_put_burst(r, in, n < 6 ? n : 6);
		unit_check(sl_ring_count(r) == next_in - next_out);
		did = sl_ring_get_burst(r, out, (uint32_t)sl_prng_below(&rnd, 6));
		for (uint32_t k = 0; k < did; k++)
			unit_check(out[k] == next_out++);
	}
	sl_ring_free(r);
}

TEST(indices_wrap_at_32_bits)
{
	struct sl_ring *r = sl_ring_new(8);
	uint64_t v;

	atomic_store(&r->head, UINT32_MAX - 2);
	atomic_store(&r->tail, UINT32_MAX - 2);
	r->head_seen = r->tail_seen = UINT32_MAX - 2;
	for (uint64_t i = 0; i < 8; i++)
		ck_assert(sl_ring_put(r, i));
	ck_assert(!sl_ring_put(r, 8));
	ck_assert_uint_eq(sl_ring_count(r), 8);
	for (uint64_t i = 0; i < 8; i++) {
		ck_assert(sl_ring_get(r, &v));
		ck_assert_uint_eq(v, i);
	}
	ck_assert(!sl_ring_get(r, &v));
	sl_ring_free(r);
}

TEST(a_ring_of_pointers_gives_back_the_same_pointers)
{
	struct sl_mpsc *q = sl_mpsc_new(2);
	int x;

	ck_assert_ptr_null(sl_mpsc_get_ptr(q));
	ck_assert(sl_mpsc_put_ptr(q, &x));
	ck_assert(sl_mpsc_put_ptr(q, &x));
	ck_assert(!sl_mpsc_put_ptr(q, &x));
	ck_assert_ptr_eq(sl_mpsc_get_ptr(q), &x);
	sl_mpsc_free(q);
}

enum { WORDS = 2000000, PRODUCERS = 3, EACH = 500000 };

static void *feed_ring(void *arg)
{
	struct sl_ring *r = arg;
	uint64_t v[8], next = 0;

	while (next < WORDS) {
		uint32_t n = next % 8 + 1, put;

		for (uint32_t k = 0; k < n; k++)
			v[k] = next + k;
		put = sl_ring_put_burst(r, v, n < WORDS - next ? n : (uint32_t)(WORDS - next));
		next += put;
		if (!put)
			sched_yield();
	}
	return NULL;
}

TEST(two_threads_see_every_word_once_in_order)
{
	struct sl_ring *r = sl_ring_new(64);
	uint64_t v[16], next = 0;
	pthread_t t;

	unit_check(pthread_create(&t, NULL, feed_ring, r) == 0);
	while (next < WORDS) {
		uint32_t n = sl_ring_get_burst(r, v, 16);

		for (uint32_t k = 0; k < n; k++)
			unit_check(v[k] == next++);
		if (!n)
			sched_yield();
	}
	pthread_join(t, NULL);
	unit_check(sl_ring_count(r) == 0);
	sl_ring_free(r);
}

TEST(mpsc_fills_and_wraps)
{
	struct sl_mpsc *q = sl_mpsc_new(4);
	uint64_t v;

	ck_assert(!sl_mpsc_get(q, &v));
	for (uint64_t round = 0; round < 10; round++) {
		for (uint64_t i = 0; i < 4; i++)
			ck_assert(sl_mpsc_put(q, round * 4 + i));
		ck_assert(!sl_mpsc_put(q, 99));
		for (uint64_t i = 0; i < 4; i++) {
			ck_assert(sl_mpsc_get(q, &v));
			ck_assert_uint_eq(v, round * 4 + i);
		}
		ck_assert(!sl_mpsc_get(q, &v));
	}
	sl_mpsc_free(q);
}

struct feeder {
	struct sl_mpsc *q;
	uint64_t id;
	uint64_t words;
	pthread_barrier_t *start;
};

static void *feed_mpsc(void *arg)
{
	struct feeder *f = arg;

	pthread_barrier_wait(f->start);
	for (uint64_t i = 0; i < f->words; i++) {
		while (!sl_mpsc_put(f->q, f->id << 32 | i))
			sched_yield();
	}
	return NULL;
}

TEST(many_producers_keep_each_ones_order)
{
	struct sl_mpsc *q = sl_mpsc_new(64);
	struct feeder f[PRODUCERS];
	uint64_t next[PRODUCERS] = {0}, v;
	pthread_barrier_t start;
	pthread_t t[PRODUCERS];

	pthread_barrier_init(&start, NULL, PRODUCERS);
	for (unsigned i = 0; i < PRODUCERS; i++) {
		f[i] = (struct feeder){q, i, EACH, &start};
		unit_check(pthread_create(&t[i], NULL, feed_mpsc, &f[i]) == 0);
	}
	for (uint64_t n = 0; n < PRODUCERS * (EACH);) {
		if (!sl_mpsc_get(q, &v)) {
			sched_yield();
			continue;
		}
		unit_check(v >> 32 < PRODUCERS);
		unit_check((uint32_t)v == next[v >> 32]++);
		n++;
	}
	for (unsigned i = 0; i < PRODUCERS; i++)
		pthread_join(t[i], NULL);
	unit_check(!sl_mpsc_get(q, &v));
	sl_mpsc_free(q);
}

/* No consumer in between: the producers meet each other as often as the machine lets them. */
static void collide(struct sl_mpsc *q, uint64_t words)
{
	uint64_t next[PRODUCERS] = {0}, v, n = 0;
	struct feeder f[PRODUCERS];
	pthread_t t[PRODUCERS];
	pthread_barrier_t start;

	pthread_barrier_init(&start, NULL, PRODUCERS);
	for (unsigned i = 0; i < PRODUCERS; i++) {
		f[i] = (struct feeder){q, i, words, &start};
		unit_check(pthread_create(&t[i], NULL, feed_mpsc, &f[i]) == 0);
	}
	for (unsigned i = 0; i < PRODUCERS; i++)
		pthread_join(t[i], NULL);
	for (; sl_mpsc_get(q, &v); n++)
		unit_check((uint32_t)v == next[v >> 32]++);
	unit_check(n == PRODUCERS * words);
}

TEST(producers_that_collide_lose_nothing)
{
	struct sl_mpsc *q = sl_mpsc_new(1u << 18);

	for (int round = 0; round < 40; round++)
		collide(q, 80000);
	sl_mpsc_free(q);
}
