/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ways to hosts, for virtual connections: per host, and type of service of its packets, some hundred
 * bytes and an address handle, however many connections there are. Those that nobody has any more stay
 * known, the latest of them: AH_CACHE_MAX in all. One is found at once, and takes memory from when it was
 * first asked for.
 *
 * To make one may take a second, when the host has to be found and is not there. So those who are told
 * by a peer where it is do not wait for that, unless it is known to take no time (neigh.h): the next time
 * it may be known.
 *
 * Any thread; not on the ah of a packet.
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
	struct sl_list idle;   /* without refs: the oldest first */
	struct ah_entry *next; /* of those job_pid hash is like its own */
};

/* NULL: too many, or no ah there. */
struct ah_entry *ah_cache_get(const struct rdma_local *l, const uint8_t gid[16], uint8_t tos);
/*
 * The same for a thread that others wait for: AH_WAIT_MS at the most, of each AH_WAIT_PERIOD_MS, for
 * however many. NULL also: not yet.
 */
struct ah_entry *ah_cache_get_nowait(const struct rdma_local *l, const uint8_t gid[16],
				     uint8_t tos);
void ah_cache_put(struct ah_entry *n);

#endif
