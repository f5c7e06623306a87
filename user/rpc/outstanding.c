/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include "rpc/outstanding.h"

#define INDEX_MASK ((UINT64_C(1) << 48) - 1)

int sl_outstanding_init(struct sl_outstanding *o, uint32_t cap)
{
	*o = (struct sl_outstanding){.cap = cap};
	sl_list_init(&o->unused_requests);
	sl_list_init(&o->unused_batches);
	o->requests = calloc(cap, sizeof(*o->requests));
	o->batches = calloc(cap, sizeof(*o->batches));
	if (!o->requests || !o->batches) {
		sl_outstanding_fini(o);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < cap; i++) {
		sl_list_add_tail(&o->unused_requests, &o->requests[i].node);
		sl_list_add_tail(&o->unused_batches, &o->batches[i].node);
	}
	return 0;
}

void sl_outstanding_fini(struct sl_outstanding *o)
{
	free(o->requests);
	free(o->batches);
	*o = (struct sl_outstanding){.cap = 0};
}

struct sl_pending *sl_outstanding_get(struct sl_outstanding *o)
{
	struct sl_list *node = sl_list_pop_head(&o->unused_requests);

	o->used += node != NULL;
	return node ? sl_container_of(node, struct sl_pending, node) : NULL;
}

void sl_outstanding_put(struct sl_outstanding *o, struct sl_pending *p)
{
	sl_list_del(&p->node);
	p->channel = NULL;
	p->batch = NULL;
	p->cookie = NULL;
	p->replying = false;
	p->generation++;
	o->used--;
	sl_list_add_tail(&o->unused_requests, &p->node);
}

struct sl_pending_batch *sl_outstanding_batch_get(struct sl_outstanding *o)
{
	struct sl_list *node = sl_list_pop_head(&o->unused_batches);

	return node ? sl_container_of(node, struct sl_pending_batch, node) : NULL;
}

void sl_outstanding_batch_put(struct sl_outstanding *o, struct sl_pending_batch *b)
{
	sl_list_del(&b->node);
	*b = (struct sl_pending_batch){.channel = NULL};
	sl_list_add_head(&o->unused_batches, &b->node);
}

uint64_t sl_outstanding_id(const struct sl_outstanding *o, const struct sl_pending *p)
{
	return (uint64_t)p->generation << 48 | (uint64_t)(p - o->requests);
}

struct sl_pending *sl_outstanding_find(const struct sl_outstanding *o,
				       const struct sl_rpc_channel *ch, uint64_t id)
{
	uint64_t index = id & INDEX_MASK;
	struct sl_pending *p;

	if (index >= o->cap)
		return NULL;
	p = &o->requests[index];
	return p->channel == ch && p->generation == id >> 48 ? p : NULL;
}
