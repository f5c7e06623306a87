/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/subset.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fnv.h"

enum { FEW = 2, FEW_OF = 8 };

struct subset_member {
	uint64_t hash;
	const char *name;
	uint16_t at;
};

static int by_hash(const void *a, const void *b)
{
	const struct subset_member *x = a, *y = b;

	if (x->hash != y->hash)
		return x->hash < y->hash ? -1 : 1;
	return strcmp(x->name, y->name);
}

/*
 * Hashes a name. FNV maps names that differ in the last byte to close values; the finalizer spreads
 * them.
 */
static uint64_t hash_of(const char *name)
{
	uint64_t h = sl_fnv64(SL_FNV64, name, strlen(name));

	h = (h ^ h >> 33) * UINT64_C(0xff51afd7ed558ccd);
	h = (h ^ h >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
	return h ^ h >> 33;
}

int sl_subset_order(const char *const *names, uint32_t cnt, uint16_t *order)
{
	struct subset_member *all = calloc(cnt + 1, sizeof(*all));

	if (!all)
		return -ENOMEM;
	for (uint32_t i = 0; i < cnt; i++)
		all[i] = (struct subset_member){
			.hash = hash_of(names[i]), .name = names[i], .at = (uint16_t)i};
	qsort(all, cnt, sizeof(*all), by_hash);
	for (uint32_t i = 0; i < cnt; i++)
		order[i] = all[i].at;
	free(all);
	return 0;
}

uint32_t sl_subset_size(uint32_t wanted, uint32_t cnt, uint32_t worker_cnt)
{
	uint32_t least = (cnt + worker_cnt - 1) / worker_cnt;
	uint32_t size = wanted > least ? wanted : least;

	return wanted && size < cnt ? size : cnt;
}

static uint32_t few_of(const struct sl_subset *s)
{
	uint32_t few = s->own / FEW_OF > FEW ? s->own / FEW_OF : FEW;

	return few < s->own ? few : s->own;
}

static uint32_t up_of(const uint8_t *states, uint32_t cnt)
{
	uint32_t up = 0;

	for (uint32_t i = 0; i < cnt; i++)
		up += states[i] == SL_SUBSET_UP;
	return up;
}

void sl_subset_begin(struct sl_subset *s, uint32_t own, uint32_t cnt,
		     const struct sl_subset *before, uint64_t now_ns)
{
	uint32_t borrowed = before ? before->width - before->own : 0;

	*s = (struct sl_subset){.own = own,
				.width = own + borrowed < cnt ? own + borrowed : cnt,
				.grow_ns = before ? before->grow_ns : now_ns + SL_SUBSET_START_NS};
}

static void borrow_members(struct sl_subset *s, const uint8_t *states, uint32_t cnt,
			   uint32_t missing)
{
	for (uint32_t i = s->width; i < cnt && missing; i++) {
		if (states[i] == SL_SUBSET_NONE)
			continue;
		s->width = i + 1;
		missing--;
	}
}

void sl_subset_look(struct sl_subset *s, const uint8_t *states, uint32_t cnt, uint64_t now_ns)
{
	uint32_t few = few_of(s), width = s->width, up = up_of(states, width);

	if (up_of(states, s->own) >= few) {
		s->enough_ns = s->enough_ns ? s->enough_ns : now_ns;
		s->grow_ns = 0;
		if (now_ns - s->enough_ns >= SL_SUBSET_BACK_NS)
			s->width = s->own;
		return;
	}
	s->enough_ns = 0;
	if (up >= few || now_ns < s->grow_ns)
		return;
	borrow_members(s, states, cnt, few - up);
	if (s->width != width)
		s->grow_ns = now_ns + SL_SUBSET_TRY_NS;
}

bool sl_subset_enough(const struct sl_subset *s, const uint8_t *states)
{
	return up_of(states, s->width) >= few_of(s);
}

uint64_t sl_subset_due_ns(const struct sl_subset *s, uint64_t now_ns)
{
	if (s->enough_ns)
		return s->width > s->own ? s->enough_ns + SL_SUBSET_BACK_NS : UINT64_MAX;
	return s->grow_ns > now_ns ? s->grow_ns : UINT64_MAX;
}
