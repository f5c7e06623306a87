/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/ud/seal.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stddef.h>
#include <string.h>
#include "base/rand.h"

enum {
	LABEL_LEN = 16,
	DOOR_LEN = 16 + sizeof(uint32_t),                /* its host's GID and its number */
	HELLO_LEN = offsetof(struct sl_ud_hello, proof), /* of what its proof is over */
	ANSWER_LEN = offsetof(struct sl_ud_answer, proof),
};

/* Two blocks of SHA-256 each: what proves a HELLO stands for all of it. */
static void hello_proof(const struct sl_secret *s, const struct sl_ud_hello *h,
			const uint8_t gid[16], uint32_t qpn, uint8_t proof[SL_UD_PROOF_LEN])
{
	uint8_t text[LABEL_LEN + DOOR_LEN + HELLO_LEN] = "sluice ud hello";

	memcpy(text + LABEL_LEN, gid, 16);
	memcpy(text + LABEL_LEN + 16, &qpn, sizeof(qpn));
	memcpy(text + LABEL_LEN + DOOR_LEN, h, HELLO_LEN);
	sl_secret_mac(s, text, sizeof(text), proof);
}

static void answer_proof(const struct sl_secret *s, const struct sl_ud_hello *h,
			 const struct sl_ud_answer *a, uint8_t proof[SL_UD_PROOF_LEN])
{
	uint8_t text[LABEL_LEN + SL_UD_PROOF_LEN + ANSWER_LEN] = "sluice ud answer";

	memcpy(text + LABEL_LEN, h->proof, SL_UD_PROOF_LEN);
	memcpy(text + LABEL_LEN + SL_UD_PROOF_LEN, a, ANSWER_LEN);
	sl_secret_mac(s, text, sizeof(text), proof);
}

void ud_hello_prove(const struct sl_secret *s, struct sl_ud_hello *h, const uint8_t gid[16],
		    uint32_t qpn)
{
	hello_proof(s, h, gid, qpn, h->proof);
}

void ud_answer_prove(const struct sl_secret *s, const struct sl_ud_hello *h, struct sl_ud_answer *a)
{
	answer_proof(s, h, a, a->proof);
}

bool ud_hello_proven(const struct sl_secret *s, const struct sl_ud_hello *h, const uint8_t gid[16],
		     uint32_t qpn)
{
	uint8_t want[SL_UD_PROOF_LEN];

	hello_proof(s, h, gid, qpn, want);
	return CRYPTO_memcmp(want, h->proof, sizeof(want)) == 0;
}

bool ud_answer_proven(const struct sl_secret *s, const struct sl_ud_hello *h,
		      const struct sl_ud_answer *a)
{
	uint8_t want[SL_UD_PROOF_LEN];

	answer_proof(s, h, a, want);
	return CRYPTO_memcmp(want, a->proof, sizeof(want)) == 0;
}

void ud_keys_derive(const struct sl_secret *s, const struct sl_ud_answer *a, bool dialer,
		    struct ud_keys *keys)
{
	uint8_t text[LABEL_LEN + SL_UD_PROOF_LEN] = "sluice ud keys", both[SL_SECRET_MAC_LEN];
	struct sl_sipkey from_dialler, to_dialler;

	memcpy(text + LABEL_LEN, a->proof, SL_UD_PROOF_LEN);
	sl_secret_mac(s, text, sizeof(text), both);
	from_dialler = sl_sipkey_from(both);
	to_dialler = sl_sipkey_from(both + 16);
	keys->out = dialer ? from_dialler : to_dialler;
	keys->in = dialer ? to_dialler : from_dialler;
	OPENSSL_cleanse(both, sizeof(both));
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

void ud_seal(const struct sl_sipkey *key, void *datagram, uint32_t len, uint64_t number)
{
	uint64_t mac = mac_of(key, datagram, len, number);

	memcpy(datagram, &mac, sizeof(mac));
}

bool ud_sealed(const struct sl_sipkey *key, void *datagram, uint32_t len, uint64_t number)
{
	uint64_t mac;

	memcpy(&mac, datagram, sizeof(mac));
	return mac_of(key, datagram, len, number) == mac;
}
