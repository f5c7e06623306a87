/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared receive queue of an interface, and its slots, registered in chunks as needed. A slot is in
 * the queue, or belongs to the connection that received it, until reposted.
 *
 * Lock of rc_iface.c, unless stated otherwise.
 */
#ifndef SL_RPC_RDMA_RC_SRQ_H
#define SL_RPC_RDMA_RC_SRQ_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	RC_SRQ_SLOTS = 32768, /* 128 MiB */
	RC_SRQ_CHUNK = 512,   /* slots; fills a huge page */
	RC_SRQ_CHUNKS_MAX = RC_SRQ_SLOTS / RC_SRQ_CHUNK,
};

struct rc_srq {
	struct ibv_srq *srq;
	struct ibv_pd *pd;
	int numa_node;
	_Atomic bool failed; /* slots may be lost, or a queue has failed */
	uint32_t chunk_cnt;
	struct ibv_mr *mrs[RC_SRQ_CHUNKS_MAX];
	/* an entry is constant once its slots are posted */
	uint8_t *chunks[RC_SRQ_CHUNKS_MAX];
};

/* Returns how many slots the device's queues hold; 0: connections cannot share. */
uint32_t rc_srq_size(const struct ibv_device_attr *caps);
/* Returns the memory of a slot. Any thread. */
uint8_t *rc_srq_slot(const struct rc_srq *s, uint32_t slot);
/* Posts slots. Returns 0 or -EIO. Any thread. */
int rc_srq_post(struct rc_srq *s, const uint32_t *slots, unsigned cnt);
/* Adds slots until there are at least `cnt`. Returns 0, -ENOMEM or -EIO. */
int rc_srq_grow(struct rc_srq *s, uint32_t cnt);
/* Returns the number of slots. */
uint32_t rc_srq_slot_cnt(const struct rc_srq *s);
/* Requests one event when few slots are left. Devices without the feature send none. */
void rc_srq_arm_limit(struct rc_srq *s);
/* Frees the slots, after the queue was destroyed. */
void rc_srq_free_slots(struct rc_srq *s);

#endif
