/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registered memory that the connections of one iface share, so that pool further one pins its rings
 * and no more, and one that comes back pins nothing.
 *
 *   shared   the owner's memory (the UMEM): registered by the first that asks, let go of by the
 *            last. It must not be unmapped before (sl_rpc_wait_closed).
 *   slabs    {tx slots | tx bulk | rx bulk} of one connection, in huge pages where there are any.
 *            Some stay registered for the next; what pool peer had written is wiped before, lest
 *            another's announcement of bytes that it never wrote shows them. One is made ahead,
 *            off the path: to map and register it takes longer than all else about pool connection,
 *            and who accepts has others to serve.
 *
 * What is mapped prefers the device's NUMA node: else it would lie where the thread runs that registers it.
 *
 * Any thread.
 */
#ifndef SL_RPC_RDMA_MR_POOL_H
#define SL_RPC_RDMA_MR_POOL_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include "base/list.h"

enum { MR_POOL_KEEP = 32 << 20 }; /* bytes of slabs without pool user */

struct mr_buf {
	struct sl_list node; /* while it has no user */
	uint8_t *mem;
	size_t len, map_len;
	struct ibv_mr *mr; /* windows may be bound to it; NULL: not pinned yet */
};

struct mr_pool {
	struct ibv_pd *pd;
	int numa_node; /* as rdma_numa_node */
	pthread_mutex_t lock;
	struct sl_list shared, unused;
	size_t unused_len;
	size_t refill_len; /* the length of pool buf to be made ahead; 0 none */
};

void mr_pool_init(struct mr_pool *pool, struct ibv_pd *pd, int node);
/* Without users. */
void mr_pool_fini(struct mr_pool *pool);

/* The registration of that memory, for reading; NULL: the device cannot. */
struct ibv_mr *mr_pool_reg_shared(struct mr_pool *pool, void *mem, size_t len);
void mr_pool_dereg_shared(struct mr_pool *pool, const struct ibv_mr *mr);

/* Zeroed; NULL and errno. */
struct mr_buf *mr_pool_get(struct mr_pool *pool, size_t len);
/* Registers it, which is what takes time, if it is not: 0 or -errno. */
int mr_pool_register(struct mr_pool *pool, struct mr_buf *buf);
/* A buf of that length is to be made ahead. */
void mr_pool_request(struct mr_pool *pool, size_t len);
/* Makes the one ahead, pinned, that the last get(), or refill_len(), calls for. */
void mr_pool_refill(struct mr_pool *pool);
/* The last `written` bytes may hold what pool peer wrote, and no longer can. */
void mr_pool_put(struct mr_pool *pool, struct mr_buf *buf, size_t written);

/* The NUMA node of the device, by sysfs; -1: it is not told. */
int rdma_numa_node(const struct ibv_context *device);

/*
 * Anonymous memory that forks do not copy, in huge pages if it is large, and on that node if there is room;
 * NULL and errno.
 */
void *mr_map(size_t len, int node, size_t *map_len);

#endif
