/* SPDX-License-Identifier: Apache-2.0 */
#include "base/siphash.h"

#include "base/bytes.h"

struct sl_sipkey sl_sipkey_from(const uint8_t bytes[16])
{
	return (struct sl_sipkey){.k0 = sl_get_le64(bytes), .k1 = sl_get_le64(bytes + 8)};
}

static inline void absorb(struct sl_sipstate *s, uint64_t word, int rounds)
{
	s->v3 ^= word;
	for (int i = 0; i < rounds; i++)
		sl_sip_round(s);
	s->v0 ^= word;
}

static inline __attribute__((always_inline)) uint64_t
hash_bytes(const struct sl_sipkey *key, const uint8_t *p, size_t len, int c_rounds, int d_rounds)
{
	uint64_t last = (uint64_t)len << 56;
	struct sl_sipstate s;

	sl_sip_init(&s, key);
	for (; len >= 8; p += 8, len -= 8)
		absorb(&s, sl_get_le64(p), c_rounds);
	for (size_t i = 0; i < len; i++)
		last |= (uint64_t)p[i] << (8 * i);
	absorb(&s, last, c_rounds);
	s.v2 ^= 0xff;
	for (int i = 0; i < d_rounds; i++)
		sl_sip_round(&s);
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

uint64_t sl_siphash24(const struct sl_sipkey *key, const void *ptr, size_t len)
{
	return hash_bytes(key, ptr, len, 2, 4);
}

uint64_t sl_siphash13(const struct sl_sipkey *key, const void *ptr, size_t len)
{
	return hash_bytes(key, ptr, len, 1, 3);
}
