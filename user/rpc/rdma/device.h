/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What virtual connections ask of a device: pairs, by which datagrams come and go; ways to hosts; and
 * the question where a host takes HELLOs. ud_qp.c and sidr.c have that of a NIC; tests have one of
 * sockets that loses, doubles and reorders (tests/support/ud_sockets.h).
 *
 *   tx: slot -> write -> send -> .. -> ring      rx: poll -> look -> put_back
 *
 * A pair is one thread's at a time; a port changes by itself.
 */
#ifndef SL_RPC_RDMA_DEVICE_H
#define SL_RPC_RDMA_DEVICE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct ibv_ah;
struct sl_rpc_rdma;

enum {
	UD_POLL_MAX = 32, /* datagrams of one poll */
	UD_MTU_MAX = 4096,
};

/* Here: a port, and the address by which it is reached. */
struct rdma_local {
	void *device; /* the same for all of one device */
	const char *name;
	uint8_t port, gid_index;
	uint8_t gid[16];
};

static inline bool rdma_local_same(const struct rdma_local *a, const struct rdma_local *b)
{
	return a->device == b->device && a->port == b->port && a->gid_index == b->gid_index;
}

/* Where a host takes HELLOs, and from where it is reached. */
struct sidr_result {
	struct rdma_local local;
	uint8_t gid[16];
	uint32_t qpn;
	uint32_t mtu; /* most bytes of a datagram on the way there; 0: it is not known */
};

/* Behind it is the device's own. */
struct ud_qp {
	int fd; /* readable when something has come, after arm() */
	uint32_t qpn;
	uint32_t mtu;   /* most bytes of a datagram */
	bool unflushed; /* something was sent since the last ring() */
};

struct ud_packet {
	uint8_t *bytes;
	uint32_t len, slot;
	uint32_t qpn; /* the sender's */
	bool has_grh; /* in front of the bytes lies what the network had there (GRH, IBTA 8.3) */
};

/*
 * Whether a port is down, as whoever watches it is told, by a thread of the device's. Behind it is the
 * device's own.
 */
struct rdma_port {
	_Atomic bool down; /* what is sent by it goes nowhere */
	int fd;            /* an eventfd: written to when that has changed */
};

/* By which others ask. */
struct sidr_service {
	int fd; /* readable when somebody does */
	struct rdma_local local;
};

struct sidr_query {
	const struct sockaddr_storage *sa;
	const struct sl_rpc_rdma *rdma; /* by which way */
	uint64_t deadline_ns;
};

struct rdma_device_ops {
	/*
	 * Of that group (rdma/rc/qp_pool.h), whose bells have an interrupt; slots to receive into, a
	 * multiple of UD_POLL_MAX, and to send from, a power of two: those that it may have, when it is
	 * much used. NULL and -errno.
	 */
	struct ud_qp *(*open)(const struct rdma_local *l, unsigned group, uint32_t rx_cnt,
			      uint32_t tx_cnt, int *rc);
	void (*close)(struct ud_qp *qp);
	/* Where the next datagram is to be written, mtu bytes; NULL: all slots are under way. */
	uint8_t *(*tx_buf)(struct ud_qp *qp);
	/* That one goes, behind the next ring(). */
	void (*send)(struct ud_qp *qp, struct ibv_ah *ah, uint32_t qpn, uint32_t len);
	int (*flush)(struct ud_qp *qp); /* 0 or -EIO */
	/* Up to max (UD_POLL_MAX at the most); or -EIO. They are the caller's until put back, in turn. */
	int (*poll)(struct ud_qp *qp, struct ud_packet *packets, unsigned max);
	/* False: its head says that it has come from elsewhere. NULL: none has one. */
	bool (*is_from)(const struct ud_packet *p, const uint8_t gid[16]);
	int (*repost)(struct ud_qp *qp, const struct ud_packet *packets, unsigned cnt);
	bool (*arm)(struct ud_qp *qp); /* false: look again */
	void (*ack_event)(struct ud_qp *qp);

	/* From now on it is as it says there. NULL and -errno. */
	struct rdma_port *(*port_watch)(const struct rdma_local *l, int *rc);
	void (*port_unwatch)(struct rdma_port *p);

	/* To a host, for packets with that type of service. NULL: there is none. */
	struct ibv_ah *(*ah_create)(const struct rdma_local *l, const uint8_t gid[16], uint8_t tos);
	void (*ah_destroy)(struct ibv_ah *ah);
	/* Whether that one is made at once, without waiting for a host. NULL: nobody can tell. */
	bool (*neigh_resolved)(const struct rdma_local *l, const uint8_t gid[16]);

	/* 0, or -errno and perhaps more about it in *why. */
	int (*sidr_resolve)(const struct sidr_query *q, struct sidr_result *h, const char **why);
	/* 0 or -errno. */
	int (*sidr_new)(struct sidr_service **sign, struct sockaddr_storage *sa);
	/*
	 * Those who ask are told of that queue pair. 0; -ENODEV: the device has gone, or
	 * -EADDRNOTAVAIL: the address may be elsewhere: nobody can ask any more.
	 */
	int (*sidr_reply)(struct sidr_service *s, uint32_t qpn);
	void (*sidr_free)(struct sidr_service *s);
};

extern const struct rdma_device_ops rdma_device_ibv;
/* The one that there is; changed before anything is opened, by tests only. */
extern const struct rdma_device_ops *rdma_device;

/* Who names a host is answered, and counted, for what that has said itself. */
static inline bool ud_packet_is_from(const struct ud_packet *p, const uint8_t gid[16])
{
	return !rdma_device->is_from || rdma_device->is_from(p, gid);
}

#endif
