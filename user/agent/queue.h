/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What waits for a server, and which of it goes next: the order in which a backend of the SDK gets
 * requests (sluice/backend.h), kept for streams and for whatever the server has no room for. No
 * clock, no I/O.
 *
 *   control, latency, normal, bulk    urgent classes first; inside a class in order of arrival
 *   each sixteenth that goes          is the first of the least urgent class that waits
 */
#ifndef SL_AGENT_QUEUE_H
#define SL_AGENT_QUEUE_H

#include <stdint.h>
#include "base/list.h"
#include "sluice/rpc_wire.h"

enum { AGENT_QUEUE_TURN_OF_LEAST = 16 };

struct agent_queue {
	struct sl_list of[SL_CLASS_CNT]; /* what waits, by class, its first first */
	uint32_t cnt, taken;
};

void agent_queue_init(struct agent_queue *q);
void agent_queue_add(struct agent_queue *q, struct sl_list *node, enum sl_rpc_class class);
/* One that has had its turn before: in front of its class. */
void agent_queue_again(struct agent_queue *q, struct sl_list *node, enum sl_rpc_class class);
/* It stays until it is taken; NULL: nothing waits. */
struct sl_list *agent_queue_next(const struct agent_queue *q);
/* The next one goes. */
void agent_queue_take(struct agent_queue *q, struct sl_list *node);
/* Any of them leaves, which is nobody's turn. */
void agent_queue_remove(struct agent_queue *q, struct sl_list *node);

#endif
