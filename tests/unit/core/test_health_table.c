/* SPDX-License-Identifier: Apache-2.0 */
#include "core/health_table.h"

#include "suite.h"

static struct sl_health_table table;

static void set_up(void)
{
	sl_health_table_init(&table, 3);
}

FIXTURE(set_up, NULL)

TEST(workers_share_the_health_of_a_backend)
{
	struct sl_backend_health *a = sl_backend_health_get(&table, "p", "a", "shm:///a");
	struct sl_backend_health *b = sl_backend_health_get(&table, "p", "b", "shm:///a");

	ck_assert_ptr_eq(sl_backend_health_get(&table, "p", "a", "shm:///a"), a);
	ck_assert_ptr_ne(a, b);
	ck_assert_ptr_eq(a->pool, b->pool);
	ck_assert_uint_eq(a->health.lane_cnt, 3);
	ck_assert_ptr_eq(sl_backend_health_find(&table, "p", "b"), b);
	ck_assert_ptr_null(sl_backend_health_find(&table, "q", "b"));
	sl_backend_health_put(a);
	sl_backend_health_put(b);
	ck_assert_ptr_eq(sl_backend_health_find(&table, "p", "a"), a);
	sl_backend_health_put(a);
	ck_assert(sl_list_empty(&table.pools));
}

/* A reload moves the backend; exchanges still have the old one. */
TEST(backend_with_another_endpoint_begins_anew)
{
	struct sl_backend_health *old = sl_backend_health_get(&table, "p", "a", "shm:///old");
	struct sl_backend_health *new;

	atomic_store(&old->health.drained, true);
	new = sl_backend_health_get(&table, "p", "a", "shm:///new");
	ck_assert_ptr_ne(old, new);
	ck_assert(!atomic_load(&new->health.drained));
	ck_assert_ptr_eq(sl_backend_health_find(&table, "p", "a"), new);
	sl_backend_health_put(old);
	sl_backend_health_put(new);
	ck_assert(sl_list_empty(&table.pools));
}
