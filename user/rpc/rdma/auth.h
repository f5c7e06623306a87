/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How two ends of verbs prove to each other that they have the same key, before the acceptor makes
 * anything for the dialer, and before either tells the other about its memory.
 *
 *   dialer                                         acceptor
 *   CM request:  cm_request (nonce, short proof) -->
 *                                                <--  CM reply: cm_reply (nonce, proof)
 *   first SEND:  rc_keys (ring, proof)           -->
 *                                                <--  first SEND: rc_keys (ring, proof)
 *
 * A proof is HMAC-SHA-256 over a label of the role, who is dialled, and everything said before it, so
 * it serves for one acceptor, one connection, one direction and these sizes only. Who is dialled is
 * not said: it is the address and port that the connection manager brings to both ends (auth_target).
 * The kernel compares them with a listener's; a listener of all addresses does that itself.
 *
 * The request's proof knows no nonce of the acceptor's: who has recorded a request could send it
 * again, and have a queue pair until it fails to go on. So requests of one process to one acceptor
 * are a sender_id with numbers, and each is taken once (replay_filter_accept). Which sender_id that is nobody else is
 * told: another one that has the key, as each backend of a gateway may have, cannot use up its
 * numbers. The key is the bytes of a file, without white space at the end. Little-endian, like all
 * of the RPC.
 *
 * RC_WIRE_VERSION counts changes of this transcript. Who speaks another is refused, and told by which version.
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
	 * 1: no proof in the request; 2: SL_RPC_VERSION 1; 3: 2; ... 6: 5; 7: GOES_ON in the keys;
	 * 9: doors, BYE; 10: IMM; 11: windows that move; 12: who is dialled; 13: no short form before
	 */
	RC_WIRE_VERSION = 13,
};
#define CM_MAGIC 0x76736c75u

struct cm_request {
	uint32_t magic;
	uint8_t version, flags; /* enum sl_hello_flag */
	uint16_t worker;
	uint64_t epoch;
	uint32_t slots, bulk_len; /* asked for */
	uint32_t number;          /* of this sender_id' requests, ascending */
	uint8_t sender_id[AUTH_SENDER_ID_LEN];
	uint8_t nonce[CM_NONCE_LEN];
	uint8_t proof[CM_PROOF_LEN];
};
_Static_assert(sizeof(struct cm_request) == 56, "what a CM request over TCP port space carries");

/* Of an answer; all but the first come with a rejection. */
enum rc_verdict {
	RC_GRANTED,
	RC_FULL,
	RC_OTHER_VERSION,
	RC_OTHER_KEY,
	RC_BAD_SIZES,
	RC_UNKNOWN_PEER, /* at a door: it knows no such peer */
};

struct cm_reply {
	uint32_t magic;
	uint8_t version, verdict;
	uint16_t reserved;
	uint64_t epoch;
	uint32_t slots, bulk_len; /* granted */
	uint32_t wireup_qpn;      /* queue pair for HELLOs (wireup.h); 0: it has none */
	uint32_t reserved2;
	uint8_t nonce[AUTH_NONCE_LEN];
	uint8_t proof[AUTH_PROOF_LEN];
};
_Static_assert(sizeof(struct cm_reply) == 96, "wire format");

struct rc_keys {
	uint32_t magic, rkey;
	uint64_t bulk; /* address of the bulk ring */
	uint64_t link; /* dialer: as in struct sl_rpc_hello */
	uint64_t reserved;
	uint8_t proof[AUTH_PROOF_LEN];
};
_Static_assert(sizeof(struct rc_keys) == 64, "wire format");

/* The address and port that is dialled. */
struct auth_target {
	uint16_t family, port; /* the port as the network has it */
	uint32_t reserved;
	uint8_t address[16];
};
struct auth_target auth_target_of(const struct sockaddr *sa);

/* All that was said on one connection, behind what is not said. */
struct cm_transcript {
	struct auth_target target;
	struct cm_request request;
	struct cm_reply reply;
	struct rc_keys client, server;
};

enum cm_msg { CM_REQUEST, CM_REPLY, CM_CLIENT_KEYS, CM_SERVER_KEYS };

/* Fills in the proof of that step. */
void auth_sign(const struct sl_psk *s, struct cm_transcript *transcript, enum cm_msg step);
bool auth_verify(const struct sl_psk *s, const struct cm_transcript *transcript, enum cm_msg step);

/* Of this process, for who is dialled there: the same each time. 0 or -EIO. */
int auth_sender_id(const struct sockaddr_storage *sa, uint8_t sender_id[AUTH_SENDER_ID_LEN]);

static inline uint64_t auth_sender_id_word(const uint8_t bytes[AUTH_SENDER_ID_LEN])
{
	uint64_t sender_id;

	memcpy(&sender_id, bytes, sizeof(sender_id));
	return sender_id;
}

/* Requests that were taken: of the latest REPLAY_SENDERS sender_id, the 64 highest numbers. */
enum { REPLAY_SENDERS = 256 };
struct replay_filter {
	struct replay_sender {
		uint64_t sender_id, bits; /* bit n: number `highest` - n was taken; 0: unused */
		uint32_t highest;
		uint64_t last_used;
	} senders[REPLAY_SENDERS];
	uint64_t lru_clock;
};
/* Of a proven request: true once. A number that lies too far back counts as taken. */
bool replay_filter_accept(struct replay_filter *filter, uint64_t sender_id, uint32_t number);

#endif
