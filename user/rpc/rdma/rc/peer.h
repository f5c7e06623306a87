/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the connection manager holds between two processes. It makes their first connection, which
 * takes half a dozen messages and as many wake-ups, and tells at once when the other process has
 * died. Further connections are made by one exchange of datagrams (wireup.h), and hold on to it: so
 * what the connection manager has does not grow with the connections of two processes.
 *
 * What makes it tell is not authenticated. So that ends the first connection only; the others ask the
 * peer's device, which answers as long as their queue pairs live there (rc_probe_peer).
 *
 *   new --watch--> heard by the closer's thread --share--> may be found by others --end--> not any more
 *
 * It ends with the last connection that has it. The queue pair that it was made for lives as long,
 * for its number is what the connection manager tells connections apart by: that of a connection
 * that has ended is parked here, reset.
 *
 * find, share: any thread. All else, once it is watched, is the closer's (service_thread.c).
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
#include "rpc/rdma/rc/qp_pool.h"
#include "rpc/rdma/path.h"

struct rc_conn;
struct rc_iface;

/* How the peer is reached without the connection manager. */
struct rc_peer_addr {
	struct sockaddr_storage sa; /* dialled; of no family at an acceptor, which does not dial */
	struct rdma_path_spec path; /* by which way */
	uint64_t epoch;             /* the peer's */
	uint32_t wireup_qpn;        /* queue pair that takes HELLOs; 0: none */
	uint32_t slots, bulk_len;   /* granted, last time */
	struct rdma_local local;    /* from here */
	struct ibv_qp_attr qp_attr; /* address vector and path MTU */
};

enum { RDMA_PATH_TEXT_LEN = 96 };

/* What the first connection has found out about the way there; others need not ask the kernel. */
struct rdma_path_info {
	uint64_t rate_bps;
	uint32_t message_max;          /* bytes */
	uint32_t packet_len;           /* the path's MTU; 0: nothing is known yet */
	char text[RDMA_PATH_TEXT_LEN]; /* for people */
};

struct rc_peer {
	struct rdma_event_channel *cm;
	struct rdma_cm_id *id;
	_Atomic bool gone; /* the peer's process, as it seems, or its device: nobody joins */
	struct rc_peer_addr addr;
	struct rdma_path_info path_info;
	/* peer.c's */
	struct sl_list node;
	bool published, watched;
	unsigned refs;
	pid_t pid;
	struct rc_iface *iface; /* of what is parked */
	struct rc_qp qp;
};

/* Takes both; NULL: no memory. rc_peer_drop() gives them back, of one that is not watched yet. */
struct rc_peer *rc_peer_new(struct rdma_cm_id *id, struct rdma_event_channel *cm);
void rc_peer_drop(struct rc_peer *peer);
/* The closer's thread hears it from now on. 0 or -errno. */
int rc_peer_watch(struct rc_peer *peer);
/* Others may be made by it, if the device has what that takes. `qp` is connected. */
void rc_peer_publish(struct rc_peer *peer, struct ibv_qp *qp, const struct rc_peer_addr *k);

/* To what was dialled by that address and way, or NULL; the caller has a part in it then. */
struct rc_peer *rc_peer_find_by_addr(const struct sockaddr_storage *sa,
				     const struct rdma_path_spec *path);
/* Of that peer: its process, the address by which it comes, and how packets to it are marked. */
struct rc_peer *rc_peer_find_by_gid(const struct ibv_context *device, uint64_t epoch,
				    const uint8_t gid[16], uint8_t tos);
/* A peer that does not answer at its wireup_qpn any more is not looked for there again. */
void rc_peer_unpublish(struct rc_peer *peer);

/* What the connection manager has to say. */
void rc_peer_handle_cm_events(struct rc_peer *peer);
/* Of a connection that closes: if it is the last one, so does the peer. */
void rc_peer_disconnect_last(struct rc_peer *peer);
/* Whether the queue pair that goes is the peer's, and others still have that. */
bool rc_peer_needs_qp(struct rc_peer *peer, const struct ibv_qp *qp);
/* What a connection that is taken apart has and the peer needs for others. */
void rc_peer_park_qp(struct rc_peer *peer, struct rc_conn *conn);
/* The part of one of which nothing is left: the last id of a device that has gone closes its context. */
void rc_peer_put(struct rc_peer *peer);

#endif
