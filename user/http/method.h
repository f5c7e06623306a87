/* SPDX-License-Identifier: Apache-2.0 */
/* Request methods (RFC 9110 9, RFC 5789). */
#ifndef SL_HTTP_METHOD_H
#define SL_HTTP_METHOD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/bytes.h"

enum sl_method {
	SL_METHOD_OTHER,
	SL_METHOD_GET,
	SL_METHOD_HEAD,
	SL_METHOD_POST,
	SL_METHOD_PUT,
	SL_METHOD_DELETE,
	SL_METHOD_OPTIONS,
	SL_METHOD_PATCH,
	SL_METHOD_CONNECT,
	SL_METHOD_TRACE,
	SL_METHOD_CNT,
};

/* Returns the method, case-sensitive, or SL_METHOD_OTHER. */
enum sl_method sl_method_parse(struct sl_span name);
/* Returns the name; "" for OTHER. */
const char *sl_method_name(enum sl_method m);
/* Returns true for an idempotent method (RFC 9110 9.2.2). */
bool sl_method_idempotent(enum sl_method m);
/* Formats a set of bits of enum sl_method as "GET, HEAD"; returns the length. */
enum { SL_METHODS_TEXT = 80 };
size_t sl_methods_text(char to[SL_METHODS_TEXT], uint32_t methods);
#define SL_METHODS_SERVED                                                                          \
	(1u << SL_METHOD_GET | 1u << SL_METHOD_HEAD | 1u << SL_METHOD_POST | 1u << SL_METHOD_PUT | \
	 1u << SL_METHOD_DELETE | 1u << SL_METHOD_OPTIONS | 1u << SL_METHOD_PATCH)

#endif
