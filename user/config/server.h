/* SPDX-License-Identifier: Apache-2.0 */
/*
 * URL of an unmodified server, behind an agent of the gateway.
 *
 *   http://127.0.0.1:8000     HTTP/1.1 over TCP; default port 80
 *   h2c://[::1]:50051         HTTP/2 without TLS, with gRPC
 *   https://a.example         HTTP/1.1 over TLS 1.3; default port 443
 *   h2://a.example            HTTP/2 over TLS 1.3, with gRPC
 *   http+unix:///run/x.sock   the first over a Unix socket; h2c+unix
 */
#ifndef SL_CONFIG_SERVER_H
#define SL_CONFIG_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sl_addr;
struct sl_cfg_backend;

enum sl_server_proto { SL_SERVER_HTTP1, SL_SERVER_H2 };

struct sl_server_url {
	uint8_t proto; /* enum sl_server_proto */
	bool local;    /* `path` is a Unix socket */
	bool tls;
	uint16_t port;
	char host[254]; /* a name or an address, IPv6 without brackets */
	char path[108];
};

/* Returns false if `text` is no such URL. */
bool sl_server_url_parse(const char *text, struct sl_server_url *out);
/* Accepts NAME, NAME:PORT, an address or [IPV6]:PORT. */
bool sl_server_authority_ok(const char *text);
/* Accepts a host name, or an address without brackets. */
bool sl_server_name_ok(const char *text);
/* Returns true if the backend's URL has TLS. */
bool sl_server_has_tls(const struct sl_cfg_backend *b);
/* Returns true if its URL is of HTTP/2. */
bool sl_server_is_h2(const struct sl_cfg_backend *b);
/* Returns true if this backend is an unmodified server. */
bool sl_server_is(const struct sl_cfg_backend *b);

/* Sets the folder of the agents' sockets. Called once, before there are threads. */
void sl_server_folder_set(const char *folder);
enum { SL_SERVER_ENDPOINT_LEN = 120 };
#define SL_SERVER_ANY_AGENT UINT32_MAX /* writes "*" */
/* Returns true, and the address, for http:// and h2c://ADDRESS:PORT. */
bool sl_server_at(const struct sl_cfg_backend *b, struct sl_addr *at);
/* Writes the endpoint of a server's agent; for SL_VIA_STACK `agent` is a worker. */
void sl_server_endpoint(char out[SL_SERVER_ENDPOINT_LEN], uint32_t agent, const char *pool,
			const struct sl_cfg_backend *b);

#endif
