/* SPDX-License-Identifier: Apache-2.0 */
/* IPv6 header and bounded walk over extension headers (RFC 8200). */
#ifndef SL_WIRE_IP6_H
#define SL_WIRE_IP6_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "wire/ip4.h"
#include "wire/verdict.h"

enum {
	SL_IP6_EXT_MAX = 8,

	SL_IP6_EXT_HOP = 0,
	SL_IP6_EXT_ROUTING = 43,
	SL_IP6_EXT_FRAGMENT = 44,
	SL_IP6_EXT_NONE = 59,
	SL_IP6_EXT_DEST = 60,
};

struct sl_ip6_hdr {
	uint32_t ver_class_flow_be;
	uint16_t payload_len_be;
	uint8_t next_header;
	uint8_t hop_limit;
	uint8_t src[16];
	uint8_t dst[16];
} __attribute__((packed));
SL_ASSERT_SIZE(struct sl_ip6_hdr, 40);
SL_ASSERT_OFFSET(struct sl_ip6_hdr, dst, 24);

struct sl_ip6_view {
	const struct sl_ip6_hdr *hdr;
	uint16_t hdr_len;     /* with extension headers */
	uint16_t payload_len; /* of the upper protocol */
	/* upper protocol, or the first header not walked (ESP, AH, none) */
	uint8_t protocol;
	bool fragment; /* any part of a datagram; ends the walk */
};

/*
 * Walks extension headers from v->protocol on. Returns the length of all headers, SL_WIRE_LENGTH or
 * SL_WIRE_EXTENSION.
 */
int sl_ip6_walk(const uint8_t *p, size_t end, struct sl_ip6_view *v);

/*
 * Returns the length of all headers, SL_WIRE_TRUNCATED, SL_WIRE_TYPE (version), SL_WIRE_LENGTH
 * (payload length over len, an extension header over the payload, jumbograms) or SL_WIRE_EXTENSION.
 * Ethernet padding may follow.
 */
static inline int sl_ip6_parse(const uint8_t *p, size_t len, struct sl_ip6_view *v)
{
	const struct sl_ip6_hdr *h = (const struct sl_ip6_hdr *)p;
	size_t payload_len;

	if (len < sizeof(*h))
		return SL_WIRE_TRUNCATED;
	if (p[0] >> 4 != 6)
		return SL_WIRE_TYPE;
	payload_len = be16toh(h->payload_len_be);
	if (payload_len > len - sizeof(*h))
		return SL_WIRE_LENGTH;
	v->hdr = h;
	v->hdr_len = sizeof(*h);
	v->payload_len = (uint16_t)payload_len;
	v->protocol = h->next_header;
	v->fragment = false;
	if (h->next_header == SL_IP_PROTO_TCP || h->next_header == SL_IP_PROTO_UDP)
		return sizeof(*h);
	return sl_ip6_walk(p, sizeof(*h) + payload_len, v);
}

/*
 * Returns true for sources that no client can have: unspecified, loopback, multicast (RFC 4291).
 */
static inline bool sl_ip6_src_invalid(const uint8_t src[16])
{
	return src[0] == 0xff || (sl_get_be64(src) == 0 && sl_get_be64(src + 8) <= 1);
}

/* Writes a header without flow label. */
static inline void sl_ip6_write(struct sl_ip6_hdr *h, const uint8_t src[16], const uint8_t dst[16],
				uint8_t protocol, uint16_t payload_len)
{
	h->ver_class_flow_be = htobe32(UINT32_C(6) << 28);
	h->payload_len_be = htobe16(payload_len);
	h->next_header = protocol;
	h->hop_limit = 64;
	memcpy(h->src, src, 16);
	memcpy(h->dst, dst, 16);
}

#endif
