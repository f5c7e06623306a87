/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/ip6.h"

enum { EXT_UNIT = 8 };

static bool is_walked(uint8_t header)
{
	return header == SL_IP6_EXT_HOP || header == SL_IP6_EXT_ROUTING ||
	       header == SL_IP6_EXT_FRAGMENT || header == SL_IP6_EXT_DEST;
}

/* Returns true if this header may stand here. */
static bool ext_ok(uint8_t header, const uint8_t *p, unsigned nth)
{
	if (header == SL_IP6_EXT_HOP)
		return nth == 0; /* RFC 8200 4.1: only after the IPv6 header */
	if (header == SL_IP6_EXT_ROUTING)
		return p[3] == 0; /* segments left: not for us; type 0: RFC 5095 */
	return true;
}

int sl_ip6_walk(const uint8_t *p, size_t end, struct sl_ip6_view *v)
{
	size_t off = sizeof(struct sl_ip6_hdr);

	for (unsigned n = 0; is_walked(v->protocol); n++) {
		const uint8_t *ext = p + off;
		size_t ext_len = EXT_UNIT;

		if (n == SL_IP6_EXT_MAX)
			return SL_WIRE_EXTENSION;
		if (end - off < EXT_UNIT)
			return SL_WIRE_LENGTH;
		if (!ext_ok(v->protocol, ext, n))
			return SL_WIRE_EXTENSION;
		if (v->protocol == SL_IP6_EXT_FRAGMENT)
			/* Only a whole datagram may pass: RFC 6946. */
			v->fragment = (sl_get_be16(ext + 2) & 0xfff9) != 0;
		else
			ext_len += (size_t)ext[1] * EXT_UNIT;
		if (end - off < ext_len)
			return SL_WIRE_LENGTH;
		off += ext_len;
		v->protocol = ext[0];
		if (v->fragment)
			break;
	}
	v->hdr_len = (uint16_t)off;
	v->payload_len = (uint16_t)(end - off);
	return (int)off;
}
