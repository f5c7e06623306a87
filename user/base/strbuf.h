/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Append-only text builder: fixed (the caller's buffer), or growing up to a limit (control path
 * only). The text is always NUL-terminated. The first append that does not fit sets err, and later
 * ones do nothing.
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

/* The buffer (cap > 0) stays the caller's. */
void sl_strbuf_fixed(struct sl_strbuf *b, char *buf, size_t cap);

/* Begins an empty text that allocates up to `limit` bytes. */
void sl_strbuf_grow(struct sl_strbuf *b, size_t limit);

/* Frees allocated memory. */
void sl_strbuf_fini(struct sl_strbuf *b);

/* Keeps the memory. */
void sl_strbuf_reset(struct sl_strbuf *b);

/* Append to the text; a failure sets err. */
void sl_strbuf_add(struct sl_strbuf *b, const void *ptr, size_t len);
void sl_strbuf_str(struct sl_strbuf *b, const char *s);
void sl_strbuf_char(struct sl_strbuf *b, char c);
void sl_strbuf_printf(struct sl_strbuf *b, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void sl_strbuf_vprintf(struct sl_strbuf *b, const char *fmt, va_list ap)
	__attribute__((format(printf, 2, 0)));

/*
 * Appends a JSON string with quotes. Escapes control characters and replaces invalid UTF-8 by
 * U+FFFD.
 */
void sl_strbuf_json_str(struct sl_strbuf *b, struct sl_span s);

static inline struct sl_span sl_strbuf_span(const struct sl_strbuf *b)
{
	return sl_span_of(b->ptr, b->len);
}

/* Never NULL. */
static inline const char *sl_strbuf_cstr(const struct sl_strbuf *b)
{
	return b->ptr ? b->ptr : "";
}

#endif
