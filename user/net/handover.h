/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handover of segments that arrive at the wrong worker after a change of receive queue.
 *
 *   worker B                       shared                         worker A (owner)
 *   local miss          ------>  directory: flow -> A
 *   copies the frame    ------>  ring B -> A  ------------------>  into its own UMEM, then L4 input
 *
 * The directory is a fixed table of atomic words: 56 bits of keyed hash and the owner. After a
 * wrong match (about 1 in 2^32) the owner misses as well. A frame is handed over once.
 *
 * Ports of the same index must be queues of the same interface. Each worker calls the functions for
 * itself.
 */
#ifndef SL_NET_HANDOVER_H
#define SL_NET_HANDOVER_H

#include <stdbool.h>
#include <stdint.h>
#include "net/net.h"

struct sl_flow_key;
struct sl_handover_hub; /* shared by all workers */

enum { SL_HANDOVER_FLOW_BYTES_MAX = 32 }; /* memory of the directory per flow */

/* Returns NULL and errno on failure. max_flows: of all workers. */
struct sl_handover_hub *sl_handover_hub_create(unsigned worker_cnt, uint32_t max_flows,
					       uint32_t frame_size);
void sl_handover_hub_destroy(struct sl_handover_hub *hub);

/* Sets n->handover; must precede the first packet. Returns 0 or -errno. */
int sl_handover_join(struct sl_handover_hub *hub, unsigned worker, struct sl_net *n);
void sl_handover_leave(struct sl_net *n);

/*
 * Makes this worker the flow's owner. Returns false if the directory is full: the flow does not
 * survive a change of queue.
 */
bool sl_handover_claim(struct sl_net *n, const struct sl_flow_key *key);
/* Releases a closed flow, unless another worker has claimed it since. */
void sl_handover_release(struct sl_net *n, const struct sl_flow_key *key);

/*
 * Hands over a segment without a local connection, data at the L4 header. Returns true if the frame
 * was taken, or counted as handover_full. Returns false without another owner, or after an earlier
 * handover.
 */
bool sl_handover_give(struct sl_net *n, struct sl_frame *f, const struct sl_flow_key *key,
		      uint8_t protocol);

/*
 * Copies a packet to all other workers: an error about datagrams. The frame stays the caller's.
 * Half of each ring is left to segments.
 */
void sl_handover_tell(struct sl_net *n, const struct sl_frame *f, uint8_t protocol);

/*
 * Until when SYN cookies of any worker may come back; 0: none. The worker that gets the last ACK
 * takes the connection. Resolution: a second, because a flood would write to a shared cache line.
 */
void sl_handover_cookie_sent(struct sl_net *n, uint64_t until_ns);
uint64_t sl_handover_cookies_until(const struct sl_net *n);

/* Receives frames from other workers; called once per loop. Returns their number. */
unsigned sl_handover_poll(struct sl_net *n);

/* Sleeping: arm, poll once more, wait for the fd, disarm. -1 without other workers. */
int sl_handover_fd(const struct sl_net *n);
void sl_handover_arm(struct sl_net *n);
void sl_handover_disarm(struct sl_net *n);

#endif
