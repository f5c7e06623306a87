/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Token buckets of many clients, shared by all workers without locks.
 *
 *   hash of the client --> two sets of four --> { tag : 48, open requests : 16 } { full_ns }
 *
 * A bucket is the time at which it is full again: the generic cell rate algorithm (GCRA, ITU-T
 * I.371). Each client has two possible sets (two-choice hashing, Azar et al.). The hash has a
 * secret key, so a client cannot choose its sets. README.md has the rules of replacement.
 *
 * The table has a fixed size. All functions but new, get and put may run in any worker. Workers
 * that insert one client at once can create two buckets for it; all later requests use the same.
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
	_Atomic uint64_t refused_by_rate, refused_by_open; /* requests */
	_Atomic uint64_t charged;                          /* tokens that backends have named */
	_Atomic uint64_t unreadable;                       /* values that are no number */
};

/* Makes an empty table for `cap` clients. NULL: no memory or randomness. */
struct sl_quota_table *sl_quota_table_new(uint32_t cap);
/* Adds a user. Returns t. */
struct sl_quota_table *sl_quota_table_get(struct sl_quota_table *t);
/* Removes a user; the last one frees the table. NULL is allowed. */
void sl_quota_table_put(struct sl_quota_table *t);

/* Returns the client's bucket, or a full new one. */
struct sl_quota_bucket *sl_quota_find(struct sl_quota_table *t, uint64_t hash, uint64_t now_ns);

/*
 * Takes tokens worth cost_ns from a bucket that fills in depth_ns. A cost of 0 needs need_ns of
 * tokens. Returns 0, or the time in ns until it would be allowed.
 */
uint64_t sl_quota_take(struct sl_quota_bucket *b, uint64_t cost_ns, uint64_t need_ns,
		       uint64_t depth_ns, uint64_t now_ns);
/* Takes tokens after the fact, at most until the bucket is full in most_ns. */
void sl_quota_charge(struct sl_quota_bucket *b, uint64_t cost_ns, uint64_t most_ns,
		     uint64_t now_ns);
/* Returns tokens that sl_quota_take() took. */
void sl_quota_return(struct sl_quota_bucket *b, uint64_t cost_ns);

/* Counts an open request of the client. False: it has `max`. */
bool sl_quota_open(struct sl_quota_table *t, uint64_t hash, uint32_t max, uint64_t now_ns);
/* Counts its end, unless the bucket was replaced. */
void sl_quota_close(struct sl_quota_table *t, uint64_t hash);

#endif
