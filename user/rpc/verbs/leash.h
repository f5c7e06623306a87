/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the connection manager holds between two processes. It makes their first connection, which
 * takes half a dozen messages and as many wake-ups, and tells at once when the other process has
 * died. Further connections are made by one exchange of datagrams (door.h), and hold on to it: so
 * what the connection manager has does not grow with the connections of two processes.
 *
 * What makes it tell is not authenticated. So that ends the first connection only; the others ask the
 * peer's device, which answers as long as their queue pairs live there (vb_look_after).
 *
 *   new --watch--> heard by the closer's thread --share--> may be found by others --end--> not any more
 *
 * It ends with the last connection that has it. The queue pair that it was made for lives as long,
 * for its number is what the connection manager tells connections apart by: that of a connection
 * that has ended is parked here, reset.
 *
 * find, share: any thread. All else, once it is watched, is the closer's (close.c).
 */
#ifndef SL_RPC_VERBS_LEASH_H
#define SL_RPC_VERBS_LEASH_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/list.h"
#include "rpc/ud/device.h"
#include "rpc/verbs/ends.h"
#include "rpc/verbs/way.h"

struct sl_verbs;
struct vb_home;

/* How the peer is reached without the connection manager. */
struct vb_known {
	struct sockaddr_storage sa; /* dialled; of no family at an acceptor, which does not dial */
	struct vb_way asked;        /* by which way */
	uint64_t epoch;             /* the peer's */
	uint32_t door;              /* queue pair that takes HELLOs; 0: none */
	uint32_t slots, bulk_len;   /* granted, last time */
	struct ud_local local;      /* from here */
	struct ibv_qp_attr way;     /* address vector and path MTU */
};

enum { VB_WAY_LEN = 96 };

/* What the first connection has found out about the way there; others need not ask the kernel. */
struct vb_way_facts {
	uint64_t rate_bps;
	uint32_t message_max;  /* bytes */
	uint32_t packet_len;   /* the path's MTU; 0: nothing is known yet */
	char text[VB_WAY_LEN]; /* for people */
};

struct vb_leash {
	struct rdma_event_channel *cm;
	struct rdma_cm_id *id;
	_Atomic bool gone; /* the peer's process, as it seems, or its device: nobody joins */
	struct vb_known known;
	struct vb_way_facts facts;
	/* leash.c's */
	struct sl_list node;
	bool shared, watched;
	unsigned refs;
	pid_t pid;
	struct vb_home *home; /* of what is parked */
	struct vb_end end;
};

/* Takes both; NULL: no memory. vb_leash_drop() gives them back, of one that is not watched yet. */
struct vb_leash *vb_leash_new(struct rdma_cm_id *id, struct rdma_event_channel *cm);
void vb_leash_drop(struct vb_leash *l);
/* The closer's thread hears it from now on. 0 or -errno. */
int vb_leash_watch(struct vb_leash *l);
/* Others may be made by it, if the device has what that takes. `qp` is connected. */
void vb_leash_share(struct vb_leash *l, struct ibv_qp *qp, const struct vb_known *k);

/* To what was dialled by that address and way, or NULL; the caller has a part in it then. */
struct vb_leash *vb_leash_to(const struct sockaddr_storage *sa, const struct vb_way *asked);
/* Of that peer: its process, the address by which it comes, and how packets to it are marked. */
struct vb_leash *vb_leash_of(const struct ibv_context *device, uint64_t epoch,
			     const uint8_t gid[16], uint8_t tos);
/* A peer that does not answer at its door any more is not looked for there again. */
void vb_leash_unshare(struct vb_leash *l);

/* What the connection manager has to say. */
void vb_leash_take(struct vb_leash *l);
/* Of a connection that closes: if it is the last one, so does the leash. */
void vb_leash_end(struct vb_leash *l);
/* Whether the queue pair that goes is the leash's, and others still have that. */
bool vb_leash_keeps(struct vb_leash *l, const struct ibv_qp *qp);
/* What a connection that is taken apart has and the leash needs for others. */
void vb_leash_park(struct vb_leash *l, struct sl_verbs *v);
/* The part of one of which nothing is left: the last id of a device that has gone closes its context. */
void vb_leash_put(struct vb_leash *l);

#endif
