/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Authentication of virtual connections (wire/rpc_wire.h): keys by CREQ and CREP, and the MAC of
 * each datagram.
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

/* Derives the keys of one end. */
void ud_keys_derive(const struct sl_psk *s, const struct sl_wireup_crep *a, bool is_client,
		    struct ud_keys *keys);

/* Writes the MAC. `len` includes the header. `number` has 64 bits. */
void ud_mac_write(const struct sl_sipkey *key, void *datagram, uint32_t len, uint64_t number);
/* Returns true if the MAC is right. Overwrites it. */
bool ud_mac_ok(const struct sl_sipkey *key, void *datagram, uint32_t len, uint64_t number);

#endif
