/* SPDX-License-Identifier: Apache-2.0 */
#include "base/strbuf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { FIRST_CAP = 256 };

void sl_strbuf_fixed(struct sl_strbuf *b, char *buf, size_t cap)
{
	*b = (struct sl_strbuf){.ptr = buf, .cap = cap};
	buf[0] = '\0';
}

void sl_strbuf_grow(struct sl_strbuf *b, size_t limit)
{
	*b = (struct sl_strbuf){.limit = limit ? limit : 1};
}

void sl_strbuf_fini(struct sl_strbuf *b)
{
	if (b->limit)
		free(b->ptr);
	*b = (struct sl_strbuf){0};
}

void sl_strbuf_reset(struct sl_strbuf *b)
{
	b->len = 0;
	b->err = 0;
	if (b->ptr)
		b->ptr[0] = '\0';
}

static int grow_to(struct sl_strbuf *b, size_t need)
{
	size_t cap = b->cap ? b->cap : FIRST_CAP;
	char *p;

	if (need > b->limit)
		return -ENOSPC;
	while (cap < need)
		cap = cap > b->limit / 2 ? b->limit : cap * 2;
	if (cap > b->limit)
		cap = b->limit;
	p = realloc(b->ptr, cap);
	if (!p)
		return -ENOMEM;
	b->ptr = p;
	b->cap = cap;
	return 0;
}

static bool reserve_bytes(struct sl_strbuf *b, size_t n)
{
	if (b->err)
		return false;
	if (n < b->cap - b->len)
		return true;
	b->err = n > SIZE_MAX - b->len - 1 ? -ENOSPC : grow_to(b, b->len + n + 1);
	return b->err == 0;
}

void sl_strbuf_add(struct sl_strbuf *b, const void *ptr, size_t len)
{
	if (!len || !reserve_bytes(b, len))
		return;
	memcpy(b->ptr + b->len, ptr, len);
	b->len += len;
	b->ptr[b->len] = '\0';
}

void sl_strbuf_str(struct sl_strbuf *b, const char *s)
{
	sl_strbuf_add(b, s, strlen(s));
}

void sl_strbuf_char(struct sl_strbuf *b, char c)
{
	sl_strbuf_add(b, &c, 1);
}

void sl_strbuf_vprintf(struct sl_strbuf *b, const char *fmt, va_list ap)
{
	va_list again;
	int n;

	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, ap);
	if (n > 0 && reserve_bytes(b, (size_t)n)) {
		vsnprintf(b->ptr + b->len, (size_t)n + 1, fmt, again);
		b->len += (size_t)n;
	}
	va_end(again);
}

void sl_strbuf_printf(struct sl_strbuf *b, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	sl_strbuf_vprintf(b, fmt, ap);
	va_end(ap);
}

static size_t utf8_len(const uint8_t *p, size_t left)
{
	static const struct {
		uint8_t first_min, first_max, second_min, second_max, len;
	} forms[] = {
		{0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
		{0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3},
		{0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
		{0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
	};

	if (p[0] < 0x80)
		return 1;
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		if (p[0] < forms[i].first_min || p[0] > forms[i].first_max)
			continue;
		if (left < forms[i].len || p[1] < forms[i].second_min || p[1] > forms[i].second_max)
			return 0;
		for (size_t k = 2; k < forms[i].len; k++) {
			if ((p[k] & 0xc0) != 0x80)
				return 0;
		}
		return forms[i].len;
	}
	return 0;
}

static size_t json_char(struct sl_strbuf *b, const uint8_t *p, size_t left)
{
	size_t n = utf8_len(p, left);

	if (n == 0) {
		sl_strbuf_str(b, "\xef\xbf\xbd");
		return 1;
	}
	if (*p == '"' || *p == '\\')
		sl_strbuf_char(b, '\\');
	if (*p < 0x20 || *p == 0x7f)
		sl_strbuf_printf(b, "\\u%04x", *p);
	else
		sl_strbuf_add(b, p, n);
	return n;
}

void sl_strbuf_json_str(struct sl_strbuf *b, struct sl_span s)
{
	sl_strbuf_char(b, '"');
	while (s.len)
		s = sl_span_skip(s, json_char(b, s.ptr, s.len));
	sl_strbuf_char(b, '"');
}
