/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cache of address handles, one per host and traffic class, shared by all connections. It evicts
 * the one unused for longest.
 *
 * Creating an address handle blocks until the neighbour is resolved. A thread that serves others
 * must not wait for a host that a peer has named. So it creates the handle itself only if the
 * neighbour is resolved (neigh.h).
 *
 * A change of any GID table drops all entries (IBV_EVENT_GID_CHANGE): a handle refers to a place in
 * that table. Entries in use are freed with their last reference.
 *
 * Any thread; not on the data path.
 */
#ifndef SL_RPC_RDMA_AH_CACHE_H
#define SL_RPC_RDMA_AH_CACHE_H

#include "base/list.h"
#include "rpc/rdma/device.h"

enum { AH_CACHE_MAX = 1024, AH_WAIT_MS = 25, AH_WAIT_PERIOD_MS = 250 };

struct ah_entry {
	struct rdma_local local;
	uint8_t gid[16], tos;
	struct ibv_ah *ah;
	uint32_t refs;
	bool dropped;          /* not in a bucket */
	struct sl_list idle;   /* oldest first */
	struct ah_entry *next; /* in the same bucket */
};

/*
 * Returns an entry with a reference; NULL: too many are in use, or the host is unreachable. Blocks.
 */
struct ah_entry *ah_cache_get(const struct rdma_local *l, const uint8_t gid[16], uint8_t tos);
/*
 * The same for a thread that serves others: waits at most AH_WAIT_MS of each AH_WAIT_PERIOD_MS in
 * all. NULL also means: not yet.
 */
struct ah_entry *ah_cache_get_nowait(const struct rdma_local *l, const uint8_t gid[16],
				     uint8_t tos);
/* Releases a reference; the entry stays cached. */
void ah_cache_put(struct ah_entry *n);

#endif
