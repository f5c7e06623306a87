/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/rdma/ud/ud_mac.h"

#include <openssl/crypto.h>
#include <stddef.h>
#include <string.h>
#include "rpc/rdma/wireup.h"

void ud_keys_derive(const struct sl_psk *s, const struct sl_wireup_crep *a, bool is_client,
		    struct ud_keys *keys)
{
	struct sl_sipkey client_to_server, server_to_client;
	uint8_t key_pair[SL_PSK_MAC_LEN];

	wireup_derive(s, a, WIREUP_KEYS, key_pair);
	client_to_server = sl_sipkey_from(key_pair);
	server_to_client = sl_sipkey_from(key_pair + 16);
	keys->out = is_client ? client_to_server : server_to_client;
	keys->in = is_client ? server_to_client : client_to_server;
	OPENSSL_cleanse(key_pair, sizeof(key_pair));
}

static uint64_t mac_of(const struct sl_sipkey *key, void *datagram, uint32_t len, uint64_t number)
{
	uint64_t upper = number >> 32;

	memcpy(datagram, &upper, sizeof(upper));
	return sl_siphash24(key, datagram, len);
}

_Static_assert(offsetof(struct sl_ud_header, mac) == 0, "mac_of() writes there");

void ud_mac_write(const struct sl_sipkey *key, void *datagram, uint32_t len, uint64_t number)
{
	uint64_t mac = mac_of(key, datagram, len, number);

	memcpy(datagram, &mac, sizeof(mac));
}

bool ud_mac_ok(const struct sl_sipkey *key, void *datagram, uint32_t len, uint64_t number)
{
	uint64_t mac;

	memcpy(&mac, datagram, sizeof(mac));
	return mac_of(key, datagram, len, number) == mac;
}
