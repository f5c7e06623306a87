/* SPDX-License-Identifier: Apache-2.0 */
#include "core/prefix_hash.h"

#include <stdlib.h>
#include <string.h>

#include "batch/affinity.h"

enum { BUCKETS = 4096, PLACES = 4, WORD = 8 };

struct prefix_entry {
	uint64_t hash; /* 0: unused */
	uint16_t ways[SL_PREFIX_WAYS];
	uint8_t way_cnt; /* SL_PREFIX_WAYS + 1: shared */
};
_Static_assert(sizeof(struct prefix_entry) == 16, "a bucket is a cache line");

struct sl_prefix_table {
	struct prefix_entry at[BUCKETS][PLACES];
};

struct sl_prefix_table *sl_prefix_table_create(void)
{
	return calloc(1, sizeof(struct sl_prefix_table));
}

void sl_prefix_table_destroy(struct sl_prefix_table *t)
{
	free(t);
}

static struct prefix_entry *find_entry(struct sl_prefix_table *t, uint64_t hash, bool add)
{
	struct prefix_entry *bucket = t->at[hash % BUCKETS], found = {.hash = hash};
	unsigned i = 0;

	while (i < PLACES && bucket[i].hash != hash)
		i++;
	if (i == PLACES && !add)
		return NULL;
	if (i < PLACES)
		found = bucket[i];
	else
		i--;
	memmove(&bucket[1], &bucket[0], i * sizeof(*bucket));
	bucket[0] = found;
	return &bucket[0];
}

static bool is_shared(struct sl_prefix_table *t, uint64_t hash)
{
	const struct prefix_entry *e = find_entry(t, hash, false);

	return e && e->way_cnt > SL_PREFIX_WAYS;
}

static void note_way(struct sl_prefix_table *t, uint64_t hash, uint64_t next)
{
	struct prefix_entry *e = find_entry(t, hash, true);
	uint16_t way = (uint16_t)(next >> 48);

	for (unsigned i = 0; i < e->way_cnt && i < SL_PREFIX_WAYS; i++) {
		if (e->ways[i] == way)
			return;
	}
	if (e->way_cnt < SL_PREFIX_WAYS)
		e->ways[e->way_cnt] = way;
	if (e->way_cnt <= SL_PREFIX_WAYS)
		e->way_cnt++;
}

void sl_prefix_hash_begin(struct sl_prefix_hash *p, const struct sl_cfg_affinity *cfg)
{
	*p = (struct sl_prefix_hash){.cfg = cfg, .hash = UINT64_C(0x2d358dccaa6c78a5)};
}

static uint64_t hash_word(uint64_t hash, uint64_t word)
{
	unsigned __int128 m = (unsigned __int128)(hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);

	return (uint64_t)m ^ (uint64_t)(m >> 64);
}

static uint64_t word_at(const uint8_t *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return le64toh(word);
}

static void hash_bytes(struct sl_prefix_hash *p, const uint8_t *at, size_t n)
{
	while (n) {
		uint32_t have = p->len % WORD;

		if (!have && n >= WORD) {
			p->hash = hash_word(p->hash, word_at(at));
			p->len += WORD;
			at += WORD;
			n -= WORD;
			continue;
		}
		p->word |= (uint64_t)*at++ << 8 * have; /* NOLINT(clang-analyzer-core.*): n > 0 */
		p->len++;
		n--;
		if (have == WORD - 1) {
			p->hash = hash_word(p->hash, p->word);
			p->word = 0;
		}
	}
}

static void reach_depth(struct sl_prefix_hash *p, struct sl_prefix_table *t)
{
	uint64_t here = sl_affinity_mix(p->hash);

	p->depth++;
	if (p->before)
		note_way(t, p->before, here);
	p->over = p->key || p->depth == p->cfg->depth_cnt;
	if (!p->key && (p->over || !is_shared(t, here)))
		p->key = here;
	p->before = here;
}

void sl_prefix_hash_read(struct sl_prefix_hash *p, struct sl_prefix_table *t, struct sl_span bytes)
{
	while (bytes.len && !p->over) {
		size_t n = p->cfg->depths[p->depth] - p->len;

		n = bytes.len < n ? bytes.len : n;
		hash_bytes(p, bytes.ptr, n);
		bytes = sl_span_skip(bytes, n);
		if (p->len == p->cfg->depths[p->depth])
			reach_depth(p, t);
	}
}

void sl_prefix_hash_end(struct sl_prefix_hash *p)
{
	p->over = true;
}
