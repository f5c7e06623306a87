/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/rdma/ud/ud_mac.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stddef.h>
#include <string.h>
#include "base/rand.h"

enum {
	LABEL_LEN = 16,
	TARGET_LEN = 16 + sizeof(uint32_t),            /* GID and QP number */
	CREQ_LEN = offsetof(struct sl_ud_creq, proof), /* bytes covered by the proof */
	CREP_LEN = offsetof(struct sl_ud_crep, proof),
};

/* Two SHA-256 blocks. The proof stands for the whole request. */
static void creq_proof(const struct sl_psk *s, const struct sl_ud_creq *h, const uint8_t gid[16],
		       uint32_t qpn, uint8_t proof[SL_UD_PROOF_LEN])
{
	uint8_t text[LABEL_LEN + TARGET_LEN + CREQ_LEN] = "sluice ud hello";

	memcpy(text + LABEL_LEN, gid, 16);
	memcpy(text + LABEL_LEN + 16, &qpn, sizeof(qpn));
	memcpy(text + LABEL_LEN + TARGET_LEN, h, CREQ_LEN);
	sl_psk_mac(s, text, sizeof(text), proof);
}

static void crep_proof(const struct sl_psk *s, const struct sl_ud_creq *h,
		       const struct sl_ud_crep *a, uint8_t proof[SL_UD_PROOF_LEN])
{
	uint8_t text[LABEL_LEN + SL_UD_PROOF_LEN + CREP_LEN] = "sluice ud answer";

	memcpy(text + LABEL_LEN, h->proof, SL_UD_PROOF_LEN);
	memcpy(text + LABEL_LEN + SL_UD_PROOF_LEN, a, CREP_LEN);
	sl_psk_mac(s, text, sizeof(text), proof);
}

void ud_creq_sign(const struct sl_psk *s, struct sl_ud_creq *h, const uint8_t gid[16], uint32_t qpn)
{
	creq_proof(s, h, gid, qpn, h->proof);
}

void ud_crep_sign(const struct sl_psk *s, const struct sl_ud_creq *h, struct sl_ud_crep *a)
{
	crep_proof(s, h, a, a->proof);
}

bool ud_creq_verify(const struct sl_psk *s, const struct sl_ud_creq *h, const uint8_t gid[16],
		    uint32_t qpn)
{
	uint8_t want[SL_UD_PROOF_LEN];

	creq_proof(s, h, gid, qpn, want);
	return CRYPTO_memcmp(want, h->proof, sizeof(want)) == 0;
}

bool ud_crep_verify(const struct sl_psk *s, const struct sl_ud_creq *h, const struct sl_ud_crep *a)
{
	uint8_t want[SL_UD_PROOF_LEN];

	crep_proof(s, h, a, want);
	return CRYPTO_memcmp(want, a->proof, sizeof(want)) == 0;
}

void ud_keys_derive(const struct sl_psk *s, const struct sl_ud_crep *a, bool is_client,
		    struct ud_keys *keys)
{
	uint8_t text[LABEL_LEN + SL_UD_PROOF_LEN] = "sluice ud keys", key_pair[SL_PSK_MAC_LEN];
	struct sl_sipkey client_to_server, server_to_client;

	memcpy(text + LABEL_LEN, a->proof, SL_UD_PROOF_LEN);
	sl_psk_mac(s, text, sizeof(text), key_pair);
	client_to_server = sl_sipkey_from(key_pair);
	server_to_client = sl_sipkey_from(key_pair + 16);
	keys->out = is_client ? client_to_server : server_to_client;
	keys->in = is_client ? server_to_client : client_to_server;
	OPENSSL_cleanse(key_pair, sizeof(key_pair));
}

void ud_nonce_draw(struct ud_nonce *n)
{
	if (!n->drawn)
		n->drawn = sl_rand_bytes(n->bytes, sizeof(n->bytes)) == 0;
}

int ud_nonce_take(struct ud_nonce *n, uint8_t *to, size_t len)
{
	ud_nonce_draw(n);
	if (!n->drawn)
		return -EIO;
	memcpy(to, n->bytes, len);
	n->drawn = false;
	return 0;
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
