/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verbs transport: one RC queue pair per channel. What it shares with others of its worker or
 * backend, above all the receive slots, is its iface's (rc_iface.h); a device that cannot share gives
 * each channel a protection domain and receive slots of its own.
 *
 *   memory:  tx slots | tx bulk (staging) | (rx slots) | rx bulk   only rx bulk is remotely
 *            writable, and by the peer's queue pair only
 *
 *   small:   gather into tx slot n, SEND              -> a receive slot of the peer; a single request
 *            or reply of a few bytes in the short form (compact.h)
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
 * where nobody waits for them: a shared queue has SRQ_CREDITS_EARLY slots for each member to spare.
 * More than those, and all of a queue of its own, go back first. So a peer that keeps to its window
 * never meets an empty receive queue. One that does not is found out by the count, or by its rx_fifo
 * that is full (rx_cq.h), and its slots are taken back.
 *
 * Set-up (auth.h): connection data carry nonces and the acceptor's proof of the shared key; the
 * first SEND of each side, both with a proof, carry the rkeys. Rings are made only then.
 *
 * Completion errors, asynchronous events and disconnects set `gone`; poll() reports it behind the
 * last message.
 */
#ifndef SL_RPC_RDMA_RC_CONN_H
#define SL_RPC_RDMA_RC_CONN_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include "base/err.h"
#include "base/list.h"
#include "rpc/transport.h"
#include "rpc/rdma/rc/qp_pool.h"
#include "rpc/rdma/rc/rc_iface.h"
#include "rpc/rdma/rc/peer.h"
#include "rpc/rdma/auth.h"
#include "rpc/rdma/path.h"

enum {
	RC_CHAIN_MAX = 64,  /* work requests behind one doorbell */
	RC_SGES_MAX = 256,  /* and sges of memory in them */
	RC_WRITES_MAX = 8,  /* of one message; no other takes more than one */
	RC_SGE_MAX = 16,    /* sges of one WRITE */
	RC_ZCOPY_MIN = 512, /* shorter spans are copied */
	RC_SIGNAL_MAX = 64, /* messages without a signaled one at the most */
	RC_INLINE_WANT = SL_RPC_COMPACT_MAX,
	RC_BODY_MAX = SL_RPC_SLOT_SIZE - sizeof(struct sl_rpc_header),
	RC_BEYOND_WINDOW = 2, /* messages beside those of a window: keys, and BYE */
};

/*
 * A peer that keeps to its window never finds the receive queue empty; if one does, because a slot
 * was lost or others take more than theirs, it is told to come again after 2.56 ms, and after six
 * times gives up. (The connection manager's own would be 655 ms, and for ever.)
 */
enum { RC_RNR_TIMER = 16, RC_RNR_RETRIES = 6, RC_RETRIES = 6 /* 7 means for ever to soft-RoCE */ };

/*
 * wr_id of a message's last: messages posted with it in the low half, work requests, of which no more than
 * RC_WR_CNT_MASK are ever under way, in the 31 bits above. Those with the highest bit are counted
 * nowhere: the first SEND and receive of each side, the last SEND (rc_conn_halt), and what asks after the peer.
 */
#define RC_WR_CNT_MASK UINT32_C(0x7fffffff)
#define RC_WR_KEYS     (UINT64_C(1) << 63)
#define RC_WR_LAST     (RC_WR_KEYS | 1)
#define RC_WR_BYE      (RC_WR_KEYS | 2)
#define RC_WR_BIND     (RC_WR_KEYS | 3)
#define RC_WR_PROBE    (RC_WR_KEYS | 4)

struct rc_posted {
	uint64_t bulk_end; /* bulk_sent behind this message */
	uint32_t body_len;
	uint32_t consumed; /* by it: consumed */
};

/* A post whose spans are in use until our device has completed message `seq`. */
struct rc_zcopy_op {
	uint64_t cookie;
	uint32_t seq;
};

struct rc_ring_sizes {
	uint32_t slots, bulk_len;
};

/* Whether the peer was told of the end. */
enum rc_bye { RC_BYE_NONE, RC_BYE_SENT, RC_BYE_DONE };

/* Whether the peer lives, after the connection manager has said that it does not. */
enum rc_peer_state { RC_PEER_ALIVE, RC_PEER_SUSPECT, RC_PEER_PROBED };

struct rc_conn {
	struct sl_transport
		base; /* fd: epoll over bells, until it is attached to its iface's rx_cq */
	_Atomic bool gone;
	_Atomic bool port_down; /* nothing is posted: what has not left may still go elsewhere */
	_Atomic bool broken;    /* the queue pair is in error: nothing to wait for at close */
	_Atomic enum rc_peer_state peer_state;
	uint64_t suspect_ns, probed_ns; /* since when it is, and the peer's device owes an answer */
	bool was_down;                  /* the port, when that was last looked after */
	int error;                      /* why, if the peer broke the protocol */
	int lost;                       /* why, if the device did not get through to it */
	uint32_t mask, slot_mask;       /* of tables per message; of rx_slot */
	/* out */
	uint8_t *tx_slots, *tx_bulk;
	uint64_t peer_bulk;
	uint32_t peer_rkey;
	uint32_t wr_sent, wr_done;
	uint32_t signaled;                   /* in flight */
	uint32_t unsignaled, unsignaled_max; /* messages since the last signaled; target_window */
	uint32_t unsignaled_bytes;
	bool unsignaled_zcopy; /* one of these reads the owner's memory */
	uint32_t reaped; /* messages that the device has completed; credits.done may be ahead */
	uint32_t
		zcopy_upto; /* the last message that reads the owner's memory; not before `reaped` */
	uint32_t chain_len;
	struct ibv_send_wr chain[RC_CHAIN_MAX];
	uint32_t sge_cnt;
	struct ibv_sge sges[RC_SGES_MAX]; /* of the chain */
	struct rc_posted *posted;         /* per slot */
	const uint8_t *mem;               /* the owner's, registered; NULL none */
	size_t mem_len;
	uint32_t packet_len;
	struct rc_zcopy_op *zcopy_ops;     /* ring of as many as slots */
	uint32_t zcopy_posted, zcopy_done; /* put in, taken out */
	/* in */
	uint8_t *rx_slots, *rx_bulk;
	uint32_t rx_next, lent;
	uint32_t released; /* messages before it are done with */
	uint32_t reposted; /* and the slots of those before this one are in the queue again */
	uint64_t rx_bulk_head;
	uint64_t *rx_bulk_end; /* per message: rx_bulk_head behind it */
	uint32_t *rx_slot;     /* per message of two windows: its slot, with a iface */
	struct rc_rx_fifo rx_fifo;
	/* rx_window.c */
	uint32_t window;                /* counts in the iface's budget */
	uint32_t advertised;            /* it was told */
	_Atomic uint32_t target_window; /* the peer is to have */
	_Atomic uint32_t enforced;      /* may believe to have */
	_Atomic bool spent;             /* said that it has used up */
	uint32_t peer_read; /* so many messages are consumed, as the peer has read for certain */
	uint32_t demand, measured_in,
		measured_in_idle; /* of who moves it; arrivals, at the last look and a longer one */
	bool shrinking;           /* the peer has yet to say that it keeps to less */
	uint32_t shrink_rx, shrink_tx; /* messages that had come, and gone, when it was told */
	uint32_t tx_over;              /* our own window was larger by that: CREDITs may use it */
	bool credit_due;               /* to the peer: that word */
	uint32_t credit_due_at;        /* once so many messages are consumed */
	bool rx_armed; /* without a iface: a comp_channel was asked for, and has not rung */
	_Atomic bool tx_armed;
	_Atomic bool notified; /* its owner is to look */
	_Atomic bool flooded;  /* the peer has sent more than its window allows, and is shut out */
	bool is_inbound;       /* to a listener of ours, from that host */
	uint8_t host[16];      /* as a GID */
	bool removing;         /* with the rx_cq's `taking`: its queue pair may be gone */
	/* the device */
	struct rc_peer *peer;
	struct ibv_context *device;
	uint8_t port_num;
	struct rc_iface *iface; /* NULL: pd and receive slots are this channel's own */
	struct rc_rx_cq *rx_cq; /* the iface's, while it is there */
	struct rc_conn *next;   /* of those with such a number */
	uint32_t qpn;
	bool attached; /* with async_event.c's lock and the rx_cq's `taking` */
	struct ibv_pd *pd;
	struct mr_buf *ring_buf;                   /* the rings, with a iface */
	struct rc_qp qp;                           /* its window is over rx bulk */
	struct ibv_mr *ring_mr, *bulk_mr, *mem_mr; /* with a iface, the iface's */
	struct ibv_mr *keys_mr;                    /* without */
	struct rc_keys keys[2];                    /* own, the peer's */
	void *map;
	size_t map_len; /* without a iface */
	uint32_t bulk_len;
	struct sl_list node; /* of async_event.c: who hears of a failing device */
	bool listed;
	/* service_thread.c */
	struct sl_list closing;
	bool quiescing, ready; /* ready: the queue pair can take messages */
	bool bound;            /* its window is */
	enum rc_bye bye;
	bool bye_received;
	_Atomic bool last_receive; /* the device says that it takes no slot any more */
	uint64_t until_ns;
};

static inline struct rc_conn *rc_conn_of(struct sl_transport *t)
{
	return (struct rc_conn *)t;
}

bool rc_ring_sizes_ok(const struct rc_ring_sizes *g);
/* Of a connection's own, where receive slots are shared. */
size_t rc_rings_len(const struct rc_ring_sizes *g);

/* rc_conn.c: set-up. 0 or -errno; rc_conn_free() frees whatever there is. */
struct rc_conn *rc_conn_new(void);
/* Takes id and cm on success; queue pair, and a receive posted for the peer's keys. */
int rc_conn_open(struct rc_conn *conn, struct rdma_cm_id *id, struct rdma_event_channel *cm,
		 unsigned group, struct rc_ring_sizes *g);
/*
 * The same of a connection to a peer that is met already: takes the part in its peer, also if it
 * fails; rc_conn_close() frees what there is. Its ring lies where it will stay.
 */
int rc_conn_open_to_peer(struct rc_conn *conn, struct rc_peer *peer, unsigned group,
			 struct rc_ring_sizes *g);
/* Its rings can be used; rc_conn_open_rings() does that too. 0 or -errno. */
int rc_conn_register_rings(struct rc_conn *conn);
/* Where that is. */
uint8_t *rc_conn_rx_bulk(const struct rc_conn *conn, uint32_t bulk_len);
/* Such a one's queue pair is ready, with that one of the peer's. 0 or -errno. */
int rc_conn_to_rts(struct rc_conn *conn, uint32_t qpn, uint32_t psn, uint32_t own_psn);
/* Its ring is open to the peer now, without a message to it. 0 or -errno. */
int rc_conn_bind_mw(struct rc_conn *conn);
/*
 * Rings, registered, receive slots posted; fills in own addresses in keys[0]. The queue pair knows
 * the peer's by now, and with it the way. 0 or -errno.
 */
int rc_conn_open_rings(struct rc_conn *conn, const struct rc_ring_sizes *g);
/* From now on posts may read from there; if the device cannot, they go on being copied. */
void rc_conn_set_zcopy_mem(struct rc_conn *conn, void *mem, size_t len);
/* The queue pair is ready to send: what the connection manager leaves to its user. */
int rc_conn_established(struct rc_conn *conn);
int rc_conn_send_keys(struct rc_conn *conn);
/* The peer's keys have arrived: 1, 0 not yet, -errno. */
int rc_conn_poll_keys(struct rc_conn *conn);
/* info.c */
/* Of a queue pair that knows its peer. 0, -EIO; -EINVAL: it does not. */
int rdma_path_query(struct rdma_path_info *f, const struct rdma_cm_id *id, struct ibv_qp *qp);
void rc_conn_set_info(struct rc_conn *conn, const char *what);
int sl_rdma_route_info(const char *address, const struct sl_rpc_rdma *way, char *text, size_t len);
void sl_rdma_preload(void);

/* service_thread.c */
/*
 * Before anything is opened, in each process: a thread that closes, and hears devices. 0 or -errno.
 */
int service_thread_start(void);
/* A thread of ours works: between these two nobody forks. */
void service_work_begin(void);
void service_work_end(void);
void rc_conn_free(struct rc_conn *conn); /* at once */
/*
 * The thread looks at what homes need: to be called once a connection is there, which it would only
 * hold up before.
 */
void service_thread_refill(void);
/* It looks again, after a moment, whether a iface's slots run short (rc_ifaces_arm_srq_limit). */
void service_thread_arm_srq_limit(void);
/* Windows are to be looked at (rc_ifaces_rebalance). */
void service_thread_rebalance(void);
void rc_conn_close(struct sl_transport *t);
void rc_conn_halt(struct sl_transport *t);

/* rc_tx.c */
int rc_post(struct sl_transport *t, const struct sl_rpc_header *header, const struct sl_span *spans,
	    unsigned span_cnt, uint64_t cookie);
void rc_flush(struct sl_transport *t);
uint32_t rc_tx_window(const struct sl_transport *t);
void rc_progress(struct sl_transport *t);
unsigned rc_sent(struct sl_transport *t, uint64_t *cookies, unsigned max);
/* Messages up to `upto` need nothing of ours any more. */
void rc_complete_tx(struct rc_conn *conn, uint32_t upto);

/* doorbell.c: 0 or -errno. */
int rdma_post_chain(struct ibv_qp *qp, struct ibv_send_wr *first);

/* The last message, behind which nothing comes, is empty. */
static inline bool rc_is_bye(const struct rc_rx_comp *a)
{
	return a->op == RC_RX_SEND && !a->len;
}

/* rc_rx.c */
/* Of a channel without a iface. */
int rc_post_receives(struct rc_conn *conn, uint32_t from, uint32_t to);
/* Whoever has the connection takes what has come for it; an owner whose rx_cq does so calls nothing. */
void rc_poll_rx(struct rc_conn *conn);
/* The slot of a receive that nobody will look at. */
void rc_repost_slot(struct rc_conn *conn, const struct rc_rx_comp *a);
/* Released messages count as consumed. */
void rc_consume(struct rc_conn *conn);
/* Their slots go back to the receive queue. */
void rc_repost(struct rc_conn *conn);
int rc_poll(struct sl_transport *t, struct sl_message *msgs, unsigned max);
void rc_release(struct sl_transport *t, const struct sl_message *m);

/* rx_window.c */
/* The least of a iface's slots, or all of its own. */
void rx_window_init(struct rc_conn *conn, uint32_t slots);
/* What a peer wants, of whom so many messages came since the last look, and who said that it needs more. */
uint32_t rx_window_demand(uint32_t window, uint32_t most, uint32_t came, bool spent);
/* And what it needs, of whom so many came in a longer time. */
uint32_t rx_window_idle_demand(uint32_t window, uint32_t came);
/* It says that its window is used up. */
void rx_window_spent(struct rc_conn *conn);
/* It was told to keep to less long ago, and does not. */
bool rx_window_overdue(const struct rc_conn *conn);
/* A CREDIT of the peer's, which counts as taken. 0 or -EPROTO. */
int rx_window_handle_credit(struct rc_conn *conn, const struct sl_rpc_header *credit);
/* Messages of this kind that may be posted now. */
uint32_t rx_window_room(const struct rc_conn *conn, enum sl_credit_kind kind);
/* Whether a CREDIT is due; then, and with each, the peer is told of its window. */
bool rx_window_credit_due(struct rc_conn *conn);
void rx_window_advertise(struct rc_conn *conn);

/* async_event.c */
/* Devices' descriptors go into that set, their contexts as its data. 0 or -errno. */
int async_event_init(int epoll_fd);
/* And leashes'. */
int async_event_add_peer(struct rc_peer *l);
void async_event_remove_peer(const struct rc_peer *l);
/* And the device's: what it tells is read from now on. 0 or -errno. */
int async_event_add_device(struct ibv_context *device);
/* That thread makes memory for the pairs that want it (rdma/ud/ud_qp.h). 0 or -errno. */
int async_event_request_growth(void);
/* What such a descriptor, by its data, has to tell. */
void async_event_handle(uint64_t what);
/* Puts the descriptors into the epoll set; from now on asynchronous events find v. */
int rc_conn_events_open(struct rc_conn *conn);
void rc_conn_events_close(struct rc_conn *conn);
/* Members of rdma_device_ibv (rpc/rdma/device.h). */
struct rdma_port *rdma_port_watch(const struct rdma_local *l, int *rc);
void rdma_port_unwatch(struct rdma_port *p);
/* All that go by it are gone. */
void rc_conns_fail_of_peer(const struct rc_peer *l);
/* The one that the connection manager has made is; the others are to ask after their peer. */
void rc_conns_suspect_peer(const struct rc_peer *l);
/* Of one in peer_state: an empty WRITE is answered by the peer's device, whatever its process does. */
void rc_probe_peer(struct rc_conn *conn);
bool rc_arm(struct sl_transport *t, bool want_room);
void rc_disarm(struct sl_transport *t);
int rc_check(struct sl_transport *t);
int rc_attach(struct sl_transport *t, const void *owner);
void rc_detach(struct rc_conn *conn);
/* Whoever sleeps on its descriptor is woken. */
void rc_wake_fd(const struct rc_conn *conn);

extern const struct sl_transport_ops rc_transport_ops;

/* rc_accept.c, rc_connect.c */
/* "1.2.3.4:5" or "[::1]:5". 0 or -EINVAL. */
int rdma_parse_addr(const char *text, struct sockaddr_storage *sa);
struct sl_rpc_listener *sl_rc_listen(const struct sl_rpc_listen_options *opt, struct sl_err *err);
void sl_rdma_wait_closed(void);
struct sl_transport *sl_rc_dial(const struct sl_rpc_dial_options *opt, const char *address,
				struct sl_err *err);

#endif
