/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/num.h"
#include "front/proxy/proxy.h"

enum { V1_MAX = 107 };

static struct sl_span next_word(struct sl_span *line)
{
	const uint8_t *space = memchr(line->ptr, ' ', line->len);
	struct sl_span word = sl_span_first(*line, space ? (size_t)(space - line->ptr) : SIZE_MAX);

	*line = sl_span_skip(*line, word.len + 1);
	return word;
}

static bool parse_address(struct sl_span word, struct sl_addr *a)
{
	const uint8_t family = a->family;
	char text[SL_ADDR_TEXT];

	if (word.len >= sizeof(text) || memchr(word.ptr, 0, word.len))
		return false;
	memcpy(text, word.ptr, word.len);
	text[word.len] = 0;
	return sl_addr_parse(a, text) && a->family == family;
}

static bool parse_port(struct sl_span word, struct sl_addr *a)
{
	uint64_t port;

	if ((word.len > 1 && word.ptr[0] == '0') || sl_parse_u64_max(word, UINT16_MAX, &port))
		return false;
	a->port_be = htobe16((uint16_t)port);
	return true;
}

static int parse_v1(struct sl_span bytes, struct sl_proxy_header *out)
{
	struct sl_span line = sl_span_first(bytes, V1_MAX - 1); /* without LF */
	const uint8_t *cr = memchr(line.ptr, '\r', line.len);
	struct sl_span protocol;
	int used;

	if (!cr)
		return line.len < V1_MAX - 1 ? 0 : -1;
	line.len = (size_t)(cr - line.ptr);
	if (line.len + 1 == bytes.len)
		return 0;
	if (cr[1] != '\n')
		return -1;
	used = (int)line.len + 2;
	next_word(&line);
	protocol = next_word(&line);
	if (sl_span_eq(protocol, sl_span_str("UNKNOWN")))
		return used;
	if (sl_span_eq(protocol, sl_span_str("TCP4")))
		out->source.family = 4;
	else if (sl_span_eq(protocol, sl_span_str("TCP6")))
		out->source.family = 6;
	else
		return -1;
	out->destination.family = out->source.family;
	out->told = true;
	if (!parse_address(next_word(&line), &out->source) ||
	    !parse_address(next_word(&line), &out->destination) ||
	    !parse_port(next_word(&line), &out->source) || !parse_port(line, &out->destination))
		return -1;
	return used;
}

enum {
	V2_FIXED = 16,
	V2_LOCAL = 0x20,
	V2_PROXY = 0x21,
	V2_UNSPEC = 0x00,
	V2_TCP4 = 0x11,
	V2_TCP6 = 0x21,
	V2_UNIX_STREAM = 0x31,
	TLV_CRC32C = 0x03,
};

static const uint8_t v2_signature[12] = "\r\n\r\n\0\r\nQUIT\n";

/* CRC-32C of RFC 3720 B.4, bitwise. */
static uint32_t crc32c(const uint8_t *p, size_t len, size_t hole)
{
	uint32_t crc = UINT32_MAX;

	for (size_t i = 0; i < len; i++) {
		crc ^= i - hole < 4 ? 0 : p[i]; /* the checksum counts as zeros */
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0x82f63b78) : 0);
	}
	return ~crc;
}

static bool check_tlvs(struct sl_span header, size_t at)
{
	while (at < header.len) {
		size_t len;

		if (header.len - at < 3)
			return false;
		len = sl_get_be16(header.ptr + at + 1);
		if (len > header.len - at - 3)
			return false;
		if (header.ptr[at] == TLV_CRC32C &&
		    (len != 4 ||
		     sl_get_be32(header.ptr + at + 3) != crc32c(header.ptr, header.len, at + 3)))
			return false;
		at += 3 + len;
	}
	return true;
}

static int parse_v2(struct sl_span bytes, struct sl_proxy_header *out)
{
	const uint8_t *block;
	size_t len, one;

	if (bytes.len < V2_FIXED)
		return 0;
	len = V2_FIXED + (size_t)sl_get_be16(bytes.ptr + 14);
	if (len > SL_PROXY_HEADER_MAX || (bytes.ptr[12] != V2_PROXY && bytes.ptr[12] != V2_LOCAL))
		return -1;
	if (bytes.len < len)
		return 0;
	if (bytes.ptr[12] == V2_LOCAL)
		return (int)len;
	if (bytes.ptr[13] == V2_TCP4)
		one = 4;
	else if (bytes.ptr[13] == V2_TCP6)
		one = 16;
	else /* no IP address, or not a stream */
		return bytes.ptr[13] == V2_UNSPEC || bytes.ptr[13] == V2_UNIX_STREAM ? (int)len
										     : -1;
	if (len - V2_FIXED < 2 * one + 4)
		return -1;
	block = bytes.ptr + V2_FIXED;
	memcpy(out->source.addr, block, one);
	memcpy(out->destination.addr, block + one, one);
	memcpy(&out->source.port_be, block + 2 * one, 2);
	memcpy(&out->destination.port_be, block + 2 * one + 2, 2);
	out->source.family = out->destination.family = one == 4 ? 4 : 6;
	out->told = true;
	return check_tlvs(sl_span_of(bytes.ptr, len), V2_FIXED + 2 * one + 4) ? (int)len : -1;
}

int sl_proxy_parse(struct sl_span bytes, struct sl_proxy_header *out)
{
	static const struct sl_span v1 = SL_SPAN_LIT("PROXY ");
	const struct sl_span v2 = sl_span_of(v2_signature, sizeof(v2_signature));

	*out = (struct sl_proxy_header){0};
	if (sl_span_starts(bytes, v1))
		return parse_v1(bytes, out);
	if (sl_span_starts(bytes, v2))
		return parse_v2(bytes, out);
	return sl_span_starts(v1, bytes) || sl_span_starts(v2, bytes) ? 0 : -1;
}
