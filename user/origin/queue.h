/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queue of calls for a server.
 *
 *   class: most urgent first; each 16th call is of the least urgent class that waits
 *     `-- client addresses, in turns
 *           `-- calls of the address, in order of arrival
 *
 * An address with half of the places gets no more while other addresses of its class wait. With a
 * learnt limit, an address with less than half may exceed it by the places that another one has
 * beyond half. Streams without a place have their own limit per address, unless `client` is 0.
 */
#ifndef SL_ORIGIN_QUEUE_H
#define SL_ORIGIN_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "sluice/types.h"

enum { ORIGIN_QUEUE_TURN_OF_LEAST = 16, ORIGIN_QUEUE_BUCKETS = 256 };

struct origin_call;
struct sl_mempool;

struct origin_client {
	struct sl_list link;
	uint32_t key; /* hash of the address */
	uint32_t calls;
	uint32_t held;        /* places */
	uint32_t streams_cnt; /* streams without a place */
	struct origin_line {
		struct sl_list turn;
		struct sl_list calls;
	} of[SL_CLASS_CNT];
};

struct origin_queue {
	struct sl_list turns[SL_CLASS_CNT];
	struct sl_list buckets[ORIGIN_QUEUE_BUCKETS];
	struct sl_mempool *clients;
	struct origin_client *heaviest; /* had most places when it took its last */
	uint32_t cnt, taken;
};

struct origin_shares {
	uint32_t places, busy;
	bool exact;       /* `places` is a hard limit */
	uint32_t streams; /* per address */
};

/* Makes an empty queue. Client entries come from the caller's pool. */
void origin_queue_init(struct origin_queue *q, struct sl_mempool *clients);
/* Registers a call until origin_queue_leave(). Returns false without memory. */
bool origin_queue_enter(struct origin_queue *q, struct origin_call *call, uint32_t key);
/* Ends that; the call is not queued and holds no place. */
void origin_queue_leave(struct origin_queue *q, struct origin_call *call);
/* Queues a call behind others of its address. */
void origin_queue_add(struct origin_queue *q, struct origin_call *call);
/* Queues it at the front of its class. */
void origin_queue_again(struct origin_queue *q, struct origin_call *call);
/* Returns the queued call that may start now, or NULL. */
struct origin_call *origin_queue_next(const struct origin_queue *q, const struct origin_shares *s);
/* Returns a queued call, without limits, or NULL. */
struct origin_call *origin_queue_any(const struct origin_queue *q);
/* Removes the call that origin_queue_next() returned. */
void origin_queue_take(struct origin_queue *q, struct origin_call *call);
/* Removes a queued call without a turn. */
void origin_queue_remove(struct origin_queue *q, struct origin_call *call);
/* Count a place for the call's address; release it. */
void origin_queue_hold(struct origin_queue *q, struct origin_call *call);
void origin_queue_release(struct origin_queue *q, struct origin_call *call);

#endif
