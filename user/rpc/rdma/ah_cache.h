/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LRU cache of address handles per host and traffic class, for all connections.
 *
 * A change of any GID table drops all entries.
 *
 * Any thread; not on the data path.
 */
#ifndef SL_RPC_RDMA_AH_CACHE_H
#define SL_RPC_RDMA_AH_CACHE_H

#include <sys/types.h>
#include "base/list.h"
#include "rpc/rdma/device.h"

enum { AH_CACHE_MAX = 1024, AH_WAIT_MS = 25, AH_WAIT_PERIOD_MS = 250 };

struct ah_entry {
	struct rdma_local local;
	uint8_t gid[16], tos;
	struct ibv_ah *ah;
	pid_t pid; /* process that made it */
	uint32_t refs;
	bool dropped;        /* not in a bucket */
	struct sl_list idle; /* oldest first */
	struct ah_entry *next;
};

/*
 * Returns a host's address handle, referenced; NULL: too many in use, or host unreachable. Blocks.
 */
struct ah_entry *ah_cache_get(const struct rdma_local *l, const uint8_t gid[16], uint8_t tos);
/*
 * Like ah_cache_get(), by another thread: waits at most AH_WAIT_MS of each AH_WAIT_PERIOD_MS in
 * all. NULL: also not yet.
 */
struct ah_entry *ah_cache_get_nowait(const struct rdma_local *l, const uint8_t gid[16],
				     uint8_t tos);
/* Adds a reference. */
void ah_cache_hold(struct ah_entry *n);
/* Drops a reference. The entry stays cached. */
void ah_cache_put(struct ah_entry *n);

#endif
