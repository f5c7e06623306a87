/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PROXY protocol, versions 1 and 2: a load balancer sends its client's address before the first
 * byte ("The PROXY protocol", HAProxy, 2020/03/05).
 *
 * The header is accepted only from addresses that the listener names, and required from these. Its
 * source becomes the peer of the connection; the local address is unchanged.
 */
#ifndef SL_FRONT_PROXY_H
#define SL_FRONT_PROXY_H

#include "base/bytes.h"
#include "base/mempool.h"
#include "front/conn.h"

enum {
	/* Version 1 has at most 107 bytes; version 2 is 216 and some TLVs in practice. */
	SL_PROXY_HEADER_MAX = 1024,
};

struct sl_proxy_header {
	struct sl_addr source, destination;
	bool told; /* false (LOCAL, UNKNOWN, no IP): use own addresses */
};

/* Returns the header's length, 0 if incomplete, or -1 if malformed. */
int sl_proxy_parse(struct sl_span bytes, struct sl_proxy_header *out);

struct sl_proxy_env {
	struct sl_mempool filters;
	struct sl_mempool heads;
	uint64_t *headers, *malformed;
};

/* Initialises for `conns` connections. Returns 0 or -errno. */
int sl_proxy_env_init(struct sl_proxy_env *env, uint32_t conns, uint64_t *headers,
		      uint64_t *malformed);
void sl_proxy_env_fini(struct sl_proxy_env *env);

/* Adds the filter to a connection. Returns NULL without memory. */
struct sl_filter *sl_proxy_open(struct sl_proxy_env *env, struct sl_conn transport);
/* Frees a filter without a layer above. */
SL_COLD void sl_proxy_drop(struct sl_filter *f);

#endif
