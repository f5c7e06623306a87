/* SPDX-License-Identifier: Apache-2.0 */
/* Path to a peer: local device, port and address, and the traffic class of packets. */
#ifndef SL_RPC_RDMA_PATH_H
#define SL_RPC_RDMA_PATH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct ibv_context;
struct rdma_cm_id;
struct sl_rpc_rdma;

/* Without padding, texts filled with zeros: comparable with memcmp(). */
struct rdma_path_spec {
	char source[64], device[64];
	uint8_t port, tos, reserved[6];
};

/* Parses "1.2.3.4:5" or "[::1]:5". Returns 0 or -EINVAL. */
int rdma_parse_addr(const char *text, struct sockaddr_storage *sa);

/* Copies the options; long names are cut. */
struct rdma_path_spec rdma_path_spec_of(const struct sl_rpc_rdma *rdma);
/*
 * Fills in the configured source, or the family's wildcard. Returns 0; -ENODEV: no such device;
 * -EADDRNOTAVAIL: the device or host lacks that source.
 */
int rdma_path_source(const struct sl_rpc_rdma *rdma, int family, struct sockaddr_storage *from);
/* Starts address resolution; RDMA_CM_EVENT_ADDR_RESOLVED follows. Returns 0 or -errno. */
int rdma_path_resolve(const struct sl_rpc_rdma *rdma, struct rdma_cm_id *id,
		      struct sockaddr_storage *from, struct sockaddr_storage *to, int timeout_ms);
/* Returns the present table index of the RoCE v2 GID, -EIO or -EADDRNOTAVAIL. */
int rdma_gid_index(struct ibv_context *device, uint8_t port, const uint8_t gid[16]);
/* Returns true if the resolved path uses the requested device and port. */
bool rdma_path_matches(const struct sl_rpc_rdma *rdma, const struct rdma_cm_id *id);

#endif
