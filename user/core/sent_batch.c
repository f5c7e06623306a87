/* SPDX-License-Identifier: Apache-2.0 */
/* Batches are hashed: clients can reset many unread streams in any order. */
#include "core/sent_batch.h"

#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "core/pool.h"

int sl_sent_batches_init(struct sl_core *c, uint32_t cap)
{
	uint32_t slots = 64;
	int rc = sl_mempool_init(&c->sent_batches, sizeof(struct sl_sent_batch), 8, cap);

	if (rc)
		return rc;
	while (slots < cap)
		slots *= 2;
	c->sent_batch_slots = calloc(slots, sizeof(*c->sent_batch_slots));
	c->sent_batch_mask = slots - 1;
	return c->sent_batch_slots ? 0 : -ENOMEM;
}

void sl_sent_batches_fini(struct sl_core *c)
{
	free(c->sent_batch_slots);
	sl_mempool_fini(&c->sent_batches);
}

static uint32_t *slot_of(const struct sl_core *c, const struct sl_backend_ref *m, uint64_t batch)
{
	uint64_t home = (uintptr_t)m * UINT64_C(0x9e3779b97f4a7c15) >> 32;

	return &c->sent_batch_slots[(home + batch) & c->sent_batch_mask];
}

static uint32_t *find_slot(const struct sl_core *c, const struct sl_backend_ref *m, uint64_t batch)
{
	uint32_t *at = slot_of(c, m, batch);

	while (*at) {
		struct sl_sent_batch *f = sl_mempool_at(&c->sent_batches, *at - 1);

		if (f->backend == m && f->batch == batch)
			break;
		at = &f->next;
	}
	return at;
}

void sl_sent_batch_begin(struct sl_core *c, const struct sl_backend_ref *m, struct sl_sent_batch *f)
{
	uint32_t *slot = slot_of(c, m, f->batch);

	f->backend = m;
	f->orphaned = (struct sl_store){0};
	sl_list_init(&f->shared);
	f->next = *slot;
	*slot = sl_mempool_index(&c->sent_batches, f) + 1;
}

static struct sl_sent_batch *batch_of(const struct sl_exchange *x)
{
	const struct sl_core *c = x->core;
	uint32_t at = x->send_ns ? *find_slot(c, x->backend, x->batch) : 0;

	return at ? sl_mempool_at(&c->sent_batches, at - 1) : NULL;
}

static unsigned buf_ref_room(const struct sl_buf_ref *h)
{
	unsigned room = (unsigned)SL_ARRAY_LEN(h->links) - h->link_cnt;

	for (unsigned i = 0; i < h->link_cnt; i++)
		room += sl_list_empty(&h->links[i].link);
	return room;
}

static struct sl_buf_ref_link *unused_link(struct sl_buf_ref *h)
{
	for (unsigned i = 0; i < h->link_cnt; i++) {
		if (sl_list_empty(&h->links[i].link))
			return &h->links[i];
	}
	return h->link_cnt < SL_ARRAY_LEN(h->links) ? &h->links[h->link_cnt++] : NULL;
}

static void buf_ref_add(struct sl_buf_ref *h, struct sl_sent_batch *f)
{
	struct sl_buf_ref_link *ref = unused_link(h);

	h->refs++;
	if (!SL_ENSURE(ref))
		return; /* leaks rather than frees bytes that are read */
	ref->buf_ref = h;
	sl_list_add_tail(&f->shared, &ref->link);
}

static void buf_ref_drop(struct sl_core *c, struct sl_buf_ref *h)
{
	if (--h->refs)
		return;
	sl_store_free(&h->store, c->net->umem);
	sl_mempool_put(&c->buf_refs, h);
}

bool sl_sent_batch_reserve(struct sl_exchange *x)
{
	if (x->buf_ref)
		return buf_ref_room(x->buf_ref) >= 2;
	x->buf_ref = sl_mempool_get(&x->core->buf_refs);
	if (!x->buf_ref)
		return false;
	*x->buf_ref = (struct sl_buf_ref){.refs = 1};
	return true;
}

bool sl_sent_batch_share(struct sl_exchange *x)
{
	struct sl_sent_batch *f = batch_of(x);

	if (f && !sl_sent_batch_reserve(x))
		return false;
	if (f)
		buf_ref_add(x->buf_ref, f);
	x->send_ns = 0; /* in no batch until sent */
	return true;
}

void sl_sent_batch_share_hedge(struct sl_exchange *x)
{
	struct sl_sent_batch *f = batch_of(x->twin);

	if (f)
		buf_ref_add(x->buf_ref, f);
}

void sl_sent_batch_release_request(struct sl_exchange *x)
{
	struct sl_sent_batch *f = batch_of(x);

	if (x->buf_ref) {
		if (f)
			buf_ref_add(x->buf_ref, f);
		sl_store_splice(&x->buf_ref->store, &x->request);
		buf_ref_drop(x->core, x->buf_ref);
		x->buf_ref = NULL;
	} else if (f) {
		sl_store_splice(&f->orphaned, &x->request);
	} else {
		sl_store_free(&x->request, x->core->net->umem);
	}
}

static void release_head(struct sl_exchange *x)
{
	struct sl_sent_batch *f = batch_of(x);

	if (f)
		sl_store_splice(&f->orphaned, &x->head);
	else
		sl_store_free(&x->head, x->core->net->umem);
}

void sl_sent_batch_release_head_now(struct sl_exchange *x)
{
	release_head(x);
	x->core->keeping -= x->kept.len != 0;
	sl_store_free(&x->kept, x->core->net->umem);
}

bool sl_sent_batch_copy_head(struct sl_exchange *x)
{
	struct sl_umem *u = x->core->net->umem;
	struct sl_store copy = {0};

	if (batch_of(x)) {
		for (const struct sl_frame *f = x->head.head; f; f = f->next) {
			uint32_t skip = f == x->head.head ? x->head.off : 0;
			size_t len = (size_t)f->len - skip;

			if (sl_store_copy(&copy, u, f->data + skip, len) == len)
				continue;
			sl_store_free(&copy, u);
			return false;
		}
		release_head(x);
		x->head = copy;
	}
	x->send_ns = 0;
	return true;
}

void sl_sent_batch_done(struct sl_core *c, const struct sl_backend_ref *m, uint64_t batch)
{
	uint32_t *at = find_slot(c, m, batch);
	struct sl_sent_batch *f;

	if (!*at)
		return;
	f = sl_mempool_at(&c->sent_batches, *at - 1);
	*at = f->next;
	while (!sl_list_empty(&f->shared)) {
		struct sl_buf_ref_link *ref =
			sl_list_first(&f->shared, struct sl_buf_ref_link, link);

		sl_list_del(&ref->link);
		buf_ref_drop(c, ref->buf_ref);
	}
	sl_store_free(&f->orphaned, c->net->umem);
	sl_mempool_put(&c->sent_batches, f);
}
