/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handshake of WebSocket (RFC 6455 1.3), for a client of HTTP/2, whose own has no keys (RFC 8441).
 */
#ifndef SL_AGENT_WEBSOCKET_H
#define SL_AGENT_WEBSOCKET_H

#include <stdbool.h>

enum { AGENT_WS_KEY = 24, AGENT_WS_ACCEPT = 28 };

/* A random one, NUL-terminated. False: the kernel gives no random bytes. */
bool agent_ws_key(char key[AGENT_WS_KEY + 1]);
/* What a server has to say to a key; false: no memory. */
bool agent_ws_accept(const char key[AGENT_WS_KEY + 1], char accept[AGENT_WS_ACCEPT + 1]);

#endif
