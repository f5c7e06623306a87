/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mempool.h"

#include <errno.h>
#include <fcntl.h>

#include "base/log.h"
#include "base/rand.h"
#include "unit.h"
#include "suite.h"

enum { CAP = 100 };

TEST(every_object_once_then_null)
{
	static const size_t sizes[] = {1, 8, 24, 64, 200, 4096, 5000};
	struct sl_mempool p;
	uint8_t *obj[CAP];

	for (size_t s = 0; s < SL_ARRAY_LEN(sizes); s++) {
		unit_check(sl_mempool_init(&p, sizes[s], 0, CAP) == 0);
		for (uint32_t i = 0; i < CAP; i++) {
			obj[i] = sl_mempool_get(&p);
			ck_assert_ptr_nonnull(obj[i]);
			memset(obj[i], (int)i, sizes[s]);
			unit_check(sl_mempool_index(&p, obj[i]) == i);
			unit_check(sl_mempool_at(&p, i) == obj[i]);
		}
		ck_assert_ptr_null(sl_mempool_get(&p));
		unit_check(sl_mempool_used(&p) == CAP);
		for (uint32_t i = 0; i < CAP; i++) {
			for (size_t k = 0; k < sizes[s]; k++)
				unit_check(obj[i][k] == i);
			sl_mempool_put(&p, obj[i]);
		}
		unit_check(sl_mempool_used(&p) == 0);
		sl_mempool_fini(&p);
		sl_mempool_fini(&p);
	}
}

TEST(objects_are_aligned)
{
	struct sl_mempool p;

	ck_assert_int_eq(sl_mempool_init(&p, 65, 64, 10), 0);
	sl_mempool_get(&p);
	ck_assert_uint_eq((uintptr_t)sl_mempool_get(&p) % 64, 0);
	ck_assert_uint_eq(p.stride, 128);
	sl_mempool_fini(&p);
}

TEST(impossible_shapes_are_refused)
{
	struct sl_mempool p;

	ck_assert_int_eq(sl_mempool_init(&p, 0, 0, 1), -EINVAL);
	ck_assert_int_eq(sl_mempool_init(&p, 8, 0, 0), -EINVAL);
	ck_assert_int_eq(sl_mempool_init(&p, 8, 3, 1), -EINVAL);
	ck_assert_int_eq(sl_mempool_init(&p, 8, 8192, 1), -EINVAL);
	ck_assert_int_eq(sl_mempool_init(&p, UINT32_MAX, 0, UINT32_MAX), -ENOMEM);
	ck_assert_ptr_null(p.base);
}

TEST(random_gets_and_puts_never_hand_out_twice)
{
	struct sl_mempool p;
	uint64_t *held[CAP];
	uint32_t cnt = 0;
	struct sl_prng r;

	sl_prng_seed(&r, 2);
	unit_check(sl_mempool_init(&p, 40, 0, CAP) == 0);
	for (uint64_t i = 0; i < 100000; i++) {
		if (sl_prng_u64(&r) & 1) {
			uint64_t *obj = sl_mempool_get(&p);

			unit_check((obj == NULL) == (cnt == CAP));
			if (obj) {
				*obj = (uintptr_t)obj;
				held[cnt++] = obj;
			}
		} else if (cnt) {
			uint32_t k = (uint32_t)sl_prng_below(&r, cnt);

			unit_check(*held[k] == (uintptr_t)held[k]);
			*held[k] = 0; /* a second holder would find this */
			sl_mempool_put(&p, held[k]);
			held[k] = held[--cnt];
		}
		unit_check(sl_mempool_used(&p) == cnt);
	}
	sl_mempool_fini(&p);
}

TEST(untouched_objects_cost_no_memory)
{
	struct sl_mempool p;
	unsigned char in_core[64] = {0};
	unsigned resident = 0;

	ck_assert_int_eq(sl_mempool_init(&p, 4096, 0, 1u << 20), 0); /* 4 GiB */
	memset(sl_mempool_get(&p), 1, 8);
	ck_assert_int_eq(mincore(p.base, 64 * 4096, in_core), 0);
	for (int i = 0; i < 64; i++)
		resident += in_core[i] & 1;
	ck_assert_uint_eq(resident, 1);
	sl_mempool_fini(&p);
}

#ifdef SL_DEBUG
static void put_twice(void *arg)
{
	struct sl_mempool *p = arg;
	void *obj = sl_mempool_get(p);

	sl_mempool_put(p, obj);
	sl_mempool_put(p, obj);
}

static void put_middle(void *arg)
{
	struct sl_mempool *p = arg;

	sl_mempool_put(p, (uint8_t *)sl_mempool_get(p) + 8);
}

static void write_after_put(void *arg)
{
	struct sl_mempool *p = arg;
	uint8_t *obj = sl_mempool_get(p);

	sl_mempool_put(p, obj);
	obj[20] = 0;
	sl_mempool_get(p);
}

TEST(wrong_put_is_detected)
{
	struct sl_mempool p;

	ck_assert_int_eq(sl_mempool_init(&p, 32, 0, 8), 0);
	ck_assert(aborts(put_twice, &p));
	ck_assert(aborts(put_middle, &p));
	ck_assert(aborts(write_after_put, &p));
	sl_mempool_fini(&p);
}
#else
/* Rejected and counted: no object is handed out twice. */
TEST(wrong_put_is_detected)
{
	uint64_t broken = sl_checks_broken();
	struct sl_mempool p;
	void *a, *b;

	sl_log_fd_set(open("/dev/null", O_WRONLY | O_CLOEXEC));
	ck_assert_int_eq(sl_mempool_init(&p, 32, 0, 8), 0);
	a = sl_mempool_get(&p);
	sl_mempool_put(&p, a);
	sl_mempool_put(&p, a);
	ck_assert_uint_eq(sl_checks_broken(), broken + 1);
	ck_assert_uint_eq(sl_mempool_used(&p), 0);
	a = sl_mempool_get(&p);
	b = sl_mempool_get(&p);
	ck_assert_ptr_ne(a, b);
	sl_mempool_put(&p, (uint8_t *)a + 8);
	sl_mempool_put(&p, (uint8_t *)p.base + p.map_len);
	sl_mempool_put(&p, &p);
	ck_assert_uint_eq(sl_checks_broken(), broken + 4);
	ck_assert_uint_eq(sl_mempool_used(&p), 2);
	sl_mempool_fini(&p);
	sl_log_fd_set(-1);
}
#endif
