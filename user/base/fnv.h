/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FNV-1a, for keys that no peer chooses (else siphash.h). A hash begins with SL_FNV32 or SL_FNV64.
 */
#ifndef SL_BASE_FNV_H
#define SL_BASE_FNV_H

#include <stddef.h>
#include <stdint.h>

#define SL_FNV32 UINT32_C(2166136261)
#define SL_FNV64 UINT64_C(14695981039346656037)

/* Return the hash `h` continued by bytes. */
static inline uint32_t sl_fnv32_byte(uint32_t h, uint8_t c)
{
	return (h ^ c) * UINT32_C(16777619);
}
static inline uint32_t sl_fnv32(uint32_t h, const void *bytes, size_t len)
{
	for (const uint8_t *b = bytes; len; b++, len--)
		h = sl_fnv32_byte(h, *b);
	return h;
}
static inline uint64_t sl_fnv64(uint64_t h, const void *bytes, size_t len)
{
	/* The analyzer does not know bytes of wider integers. */
	for (const uint8_t *b = bytes; len; b++, len--)
		h = (h ^ *b) * UINT64_C(1099511628211); /* NOLINT(clang-analyzer-core.*) */
	return h;
}

#endif
