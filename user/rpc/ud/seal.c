/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/ud/seal.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stddef.h>
#include <string.h>

enum { LABEL_LEN = 24 };

/* Label, HELLO up to its proof, and with an ANSWER that up to its own. */
static int compute(const struct sl_secret *s, const char *label, const struct sl_ud_hello *h,
		   const struct sl_ud_answer *a, uint8_t out[SL_UD_PROOF_LEN])
{
	uint8_t text[LABEL_LEN + sizeof(*h) + sizeof(*a)] = {0};
	size_t len = LABEL_LEN + offsetof(struct sl_ud_hello, proof);

	memcpy(text, label, strlen(label));
	memcpy(text + LABEL_LEN, h, offsetof(struct sl_ud_hello, proof));
	if (a) {
		memcpy(text + len, a, offsetof(struct sl_ud_answer, proof));
		len += offsetof(struct sl_ud_answer, proof);
	}
	return sl_secret_mac(s, text, len, out);
}

int ud_hello_prove(const struct sl_secret *s, struct sl_ud_hello *h)
{
	return compute(s, "sluice ud hello", h, NULL, h->proof);
}

int ud_answer_prove(const struct sl_secret *s, const struct sl_ud_hello *h, struct sl_ud_answer *a)
{
	return compute(s, "sluice ud answer", h, a, a->proof);
}

bool ud_hello_proven(const struct sl_secret *s, const struct sl_ud_hello *h)
{
	uint8_t want[SL_UD_PROOF_LEN];

	return compute(s, "sluice ud hello", h, NULL, want) == 0 &&
	       CRYPTO_memcmp(want, h->proof, sizeof(want)) == 0;
}

bool ud_answer_proven(const struct sl_secret *s, const struct sl_ud_hello *h,
		      const struct sl_ud_answer *a)
{
	uint8_t want[SL_UD_PROOF_LEN];

	return compute(s, "sluice ud answer", h, a, want) == 0 &&
	       CRYPTO_memcmp(want, a->proof, sizeof(want)) == 0;
}

int ud_keys_derive(const struct sl_secret *s, const struct sl_ud_hello *h,
		   const struct sl_ud_answer *a, bool dialler, struct ud_keys *keys)
{
	uint8_t both[SL_UD_PROOF_LEN];
	struct sl_sipkey from_dialler, to_dialler;

	if (compute(s, "sluice ud keys", h, a, both))
		return -EIO;
	from_dialler = sl_sipkey_from(both);
	to_dialler = sl_sipkey_from(both + 16);
	keys->out = dialler ? from_dialler : to_dialler;
	keys->in = dialler ? to_dialler : from_dialler;
	OPENSSL_cleanse(both, sizeof(both));
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
