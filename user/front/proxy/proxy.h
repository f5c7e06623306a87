/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The PROXY protocol, versions 1 and 2: what a balancer in front of us says of its client before
 * that one's first byte. By HAProxy's document "The PROXY protocol", 2020/03/05.
 *
 * The header is believed from addresses that the listener names, and these must send one. The source
 * that it tells is the connection's peer from then on, its other end stays our door, by which it came;
 * the bytes behind it go up as they come.
 */
#ifndef SL_FRONT_PROXY_H
#define SL_FRONT_PROXY_H

#include "base/bytes.h"
#include "base/mempool.h"
#include "front/conn.h"

enum {
	/* Version 1 takes at most 107; version 2 what its sender likes, as 216 and some TLVs. */
	SL_PROXY_HEADER_MAX = 1024,
};

struct sl_proxy_header {
	struct sl_addr source, destination;
	bool told; /* false: LOCAL, UNKNOWN or not of IP: the connection's own addresses hold */
};

/* Returns the header's length, 0 when more bytes are needed to tell, -1 when it is malformed. */
int sl_proxy_parse(struct sl_span bytes, struct sl_proxy_header *out);

/* What the connections of a worker share. */
struct sl_proxy_env {
	struct sl_mempool filters;
	struct sl_mempool heads;       /* of headers that came in pieces */
	uint64_t *headers, *malformed; /* counters */
};

/* For up to `conns` connections. 0 or -errno. */
int sl_proxy_env_init(struct sl_proxy_env *env, uint32_t conns, uint64_t *headers,
		      uint64_t *malformed);
void sl_proxy_env_fini(struct sl_proxy_env *env);

/* On a connection whose peer is one of those that send it. NULL: there is no memory for it. */
struct sl_filter *sl_proxy_open(struct sl_proxy_env *env, struct sl_conn transport);
/* One that nothing stands on yet. */
SL_COLD void sl_proxy_drop(struct sl_filter *f);

#endif
