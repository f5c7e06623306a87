/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PROXY protocol, versions 1 and 2 ("The PROXY protocol", HAProxy, 2020/03/05).
 *
 * The header is required from addresses that the listener names, and accepted only from them. Its
 * source becomes the peer.
 */
#ifndef SL_FRONT_PROXY_H
#define SL_FRONT_PROXY_H

#include "base/bytes.h"
#include "base/mempool.h"
#include "front/conn.h"

enum {
	/* Version 1 has at most 107 bytes; version 2 has 216 and TLVs. */
	SL_PROXY_HEADER_MAX = 1024,
};

struct sl_proxy_header {
	struct sl_addr source, destination;
	bool told; /* false (LOCAL, UNKNOWN, no IP): use own addresses */
};

/* Parses a header. Returns its length, 0 if incomplete, or -1 if malformed. */
int sl_proxy_parse(struct sl_span bytes, struct sl_proxy_header *out);

struct sl_proxy_env {
	struct sl_mempool filters;
	struct sl_mempool heads;
	uint64_t *headers, *malformed;
};

/* Returns 0 or -errno. Counts in *headers and *malformed, which must outlive it. */
int sl_proxy_env_init(struct sl_proxy_env *env, uint32_t conns, uint64_t *headers,
		      uint64_t *malformed);
/* Frees the pools; all filters must be closed. */
void sl_proxy_env_fini(struct sl_proxy_env *env);

/* Returns a filter above `transport`, or NULL if all are in use. */
struct sl_filter *sl_proxy_open(struct sl_proxy_env *env, struct sl_conn transport);
/* Frees a filter without a layer above. */
SL_COLD void sl_proxy_drop(struct sl_filter *f);

#endif
