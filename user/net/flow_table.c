/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include "base/bytes.h"
#include "net/flow_table.h"

enum {
	FIRST_BUCKETS = 64, /* a page */
	MAX_ENTRIES = 1 << 27,
	/* 16 slots in 5 buckets: far under the 0.98 that 2 buckets of 4 allow. */
	FULL_SLOTS = 16,
	FULL_BUCKETS = 5,
	SEARCH_NODES = 64,
};

static bool four_fifths_full(uint32_t buckets, uint32_t entries)
{
	return (uint64_t)entries * FULL_BUCKETS >= (uint64_t)buckets * FULL_SLOTS;
}

int sl_flow_table_init(struct sl_flow_table *t, uint32_t max_entries, const struct sl_sipkey *key,
		       sl_flow_match_fn *match, const void *ctx)
{
	uint32_t buckets = FIRST_BUCKETS;

	memset(t, 0, sizeof(*t));
	if (max_entries == 0 || max_entries > MAX_ENTRIES)
		return -EINVAL;
	while (four_fifths_full(buckets, max_entries))
		buckets *= 2;
	t->map_len = (size_t)buckets * sizeof(struct sl_flow_bucket);
	t->buckets = mmap(NULL, t->map_len, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (t->buckets == MAP_FAILED) {
		t->buckets = NULL;
		return -errno;
	}
	/* Zeroing a huge page at the first touch would stall. */
	(void)madvise(t->buckets, t->map_len, MADV_NOHUGEPAGE);
	t->mask = FIRST_BUCKETS - 1;
	t->max_mask = buckets - 1;
	t->max_entries = max_entries;
	t->key = *key;
	t->match = match;
	t->ctx = ctx;
	return 0;
}

void sl_flow_table_fini(struct sl_flow_table *t)
{
	if (t->buckets)
		munmap(t->buckets, t->map_len);
	memset(t, 0, sizeof(*t));
}

static struct sl_flow_entry *free_slot(struct sl_flow_bucket *b)
{
	for (int i = 0; i < SL_FLOW_SLOTS; i++) {
		if (b->slot[i].hash == 0)
			return &b->slot[i];
	}
	return NULL;
}

static unsigned free_slots(const struct sl_flow_bucket *b)
{
	unsigned cnt = 0;

	for (int i = 0; i < SL_FLOW_SLOTS; i++)
		cnt += b->slot[i].hash == 0;
	return cnt;
}

static void grow(struct sl_flow_table *t)
{
	struct sl_flow_bucket *from = &t->buckets[t->split];
	struct sl_flow_bucket *to = &t->buckets[t->split + t->mask + 1];

	if (!four_fifths_full(t->mask + 1 + t->split, t->count) || t->mask >= t->max_mask)
		return;
	t->split++;
	for (int i = 0; i < SL_FLOW_SLOTS; i++) {
		struct sl_flow_entry *e = &from->slot[i];

		if (e->hash == 0 || sl_flow_bucket_a(t, e->hash) == from ||
		    sl_flow_bucket_b(t, e->hash) == from)
			continue;
		to->slot[i] = *e;
		*e = (struct sl_flow_entry){0};
	}
	if (t->split > t->mask) {
		t->mask = t->mask << 1 | 1;
		t->split = 0;
	}
}

struct node {
	struct sl_flow_bucket *bucket;
	int parent;
	int slot;
};

static struct sl_flow_entry *shift(const struct node *nodes, int n, int slot,
				   struct sl_flow_entry *hole)
{
	for (;;) {
		struct sl_flow_entry *e = &nodes[n].bucket->slot[slot];

		*hole = *e;
		hole = e;
		if (nodes[n].parent < 0)
			return hole;
		slot = nodes[n].slot;
		n = nodes[n].parent;
	}
}

/* Breadth-first: the shortest chain of moves. */
static struct sl_flow_entry *make_room(struct sl_flow_table *t, uint64_t hash)
{
	struct node nodes[SEARCH_NODES] = {
		{sl_flow_bucket_a(t, hash), -1, 0},
		{sl_flow_bucket_b(t, hash), -1, 0},
	};
	int cnt = 2;

	for (int n = 0; n < cnt; n++) {
		for (int i = 0; i < SL_FLOW_SLOTS; i++) {
			uint64_t moved = nodes[n].bucket->slot[i].hash;
			struct sl_flow_bucket *b = sl_flow_bucket_a(t, moved);
			struct sl_flow_entry *hole;

			if (b == nodes[n].bucket)
				b = sl_flow_bucket_b(t, moved);
			hole = free_slot(b);
			if (hole)
				return shift(nodes, n, i, hole);
			if (cnt < SEARCH_NODES)
				nodes[cnt++] = (struct node){b, n, i};
		}
	}
	return NULL;
}

int sl_flow_insert(struct sl_flow_table *t, uint64_t hash, uint32_t value)
{
	if (t->count >= t->max_entries)
		return -ENOSPC;
	grow(t);

	struct sl_flow_bucket *a = sl_flow_bucket_a(t, hash), *b = sl_flow_bucket_b(t, hash);
	struct sl_flow_entry *e = free_slot(free_slots(b) > free_slots(a) ? b : a);

	if (!e)
		e = make_room(t, hash);
	if (!e)
		return -ENOSPC;
	*e = (struct sl_flow_entry){.hash = hash, .value = value};
	t->count++;
	return 0;
}

bool sl_flow_remove(struct sl_flow_table *t, uint64_t hash, uint32_t value)
{
	struct sl_flow_bucket *b = sl_flow_bucket_a(t, hash);

	for (int pass = 0; pass < 2; pass++) {
		for (int i = 0; i < SL_FLOW_SLOTS; i++) {
			struct sl_flow_entry *e = &b->slot[i];

			if (e->hash == hash && e->value == value) {
				*e = (struct sl_flow_entry){0};
				t->count--;
				return true;
			}
		}
		b = sl_flow_bucket_b(t, hash);
	}
	return false;
}

size_t sl_flow_table_bytes(const struct sl_flow_table *t)
{
	return ((size_t)t->mask + 1 + t->split) * sizeof(struct sl_flow_bucket);
}
