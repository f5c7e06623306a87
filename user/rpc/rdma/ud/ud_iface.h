/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UD interface: all virtual connections of one owner, over one UD queue pair. A connection is an
 * ARQ stream (arq.h) to one peer, and memory only.
 *
 *   out: post -> arq -> flush: datagrams with MAC -> qp
 *   in:  poll group: qp -> connection by id, MAC -> arq -> ready -> poll: messages
 *
 * The first authentic datagram sets the peer's QP number; only new data changes it.
 *
 * While the port is down, a connection takes and sends nothing. The peer's silence does not count;
 * the RPC's PINGs decide.
 *
 * Dialing threads make interfaces ahead; a worker's first connection claims one. Otherwise an
 * interface belongs to one thread.
 */
#ifndef SL_RPC_RDMA_UD_IFACE_H
#define SL_RPC_RDMA_UD_IFACE_H

#include "base/siphash.h"
#include "rpc/msg_stream.h"
#include "rpc/poll_group.h"
#include "rpc/transport.h"
#include "rpc/rdma/ud/arq.h"
#include "rpc/rdma/ah_cache.h"
#include "rpc/rdma/ud/ud_mac.h"

enum {
	UD_CONNS = 16384,
	UD_CHUNK_CONNS = 256, /* per chunk of the id table */
	UD_PEERS = 1024,      /* buckets; the hash is keyed: the peer chooses both inputs */
	UD_IFACE_RX = 512,
	UD_IFACE_TX = 256,
	UD_BULK_MAX = 32 << 10,
	UD_SLICE_MIN = 16 << 10,
	UD_SMALL = 8 << 10,   /* bytes that long messages leave to short ones */
	UD_CONTROL = 4 << 10, /* bytes that data leaves to control messages */
	UD_TICK_NS = 1000000,
};
/* Initial value for dql.h. */
#define UD_RATE_BPS   (UINT64_C(10) * 1000 * 1000 * 1000)
#define UD_CONFIRM_NS UINT64_C(10000000000)

struct ud_conn;

struct ud_iface {
	struct sl_poll_group group; /* fd: epoll over qp, port and timer */
	struct ud_qp *qp;
	struct rdma_port *port; /* NULL: not watched */
	bool down;
	struct rdma_local local;
	struct sl_capped_alloc mem;
	uint16_t worker; /* gateway's worker */
	const void *owner;
	unsigned refs;
	struct sl_list node; /* dialing end's interfaces */
	struct sl_list busy; /* connections with a timer */
	uint64_t tick_ns, timer_ns, due_ns;
	int timer_fd;
	bool failed;
	struct ud_conn **conn_chunks[UD_CONNS / UD_CHUNK_CONNS];
	struct sl_sipkey peers_key;
	struct ud_conn *peers[UD_PEERS];
};

struct ud_conn {
	struct sl_transport base;
	struct ud_arq arq;
	struct ud_keys keys;
	struct ud_iface *iface; /* NULL: not attached */
	struct ah_entry *ah_entry;
	struct ud_conn *next_peer;
	uint32_t id, peer_id;
	uint32_t qpn;
	uint16_t worker;
	struct sl_list busy;
	uint64_t created_ns;
	struct sl_msg_stream msgs;
	bool rx_empty;
	int error;
};
_Static_assert(sizeof(struct ud_conn) <= 1504, "README.md says what an idle one costs");

/*
 * Opens queue pair and events. Returns an interface with `refs` 0, or NULL and *rc: -errno.
 * `group`: see device.h.
 */
struct ud_iface *ud_iface_new(const struct rdma_local *l, unsigned group, int *rc);
/* Sets `port`, after ud_iface_new(). Returns 0 or -errno. */
int ud_iface_watch_port(struct ud_iface *iface);
/* Drops a reference. The last frees a listener's interface; others wait for an owner. */
void ud_iface_put(struct ud_iface *iface);
/* Fails the interface and all its connections. */
void ud_iface_fail(struct ud_iface *iface);
/*
 * Makes an interface for the worker, unless there is one. *mtu: its longest datagram. Returns 0 or
 * -errno.
 */
int ud_iface_prepare(const struct rdma_local *l, uint16_t worker, uint32_t *mtu);

/* Returns the owner's interface, claimed or created, without a reference. NULL: failed. */
struct ud_iface *ud_iface_get(const struct rdma_local *l, const void *owner, uint16_t worker);

/* Returns the connection with this own number, or NULL. */
struct ud_conn *ud_iface_find_conn(const struct ud_iface *iface, uint32_t id);
/* Returns the connection with this number of that peer process, or NULL. */
struct ud_conn *ud_iface_find_peer(const struct ud_iface *iface, uint64_t epoch, uint32_t peer_id);
/* Adds the connection to both tables. Returns 0 or -ENOMEM. */
int ud_iface_add_conn(struct ud_iface *iface, struct ud_conn *c);
/* Removes it from both tables. */
void ud_iface_remove_conn(struct ud_iface *iface, struct ud_conn *c);

/* Returns a number unique in the process; 0: too many. Any thread. */
uint32_t ud_id_get(void);
/* Frees the number. Any thread. */
void ud_id_put(uint32_t id);

struct ud_conn_params {
	uint32_t id, peer_id, qpn, slots, mtu;
	uint64_t peer_epoch, link;
	uint16_t worker, peer_worker;
	bool resumes;
};
/* Owns id and address handle. Returns NULL if out of memory; the caller keeps both. */
struct ud_conn *ud_conn_new(const struct ud_conn_params *terms, const struct ud_keys *keys,
			    struct ah_entry *n);
/*
 * Joins an interface, by reference. Returns 0, -ENOMEM, or -EMSGSIZE if the port's MTU has shrunk.
 */
int ud_conn_attach_iface(struct ud_conn *c, struct ud_iface *iface);

/* Ends the connection with -ENOTCONN, unless it has failed already. */
void ud_conn_fail(struct ud_conn *c);
/* Takes a datagram with a correct MAC. */
void ud_conn_receive(struct ud_conn *c, const struct ud_packet *p, uint64_t now_ns);
/* The port of the connection went down or up. */
void ud_conn_set_port_down(struct ud_conn *c, bool held, uint64_t now_ns);
/* Handles time-outs, sends what is due. False: no timer is left. */
bool ud_conn_tick(struct ud_conn *c, uint64_t now_ns);

#endif
