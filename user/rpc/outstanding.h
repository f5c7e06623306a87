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

struct sl_send;

struct sl_pending_batch {
	struct sl_list node; /* of its channel, or unused */
	struct sl_rpc_channel *channel;
	uint64_t number;
	uint64_t sent_ns;
	uint32_t cnt, left; /* requests: in it, not ended */
	uint32_t service_us;
	struct sl_send *send; /* until the transport is done with it */
	bool told_sent;
};

struct sl_pending {
	struct sl_list node;            /* of its channel, or unused */
	struct sl_timer timer;          /* budget and grace */
	struct sl_rpc_channel *channel; /* NULL unused */
	struct sl_pending_batch *batch;
	void *cookie;
	uint16_t generation;
	bool replying; /* a part of the reply was passed on */
};

struct sl_outstanding {
	struct sl_pending *requests;
	struct sl_pending_batch *batches;
	struct sl_list unused_requests, unused_batches;
	uint32_t cap, used;
};

int sl_outstanding_init(struct sl_outstanding *o, uint32_t cap);
void sl_outstanding_fini(struct sl_outstanding *o);

/* NULL when all are taken. The caller puts them on a list and gives them back. */
struct sl_pending *sl_outstanding_get(struct sl_outstanding *o);
void sl_outstanding_put(struct sl_outstanding *o, struct sl_pending *p);
struct sl_pending_batch *sl_outstanding_batch_get(struct sl_outstanding *o);
void sl_outstanding_batch_put(struct sl_outstanding *o, struct sl_pending_batch *b);

uint64_t sl_outstanding_id(const struct sl_outstanding *o, const struct sl_pending *p);
/* NULL unless it is outstanding on this channel. */
struct sl_pending *sl_outstanding_find(const struct sl_outstanding *o,
				       const struct sl_rpc_channel *ch, uint64_t id);

#endif
