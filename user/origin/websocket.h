/* SPDX-License-Identifier: Apache-2.0 */
/* WebSocket handshake (RFC 6455 1.3) for clients of HTTP/2, which have no keys (RFC 8441). */
#ifndef SL_ORIGIN_WEBSOCKET_H
#define SL_ORIGIN_WEBSOCKET_H

#include <stdbool.h>

enum { ORIGIN_WS_KEY = 24, ORIGIN_WS_ACCEPT = 28 };

/* Writes a random Sec-WebSocket-Key. Returns false without random bytes. */
bool origin_ws_key(char key[ORIGIN_WS_KEY + 1]);
/* Computes Sec-WebSocket-Accept for a key. Returns false without memory. */
bool origin_ws_accept(const char key[ORIGIN_WS_KEY + 1], char accept[ORIGIN_WS_ACCEPT + 1]);

#endif
