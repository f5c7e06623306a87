/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wireup: connects one more RC queue pair to a known peer (peer.h) by datagrams, without the CM.
 *
 *   client                                            server
 *   datagram:    wireup_request (qpn, ring, proof) -->
 *                                                  <--  wireup_reply (qpn, ring, proof)
 *   first SEND:  rc_keys (proof)                   -->
 *
 * The request's proof covers the target, which is not sent. Each request is accepted once, like a
 * cm_request (auth.h). The reply's proof covers both nonces. The first SEND proves that the client
 * has received the reply. The server sends nothing before. A request must come from the GID that it
 * names.
 *
 * The server accepts known peers only. A client that is refused or not answered uses the CM.
 * Integers are little-endian.
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
	uint8_t version, flags; /* RC_WIRE_VERSION; enum sl_hello_flag */
	uint16_t worker;
	uint64_t epoch;
	uint32_t number;     /* ascending, per sender id */
	uint32_t answer_qpn; /* takes the reply, at `gid` */
	uint8_t gid[16];
	uint32_t slots, bulk_len;
	uint32_t qpn, psn;
	uint32_t rkey;
	uint8_t tos, reserved[3]; /* tos: in both directions */
	uint64_t bulk;
	uint64_t link; /* as in struct sl_rpc_hello */
	uint8_t sender_id[AUTH_SENDER_ID_LEN];
	uint8_t nonce[AUTH_NONCE_LEN - AUTH_SENDER_ID_LEN];
	uint8_t proof[AUTH_PROOF_LEN];
};
_Static_assert(sizeof(struct wireup_request) == 144, "wire format");

struct wireup_reply {
	uint32_t magic;
	uint8_t version, verdict; /* RC_GRANTED, or the members below are unset */
	uint16_t reserved;
	uint64_t epoch;
	uint32_t number;          /* as in the request */
	uint32_t slots, bulk_len; /* granted: at most the requested slots; the requested ring */
	uint32_t qpn, psn, rkey;
	uint64_t bulk;
	uint8_t nonce[AUTH_NONCE_LEN];
	uint8_t proof[AUTH_PROOF_LEN];
};
_Static_assert(sizeof(struct wireup_reply) == 112, "wire format");

/* The acceptor's wireup QP, which is not sent. */
struct wireup_target {
	uint64_t epoch;
	uint32_t qpn, reserved;
};

struct wireup_transcript {
	struct wireup_target to;
	struct wireup_request request;
	struct wireup_reply reply;
};

enum wireup_msg { WIREUP_REQUEST, WIREUP_REPLY, WIREUP_ACK };

/* Computes a message's proof over all before it. WIREUP_ACK: proof in the first SEND. */
void wireup_sign(const struct sl_psk *s, const struct wireup_transcript *g, enum wireup_msg step,
		 uint8_t proof[AUTH_PROOF_LEN]);
bool wireup_verify(const struct sl_psk *s, const struct wireup_transcript *g, enum wireup_msg step,
		   const uint8_t proof[AUTH_PROOF_LEN]);

struct wireup_listener {
	struct ud_qp *qp; /* NULL: none */
	struct rdma_local local;
	bool more; /* requests left without an event */
};

/* Opens the QP. Without it, all clients use the CM. */
void wireup_listener_open(struct wireup_listener *d, const struct rdma_cm_id *id);
void wireup_listener_close(struct wireup_listener *d);
/*
 * Handles some requests. Then the QP is armed, `more` is set, or it was closed because its device
 * failed.
 */
void wireup_listener_poll(struct wireup_listener *d,
			  void (*handle)(void *arg, const struct wireup_request *h), void *arg);
/* Sends a reply if the client is resolved. */
void wireup_listener_reply(struct wireup_listener *d, const struct wireup_request *h,
			   const struct wireup_reply *w);

/* Returns NULL if no peer answers there: use the CM. */
struct rc_conn *wireup_connect(const struct sl_rpc_dial_options *opt,
			       const struct sockaddr_storage *sa, const struct sl_psk *s,
			       uint64_t deadline_ns);

#endif
