/* SPDX-License-Identifier: Apache-2.0 */
#include "core/batch.h"

#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "rpc/rpc.h"

enum {
	OUTSTANDING_MAX = 2, /* batches per backend: one computes, the next one travels */
	NOT_QUEUED = UINT32_MAX,
};

struct backend {
	bool up;
	bool stalled; /* no credit at the last try; asked again after the next event */
	uint32_t batches;
	uint32_t requests;
};

/* The queue is a binary heap by deadline, then by time of arrival. */
struct sl_batcher {
	const struct sl_cfg_pool *pool;
	const struct sl_batch_ops *ops;
	void *app;
	struct sl_svc_live *live;
	const struct sl_svc_ctl *ctl;
	struct sl_batch_item **heap;
	uint32_t len, cap;
	struct backend backends[SL_MAX_BACKENDS];
	uint32_t up_mask;
	unsigned next; /* backend to be asked first */
};

static bool before(const struct sl_batch_item *a, const struct sl_batch_item *b)
{
	if (a->deadline_ns != b->deadline_ns)
		return a->deadline_ns < b->deadline_ns;
	return a->queued_ns < b->queued_ns;
}

static void place(struct sl_batcher *b, struct sl_batch_item *item, uint32_t at)
{
	b->heap[at] = item;
	item->heap_pos = at;
}

static void sift_up(struct sl_batcher *b, struct sl_batch_item *item, uint32_t at)
{
	while (at && before(item, b->heap[(at - 1) / 2])) {
		place(b, b->heap[(at - 1) / 2], at);
		at = (at - 1) / 2;
	}
	place(b, item, at);
}

static void sift_down(struct sl_batcher *b, struct sl_batch_item *item, uint32_t at)
{
	for (;;) {
		uint32_t child = 2 * at + 1;

		if (child >= b->len)
			break;
		if (child + 1 < b->len && before(b->heap[child + 1], b->heap[child]))
			child++;
		if (!before(b->heap[child], item))
			break;
		place(b, b->heap[child], at);
		at = child;
	}
	place(b, item, at);
}

static void heap_remove(struct sl_batcher *b, struct sl_batch_item *item)
{
	uint32_t at = item->heap_pos;
	struct sl_batch_item *last = b->heap[--b->len];

	item->heap_pos = NOT_QUEUED;
	if (last == item)
		return;
	if (at && before(last, b->heap[(at - 1) / 2]))
		sift_up(b, last, at);
	else
		sift_down(b, last, at);
}

struct sl_batcher *sl_batcher_create(const struct sl_cfg_pool *pool, const struct sl_batch_ops *ops,
				     void *app, const struct sl_svc_hist *hist,
				     struct sl_svc_live *live, const struct sl_svc_ctl *ctl)
{
	struct sl_batcher *b = calloc(1, sizeof(*b));

	(void)hist;
	if (!b)
		return NULL;
	b->pool = pool;
	b->ops = ops;
	b->app = app;
	b->live = live;
	b->ctl = ctl;
	b->cap = pool->max_queue;
	b->heap = calloc(b->cap, sizeof(*b->heap));
	if (!b->heap) {
		free(b);
		return NULL;
	}
	return b;
}

void sl_batcher_destroy(struct sl_batcher *b)
{
	free(b->heap);
	free(b);
}

enum sl_outcome sl_batcher_submit(struct sl_batcher *b, struct sl_batch_item *item, uint64_t now_ns)
{
	if (!(b->up_mask & ~item->excluded))
		return SL_OUTCOME_NO_BACKEND;
	if (now_ns >= item->deadline_ns)
		return SL_OUTCOME_EXPIRED;
	if (b->len == b->cap)
		return SL_OUTCOME_QUEUE_FULL;
	item->queued_ns = now_ns;
	b->len++;
	sift_up(b, item, b->len - 1);
	return SL_OUTCOME_OK;
}

bool sl_batcher_queued(const struct sl_batch_item *item)
{
	return item->heap_pos != NOT_QUEUED;
}

void sl_batcher_remove(struct sl_batcher *b, struct sl_batch_item *item)
{
	if (sl_batcher_queued(item))
		heap_remove(b, item);
}

/* Those that no backend which is up may have: nothing would ever send them. */
static void drop_orphans(struct sl_batcher *b)
{
	for (uint32_t i = b->len; i--;) {
		struct sl_batch_item *item = b->heap[i];

		if (b->up_mask & ~item->excluded)
			continue;
		heap_remove(b, item);
		b->ops->drop(b->app, item, SL_OUTCOME_NO_BACKEND);
		i = i < b->len ? i + 1 : b->len; /* another item may stand here now */
	}
}

/* What is outstanding stays so until it is reported as done, which the RPC does for each batch. */
void sl_batcher_backend(struct sl_batcher *b, unsigned backend, bool up, uint64_t now_ns)
{
	(void)now_ns;
	b->backends[backend].up = up;
	b->backends[backend].stalled = false;
	if (up)
		b->up_mask |= 1u << backend;
	else
		b->up_mask &= ~(1u << backend);
	if (!up)
		drop_orphans(b);
}

void sl_batcher_done(struct sl_batcher *b, unsigned backend, unsigned cnt, uint64_t service_ns,
		     uint64_t rtt_ns, uint64_t now_ns)
{
	struct backend *be = &b->backends[backend];

	(void)service_ns;
	(void)rtt_ns;
	(void)now_ns;
	SL_CHECK(be->batches && be->requests >= cnt);
	be->stalled = false;
	be->batches--;
	be->requests -= cnt;
}

static bool send_to(struct sl_batcher *b, unsigned backend)
{
	struct sl_batch_item *items[SL_RPC_MAX_BATCH];
	uint32_t max = b->pool->batch.max_size;
	struct backend *be = &b->backends[backend];
	unsigned n = 0;

	while (n < max && b->len && !(b->heap[0]->excluded & 1u << backend)) {
		items[n] = b->heap[0];
		heap_remove(b, items[n++]);
	}
	if (!n)
		return false;
	if (b->ops->send(b->app, backend, items, n)) {
		be->stalled = true;
		while (n) {
			b->len++;
			sift_up(b, items[--n], b->len - 1);
		}
		return false;
	}
	be->batches++;
	be->requests += n;
	return true;
}

void sl_batcher_pump(struct sl_batcher *b, uint64_t now_ns)
{
	while (b->len && now_ns >= b->heap[0]->deadline_ns) {
		struct sl_batch_item *item = b->heap[0];

		heap_remove(b, item);
		b->ops->drop(b->app, item, SL_OUTCOME_EXPIRED);
	}
	for (unsigned tried = 0; b->len && tried < b->pool->backend_cnt; tried++) {
		unsigned backend = b->next;

		b->next = (b->next + 1) % b->pool->backend_cnt;
		if (b->backends[backend].up && b->backends[backend].batches < OUTSTANDING_MAX)
			send_to(b, backend);
	}
}

uint64_t sl_batcher_next_ns(const struct sl_batcher *b)
{
	return b->len ? b->heap[0]->deadline_ns : UINT64_MAX;
}

uint32_t sl_batcher_queue_len(const struct sl_batcher *b)
{
	return b->len;
}
