/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Path to a peer: local device, port and address, and the traffic class of packets. Peers are
 * looked up by address and path.
 */
#ifndef SL_RPC_RDMA_PATH_H
#define SL_RPC_RDMA_PATH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct rdma_cm_id;
struct sl_rpc_rdma;

/* A requested path without padding, texts filled with zeros: comparable with memcmp(). */
struct rdma_path_spec {
	char source[64], device[64];
	uint8_t port, tos, reserved[6];
};

/* Parses "1.2.3.4:5" or "[::1]:5". Returns 0 or -EINVAL. */
int rdma_parse_addr(const char *text, struct sockaddr_storage *sa);

struct rdma_path_spec rdma_path_spec_of(const struct sl_rpc_rdma *rdma);
/*
 * Starts address resolution; RDMA_CM_EVENT_ADDR_RESOLVED follows. Returns 0; -ENODEV: no such
 * device; -EADDRNOTAVAIL: the device or host lacks that source; or another -errno.
 */
int rdma_path_resolve(const struct sl_rpc_rdma *rdma, struct rdma_cm_id *id,
		      struct sockaddr_storage *to, int timeout_ms);
/* Returns true if the resolved path uses the requested device and port. */
bool rdma_path_matches(const struct sl_rpc_rdma *rdma, const struct rdma_cm_id *id);

#endif
