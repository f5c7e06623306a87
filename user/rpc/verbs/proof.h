/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How two ends of verbs prove to each other that they have the same key, before the acceptor makes
 * anything for the dialer, and before either tells the other about its memory.
 *
 *   dialer                                         acceptor
 *   CM request:  vb_request (nonce, short proof) -->
 *                                                <--  CM reply: vb_answer (nonce, proof)
 *   first SEND:  vb_keys (ring, proof)           -->
 *                                                <--  first SEND: vb_keys (ring, proof)
 *
 * A proof is HMAC-SHA-256 over a label of the role, who is dialled, and everything said before it, so
 * it serves for one acceptor, one connection, one direction and these sizes only. Who is dialled is
 * not said: it is the address and port that the connection manager brings to both ends (vb_dialled).
 * The kernel compares them with a listener's; a listener of all addresses does that itself.
 *
 * The request's proof knows no nonce of the acceptor's: who has recorded a request could send it
 * again, and have a queue pair until it fails to go on. So requests of one process to one acceptor
 * are a series with numbers, and each is taken once (vb_fresh). Which series that is nobody else is
 * told: another one that has the key, as each backend of a gateway may have, cannot use up its
 * numbers. The key is the bytes of a file, without white space at the end. Little-endian, like all
 * of the RPC.
 *
 * VB_VERSION counts changes of this talk. Who speaks another is refused, and told by which version.
 */
#ifndef SL_RPC_VERBS_PROOF_H
#define SL_RPC_VERBS_PROOF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include "rpc/secret.h"

enum {
	VB_NONCE_LEN = 32,
	VB_PROOF_LEN = 32,
	VB_SERIES_LEN = 8,
	VB_SHORT_NONCE_LEN = 4,
	VB_SHORT_PROOF_LEN = 16,
	/*
	 * 1: no proof in the request; 2: SL_RPC_VERSION 1; 3: 2; ... 6: 5; 7: GOES_ON in the keys;
	 * 9: doors, BYE; 10: IMM; 11: windows that move; 12: who is dialled; 13: no short form before
	 */
	VB_VERSION = 13,
};
#define VB_MAGIC 0x76736c75u

struct vb_request {
	uint32_t magic;
	uint8_t version, flags; /* enum sl_hello_flag */
	uint16_t worker;
	uint64_t epoch;
	uint32_t slots, bulk_len; /* asked for */
	uint32_t number;          /* of this series' requests, ascending */
	uint8_t series[VB_SERIES_LEN];
	uint8_t nonce[VB_SHORT_NONCE_LEN];
	uint8_t proof[VB_SHORT_PROOF_LEN];
};
_Static_assert(sizeof(struct vb_request) == 56, "what a CM request over TCP port space carries");

/* Of an answer; all but the first come with a rejection. */
enum vb_verdict {
	VB_GRANTED,
	VB_FULL,
	VB_OTHER_VERSION,
	VB_OTHER_KEY,
	VB_BAD_SIZES,
	VB_STRANGER, /* at a door: it knows no such peer */
};

struct vb_answer {
	uint32_t magic;
	uint8_t version, verdict;
	uint16_t reserved;
	uint64_t epoch;
	uint32_t slots, bulk_len; /* granted */
	uint32_t door;            /* queue pair for HELLOs (door.h); 0: it has none */
	uint32_t reserved2;
	uint8_t nonce[VB_NONCE_LEN];
	uint8_t proof[VB_PROOF_LEN];
};
_Static_assert(sizeof(struct vb_answer) == 96, "wire format");

struct vb_keys {
	uint32_t magic, rkey;
	uint64_t bulk; /* address of the bulk ring */
	uint64_t link; /* dialer: as in struct sl_rpc_hello */
	uint64_t reserved;
	uint8_t proof[VB_PROOF_LEN];
};
_Static_assert(sizeof(struct vb_keys) == 64, "wire format");

/* The address and port that is dialled. */
struct vb_dialled {
	uint16_t family, port; /* the port as the network has it */
	uint32_t reserved;
	uint8_t address[16];
};
struct vb_dialled vb_dialled_of(const struct sockaddr *sa);

/* All that was said on one connection, behind what is not said. */
struct vb_talk {
	struct vb_dialled dialled;
	struct vb_request request;
	struct vb_answer answer;
	struct vb_keys dialer, acceptor;
};

enum vb_step { VB_REQUEST, VB_ANSWER, VB_DIALLER_KEYS, VB_ACCEPTOR_KEYS };

/* Fills in the proof of that step. */
void vb_prove(const struct sl_secret *s, struct vb_talk *talk, enum vb_step step);
bool vb_proven(const struct sl_secret *s, const struct vb_talk *talk, enum vb_step step);

/* Of this process, for who is dialled there: the same each time. 0 or -EIO. */
int vb_series_to(const struct sockaddr_storage *sa, uint8_t series[VB_SERIES_LEN]);

static inline uint64_t vb_series_of(const uint8_t bytes[VB_SERIES_LEN])
{
	uint64_t series;

	memcpy(&series, bytes, sizeof(series));
	return series;
}

/* Requests that were taken: of the latest VB_SERIES series, the 64 highest numbers. */
enum { VB_SERIES = 256 };
struct vb_seen {
	struct vb_seen_series {
		uint64_t series, bits; /* bit n: number `highest` - n was taken; 0: unused */
		uint32_t highest;
		uint64_t used;
	} of[VB_SERIES];
	uint64_t turn;
};
/* Of a proven request: true once. A number that lies too far back counts as taken. */
bool vb_fresh(struct vb_seen *seen, uint64_t series, uint32_t number);

#endif
