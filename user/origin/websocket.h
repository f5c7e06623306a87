/* SPDX-License-Identifier: Apache-2.0 */
/* WebSocket keys (RFC 6455 1.3) for clients of HTTP/2, which have none (RFC 8441). */
#ifndef SL_ORIGIN_WEBSOCKET_H
#define SL_ORIGIN_WEBSOCKET_H

#include <stdbool.h>

enum { ORIGIN_WS_KEY = 24, ORIGIN_WS_ACCEPT = 28 };

/* Draws a key. Returns false without random bytes. */
bool origin_ws_key(char key[ORIGIN_WS_KEY + 1]);
/* Writes the Sec-WebSocket-Accept of a key. Returns false without memory. */
bool origin_ws_accept(const char key[ORIGIN_WS_KEY + 1], char accept[ORIGIN_WS_ACCEPT + 1]);

#endif
