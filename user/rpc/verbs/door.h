/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One more connection to a process that is met already (leash.h): its queue pairs lie ready, and one
 * exchange of datagrams joins them. No connection manager takes part.
 *
 *   dialer                                          door
 *   datagram:    vb_hello (queue pair, ring, proof) -->
 *                                                 <--  vb_welcome (queue pair, ring, proof)
 *   first SEND:  vb_keys (proof)                  -->
 *
 * HELLO proves the key for one door, which is not said, and is taken once by series and number, as a
 * vb_request is (proof.h); WELCOME proves it over both nonces. The first SEND proves that the dialer has heard WELCOME: until then the
 * connection is one that waits, of which there are so many. Requests go right behind that SEND; what
 * it opens to the peer was opened before. The acceptor says nothing before it. HELLO is sent by the
 * address that it names.
 *
 * A door lets in who it has a leash of only. Whoever is not answered, or refused, goes by the
 * connection manager. Little-endian, like all of the RPC.
 */
#ifndef SL_RPC_VERBS_DOOR_H
#define SL_RPC_VERBS_DOOR_H

#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "rpc/ud/device.h"
#include "rpc/verbs/proof.h"

struct rdma_cm_id;
struct sl_rpc_dial_options;
struct sl_verbs;

#define VB_DOOR_MAGIC 0x64736c75u
#define VB_PSN_MASK   0xffffffu

struct vb_hello {
	uint32_t magic;
	uint8_t version, flags; /* VB_VERSION, enum sl_hello_flag */
	uint16_t worker;
	uint64_t epoch;
	uint32_t number;     /* of this series' HELLOs, ascending */
	uint32_t answer_qpn; /* where WELCOME goes, at `gid` */
	uint8_t gid[16];
	uint32_t slots, bulk_len; /* asked for */
	uint32_t qpn, psn;        /* of the connection */
	uint32_t rkey;
	uint8_t tos, reserved[3]; /* tos: of packets in both directions */
	uint64_t bulk;            /* address of the bulk ring */
	uint64_t link;            /* as in struct sl_rpc_hello */
	uint8_t series[VB_SERIES_LEN];
	uint8_t nonce[VB_NONCE_LEN - VB_SERIES_LEN];
	uint8_t proof[VB_PROOF_LEN];
};
_Static_assert(sizeof(struct vb_hello) == 144, "wire format");

struct vb_welcome {
	uint32_t magic;
	uint8_t version, verdict; /* VB_GRANTED; else nothing below it is said */
	uint16_t reserved;
	uint64_t epoch;
	uint32_t number;          /* the HELLO's */
	uint32_t slots, bulk_len; /* granted: as many slots or less, and the ring as it is */
	uint32_t qpn, psn, rkey;
	uint64_t bulk;
	uint8_t nonce[VB_NONCE_LEN];
	uint8_t proof[VB_PROOF_LEN];
};
_Static_assert(sizeof(struct vb_welcome) == 112, "wire format");

/* Whose door it is: not said, for who was met knows it. */
struct vb_door_name {
	uint64_t epoch; /* of its process */
	uint32_t qpn, reserved;
};

struct vb_greetings {
	struct vb_door_name to;
	struct vb_hello hello;
	struct vb_welcome welcome;
};

enum vb_greeting { VB_HELLO, VB_WELCOME, VB_HEARD };

/* The proof of that step over all before it: of VB_HEARD, that of the first SEND. */
void vb_greeting_prove(const struct sl_secret *s, const struct vb_greetings *g,
		       enum vb_greeting step, uint8_t proof[VB_PROOF_LEN]);
bool vb_greeting_proven(const struct sl_secret *s, const struct vb_greetings *g,
			enum vb_greeting step, const uint8_t proof[VB_PROOF_LEN]);

/* A listener's door. */
struct vb_door {
	struct ud_pair *pair; /* NULL: it has none */
	struct ud_local local;
	bool more; /* HELLOs wait, and no bell will ring for them */
};

/* On the device that an id is bound to. Without one, everybody comes by the connection manager. */
void vb_door_open(struct vb_door *d, const struct rdma_cm_id *id);
void vb_door_close(struct vb_door *d);
/* Some of those who knock; ends armed, or with `more`, or, if its device can no more, closed. */
void vb_door_look(struct vb_door *d, void (*knock)(void *arg, const struct vb_hello *h), void *arg);
void vb_door_answer(struct vb_door *d, const struct vb_hello *h, const struct vb_welcome *w);

/* NULL: nobody is met there, or does not answer; the connection manager may. */
struct sl_verbs *vb_dial_known(const struct sl_rpc_dial_options *opt,
			       const struct sockaddr_storage *sa, const struct sl_secret *s,
			       uint64_t deadline_ns);

#endif
