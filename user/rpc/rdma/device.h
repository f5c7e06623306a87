/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device interface of virtual connections: UD queue pairs, address handles, and SIDR queries.
 * Tests replace it by sockets (tests/support/ud_sockets.h).
 *
 *   tx: tx_buf -> write -> send -> .. -> flush      rx: poll -> read -> repost
 *
 * One thread at a time uses a queue pair. The service thread sets a port's state.
 */
#ifndef SL_RPC_RDMA_DEVICE_H
#define SL_RPC_RDMA_DEVICE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

struct ibv_ah;
struct sl_rpc_rdma;

enum {
	UD_POLL_MAX = 32, /* datagrams per poll */
	UD_MTU_MAX = 4096,
};

/* `group`: the worker's number; of a listener this plus the listener's number. */
enum { RDMA_GROUP_BACKEND = 1 << 16 };

/*
 * RNR: a sender that finds no receive slot waits 2.56 ms, at most six times. The CM's default is
 * 655 ms, for ever.
 */
enum { RC_RNR_TIMER = 16, RC_RNR_RETRIES = 6, RC_RETRIES = 6 /* 7 means infinite to soft-RoCE */ };

struct rdma_local {
	void *device; /* protection domain */
	const char *name;
	uint8_t port;
	uint8_t gid[16]; /* its index changes with the device's addresses: rdma_gid_index() */
};

/* Returns true for the same device, port and GID. */
static inline bool rdma_local_same(const struct rdma_local *a, const struct rdma_local *b)
{
	return a->device == b->device && a->port == b->port &&
	       memcmp(a->gid, b->gid, sizeof(a->gid)) == 0;
}

/* A host's wireup QP, and the local end. */
struct sidr_result {
	struct rdma_local local;
	uint8_t gid[16];
	uint32_t qpn;
	uint64_t epoch; /* of the process */
	uint32_t mtu;   /* of the path; 0: unknown */
	uint8_t sl;     /* service level */
};

struct ud_qp {
	int fd; /* readable after arm() */
	uint32_t qpn;
	uint32_t mtu;   /* longest datagram */
	bool unflushed; /* since the last flush() */
};

struct ud_packet {
	uint8_t *bytes;
	uint32_t len, slot;
	uint32_t qpn; /* the sender's */
	bool has_grh; /* IBTA 8.3 */
};

struct rdma_port {
	_Atomic bool down; /* datagrams are lost */
	int fd;            /* eventfd, readable after each change */
};

struct sidr_service {
	int fd; /* readable with a query */
	struct rdma_local local;
};

struct sidr_query {
	const struct sockaddr_storage *sa;
	const struct sl_rpc_rdma *rdma;
	uint64_t deadline_ns;
	bool rc; /* asks a listener of RC connections, in its own port space */
};

struct rdma_device_ops {
	/*
	 * `group` selects the completion vector. rx_cnt must be a multiple of UD_POLL_MAX and
	 * tx_cnt a power of two: limits that a busy queue pair grows to. Returns NULL and -errno.
	 */
	struct ud_qp *(*open)(const struct rdma_local *l, unsigned group, uint32_t rx_cnt,
			      uint32_t tx_cnt, int *rc);
	void (*close)(struct ud_qp *qp);
	uint8_t *(*tx_buf)(struct ud_qp *qp);
	void (*send)(struct ud_qp *qp, struct ibv_ah *ah, uint32_t qpn, uint32_t len);
	int (*flush)(struct ud_qp *qp); /* 0 or -EIO */
	/*
	 * Returns up to `max` (at most UD_POLL_MAX), or -EIO. The caller must repost them in order.
	 */
	int (*poll)(struct ud_qp *qp, struct ud_packet *packets, unsigned max);
	/* NULL: there are no GRHs. */
	bool (*is_from)(const struct ud_packet *p, const uint8_t gid[16]);
	int (*repost)(struct ud_qp *qp, const struct ud_packet *packets, unsigned cnt);
	bool (*arm)(struct ud_qp *qp); /* false: poll again */
	void (*ack_event)(struct ud_qp *qp);

	/* Returns NULL and -errno. */
	struct rdma_port *(*port_watch)(const struct rdma_local *l, int *rc);
	void (*port_unwatch)(struct rdma_port *p);

	/* Returns NULL if the host is unreachable. May block for a second. */
	struct ibv_ah *(*ah_create)(const struct rdma_local *l, const uint8_t gid[16], uint8_t tos);
	void (*ah_destroy)(struct ibv_ah *ah);
	bool (*neigh_resolved)(const struct rdma_local *l, const uint8_t gid[16]);

	/* Returns 0, or -errno and perhaps a text in *why. */
	int (*sidr_resolve)(const struct sidr_query *q, struct sidr_result *h, const char **why);
	int (*sidr_new)(struct sidr_service **sign, struct sockaddr_storage *sa, bool rc);
	/* Fills in `local` again, for a forked child. Returns 0 or -errno. */
	int (*sidr_local)(struct sidr_service *s);
	/*
	 * Answers queries with that QP number; 0 refuses them. Returns 0; -ENODEV: the device has gone;
	 * -EADDRNOTAVAIL: the address may have moved. No further query arrives after an error.
	 */
	int (*sidr_reply)(struct sidr_service *s, uint32_t qpn);
	void (*sidr_free)(struct sidr_service *s);
};

extern const struct rdma_device_ops rdma_device_ibv;
/* Only tests replace it, before anything is opened. */
extern const struct rdma_device_ops *rdma_device;

/* Returns false if the datagram's GRH names another source; true without GRH. */
static inline bool ud_packet_is_from(const struct ud_packet *p, const uint8_t gid[16])
{
	return !rdma_device->is_from || rdma_device->is_from(p, gid);
}

#endif
