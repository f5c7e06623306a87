/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_HTTP_CHARS_H
#define SL_HTTP_CHARS_H

#include <stdbool.h>
#include <stdint.h>

/* Character classes of HTTP, by byte. */
enum {
	SL_CT_TOKEN = 1 << 0,  /* RFC 9110 5.6.2 */
	SL_CT_VALUE = 1 << 1,  /* field value: no control byte except TAB */
	SL_CT_TARGET = 1 << 2, /* as browsers send it, beyond RFC 3986 */
	SL_CT_HOST = 1 << 3,   /* registered name or IPv4 address */
	SL_CT_HEX = 1 << 4,
};
extern const uint8_t sl_http_ctype[256];

/* Returns true if the byte is in the class (bits). */
static inline bool sl_http_is(uint8_t c, uint8_t class)
{
	return sl_http_ctype[c] & class;
}

#endif
