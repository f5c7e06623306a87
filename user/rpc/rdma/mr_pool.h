/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pool of registered memory, shared by the connections of an interface.
 *
 *   shared   the owner's memory (the UMEM), registered once. It must stay mapped until
 *            sl_rpc_wait_closed() has returned
 *   buffers  {tx slots | tx bulk | rx bulk} of one connection, in huge pages if possible. Some
 *            stay registered for reuse; what a peer has written is cleared before
 *
 * One buffer is made ahead by the service thread. Memory is placed on the device's NUMA node.
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

enum { MR_POOL_KEEP = 32 << 20 };

struct mr_buf {
	struct sl_list node; /* while unused */
	uint8_t *mem;
	size_t len, map_len;
	struct ibv_mr *mr; /* NULL: not registered */
};

struct mr_pool {
	struct ibv_pd *pd;
	int numa_node;
	pthread_mutex_t lock;
	struct sl_list shared, unused;
	size_t unused_len;
	size_t refill_len; /* buffer to make ahead; 0: none */
};

/* Initialises an empty pool; memory comes from NUMA node `node`. */
void mr_pool_init(struct mr_pool *pool, struct ibv_pd *pd, int node);
/* Must have no users. */
void mr_pool_fini(struct mr_pool *pool);

/* Returns the memory's registration for reading; NULL: the device cannot. */
struct ibv_mr *mr_pool_reg_shared(struct mr_pool *pool, void *mem, size_t len);
void mr_pool_dereg_shared(struct mr_pool *pool, const struct ibv_mr *mr);

/* Returns a zeroed buffer, perhaps unregistered; NULL and errno. */
struct mr_buf *mr_pool_get(struct mr_pool *pool, size_t len);
/* Registers the buffer if necessary. Blocks. Returns 0 or -errno. */
int mr_pool_register(struct mr_pool *pool, struct mr_buf *buf);
/* Requests a buffer for the next mr_pool_refill(). */
void mr_pool_request(struct mr_pool *pool, size_t len);
/* Makes and registers the requested buffer. Blocks. */
void mr_pool_refill(struct mr_pool *pool);
/* Returns a buffer. Clears its last `written` bytes, which the peer cannot write any more. */
void mr_pool_put(struct mr_pool *pool, struct mr_buf *buf, size_t written);

/* Returns the device's NUMA node, or -1. */
int rdma_numa_node(const struct ibv_context *device);
/* Returns the group's completion vector (device.h): one per worker. */
int rdma_comp_vector(const struct ibv_context *device, unsigned group);

/*
 * Maps anonymous memory that forks do not inherit, in huge pages if large, preferably on that node.
 * Returns NULL and errno.
 */
void *mr_map(size_t len, int node, size_t *map_len);

#endif
