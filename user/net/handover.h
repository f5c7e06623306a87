/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flows survive a change of receive queue: a segment that reaches the wrong worker gets to the
 * owner.
 *
 *   worker B                       shared                         worker A (owner)
 *   local miss          ------>  directory: flow -> A
 *   copies the frame    ------>  ring B -> A  ------------------>  into its own UMEM, then L4 input
 *
 * The directory is a fixed table of atomic words, written when a connection is set up or goes away,
 * read after a local miss only: packets of a flow on its own queue never come here. A word is 56
 * bits of keyed hash and the owner, no key, so a wrong match is possible (about 1 in 2^32); the
 * owner then misses as well and treats the segment as one for no connection. A frame is handed over
 * once.
 *
 * Ports of the same index in two workers must be queues of the same interface.
 * Workers are numbered from 0. Everything but create and destroy is called by the worker itself.
 */
#ifndef SL_NET_HANDOVER_H
#define SL_NET_HANDOVER_H

#include <stdbool.h>
#include <stdint.h>
#include "net/net.h"

struct sl_flow_key;
struct sl_handover_hub; /* shared by all workers */

enum { SL_HANDOVER_FLOW_BYTES_MAX = 32 }; /* memory of the directory per flow it is made for */

/*
 * Directory for max_flows flows of all workers; frame_size as in the workers' UMEMs. NULL: errno.
 */
struct sl_handover_hub *sl_handover_hub_create(unsigned worker_cnt, uint32_t max_flows,
					       uint32_t frame_size);
void sl_handover_hub_destroy(struct sl_handover_hub *hub);

/* Sets n->handover, before the first packet. Returns 0 or -errno. */
int sl_handover_join(struct sl_handover_hub *hub, unsigned worker, struct sl_net *n);
void sl_handover_leave(struct sl_net *n);

/*
 * Connection set up: it is mine from now on, whoever had it. False when the directory is full
 * around that flow: the flow works, but does not survive a change of queue. True when alone.
 */
bool sl_handover_claim(struct sl_net *n, const struct sl_flow_key *key);
/* Connection gone; does nothing if another worker has claimed it since. */
void sl_handover_release(struct sl_net *n, const struct sl_flow_key *key);

/*
 * A segment that is for no local connection, data at the L4 header; key: its flow, local
 * as seen from here. True: taken, it goes to the owner or was counted as handover_full. False:
 * nobody else owns it, or it was handed over already, or there are no other workers: the frame
 * stays the caller's.
 */
bool sl_handover_give(struct sl_net *n, struct sl_frame *f, const struct sl_flow_key *key,
		      uint8_t protocol);

/*
 * Copies of a packet to all other workers, where nobody is known to own its flow: errors about
 * datagrams. The frame stays the caller's. Nothing happens when alone or if it was handed over
 * already; a ring that is half full is left to segments, which have an owner.
 */
void sl_handover_tell(struct sl_net *n, const struct sl_frame *f, uint8_t protocol);

/*
 * Until when SYN cookies of any worker may come back: the one that gets the last step of such a
 * handshake takes the connection, which nobody owns yet. Kept to a second, so that a flood does not
 * make workers write to one line all the time. Both do nothing when alone; 0: none.
 */
void sl_handover_cookie_sent(struct sl_net *n, uint64_t until_ns);
uint64_t sl_handover_cookies_until(const struct sl_net *n);

/* Receives what others gave; once per loop, cheap when there is nothing. Returns frames taken. */
unsigned sl_handover_poll(struct sl_net *n);

/*
 * Sleeping: arm, poll once more, then wait for fd (an eventfd); disarm after waking. -1 when alone.
 * Givers write to it only while it is armed.
 */
int sl_handover_fd(const struct sl_net *n);
void sl_handover_arm(struct sl_net *n);
void sl_handover_disarm(struct sl_net *n);

#endif
