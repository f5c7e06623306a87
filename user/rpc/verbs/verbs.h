/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verbs transport: one RC queue pair per channel. What it shares with others of its worker or
 * backend, above all the receive slots, is its home's (home.h); a device that cannot share gives
 * each channel a protection domain and receive slots of its own.
 *
 *   memory:  tx slots | tx bulk (staging) | (rx slots) | rx bulk   only rx bulk is remotely
 *            writable, and by the peer's queue pair only
 *
 *   small:   gather into tx slot n, SEND              -> a receive slot of the peer; a single request
 *            or reply of a few bytes in the short form (short.h)
 *   large:   gather into staging at the place, WRITE  -> same place of the peer's bulk ring, header
 *            and body. The last WRITE has immediate data, the length of both, which takes a receive
 *            slot: so one work request, and one acknowledgement, where a SEND that announces it
 *            would be two of each
 *
 * Where the owner's memory (the UMEM) is registered, long spans in it are not gathered: the WRITE
 * reads them where they lie, and `sent` tells when that is done. Only completions of our own device
 * count for that; what the peer claims to have consumed gives back room in our own memory, where a
 * lie spoils the liar's messages and nothing else.
 *
 * Work requests are chained and posted with one doorbell by flush(). Slots of released messages are
 * told as consumed by what goes out next, and go back to the receive queue behind that doorbell,
 * where nobody waits for them: a shared queue has VB_BUDGET_EARLY slots for each member to spare.
 * More than those, and all of a queue of its own, go back first. So a peer that keeps to its window
 * never meets an empty receive queue. One that does not is found out by the count, or by its inbox
 * that is full (desk.h), and its slots are taken back.
 *
 * Set-up (proof.h): connection data carry nonces and the acceptor's proof of the shared key; the
 * first SEND of each side, both with a proof, carry the rkeys. Rings are made only then.
 *
 * Completion errors, asynchronous events and disconnects set `gone`; poll() reports it behind the
 * last message.
 */
#ifndef SL_RPC_VERBS_VERBS_H
#define SL_RPC_VERBS_VERBS_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include "base/err.h"
#include "base/list.h"
#include "rpc/transport.h"
#include "rpc/verbs/ends.h"
#include "rpc/verbs/home.h"
#include "rpc/verbs/leash.h"
#include "rpc/verbs/proof.h"
#include "rpc/verbs/way.h"

enum {
	VB_CHAIN_MAX = 64,   /* work requests behind one doorbell */
	VB_PIECES_MAX = 256, /* and pieces of memory in them */
	VB_WRITES_MAX = 8,   /* of one message; no other takes more than one */
	VB_SGE_MAX = 16,     /* pieces of one WRITE */
	VB_DIRECT_MIN = 512, /* shorter spans are copied */
	VB_SIGNAL_MAX = 64,  /* messages without a signalled one at the most */
	VB_INLINE_WANT = SL_RPC_SHORT_MAX,
	VB_BODY_MAX = SL_RPC_SLOT_SIZE - sizeof(struct sl_rpc_header),
	VB_BESIDE = 2, /* messages beside those of a window: keys, and BYE */
};

/*
 * A peer that keeps to its window never finds the receive queue empty; if one does, because a slot
 * was lost or others take more than theirs, it is told to come again after 2.56 ms, and after six
 * times gives up. (The connection manager's own would be 655 ms, and for ever.)
 */
enum { VB_RNR_TIMER = 16, VB_RNR_RETRIES = 6, VB_RETRIES = 6 /* 7 means for ever to soft-RoCE */ };

/*
 * wr_id of a message's last: messages posted with it in the low half, work requests, of which no more than
 * VB_ID_WR_MASK are ever under way, in the 31 bits above. Those with the highest bit are counted
 * nowhere: the first SEND and receive of each side, the last SEND (vb_halt), and what asks after the peer.
 */
#define VB_ID_WR_MASK UINT32_C(0x7fffffff)
#define VB_ID_KEYS    (UINT64_C(1) << 63)
#define VB_ID_LAST    (VB_ID_KEYS | 1)
#define VB_ID_BYE     (VB_ID_KEYS | 2)
#define VB_ID_BOUND   (VB_ID_KEYS | 3)
#define VB_ID_ALIVE   (VB_ID_KEYS | 4)

struct vb_posted {
	uint64_t bulk_end; /* bulk_sent behind this message */
	uint32_t body_len;
	uint32_t told; /* by it: consumed */
};

/* A post whose spans are in use until our device has completed message `seq`. */
struct vb_borrowed {
	uint64_t cookie;
	uint32_t seq;
};

struct vb_geometry {
	uint32_t slots, bulk_len;
};

/* Whether the peer was told of the end. */
enum vb_bye { VB_BYE_OPEN, VB_BYE_SAID, VB_BYE_DONE };

/* Whether the peer lives, after the connection manager has said that it does not. */
enum vb_doubt { VB_SURE, VB_DOUBTED, VB_ASKED };

struct sl_verbs {
	struct sl_transport
		base; /* fd: epoll over bells, until it is attached to its home's desk */
	_Atomic bool gone;
	_Atomic bool port_down; /* nothing is posted: what has not left may still go elsewhere */
	_Atomic bool broken;    /* the queue pair is in error: nothing to wait for at close */
	_Atomic enum vb_doubt doubt;
	uint64_t doubted_ns, asked_ns; /* since when it is, and the peer's device owes an answer */
	bool was_down;                 /* the port, when that was last looked after */
	int error;                     /* why, if the peer broke the protocol */
	int lost;                      /* why, if the device did not get through to it */
	uint32_t mask, slot_mask;      /* of tables per message; of rx_slot */
	/* out */
	uint8_t *tx_slots, *tx_bulk;
	uint64_t peer_bulk;
	uint32_t peer_rkey;
	uint32_t wr_sent, wr_done;
	uint32_t signalled;        /* in flight */
	uint32_t quiet, quiet_max; /* messages since the last signalled; allowed */
	uint32_t quiet_bytes;
	bool quiet_lent;  /* one of these reads the owner's memory */
	uint32_t reaped;  /* messages that the device has completed; credits.done may be ahead */
	uint32_t lent_to; /* the last message that reads the owner's memory; not before `reaped` */
	uint32_t chain_len;
	struct ibv_send_wr chain[VB_CHAIN_MAX];
	uint32_t piece_cnt;
	struct ibv_sge pieces[VB_PIECES_MAX]; /* of the chain */
	struct vb_posted *posted;             /* per slot */
	const uint8_t *mem;                   /* the owner's, registered; NULL none */
	size_t mem_len;
	uint32_t packet_len;
	struct vb_borrowed *borrowed;        /* ring of as many as slots */
	uint32_t borrowed_cnt, returned_cnt; /* put in, taken out */
	/* in */
	uint8_t *rx_slots, *rx_bulk;
	uint32_t rx_next, lent;
	uint32_t released; /* messages before it are done with */
	uint32_t put_back; /* and the slots of those before this one are in the queue again */
	uint64_t rx_bulk_head;
	uint64_t *rx_bulk_end; /* per message: rx_bulk_head behind it */
	uint32_t *rx_slot;     /* per message of two windows: its slot, with a home */
	struct vb_inbox inbox;
	/* window.c */
	uint32_t window;          /* counts in the home's budget */
	uint32_t granted;         /* it was told */
	_Atomic uint32_t allowed; /* the peer is to have */
	_Atomic uint32_t held;    /* may believe to have */
	_Atomic bool spent;       /* said that it has used up */
	uint32_t knows; /* so many messages are consumed, as the peer has read for certain */
	uint32_t wants, seen,
		seen_idle; /* of who moves it; arrivals, at the last look and a longer one */
	bool lowering;     /* the peer has yet to say that it keeps to less */
	uint32_t lowered_in, lowered_out; /* messages that had come, and gone, when it was told */
	uint32_t over; /* our own window was larger by that: CREDITs may use it */
	bool owes;     /* to the peer: that word */
	uint32_t owed; /* once so many messages are consumed */
	bool rx_armed; /* without a home: a bell was asked for, and has not rung */
	_Atomic bool tx_armed;
	_Atomic bool told;    /* its owner is to look */
	_Atomic bool flooded; /* the peer has sent more than its window allows, and is shut out */
	bool has_come;        /* to a listener of ours, from that host */
	uint8_t host[16];     /* as a GID */
	bool leaving;         /* with the desk's `taking`: its queue pair may be gone */
	/* the device */
	struct vb_leash *leash;
	struct ibv_context *device;
	uint8_t port_num;
	struct vb_home *home;  /* NULL: pd and receive slots are this channel's own */
	struct vb_desk *desk;  /* the home's, while it is there */
	struct sl_verbs *next; /* of those with such a number */
	uint32_t qpn;
	bool attached; /* with event.c's lock and the desk's `taking` */
	struct ibv_pd *pd;
	struct vb_slab *slab;                      /* the rings, with a home */
	struct vb_end end;                         /* its window is over rx bulk */
	struct ibv_mr *ring_mr, *bulk_mr, *mem_mr; /* with a home, the home's */
	struct ibv_mr *keys_mr;                    /* without */
	struct vb_keys keys[2];                    /* own, the peer's */
	void *map;
	size_t map_len; /* without a home */
	uint32_t bulk_len;
	struct sl_list node; /* of event.c: who hears of a failing device */
	bool listed;
	/* close.c */
	struct sl_list closing;
	bool quieting, ready; /* ready: the queue pair can take messages */
	bool bound;           /* its window is */
	enum vb_bye bye;
	bool bye_heard;
	_Atomic bool last_receive; /* the device says that it takes no slot any more */
	uint64_t until_ns;
};

static inline struct sl_verbs *vb_of(struct sl_transport *t)
{
	return (struct sl_verbs *)t;
}

bool vb_geometry_ok(const struct vb_geometry *g);
/* Of a connection's own, where receive slots are shared. */
size_t vb_rings_len(const struct vb_geometry *g);

/* queue.c: set-up. 0 or -errno; vb_free() frees whatever there is. */
struct sl_verbs *vb_new(void);
/* Takes id and cm on success; queue pair, and a receive posted for the peer's keys. */
int vb_open(struct sl_verbs *v, struct rdma_cm_id *id, struct rdma_event_channel *cm,
	    unsigned group, struct vb_geometry *g);
/*
 * The same of a connection to a peer that is met already: takes the part in its leash, also if it
 * fails; vb_close() frees what there is. Its ring lies where it will stay.
 */
int vb_open_known(struct sl_verbs *v, struct vb_leash *leash, unsigned group,
		  struct vb_geometry *g);
/* Its rings can be used; vb_open_rings() does that too. 0 or -errno. */
int vb_pin_rings(struct sl_verbs *v);
/* Where that is. */
uint8_t *vb_ring_of(const struct sl_verbs *v, uint32_t bulk_len);
/* Such a one's queue pair is ready, with that one of the peer's. 0 or -errno. */
int vb_reach(struct sl_verbs *v, uint32_t qpn, uint32_t psn, uint32_t own_psn);
/* Its ring is open to the peer now, without a message to it. 0 or -errno. */
int vb_bind(struct sl_verbs *v);
/*
 * Rings, registered, receive slots posted; fills in own addresses in keys[0]. The queue pair knows
 * the peer's by now, and with it the way. 0 or -errno.
 */
int vb_open_rings(struct sl_verbs *v, const struct vb_geometry *g);
/* From now on posts may read from there; if the device cannot, they go on being copied. */
void vb_borrow_from(struct sl_verbs *v, void *mem, size_t len);
/* The queue pair is ready to send: what the connection manager leaves to its user. */
int vb_connected(struct sl_verbs *v);
int vb_send_keys(struct sl_verbs *v);
/* The peer's keys have arrived: 1, 0 not yet, -errno. */
int vb_keys_arrived(struct sl_verbs *v);
/* describe.c */
/* Of a queue pair that knows its peer. 0, -EIO; -EINVAL: it does not. */
int vb_way_look(struct vb_way_facts *f, const struct rdma_cm_id *id, struct ibv_qp *qp);
void vb_describe(struct sl_verbs *v, const char *what);
int sl_verbs_probe(const char *address, const struct sl_rpc_rdma *way, char *text, size_t len);
void sl_verbs_preload(void);

/* close.c */
/*
 * Before anything is opened, in each process: a thread that closes, and hears devices. 0 or -errno.
 */
int vb_closer_start(void);
/* A thread of ours works: between these two nobody forks. */
void vb_work_begin(void);
void vb_work_end(void);
void vb_free(struct sl_verbs *v); /* at once */
/*
 * The thread looks at what homes need: to be called once a connection is there, which it would only
 * hold up before.
 */
void vb_closer_fill(void);
/* It looks again, after a moment, whether a home's slots run short (vb_homes_watch). */
void vb_closer_watch(void);
/* Windows are to be looked at (vb_homes_share). */
void vb_closer_share(void);
void vb_close(struct sl_transport *t);
void vb_halt(struct sl_transport *t);

/* send.c */
int vb_post(struct sl_transport *t, const struct sl_rpc_header *header, const struct sl_span *spans,
	    unsigned span_cnt, uint64_t cookie);
void vb_flush(struct sl_transport *t);
uint32_t vb_window(const struct sl_transport *t);
void vb_progress(struct sl_transport *t);
unsigned vb_sent(struct sl_transport *t, uint64_t *cookies, unsigned max);
/* Messages up to `upto` need nothing of ours any more. */
void vb_complete(struct sl_verbs *v, uint32_t upto);

/* doorbell.c: 0 or -errno. */
int vb_post_chain(struct ibv_qp *qp, struct ibv_send_wr *first);

/* The last message, behind which nothing comes, is empty. */
static inline bool vb_is_bye(const struct vb_arrival *a)
{
	return a->how == VB_BY_SEND && !a->len;
}

/* receive.c */
/* Of a channel without a home. */
int vb_post_receives(struct sl_verbs *v, uint32_t from, uint32_t to);
/* Whoever has the connection takes what has come for it; an owner whose desk does so calls nothing. */
void vb_pull(struct sl_verbs *v);
/* The slot of a receive that nobody will look at. */
void vb_give_back(struct sl_verbs *v, const struct vb_arrival *a);
/* Released messages count as consumed. */
void vb_consume(struct sl_verbs *v);
/* Their slots go back to the receive queue. */
void vb_put_back(struct sl_verbs *v);
int vb_poll(struct sl_transport *t, struct sl_message *msgs, unsigned max);
void vb_release(struct sl_transport *t, const struct sl_message *m);

/* window.c */
/* The least of a home's slots, or all of its own. */
void vb_window_begin(struct sl_verbs *v, uint32_t slots);
/* What a peer wants, of whom so many messages came since the last look, and who said that it needs more. */
uint32_t vb_window_wants(uint32_t window, uint32_t most, uint32_t came, bool spent);
/* And what it needs, of whom so many came in a longer time. */
uint32_t vb_window_needs(uint32_t window, uint32_t came);
/* It says that its window is used up. */
void vb_window_spent(struct sl_verbs *v);
/* It was told to keep to less long ago, and does not. */
bool vb_window_deaf(const struct sl_verbs *v);
/* A CREDIT of the peer's, which counts as taken. 0 or -EPROTO. */
int vb_window_heard(struct sl_verbs *v, const struct sl_rpc_header *credit);
/* Messages of this kind that may be posted now. */
uint32_t vb_window_room(const struct sl_verbs *v, enum sl_credit_kind kind);
/* Whether a CREDIT is due; then, and with each, the peer is told of its window. */
bool vb_window_due(struct sl_verbs *v);
void vb_window_tell(struct sl_verbs *v);

/* event.c */
/* Devices' descriptors go into that set, their contexts as its data. 0 or -errno. */
int vb_async_open(int epoll_fd);
/* And leashes'. */
int vb_async_watch(struct vb_leash *l);
void vb_async_unwatch(const struct vb_leash *l);
/* And the device's: what it tells is read from now on. 0 or -errno. */
int vb_async_device(struct ibv_context *device);
/* That thread makes memory for the pairs that want it (ud/pair.h). 0 or -errno. */
int vb_async_grow(void);
/* What such a descriptor, by its data, has to tell. */
void vb_async_take(uint64_t what);
/* Puts the descriptors into the epoll set; from now on asynchronous events find v. */
int vb_events_open(struct sl_verbs *v);
void vb_events_close(struct sl_verbs *v);
/* Members of ud_verbs_device (rpc/ud/device.h). */
struct ud_port *vb_port_watch(const struct ud_local *l, int *rc);
void vb_port_unwatch(struct ud_port *p);
/* All that go by it are gone. */
void vb_events_end(const struct vb_leash *l);
/* The one that the connection manager has made is; the others are to ask after their peer. */
void vb_events_doubt(const struct vb_leash *l);
/* Of one in doubt: an empty WRITE is answered by the peer's device, whatever its process does. */
void vb_look_after(struct sl_verbs *v);
bool vb_arm(struct sl_transport *t, bool want_room);
void vb_disarm(struct sl_transport *t);
int vb_check(struct sl_transport *t);
int vb_attach(struct sl_transport *t, const void *owner);
void vb_detach(struct sl_verbs *v);
/* Whoever sleeps on its descriptor is woken. */
void vb_wake_by_fd(const struct sl_verbs *v);

extern const struct sl_transport_ops sl_verbs_ops;

/* listen.c, dial.c */
/* "1.2.3.4:5" or "[::1]:5". 0 or -EINVAL. */
int vb_address(const char *text, struct sockaddr_storage *sa);
struct sl_rpc_listener *sl_verbs_listen(const struct sl_rpc_listen_options *opt,
					struct sl_err *err);
void sl_verbs_settle(void);
struct sl_transport *sl_verbs_dial(const struct sl_rpc_dial_options *opt, const char *address,
				   struct sl_err *err);

#endif
