/* SPDX-License-Identifier: Apache-2.0 */
#include "batch/affinity.h"

#include <stdlib.h>
#include <string.h>

#include "base/fnv.h"
#include "batch/hot_keys.h"

enum {
	POINTS = 16384, /* in total; per backend between: */
	POINTS_MIN = 16,
	POINTS_MAX = 256,
	WALK_MAX = 256,
	HOT_CNT_MIN = 4,
	HOMES_EACH = 4, /* of a backend's share */
};

struct point {
	uint64_t hash;
	uint16_t backend;
};

struct sl_affinity {
	struct point *points; /* [cnt], by hash */
	uint32_t *first;      /* [cnt]: first point of each part of the hashes */
	uint32_t cnt;
	struct sl_hot_keys hot;
};

/* Finaliser of MurmurHash3. */
uint64_t sl_affinity_mix(uint64_t h)
{
	h = (h ^ h >> 33) * UINT64_C(0xff51afd7ed558ccd);
	h = (h ^ h >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
	h ^= h >> 33;
	return h ? h : 1;
}

static int compare_points(const void *a, const void *b)
{
	const struct point *x = a, *y = b;

	if (x->hash != y->hash)
		return x->hash < y->hash ? -1 : 1;
	return x->backend - y->backend;
}

static uint32_t part_of(const struct sl_affinity *a, uint64_t hash)
{
	return (uint32_t)((hash >> 32) * a->cnt >> 32);
}

static void index_points(struct sl_affinity *a)
{
	uint32_t at = 0;

	for (uint32_t part = 0; part < a->cnt; part++) {
		while (at < a->cnt && part_of(a, a->points[at].hash) < part)
			at++;
		a->first[part] = at;
	}
}

static uint32_t points_each(uint32_t cnt)
{
	uint32_t n = cnt ? POINTS / cnt : 0;

	return n < POINTS_MIN ? POINTS_MIN : n > POINTS_MAX ? POINTS_MAX : n;
}

struct sl_affinity *sl_affinity_create(const struct sl_affinity_backend *list, uint32_t cnt)
{
	struct sl_affinity *a = calloc(1, sizeof(*a));
	uint32_t each = points_each(cnt);

	if (!a)
		return NULL;
	a->points = calloc((size_t)cnt * each + 1, sizeof(*a->points));
	a->first = calloc((size_t)cnt * each + 1, sizeof(*a->first));
	if (!a->points || !a->first) {
		sl_affinity_destroy(a);
		return NULL;
	}
	for (uint32_t i = 0; i < cnt; i++) {
		uint64_t hash = sl_fnv64(SL_FNV64, list[i].name, strlen(list[i].name));

		for (uint32_t k = 0; k < each; k++)
			a->points[a->cnt++] = (struct point){
				sl_affinity_mix(hash + k * UINT64_C(0x9e3779b97f4a7c15)),
				list[i].number};
	}
	if (a->cnt)
		qsort(a->points, a->cnt, sizeof(*a->points), compare_points);
	index_points(a);
	return a;
}

void sl_affinity_destroy(struct sl_affinity *a)
{
	if (!a)
		return;
	free(a->points);
	free(a->first);
	free(a);
}

static uint32_t first_point(const struct sl_affinity *a, uint64_t key)
{
	uint32_t at = a->first[part_of(a, key)];

	while (at < a->cnt && a->points[at].hash < key)
		at++;
	return at;
}

unsigned sl_affinity_find(const struct sl_affinity *a, uint64_t key, sl_affinity_may_fn *may,
			  const void *arg)
{
	unsigned last = SL_AFFINITY_NONE;
	uint32_t at;

	if (!a->cnt)
		return SL_AFFINITY_NONE;
	at = first_point(a, key);
	for (uint32_t n = 0; n < a->cnt && n < WALK_MAX; n++) {
		unsigned backend = a->points[(at + n) % a->cnt].backend;

		if (backend != last && may(arg, backend))
			return backend;
		last = backend;
	}
	return SL_AFFINITY_NONE;
}

static bool has_backend(const unsigned *list, unsigned cnt, unsigned backend)
{
	while (cnt) {
		if (list[--cnt] == backend)
			return true;
	}
	return false;
}

unsigned sl_affinity_find_among(const struct sl_affinity *a, uint64_t key, uint32_t cnt,
				sl_affinity_may_fn *may, const void *arg)
{
	unsigned seen[SL_AFFINITY_HOMES], seen_cnt = 0;
	uint32_t at;

	if (!a->cnt)
		return SL_AFFINITY_NONE;
	cnt = cnt < SL_AFFINITY_HOMES ? cnt : SL_AFFINITY_HOMES;
	at = first_point(a, key);
	for (uint32_t n = 0; n < a->cnt && n < WALK_MAX && seen_cnt < cnt; n++) {
		unsigned backend = a->points[(at + n) % a->cnt].backend;

		if (has_backend(seen, seen_cnt, backend))
			continue;
		if (may(arg, backend))
			return backend;
		seen[seen_cnt++] = backend;
	}
	return SL_AFFINITY_NONE;
}

void sl_affinity_note(struct sl_affinity *a, uint64_t key, uint32_t backends)
{
	sl_hot_keys_add(&a->hot, key, backends);
}

uint32_t sl_affinity_homes(const struct sl_affinity *a, uint64_t key, uint32_t backends)
{
	uint64_t cnt = sl_hot_keys_cnt(&a->hot, key);

	if (cnt < HOT_CNT_MIN)
		return 1;
	return 1 + (uint32_t)(cnt * backends * HOMES_EACH / a->hot.total);
}
