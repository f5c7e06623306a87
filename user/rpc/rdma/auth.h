/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Authentication of RC connections that the CM makes. Both ends prove that they have the same key
 * before the acceptor allocates anything, and before either tells where its memory is.
 *
 *   client                                         server
 *   CM request:  cm_request (nonce, short proof) -->
 *                                                <--  CM reply: cm_reply (nonce, proof)
 *   first SEND:  rc_keys (ring, proof)           -->
 *                                                <--  first SEND: rc_keys (ring, proof)
 *
 * A proof is HMAC-SHA-256 over a label for the message type, the target, and all messages before
 * it. The target is not sent: both ends know it from the CM. The kernel checks it for a listener of
 * one address; a wildcard listener checks it itself.
 *
 * The request's proof covers no nonce of the acceptor, so it could be replayed. Therefore requests
 * of one process to one acceptor have a sender id and ascending numbers, and each is accepted once
 * (replay_filter_accept()). Only that acceptor knows the sender id: another holder of the key
 * cannot use up its numbers.
 *
 * Integers are little-endian. RC_WIRE_VERSION changes with these messages; a rejection carries the
 * version.
 */
#ifndef SL_RPC_RDMA_AUTH_H
#define SL_RPC_RDMA_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include "rpc/psk.h"

enum {
	AUTH_NONCE_LEN = 32,
	AUTH_PROOF_LEN = 32,
	AUTH_SENDER_ID_LEN = 8,
	CM_NONCE_LEN = 4,
	CM_PROOF_LEN = 16,
	/*
	 * Changes of each version:
	 * 1: no proof in the request; 2: SL_RPC_VERSION 1; 3: 2; ... 6: 5; 7: RESUME in the keys;
	 * 9: wireup datagrams, BYE; 10: IMM; 11: variable windows; 12: proofs cover the target;
	 * 13: compact form
	 */
	RC_WIRE_VERSION = 13,
};
#define CM_MAGIC 0x76736c75u

struct cm_request {
	uint32_t magic;
	uint8_t version, flags; /* enum sl_hello_flag */
	uint16_t worker;
	uint64_t epoch;
	uint32_t slots, bulk_len; /* requested */
	uint32_t number;          /* ascending, per sender id */
	uint8_t sender_id[AUTH_SENDER_ID_LEN];
	uint8_t nonce[CM_NONCE_LEN];
	uint8_t proof[CM_PROOF_LEN];
};
_Static_assert(sizeof(struct cm_request) == 56, "what a CM request over TCP port space carries");

/* Result in a reply. */
enum rc_verdict {
	RC_GRANTED,
	RC_FULL,
	RC_OTHER_VERSION,
	RC_OTHER_KEY,
	RC_BAD_SIZES,
	RC_UNKNOWN_PEER, /* wireup only */
};

struct cm_reply {
	uint32_t magic;
	uint8_t version, verdict;
	uint16_t reserved;
	uint64_t epoch;
	uint32_t slots, bulk_len; /* granted */
	uint32_t wireup_qpn;      /* wireup.h; 0: none */
	uint32_t reserved2;
	uint8_t nonce[AUTH_NONCE_LEN];
	uint8_t proof[AUTH_PROOF_LEN];
};
_Static_assert(sizeof(struct cm_reply) == 96, "wire format");

struct rc_keys {
	uint32_t magic, rkey;
	uint64_t bulk;
	uint64_t link; /* client: as in struct sl_rpc_hello */
	uint64_t reserved;
	uint8_t proof[AUTH_PROOF_LEN];
};
_Static_assert(sizeof(struct rc_keys) == 64, "wire format");

struct auth_target {
	uint16_t family, port; /* port in network byte order */
	uint32_t reserved;
	uint8_t address[16];
};
struct auth_target auth_target_of(const struct sockaddr *sa);

/* Target and all messages. */
struct cm_transcript {
	struct auth_target target;
	struct cm_request request;
	struct cm_reply reply;
	struct rc_keys client, server;
};

enum cm_msg { CM_REQUEST, CM_REPLY, CM_CLIENT_KEYS, CM_SERVER_KEYS };

/* Writes the message's proof. */
void auth_sign(const struct sl_psk *s, struct cm_transcript *transcript, enum cm_msg step);
bool auth_verify(const struct sl_psk *s, const struct cm_transcript *transcript, enum cm_msg step);

/* Fills in this process' constant sender id for that address. Returns 0 or -EIO. */
int auth_sender_id(const struct sockaddr_storage *sa, uint8_t sender_id[AUTH_SENDER_ID_LEN]);

static inline uint64_t auth_sender_id_word(const uint8_t bytes[AUTH_SENDER_ID_LEN])
{
	uint64_t sender_id;

	memcpy(&sender_id, bytes, sizeof(sender_id));
	return sender_id;
}

/* Accepted requests: the 64 highest numbers of the latest REPLAY_SENDERS senders. */
enum { REPLAY_SENDERS = 256 };
struct replay_filter {
	struct replay_sender {
		uint64_t sender_id, bits; /* bit n: number `highest` - n was accepted; 0: unused */
		uint32_t highest;
		uint64_t last_used;
	} senders[REPLAY_SENDERS];
	uint64_t lru_clock;
};
/* Returns true once per number of a proven request. A number too far back counts as accepted. */
bool replay_filter_accept(struct replay_filter *filter, uint64_t sender_id, uint32_t number);

#endif
