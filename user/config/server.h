/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a server is that knows nothing of sluice: an agent stands in front of it.
 *
 *   http://127.0.0.1:8000     HTTP/1.1 over TCP; 80 is the port that may be left out
 *   h2c://[::1]:50051         HTTP/2 without TLS, with gRPC
 *   http+unix:///run/x.sock   the same over a Unix socket; h2c+unix
 */
#ifndef SL_CONFIG_SERVER_H
#define SL_CONFIG_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sl_cfg_backend;

enum sl_server_proto { SL_SERVER_HTTP1, SL_SERVER_H2C };

struct sl_server_url {
	uint8_t proto; /* enum sl_server_proto */
	bool local;    /* `path` is a Unix socket */
	uint16_t port;
	char host[254]; /* a name or an address, IPv6 without brackets */
	char path[108];
};

/* Returns false if the text is none of these. */
bool sl_server_url_parse(const char *text, struct sl_server_url *out);
/* NAME, NAME:PORT, an address or [IPV6]:PORT. */
bool sl_server_authority_ok(const char *text);
/* Returns true if one of the gateway's own agents serves this backend. */
bool sl_server_is(const struct sl_cfg_backend *b);

/* Sets the folder of the agents' sockets. Called once, before there are threads. */
void sl_server_folder_set(const char *folder);
enum { SL_SERVER_ENDPOINT_LEN = 120 };
#define SL_SERVER_ANY_AGENT UINT32_MAX /* a "*" for its number */
void sl_server_endpoint(char out[SL_SERVER_ENDPOINT_LEN], uint32_t agent, const char *pool,
			const struct sl_cfg_backend *b);

#endif
