/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Usage and limits of each client address on a worker, for its thread only.
 *
 *   address --SipHash--> slots --> quota { connections, exchanges, reading, frames }
 *                                    |
 *                   ranks: [16..31] [32..63] [64..127] ...
 *
 * An IPv4 address or an IPv6 /64 has one quota while it has a connection, and a little longer if
 * requests are limited.
 */
#ifndef SL_CORE_ADDR_QUOTA_H
#define SL_CORE_ADDR_QUOTA_H

#include <stdbool.h>
#include <stdint.h>
#include "base/cpu.h"
#include "base/list.h"
#include "base/mempool.h"
#include "base/siphash.h"
#include "core/top_refused.h"
#include "wire/addr.h"

enum sl_quota_resource { SL_RANK_EXCHANGES, SL_RANK_FRAMES, SL_RANK_CNT };
enum { SL_RANK_CLASSES = 32, SL_RANK_FLOOR = 16 }; /* smaller users are not ranked */

struct sl_addr_quota {
	uint64_t hash;        /* 0: unproven addresses */
	uint64_t requests_ns; /* token bucket is full */
	uint32_t cnt[SL_QUOTA_LIMIT_CNT];
	struct sl_list ranks[SL_RANK_CNT];
	struct {
		uint32_t least, most; /* usage that stays in this class */
	} class[SL_RANK_CNT];
	struct sl_list waiting; /* exchanges, oldest first (min_rate.c) */
	struct sl_list quiet;   /* other streams, by quota_node */
	struct sl_list idle;
	struct sl_addr addr;
};

struct sl_addr_quota_rank {
	struct sl_list classes[SL_RANK_CLASSES]; /* [k]: reached 2^k */
	uint32_t filled;
};

struct sl_addr_quotas {
	struct sl_mempool pool;
	uint32_t *slots; /* index + 1; 0: empty */
	uint32_t mask;
	struct sl_sipkey key;
	struct sl_list idle; /* longest idle first */
	struct sl_addr_quota_rank ranks[SL_RANK_CNT];
	/* REQUESTS: per second; 0: no limit */
	uint32_t limits[SL_QUOTA_LIMIT_CNT];
	uint64_t *refused;
	struct sl_top_refused *top;
	struct sl_addr_quota unproven;
};

/*
 * Makes a table for `cap` addresses; `refused` is [SL_QUOTA_LIMIT_CNT]. Returns 0 or -errno; fini
 * must follow even then.
 */
int sl_addr_quotas_init(struct sl_addr_quotas *t, uint32_t cap, uint64_t *refused,
			struct sl_top_refused *top);
/* Frees the table and its quotas. */
void sl_addr_quotas_fini(struct sl_addr_quotas *t);

/* Zeroes a quota that belongs to no table. */
void sl_addr_quota_init(struct sl_addr_quota *a);
/* Counts a connection. Returns its quota, to be closed, or NULL: too many, or no memory. */
struct sl_addr_quota *sl_addr_quota_open(struct sl_addr_quotas *t, const struct sl_addr *peer);
/* Ends a connection; the last one frees the quota, unless its request rate matters. */
void sl_addr_quota_close(struct sl_addr_quotas *t, struct sl_addr_quota *a, uint64_t now_ns);

/* Counts a refusal, perhaps logs it. Returns false. */
SL_COLD bool sl_addr_quota_refuse(struct sl_addr_quotas *t, const struct sl_addr_quota *a,
				  enum sl_addr_quota_limit what);
/* Returns false, and counts a refusal, if `more` exceeds the limit. */
static inline bool sl_addr_quota_admits(struct sl_addr_quotas *t, struct sl_addr_quota *a,
					enum sl_addr_quota_limit what, uint32_t more)
{
	uint32_t limit = t->limits[what];

	return !limit || (uint64_t)a->cnt[what] + more <= limit || sl_addr_quota_refuse(t, a, what);
}
/*
 * Returns true if TCP may queue more; else false, counted: the last quarter of frames is for
 * requests.
 */
bool sl_addr_quota_may_queue(struct sl_addr_quotas *t, struct sl_addr_quota *a);
/* Takes a token. Returns false, counted, if there is none. Needs a limit above 0. */
bool sl_addr_quota_take_request(struct sl_addr_quotas *t, struct sl_addr_quota *a, uint64_t now_ns);
/* The same; true without a limit. */
static inline bool sl_addr_quota_admits_request(struct sl_addr_quotas *t, struct sl_addr_quota *a,
						uint64_t now_ns)
{
	return !t->limits[SL_QUOTA_REQUESTS] || sl_addr_quota_take_request(t, a, now_ns);
}

/* Moves the quota to the rank's list for `cnt`. Changes no count. */
void sl_addr_quota_reclassify(struct sl_addr_quotas *t, struct sl_addr_quota *a,
			      enum sl_quota_resource rank, uint32_t cnt);
/* Sets a count and its class. `rank` must be that of `what`: call the functions below. */
static inline void sl_addr_quota_set(struct sl_addr_quotas *t, struct sl_addr_quota *a,
				     enum sl_addr_quota_limit what, enum sl_quota_resource rank,
				     uint32_t cnt)
{
	a->cnt[what] = cnt;
	if (sl_unlikely(cnt < a->class[rank].least || cnt > a->class[rank].most))
		sl_addr_quota_reclassify(t, a, rank, cnt);
}
/* Sets the count of exchanges. */
static inline void sl_addr_quota_set_exchanges(struct sl_addr_quotas *t, struct sl_addr_quota *a,
					       uint32_t cnt)
{
	sl_addr_quota_set(t, a, SL_QUOTA_EXCHANGES, SL_RANK_EXCHANGES, cnt);
}
/* Sets the count of frames. */
static inline void sl_addr_quota_set_frames(struct sl_addr_quotas *t, struct sl_addr_quota *a,
					    uint32_t cnt)
{
	sl_addr_quota_set(t, a, SL_QUOTA_FRAMES, SL_RANK_FRAMES, cnt);
}
/* Adds to the count of frames. */
static inline void sl_addr_quota_add_frames(struct sl_addr_quotas *t, struct sl_addr_quota *a,
					    int32_t more)
{
	sl_addr_quota_set_frames(t, a, a->cnt[SL_QUOTA_FRAMES] + (uint32_t)more);
}

/* Returns a quota of the heaviest class, or NULL. */
struct sl_addr_quota *sl_addr_quota_heaviest(struct sl_addr_quotas *t, enum sl_quota_resource rank);
/* Returns the quota after `a` in descending order of classes, or NULL. */
struct sl_addr_quota *sl_addr_quota_lighter(struct sl_addr_quotas *t, enum sl_quota_resource rank,
					    const struct sl_addr_quota *a);
/* Returns the most frames of some heaviest quotas; 0: none. */
uint32_t sl_addr_quota_most_frames(const struct sl_addr_quotas *t);

/* Writes and returns the address as sl_top_refused_text(). */
const char *sl_addr_quota_text(const struct sl_addr_quota *a, char text[SL_QUOTA_TEXT]);

#endif
