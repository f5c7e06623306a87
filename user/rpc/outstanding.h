/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Outstanding requests and their batches, in two tables of fixed size for all channels of a worker.
 *
 * An id is the generation of a table entry (16 bits) and its index. The generation changes on
 * release, and entries are reused in order of release. A late or forged id finds nothing, or
 * nothing of another channel.
 */
#ifndef SL_RPC_OUTSTANDING_H
#define SL_RPC_OUTSTANDING_H

#include <stdbool.h>
#include <stdint.h>
#include "base/list.h"
#include "base/wheel.h"
#include "sluice/rpc_wire.h"

/* The index in an id; the rest is the generation. */
#define SL_OUTSTANDING_INDEX ((UINT64_C(1) << 48) - 1)

struct sl_send;

struct sl_pending_batch {
	struct sl_list node; /* in its channel's list, or unused */
	struct sl_rpc_channel *channel;
	uint64_t number;
	uint64_t sent_ns;
	uint32_t cnt, left;                      /* requests: in it, not ended */
	uint32_t answered, together, service_us; /* see struct sl_rpc_batch_end */
	struct sl_send *sends[SL_CLASS_CNT];     /* until the transport is done with them */
	uint32_t unsent;                         /* number of those */
	bool told_sent;
	bool stream;
};

struct sl_pending {
	struct sl_list node;            /* in its channel's list, or unused */
	struct sl_timer timer;          /* budget and grace */
	struct sl_rpc_channel *channel; /* NULL: unused */
	/* NULL once the batch does not need this request's result */
	struct sl_pending_batch *batch;
	struct sl_list window; /* in the channel's `windows`, or unlinked */
	struct sl_list parts;  /* parts of a stream that have not left */
	uint32_t due;          /* credit to be granted */
	uint32_t credit;       /* bytes that the peer may still send, `due` included */
	uint32_t rest;         /* bytes to come of the reply's current message */
	uint8_t flags;         /* of that message */
	bool stream, open;     /* the request is a stream, and not complete */
	bool expects;          /* a GO_ON may come */
	bool wide;             /* a stream with the window of other replies */
	bool begun;            /* the first entry of the reply has arrived */
	uint8_t interims;      /* interim replies so far */
	uint8_t class;
	uint32_t part_credit; /* what we may still send in parts */
	uint32_t given;       /* reply credit that a stream was granted, until it is wide */
	void *cookie;
	const struct sl_rpc_header *from; /* header of the message that the reply is arriving in */
	uint16_t generation;
};

struct sl_outstanding {
	struct sl_pending *requests;
	struct sl_pending_batch *batches;
	struct sl_list unused_requests, unused_batches;
	uint32_t cap, used;
	uint32_t wide_cnt; /* at most SL_RPC_WIDE_MAX */
};

/* Allocates both tables. Returns 0 or -ENOMEM. */
int sl_outstanding_init(struct sl_outstanding *o, uint32_t cap);
/* Frees both tables. */
void sl_outstanding_fini(struct sl_outstanding *o);

/* Returns an entry, to be put on a list by the caller; NULL: all are used. */
static inline struct sl_pending *sl_outstanding_get(struct sl_outstanding *o)
{
	struct sl_list *node = sl_list_pop_head(&o->unused_requests);

	o->used += node != NULL;
	return node ? sl_container_of(node, struct sl_pending, node) : NULL;
}

/* Releases an entry, which invalidates its id. */
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

/* The same for a batch. */
static inline struct sl_pending_batch *sl_outstanding_batch_get(struct sl_outstanding *o)
{
	struct sl_list *node = sl_list_pop_head(&o->unused_batches);

	return node ? sl_container_of(node, struct sl_pending_batch, node) : NULL;
}

/* Releases a batch. */
static inline void sl_outstanding_batch_put(struct sl_outstanding *o, struct sl_pending_batch *b)
{
	sl_list_del(&b->node);
	*b = (struct sl_pending_batch){.channel = NULL};
	sl_list_add_head(&o->unused_batches, &b->node);
}

/* Returns the id of a request. */
static inline uint64_t sl_outstanding_id(const struct sl_outstanding *o, const struct sl_pending *p)
{
	return (uint64_t)p->generation << 48 | (uint64_t)(p - o->requests);
}

/* Returns the request; NULL unless it is outstanding on this channel. */
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
