/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pool of registered memory, shared by the connections of an interface. Any thread.
 *
 *   shared   the owner's memory (the UMEM), registered once. It must stay mapped until
 *            sl_rpc_wait_closed() has returned
 *   buffers  {tx slots | tx bulk | rx bulk} of one connection. Some stay registered for reuse
 *
 * Memory is on the device's NUMA node.
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

/* Allocates nothing yet. `pd` must outlive the pool. */
void mr_pool_init(struct mr_pool *pool, struct ibv_pd *pd, int node);
/* Frees unused buffers. The pool must have no users. */
void mr_pool_fini(struct mr_pool *pool);

/* Registers memory for reading, once for all users. Returns the registration, or NULL. Blocks. */
struct ibv_mr *mr_pool_reg_shared(struct mr_pool *pool, void *mem, size_t len);
/* Ends a use; the last one deregisters. */
void mr_pool_dereg_shared(struct mr_pool *pool, const struct ibv_mr *mr);

/* Returns a zeroed buffer of `len` bytes, perhaps unregistered; NULL and errno. */
struct mr_buf *mr_pool_get(struct mr_pool *pool, size_t len);
/* Registers the buffer unless it is. Returns 0 or -errno. Blocks. */
int mr_pool_register(struct mr_pool *pool, struct mr_buf *buf);
/* Sets the length for the next mr_pool_refill(). */
void mr_pool_request(struct mr_pool *pool, size_t len);
/* Makes a buffer of that length, if none is unused. Blocks. */
void mr_pool_refill(struct mr_pool *pool);
/*
 * Clears the last `written` bytes and keeps the buffer, or frees it. The peer must have no access.
 */
void mr_pool_put(struct mr_pool *pool, struct mr_buf *buf, size_t written);

/* Returns the device's node, or -1. */
int rdma_numa_node(const struct ibv_context *device);
/* Returns the group's completion vector (device.h). */
int rdma_comp_vector(const struct ibv_context *device, unsigned group);

/*
 * Maps memory not inherited by forks, in huge pages if large, preferably on that node. The caller
 * unmaps *map_len bytes. NULL: errno.
 */
void *mr_map(size_t len, int node, size_t *map_len);

#endif
