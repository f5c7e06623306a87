/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Authentication of virtual connections (wire/rpc_wire.h): proofs in CREQ and CREP, a key for
 * each direction derived from both, and the MAC of each datagram.
 */
#ifndef SL_RPC_RDMA_UD_MAC_H
#define SL_RPC_RDMA_UD_MAC_H

#include <stdbool.h>
#include <stdint.h>
#include "base/siphash.h"
#include "rpc/psk.h"
#include "wire/rpc_wire.h"

struct ud_keys {
	struct sl_sipkey out, in;
};

/* Fill in the proof. A CREQ's proof covers the target: GID and number of the wireup QP. */
void ud_creq_sign(const struct sl_psk *s, struct sl_ud_creq *h, const uint8_t gid[16],
		  uint32_t qpn);
void ud_crep_sign(const struct sl_psk *s, const struct sl_ud_creq *h, struct sl_ud_crep *a);
bool ud_creq_verify(const struct sl_psk *s, const struct sl_ud_creq *h, const uint8_t gid[16],
		    uint32_t qpn);
/* `h` must be the own, or a verified, CREQ. */
bool ud_crep_verify(const struct sl_psk *s, const struct sl_ud_creq *h, const struct sl_ud_crep *a);
/* Derives both keys from the CREP's proof, which covers the CREQ. */
void ud_keys_derive(const struct sl_psk *s, const struct sl_ud_crep *a, bool is_client,
		    struct ud_keys *keys);

/*
 * Fresh random bytes for a CREQ or CREP, which may be drawn ahead. One thread at a time. A forked
 * child repeats them, but with another epoch.
 */
struct ud_nonce {
	uint8_t bytes[SL_UD_NONCE_LEN];
	bool drawn;
};
/* Draws bytes ahead. */
void ud_nonce_draw(struct ud_nonce *n);
/* Takes `len` bytes, at most SL_UD_NONCE_LEN, and draws them if necessary. Returns 0 or -EIO. */
int ud_nonce_take(struct ud_nonce *n, uint8_t *to, size_t len);

/*
 * Write and check the MAC of a datagram of `len` bytes, header included. Both write to the header.
 * `number` has 64 bits.
 */
void ud_mac_write(const struct sl_sipkey *key, void *datagram, uint32_t len, uint64_t number);
bool ud_mac_ok(const struct sl_sipkey *key, void *datagram, uint32_t len, uint64_t number);

#endif
