/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What waits for a service: a heap by due time for each policy in use (a lane), and who the waiting
 * requests belong to, so that the client with most of them can be found when there are too many.
 *
 *   lanes[p]    heap: due_ns, then queued_ns          ages: oldest first
 *   buckets[h]  shares of clients with that hash      share: its requests, newest last
 *   by_cnt[n]   shares with n requests                heaviest: the largest n
 *
 * No allocation after init; every operation is O(log n) or O(1). Each client that waits has a share of
 * its own: there are no more of them than requests. The salt keeps keys from choosing their bucket.
 * Sources that nothing has proven (a datagram bears any address that its sender likes) have one share
 * together, whatever their keys: a flood under a thousand names counts as one client with a thousand
 * requests, and gives way as such.
 */
#ifndef SL_BATCH_QUEUE_H
#define SL_BATCH_QUEUE_H

#include "batch/batcher.h"

enum { SL_LANES = SL_POLICY_CNT }; /* lane p holds what policy p decides on */

struct sl_queue_share {
	struct sl_queue_share *next; /* of its bucket, or of those without requests */
	struct sl_list items;
	struct sl_list by_cnt;
	uint32_t cnt;
	uint32_t client; /* all unproven ones: 0 */
	bool unproven;
};

struct sl_lane {
	struct sl_batch_item **heap;
	struct sl_list ages;
	uint32_t len;
};

struct sl_batch_queue {
	struct sl_lane lanes[SL_LANES];
	struct sl_queue_share *shares; /* [cap] */
	struct sl_queue_share *unused; /* of those that were used before */
	struct sl_queue_share **buckets;
	struct sl_list *by_cnt; /* [cap + 1] */
	uint32_t bucket_mask, salt;
	uint32_t shares_used; /* so far, at a time; those behind were never touched */
	uint32_t cap, len;
	uint32_t heaviest;
	uint32_t active; /* shares that have any */
};

int sl_queue_init(struct sl_batch_queue *q, uint32_t cap, uint32_t salt);
void sl_queue_fini(struct sl_batch_queue *q);

/* due_ns, queued_ns, client, unproven and lane are set. The queue must not be full. */
void sl_queue_push(struct sl_batch_queue *q, struct sl_batch_item *item);
/* Undoes removals, the last first. */
void sl_queue_push_back(struct sl_batch_queue *q, struct sl_batch_item *item);
void sl_queue_remove(struct sl_batch_queue *q, struct sl_batch_item *item);

/* After due_ns of queued items has changed. */
void sl_queue_reorder(struct sl_batch_queue *q, unsigned lane);

static inline struct sl_batch_item *sl_lane_first(const struct sl_lane *l)
{
	return l->len ? l->heap[0] : NULL;
}
static inline struct sl_batch_item *sl_lane_oldest(const struct sl_lane *l)
{
	return sl_list_first(&l->ages, struct sl_batch_item, age);
}

/* Requests that wait in the share of this one. */
uint32_t sl_queue_share_cnt(const struct sl_batch_queue *q, const struct sl_batch_item *item);
/* The newest request of the client that has most; NULL: empty. */
struct sl_batch_item *sl_queue_heaviest(const struct sl_batch_queue *q);

#endif
