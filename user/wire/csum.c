/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/csum.h"

/*
 * One body, compiled for each instruction set. It adds w and w >> 32 of each 64-bit word w. The sum
 * of the low halves is all - (high << 32), exact modulo 2^64.
 */
#define BODY static inline __attribute__((always_inline)) uint64_t

typedef uint64_t vec __attribute__((vector_size(32)));

enum {
	BLOCK = 2 * sizeof(vec),
	VECTOR_MIN = 4 * BLOCK, /* the sums of vectors take as long as adding so many words */
};
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "sum_bytes(), sum_end()");

BODY sum_lanes(const vec *all, const vec *high)
{
	uint64_t sum = 0;

	for (int i = 0; i < 4; i++)
		sum += sl_csum_reduce((*all)[i] - ((*high)[i] << 32)) + sl_csum_reduce((*high)[i]);
	return sum;
}

BODY sum_blocks(uint8_t *dst, const uint8_t *p, size_t blocks)
{
	vec all0 = {0}, all1 = {0}, high0 = {0}, high1 = {0}, w0, w1;

	for (; blocks; blocks--, p += BLOCK) {
		memcpy(&w0, p, sizeof(vec));
		memcpy(&w1, p + sizeof(vec), sizeof(vec));
		if (dst) {
			memcpy(dst, &w0, sizeof(vec));
			memcpy(dst + sizeof(vec), &w1, sizeof(vec));
			dst += BLOCK;
		}
		all0 += w0;
		all1 += w1;
		high0 += w0 >> 32;
		high1 += w1 >> 32;
	}
	return sum_lanes(&all0, &high0) + sum_lanes(&all1, &high1);
}

BODY sum_word(uint8_t *dst, const uint8_t *src, uint64_t sum)
{
	uint64_t word;

	memcpy(&word, src, sizeof(word));
	if (dst)
		memcpy(dst, &word, sizeof(word));
	return sl_csum_carry(sum, word);
}

BODY sum_words(uint8_t *dst, const uint8_t *p, size_t n, uint64_t sum)
{
	for (size_t i = 0; i < n; i++)
		sum = sum_word(dst ? dst + 8 * i : NULL, p + 8 * i, sum);
	return sum;
}

BODY sum_bytes(uint8_t *dst, const uint8_t *p, size_t len, uint64_t sum)
{
	uint64_t word = 0;

	for (size_t i = 0; i < len; i++)
		word |= (uint64_t)p[i] << 8 * i;
	for (size_t i = 0; dst && i < len; i++)
		dst[i] = p[i];
	return sl_csum_carry(sum, word);
}

BODY sum_end(uint8_t *dst_end, const uint8_t *end, size_t len, uint64_t sum)
{
	uint64_t word;

	memcpy(&word, end - sizeof(word), sizeof(word));
	if (dst_end)
		memcpy(dst_end - sizeof(word), &word, sizeof(word));
	return sl_csum_carry(sum, word >> 8 * (sizeof(word) - len));
}

BODY sum_tail(uint8_t *dst, const uint8_t *p, size_t len, bool has_word, uint64_t sum)
{
	for (; len >= 32; len -= 32, p += 32, dst = dst ? dst + 32 : NULL)
		sum = sum_words(dst, p, 4, sum);
	if (len & 16) {
		sum = sum_words(dst, p, 2, sum);
		p += 16;
		dst = dst ? dst + 16 : NULL;
	}
	if (len & 8) {
		sum = sum_words(dst, p, 1, sum);
		p += 8;
		dst = dst ? dst + 8 : NULL;
	}
	len &= 7;
	if (!len)
		return sum;
	return has_word ? sum_end(dst ? dst + len : NULL, p + len, len, sum)
			: sum_bytes(dst, p, len, sum);
}

BODY sum_any(uint8_t *dst, const uint8_t *p, size_t len, uint64_t sum)
{
	size_t bulk = len >= VECTOR_MIN ? len / BLOCK * BLOCK : 0;

	if (bulk)
		sum = sl_csum_carry(sum, sum_blocks(dst, p, bulk / BLOCK));
	sum = sum_tail(dst ? dst + bulk : NULL, p + bulk, len - bulk, len >= 8, sum);
	return sl_csum_reduce(sum);
}

#define VARIANT(suffix, ...)                                                                       \
	__VA_ARGS__ static uint64_t add_##suffix(const void *ptr, size_t len, uint64_t sum)        \
	{                                                                                          \
		return sum_any(NULL, ptr, len, sum);                                               \
	}                                                                                          \
	__VA_ARGS__ static uint64_t copy_##suffix(void *dst, const void *src, size_t len,          \
						  uint64_t sum)                                    \
	{                                                                                          \
		return sum_any(dst, src, len, sum);                                                \
	}

VARIANT(portable, )
static const struct sl_csum_ops portable = {"portable", add_portable, copy_portable};
static const struct sl_csum_ops *chosen = &portable;

#if defined(__x86_64__)
VARIANT(avx2, __attribute__((target("avx2"))))
static const struct sl_csum_ops avx2 = {"avx2", add_avx2, copy_avx2};

__attribute__((constructor)) static void choose_variant(void)
{
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx2"))
		chosen = &avx2;
}
#endif

const struct sl_csum_ops *sl_csum_ops_at(unsigned i)
{
	if (i == 0)
		return &portable;
	return i == 1 && chosen != &portable ? chosen : NULL;
}

const char *sl_csum_variant(void)
{
	return chosen->name;
}

uint64_t sl_csum_add(const void *ptr, size_t len, uint64_t sum)
{
	if (len < VECTOR_MIN)
		return sl_csum_reduce(sum_tail(NULL, ptr, len, len >= 8, sum));
	return chosen->add(ptr, len, sum);
}

uint64_t sl_csum_copy(void *dst, const void *src, size_t len, uint64_t sum)
{
	if (len < VECTOR_MIN)
		return sl_csum_reduce(sum_tail(dst, src, len, len >= 8, sum));
	return chosen->copy(dst, src, len, sum);
}
