/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/csum.h"

/*
 * One body, compiled for each instruction set. It adds w and w >> 32 of each 64-bit word w. The sum
 * of the low halves is all - (high << 32), exact modulo 2^64.
 */
#define BODY static inline __attribute__((always_inline)) uint64_t

typedef uint64_t vec __attribute__((vector_size(32)));

enum { BLOCK = 2 * sizeof(vec) };

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

/* A zero follows an odd last byte, in memory order. */
BODY sum_tail(uint8_t *dst, const uint8_t *p, size_t len)
{
	uint64_t sum = 0, word;
	size_t off = 0;

	for (; off + 8 <= len; off += 8) {
		memcpy(&word, p + off, 8);
		if (dst)
			memcpy(dst + off, &word, 8);
		sum += sl_csum_reduce(word);
	}
	word = 0;
	if (len & 4) {
		uint32_t w4;

		memcpy(&w4, p + off, 4);
		if (dst)
			memcpy(dst + off, &w4, 4);
		sum += w4;
		off += 4;
	}
	if (len & 2) {
		uint16_t w2;

		memcpy(&w2, p + off, 2);
		if (dst)
			memcpy(dst + off, &w2, 2);
		sum += w2;
		off += 2;
	}
	if (len & 1) {
		memcpy(&word, p + off, 1);
		if (dst)
			dst[off] = p[off];
		sum += word;
	}
	return sum;
}

BODY sum_any(uint8_t *dst, const uint8_t *p, size_t len, uint64_t sum)
{
	size_t blocks = len / BLOCK;

	sum = sl_csum_reduce(sum);
	if (blocks)
		sum += sum_blocks(dst, p, blocks);
	sum += sum_tail(dst ? dst + blocks * BLOCK : NULL, p + blocks * BLOCK, len % BLOCK);
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

/* Short input needs neither vectors nor an indirect call. */
uint64_t sl_csum_add(const void *ptr, size_t len, uint64_t sum)
{
	if (len < BLOCK)
		return sl_csum_reduce(sl_csum_reduce(sum) + sum_tail(NULL, ptr, len));
	return chosen->add(ptr, len, sum);
}

uint64_t sl_csum_copy(void *dst, const void *src, size_t len, uint64_t sum)
{
	return chosen->copy(dst, src, len, sum);
}
