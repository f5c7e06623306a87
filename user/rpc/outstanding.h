/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Outstanding requests and their batches, in two tables per worker.
 *
 * An id is an entry's generation (16 bits), which changes on release, and index: late or forged ids
 * find nothing.
 */
#ifndef SL_RPC_OUTSTANDING_H
#define SL_RPC_OUTSTANDING_H

#include <stdbool.h>
#include <stdint.h>
#include "base/list.h"
#include "base/wheel.h"
#include "wire/rpc_wire.h"

#define SL_OUTSTANDING_INDEX ((UINT64_C(1) << 48) - 1)

struct sl_send;

struct sl_pending_batch {
	struct sl_list node; /* in its channel's list, or unused */
	struct sl_rpc_channel *channel;
	uint64_t number;
	uint64_t sent_ns;
	uint32_t cnt, left;
	uint32_t answered, together, service_us; /* see struct sl_rpc_batch_end */
	struct sl_send *sends[SL_CLASS_CNT];
	uint32_t unsent;
	bool told_sent;
	bool stream;
};

struct sl_pending {
	struct sl_list node; /* in its channel's list, or unused */
	struct sl_timer timer;
	struct sl_rpc_channel *channel; /* NULL: unused */
	/* NULL once the batch does not need the result */
	struct sl_pending_batch *batch;
	struct sl_list window;
	struct sl_list parts; /* unsent parts */
	uint32_t due;
	uint32_t credit; /* of the peer, `due` included */
	uint32_t rest;   /* of the current message */
	uint8_t flags;
	bool stream, open;
	bool expects; /* a GO_ON may come */
	bool wide;
	bool begun;
	uint8_t interims;
	uint8_t class;
	uint32_t part_credit; /* ours */
	uint32_t given;       /* granted, until it is wide */
	void *cookie;
	const struct sl_rpc_header *from; /* of the arriving message */
	uint16_t generation;
};

struct sl_outstanding {
	struct sl_pending *requests;
	struct sl_pending_batch *batches;
	struct sl_list unused_requests, unused_batches;
	uint32_t cap, used;
	uint32_t wide_cnt; /* at most SL_RPC_WIDE_MAX */
};

/* Allocates `cap` entries of each table. Returns 0 or -ENOMEM. */
int sl_outstanding_init(struct sl_outstanding *o, uint32_t cap);
/* Frees both tables. */
void sl_outstanding_fini(struct sl_outstanding *o);

/*
 * Returns an unused entry, or NULL if all are used. The caller sets its members, which may be of
 * the last use, and lists it.
 */
static inline struct sl_pending *sl_outstanding_get(struct sl_outstanding *o)
{
	struct sl_list *node = sl_list_pop_head(&o->unused_requests);

	o->used += node != NULL;
	return node ? sl_container_of(node, struct sl_pending, node) : NULL;
}

/* Gives an entry back, without parts or timer. Invalidates its id. */
static inline void sl_outstanding_put(struct sl_outstanding *o, struct sl_pending *p)
{
	sl_list_del(&p->node);
	sl_list_del(&p->window);
	p->channel = NULL;
	p->batch = NULL;
	p->cookie = NULL;
	p->from = NULL;
	p->generation++;
	o->wide_cnt -= p->wide;
	p->wide = false;
	o->used--;
	sl_list_add_tail(&o->unused_requests, &p->node);
}

/* Returns an unused batch for a list, zero but for `node`; NULL: none left. */
static inline struct sl_pending_batch *sl_outstanding_batch_get(struct sl_outstanding *o)
{
	struct sl_list *node = sl_list_pop_head(&o->unused_batches);

	return node ? sl_container_of(node, struct sl_pending_batch, node) : NULL;
}
/* Gives a batch back. */
static inline void sl_outstanding_batch_put(struct sl_outstanding *o, struct sl_pending_batch *b)
{
	sl_list_del(&b->node);
	*b = (struct sl_pending_batch){.channel = NULL};
	sl_list_add_head(&o->unused_batches, &b->node);
}

/* Returns the request's id on the wire. */
static inline uint64_t sl_outstanding_id(const struct sl_outstanding *o, const struct sl_pending *p)
{
	return (uint64_t)p->generation << 48 | (uint64_t)(p - o->requests);
}

/* Returns NULL unless the request is outstanding on this channel. */
static inline struct sl_pending *sl_outstanding_find(const struct sl_outstanding *o,
						     const struct sl_rpc_channel *ch, uint64_t id)
{
	uint64_t index = id & SL_OUTSTANDING_INDEX;
	struct sl_pending *p;

	if (index >= o->cap)
		return NULL;
	p = &o->requests[index];
	return p->channel == ch && p->generation == id >> 48 ? p : NULL;
}

#endif
