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
#ifndef SL_CORE_ACCOUNT_H
#define SL_CORE_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>
#include "base/cpu.h"
#include "base/list.h"
#include "base/mempool.h"
#include "base/siphash.h"
#include "core/refused.h"
#include "wire/addr.h"

/* Resources by which accounts are ranked, for when one of them is short. */
enum sl_account_rank { SL_RANK_EXCHANGES, SL_RANK_FRAMES, SL_RANK_CNT };
enum { SL_RANK_CLASSES = 32, SL_RANK_FLOOR = 16 }; /* who has less is not ranked */

struct sl_account {
	uint64_t hash;        /* of its address; 0: all unproven ones */
	uint64_t requests_ns; /* when its bucket of requests will be full again */
	uint32_t cnt[SL_ACCOUNT_LIMIT_CNT];
	struct sl_list ranks[SL_RANK_CNT];
	struct {
		uint32_t least, most; /* while it has these, or between, it stays in its class */
	} class[SL_RANK_CNT];
	struct sl_list held;  /* exchanges that wait for the client, oldest first (turn.c) */
	struct sl_list quiet; /* streams that wait for nobody, by `held` too */
	struct sl_list idle;  /* in sl_accounts.idle, while it has nothing */
	struct sl_addr addr;
};

struct sl_rank {
	struct sl_list classes[SL_RANK_CLASSES]; /* class k: those that came to 2^k */
	uint32_t filled;                         /* bitmap */
};

struct sl_accounts {
	struct sl_mempool pool;
	uint32_t *slots; /* index + 1; 0: empty */
	uint32_t mask;
	struct sl_sipkey key;
	struct sl_list idle; /* longest first */
	struct sl_rank ranks[SL_RANK_CNT];
	/* Of each, at most so much; of REQUESTS, per second; 0: no limit. */
	uint32_t limits[SL_ACCOUNT_LIMIT_CNT];
	uint64_t *refused; /* [SL_ACCOUNT_LIMIT_CNT] counters */
	struct sl_refused *who;
	struct sl_account unproven;
};

/* For up to `cap` accounts that have something. 0 or -errno. */
int sl_accounts_init(struct sl_accounts *t, uint32_t cap, uint64_t *refused,
		     struct sl_refused *who);
void sl_accounts_fini(struct sl_accounts *t);

/* A connection of this address begins. NULL: it has too many. */
struct sl_account *sl_account_open(struct sl_accounts *t, const struct sl_addr *peer);
/* A connection ends, and all that it had has been given back. */
void sl_account_close(struct sl_accounts *t, struct sl_account *a, uint64_t now_ns);

/* It has too much of it: counted, and told with the address. False. */
SL_COLD bool sl_account_refuse(struct sl_accounts *t, const struct sl_account *a,
			       enum sl_account_limit what);
/* Whether there may be `more` of it. */
static inline bool sl_account_admits(struct sl_accounts *t, struct sl_account *a,
				     enum sl_account_limit what, uint32_t more)
{
	uint32_t limit = t->limits[what];

	return !limit || (uint64_t)a->cnt[what] + more <= limit || sl_account_refuse(t, a, what);
}
/* Whether what waits in TCP for it may grow: the last quarter of its frames is for its requests. */
bool sl_account_may_queue(struct sl_accounts *t, struct sl_account *a);
/* One more request at this time, where there is a limit to these. */
bool sl_account_take_request(struct sl_accounts *t, struct sl_account *a, uint64_t now_ns);
static inline bool sl_account_admits_request(struct sl_accounts *t, struct sl_account *a,
					     uint64_t now_ns)
{
	return !t->limits[SL_ACCOUNT_REQUESTS] || sl_account_take_request(t, a, now_ns);
}

void sl_account_rank(struct sl_accounts *t, struct sl_account *a, enum sl_account_rank rank,
		     uint32_t cnt);
static inline void sl_account_set(struct sl_accounts *t, struct sl_account *a,
				  enum sl_account_limit what, enum sl_account_rank rank,
				  uint32_t cnt)
{
	a->cnt[what] = cnt;
	if (sl_unlikely(cnt < a->class[rank].least || cnt > a->class[rank].most))
		sl_account_rank(t, a, rank, cnt);
}
/* Of what accounts are ranked by. */
static inline void sl_account_set_exchanges(struct sl_accounts *t, struct sl_account *a,
					    uint32_t cnt)
{
	sl_account_set(t, a, SL_ACCOUNT_EXCHANGES, SL_RANK_EXCHANGES, cnt);
}
static inline void sl_account_set_frames(struct sl_accounts *t, struct sl_account *a, uint32_t cnt)
{
	sl_account_set(t, a, SL_ACCOUNT_FRAMES, SL_RANK_FRAMES, cnt);
}
static inline void sl_account_add_frames(struct sl_accounts *t, struct sl_account *a, int32_t more)
{
	sl_account_set_frames(t, a, a->cnt[SL_ACCOUNT_FRAMES] + (uint32_t)more);
}

/* One of the heaviest, or the next one that is not heavier by class; NULL: nobody has much. */
struct sl_account *sl_account_heaviest(struct sl_accounts *t, enum sl_account_rank rank);
struct sl_account *sl_account_lighter(struct sl_accounts *t, enum sl_account_rank rank,
				      const struct sl_account *a);
/* The most that one of some has which are heaviest by class; 0: nobody has much. */
uint32_t sl_account_most_frames(const struct sl_accounts *t);

const char *sl_account_text(const struct sl_account *a, char text[SL_ACCOUNT_TEXT]);

#endif
