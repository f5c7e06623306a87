/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A remote process: what the RDMA CM keeps for it, and how to reach it. The CM makes the first
 * connection, and reports the end of the other process. Further connections are made by one
 * exchange of datagrams (wireup.h) and hold a reference to the peer.
 *
 * A CM disconnect is not authenticated. It ends the first connection only; the others probe the
 * peer's device (rc_probe_peer()).
 *
 *   new --watch--> service thread handles CM events --publish--> found by others --> unpublished
 *
 * A change of the port's GID table unpublishes the peer: its address vector names a place there.
 *
 * The peer is freed with its last reference. The queue pair of the first connection must live as
 * long, because the CM identifies connections by its number. It is reset and parked here.
 *
 * find, publish: any thread. Everything else, once watched: the service thread.
 */
#ifndef SL_RPC_RDMA_PEER_H
#define SL_RPC_RDMA_PEER_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/list.h"
#include "rpc/rdma/device.h"
#include "rpc/rdma/info.h"
#include "rpc/rdma/service_thread.h"
#include "rpc/rdma/rc/qp_pool.h"
#include "rpc/rdma/path.h"

struct rc_conn;
struct rc_iface;

/* How to reach the peer. */
struct rc_peer_addr {
	/* dialed address; AF_UNSPEC at the accepting end */
	struct sockaddr_storage sa;
	struct rdma_path_spec path;
	uint64_t epoch;
	uint32_t wireup_qpn;      /* 0: none */
	uint32_t slots, bulk_len; /* granted */
	struct rdma_local local;
	struct ibv_qp_attr qp_attr; /* address vector, path MTU */
};

struct rc_peer {
	struct rdma_event_channel *cm;
	struct rdma_cm_id *id;
	/* no further connections */
	_Atomic bool gone;
	struct rc_peer_addr addr;
	struct rdma_path_info path_info; /* from the first connection */
	/* used by peer.c */
	struct service_source source;
	struct sl_list node;
	bool published, watched;
	unsigned refs;
	pid_t pid;
	struct rc_iface *iface; /* of the parked queue pair */
	struct rc_qp qp;
};

/*
 * Returns a peer that owns `id` and `cm`; NULL: out of memory. rc_peer_drop() leaves both to the
 * caller.
 */
struct rc_peer *rc_peer_new(struct rdma_cm_id *id, struct rdma_event_channel *cm);
void rc_peer_drop(struct rc_peer *peer);
/* Lets the service thread handle CM events. Returns 0 or -errno. */
int rc_peer_watch(struct rc_peer *peer);
/*
 * Lets find functions return this peer; `qp` must be connected. Does nothing if the peer has no
 * wireup QP, or `qp` cannot be queried.
 */
void rc_peer_publish(struct rc_peer *peer, struct ibv_qp *qp, const struct rc_peer_addr *k);

/* Returns the peer at that address and path, with a reference; NULL: none. */
struct rc_peer *rc_peer_find_by_addr(const struct sockaddr_storage *sa,
				     const struct rdma_path_spec *path);
/* Returns that peer with a reference; NULL: none. */
struct rc_peer *rc_peer_find_by_gid(const struct ibv_context *device, uint64_t epoch,
				    const uint8_t gid[16], uint8_t tos);
/* Ends that. */
void rc_peer_unpublish(struct rc_peer *peer);

/* Sends a CM disconnect if the caller holds the last reference. */
void rc_peer_disconnect_last(struct rc_peer *peer);
/* Returns true if `qp` is the CM's and other connections need it. */
bool rc_peer_needs_qp(struct rc_peer *peer, const struct ibv_qp *qp);
/* Keeps the CM's queue pair and place in the interface. */
void rc_peer_park_qp(struct rc_peer *peer, struct rc_conn *conn);
/*
 * Releases a reference. The connection must be freed before: the last id of a removed device closes
 * its context.
 */
void rc_peer_put(struct rc_peer *peer);

#endif
