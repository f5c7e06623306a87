/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queued requests of a pool: a heap by due time per policy in use (a lane), and shares per client,
 * which find the client with the most requests.
 *
 *   lanes[p]    heap: due_ns, then queued_ns          ages: oldest first
 *   buckets[h]  shares of clients with that hash      share: its requests, newest last
 *   by_cnt[n]   shares with n requests                heaviest: the largest n
 *
 * No allocation after init; operations are O(log n) or O(1). The salt keeps clients from choosing
 * their bucket. All unproven sources (of datagrams) share one share, so that a flood under many names
 * counts as one client.
 */
#ifndef SL_BATCH_QUEUE_H
#define SL_BATCH_QUEUE_H

#include "batch/batcher.h"

enum { SL_LANES = SL_POLICY_CNT };

struct sl_queue_share {
	struct sl_queue_share *next; /* in its bucket, or of unused shares */
	struct sl_list items;
	struct sl_list by_cnt;
	uint32_t cnt;
	uint32_t client; /* 0: unproven */
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
	struct sl_queue_share *unused;
	struct sl_queue_share **buckets;
	struct sl_list *by_cnt; /* [cap + 1] */
	uint32_t bucket_mask, salt;
	uint32_t shares_used; /* high-water mark */
	uint32_t cap, len;
	uint32_t heaviest;
	uint32_t active;
};

/* Allocates an empty queue of `cap` items. Returns 0 or -ENOMEM. */
int sl_queue_init(struct sl_batch_queue *q, uint32_t cap, uint32_t salt);
void sl_queue_fini(struct sl_batch_queue *q);

/* The item must have due_ns, queued_ns, client, unproven and lane. The queue must not be full. */
void sl_queue_push(struct sl_batch_queue *q, struct sl_batch_item *item);
/* Undoes removals, in reverse order. */
void sl_queue_push_back(struct sl_batch_queue *q, struct sl_batch_item *item);
void sl_queue_remove(struct sl_batch_queue *q, struct sl_batch_item *item);

/* Restores the heap after due_ns of queued items has changed. */
void sl_queue_reorder(struct sl_batch_queue *q, unsigned lane);

static inline struct sl_batch_item *sl_lane_first(const struct sl_lane *l)
{
	return l->len ? l->heap[0] : NULL;
}
static inline struct sl_batch_item *sl_lane_oldest(const struct sl_lane *l)
{
	return sl_list_first(&l->ages, struct sl_batch_item, age);
}

/* Returns how many requests the item's client has in the queue. */
uint32_t sl_queue_share_cnt(const struct sl_batch_queue *q, const struct sl_batch_item *item);
/* Returns the newest request of the client with the most; NULL: empty. */
struct sl_batch_item *sl_queue_heaviest(const struct sl_batch_queue *q);

#endif
