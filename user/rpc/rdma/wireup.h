/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One more connection to a process that is met already (peer.h): its queue pairs lie ready, and one
 * exchange of datagrams joins them. No connection manager takes part.
 *
 *   dialer                                          door
 *   datagram:    wireup_request (queue qp, ring, proof) -->
 *                                                 <--  wireup_reply (queue qp, ring, proof)
 *   first SEND:  rc_keys (proof)                  -->
 *
 * HELLO proves the key for one door, which is not said, and is taken once by sender_id and number, as a
 * cm_request is (auth.h); WELCOME proves it over both nonces. The first SEND proves that the dialer has heard WELCOME: until then the
 * connection is one that waits, of which there are so many. Requests go right behind that SEND; what
 * it opens to the peer was opened before. The acceptor says nothing before it. HELLO is sent by the
 * address that it names.
 *
 * A door lets in who it has a peer of only. Whoever is not answered, or refused, goes by the
 * connection manager. Little-endian, like all of the RPC.
 */
#ifndef SL_RPC_RDMA_WIREUP_H
#define SL_RPC_RDMA_WIREUP_H

#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "rpc/rdma/device.h"
#include "rpc/rdma/auth.h"

struct rdma_cm_id;
struct sl_rpc_dial_options;
struct rc_conn;

#define WIREUP_MAGIC  0x64736c75u
#define RDMA_PSN_MASK 0xffffffu

struct wireup_request {
	uint32_t magic;
	uint8_t version, flags; /* RC_WIRE_VERSION, enum sl_hello_flag */
	uint16_t worker;
	uint64_t epoch;
	uint32_t number;     /* of this sender_id' HELLOs, ascending */
	uint32_t answer_qpn; /* where WELCOME goes, at `gid` */
	uint8_t gid[16];
	uint32_t slots, bulk_len; /* asked for */
	uint32_t qpn, psn;        /* of the connection */
	uint32_t rkey;
	uint8_t tos, reserved[3]; /* tos: of packets in both directions */
	uint64_t bulk;            /* address of the bulk ring */
	uint64_t link;            /* as in struct sl_rpc_hello */
	uint8_t sender_id[AUTH_SENDER_ID_LEN];
	uint8_t nonce[AUTH_NONCE_LEN - AUTH_SENDER_ID_LEN];
	uint8_t proof[AUTH_PROOF_LEN];
};
_Static_assert(sizeof(struct wireup_request) == 144, "wire format");

struct wireup_reply {
	uint32_t magic;
	uint8_t version, verdict; /* RC_GRANTED; else nothing below it is said */
	uint16_t reserved;
	uint64_t epoch;
	uint32_t number;          /* the HELLO's */
	uint32_t slots, bulk_len; /* granted: as many slots or less, and the ring as it is */
	uint32_t qpn, psn, rkey;
	uint64_t bulk;
	uint8_t nonce[AUTH_NONCE_LEN];
	uint8_t proof[AUTH_PROOF_LEN];
};
_Static_assert(sizeof(struct wireup_reply) == 112, "wire format");

/* Whose door it is: not said, for who was met knows it. */
struct wireup_target {
	uint64_t epoch; /* of its process */
	uint32_t qpn, reserved;
};

struct wireup_transcript {
	struct wireup_target to;
	struct wireup_request request;
	struct wireup_reply reply;
};

enum wireup_msg { WIREUP_REQUEST, WIREUP_REPLY, WIREUP_ACK };

/* The proof of that step over all before it: of WIREUP_ACK, that of the first SEND. */
void wireup_sign(const struct sl_psk *s, const struct wireup_transcript *g, enum wireup_msg step,
		 uint8_t proof[AUTH_PROOF_LEN]);
bool wireup_verify(const struct sl_psk *s, const struct wireup_transcript *g, enum wireup_msg step,
		   const uint8_t proof[AUTH_PROOF_LEN]);

/* A listener's door. */
struct wireup_listener {
	struct ud_qp *qp; /* NULL: it has none */
	struct rdma_local local;
	bool more; /* HELLOs wait, and no comp_channel will ring for them */
};

/* On the device that an id is bound to. Without one, everybody comes by the connection manager. */
void wireup_listener_open(struct wireup_listener *d, const struct rdma_cm_id *id);
void wireup_listener_close(struct wireup_listener *d);
/* Some of those who handle; ends armed, or with `more`, or, if its device can no more, closed. */
void wireup_listener_poll(struct wireup_listener *d,
			  void (*handle)(void *arg, const struct wireup_request *h), void *arg);
void wireup_listener_reply(struct wireup_listener *d, const struct wireup_request *h,
			   const struct wireup_reply *w);

/* NULL: nobody is met there, or does not answer; the connection manager may. */
struct rc_conn *wireup_connect(const struct sl_rpc_dial_options *opt,
			       const struct sockaddr_storage *sa, const struct sl_psk *s,
			       uint64_t deadline_ns);

#endif
