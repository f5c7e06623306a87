/* SPDX-License-Identifier: Apache-2.0 */
#include "base/list.h"

#include "unit.h"
#include "suite.h"

struct item {
	int value;
	struct sl_list node;
};

static struct item items[5];
static struct sl_list head;

static struct item *item_of(struct sl_list *node)
{
	return sl_container_of(node, struct item, node);
}

/* The list forwards and backwards, as digits. */
static int digits(struct sl_list *l)
{
	struct sl_list *pos;
	int forward = 0, backward = 0, scale = 1;

	sl_list_for_each (pos, l)
		forward = forward * 10 + item_of(pos)->value;
	for (pos = l->prev; pos != l; pos = pos->prev, scale *= 10)
		backward += item_of(pos)->value * scale;
	ck_assert_int_eq(forward, backward);
	return forward;
}

static void fill(int cnt)
{
	sl_list_init(&head);
	for (int i = 0; i < cnt; i++) {
		items[i].value = i + 1;
		sl_list_add_tail(&head, &items[i].node);
	}
}

TEST(adds_and_deletes_keep_order)
{
	fill(3);
	ck_assert_int_eq(digits(&head), 123);
	items[3].value = 4;
	sl_list_add_head(&head, &items[3].node);
	ck_assert_int_eq(digits(&head), 4123);
	sl_list_del(&items[1].node);
	sl_list_del(&items[1].node);
	ck_assert_int_eq(digits(&head), 413);
	sl_list_add_tail(&items[2].node, &items[1].node);
	ck_assert_int_eq(digits(&head), 4123);
	ck_assert_ptr_eq(sl_list_first(&head, struct item, node), &items[3]);
	ck_assert_ptr_eq(sl_list_last(&head, struct item, node), &items[2]);
}

TEST(pop_ends_with_null)
{
	fill(2);
	ck_assert_ptr_eq(sl_list_pop_head(&head), &items[0].node);
	ck_assert(sl_list_empty(&items[0].node));
	ck_assert_ptr_eq(sl_list_pop_head(&head), &items[1].node);
	ck_assert(sl_list_empty(&head));
	ck_assert_ptr_null(sl_list_pop_head(&head));
	ck_assert_ptr_null(sl_list_first(&head, struct item, node));
}

TEST(the_safe_walk_survives_deletion)
{
	struct sl_list *pos, *tmp;
	int seen = 0;

	fill(5);
	sl_list_for_each_safe (pos, tmp, &head) {
		seen++;
		if (item_of(pos)->value % 2)
			sl_list_del(pos);
	}
	ck_assert_int_eq(seen, 5);
	ck_assert_int_eq(digits(&head), 24);
}

TEST(splice_moves_all)
{
	struct sl_list other = SL_LIST_INIT(other);

	fill(2);
	sl_list_splice_tail(&head, &other);
	ck_assert_int_eq(digits(&head), 12);
	for (int i = 2; i < 4; i++) {
		items[i].value = i + 1;
		sl_list_add_tail(&other, &items[i].node);
	}
	sl_list_splice_tail(&head, &other);
	ck_assert_int_eq(digits(&head), 1234);
	ck_assert(sl_list_empty(&other));
	sl_list_splice_tail(&other, &head);
	ck_assert_int_eq(digits(&other), 1234);
}
