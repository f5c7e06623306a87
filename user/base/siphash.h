/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SipHash (Aumasson, Bernstein 2012): no collisions for peers that do not know the key. SipHash-2-4
 * for values that are verified later (cookies, sequence numbers), 1-3 for hash tables.
 */
#ifndef SL_BASE_SIPHASH_H
#define SL_BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

/* Two little-endian words; from sl_rand_bytes(). */
struct sl_sipkey {
	uint64_t k0;
	uint64_t k1;
};

/* Reads a key of 16 random bytes. */
struct sl_sipkey sl_sipkey_from(const uint8_t bytes[16]);

/* Hashes bytes by SipHash-2-4. */
uint64_t sl_siphash24(const struct sl_sipkey *key, const void *ptr, size_t len);

struct sl_sipstate {
	uint64_t v0, v1, v2, v3;
};

/* Parts of SipHash, for siphash.c and the functions below. */
static inline uint64_t sl_rotl64(uint64_t x, unsigned n)
{
	return x << n | x >> (64 - n);
}
static inline void sl_sip_init(struct sl_sipstate *s, const struct sl_sipkey *key)
{
	s->v0 = key->k0 ^ UINT64_C(0x736f6d6570736575);
	s->v1 = key->k1 ^ UINT64_C(0x646f72616e646f6d);
	s->v2 = key->k0 ^ UINT64_C(0x6c7967656e657261);
	s->v3 = key->k1 ^ UINT64_C(0x7465646279746573);
}
static inline void sl_sip_round(struct sl_sipstate *s)
{
	s->v0 += s->v1;
	s->v2 += s->v3;
	s->v1 = sl_rotl64(s->v1, 13) ^ s->v0;
	s->v3 = sl_rotl64(s->v3, 16) ^ s->v2;
	s->v0 = sl_rotl64(s->v0, 32) + s->v3;
	s->v2 += s->v1;
	s->v3 = sl_rotl64(s->v3, 21) ^ s->v0;
	s->v1 = sl_rotl64(s->v1, 17) ^ s->v2;
	s->v2 = sl_rotl64(s->v2, 32);
}

/* Hashes the little-endian bytes of n words by SipHash-1-3. */
static inline uint64_t sl_siphash13_words(const struct sl_sipkey *key, const uint64_t *w, size_t n)
{
	struct sl_sipstate s;
	uint64_t last = (uint64_t)n << 59;

	sl_sip_init(&s, key);
	for (size_t i = 0; i < n; i++) {
		s.v3 ^= w[i];
		sl_sip_round(&s);
		s.v0 ^= w[i];
	}
	s.v3 ^= last;
	sl_sip_round(&s);
	s.v0 ^= last;
	s.v2 ^= 0xff;
	for (int i = 0; i < 3; i++)
		sl_sip_round(&s);
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

#endif
