/* SPDX-License-Identifier: Apache-2.0 */
#include "core/quota_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/rand.h"

enum { OPEN_BITS = 16, INSERT_TRIES = 16 };

static uint64_t tag_of(uint64_t hash)
{
	uint64_t tag = hash >> OPEN_BITS;

	return tag ? tag : 1;
}

static struct sl_quota_set *set_of(const struct sl_quota_table *t, uint64_t hash, bool second)
{
	return &t->sets[(second ? hash >> 32 : hash) & t->mask];
}

static uint64_t load(const _Atomic uint64_t *at)
{
	return atomic_load_explicit(at, memory_order_relaxed);
}

static bool swap(_Atomic uint64_t *at, uint64_t *seen, uint64_t to)
{
	return atomic_compare_exchange_strong_explicit(at, seen, to, memory_order_relaxed,
						       memory_order_relaxed);
}

struct sl_quota_table *sl_quota_table_new(uint32_t cap)
{
	struct sl_quota_table *t = calloc(1, sizeof(*t));
	uint8_t secret[16];
	uint64_t sets = 1;

	/* Half full, two sets of four nearly never lack a bucket. */
	while (sets * SL_QUOTA_WAYS < 2 * (uint64_t)cap)
		sets *= 2;
	if (!t)
		return NULL;
	t->sets = aligned_alloc(sizeof(*t->sets), sets * sizeof(*t->sets));
	if (!t->sets || sl_rand_bytes(secret, sizeof(secret)) != 0) {
		free(t->sets);
		free(t);
		return NULL;
	}
	memset(t->sets, 0, sets * sizeof(*t->sets));
	t->mask = sets - 1;
	t->key = sl_sipkey_from(secret);
	t->users = 1;
	return t;
}

struct sl_quota_table *sl_quota_table_get(struct sl_quota_table *t)
{
	t->users++;
	return t;
}

void sl_quota_table_put(struct sl_quota_table *t)
{
	if (!t || --t->users)
		return;
	free(t->sets);
	free(t);
}

static struct sl_quota_bucket *find_in(struct sl_quota_set *s, uint64_t tag)
{
	for (unsigned i = 0; i < SL_QUOTA_WAYS; i++) {
		if (load(&s->way[i].id) >> OPEN_BITS == tag)
			return &s->way[i];
	}
	return NULL;
}

static struct sl_quota_bucket *find_known(const struct sl_quota_table *t, uint64_t hash)
{
	struct sl_quota_set *first = set_of(t, hash, false), *second = set_of(t, hash, true);
	struct sl_quota_bucket *b;

	__builtin_prefetch(second);
	b = find_in(first, tag_of(hash));
	return b ? b : find_in(second, tag_of(hash));
}

struct victim {
	struct sl_quota_bucket *bucket;
	uint64_t id, full_ns;
	unsigned unused; /* buckets of its set */
};

static bool loses_less(const struct victim *a, const struct victim *b)
{
	const uint64_t open_a = a->id & SL_QUOTA_OPEN_MAX, open_b = b->id & SL_QUOTA_OPEN_MAX;

	if (open_a != open_b && (!open_a || !open_b))
		return !open_a;
	if (!a->id != !b->id)
		return !a->id;
	return a->id ? a->full_ns < b->full_ns : a->unused > b->unused;
}

static void search_victim(struct sl_quota_set *s, struct victim *best)
{
	struct victim mine = {0}, v = {0};

	for (unsigned i = 0; i < SL_QUOTA_WAYS; i++) {
		v.bucket = &s->way[i];
		v.id = load(&v.bucket->id);
		v.full_ns = load(&v.bucket->full_ns);
		mine.unused += !v.id;
		if (!mine.bucket || loses_less(&v, &mine)) {
			v.unused = mine.unused;
			mine = v;
		}
	}
	for (unsigned i = mine.unused = 0; i < SL_QUOTA_WAYS; i++)
		mine.unused += !load(&s->way[i].id);
	if (!best->bucket || loses_less(&mine, best))
		*best = mine;
}

static __attribute__((noinline)) struct sl_quota_bucket *insert(struct sl_quota_table *t,
								uint64_t hash, uint64_t now_ns)
{
	struct victim v;

	for (unsigned i = 0;; i++) {
		struct sl_quota_bucket *known = i ? find_known(t, hash) : NULL;
		uint64_t full_ns;

		if (known)
			return known;
		v = (struct victim){0};
		search_victim(set_of(t, hash, false), &v);
		search_victim(set_of(t, hash, true), &v);
		full_ns = v.full_ns;
		if (!swap(&v.bucket->id, &v.id, tag_of(hash) << OPEN_BITS)) {
			if (i < INSERT_TRIES)
				continue;
			return v.bucket; /* a bucket of another client serves this request */
		}
		if (v.id && (full_ns > now_ns || v.id & SL_QUOTA_OPEN_MAX))
			atomic_fetch_add_explicit(&t->evicted, 1, memory_order_relaxed);
		if (full_ns > now_ns)
			(void)swap(&v.bucket->full_ns, &full_ns, 0);
		return v.bucket;
	}
}

struct sl_quota_bucket *sl_quota_find(struct sl_quota_table *t, uint64_t hash, uint64_t now_ns)
{
	struct sl_quota_bucket *b = find_known(t, hash);

	return b ? b : insert(t, hash, now_ns);
}

uint64_t sl_quota_take(struct sl_quota_bucket *b, uint64_t cost_ns, uint64_t need_ns,
		       uint64_t depth_ns, uint64_t now_ns)
{
	uint64_t full_ns = load(&b->full_ns), base, lacks;

	do {
		base = full_ns > now_ns ? full_ns : now_ns;
		lacks = base - now_ns + (cost_ns ? cost_ns : need_ns);
		if (lacks > depth_ns)
			return lacks - depth_ns;
	} while (cost_ns && !swap(&b->full_ns, &full_ns, base + cost_ns));
	return 0;
}

void sl_quota_charge(struct sl_quota_bucket *b, uint64_t cost_ns, uint64_t most_ns, uint64_t now_ns)
{
	uint64_t full_ns = load(&b->full_ns), next;

	do {
		const uint64_t base = full_ns > now_ns ? full_ns : now_ns;
		const uint64_t room = most_ns > base - now_ns ? most_ns - (base - now_ns) : 0;

		next = base + (cost_ns < room ? cost_ns : room);
	} while (!swap(&b->full_ns, &full_ns, next));
}

void sl_quota_return(struct sl_quota_bucket *b, uint64_t cost_ns)
{
	uint64_t full_ns = load(&b->full_ns);

	while (!swap(&b->full_ns, &full_ns, full_ns > cost_ns ? full_ns - cost_ns : 0))
		;
}

bool sl_quota_open(struct sl_quota_table *t, uint64_t hash, uint32_t max, uint64_t now_ns)
{
	for (unsigned i = 0; i < INSERT_TRIES; i++) {
		struct sl_quota_bucket *b = sl_quota_find(t, hash, now_ns);
		uint64_t id = load(&b->id);

		while (id >> OPEN_BITS == tag_of(hash)) {
			if ((id & SL_QUOTA_OPEN_MAX) >= max)
				return false;
			if (swap(&b->id, &id, id + 1))
				return true;
		}
	}
	return true; /* other workers have replaced it each time */
}

void sl_quota_close(struct sl_quota_table *t, uint64_t hash)
{
	struct sl_quota_bucket *b = find_known(t, hash);
	uint64_t id = b ? load(&b->id) : 0;

	while (b && id >> OPEN_BITS == tag_of(hash) && (id & SL_QUOTA_OPEN_MAX)) {
		if (swap(&b->id, &id, id - 1))
			return;
	}
}
