/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What has been asked and not been answered: requests and the batches that they went in, in two
 * tables of fixed size for all channels of a worker.
 *
 * An id is the generation of a table entry (16 bits) and its index. The generation changes when an
 * entry is given back, and entries are reused in order of release, so a late or forged id finds
 * nothing, or at least nothing of another channel.
 */
#ifndef SL_RPC_OUTSTANDING_H
#define SL_RPC_OUTSTANDING_H

#include <stdbool.h>
#include <stdint.h>
#include "base/list.h"
#include "base/wheel.h"
#include "sluice/rpc_wire.h"

/* Of an id: the index; the rest is the generation. */
#define SL_OUTSTANDING_INDEX ((UINT64_C(1) << 48) - 1)

struct sl_send;

struct sl_pending_batch {
	struct sl_list node; /* of its channel, or unused */
	struct sl_rpc_channel *channel;
	uint64_t number;
	uint64_t sent_ns;
	uint32_t cnt, left;                      /* requests: in it, not ended */
	uint32_t answered, together, service_us; /* see struct sl_rpc_batch_end */
	struct sl_send *sends[SL_CLASS_CNT];     /* until the transport is done with them */
	uint32_t unsent;                         /* of those */
	bool told_sent;
	bool stream;
};

struct sl_pending {
	struct sl_list node;            /* of its channel, or unused */
	struct sl_timer timer;          /* budget and grace */
	struct sl_rpc_channel *channel; /* NULL unused */
	struct sl_pending_batch *batch; /* NULL: that has what it wants to know of it */
	struct sl_list window;          /* of the channel's `windows`, or unused */
	struct sl_list parts;           /* of a stream, that have not left */
	uint32_t due;                   /* credit to be told to the peer */
	uint32_t credit;                /* of the reply: what the peer has left, with what is due */
	uint32_t rest;                  /* of the message that its reply is in the midst of */
	uint8_t flags;                  /* and of that message */
	bool stream, open;              /* the request is one, and not yet whole */
	bool expects;                   /* a GO_ON may come */
	bool wide;                      /* a stream that has a window as wide as others */
	bool begun;                     /* the first entry of its reply has come */
	uint8_t interims;               /* that have come before it */
	uint8_t class;
	uint32_t part_credit; /* of its parts: what we have left */
	uint32_t given;       /* of a stream's reply, by WINDOW, until it is wide */
	void *cookie;
	const struct sl_rpc_header *from; /* of the message in the midst of which its reply is */
	uint16_t generation;
};

struct sl_outstanding {
	struct sl_pending *requests;
	struct sl_pending_batch *batches;
	struct sl_list unused_requests, unused_batches;
	uint32_t cap, used;
	uint32_t wide_cnt; /* SL_RPC_WIDE_MAX at the most */
};

int sl_outstanding_init(struct sl_outstanding *o, uint32_t cap);
void sl_outstanding_fini(struct sl_outstanding *o);

/* NULL when all are taken. The caller puts them on a list and gives them back. */
static inline struct sl_pending *sl_outstanding_get(struct sl_outstanding *o)
{
	struct sl_list *node = sl_list_pop_head(&o->unused_requests);

	o->used += node != NULL;
	return node ? sl_container_of(node, struct sl_pending, node) : NULL;
}

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

static inline struct sl_pending_batch *sl_outstanding_batch_get(struct sl_outstanding *o)
{
	struct sl_list *node = sl_list_pop_head(&o->unused_batches);

	return node ? sl_container_of(node, struct sl_pending_batch, node) : NULL;
}

static inline void sl_outstanding_batch_put(struct sl_outstanding *o, struct sl_pending_batch *b)
{
	sl_list_del(&b->node);
	*b = (struct sl_pending_batch){.channel = NULL};
	sl_list_add_head(&o->unused_batches, &b->node);
}

static inline uint64_t sl_outstanding_id(const struct sl_outstanding *o, const struct sl_pending *p)
{
	return (uint64_t)p->generation << 48 | (uint64_t)(p - o->requests);
}

/* NULL unless it is outstanding on this channel. */
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
