/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way to a peer: which device and address of ours, and how its packets are marked. As a key it
 * tells peers that are known by one way from the same ones by another.
 */
#ifndef SL_RPC_RDMA_PATH_H
#define SL_RPC_RDMA_PATH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct rdma_cm_id;
struct sl_rpc_rdma;

/* What was asked for, without padding and with zeros behind each text: equal bytes, equal ways. */
struct rdma_path_spec {
	char source[64], device[64];
	uint8_t port, tos, reserved[6];
};

struct rdma_path_spec rdma_path_spec_of(const struct sl_rpc_rdma *rdma);
/*
 * Sets the id on the way to that address; RDMA_CM_EVENT_ADDR_RESOLVED follows. 0 or -errno:
 * -ENODEV: no such device, -EADDRNOTAVAIL: it, or this host, has no such source.
 */
int rdma_path_resolve(const struct sl_rpc_rdma *rdma, struct rdma_cm_id *id,
		      struct sockaddr_storage *to, int timeout_ms);
/* Whether what was found is what was asked for. */
bool rdma_path_matches(const struct sl_rpc_rdma *rdma, const struct rdma_cm_id *id);

#endif
