/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registered memory that the connections of one home share, so that a further one pins its rings
 * and no more, and one that comes back pins nothing.
 *
 *   shared   the owner's memory (the UMEM): registered by the first that asks, let go of by the
 *            last. It must not be unmapped before (sl_rpc_settle).
 *   slabs    {tx slots | tx bulk | rx bulk} of one connection, in huge pages where there are any.
 *            Some stay registered for the next; what a peer had written is wiped before, lest
 *            another's announcement of bytes that it never wrote shows them. One is made ahead,
 *            off the path: to map and register it takes longer than all else about a connection,
 *            and who accepts has others to serve.
 *
 * What is mapped prefers the device's NUMA node: else it would lie where the thread runs that registers it.
 *
 * Any thread.
 */
#ifndef SL_RPC_VERBS_ARENA_H
#define SL_RPC_VERBS_ARENA_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include "base/list.h"

enum { VB_ARENA_KEEP = 32 << 20 }; /* bytes of slabs without a user */

struct vb_slab {
	struct sl_list node; /* while it has no user */
	uint8_t *mem;
	size_t len, map_len;
	struct ibv_mr *mr; /* windows may be bound to it; NULL: not pinned yet */
};

struct vb_arena {
	struct ibv_pd *pd;
	int node; /* as vb_node_of */
	pthread_mutex_t lock;
	struct sl_list shared, unused;
	size_t unused_len;
	size_t want; /* the length of a slab to be made ahead; 0 none */
};

void vb_arena_init(struct vb_arena *a, struct ibv_pd *pd, int node);
/* Without users. */
void vb_arena_fini(struct vb_arena *a);

/* The registration of that memory, for reading; NULL: the device cannot. */
struct ibv_mr *vb_arena_share(struct vb_arena *a, void *mem, size_t len);
void vb_arena_unshare(struct vb_arena *a, const struct ibv_mr *mr);

/* Zeroed; NULL and errno. */
struct vb_slab *vb_arena_get(struct vb_arena *a, size_t len);
/* Registers it, which is what takes time, if it is not: 0 or -errno. */
int vb_arena_pin(struct vb_arena *a, struct vb_slab *slab);
/* A slab of that length is to be made ahead. */
void vb_arena_want(struct vb_arena *a, size_t len);
/* Makes the one ahead, pinned, that the last get(), or want(), calls for. */
void vb_arena_fill(struct vb_arena *a);
/* The last `written` bytes may hold what a peer wrote, and no longer can. */
void vb_arena_put(struct vb_arena *a, struct vb_slab *slab, size_t written);

/* The NUMA node of the device, by sysfs; -1: it is not told. */
int vb_node_of(const struct ibv_context *device);

/*
 * Anonymous memory that forks do not copy, in huge pages if it is large, and on that node if there is room;
 * NULL and errno.
 */
void *vb_map(size_t len, int node, size_t *map_len);

#endif
