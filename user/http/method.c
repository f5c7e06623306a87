/* SPDX-License-Identifier: Apache-2.0 */
#include "http/method.h"

#include <string.h>

static const struct {
	struct sl_span name;
	bool idempotent;
} methods[SL_METHOD_CNT] = {
	[SL_METHOD_OTHER] = {SL_SPAN_LIT(""), false},
	[SL_METHOD_GET] = {SL_SPAN_LIT("GET"), true},
	[SL_METHOD_HEAD] = {SL_SPAN_LIT("HEAD"), true},
	[SL_METHOD_POST] = {SL_SPAN_LIT("POST"), false},
	[SL_METHOD_PUT] = {SL_SPAN_LIT("PUT"), true},
	[SL_METHOD_DELETE] = {SL_SPAN_LIT("DELETE"), true},
	[SL_METHOD_OPTIONS] = {SL_SPAN_LIT("OPTIONS"), true},
	[SL_METHOD_PATCH] = {SL_SPAN_LIT("PATCH"), false},
	[SL_METHOD_CONNECT] = {SL_SPAN_LIT("CONNECT"), false},
	[SL_METHOD_TRACE] = {SL_SPAN_LIT("TRACE"), true},
};

enum sl_method sl_method_parse(struct sl_span name)
{
	for (unsigned m = SL_METHOD_GET; m < SL_METHOD_CNT; m++) {
		if (name.len == methods[m].name.len && name.ptr[0] == methods[m].name.ptr[0] &&
		    sl_span_eq(name, methods[m].name))
			return (enum sl_method)m;
	}
	return SL_METHOD_OTHER;
}

const char *sl_method_name(enum sl_method m)
{
	return (unsigned)m < SL_METHOD_CNT ? (const char *)methods[m].name.ptr : "";
}

bool sl_method_idempotent(enum sl_method m)
{
	return (unsigned)m < SL_METHOD_CNT && methods[m].idempotent;
}

size_t sl_methods_text(char to[SL_METHODS_TEXT], uint32_t set)
{
	size_t len = 0;

	for (unsigned m = SL_METHOD_GET; m < SL_METHOD_CNT; m++) {
		if (!(set & 1u << m))
			continue;
		if (len) {
			memcpy(to + len, ", ", 2);
			len += 2;
		}
		memcpy(to + len, methods[m].name.ptr, methods[m].name.len);
		len += methods[m].name.len;
	}
	return len;
}
