/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ways to hosts, for virtual connections: per host, and type of service of its packets, some hundred
 * bytes and an address handle, however many connections there are. Those that nobody has any more stay
 * known, the latest of them: UD_NODES in all. One is found at once, and takes memory from when it was
 * first asked for.
 *
 * To make one may take a second, when the host has to be found and is not there. So those who are told
 * by a peer where it is do not wait for that, unless it is known to take no time (near.h): the next time
 * it may be known.
 *
 * Any thread; not on the way of a packet.
 */
#ifndef SL_RPC_UD_NODE_H
#define SL_RPC_UD_NODE_H

#include "base/list.h"
#include "rpc/ud/device.h"

enum { UD_NODES = 1024, UD_MEET_MS = 25, UD_MEET_EACH_MS = 250 };

struct ud_node {
	struct ud_local local;
	uint8_t gid[16], tos;
	void *way;
	uint32_t refs;
	struct sl_list idle;  /* without refs: the oldest first */
	struct ud_node *next; /* of those whose hash is like its own */
};

/* NULL: too many, or no way there. */
struct ud_node *ud_node_get(const struct ud_local *l, const uint8_t gid[16], uint8_t tos);
/*
 * The same for a thread that others wait for: UD_MEET_MS at the most, of each UD_MEET_EACH_MS, for
 * however many. NULL also: not yet.
 */
struct ud_node *ud_node_meet(const struct ud_local *l, const uint8_t gid[16], uint8_t tos);
void ud_node_put(struct ud_node *n);

#endif
