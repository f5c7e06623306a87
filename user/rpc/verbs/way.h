/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way to a peer: which device and address of ours, and how its packets are marked. As a key it
 * tells peers that are known by one way from the same ones by another.
 */
#ifndef SL_RPC_VERBS_WAY_H
#define SL_RPC_VERBS_WAY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct rdma_cm_id;
struct sl_rpc_rdma;

/* What was asked for, without padding and with zeros behind each text: equal bytes, equal ways. */
struct vb_way {
	char source[64], device[64];
	uint8_t port, tos, reserved[6];
};

struct vb_way vb_way_of(const struct sl_rpc_rdma *asked);
/*
 * Sets the id on the way to that address; RDMA_CM_EVENT_ADDR_RESOLVED follows. 0 or -errno:
 * -ENODEV: no such device, -EADDRNOTAVAIL: it, or this host, has no such source.
 */
int vb_way_begin(const struct sl_rpc_rdma *way, struct rdma_cm_id *id, struct sockaddr_storage *to,
		 int timeout_ms);
/* Whether what was found is what was asked for. */
bool vb_way_is(const struct sl_rpc_rdma *way, const struct rdma_cm_id *id);

#endif
