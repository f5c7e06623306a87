/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/rdma/wireup.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stddef.h>
#include <string.h>
#include "base/rand.h"

enum {
	LABEL_LEN = 16,
	CREQ_LEN = offsetof(struct sl_wireup_creq, proof), /* bytes covered by the proof */
	CREP_LEN = offsetof(struct sl_wireup_crep, proof),
};

static void creq_proof(const struct sl_psk *s, const struct sl_wireup_creq *h,
		       const struct wireup_target *to, uint8_t proof[SL_WIREUP_PROOF_LEN])
{
	uint8_t text[LABEL_LEN + sizeof(*to) + CREQ_LEN] = "sluice creq";

	memcpy(text + LABEL_LEN, to, sizeof(*to));
	memcpy(text + LABEL_LEN + sizeof(*to), h, CREQ_LEN);
	sl_psk_mac(s, text, sizeof(text), proof);
}

/* Computes a CREP's proof. The CREQ's proof stands for the whole request. */
static void crep_proof(const struct sl_psk *s, const struct sl_wireup_creq *h,
		       const struct sl_wireup_crep *a, uint8_t proof[SL_WIREUP_PROOF_LEN])
{
	uint8_t text[LABEL_LEN + SL_WIREUP_PROOF_LEN + CREP_LEN] = "sluice crep";

	memcpy(text + LABEL_LEN, h->proof, SL_WIREUP_PROOF_LEN);
	memcpy(text + LABEL_LEN + SL_WIREUP_PROOF_LEN, a, CREP_LEN);
	sl_psk_mac(s, text, sizeof(text), proof);
}

void wireup_creq_sign(const struct sl_psk *s, struct sl_wireup_creq *h,
		      const struct wireup_target *to)
{
	creq_proof(s, h, to, h->proof);
}

void wireup_crep_sign(const struct sl_psk *s, const struct sl_wireup_creq *h,
		      struct sl_wireup_crep *a)
{
	crep_proof(s, h, a, a->proof);
}

bool wireup_creq_verify(const struct sl_psk *s, const struct sl_wireup_creq *h,
			const struct wireup_target *to)
{
	uint8_t want[SL_WIREUP_PROOF_LEN];

	creq_proof(s, h, to, want);
	return CRYPTO_memcmp(want, h->proof, sizeof(want)) == 0;
}

bool wireup_crep_verify(const struct sl_psk *s, const struct sl_wireup_creq *h,
			const struct sl_wireup_crep *a)
{
	uint8_t want[SL_WIREUP_PROOF_LEN];

	crep_proof(s, h, a, want);
	return CRYPTO_memcmp(want, a->proof, sizeof(want)) == 0;
}

void wireup_derive(const struct sl_psk *s, const struct sl_wireup_crep *a, enum wireup_use use,
		   uint8_t bytes[SL_PSK_MAC_LEN])
{
	static const char labels[][LABEL_LEN] = {
		[WIREUP_KEYS] = "sluice keys", [WIREUP_ACK] = "sluice ack"};
	uint8_t text[LABEL_LEN + SL_WIREUP_PROOF_LEN];

	memcpy(text, labels[use], LABEL_LEN);
	memcpy(text + LABEL_LEN, a->proof, SL_WIREUP_PROOF_LEN);
	sl_psk_mac(s, text, sizeof(text), bytes);
}

void wireup_nonce_draw(struct wireup_nonce *n)
{
	if (!n->drawn)
		n->drawn = sl_rand_bytes(n->bytes, sizeof(n->bytes)) == 0;
}

int wireup_nonce_take(struct wireup_nonce *n, uint8_t *to, size_t len)
{
	wireup_nonce_draw(n);
	if (!n->drawn)
		return -EIO;
	memcpy(to, n->bytes, len);
	n->drawn = false;
	return 0;
}
