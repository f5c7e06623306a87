/* SPDX-License-Identifier: Apache-2.0 */
/* UDP header (RFC 768). */
#ifndef SL_WIRE_UDP_H
#define SL_WIRE_UDP_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/check.h"
#include "wire/verdict.h"

enum { SL_UDP_HDR_LEN = 8, SL_UDP_CSUM_OFF = 6 };

struct sl_udp_hdr {
	uint16_t sport_be;
	uint16_t dport_be;
	uint16_t len_be;  /* header and payload */
	uint16_t csum_be; /* 0: none, IPv4 only */
} __attribute__((packed));
SL_ASSERT_SIZE(struct sl_udp_hdr, SL_UDP_HDR_LEN);
SL_ASSERT_OFFSET(struct sl_udp_hdr, csum_be, SL_UDP_CSUM_OFF);

struct sl_udp_view {
	const struct sl_udp_hdr *hdr;
	uint16_t payload_len;
};

/*
 * len: as the IP header says. Returns SL_UDP_HDR_LEN, SL_WIRE_TRUNCATED, SL_WIRE_HEADER (length
 * under 8, as in IPv6 jumbograms) or SL_WIRE_LENGTH. A length under len is legal.
 */
static inline int sl_udp_parse(const uint8_t *p, size_t len, struct sl_udp_view *v)
{
	const struct sl_udp_hdr *h = (const struct sl_udp_hdr *)p;
	unsigned dgram_len;

	if (len < sizeof(*h))
		return SL_WIRE_TRUNCATED;
	dgram_len = be16toh(h->len_be);
	if (dgram_len < sizeof(*h))
		return SL_WIRE_HEADER;
	if (dgram_len > len)
		return SL_WIRE_LENGTH;
	v->hdr = h;
	v->payload_len = (uint16_t)(dgram_len - sizeof(*h));
	return sizeof(*h);
}

/* Writes checksum 0: the caller fills it, with all ones for a sum of 0 (RFC 768). */
static inline void sl_udp_write(struct sl_udp_hdr *h, uint16_t sport_be, uint16_t dport_be,
				uint16_t payload_len)
{
	*h = (struct sl_udp_hdr){
		.sport_be = sport_be,
		.dport_be = dport_be,
		.len_be = htobe16((uint16_t)(payload_len + sizeof(*h))),
	};
}

#endif
