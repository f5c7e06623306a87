/* SPDX-License-Identifier: Apache-2.0 */
#include "base/siphash.h"

#include "base/bytes.h"

struct sl_sipkey sl_sipkey_from(const uint8_t bytes[16])
{
	return (struct sl_sipkey){.k0 = sl_get_le64(bytes), .k1 = sl_get_le64(bytes + 8)};
}

static inline void absorb_word(struct sl_sipstate *s, uint64_t word)
{
	s->v3 ^= word;
	sl_sip_round(s);
	sl_sip_round(s);
	s->v0 ^= word;
}

uint64_t sl_siphash24(const struct sl_sipkey *key, const void *ptr, size_t len)
{
	uint64_t last = (uint64_t)len << 56;
	const uint8_t *p = ptr;
	struct sl_sipstate s;

	sl_sip_init(&s, key);
	for (; len >= 8; p += 8, len -= 8)
		absorb_word(&s, sl_get_le64(p));
	for (size_t i = 0; i < len; i++)
		last |= (uint64_t)p[i] << (8 * i);
	absorb_word(&s, last);
	s.v2 ^= 0xff;
	for (int i = 0; i < 4; i++)
		sl_sip_round(&s);
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}
