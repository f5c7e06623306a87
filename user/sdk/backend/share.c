/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reply memory, shared by channels, and within a channel by client addresses (SL_META_CLIENT).
 * Dynamic thresholds (Choudhury, Hahne 1998) at both levels: an address may use as much as is left
 * to its channel. Without an address: a common share.
 */
#include "sdk/backend/internal.h"

enum { LOOKS = 64 };

static struct client_share **bucket_of(const struct channel *ch, uint32_t client)
{
	uint64_t id = (uint64_t)client ^ (uintptr_t)ch << 16;

	return &ch->b->shares[(id * ch->b->hash_key) >> 52 & (SL_BE_SHARES - 1)];
}

void sl_be_share_init(struct client_share *share, struct channel *ch, uint32_t client)
{
	*share = (struct client_share){.channel = ch, .client = client};
	sl_list_init(&share->stalled);
	sl_list_init(&share->node);
	ch->share_cnt++;
}

void sl_be_share_join(struct request *rq)
{
	struct channel *ch = rq->channel;
	struct client_share **at = bucket_of(ch, rq->view.client), *share = *at;

	if (!rq->view.client)
		return;
	while (share && (share->client != rq->view.client || share->channel != ch))
		share = share->next;
	if (!share) {
		share = sl_capped_malloc(&ch->b->request_mem, sizeof(*share));
		if (!share)
			return;
		sl_be_share_init(share, ch, rq->view.client);
		share->next = *at;
		*at = share;
	}
	share->request_cnt++;
	rq->share = share;
}

static size_t used_by(const struct client_share *share)
{
	return atomic_load_explicit(&share->reply_used, memory_order_relaxed) +
	       atomic_load_explicit(&share->foreign_used, memory_order_relaxed);
}

static void free_share(struct client_share *share)
{
	struct channel *ch = share->channel;
	struct client_share **at = bucket_of(ch, share->client);

	if (share->request_cnt || used_by(share) || share == &ch->unknown)
		return;
	while (*at != share)
		at = &(*at)->next;
	*at = share->next;
	sl_list_del(&share->node);
	ch->share_cnt--;
	sl_capped_free(&ch->b->request_mem, share);
}

void sl_be_share_leave(struct request *rq)
{
	struct client_share *share = rq->share;

	sl_list_del(&rq->stalled);
	sl_list_init(&rq->stalled);
	if (sl_list_empty(&share->stalled)) {
		sl_list_del(&share->node);
		sl_list_init(&share->node);
	}
	rq->share = NULL;
	if (share == &share->channel->unknown)
		return;
	share->request_cnt--;
	free_share(share);
}

void sl_be_share_stall(struct request *rq)
{
	struct client_share *share = rq->share;

	sl_list_del(&rq->stalled);
	sl_list_add_tail(&share->stalled, &rq->stalled);
	if (sl_list_empty(&share->node))
		sl_list_add_tail(&share->channel->stalled, &share->node);
}

static size_t memory_left(const struct sl_backend *b)
{
	size_t foreign = atomic_load_explicit(&b->foreign_used, memory_order_relaxed);
	size_t used = foreign > b->reply_mem.used ? foreign : b->reply_mem.used;

	return used < b->reply_mem.limit ? b->reply_mem.limit - used : 0;
}

static size_t channel_used(const struct channel *ch)
{
	return atomic_load_explicit(&ch->reply_used, memory_order_relaxed) +
	       atomic_load_explicit(&ch->foreign_used, memory_order_relaxed);
}

bool sl_be_reply_mem_left(const struct client_share *share, size_t len)
{
	return used_by(share) + channel_used(share->channel) + len <=
	       memory_left(share->channel->b);
}

bool sl_be_channel_mem_left(const struct channel *ch, size_t len)
{
	return channel_used(ch) + len <= memory_left(ch->b);
}

/* Single writer: no locked addition. */
static void count_own(struct client_share *share, size_t more)
{
	_Atomic size_t *of_share = &share->reply_used, *of_channel = &share->channel->reply_used;

	atomic_store_explicit(of_share, atomic_load_explicit(of_share, memory_order_relaxed) + more,
			      memory_order_relaxed);
	atomic_store_explicit(of_channel,
			      atomic_load_explicit(of_channel, memory_order_relaxed) + more,
			      memory_order_relaxed);
}

void *sl_be_reply_mem_take(struct client_share *share, size_t len)
{
	struct sl_capped_alloc *m = &share->channel->b->reply_mem;
	size_t before = m->used;
	void *ptr = sl_capped_malloc(m, len);

	count_own(share, m->used - before);
	return ptr;
}

void sl_be_reply_mem_give(struct client_share *share, void *ptr)
{
	struct sl_capped_alloc *m = &share->channel->b->reply_mem;
	size_t before = m->used;

	sl_capped_free(m, ptr);
	count_own(share, m->used - before);
	free_share(share);
}

bool sl_be_foreign_take(struct client_share *share, size_t len)
{
	struct channel *ch = share->channel;
	size_t limit = ch->b->reply_mem.limit, total, of_channel, own;

	total = atomic_fetch_add_explicit(&ch->b->foreign_used, len, memory_order_relaxed);
	of_channel = atomic_fetch_add_explicit(&ch->foreign_used, len, memory_order_relaxed) +
		     atomic_load_explicit(&ch->reply_used, memory_order_relaxed);
	own = atomic_fetch_add_explicit(&share->foreign_used, len, memory_order_relaxed) +
	      atomic_load_explicit(&share->reply_used, memory_order_relaxed);
	if (total <= limit && own + of_channel + len <= limit - total)
		return true;
	sl_be_foreign_undo(share, len);
	return false;
}

void sl_be_foreign_undo(struct client_share *share, size_t len)
{
	struct channel *ch = share->channel;

	atomic_fetch_sub_explicit(&ch->b->foreign_used, len, memory_order_relaxed);
	atomic_fetch_sub_explicit(&ch->foreign_used, len, memory_order_relaxed);
	atomic_fetch_sub_explicit(&share->foreign_used, len, memory_order_relaxed);
}

void sl_be_foreign_give(struct client_share *share, size_t len)
{
	sl_be_foreign_undo(share, len);
	free_share(share);
}

/* Returns the largest of LOOKS shares, round robin; NULL: below the channel's mean. */
static struct client_share *find_largest(struct channel *ch)
{
	struct client_share *largest = NULL;

	for (unsigned i = 0; i < LOOKS && !sl_list_empty(&ch->stalled); i++) {
		struct client_share *share = sl_list_first(&ch->stalled, struct client_share, node);

		sl_list_del(&share->node);
		sl_list_add_tail(&ch->stalled, &share->node);
		if (share->look == ch->looks)
			break;
		share->look = ch->looks;
		if (!largest || used_by(share) > used_by(largest))
			largest = share;
	}
	ch->looks++;
	return largest && used_by(largest) * ch->share_cnt >= channel_used(ch) ? largest : NULL;
}

struct request *sl_be_share_longest_stalled(struct channel *ch)
{
	struct client_share *share =
		channel_used(ch) > memory_left(ch->b) / 4 ? find_largest(ch) : NULL;

	return share ? sl_list_first(&share->stalled, struct request, stalled) : NULL;
}
