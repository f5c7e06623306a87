/* SPDX-License-Identifier: Apache-2.0 */
/* Ids: found while outstanding, on their own channel, and never again afterwards. */
#include <string.h>
#include "rpc/capped_alloc.h"
#include "rpc/outstanding.h"
#include "suite.h"

static struct sl_rpc_channel *const one = (struct sl_rpc_channel *)64;
static struct sl_rpc_channel *const other = (struct sl_rpc_channel *)128;

TEST(an_id_is_found_on_its_own_channel_only)
{
	struct sl_outstanding o;
	struct sl_list mine = SL_LIST_INIT(mine);
	struct sl_pending *p;
	uint64_t id;

	ck_assert_int_eq(sl_outstanding_init(&o, 4), 0);
	p = sl_outstanding_get(&o);
	p->channel = one;
	sl_list_add_tail(&mine, &p->node);
	id = sl_outstanding_id(&o, p);
	ck_assert_ptr_eq(sl_outstanding_find(&o, one, id), p);
	ck_assert_ptr_null(sl_outstanding_find(&o, other, id));
	ck_assert_ptr_null(sl_outstanding_find(&o, one, id + 1));
	ck_assert_ptr_null(sl_outstanding_find(&o, one, id | 4));
	ck_assert_ptr_null(sl_outstanding_find(&o, one, UINT64_MAX));
	sl_outstanding_put(&o, p);
	ck_assert_ptr_null(sl_outstanding_find(&o, one, id));
	/* The same entry again, under another id. */
	for (unsigned i = 0; i < 4; i++) {
		p = sl_outstanding_get(&o);
		p->channel = one;
		sl_list_add_tail(&mine, &p->node);
		ck_assert_uint_ne(sl_outstanding_id(&o, p), id);
	}
	ck_assert_ptr_null(sl_outstanding_find(&o, one, id));
	ck_assert_ptr_null(sl_outstanding_get(&o));
	ck_assert_uint_eq(o.used, 4);
	sl_outstanding_fini(&o);
}

/* Released last, reused last: a late reply has the longest time to be recognised. */
TEST(the_entry_released_last_is_reused_last)
{
	struct sl_outstanding o;
	struct sl_list mine = SL_LIST_INIT(mine);
	struct sl_pending *first;

	ck_assert_int_eq(sl_outstanding_init(&o, 8), 0);
	first = sl_outstanding_get(&o);
	sl_outstanding_put(&o, first);
	for (unsigned i = 0; i < 7; i++)
		ck_assert_ptr_ne(sl_outstanding_get(&o), first);
	ck_assert_ptr_eq(sl_outstanding_get(&o), first);
	sl_outstanding_fini(&o);
}

TEST(memory_is_aligned_and_has_a_limit)
{
	struct sl_capped_alloc m;
	void *p[64];
	size_t used;

	sl_capped_init(&m, 4 << 20);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 64; i++) {
			p[i] = sl_capped_malloc(&m, 1 + i * 700);
			ck_assert_ptr_nonnull(p[i]);
			ck_assert_uint_eq((uintptr_t)p[i] % 16, 0);
			memset(p[i], (int)i, 1 + i * 700);
		}
		for (unsigned i = 0; i < 64; i++) {
			ck_assert_uint_eq(*((uint8_t *)p[i] + i * 700), i);
			sl_capped_free(&m, p[i]);
		}
		ck_assert_uint_eq(m.used, 0);
	}
	/* The limit holds, for what is not there and for sums that would wrap. */
	p[0] = sl_capped_malloc(&m, 3 << 20);
	used = m.used;
	ck_assert_ptr_nonnull(p[0]);
	ck_assert_ptr_null(sl_capped_malloc(&m, 2 << 20));
	ck_assert_ptr_null(sl_capped_malloc(&m, SIZE_MAX - 8));
	ck_assert_uint_eq(m.used, used);
	sl_capped_free(&m, p[0]);
	sl_capped_free(&m, NULL);
	ck_assert_uint_eq(m.used, 0);
	sl_capped_fini(&m);
}
