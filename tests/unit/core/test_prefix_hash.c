/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of bodies by their beginnings: conversations with a shared prompt do not have one key. */
#include <stdlib.h>

#include "base/rand.h"
#include "core/prefix_hash.h"
#include "suite.h"

enum { SYSTEM = 3000, TURN = 700, BODY_MAX = 80 << 10 };

static const struct sl_cfg_affinity cfg = {.by = SL_AFFINITY_BY_PREFIX,
					   .depths = {1 << 10, 4 << 10, 16 << 10, 64 << 10},
					   .depth_cnt = 4};
static struct sl_prefix_table *table;
static uint8_t body[BODY_MAX];

static void set_up(void)
{
	table = sl_prefix_table_create();
	ck_assert_ptr_nonnull(table);
}

static void tear_down(void)
{
	sl_prefix_table_destroy(table);
}

FIXTURE(set_up, tear_down)

/* The text of a seed, from `at` on. */
static void fill(uint64_t seed, size_t at, size_t end)
{
	struct sl_prng prng;

	sl_prng_seed(&prng, seed);
	for (; at < end; at++)
		body[at] = (uint8_t)sl_prng_u64(&prng);
}

static uint64_t key_in_pieces(size_t len, size_t step)
{
	struct sl_prefix_hash p;

	sl_prefix_hash_begin(&p, &cfg);
	for (size_t at = 0; at < len; at += step)
		sl_prefix_hash_read(&p, table,
				    sl_span_of(body + at, len - at < step ? len - at : step));
	sl_prefix_hash_end(&p);
	return p.key;
}

static uint64_t key(size_t len)
{
	return key_in_pieces(len, len + 1);
}

/* A body of a system prompt and a conversation. */
static uint64_t key_of_talk(uint64_t system, uint64_t talk, size_t len)
{
	fill(system, 0, SYSTEM);
	fill(talk, SYSTEM, len);
	return key(len);
}

TEST(pieces_do_not_change_the_key)
{
	uint64_t want;

	fill(1, 0, BODY_MAX);
	want = key(BODY_MAX);
	ck_assert_uint_ne(want, 0);
	for (size_t step = 1; step < 3000; step += 97)
		ck_assert_uint_eq(key_in_pieces(BODY_MAX, step), want);
	body[1023] ^= 1;
	ck_assert_uint_ne(key(BODY_MAX), want);
}

TEST(body_below_the_first_depth_has_no_key)
{
	fill(1, 0, BODY_MAX);
	ck_assert_uint_eq(key(1023), 0);
	ck_assert_uint_ne(key(1024), 0);
}

/* Nothing of a body behind its key's depth counts: a conversation keeps its key as it grows. */
TEST(conversation_keeps_its_key)
{
	uint64_t first = key_of_talk(1, 2, 5000);

	for (size_t len = 5000; len < BODY_MAX; len += TURN)
		ck_assert_uint_eq(key_of_talk(1, 2, len), first);
}

TEST(shared_prompt_is_told_from_a_conversation)
{
	uint64_t keys[100];
	unsigned equal = 0;

	for (unsigned i = 0; i < 100; i++)
		keys[i] = key_of_talk(1, 100 + i, 9000);
	for (unsigned i = 1; i < 100; i++)
		equal += keys[i] == keys[0];
	ck_assert_uint_le(equal, SL_PREFIX_WAYS);
	/* From then on the same for each conversation, as it grows. */
	for (unsigned i = 10; i < 20; i++) {
		ck_assert_uint_eq(key_of_talk(1, 100 + i, 9000), keys[i]);
		ck_assert_uint_eq(key_of_talk(1, 100 + i, 70000), keys[i]);
	}
	/* All backends have it: what ends within it prefers none. */
	ck_assert_uint_eq(key_of_talk(1, 200, 3500), 0);
	ck_assert_uint_ne(key_of_talk(2, 200, 3500), 0);
}

/* A few versions of one conversation stay together. */
TEST(few_ways_are_no_shared_prompt)
{
	uint64_t first = key_of_talk(1, 2, 9000);

	for (unsigned i = 0; i < 50; i++)
		ck_assert_uint_eq(key_of_talk(1, 2 + i % SL_PREFIX_WAYS, 9000), first);
}

TEST(last_depth_is_never_shared)
{
	uint64_t last = 0;

	for (unsigned i = 0; i < 50; i++) {
		fill(1, 0, 64 << 10);
		fill(10 + i, 64 << 10, BODY_MAX);
		last = key(BODY_MAX);
		ck_assert_uint_ne(last, 0);
	}
	ck_assert_uint_eq(key(BODY_MAX), last);
}

/* Many other beginnings meanwhile: memory is bounded, and what is in use stays known. */
TEST(shared_prompt_in_use_is_not_forgotten)
{
	uint64_t want;

	for (unsigned i = 0; i < 10; i++)
		(void)key_of_talk(1, 100 + i, 5000);
	want = key_of_talk(1, 100, 5000);
	for (unsigned i = 0; i < 20000; i++) {
		fill(1000 + i, 0, 8);
		(void)key(4096);
		if (i % 100 == 0)
			ck_assert_uint_eq(key_of_talk(1, 100, 5000), want);
	}
}
