/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Append-only text, NUL-terminated: in the caller's buffer, or growing up to a limit (control path
 * only). The first append that does not fit sets err, and later ones do nothing.
 */
#ifndef SL_BASE_STRBUF_H
#define SL_BASE_STRBUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

struct sl_strbuf {
	char *ptr;
	size_t len;   /* without the NUL */
	size_t cap;   /* of ptr, with the NUL */
	size_t limit; /* maximum of cap; 0: fixed buffer */
	int err;      /* 0, -ENOSPC (limit) or -ENOMEM */
};

/* Starts an empty text in a buffer (cap > 0), which stays the caller's. */
void sl_strbuf_fixed(struct sl_strbuf *b, char *buf, size_t cap);

/* Starts an empty text of at most `limit` bytes; sl_strbuf_fini() frees it. */
void sl_strbuf_grow(struct sl_strbuf *b, size_t limit);
/* Frees the text, unless fixed. */
void sl_strbuf_fini(struct sl_strbuf *b);

/* Empties the text and resets err; keeps the memory. */
void sl_strbuf_reset(struct sl_strbuf *b);

/* Append bytes or text. */
void sl_strbuf_add(struct sl_strbuf *b, const void *ptr, size_t len);
void sl_strbuf_str(struct sl_strbuf *b, const char *s);
void sl_strbuf_char(struct sl_strbuf *b, char c);
void sl_strbuf_printf(struct sl_strbuf *b, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void sl_strbuf_vprintf(struct sl_strbuf *b, const char *fmt, va_list ap)
	__attribute__((format(printf, 2, 0)));

/* Appends a quoted JSON string; invalid UTF-8 becomes U+FFFD. */
void sl_strbuf_json_str(struct sl_strbuf *b, struct sl_span s);

/* Returns a view of the text, valid until it changes. */
static inline struct sl_span sl_strbuf_span(const struct sl_strbuf *b)
{
	return sl_span_of(b->ptr, b->len);
}

/* Returns the text, never NULL, valid until it changes. */
static inline const char *sl_strbuf_cstr(const struct sl_strbuf *b)
{
	return b->ptr ? b->ptr : "";
}

#endif
