/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queue of calls for a server: priority classes, and turns between client addresses.
 *
 *   class: most urgent first; each 16th call is of the least urgent class that waits
 *     `-- client addresses, in turns
 *           `-- calls of the address, in order of arrival
 *
 * An address with half of the places gets no further one while other addresses of its class wait.
 * With a learnt limit, an address with less than half may exceed the limit by the places that
 * another one has beyond half. Streams without a place have their own limit, because each may hold
 * a connection. An address is the `client` of a request; 0: unknown, with unlimited streams.
 *
 * One thread. Clients are objects of the agent's pool while they have calls.
 */
#ifndef SL_AGENT_QUEUE_H
#define SL_AGENT_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "sluice/rpc_wire.h"

enum { AGENT_QUEUE_TURN_OF_LEAST = 16, AGENT_QUEUE_BUCKETS = 256 };

struct agent_call;
struct sl_mempool;

/* Client address at one server. */
struct agent_client {
	struct sl_list link;
	uint32_t key; /* hash of the address */
	uint32_t calls;
	uint32_t held;        /* places in use */
	uint32_t streams_cnt; /* streams on connections, without a place */
	struct agent_line {
		struct sl_list turn;
		struct sl_list calls;
	} of[SL_CLASS_CNT];
};

struct agent_queue {
	struct sl_list turns[SL_CLASS_CNT]; /* clients with waiting calls */
	struct sl_list buckets[AGENT_QUEUE_BUCKETS];
	struct sl_mempool *clients;
	struct agent_client *heaviest; /* had the most places when it took one */
	uint32_t cnt, taken;
};

struct agent_shares {
	uint32_t places, busy; /* the server's */
	bool exact;            /* `places` is a hard limit */
	uint32_t streams;      /* per address */
};

/* Makes an empty queue; entries of clients come from the caller's pool. */
void agent_queue_init(struct agent_queue *q, struct sl_mempool *clients);
/* Registers a call with its client until agent_queue_leave(). False: no memory. */
bool agent_queue_enter(struct agent_queue *q, struct agent_call *call, uint32_t key);
void agent_queue_leave(struct agent_queue *q, struct agent_call *call);
void agent_queue_add(struct agent_queue *q, struct agent_call *call);
/* Queues a call in front of its class. */
void agent_queue_again(struct agent_queue *q, struct agent_call *call);
/* Returns the call that may start now, or NULL. It stays queued. */
struct agent_call *agent_queue_next(const struct agent_queue *q, const struct agent_shares *s);
/* Returns any queued call, or NULL. */
struct agent_call *agent_queue_any(const struct agent_queue *q);
/* Removes the call that agent_queue_next() returned. */
void agent_queue_take(struct agent_queue *q, struct agent_call *call);
/* Removes a queued call without a turn. */
void agent_queue_remove(struct agent_queue *q, struct agent_call *call);
/* Counts a place of the client, up or down. */
void agent_queue_hold(struct agent_queue *q, struct agent_call *call);
void agent_queue_release(struct agent_queue *q, struct agent_call *call);

#endif
