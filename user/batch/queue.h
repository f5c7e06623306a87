/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queued requests of a pool: a heap by due time per policy (a lane), and shares per client.
 *
 *   lanes[p]    heap: due_ns, then queued_ns          ages: oldest first
 *   buckets[h]  shares of clients with that hash      share: its requests, newest last
 *   by_cnt[n]   shares with n requests                heaviest: the largest n
 *
 * The salt keeps clients from choosing their bucket. Unproven
 * sources (of datagrams) share one.
 */
#ifndef SL_BATCH_QUEUE_H
#define SL_BATCH_QUEUE_H

#include "batch/batcher.h"

enum { SL_LANES = SL_POLICY_CNT };

struct sl_queue_share {
	struct sl_queue_share *next; /* in its bucket, or unused */
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

/* Returns 0 or -ENOMEM, with all freed. */
int sl_queue_init(struct sl_batch_queue *q, uint32_t cap, uint32_t salt);
/* Frees the queue, not its items. */
void sl_queue_fini(struct sl_batch_queue *q);

/* Queues an item with due_ns, queued_ns, client, unproven and lane. The queue must not be full. */
void sl_queue_push(struct sl_batch_queue *q, struct sl_batch_item *item);
/* Undoes the last removal. */
void sl_queue_push_back(struct sl_batch_queue *q, struct sl_batch_item *item);
/* Removes a queued item. */
void sl_queue_remove(struct sl_batch_queue *q, struct sl_batch_item *item);

/* Restores the heap after due_ns has changed. */
void sl_queue_reorder(struct sl_batch_queue *q, unsigned lane);

/* Return the earliest due item, or the oldest; NULL: none. */
static inline struct sl_batch_item *sl_lane_first(const struct sl_lane *l)
{
	return l->len ? l->heap[0] : NULL;
}
static inline struct sl_batch_item *sl_lane_oldest(const struct sl_lane *l)
{
	return sl_list_first(&l->ages, struct sl_batch_item, age);
}

/* Returns how many requests the item's client has. */
uint32_t sl_queue_share_cnt(const struct sl_batch_queue *q, const struct sl_batch_item *item);
/* Returns the heaviest client's newest request; NULL: empty. */
struct sl_batch_item *sl_queue_heaviest(const struct sl_batch_queue *q);

#endif
