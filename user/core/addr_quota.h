/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accounts: what each client address has of a worker, so that none takes the others' part.
 *
 *   address --SipHash--> slots --> account { connections, exchanges, reading, frames }
 *                                     |
 *                    ranks: [16..31] [32..63] [64..127] ...   accounts by how much they have
 *
 * An IPv4 address or an IPv6 /64 is one account. It is there while it has a connection, and a little
 * longer if requests are limited by time. Datagrams prove no address: all of them have one account
 * together. Counting is O(1); so is finding one that has three eighths of the heaviest's, or more.
 * Nothing is allocated after the start. The laws stand in README.md of this room.
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

/* Resources by which accounts are ranked, for when one of them is short. */
enum sl_quota_resource { SL_RANK_EXCHANGES, SL_RANK_FRAMES, SL_RANK_CNT };
enum { SL_RANK_CLASSES = 32, SL_RANK_FLOOR = 16 }; /* who has less is not ranked */

struct sl_addr_quota {
	uint64_t hash;        /* of its address; 0: all unproven ones */
	uint64_t requests_ns; /* when its bucket of requests will be full again */
	uint32_t cnt[SL_QUOTA_LIMIT_CNT];
	struct sl_list ranks[SL_RANK_CNT];
	struct {
		uint32_t least, most; /* while it has these, or between, it stays in its class */
	} class[SL_RANK_CNT];
	struct sl_list waiting; /* exchanges that wait for the client, oldest first (min_rate.c) */
	struct sl_list quiet;   /* streams that wait for nobody, by `held` too */
	struct sl_list idle;    /* in sl_addr_quotas.idle, while it has nothing */
	struct sl_addr addr;
};

struct sl_addr_quota_rank {
	struct sl_list classes[SL_RANK_CLASSES]; /* class k: those that came to 2^k */
	uint32_t filled;                         /* bitmap */
};

struct sl_addr_quotas {
	struct sl_mempool pool;
	uint32_t *slots; /* index + 1; 0: empty */
	uint32_t mask;
	struct sl_sipkey key;
	struct sl_list idle; /* longest first */
	struct sl_addr_quota_rank ranks[SL_RANK_CNT];
	/* Of each, at most so much; of REQUESTS, per second; 0: no limit. */
	uint32_t limits[SL_QUOTA_LIMIT_CNT];
	uint64_t *refused; /* [SL_QUOTA_LIMIT_CNT] counters */
	struct sl_top_refused *top;
	struct sl_addr_quota unproven;
};

/* For up to `cap` accounts that have something. 0 or -errno. */
int sl_addr_quotas_init(struct sl_addr_quotas *t, uint32_t cap, uint64_t *refused,
			struct sl_top_refused *top);
void sl_addr_quotas_fini(struct sl_addr_quotas *t);

/* A connection of this address begins. NULL: it has too many. */
struct sl_addr_quota *sl_addr_quota_open(struct sl_addr_quotas *t, const struct sl_addr *peer);
/* A connection ends, and all that it had has been given back. */
void sl_addr_quota_close(struct sl_addr_quotas *t, struct sl_addr_quota *a, uint64_t now_ns);

/* It has too much of it: counted, and told with the address. False. */
SL_COLD bool sl_addr_quota_refuse(struct sl_addr_quotas *t, const struct sl_addr_quota *a,
				  enum sl_addr_quota_limit what);
/* Whether there may be `more` of it. */
static inline bool sl_addr_quota_admits(struct sl_addr_quotas *t, struct sl_addr_quota *a,
					enum sl_addr_quota_limit what, uint32_t more)
{
	uint32_t limit = t->limits[what];

	return !limit || (uint64_t)a->cnt[what] + more <= limit || sl_addr_quota_refuse(t, a, what);
}
/* Whether what waits in TCP for it may grow: the last quarter of its frames is for its requests. */
bool sl_addr_quota_may_queue(struct sl_addr_quotas *t, struct sl_addr_quota *a);
/* One more request at this time, where there is a limit to these. */
bool sl_addr_quota_take_request(struct sl_addr_quotas *t, struct sl_addr_quota *a, uint64_t now_ns);
static inline bool sl_addr_quota_admits_request(struct sl_addr_quotas *t, struct sl_addr_quota *a,
						uint64_t now_ns)
{
	return !t->limits[SL_QUOTA_REQUESTS] || sl_addr_quota_take_request(t, a, now_ns);
}

void sl_addr_quota_reclassify(struct sl_addr_quotas *t, struct sl_addr_quota *a,
			      enum sl_quota_resource rank, uint32_t cnt);
static inline void sl_addr_quota_set(struct sl_addr_quotas *t, struct sl_addr_quota *a,
				     enum sl_addr_quota_limit what, enum sl_quota_resource rank,
				     uint32_t cnt)
{
	a->cnt[what] = cnt;
	if (sl_unlikely(cnt < a->class[rank].least || cnt > a->class[rank].most))
		sl_addr_quota_reclassify(t, a, rank, cnt);
}
/* Of what accounts are ranked by. */
static inline void sl_addr_quota_set_exchanges(struct sl_addr_quotas *t, struct sl_addr_quota *a,
					       uint32_t cnt)
{
	sl_addr_quota_set(t, a, SL_QUOTA_EXCHANGES, SL_RANK_EXCHANGES, cnt);
}
static inline void sl_addr_quota_set_frames(struct sl_addr_quotas *t, struct sl_addr_quota *a,
					    uint32_t cnt)
{
	sl_addr_quota_set(t, a, SL_QUOTA_FRAMES, SL_RANK_FRAMES, cnt);
}
static inline void sl_addr_quota_add_frames(struct sl_addr_quotas *t, struct sl_addr_quota *a,
					    int32_t more)
{
	sl_addr_quota_set_frames(t, a, a->cnt[SL_QUOTA_FRAMES] + (uint32_t)more);
}

/* One of the heaviest, or the next one that is not heavier by class; NULL: nobody has much. */
struct sl_addr_quota *sl_addr_quota_heaviest(struct sl_addr_quotas *t, enum sl_quota_resource rank);
struct sl_addr_quota *sl_addr_quota_lighter(struct sl_addr_quotas *t, enum sl_quota_resource rank,
					    const struct sl_addr_quota *a);
/* The most that one of some has which are heaviest by class; 0: nobody has much. */
uint32_t sl_addr_quota_most_frames(const struct sl_addr_quotas *t);

const char *sl_addr_quota_text(const struct sl_addr_quota *a, char text[SL_QUOTA_TEXT]);

#endif
