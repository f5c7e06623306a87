/* SPDX-License-Identifier: Apache-2.0 */
/* WebSocket handshake (RFC 6455 1.3) for clients of HTTP/2, which have no keys (RFC 8441). */
#ifndef SL_AGENT_WEBSOCKET_H
#define SL_AGENT_WEBSOCKET_H

#include <stdbool.h>

enum { AGENT_WS_KEY = 24, AGENT_WS_ACCEPT = 28 };

/* Writes a random Sec-WebSocket-Key. Returns false without random bytes. */
bool agent_ws_key(char key[AGENT_WS_KEY + 1]);
/* Computes Sec-WebSocket-Accept for a key. Returns false without memory. */
bool agent_ws_accept(const char key[AGENT_WS_KEY + 1], char accept[AGENT_WS_ACCEPT + 1]);

#endif
