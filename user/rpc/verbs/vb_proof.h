/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How two ends of verbs prove to each other that they have the same key, before either tells the
 * other about its memory.
 *
 *   dialler                                  acceptor
 *   CM request:  vb_request (nonce)     -->
 *                                       <--  CM reply: vb_answer (nonce, proof of all so far)
 *   first SEND:  vb_keys (ring, proof)  -->
 *                                       <--  first SEND: vb_keys (ring, proof)
 *
 * A proof is HMAC-SHA-256 over a label of the role and everything said before it, so it serves for
 * one connection, one direction and these sizes only. The key is the bytes of a file, without white
 * space at the end. Little-endian, like all of the RPC.
 */
#ifndef SL_RPC_VERBS_VB_PROOF_H
#define SL_RPC_VERBS_VB_PROOF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	VB_KEY_MIN = 16,
	VB_KEY_MAX = 1024,
	VB_NONCE_LEN = 32,
	VB_PROOF_LEN = 32,
};
#define VB_MAGIC 0x76736c75u

struct vb_request {
	uint32_t magic;
	uint8_t version, reserved;
	uint16_t worker;
	uint64_t epoch;
	uint32_t slots, bulk_len; /* asked for */
	uint8_t nonce[VB_NONCE_LEN];
};
_Static_assert(sizeof(struct vb_request) == 56, "what a CM request over TCP port space carries");

struct vb_answer {
	uint32_t magic;
	uint8_t version, status; /* enum sl_rpc_status */
	uint16_t reserved;
	uint64_t epoch;
	uint32_t slots, bulk_len; /* granted */
	uint8_t nonce[VB_NONCE_LEN];
	uint8_t proof[VB_PROOF_LEN];
};
_Static_assert(sizeof(struct vb_answer) == 88, "wire format");

struct vb_keys {
	uint32_t magic, rkey;
	uint64_t bulk; /* address of the bulk ring */
	uint8_t proof[VB_PROOF_LEN];
};
_Static_assert(sizeof(struct vb_keys) == 48, "wire format");

struct vb_secret {
	uint8_t bytes[VB_KEY_MAX];
	size_t len;
};

/* All that was said on one connection. */
struct vb_talk {
	struct vb_request request;
	struct vb_answer answer;
	struct vb_keys dialler, acceptor;
};

enum vb_step { VB_ANSWER, VB_DIALLER_KEYS, VB_ACCEPTOR_KEYS };

/* 0, or -1 and one line in err. */
int vb_secret_read(struct vb_secret *s, const char *path, char *err, size_t err_len);
void vb_secret_wipe(struct vb_secret *s);

/* Fills in the proof of that step; 0 or -EIO. */
int vb_prove(const struct vb_secret *s, struct vb_talk *talk, enum vb_step step);
bool vb_proven(const struct vb_secret *s, const struct vb_talk *talk, enum vb_step step);

#endif
