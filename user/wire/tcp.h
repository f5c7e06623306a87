/* SPDX-License-Identifier: Apache-2.0 */
/* TCP header (RFC 9293 3.1) and sequence numbers. */
#ifndef SL_WIRE_TCP_H
#define SL_WIRE_TCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/check.h"
#include "wire/verdict.h"

enum {
	SL_TCP_HDR_MIN = 20,
	SL_TCP_HDR_MAX = 60,
	SL_TCP_OPT_MAX = 40,
	SL_TCP_CSUM_OFF = 16,

	SL_TCP_FIN = 0x01,
	SL_TCP_SYN = 0x02,
	SL_TCP_RST = 0x04,
	SL_TCP_PSH = 0x08,
	SL_TCP_ACK = 0x10,
	SL_TCP_URG = 0x20,
	SL_TCP_ECE = 0x40,
	SL_TCP_CWR = 0x80,
};

struct sl_tcp_hdr {
	uint16_t sport_be;
	uint16_t dport_be;
	uint32_t seq_be;
	uint32_t ack_be;
	uint8_t data_off; /* words << 4, low bits reserved */
	uint8_t flags;
	uint16_t wnd_be;
	uint16_t csum_be;
	uint16_t urg_be;
} __attribute__((packed));
SL_ASSERT_SIZE(struct sl_tcp_hdr, 20);
SL_ASSERT_OFFSET(struct sl_tcp_hdr, csum_be, SL_TCP_CSUM_OFF);

/*
 * len: as the IP header says. Returns the length of the header with options, SL_WIRE_TRUNCATED,
 * SL_WIRE_HEADER (data offset under 5) or SL_WIRE_LENGTH (data offset over len).
 */
static inline int sl_tcp_parse(const uint8_t *p, size_t len, const struct sl_tcp_hdr **hdr)
{
	const struct sl_tcp_hdr *h = (const struct sl_tcp_hdr *)p;
	unsigned hdr_len;

	if (len < sizeof(*h))
		return SL_WIRE_TRUNCATED;
	hdr_len = (h->data_off >> 4) * 4u;
	if (hdr_len < sizeof(*h))
		return SL_WIRE_HEADER;
	if (hdr_len > len)
		return SL_WIRE_LENGTH;
	*hdr = h;
	return (int)hdr_len;
}

/* Writes a header. opt_len: a multiple of 4. Checksum and urgent pointer are 0. */
static inline void sl_tcp_write(struct sl_tcp_hdr *h, uint16_t sport_be, uint16_t dport_be,
				uint32_t seq, uint32_t ack, uint8_t flags, uint16_t wnd,
				size_t opt_len)
{
	SL_CHECK(opt_len % 4 == 0 && opt_len <= SL_TCP_OPT_MAX);
	*h = (struct sl_tcp_hdr){
		.sport_be = sport_be,
		.dport_be = dport_be,
		.seq_be = htobe32(seq),
		.ack_be = htobe32(ack),
		.data_off = (uint8_t)((sizeof(*h) + opt_len) / 4 << 4),
		.flags = flags,
		.wnd_be = htobe16(wnd),
	};
}

/* Returns a - b modulo 2^32, for numbers less than 2^31 apart (RFC 9293 3.4). */
static inline int32_t sl_seq_diff(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b);
}

/* Compare sequence numbers that wrap. */
static inline bool sl_seq_lt(uint32_t a, uint32_t b)
{
	return sl_seq_diff(a, b) < 0;
}
static inline bool sl_seq_leq(uint32_t a, uint32_t b)
{
	return sl_seq_diff(a, b) <= 0;
}
static inline bool sl_seq_gt(uint32_t a, uint32_t b)
{
	return sl_seq_diff(a, b) > 0;
}
static inline bool sl_seq_geq(uint32_t a, uint32_t b)
{
	return sl_seq_diff(a, b) >= 0;
}
/* Returns true if `x` is one of `len` numbers from `first` on. */
static inline bool sl_seq_in(uint32_t x, uint32_t first, uint32_t len)
{
	return x - first < len;
}

/* Returns the later number. */
static inline uint32_t sl_seq_max(uint32_t a, uint32_t b)
{
	return sl_seq_lt(a, b) ? b : a;
}

#endif
