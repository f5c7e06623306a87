/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RC transport: one reliable queue pair per channel. Connections of one worker or backend share an
 * interface (rc_iface.h).
 *
 *   memory:  tx slots | tx bulk (staging) | rx bulk
 *            only rx bulk is remotely writable, and by the peer's queue pair only
 *
 *   small:   gathered into tx slot n, SEND -> receive slot of the peer; few bytes: compact.h
 *   large:   gathered into tx bulk, WRITE  -> same offset of the peer's rx bulk. The last WRITE
 *            has the length as immediate data, which takes a receive slot
 *
 * Zero copy: a WRITE reads long spans in the owner's memory (the UMEM) in place. `sent` reports
 * them when our device has completed the WRITE.
 *
 * flush() posts the chain with one doorbell. The next message out reports released messages as
 * consumed. Up to SRQ_CREDITS_EARLY of their slots, which the SRQ has to spare, are reposted after
 * that doorbell; others before. So a peer within its window never meets an empty receive queue. A
 * peer beyond it is detected by the count, or by its full FIFO (rx_cq.h).
 *
 * Set-up: see wireup.h. A listener makes objects only after the client's proof.
 *
 * Completion errors and device events set `gone`; poll() reports it last.
 */
#ifndef SL_RPC_RDMA_RC_CONN_H
#define SL_RPC_RDMA_RC_CONN_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <sys/types.h>
#include "base/err.h"
#include "base/list.h"
#include "rpc/transport.h"
#include "rpc/rdma/rc/qp_pool.h"
#include "rpc/rdma/rc/rc_iface.h"
#include "rpc/rdma/info.h"
#include "rpc/rdma/wireup.h"
#include "rpc/rdma/doorbell.h"

#define RDMA_PSN_MASK 0xffffffu

enum {
	RC_CHAIN_MAX = 64, /* per doorbell */
	RC_SGES_MAX = 256,
	RC_WRITES_MAX = 8,  /* per large message */
	RC_SGE_MAX = 16,    /* per WRITE */
	RC_ZCOPY_MIN = 512, /* shorter spans are copied */
	RC_SIGNAL_MAX = 64, /* messages without a signaled one */
	RC_INLINE_WANT = SL_RPC_COMPACT_MAX,
	RC_BODY_MAX = SL_RPC_SLOT_SIZE - sizeof(struct sl_rpc_header),
	RC_MTU_MIN = 256,
	RC_BEYOND_WINDOW = 2, /* proof and BYE */
};

/*
 * wr_id of a message's last work request: bits 0-31 count messages, bits 32-62 work requests. Bit
 * 63: not counted.
 */
#define RC_WR_CNT_MASK UINT32_C(0x7fffffff)
#define RC_WR_ACK      (UINT64_C(1) << 63)
#define RC_WR_LAST     (RC_WR_ACK | 1)
#define RC_WR_BYE      (RC_WR_ACK | 2)
#define RC_WR_BIND     (RC_WR_ACK | 3)

struct rc_posted {
	uint64_t bulk_end;
	uint32_t body_len;
	uint32_t consumed; /* reported by this message */
};

/* Spans are read until our device has completed message `seq`. */
struct rc_zcopy_op {
	uint64_t cookie;
	uint32_t seq;
};

struct rc_ring_sizes {
	uint32_t slots, bulk_len;
};

/* The peer's queue pair and ring, as CREQ and CREP say. */
struct rc_qp_end {
	uint32_t qpn, psn, rkey;
	uint64_t bulk;
};

enum rc_bye { RC_BYE_NONE, RC_BYE_SENT, RC_BYE_DONE };

struct rc_path {
	struct rdma_local local;
	uint8_t gid[16]; /* the peer's */
	uint8_t tos, sl;
};

struct rc_conn {
	struct sl_transport base; /* fd: epoll over CQ events and `wake`, until attached to rx_cq */
	int wake;                 /* eventfd, as long as base.fd */
	_Atomic bool gone;
	_Atomic bool port_down; /* a link may migrate what has not left */
	_Atomic bool broken;    /* queue pair in error: close() waits for nothing */
	int error;
	int lost;
	uint32_t mask, slot_mask; /* index masks of messages; of rx_slot */
	uint8_t *tx_slots, *tx_bulk;
	uint64_t peer_bulk;
	uint32_t peer_rkey;
	uint32_t wr_sent, wr_done;
	uint32_t signaled;
	uint32_t unsignaled, unsignaled_max; /* messages since the last signaled one */
	uint32_t unsignaled_bytes;
	bool unsignaled_zcopy;
	uint32_t reaped;     /* by the device; credits.done may be ahead */
	uint32_t zcopy_upto; /* last message that reads `mem`; not before `reaped` */
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
	uint8_t *rx_bulk;
	uint32_t rx_next, lent;
	uint32_t released;
	uint32_t reposted;
	uint64_t rx_bulk_head;
	uint64_t *rx_bulk_end;
	uint32_t *rx_slot; /* SRQ slots of the messages of two windows */
	struct rc_rx_fifo rx_fifo;
	/* used by rx_window.c */
	uint32_t window;
	uint32_t advertised;
	_Atomic uint32_t target_window;
	_Atomic uint32_t enforced;
	_Atomic bool spent; /* the peer has set SPENT */
	uint32_t peer_read;
	/* service thread: messages at its last check, last idle check */
	uint32_t demand, measured_in, measured_in_idle;
	bool shrinking;                /* the smaller window is unconfirmed */
	uint32_t shrink_rx, shrink_tx; /* received and sent messages then */
	uint32_t tx_over;
	/* the peer needs a CREDIT that confirms its smaller window */
	bool credit_due;
	uint32_t credit_due_at; /* consumed messages */
	_Atomic bool tx_armed;
	_Atomic bool notified;
	_Atomic bool flooded; /* blocked: exceeded its window */
	bool is_inbound;      /* accepted by a listener, from path.gid */
	bool removing;        /* protected by poll_lock */
	struct rc_path path;
	struct rdma_path_info path_info;
	uint32_t peer_number; /* the peer's number of the connection */
	pid_t pid;            /* process that opened it */
	struct ibv_context *device;
	struct rc_iface *iface;
	struct rc_rx_cq *rx_cq;
	struct rc_conn *next;
	uint32_t qpn;
	bool attached; /* protected by the lock of rc_events.c and by poll_lock */
	struct mr_buf *ring_buf;
	struct rc_qp qp;
	struct ibv_mr *ring_mr, *mem_mr; /* owned by the interface */
	uint32_t rkey;                   /* of our ring */
	uint8_t ack[SL_PSK_MAC_LEN];     /* the peer's first message */
	uint32_t bulk_len;               /* requested */
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

/* Converts a transport of rc_transport_ops. */
static inline struct rc_conn *rc_conn_of(struct sl_transport *t)
{
	return (struct rc_conn *)t;
}

/* Returns true for powers of two within the limits. */
bool rc_ring_sizes_ok(const struct rc_ring_sizes *g);
/* Returns the bytes that the rings need. */
size_t rc_rings_len(const struct rc_ring_sizes *g);

/* Set-up, by one thread. After an error, rc_conn_free() frees whatever exists. */

/* Returns NULL without memory, descriptors or service thread. */
struct rc_conn *rc_conn_new(void);
/* Creates the queue pair and allocates rings of these sizes. Returns 0 or -errno. */
int rc_conn_open(struct rc_conn *conn, const struct rc_path *path, unsigned group,
		 const struct rc_ring_sizes *g);
/* Registers the rings of rc_conn_open(); blocks. Returns 0 or -errno. */
int rc_conn_register_rings(struct rc_conn *conn);
/* Connects the queue pair to the peer's end `a`. `mtu` is in bytes. Returns 0 or -errno. */
int rc_conn_to_rts(struct rc_conn *conn, const struct rc_qp_end *a, uint32_t own_psn, uint32_t mtu);
/*
 * Lets the peer write to the ring. The rings are open. Polls for at most 100 ms. Returns 0 or -EIO.
 */
int rc_conn_bind_mw(struct rc_conn *conn);
/*
 * Registers the rings and cuts them to the granted sizes. The queue pair is connected. Blocks.
 * Returns 0 or -errno.
 */
int rc_conn_open_rings(struct rc_conn *conn, const struct rc_ring_sizes *g);
/* Registers memory, so that posts read it in place; else they copy. The rings are open. */
void rc_conn_set_zcopy_mem(struct rc_conn *conn, void *mem, size_t len);
/* Binds the window and sends the first message, which proves the CREP. Returns 0 or -EIO. */
int rc_conn_send_ack(struct rc_conn *conn, const uint8_t proof[SL_PSK_MAC_LEN]);
/* Returns 1 if the peer's first message is in `ack`, 0 if not yet, or -errno. */
int rc_conn_poll_ack(struct rc_conn *conn);
/* Sets the text for status, ending with `what`. The rings are open. */
void rc_conn_set_info(struct rc_conn *conn, const char *what);

/* Frees what exists. The queue pair is unused or quiesced. */
void rc_conn_free(struct rc_conn *conn);
/* Lets the service thread send the rest, then free the connection. */
void rc_conn_close(struct sl_transport *t);
/* Stops the device's reading of lent bytes: breaks the connection if some are still lent. */
void rc_conn_halt(struct sl_transport *t);
/* Chains a message. Returns 0, -EAGAIN (no room, port down) or the connection's error. */
int rc_post(struct sl_transport *t, const struct sl_rpc_header *header, const struct sl_span *spans,
	    unsigned span_cnt, uint64_t cookie);
/* Rings the doorbell, posts a due CREDIT, and reposts receive slots. */
void rc_flush(struct sl_transport *t);
/* Returns the longest body that may be posted now; 0: none. */
uint32_t rc_tx_window(const struct sl_transport *t);
/* Polls the send CQ, and frees the room of completed messages. */
void rc_progress(struct sl_transport *t);
/* Returns cookies of zero-copy messages that the device has read. */
unsigned rc_sent(struct sl_transport *t, uint64_t *cookies, unsigned max);
/* Frees the room of messages before `upto`. */
void rc_complete_tx(struct rc_conn *conn, uint32_t upto);

/* Returns true for an empty message: the peer closes. */
static inline bool rc_is_bye(const struct rc_rx_comp *a)
{
	return a->op == RC_RX_SEND && !a->len;
}

/* Returns the slot of message `seq`. */
uint8_t *rc_rx_slot_at(const struct rc_conn *conn, uint32_t seq);
/* Reposts the slot of a completion that is no message. */
void rc_repost_slot(struct rc_conn *conn, const struct rc_rx_comp *a);
/* Counts released messages as consumed. Reposts first if over SRQ_CREDITS_EARLY slots wait. */
void rc_consume(struct rc_conn *conn);
/* Reposts slots of released messages. An error sets `broken`. */
void rc_repost(struct rc_conn *conn);

/* Fills the FIFO from the receive CQ. Not needed while attached. */
void rc_poll_rx(struct rc_conn *conn);
/* Returns up to `max` messages, lent until rc_release(), or -errno. */
int rc_poll(struct sl_transport *t, struct sl_message *msgs, unsigned max);
/* Gives back the slot of a message, in order. */
void rc_release(struct sl_transport *t, const struct sl_message *m);

/* Starts with the smallest window. */
void rx_window_init(struct rc_conn *conn);
/* Requests a larger window if the peer has used all. */
void rx_window_spent(struct rc_conn *conn);
/* Returns true if a smaller window is long unconfirmed. */
bool rx_window_overdue(const struct rc_conn *conn);
/* Takes the windows of a CREDIT. Returns 0 or -EPROTO. */
int rx_window_handle_credit(struct rc_conn *conn, const struct sl_rpc_header *credit);
/*
 * Returns how many messages of `kind` may be sent; CREDIT by the larger window while ours shrinks.
 */
uint32_t rx_window_room(const struct rc_conn *conn, enum sl_credit_kind kind);
/* Returns true if a CREDIT must be posted. */
bool rx_window_credit_due(struct rc_conn *conn);
/* Returns the CREDIT that advertises target_window. */
struct sl_rpc_header rx_window_credit(const struct rc_conn *conn);
/* Called when a CREDIT with `window` was posted. A smaller one counts once confirmed. */
void rx_window_advertised(struct rc_conn *conn, uint32_t window);

/* Watches completions and the device's events. Returns 0 or -errno. Any thread, also the next 3. */
int rc_conn_events_open(struct rc_conn *conn);
/* Ends the subscription, if there is one. */
void rc_conn_events_close(struct rc_conn *conn);
/* Returns true if the peer of that epoch and GID has that connection here. */
bool rc_conns_has(uint64_t epoch, const uint8_t gid[16], uint32_t number);
/* Enters event mode (sl_transport_ops). False: there is work now. */
bool rc_arm(struct sl_transport *t, bool want_room);
/* Does nothing: late events are harmless. */
void rc_disarm(struct sl_transport *t);
/* Handles events. Returns 0, or -ENOTCONN: ended. */
int rc_check(struct sl_transport *t);
/* Lets `owner` poll the receive CQ for the connection, if it may. Returns 0. */
int rc_attach(struct sl_transport *t, const void *owner);
/* Ends the polling by the owner. */
void rc_detach(struct rc_conn *conn);

#define RC_UNSUPPORTED_TEXT                                                                        \
	"the RDMA device has no shared receive queues or no type-2 memory windows: use "           \
	"rdma+ud://"

/* Opens base.fd and `wake`. Returns 0 or -errno. */
int rc_wake_open(struct rc_conn *conn);
/* Closes both, if open. */
void rc_wake_close(struct rc_conn *conn);
/* Makes base.fd readable, if open. */
void rc_wake_fd(const struct rc_conn *conn);
/* Ends the wake-up; returns false if `fd` is another descriptor. */
bool rc_wake_ack(const struct rc_conn *conn, int fd);

extern const struct sl_transport_ops rc_transport_ops;

/* Listens at opt->address. NULL: see err. */
struct sl_rpc_listener *sl_rc_listen(const struct sl_rpc_listen_options *opt, struct sl_err *err);
/* Connects by wireup datagrams; blocks. NULL: see err. */
struct sl_transport *sl_rc_dial(const struct sl_rpc_dial_options *opt, const char *address,
				struct sl_err *err);
/* Asks the peer about a connection; blocks. */
enum sl_rpc_probe_result sl_rc_probe_peer(const struct sl_rpc_dial_options *opt,
					  const char *address, uint32_t number);

#endif
