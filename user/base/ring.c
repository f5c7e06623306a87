/* SPDX-License-Identifier: Apache-2.0 */
#include "base/ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mpsc.h"

#define CAPACITY_MAX (UINT32_C(1) << 31)

static void *alloc_lines(size_t size)
{
	size_t rounded = (size + SL_CACHELINE - 1) & ~(size_t)(SL_CACHELINE - 1);
	void *p = aligned_alloc(SL_CACHELINE, rounded);

	if (p)
		memset(p, 0, rounded);
	else
		errno = ENOMEM;
	return p;
}

static bool capacity_ok(uint32_t capacity, uint32_t min)
{
	if (capacity >= min && capacity <= CAPACITY_MAX && (capacity & (capacity - 1)) == 0)
		return true;
	errno = EINVAL;
	return false;
}

struct sl_ring *sl_ring_new(uint32_t capacity)
{
	struct sl_ring *r;

	if (!capacity_ok(capacity, 1))
		return NULL;
	r = alloc_lines(sizeof(*r) + (size_t)capacity * sizeof(r->slot[0]));
	if (r)
		r->mask = capacity - 1;
	return r;
}

void sl_ring_free(struct sl_ring *r)
{
	free(r);
}

struct sl_mpsc *sl_mpsc_new(uint32_t capacity)
{
	struct sl_mpsc *q;

	/* With one cell, "filled" and "free again" would be equal. */
	if (!capacity_ok(capacity, 2))
		return NULL;
	q = alloc_lines(sizeof(*q) + (size_t)capacity * sizeof(q->cell[0]));
	if (!q)
		return NULL;
	q->mask = capacity - 1;
	for (uint32_t i = 0; i < capacity; i++)
		atomic_init(&q->cell[i].turn, i);
	return q;
}

void sl_mpsc_free(struct sl_mpsc *q)
{
	free(q);
}
