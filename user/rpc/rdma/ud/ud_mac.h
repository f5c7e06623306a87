/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may send datagrams of a virtual connection (sluice/rpc_wire.h): proofs of the shared key in
 * HELLO and ANSWER, keys of each direction made of key_pair, and the seal of each datagram.
 */
#ifndef SL_RPC_RDMA_UD_MAC_H
#define SL_RPC_RDMA_UD_MAC_H

#include <stdbool.h>
#include <stdint.h>
#include "base/siphash.h"
#include "rpc/psk.h"
#include "sluice/rpc_wire.h"

struct ud_keys {
	struct sl_sipkey out, in;
};

/* Fill in the proof; a HELLO's for the door of that number, at the host of that GID. */
void ud_creq_sign(const struct sl_psk *s, struct sl_ud_creq *h, const uint8_t gid[16],
		  uint32_t qpn);
void ud_crep_sign(const struct sl_psk *s, const struct sl_ud_creq *h, struct sl_ud_crep *a);
bool ud_creq_verify(const struct sl_psk *s, const struct sl_ud_creq *h, const uint8_t gid[16],
		    uint32_t qpn);
/* To a HELLO that is proven, or one's own. */
bool ud_crep_verify(const struct sl_psk *s, const struct sl_ud_creq *h, const struct sl_ud_crep *a);
/* Of the two of whom the acceptor has proven this, and with it the HELLO. */
void ud_keys_derive(const struct sl_psk *s, const struct sl_ud_crep *a, bool is_client,
		    struct ud_keys *keys);

/*
 * Random bytes for a HELLO or an ANSWER, each time others. To draw them takes a call of the kernel, and is
 * better done ahead, while something is under way. One thread's at a time; what a fork has copied is of
 * another epoch.
 */
struct ud_nonce {
	uint8_t bytes[SL_UD_NONCE_LEN];
	bool drawn;
};
void ud_nonce_draw(struct ud_nonce *n);
/* Draws, if that was not done before; len: SL_UD_NONCE_LEN at the most. 0 or -errno. */
int ud_nonce_take(struct ud_nonce *n, uint8_t *to, size_t len);

/*
 * The datagram's header and its bytes lie one behind the other, and are written to: `len` in all.
 * `number` is the datagram's, of 64 bits.
 */
void ud_mac_write(const struct sl_sipkey *key, void *datagram, uint32_t len, uint64_t number);
bool ud_mac_ok(const struct sl_sipkey *key, void *datagram, uint32_t len, uint64_t number);

#endif
