/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where all that comes for the connections of a home arrives: one completion queue, however many they
 * are, and one bell for it and for their send queues. Whoever takes what is there puts each into the
 * inbox of its connection.
 *
 *   take   by the owner's hub, once a turn: for connections that are its own, from attach() to close()
 *   pull   by whoever sets up, or closes, one that is not, and wants to know what has come for it
 *
 * So an idle connection costs no poll. Send queues keep completion queues of their own: what a queue
 * pair in error flushes would fill a shared one, and a queue that runs over ends all that share it.
 * The receive queue's cannot: each entry names a slot, and there are no more of these. A peer that
 * takes more of them than its window is shut out by whoever finds its inbox full; of a listener's, all
 * of its host are, and it is refused for a second.
 *
 * `taking` says that somebody takes. The owner's turns never wait for it: whoever else had it tells
 * the owner of what came for its connections.
 */
#ifndef SL_RPC_VERBS_DESK_H
#define SL_RPC_VERBS_DESK_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "rpc/hub.h"

struct sl_verbs;
struct vb_budget;
struct vb_home;
struct vb_wants;

enum { VB_DESK_BUCKETS = 1024 };

enum vb_how { VB_BY_SEND, VB_BY_WRITE, VB_BY_OTHER, VB_FAILED };

/* What a completion of the receive queue says. */
struct vb_arrival {
	uint32_t slot;
	uint32_t len; /* of a WRITE: what its immediate data say */
	enum vb_how how;
};

/* Written by whoever takes, read by whoever has the connection. */
struct vb_inbox {
	struct vb_arrival *of;
	uint32_t size;          /* a power of two */
	_Atomic uint32_t limit; /* the window, and what goes before and behind all of one */
	_Atomic uint32_t in;
	_Atomic uint32_t out;
};

/* False: it is full, so its peer has sent more than its window allows. */
bool vb_inbox_put(struct vb_inbox *b, const struct ibv_wc *wc);

static inline bool vb_inbox_empty(const struct vb_inbox *b)
{
	return atomic_load_explicit(&b->in, memory_order_acquire) ==
	       atomic_load_explicit(&b->out, memory_order_relaxed);
}

static inline const struct vb_arrival *vb_inbox_first(const struct vb_inbox *b)
{
	return vb_inbox_empty(b) ? NULL : &b->of[b->out & (b->size - 1)];
}

static inline bool vb_inbox_next(struct vb_inbox *b, struct vb_arrival *a)
{
	const struct vb_arrival *first = vb_inbox_first(b);

	if (!first)
		return false;
	*a = *first;
	atomic_store_explicit(&b->out, b->out + 1, memory_order_release);
	return true;
}

struct vb_desk {
	struct sl_hub hub; /* fd: epoll over the bell and `wake` */
	struct vb_home *home;
	struct ibv_comp_channel *bell;
	struct ibv_cq *cq;
	int wake; /* an eventfd: the owner is told */
	_Atomic bool told;
	atomic_flag taking;
	/* with `taking` */
	bool asked;        /* for a bell, which nobody has taken */
	const void *owner; /* NULL: nobody's */
	unsigned entered, attached;
	uint8_t shunned[16]; /* the last host that was shut out, and until when */
	uint64_t shunned_until_ns;
	struct sl_verbs *of[VB_DESK_BUCKETS]; /* by number of queue pair */
};

/* With room for `slots` completions. 0, or -errno with nothing made. */
int vb_desk_init(struct vb_desk *d, struct vb_home *home, struct ibv_context *device, int vector,
		 uint32_t slots);
void vb_desk_fini(struct vb_desk *d);

/* From now on what comes for its queue pair, which has no peer yet, is put into its inbox. */
void vb_desk_enter(struct vb_desk *d, struct sl_verbs *v);
/* The queue pair is about to go, or to be reset: what has come for it is in the inbox. */
void vb_desk_part(struct vb_desk *d, struct sl_verbs *v);
/* It has gone, and what came meanwhile is in the inbox; nothing follows. */
void vb_desk_leave(struct vb_desk *d, struct sl_verbs *v);

/* False: it is another owner's desk. With event.c's lock. */
bool vb_desk_attach(struct vb_desk *d, struct sl_verbs *v, const void *owned_by);
void vb_desk_detach(struct vb_desk *d, struct sl_verbs *v);

/* What has come is put into inboxes, for the sake of v, which is not attached; NULL: of all. */
void vb_desk_pull(struct vb_desk *d, const struct sl_verbs *v);
/* The same before a sleep on v's own descriptor. False: no bell can be asked for. */
bool vb_desk_sleep(struct vb_desk *d, const struct sl_verbs *v);
/* That descriptor says that the bell has rung. */
void vb_desk_rang(struct vb_desk *d, const struct sl_verbs *v);
/*
 * What windows its connections want, by what has come for each since the last time; `idle`: so long
 * ago that those for whom fewer have come than their window holds need none of that size.
 */
void vb_desk_count(struct vb_desk *d, struct vb_budget *b, bool idle, struct vb_wants *wants);
/*
 * They are to have that, up to `level`, and those that are to have another are told. A smaller one
 * counts once its peer keeps to it. Whether anybody's has moved.
 */
bool vb_desk_move(struct vb_desk *d, struct vb_budget *b, uint32_t posted, uint32_t level);
/* Whether that host was shut out a moment ago. */
bool vb_desk_shuns(struct vb_desk *d, const uint8_t host[16]);
/* The owner of v, which is attached, is to look at it. Any thread that keeps v from being closed. */
void vb_desk_tell(struct vb_desk *d, struct sl_verbs *v);

#endif
