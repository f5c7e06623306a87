/* SPDX-License-Identifier: Apache-2.0 */
/* IPv4 header (RFC 791). Checksum: sl_csum_ip4_ok. */
#ifndef SL_WIRE_IP4_H
#define SL_WIRE_IP4_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/check.h"
#include "wire/verdict.h"

enum {
	SL_IP_PROTO_ICMP = 1,
	SL_IP_PROTO_TCP = 6,
	SL_IP_PROTO_UDP = 17,
	SL_IP_PROTO_ICMP6 = 58,

	SL_IP4_HDR_MIN = 20,
	SL_IP4_DF = 0x4000,
	SL_IP4_MF = 0x2000,
	SL_IP4_OFFSET_MASK = 0x1fff,
};

struct sl_ip4_hdr {
	uint8_t ver_ihl;
	uint8_t tos;
	uint16_t total_len_be;
	uint16_t id_be;
	uint16_t frag_be; /* DF, MF, offset / 8 */
	uint8_t ttl;
	uint8_t protocol;
	uint16_t csum_be;
	uint32_t src_be;
	uint32_t dst_be;
} __attribute__((packed));
SL_ASSERT_SIZE(struct sl_ip4_hdr, 20);
SL_ASSERT_OFFSET(struct sl_ip4_hdr, src_be, 12);

struct sl_ip4_view {
	const struct sl_ip4_hdr *hdr;
	uint16_t hdr_len;     /* options included */
	uint16_t payload_len; /* without padding of the frame */
	uint8_t protocol;
	bool fragment; /* any part of a datagram */
};

/*
 * Parses. Returns the header's length, SL_WIRE_TRUNCATED, SL_WIRE_TYPE (version), SL_WIRE_HEADER
 * (IHL under 5 or over the total length) or SL_WIRE_LENGTH (total length over len). Ethernet
 * padding may follow.
 */
static inline int sl_ip4_parse(const uint8_t *p, size_t len, struct sl_ip4_view *v)
{
	const struct sl_ip4_hdr *h = (const struct sl_ip4_hdr *)p;
	unsigned hdr_len, total_len;

	if (len < sizeof(*h))
		return SL_WIRE_TRUNCATED;
	if (h->ver_ihl >> 4 != 4)
		return SL_WIRE_TYPE;
	hdr_len = (h->ver_ihl & 15u) * 4;
	total_len = be16toh(h->total_len_be);
	if (hdr_len < sizeof(*h) || total_len < hdr_len) /* RFC 1122 3.2.1.1, RFC 791 3.1 */
		return SL_WIRE_HEADER;
	if (total_len > len)
		return SL_WIRE_LENGTH;
	v->hdr = h;
	v->hdr_len = (uint16_t)hdr_len;
	v->payload_len = (uint16_t)(total_len - hdr_len);
	v->protocol = h->protocol;
	v->fragment = (be16toh(h->frag_be) & (SL_IP4_MF | SL_IP4_OFFSET_MASK)) != 0;
	return (int)hdr_len;
}

/*
 * Returns 0, SL_WIRE_HEADER (a length under 2 or beyond the header) or SL_WIRE_TYPE (a source
 * route, RFC 791 3.1, off by default).
 */
static inline int sl_ip4_check_options(const struct sl_ip4_view *v)
{
	enum { END = 0, NOP = 1, LSRR = 131, SSRR = 137 };
	const uint8_t *p = (const uint8_t *)v->hdr + sizeof(*v->hdr);
	const uint8_t *end = (const uint8_t *)v->hdr + v->hdr_len;

	while (p < end && *p != END) {
		if (*p == NOP) {
			p++;
			continue;
		}
		if (end - p < 2 || p[1] < 2 || p[1] > end - p)
			return SL_WIRE_HEADER;
		if (*p == LSRR || *p == SSRR)
			return SL_WIRE_TYPE;
		p += p[1];
	}
	return 0;
}

/* Returns true for sources that no client can have (RFC 1122 3.2.1.3): 0/8, 127/8, 224/4, 240/4. */
static inline bool sl_ip4_src_invalid(uint32_t src_be)
{
	uint8_t first = (uint8_t)(be32toh(src_be) >> 24);

	return first == 0 || first == 127 || first >= 224;
}

/* Writes a header without options, checksum 0. id: host order. */
static inline void sl_ip4_write(struct sl_ip4_hdr *h, uint32_t src_be, uint32_t dst_be,
				uint8_t protocol, uint16_t payload_len, uint16_t id, bool df)
{
	*h = (struct sl_ip4_hdr){
		.ver_ihl = 0x45,
		.total_len_be = htobe16((uint16_t)(payload_len + sizeof(*h))),
		.id_be = htobe16(id),
		.frag_be = htobe16(df ? SL_IP4_DF : 0),
		.ttl = 64,
		.protocol = protocol,
		.src_be = src_be,
		.dst_be = dst_be,
	};
}

#endif
