/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the connections of one worker, or of one backend, share on a device: a protection domain and
 * a shared receive queue, so that memory for small messages grows with the traffic that was granted
 * (budget.h) and not with the number of connections.
 *
 *   slots     in chunks, registered when the grants need them; a slot's index is its wr_id
 *   windows   each connection begins with the least; the closer's thread looks at what has come for
 *             each, when one has used up its own or some time has gone by, and moves them (share)
 *   a slot is in the queue, or of the connection whose completion has named it, until posted again
 *
 * In one protection domain the rkey of one connection's ring would open it to the others' peers. So
 * rings are opened by memory windows of type 2, which hold for one queue pair. A device without
 * those, or without shared receive queues, has no home: its connections have domains and receive
 * queues of their own, and say so (vb_describe).
 *
 * Rings and the owner's memory are registered once for all (arena.h), all that arrives comes by one
 * completion queue (desk.h), and queue pairs are made ahead (ends.h).
 *
 * Any thread; the calls that a burst makes take no lock of ours.
 */
#ifndef SL_RPC_VERBS_HOME_H
#define SL_RPC_VERBS_HOME_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include "rpc/verbs/arena.h"
#include "rpc/verbs/desk.h"
#include "rpc/verbs/ends.h"

struct vb_home;

/* `group` of gateways: the worker's number; of listeners this, and the listener's. */
enum { VB_GROUP_BACKEND = 1 << 16 };

enum {
	VB_HOME_SLOTS = 32768, /* at the most: 128 MiB, if ever */
	/* Channels of a listener, and those that have yet to prove the key, or are parked (leash.h). */
	VB_HOME_MEMBERS = 1024 + 64,
};

/*
 * 0, and a home with a window of SL_RPC_MIN_SLOTS, or NULL in *home where the device cannot share;
 * -EUSERS: it is full; -ENOMEM and the like.
 */
int vb_home_join(struct ibv_context *device, unsigned group, struct vb_home **home);
/* A window is used up: windows are looked at soon. One call of the kernel, and that seldom. */
void vb_home_want(struct vb_home *h);
/* Moves windows where it is time; when it will be, or UINT64_MAX. The closer's thread. */
uint64_t vb_homes_share(uint64_t now_ns);
void vb_home_lower(struct vb_home *h, uint32_t from, uint32_t to);
/* A spoiled one goes with its last; others stay for the next. */
void vb_home_leave(struct vb_home *h, uint32_t window);
/* Slots may have got lost with a connection, or the queue has failed: nobody joins any more. */
void vb_home_spoil(struct vb_home *h);
/* Whether a desk of that group shuns that host. */
bool vb_homes_shun(unsigned group, const uint8_t host[16]);
/* Nobody of that group joins any more. */
void vb_homes_retire(unsigned group);
/* Frees spoiled ones that are empty. All of `device`, which fails or goes, are spoiled before. */
void vb_homes_sweep(const struct ibv_context *device);

struct ibv_pd *vb_home_pd(const struct vb_home *h);
struct ibv_srq *vb_home_srq(const struct vb_home *h);
struct vb_desk *vb_home_desk(struct vb_home *h);
struct vb_arena *vb_home_arena(struct vb_home *h);
struct vb_ends *vb_home_ends(struct vb_home *h);
/* Connections of that size are to come: what they need is made at the next vb_homes_fill(). */
void vb_home_expect(struct ibv_context *device, unsigned group, uint32_t slots, size_t rings_len);
/* What connections that are to come will need (vb_arena_fill, vb_ends_fill), of all homes. */
void vb_homes_fill(void);
/* Whether the device tells when a queue pair in error has used its last slot. */
bool vb_home_tells(const struct vb_home *h);
uint8_t *vb_home_slot(const struct vb_home *h, uint32_t slot);
/*
 * Few slots are left in the queue, which those who keep to their windows never bring about: somebody
 * does not, while the owner does not look. It is found out by whoever calls this, the closer's thread.
 */
void vb_home_run_short(struct vb_home *h);
/* Queues that have run short are watched again. */
void vb_homes_watch(void);
/* Slots go (back) to the queue. 0 or -EIO. */
int vb_home_post(struct vb_home *h, const uint32_t *slots, unsigned cnt);

#endif
