/* SPDX-License-Identifier: Apache-2.0 */
/* Structural checks of ICMP errors; tcp checks the flow's state (RFC 5927). */
#include "net/flow_table.h"
#include "net/handover.h"
#include "net/steps.h"
#include "wire/csum.h"

enum {
	MIN_MTU4 = 68,   /* RFC 791 3.2 */
	MIN_MTU6 = 1280, /* RFC 8200 5 */
};

struct meaning {
	uint32_t mtu; /* 0: not about size */
	bool hard;
	bool plausible;
};

/* RFC 1191 7.1 */
static uint32_t plateau_below(uint32_t len)
{
	static const uint16_t plateaus[] = {32000, 17914, 8166, 4352, 2002,
					    1492,  1006,  508,  296,  MIN_MTU4};

	for (size_t i = 0; i < SL_ARRAY_LEN(plateaus); i++) {
		if (plateaus[i] < len)
			return plateaus[i];
	}
	return 0;
}

static struct meaning meaning4(const struct sl_icmp_hdr *h, const struct sl_icmp_quote *q)
{
	struct meaning m = {.plausible = true};

	if (h->type != SL_ICMP4_UNREACHABLE)
		return m;
	if (h->code == SL_ICMP4_FRAG_NEEDED) {
		m.mtu = be16toh(h->mtu4_be);
		if (m.mtu == 0)
			m.mtu = plateau_below(q->ip_len);
		/* Some devices rewrite the quoted length. */
		m.plausible = m.mtu >= MIN_MTU4;
		return m;
	}
	m.hard = h->code == SL_ICMP4_PROTOCOL || h->code == SL_ICMP4_PORT;
	return m;
}

static struct meaning meaning6(const struct sl_icmp_hdr *h)
{
	struct meaning m = {.plausible = true};

	if (h->type == SL_ICMP6_PACKET_TOO_BIG) {
		m.mtu = be32toh(h->mtu6_be);
		m.plausible = m.mtu >= MIN_MTU6; /* RFC 8201 4 */
	}
	m.hard = h->type == SL_ICMP6_UNREACHABLE && h->code == SL_ICMP6_PORT;
	return m;
}

static bool parse_error(const struct sl_net *n, const struct sl_frame *f,
			const struct sl_icmp_hdr **hdr, struct sl_icmp_quote *q)
{
	const uint8_t *quoted = f->data + SL_ICMP_HDR_LEN;
	const uint8_t *l3 = sl_net_l3(n, f);

	if (sl_icmp_parse(f->data, f->len, hdr) < 0)
		return false;
	size_t quoted_len = f->len - (size_t)SL_ICMP_HDR_LEN;

	if (f->family == 4) {
		const struct sl_ip4_hdr *ip = (const struct sl_ip4_hdr *)l3;

		return sl_icmp4_is_error((*hdr)->type) && sl_csum_icmp4_ok(*hdr, f->len) &&
		       sl_icmp4_quote(quoted, quoted_len, q) == 0 &&
		       memcmp(q->src, &ip->dst_be, 4) == 0;
	}
	const struct sl_ip6_hdr *ip = (const struct sl_ip6_hdr *)l3;

	return sl_icmp6_is_error((*hdr)->type) && sl_csum_icmp6_ok(ip, *hdr, f->len) &&
	       sl_icmp6_quote(quoted, quoted_len, q) == 0 && memcmp(q->src, ip->dst, 16) == 0;
}

/* Our packets have no IPv6 extension headers. */
static const uint8_t *quoted_l4(const uint8_t *quoted, const struct sl_icmp_quote *q)
{
	if (q->family == 4)
		return quoted + (quoted[0] & 15u) * 4;
	return ((const struct sl_ip6_hdr *)quoted)->next_header == q->protocol
		       ? quoted + sizeof(struct sl_ip6_hdr)
		       : NULL;
}

static struct sl_flow_key quoted_flow(const struct sl_icmp_quote *q)
{
	struct sl_flow_key key = {
		.local_port_be = q->sport_be,
		.remote_port_be = q->dport_be,
		.family = q->family,
	};
	size_t len = q->family == 4 ? 4 : 16;

	memcpy(key.local, q->src, len);
	memcpy(key.remote, q->dst, len);
	return key;
}

void sl_net_icmp_rx(struct sl_net *n, struct sl_frame *f, uint8_t protocol)
{
	const struct sl_icmp_hdr *hdr = NULL;
	const uint8_t *quoted = f->data + SL_ICMP_HDR_LEN, *l4;
	struct sl_icmp_quote q;

	if (!parse_error(n, f, &hdr, &q) || !(l4 = quoted_l4(quoted, &q))) {
		sl_net_drop_frame(n, f, SL_DROP_ICMP_MALFORMED);
		return;
	}
	struct meaning m = f->family == 4 ? meaning4(hdr, &q) : meaning6(hdr);
	const struct sl_l4 *to = q.protocol == SL_IP_PROTO_TCP ? &n->tcp : &n->udp;

	if (!m.plausible || !to->icmp_error) {
		sl_net_drop_frame(n, f, SL_DROP_ICMP_IGNORED);
		return;
	}
	/* The queue was chosen by the router's address. */
	if (n->handover && q.protocol == SL_IP_PROTO_TCP) {
		struct sl_flow_key key = quoted_flow(&q);

		if (sl_handover_give(n, f, &key, protocol))
			return;
	}
	/* Datagrams have no owner; their sender remembers them. */
	if (m.mtu && q.protocol == SL_IP_PROTO_UDP)
		sl_handover_tell(n, f, protocol);
	to->icmp_error(to->ctx, quoted, l4, m.mtu, m.hard);
	sl_frame_put(n->umem, f);
}
