/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Token buckets of many clients, shared by all workers without locks.
 *
 * A bucket is the time at which it is full again (GCRA, ITU-T I.371). A keyed hash chooses a
 * client's two sets of four.
 *
 * Any worker may call all but new, get and put.
 */
#ifndef SL_CORE_QUOTA_TABLE_H
#define SL_CORE_QUOTA_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/siphash.h"

enum { SL_QUOTA_WAYS = 4, SL_QUOTA_OPEN_MAX = UINT16_MAX };

struct sl_quota_bucket {
	_Atomic uint64_t id; /* tag and open requests; 0: unused */
	_Atomic uint64_t full_ns;
};

struct sl_quota_set {
	_Alignas(64) struct sl_quota_bucket way[SL_QUOTA_WAYS];
};

struct sl_quota_table {
	struct sl_quota_set *sets;
	uint64_t mask;
	struct sl_sipkey key;
	unsigned users; /* configurations; control thread */
	_Atomic uint64_t evicted;
	_Atomic uint64_t refused_by_rate, refused_by_open;
	_Atomic uint64_t charged;    /* tokens that backends have named */
	_Atomic uint64_t unreadable; /* values that are no number */
};

/*
 * Returns a table for `cap` clients, with one reference; NULL: no memory or randomness. Control
 * thread.
 */
struct sl_quota_table *sl_quota_table_new(uint32_t cap);
/* Takes a reference. Control thread. */
struct sl_quota_table *sl_quota_table_get(struct sl_quota_table *t);
/* Drops a reference; the last one frees the table. NULL is allowed. Control thread. */
void sl_quota_table_put(struct sl_quota_table *t);

/* Returns the client's bucket, or a full new one; never NULL. Another client may take it over. */
struct sl_quota_bucket *sl_quota_find(struct sl_quota_table *t, uint64_t hash, uint64_t now_ns);

/*
 * Takes tokens worth cost_ns from a bucket that fills in depth_ns. A cost of 0 takes none, but
 * needs need_ns of tokens. Returns 0, or the ns until it would be allowed.
 */
uint64_t sl_quota_take(struct sl_quota_bucket *b, uint64_t cost_ns, uint64_t need_ns,
		       uint64_t depth_ns, uint64_t now_ns);
/* Takes tokens after the fact, at most until the bucket is full in most_ns. */
void sl_quota_charge(struct sl_quota_bucket *b, uint64_t cost_ns, uint64_t most_ns,
		     uint64_t now_ns);
/* Gives tokens back. */
void sl_quota_return(struct sl_quota_bucket *b, uint64_t cost_ns);

/*
 * Counts an open request; sl_quota_close() must follow. Returns false, not counted, if the client
 * has `max`.
 */
bool sl_quota_open(struct sl_quota_table *t, uint64_t hash, uint32_t max, uint64_t now_ns);
/* Counts its end, unless the bucket was replaced. */
void sl_quota_close(struct sl_quota_table *t, uint64_t hash);

#endif
