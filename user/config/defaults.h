/* SPDX-License-Identifier: Apache-2.0 */
/* Defaults that modules also use without a file, as numbers in the unit of their names. */
#ifndef SL_CONFIG_DEFAULTS_H
#define SL_CONFIG_DEFAULTS_H

#define SL_DEFAULT_MAX_CONNECTIONS 65536
#define SL_DEFAULT_MAX_HALF_OPEN   4096
#define SL_DEFAULT_MAX_EXCHANGES   16384
#define SL_DEFAULT_KEEPALIVE_S     120
#define SL_DEFAULT_MAX_HEAD_KIB    16
#define SL_DEFAULT_MAX_TARGET_KIB  8
#define SL_DEFAULT_MAX_HEADERS     100
#define SL_DEFAULT_MAX_PIPELINE    32
#define SL_DEFAULT_MAX_STREAMS     128
#define SL_DEFAULT_MAX_BODY_MIB    16
#define SL_DEFAULT_MAX_MESSAGE_MIB 64

/* Capacity of the parsers, besides the four pseudo-header fields of HTTP/2. */
#define SL_MAX_HEADERS_LIMIT 124

#define SL_DEFAULT_TEXT(number)  SL_DEFAULT_TEXT_(number)
#define SL_DEFAULT_TEXT_(number) #number

#endif
