/* SPDX-License-Identifier: Apache-2.0 */
/* Byte spans, without ownership, and unaligned little/big-endian access. */
#ifndef SL_BASE_BYTES_H
#define SL_BASE_BYTES_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * Marks large, partly filled locals of the data path. Builds clear all others
 * (-ftrivial-auto-var-init).
 */
#define SL_UNINIT __attribute__((uninitialized))

/* Bytes of another owner. An empty span may have a NULL pointer. */
struct sl_span {
	const uint8_t *ptr;
	size_t len;
};

struct sl_mspan {
	uint8_t *ptr;
	size_t len;
};

/* Return a view of the caller's bytes. */
static inline struct sl_span sl_span_of(const void *ptr, size_t len)
{
	return (struct sl_span){.ptr = ptr, .len = len};
}
static inline struct sl_mspan sl_mspan_of(void *ptr, size_t len)
{
	return (struct sl_mspan){.ptr = ptr, .len = len};
}

#define SL_SPAN_LIT(lit)                                                                           \
	{                                                                                          \
		.ptr = (const uint8_t *)("" lit), .len = sizeof(lit) - 1                           \
	}
#define sl_span_str(lit) ((struct sl_span)SL_SPAN_LIT(lit))

/* Returns a view of a string, without its NUL. */
static inline struct sl_span sl_span_cstr(const char *s)
{
	return sl_span_of(s, strlen(s));
}

/* Returns true for equal bytes. */
static inline bool sl_span_eq(struct sl_span a, struct sl_span b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

/* Returns c in lower case; A to Z only. */
static inline uint8_t sl_ascii_lower(uint8_t c)
{
	return (uint8_t)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
}

/* Returns true for equal bytes, but for the case of ASCII letters. */
static inline bool sl_span_eq_nocase(struct sl_span a, struct sl_span b)
{
	if (a.len != b.len)
		return false;
	for (size_t i = 0; i < a.len; i++) {
		if (sl_ascii_lower(a.ptr[i]) != sl_ascii_lower(b.ptr[i]))
			return false;
	}
	return true;
}

/* Returns true if `s` begins with `prefix`. */
static inline bool sl_span_starts(struct sl_span s, struct sl_span prefix)
{
	return s.len >= prefix.len &&
	       (prefix.len == 0 || memcmp(s.ptr, prefix.ptr, prefix.len) == 0);
}

/* Returns s without its first n bytes; empty if s is shorter. */
static inline struct sl_span sl_span_skip(struct sl_span s, size_t n)
{
	if (n > s.len)
		n = s.len;
	return s.ptr ? sl_span_of(s.ptr + n, s.len - n) : s;
}

/* Returns the first n bytes, or all. */
static inline struct sl_span sl_span_first(struct sl_span s, size_t n)
{
	return sl_span_of(s.ptr, n < s.len ? n : s.len);
}

/*
 * Takes the next element off a comma-separated list (RFC 9110 5.6.1), trimmed; may be empty.
 * Returns false at the end.
 */
static inline bool sl_span_next_element(struct sl_span *list, struct sl_span *element)
{
	const uint8_t *comma;
	struct sl_span e;

	if (!list->len)
		return false;
	comma = (const uint8_t *)memchr(list->ptr, ',', list->len);
	e = sl_span_first(*list, comma ? (size_t)(comma - list->ptr) : list->len);
	*list = sl_span_skip(*list, e.len + 1);
	while (e.len && (*e.ptr == ' ' || *e.ptr == '\t'))
		e = sl_span_skip(e, 1);
	while (e.len && (e.ptr[e.len - 1] == ' ' || e.ptr[e.len - 1] == '\t'))
		e.len--;
	*element = e;
	return true;
}

/* sl_get_le32(p), sl_put_le32(p, v) and so on. */
#define SL_BYTES_ACCESS(order, bits)                                                               \
	static inline uint##bits##_t sl_get_##order##bits(const void *p)                           \
	{                                                                                          \
		uint##bits##_t v;                                                                  \
		memcpy(&v, p, sizeof(v));                                                          \
		return order##bits##toh(v);                                                        \
	}                                                                                          \
	static inline void sl_put_##order##bits(void *p, uint##bits##_t v)                         \
	{                                                                                          \
		v = hto##order##bits(v);                                                           \
		memcpy(p, &v, sizeof(v));                                                          \
	}

/* sl_get_be24() reads 24 bits. */
SL_BYTES_ACCESS(le, 16)
SL_BYTES_ACCESS(le, 32)
SL_BYTES_ACCESS(le, 64)
SL_BYTES_ACCESS(be, 16)
SL_BYTES_ACCESS(be, 32)
SL_BYTES_ACCESS(be, 64)

static inline uint32_t sl_get_be24(const void *p)
{
	const uint8_t *b = p;

	return (uint32_t)b[0] << 16 | (uint32_t)b[1] << 8 | b[2];
}

#endif
