/* SPDX-License-Identifier: Apache-2.0 */
/* ICMP (RFC 792, 1191) and ICMPv6 (RFC 4443). */
#ifndef SL_WIRE_ICMP_H
#define SL_WIRE_ICMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/check.h"
#include "wire/verdict.h"

enum {
	SL_ICMP_HDR_LEN = 8,

	SL_ICMP4_ECHO_REPLY = 0,
	SL_ICMP4_UNREACHABLE = 3,
	SL_ICMP4_ECHO = 8,
	SL_ICMP4_TIME_EXCEEDED = 11,
	SL_ICMP4_PARAMETER = 12,
	/* codes of SL_ICMP4_UNREACHABLE */
	SL_ICMP4_NET = 0,
	SL_ICMP4_HOST = 1,
	SL_ICMP4_PROTOCOL = 2,
	SL_ICMP4_PORT = 3,
	SL_ICMP4_FRAG_NEEDED = 4,
	SL_ICMP4_ADMIN = 13,

	SL_ICMP6_UNREACHABLE = 1,
	SL_ICMP6_PACKET_TOO_BIG = 2,
	SL_ICMP6_TIME_EXCEEDED = 3,
	SL_ICMP6_PARAMETER = 4,
	SL_ICMP6_ECHO = 128,
	SL_ICMP6_ECHO_REPLY = 129,
	/* codes of SL_ICMP6_UNREACHABLE */
	SL_ICMP6_NO_ROUTE = 0,
	SL_ICMP6_ADMIN = 1,
	SL_ICMP6_PORT = 4,
};

struct sl_icmp_hdr {
	uint8_t type;
	uint8_t code;
	uint16_t csum_be;
	union {
		uint32_t mtu6_be; /* packet too big */
		struct {
			uint16_t unused_be;
			uint16_t mtu4_be; /* fragmentation needed, RFC 1191 4; 0 from old routers */
		} __attribute__((packed));
		struct {
			uint16_t id_be;
			uint16_t seq_be;
		} __attribute__((packed)); /* echo */
	} __attribute__((packed));
} __attribute__((packed));
SL_ASSERT_SIZE(struct sl_icmp_hdr, SL_ICMP_HDR_LEN);

/* Finds the header. Returns SL_ICMP_HDR_LEN or SL_WIRE_TRUNCATED. */
static inline int sl_icmp_parse(const uint8_t *p, size_t len, const struct sl_icmp_hdr **hdr)
{
	if (len < sizeof(**hdr))
		return SL_WIRE_TRUNCATED;
	*hdr = (const struct sl_icmp_hdr *)p;
	return sizeof(**hdr);
}

/* Return true for errors, which must not be answered. */
static inline bool sl_icmp4_is_error(uint8_t type)
{
	return type == SL_ICMP4_UNREACHABLE || type == SL_ICMP4_TIME_EXCEEDED ||
	       type == SL_ICMP4_PARAMETER;
}
static inline bool sl_icmp6_is_error(uint8_t type)
{
	return type < 128; /* RFC 4443 2.1 */
}

/* The quoted packet, sent by us. Pointers into the input. */
struct sl_icmp_quote {
	const uint8_t *src; /* 4 or 16 bytes */
	const uint8_t *dst;
	uint8_t family;   /* 4 or 6 */
	uint8_t protocol; /* SL_IP_PROTO_TCP or SL_IP_PROTO_UDP */
	uint16_t sport_be;
	uint16_t dport_be;
	uint32_t seq;    /* TCP, host order: must lie between snd_una and snd_nxt (RFC 5927 4) */
	uint16_t ip_len; /* in the quoted IP header */
};

/*
 * Parses the bytes behind the ICMP header. A quote may be cut after 8 bytes of transport header, so
 * length fields are not compared with len. Returns 0, SL_WIRE_TRUNCATED, SL_WIRE_TYPE (other IP
 * version, or neither TCP nor UDP), SL_WIRE_HEADER (also a later fragment), or SL_WIRE_EXTENSION.
 */
int sl_icmp4_quote(const uint8_t *p, size_t len, struct sl_icmp_quote *q);
int sl_icmp6_quote(const uint8_t *p, size_t len, struct sl_icmp_quote *q);

#endif
