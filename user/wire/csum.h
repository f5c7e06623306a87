/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Internet checksum (RFC 1071).
 *
 *   ptr, len ... -> partial sum (uint64_t) -> sl_csum_fold -> 16 bits -> ~ -> field
 *
 * A partial sum adds 16-bit words without byte swapping; csum_be fields are never swapped. A zero
 * byte follows a piece of odd length; join the next piece with sl_csum_join().
 */
#ifndef SL_WIRE_CSUM_H
#define SL_WIRE_CSUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "wire/icmp.h"
#include "wire/ip4.h"
#include "wire/ip6.h"

/* Returns the partial sum of `sum` and the bytes. */
uint64_t sl_csum_add(const void *ptr, size_t len, uint64_t sum);

/* Same, and copies; must not overlap. */
uint64_t sl_csum_copy(void *dst, const void *src, size_t len, uint64_t sum);

/* Returns "avx2" or "portable". */
const char *sl_csum_variant(void);

/* For tests and benches. */
struct sl_csum_ops {
	const char *name;
	uint64_t (*add)(const void *ptr, size_t len, uint64_t sum);
	uint64_t (*copy)(void *dst, const void *src, size_t len, uint64_t sum);
};
/* Returns the i-th implementation, 0 portable, 1 avx2; NULL: the processor lacks it. */
const struct sl_csum_ops *sl_csum_ops_at(unsigned i);

/* Returns an equal sum below 2^33. */
static inline uint64_t sl_csum_reduce(uint64_t sum)
{
	return (sum & 0xffffffff) + (sum >> 32);
}

/* Adds a 64-bit word, and the carry out of it. */
static inline uint64_t sl_csum_carry(uint64_t sum, uint64_t word)
{
	sum += word;
	return sum + (sum < word);
}

/*
 * Returns the sum in 16 bits, not inverted. Each step adds both halves, and leaves the upper one.
 */
static inline uint16_t sl_csum_fold(uint64_t sum)
{
	uint32_t half = (uint32_t)((sum + (sum << 32 | sum >> 32)) >> 32);

	return (uint16_t)((half + (half << 16 | half >> 16)) >> 16);
}

/* Returns the checksum for the field. */
static inline uint16_t sl_csum_finish(uint64_t sum)
{
	return (uint16_t)~sl_csum_fold(sum);
}

/* Joins the sum of bytes 0..offset-1 and `piece`, that of the bytes at offset: RFC 1071 2 (B). */
static inline uint64_t sl_csum_join(uint64_t sum, uint64_t piece, size_t offset)
{
	if (offset & 1) {
		uint16_t f = sl_csum_fold(piece);

		piece = (uint16_t)(f << 8 | f >> 8);
	}
	return sl_csum_reduce(sum) + sl_csum_reduce(piece);
}

/* Return the pseudo-header's sum (RFC 9293 3.1, RFC 8200 8.1). len: of the L4 packet. */
static inline uint64_t sl_csum_pseudo4(uint32_t src_be, uint32_t dst_be, uint8_t protocol,
				       uint32_t len)
{
	return (uint64_t)src_be + dst_be + htobe32(protocol) + htobe32(len);
}
static inline uint64_t sl_csum_pseudo6(const uint8_t src[16], const uint8_t dst[16],
				       uint8_t protocol, uint32_t len)
{
	uint32_t w[8];
	uint64_t sum = (uint64_t)htobe32(protocol) + htobe32(len);

	memcpy(w, src, 16);
	memcpy(w + 4, dst, 16);
	for (int i = 0; i < 8; i++)
		sum += w[i];
	return sum;
}

/* Returns true if the checksum in the header is right. */
static inline bool sl_csum_l4_ok(uint64_t pseudo, const void *l4, size_t len)
{
	return sl_csum_fold(sl_csum_add(l4, len, pseudo)) == 0xffff;
}

/*
 * Returns true if the field holds the folded pseudo-header sum, as the Linux kernel leaves it. Only
 * for packets from a veth.
 */
static inline bool sl_csum_l4_partial(uint64_t pseudo, uint16_t csum_be)
{
	return sl_csum_fold(pseudo) == csum_be;
}

/* Return the header's sum, or true if right; set its field. hdr_len: checked, at least 20. */
static inline uint64_t sl_csum_ip4(const struct sl_ip4_hdr *ip, size_t hdr_len)
{
	const uint8_t *p = (const uint8_t *)ip;
	uint64_t first, second, sum;
	uint32_t word;

	memcpy(&first, p, sizeof(first));
	memcpy(&second, p + 8, sizeof(second));
	memcpy(&word, p + 16, sizeof(word));
	sum = sl_csum_reduce(sl_csum_carry(first, second)) + word;
	for (size_t off = sizeof(*ip); off < hdr_len; off += sizeof(word)) {
		memcpy(&word, p + off, sizeof(word));
		sum += word;
	}
	return sum;
}
static inline bool sl_csum_ip4_ok(const struct sl_ip4_hdr *ip, size_t hdr_len)
{
	return sl_csum_fold(sl_csum_ip4(ip, hdr_len)) == 0xffff;
}
static inline void sl_csum_ip4_fill(struct sl_ip4_hdr *ip, size_t hdr_len)
{
	ip->csum_be = 0;
	ip->csum_be = sl_csum_finish(sl_csum_ip4(ip, hdr_len));
}

/* Returns true if right; without pseudo-header. */
static inline bool sl_csum_icmp4_ok(const struct sl_icmp_hdr *icmp, size_t len)
{
	return sl_csum_l4_ok(0, icmp, len);
}

/* Same with the pseudo-header. */
static inline bool sl_csum_icmp6_ok(const struct sl_ip6_hdr *ip, const struct sl_icmp_hdr *icmp,
				    size_t len)
{
	return sl_csum_l4_ok(sl_csum_pseudo6(ip->src, ip->dst, SL_IP_PROTO_ICMP6, (uint32_t)len),
			     icmp, len);
}

#endif
