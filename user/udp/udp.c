/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include "udp/pmtu.h"
#include "udp/udp.h"
#include "wire/csum.h"
#include "wire/ip6.h"
#include "wire/udp.h"

struct sl_udp {
	struct sl_net *net;
	sl_udp_input_fn *input;
	void *app;
	struct sl_udp_stats stats;
	struct sl_udp_pmtu pmtu;
};

/* IPv4: zero means no checksum (RFC 768). IPv6: required (RFC 8200). */
static bool checksum_ok(const struct sl_net *n, const struct sl_frame *f,
			const struct sl_udp_hdr *h)
{
	if (h->csum_be == 0)
		return f->family == 4;
	return sl_net_l4_csum_ok(n, f, SL_IP_PROTO_UDP, SL_UDP_CSUM_OFF);
}

static void udp_input(void *ctx, struct sl_frame *f, const struct sl_flow_key *key)
{
	struct sl_udp *u = ctx;
	struct sl_net *n = u->net;
	struct sl_udp_peer peer;
	struct sl_udp_view v;
	int listener;

	(void)key; /* datagrams have no flow state */
	if (sl_udp_parse(f->data, f->len, &v) < 0 || v.hdr->sport_be == 0) {
		sl_net_drop_frame(n, f, SL_DROP_UDP_HEADER);
		return;
	}
	sl_net_path_from_rx(n, f, &peer.path);
	listener = sl_net_find_listener(n, peer.path.family, peer.path.local, v.hdr->dport_be,
					SL_IP_PROTO_UDP);
	if (listener < 0) {
		sl_net_drop_frame(n, f, SL_DROP_NO_LISTENER);
		return;
	}
	f->len = (uint16_t)(SL_UDP_HDR_LEN + v.payload_len);
	if (!checksum_ok(n, f, v.hdr)) {
		sl_net_drop_frame(n, f, SL_DROP_UDP_CHECKSUM);
		return;
	}
	peer.local_port_be = v.hdr->dport_be;
	peer.remote_port_be = v.hdr->sport_be;
	peer.listener = (uint16_t)listener;
	f->data += SL_UDP_HDR_LEN;
	f->len = v.payload_len;
	u->stats.datagrams_in++;
	u->stats.bytes_in += f->len;

	struct sl_chunk chunk = {f->data, f->len, f, f->rx_ns, f->take_ns};

	sl_frame_to(n->umem, f, SL_FRAME_HELD);
	u->input(u->app, &peer, &chunk);
	if (chunk.frame)
		sl_frame_put(n->umem, chunk.frame);
}

static void udp_icmp_error(void *ctx, const void *ip_header, const uint8_t *l4, uint32_t mtu,
			   bool hard)
{
	const uint8_t *ip = ip_header;
	uint8_t family = ip[0] >> 4, addr[16] = {0};
	struct sl_udp *u = ctx;

	(void)hard;
	memcpy(addr, family == 4 ? ip + 16 : ip + 24, family == 4 ? 4 : 16);
	if (!mtu || !sl_udp_pmtu_too_big(&u->pmtu, family, addr, l4, mtu, u->net->now_ns))
		sl_net_drop(u->net, SL_DROP_ICMP_IGNORED);
}

struct sl_udp *sl_udp_create(struct sl_net *net, sl_udp_input_fn *input, void *app)
{
	struct sl_udp *u = calloc(1, sizeof(*u));
	int rc;

	if (!u)
		return NULL;
	rc = sl_udp_pmtu_init(&u->pmtu);
	if (rc) {
		free(u);
		errno = -rc;
		return NULL;
	}
	u->net = net;
	u->input = input;
	u->app = app;
	net->udp = (struct sl_l4){.ctx = u, .input = udp_input, .icmp_error = udp_icmp_error};
	return u;
}

void sl_udp_destroy(struct sl_udp *u)
{
	if (!u)
		return;
	u->net->udp = (struct sl_l4){0};
	free(u);
}

size_t sl_udp_max_payload(const struct sl_udp *u, const struct sl_udp_peer *peer)
{
	const struct sl_net_path *path = &peer->path;
	const struct sl_net *n = u->net;
	size_t ip_len = path->family == 4 ? sizeof(struct sl_ip4_hdr) : sizeof(struct sl_ip6_hdr);
	size_t mtu = sl_udp_pmtu_lookup(&u->pmtu, path->family, path->remote,
					(uint16_t)sl_net_mtu(n, path), n->now_ns);
	size_t by_mtu = mtu - ip_len - SL_UDP_HDR_LEN;
	size_t by_frame = n->umem->frame_size - SL_FRAME_HEADROOM - SL_UDP_HDR_LEN;

	return by_mtu < by_frame ? by_mtu : by_frame;
}

int sl_udp_send(struct sl_udp *u, const struct sl_udp_peer *peer, const struct sl_span *spans,
		unsigned cnt)
{
	struct sl_net *n = u->net;
	const struct sl_net_path *path = &peer->path;
	size_t len = 0, max = sl_udp_max_payload(u, peer);

	for (unsigned i = 0; i < cnt; i++) {
		if (spans[i].len > max - len)
			return -EMSGSIZE;
		len += spans[i].len;
	}
	struct sl_frame *f = sl_frame_get(n->umem, SL_FRAME_TX, SL_FRAME_HEADROOM);

	if (!f) {
		sl_net_drop(n, SL_DROP_NO_FRAME);
		return -ENOBUFS;
	}
	struct sl_udp_hdr *h = (struct sl_udp_hdr *)f->data;
	uint8_t *to = f->data + SL_UDP_HDR_LEN;

	for (unsigned i = 0; i < cnt; i++) {
		if (spans[i].len)
			memcpy(to, spans[i].ptr, spans[i].len);
		to += spans[i].len;
	}
	sl_udp_write(h, peer->local_port_be, peer->remote_port_be, (uint16_t)len);
	f->len = (uint16_t)(SL_UDP_HDR_LEN + len);

	uint16_t csum_be = sl_net_l4_csum(path, SL_IP_PROTO_UDP, h, f->len);

	h->csum_be = csum_be ? csum_be : 0xffff; /* RFC 768: zero would mean none */
	if (f->len > (path->family == 4 ? SL_UDP_PMTU_FLOOR4 - sizeof(struct sl_ip4_hdr)
					: SL_UDP_PMTU_FLOOR6 - sizeof(struct sl_ip6_hdr)))
		sl_udp_pmtu_sent(&u->pmtu, path->family, path->remote, f->data, n->now_ns);
	u->stats.datagrams_out++;
	u->stats.bytes_out += len;
	return sl_net_send(n, f, path, SL_IP_PROTO_UDP) ? 0 : -ENOBUFS;
}

void sl_udp_stats(const struct sl_udp *u, struct sl_udp_stats *out)
{
	*out = u->stats;
}
