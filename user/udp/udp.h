/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UDP (RFC 768; RFC 8200 8.1) of a worker. No state per peer, except path MTUs. Replies carry DF.
 * The first one above the path MTU is lost; later ones are refused with -EMSGSIZE. Other ICMP
 * errors count as icmp_ignored.
 */
#ifndef SL_UDP_UDP_H
#define SL_UDP_UDP_H

#include <stdbool.h>
#include <stdint.h>
#include "net/net.h"

struct sl_udp;

struct sl_udp_peer {
	struct sl_net_path path;
	uint16_t local_port_be, remote_port_be;
	uint16_t listener;
};

/* Bytes are valid during the call, unless chunk->frame is taken. */
typedef void sl_udp_input_fn(void *app, const struct sl_udp_peer *peer, struct sl_chunk *chunk);

/* Registers in net->udp; net must outlive it. Returns NULL and errno on error. */
struct sl_udp *sl_udp_create(struct sl_net *net, sl_udp_input_fn *input, void *app);
/* Deregisters and frees u (may be NULL). */
void sl_udp_destroy(struct sl_udp *u);

/* Returns the largest unfragmented payload, as far as known. */
size_t sl_udp_max_payload(const struct sl_udp *u, const struct sl_udp_peer *peer);

/* Sends the concatenation of the spans. Returns 0, -EMSGSIZE, or -ENOBUFS (counted by net). */
struct sl_span;
int sl_udp_send(struct sl_udp *u, const struct sl_udp_peer *peer, const struct sl_span *spans,
		unsigned cnt);

struct sl_udp_stats {
	uint64_t datagrams_in, datagrams_out, bytes_in, bytes_out;
};
/* Copies the counters. */
void sl_udp_stats(const struct sl_udp *u, struct sl_udp_stats *out);

#endif
