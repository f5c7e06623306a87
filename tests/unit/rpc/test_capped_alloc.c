/* SPDX-License-Identifier: Apache-2.0 */
/* The blocks as they are in builds for use: debug builds have the system's own instead. */
#include "broken.h" /* it knows how the library is built */
#undef SL_DEBUG
#include "../../../user/rpc/capped_alloc.c"

#include "suite.h"

enum { MANY = 40 };

static const size_t two_mib = ((size_t)2 << 20) - sizeof(struct sl_capped_block);
static struct sl_capped_alloc mem;
static void *blocks[MANY];

static void take(unsigned cnt, size_t len)
{
	for (unsigned i = 0; i < cnt; i++) {
		blocks[i] = sl_capped_malloc(&mem, len);
		ck_assert_ptr_nonnull(blocks[i]);
		((uint8_t *)blocks[i])[len - 1] = 1;
	}
}

static void give(unsigned cnt)
{
	for (unsigned i = 0; i < cnt; i++)
		sl_capped_free(&mem, blocks[i]);
}

static void set_up(void)
{
	sl_capped_init(&mem, (size_t)1 << 30);
}

static void tear_down(void)
{
	ck_assert_uint_eq(mem.used, 0);
	sl_capped_fini(&mem);
}

FIXTURE(set_up, tear_down)

TEST(kept_large_blocks_are_bounded)
{
	take(MANY, two_mib);
	ck_assert_uint_eq(mem.used, (size_t)MANY << 21);
	ck_assert_uint_eq(mem.kept, 0);
	give(3);
	ck_assert_uint_eq(mem.kept, (size_t)3 << 21);
	for (unsigned i = 3; i < MANY; i++)
		sl_capped_free(&mem, blocks[i]);
	ck_assert_uint_eq(mem.kept, SL_CAPPED_KEEP);
}

TEST(kept_blocks_are_used_again)
{
	void *first;

	take(2, two_mib);
	first = blocks[1];
	give(2);
	take(2, two_mib);
	ck_assert_ptr_eq(blocks[0], first);
	ck_assert_uint_eq(mem.kept, 0);
	give(2);
	ck_assert_uint_eq(mem.kept, (size_t)2 << 21);
}

TEST(small_blocks_and_the_largest_do_not_count_as_kept)
{
	take(MANY, 100);
	give(MANY);
	take(2, SL_CAPPED_LARGE);
	give(2);
	ck_assert_uint_eq(mem.kept, 0);
}

TEST(the_limit_counts_handed_out_bytes)
{
	sl_capped_init(&mem, 4096);
	take(1, 2048 - sizeof(struct sl_capped_block));
	ck_assert_uint_eq(mem.used, 2048);
	ck_assert_ptr_null(sl_capped_malloc(&mem, 2049 - sizeof(struct sl_capped_block)));
	blocks[1] = sl_capped_malloc(&mem, 2048 - sizeof(struct sl_capped_block));
	ck_assert_ptr_nonnull(blocks[1]);
	give(2);
}

static struct sl_capped_alloc small;
static void *stray;

static void free_stray(void)
{
	sl_capped_free(&small, stray);
}

/* One of another owner's, which is larger than all that this one has handed out. */
TEST(a_foreign_block_is_never_handed_out)
{
	void *own;

	sl_capped_init(&small, (size_t)1 << 20);
	stray = sl_capped_malloc(&mem, 10000);
	own = sl_capped_malloc(&small, 100);
	ck_broken(free_stray);
	ck_assert_ptr_ne(sl_capped_malloc(&small, 10000), stray);
	sl_capped_free(&small, own);
	sl_capped_fini(&small);
	sl_capped_free(&mem, stray);
}
