/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual connections: each a stream (arq.h) to one peer, all of an owner's through one queue qp
 * of its own, the iface. A connection is memory that no device knows of; queue pairs, completion
 * queues, descriptors and pinned memory are the iface's, however many there are.
 *
 *   post -> arq -> flush: datagrams, sealed -> qp              poll <- messages <- arq
 *   hub: claim_iface -> qp -> key_input is it, is it sealed -> arq -> stirred
 *
 * Where a peer's datagrams come from is learnt from the first one that is sealed, and from new bytes
 * only when that changes: so an acceptor says nothing before its dialer has.
 *
 * While its port is down a connection is held: it takes nothing from above and sends nothing, and keeps
 * what it has, to go on with that. Its peer's silence is none then; the pings of the RPC decide.
 *
 * Halls are made ahead by who dials; an owner's first connection gives it one. But for that, and
 * for numbers of connections, everything here is one thread's.
 */
#ifndef SL_RPC_RDMA_UD_IFACE_H
#define SL_RPC_RDMA_UD_IFACE_H

#include "base/siphash.h"
#include "rpc/poll_group.h"
#include "rpc/transport.h"
#include "rpc/rdma/ud/arq.h"
#include "rpc/rdma/ah_cache.h"
#include "rpc/rdma/ud/ud_mac.h"

enum {
	UD_CONNS = 16384,     /* of a process */
	UD_CHUNK_CONNS = 256, /* of them, key_input places in a iface are made together */
	UD_PEERS = 1024, /* lists of them, by a keyed hash of peer and number: it chooses both */
	UD_IFACE_RX = 512,
	UD_IFACE_TX = 256,
	UD_BULK_MAX = 32 << 10, /* of one body */
	UD_SLICE_MIN = 16 << 10,
	UD_SMALL = 8 << 10,   /* of the stream, what long messages leave for short ones */
	UD_CONTROL = 4 << 10, /* of the stream, what data leaves for control messages */
	UD_TICK_NS = 1000000,
};
/* Nobody tells: for the first guess at what is on its way, from which dql.h learns. */
#define UD_RATE_BPS (UINT64_C(10) * 1000 * 1000 * 1000)
/* For a dialer's first datagram. */
#define UD_CONFIRM_NS UINT64_C(10000000000)

struct ud_conn;

struct ud_iface {
	struct sl_poll_group group; /* fd: epoll over the qp's bell, the port's and the timer */
	struct ud_qp *qp;
	struct rdma_port *port; /* NULL: it is not watched yet */
	bool down;              /* it is, as far as connections were told: they are held */
	struct rdma_local local;
	struct sl_capped_alloc mem; /* of connections on which something is under way */
	uint16_t worker;            /* of the gateway key_input it was made for */
	const void *owner;          /* NULL: nobody's yet, or any more */
	unsigned refs;              /* connections, and a listener */
	struct sl_list node;        /* of all ifaces of dialers */
	struct sl_list busy;        /* connections on which something is due by time */
	uint64_t tick_ns, timer_ns, due_ns;
	int timer_fd;
	bool failed; /* the device */
	struct ud_conn *
		*conn_chunks[UD_CONNS / UD_CHUNK_CONNS]; /* NULL: nobody of those was here */
	struct sl_sipkey peers_key;
	struct ud_conn *peers[UD_PEERS];
};

struct ud_conn {
	struct sl_transport base;
	struct ud_arq arq;
	struct ud_keys keys;
	struct ud_iface *iface; /* NULL: not attached yet */
	struct ah_entry *ah_entry;
	struct ud_conn *next_peer; /* of the same list of the iface's */
	uint32_t id, peer_id;
	uint32_t qpn; /* the peer's; 0: not known yet */
	uint16_t worker;
	struct sl_list busy;
	uint64_t created_ns;
	uint32_t rx_next, lent;
	bool rx_empty;
	int error;
};
_Static_assert(sizeof(struct ud_conn) <= 1504, "README.md says what an idle one costs");

/* Its bells are that group's (rdma/rc/qp_pool.h). NULL and -errno. */
struct ud_iface *ud_iface_new(const struct rdma_local *l, unsigned group, int *rc);
/* From now on it hears of its port; a dialer's does from the start. 0 or -errno. */
int ud_iface_watch_port(struct ud_iface *iface);
void ud_iface_put(struct ud_iface *iface);
/* Its device has gone: nobody comes in any more, and those who are here are told. */
void ud_iface_fail(struct ud_iface *iface);
/* That worker has a iface on that device, or will find_iface one, for such datagrams. 0 or -errno. */
int ud_iface_prepare(const struct rdma_local *l, uint16_t worker, uint32_t *mtu);

/*
 * The owner's; or one that was made ahead, or is made now, and becomes its. NULL: there is no room
 * for it.
 */
struct ud_iface *ud_iface_get(const struct rdma_local *l, const void *owner, uint16_t worker);

/* Its connection of that number, or of that peer by the peer's number; NULL: it has none. */
struct ud_conn *ud_iface_find_conn(const struct ud_iface *iface, uint32_t id);
struct ud_conn *ud_iface_find_peer(const struct ud_iface *iface, uint64_t epoch, uint32_t peer_id);
/* One comes, or goes. 0 or -ENOMEM. */
int ud_iface_add_conn(struct ud_iface *iface, struct ud_conn *c);
void ud_iface_remove_conn(struct ud_iface *iface, struct ud_conn *c);

/* A number that no other connection of this process has; 0: there are too many. */
uint32_t ud_id_get(void);
void ud_id_put(uint32_t id);

struct ud_conn_params {
	uint32_t id, peer_id, qpn, slots, mtu;
	uint64_t peer_epoch, link;
	uint16_t worker, peer_worker;
	bool resumes;
};
/* Takes the id and the node, if it succeeds. */
struct ud_conn *ud_conn_new(const struct ud_conn_params *terms, const struct ud_keys *keys,
			    struct ah_entry *n);
/* The acceptor's is in its listener's iface from the start. */
/*
 * 0; -ENOMEM; -EMSGSIZE: the iface's slots are shorter than what was agreed, the port's MTU has
 * changed.
 */
int ud_conn_attach_iface(struct ud_conn *c, struct ud_iface *iface);

/* ud_conn.c, for ud_iface.c */
/* Its iface has failed. */
void ud_conn_fail(struct ud_conn *c);
/* A datagram that is this connection's. */
void ud_conn_receive(struct ud_conn *c, const struct ud_packet *p, uint64_t now_ns);
/* Its iface's port has gone down, or is back. */
void ud_conn_set_port_down(struct ud_conn *c, bool held, uint64_t now_ns);
/* What is due by time; false: nothing will be. */
bool ud_conn_tick(struct ud_conn *c, uint64_t now_ns);

#endif
