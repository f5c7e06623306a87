/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handover of segments that a changed receive queue brings to the wrong worker.
 *
 *   worker B                       shared                         worker A (owner)
 *   local miss          ------>  directory: flow -> A
 *   copies the frame    ------>  ring B -> A  ------------------>  into its own UMEM, then L4 input
 *
 * The directory is a fixed table of atomic words: 56 bits of keyed hash and the owner. A frame is
 * handed over once.
 *
 * Ports of the same index must be queues of the same interface.
 */
#ifndef SL_NET_HANDOVER_H
#define SL_NET_HANDOVER_H

#include <stdbool.h>
#include <stdint.h>
#include "net/net.h"

struct sl_flow_key;
struct sl_handover_hub;

enum { SL_HANDOVER_FLOW_BYTES_MAX = 32 }; /* per flow, in the directory */

/* Returns NULL and errno on failure. max_flows: of all workers. frame_size: of all UMEMs. */
struct sl_handover_hub *sl_handover_hub_create(unsigned worker_cnt, uint32_t max_flows,
					       uint32_t frame_size);
/* Frees hub (may be NULL), once no worker uses it. */
void sl_handover_hub_destroy(struct sl_handover_hub *hub);

/*
 * Sets n->handover, before the first packet. Returns 0, or -EINVAL: unknown worker, other frame
 * size.
 */
int sl_handover_join(struct sl_handover_hub *hub, unsigned worker, struct sl_net *n);
/* Resets n->handover. */
void sl_handover_leave(struct sl_net *n);

/* Makes this worker the owner. Returns false if the directory is full. */
bool sl_handover_claim(struct sl_net *n, const struct sl_flow_key *key);
/* Removes the claim, unless another worker has claimed the flow since. */
void sl_handover_release(struct sl_net *n, const struct sl_flow_key *key);

/*
 * Hands over a segment without a local connection, data at L4. Returns false without another owner
 * or after a handover. Otherwise takes the frame, or drops it (handover_full).
 */
bool sl_handover_give(struct sl_net *n, struct sl_frame *f, const struct sl_flow_key *key,
		      uint8_t protocol);

/*
 * Copies an error about datagrams to all other workers. The frame stays the caller's. Half of each
 * ring is left to segments.
 */
void sl_handover_tell(struct sl_net *n, const struct sl_frame *f, uint8_t protocol);

/* Notes until when SYN cookies may come back, to a second: floods must not write often. */
void sl_handover_cookie_sent(struct sl_net *n, uint64_t until_ns);
/* Returns the latest time of all workers; 0: none. The last ACK may reach any worker. */
uint64_t sl_handover_cookies_until(const struct sl_net *n);

/* Delivers frames that other workers gave. Returns their number. */
unsigned sl_handover_poll(struct sl_net *n);

/* To sleep: arm, poll once more, wait for the fd, disarm. -1 without other workers. */
int sl_handover_fd(const struct sl_net *n);
void sl_handover_arm(struct sl_net *n);
void sl_handover_disarm(struct sl_net *n);

#endif
