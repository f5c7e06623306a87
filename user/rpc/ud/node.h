/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ways to hosts, for virtual connections: per host some hundred bytes and an address handle, however
 * many connections there are. Hosts that nobody is connected with any more stay known, the latest
 * UD_NODES of them.
 *
 * Any thread; not on the way of a packet.
 */
#ifndef SL_RPC_UD_NODE_H
#define SL_RPC_UD_NODE_H

#include "rpc/ud/device.h"

enum { UD_NODES = 1024 };

struct ud_node {
	struct ud_local local;
	uint8_t gid[16];
	void *way; /* NULL: unused */
	uint32_t refs;
	uint64_t used;
};

/* NULL: too many, or no way there. */
struct ud_node *ud_node_get(const struct ud_local *l, const uint8_t gid[16]);
void ud_node_put(struct ud_node *n);

#endif
