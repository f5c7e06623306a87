/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RC transport: one reliable queue pair per channel. Connections of one worker or backend share an
 * interface (rc_iface.h). On a device that cannot share, each has its own protection domain and
 * receive slots.
 *
 *   memory:  tx slots | tx bulk (staging) | (rx slots) | rx bulk
 *            only rx bulk is remotely writable, and by the peer's queue pair only
 *
 *   small:   gathered into tx slot n, SEND -> receive slot of the peer; few bytes: compact.h
 *   large:   gathered into tx bulk, WRITE  -> same offset of the peer's rx bulk. The last WRITE
 *            has the length as immediate data, which takes a receive slot
 *
 * Zero copy: if the owner's memory (the UMEM) is registered, a WRITE reads long spans in place.
 * `sent` reports them when our device has completed the WRITE. A peer's claim to have consumed a
 * message frees only room in our rings. A false claim damages only that peer's messages.
 *
 * flush() posts all chained work requests with one doorbell. The next message out reports released
 * messages as consumed. Their slots are reposted after that doorbell: the SRQ has SRQ_CREDITS_EARLY
 * spare slots for each connection. Further slots, and slots of an own receive queue, are reposted
 * before. So a peer within its window never meets an empty receive queue. A peer beyond its window
 * is detected by the count, or by its full FIFO (rx_cq.h).
 *
 * Set-up (auth.h): CM private data carry nonces and the acceptor's proof. The first SEND of each
 * end, with a proof, carries the rkey. Rings are made only then.
 *
 * Completion errors, device events and disconnects set `gone`; poll() reports it last.
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
#include "rpc/rdma/doorbell.h"
#include "rpc/rdma/path.h"

enum {
	RC_CHAIN_MAX = 64, /* work requests of one doorbell */
	RC_SGES_MAX = 256,
	RC_WRITES_MAX = 8,  /* WRITEs of one large message */
	RC_SGE_MAX = 16,    /* SGEs of one WRITE */
	RC_ZCOPY_MIN = 512, /* shorter spans are copied */
	RC_SIGNAL_MAX = 64, /* messages without a signaled one */
	RC_INLINE_WANT = SL_RPC_COMPACT_MAX,
	RC_BODY_MAX = SL_RPC_SLOT_SIZE - sizeof(struct sl_rpc_header),
	RC_BEYOND_WINDOW = 2, /* messages beyond the window: keys and BYE */
};

/*
 * wr_id of a message's last work request: number of posted messages in bits 0-31, of work requests
 * in bits 32-62. Bit 63 marks work requests that are not counted.
 */
#define RC_WR_CNT_MASK UINT32_C(0x7fffffff)
#define RC_WR_KEYS     (UINT64_C(1) << 63)
#define RC_WR_LAST     (RC_WR_KEYS | 1)
#define RC_WR_BYE      (RC_WR_KEYS | 2)
#define RC_WR_BIND     (RC_WR_KEYS | 3)
#define RC_WR_PROBE    (RC_WR_KEYS | 4)

struct rc_posted {
	uint64_t bulk_end;
	uint32_t body_len;
	uint32_t consumed; /* `consumed` that this message reported */
};

/* A post whose spans are read until our device has completed message `seq`. */
struct rc_zcopy_op {
	uint64_t cookie;
	uint32_t seq;
};

struct rc_ring_sizes {
	uint32_t slots, bulk_len;
};

enum rc_bye { RC_BYE_NONE, RC_BYE_SENT, RC_BYE_DONE };

/* SUSPECT: after a CM disconnect (peer.h), until a probe is answered. */
enum rc_peer_state { RC_PEER_ALIVE, RC_PEER_SUSPECT, RC_PEER_PROBED };

struct rc_conn {
	struct sl_transport base; /* fd: epoll over CQ events, until attached to rx_cq */
	_Atomic bool gone;
	_Atomic bool port_down; /* a link may migrate what has not left */
	_Atomic bool broken;    /* queue pair in error: close() waits for nothing */
	_Atomic enum rc_peer_state peer_state;
	/* when suspicion began; when the pending probe was posted */
	uint64_t suspect_ns, probed_ns;
	bool was_down;
	int error;                /* the peer broke the protocol */
	int lost;                 /* the device could not deliver (-ENOBUFS) */
	uint32_t mask, slot_mask; /* index masks of messages; of rx_slot */
	uint8_t *tx_slots, *tx_bulk;
	uint64_t peer_bulk;
	uint32_t peer_rkey;
	uint32_t wr_sent, wr_done;
	uint32_t signaled;                   /* completions to come */
	uint32_t unsignaled, unsignaled_max; /* messages since the last signaled one */
	uint32_t unsignaled_bytes;
	bool unsignaled_zcopy;
	uint32_t reaped;     /* completed by the device; credits.done may be ahead */
	uint32_t zcopy_upto; /* last message that reads the owner's memory; not before `reaped` */
	uint32_t chain_len;
	struct ibv_send_wr chain[RC_CHAIN_MAX];
	uint32_t sge_cnt;
	struct ibv_sge sges[RC_SGES_MAX];
	struct rc_posted *posted;
	const uint8_t *mem; /* the owner's, if registered */
	size_t mem_len;
	uint32_t packet_len;
	struct rc_zcopy_op *zcopy_ops;
	uint32_t zcopy_posted, zcopy_done;
	uint8_t *rx_slots, *rx_bulk;
	uint32_t rx_next, lent;
	uint32_t released; /* messages before this one */
	uint32_t reposted; /* slots of earlier messages are reposted */
	uint64_t rx_bulk_head;
	uint64_t *rx_bulk_end; /* per message: rx_bulk_head after it */
	uint32_t *rx_slot;     /* per message of two windows: SRQ slot */
	struct rc_rx_fifo rx_fifo;
	/* used by rx_window.c */
	uint32_t window;
	uint32_t advertised;
	_Atomic uint32_t target_window;
	_Atomic uint32_t enforced;
	_Atomic bool spent; /* the peer has set SPENT */
	uint32_t peer_read; /* messages that the peer knows to be consumed */
	/* service thread: messages received at its last check and last idle check */
	uint32_t demand, measured_in, measured_in_idle;
	bool shrinking;                /* the smaller window is unconfirmed */
	uint32_t shrink_rx, shrink_tx; /* received and sent messages then */
	uint32_t tx_over;
	/* the peer needs a CREDIT that confirms its smaller window */
	bool credit_due;
	uint32_t credit_due_at; /* consumed messages */
	bool rx_armed;          /* without an interface: event of rx_cq requested */
	_Atomic bool tx_armed;
	_Atomic bool notified;
	_Atomic bool flooded; /* blocked: exceeded its window */
	bool is_inbound;      /* accepted by a listener, from `host` */
	uint8_t host[16];
	bool removing; /* protected by poll_lock */
	struct rc_peer *peer;
	struct ibv_context *device;
	uint8_t port_num;
	struct rc_iface *iface; /* NULL: own pd and receive slots */
	struct rc_rx_cq *rx_cq; /* the interface's, while registered there */
	struct rc_conn *next;
	uint32_t qpn;
	bool attached; /* protected by the lock of rc_events.c and by poll_lock */
	struct ibv_pd *pd;
	struct mr_buf *ring_buf;
	struct rc_qp qp;                           /* its memory window covers rx bulk */
	struct ibv_mr *ring_mr, *bulk_mr, *mem_mr; /* owned by the interface, if any */
	struct ibv_mr *keys_mr;                    /* without an interface */
	struct rc_keys keys[2];                    /* ours, the peer's */
	void *map;
	size_t map_len; /* without an interface */
	uint32_t bulk_len;
	struct sl_list node;
	bool listed;
	/* used by rc_close.c */
	struct sl_list closing;
	bool quiescing, ready; /* ready: the queue pair can send */
	bool bound;
	enum rc_bye bye;
	bool bye_received;
	_Atomic bool last_receive; /* LAST_WQE_REACHED */
	uint64_t until_ns;
};

static inline struct rc_conn *rc_conn_of(struct sl_transport *t)
{
	return (struct rc_conn *)t;
}

/* Returns true if both are powers of two within the limits. */
bool rc_ring_sizes_ok(const struct rc_ring_sizes *g);
/* Returns the length of a ring buffer where receive slots are shared. */
size_t rc_rings_len(const struct rc_ring_sizes *g);

/* rc_conn.c: set-up. Functions return 0 or -errno; rc_conn_free() frees whatever exists. */
struct rc_conn *rc_conn_new(void);
/*
 * Creates the queue pair and posts a receive for the peer's keys. Takes `id` and `cm` on success.
 */
int rc_conn_open(struct rc_conn *conn, struct rdma_cm_id *id, struct rdma_event_channel *cm,
		 unsigned group, struct rc_ring_sizes *g);
/*
 * The same for a known peer. Takes the reference to `peer`, also on failure; rc_conn_close() then
 * frees everything.
 */
int rc_conn_open_to_peer(struct rc_conn *conn, struct rc_peer *peer, unsigned group,
			 struct rc_ring_sizes *g);
/* Registers the ring buffer, as rc_conn_open_rings() does. */
int rc_conn_register_rings(struct rc_conn *conn);
uint8_t *rc_conn_rx_bulk(const struct rc_conn *conn, uint32_t bulk_len);
int rc_conn_to_rts(struct rc_conn *conn, uint32_t qpn, uint32_t psn, uint32_t own_psn);
/* Binds the memory window, which lets the peer write to the ring. */
int rc_conn_bind_mw(struct rc_conn *conn);
/*
 * Makes and registers the rings, posts receives, and fills in keys[0]. The queue pair must know the
 * path.
 */
int rc_conn_open_rings(struct rc_conn *conn, const struct rc_ring_sizes *g);
/* Lets posts read from that memory, if the device can register it. */
void rc_conn_set_zcopy_mem(struct rc_conn *conn, void *mem, size_t len);
/* Completes the set-up that the CM leaves to its user. */
int rc_conn_established(struct rc_conn *conn);
/* Binds the memory window and sends keys[0]. */
int rc_conn_send_keys(struct rc_conn *conn);
/* Returns 1 if the peer's keys have arrived, 0 if not yet, or -errno. */
int rc_conn_poll_keys(struct rc_conn *conn);
/* Sets the text for status and logs. */
void rc_conn_set_info(struct rc_conn *conn, const char *what);

/* rc_close.c */
void rc_conn_free(struct rc_conn *conn);
/* Operations of rpc/transport.h. */
void rc_conn_close(struct sl_transport *t);
void rc_conn_halt(struct sl_transport *t);

/* rc_tx.c */
int rc_post(struct sl_transport *t, const struct sl_rpc_header *header, const struct sl_span *spans,
	    unsigned span_cnt, uint64_t cookie);
/* Operations of rpc/transport.h. */
void rc_flush(struct sl_transport *t);
uint32_t rc_tx_window(const struct sl_transport *t);
void rc_progress(struct sl_transport *t);
unsigned rc_sent(struct sl_transport *t, uint64_t *cookies, unsigned max);
/* Probes a suspect peer with an empty WRITE, which its device acknowledges without its process. */
void rc_probe_peer(struct rc_conn *conn);
/* Marks messages before `upto` as completed. */
void rc_complete_tx(struct rc_conn *conn, uint32_t upto);

/* An empty message is the peer's last one. */
static inline bool rc_is_bye(const struct rc_rx_comp *a)
{
	return a->op == RC_RX_SEND && !a->len;
}

/* rx_slots.c */
/* Posts receives of an own queue. */
int rc_post_receives(struct rc_conn *conn, uint32_t from, uint32_t to);
uint8_t *rc_rx_slot_at(const struct rc_conn *conn, uint32_t seq);
void rc_repost_slot(struct rc_conn *conn, const struct rc_rx_comp *a);
/* Counts released messages as consumed. */
void rc_consume(struct rc_conn *conn);
/* Reposts slots of released messages. */
void rc_repost(struct rc_conn *conn);

/* rc_rx.c */
/* Moves completions to the FIFO. Not needed while attached. */
void rc_poll_rx(struct rc_conn *conn);
/* Operations of rpc/transport.h. */
int rc_poll(struct sl_transport *t, struct sl_message *msgs, unsigned max);
void rc_release(struct sl_transport *t, const struct sl_message *m);

/* rx_window.c */
/* Sets the smallest window; without an interface, all slots. */
void rx_window_init(struct rc_conn *conn, uint32_t slots);
void rx_window_spent(struct rc_conn *conn);
/* Returns true if the peer has long not confirmed a smaller window. */
bool rx_window_overdue(const struct rc_conn *conn);
/* Handles a CREDIT. Returns 0 or -EPROTO. */
int rx_window_handle_credit(struct rc_conn *conn, const struct sl_rpc_header *credit);
/* Returns how many messages of this kind may be posted. */
uint32_t rx_window_room(const struct rc_conn *conn, enum sl_credit_kind kind);
bool rx_window_credit_due(struct rc_conn *conn);
/* Returns the CREDIT that advertises target_window. */
struct sl_rpc_header rx_window_credit(const struct rc_conn *conn);
/* Called when it was posted, with its window. */
void rx_window_advertised(struct rc_conn *conn, uint32_t window);

/* rc_events.c */
/* Adds the connection to its epoll set and to the list for device events. */
int rc_conn_events_open(struct rc_conn *conn);
void rc_conn_events_close(struct rc_conn *conn);
void rc_conns_fail_of_peer(const struct rc_peer *l);
/* Ends the CM's connection, and makes the others suspect. */
void rc_conns_suspect_peer(const struct rc_peer *l);
/* Operations of rpc/transport.h. */
bool rc_arm(struct sl_transport *t, bool want_room);
void rc_disarm(struct sl_transport *t);
int rc_check(struct sl_transport *t);
int rc_attach(struct sl_transport *t, const void *owner);
void rc_detach(struct rc_conn *conn);

/* rc_wake.c: wakes connections that are not attached, by a descriptor in their epoll sets. */
/* Must be called first. Returns 0 or -errno. */
int rc_wake_open(void);
/* Wakes the sleeper on the connection's fd. */
void rc_wake_fd(const struct rc_conn *conn);
/* Ends the wake-up if `fd` is that descriptor; returns false for others. */
bool rc_wake_ack(const struct rc_conn *conn, int fd);

extern const struct sl_transport_ops rc_transport_ops;

/* rc_accept.c, rc_connect.c */
/* Members of sl_rc_scheme (rpc/transport.h). */
struct sl_rpc_listener *sl_rc_listen(const struct sl_rpc_listen_options *opt, struct sl_err *err);
struct sl_transport *sl_rc_dial(const struct sl_rpc_dial_options *opt, const char *address,
				struct sl_err *err);

#endif
