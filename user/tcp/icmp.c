/* SPDX-License-Identifier: Apache-2.0 */
/* ICMP errors within the limits of RFC 5927. */
#include "tcp/internal.h"
#include "wire/ip6.h"

enum {
	/* A forged error cannot reduce the MSS further. */
	MIN_MTU4 = 552,
	MIN_MTU6 = 1280,
};

static bool quoted_key(const uint8_t *ip, const uint8_t *l4, struct sl_flow_key *key)
{
	*key = (struct sl_flow_key){.family = ip[0] >> 4};
	if (key->family == 4) {
		memcpy(key->local, ip + 12, 4);
		memcpy(key->remote, ip + 16, 4);
	} else if (key->family == 6) {
		memcpy(key->local, ip + 8, 16);
		memcpy(key->remote, ip + 24, 16);
	} else {
		return false;
	}
	memcpy(&key->local_port_be, l4, 2);
	memcpy(&key->remote_port_be, l4 + 2, 2);
	return true;
}

static bool lower_mss(struct sl_tcp_conn *c, uint32_t mtu)
{
	uint32_t hdr = (c->path.family == 4 ? 20u : 40u) + SL_TCP_HDR_MIN;
	uint16_t old = c->mss;
	struct sl_tcp *t = c->tcp;

	if (c->flags & SL_TCPF_TS)
		hdr += SL_TCP_OPT_TS_LEN;
	if (mtu - hdr >= old)
		return false;
	c->mss = (uint16_t)(mtu - hdr);
	/* RFC 1191 6.5, RFC 8201: no congestion response. */
	for (struct sl_frame *f = frame_of(t, c->txq_head); f && frame_link(f) != c->txq_send;
	     f = f->next) {
		if (f->payload_len > c->mss && !(f->flags & SL_TXF_SACKED))
			sl_tcp_mark_lost(c, f);
	}
	if (c->cwnd < (uint32_t)SL_TCP_INIT_SEGS * c->mss)
		c->cwnd = (uint32_t)SL_TCP_INIT_SEGS * c->mss;
	sl_tcp_dirty(c);
	return true;
}

bool sl_tcp_lower_mss(struct sl_tcp_conn *c, uint32_t mtu)
{
	uint32_t min = c->path.family == 4 ? MIN_MTU4 : MIN_MTU6;

	return lower_mss(c, mtu < min ? min : mtu);
}

void sl_tcp_mtu_lowered(struct sl_tcp *t)
{
	for (uint32_t i = 0; i < t->conns.fresh; i++) {
		struct sl_tcp_conn *c = sl_mempool_at(&t->conns, i);

		if (sl_mempool_in_use(&t->conns, i) && c->state >= SL_TCPS_ESTABLISHED)
			lower_mss(c, sl_net_mtu(t->net, &c->path));
	}
}

void sl_tcp_icmp_error(void *ctx, const void *ip_header, const uint8_t *l4, uint32_t mtu, bool hard)
{
	struct sl_tcp *t = ctx;
	struct sl_flow_key key;
	struct sl_tcp_conn *c;
	uint32_t value, seq = sl_get_be32(l4 + 4);

	if (!quoted_key(ip_header, l4, &key))
		goto ignored;
	value = sl_flow_find(&t->flows, sl_flow_hash(&t->flows, &key), &key);
	if (value >= SL_TCP_TW_BASE)
		goto ignored;
	c = sl_mempool_at(&t->conns, value);
	/* RFC 5927 4 */
	if (!sl_seq_in(seq, c->snd_una, c->snd_nxt - c->snd_una))
		goto ignored;
	if (mtu && c->state >= SL_TCPS_ESTABLISHED) {
		if (sl_tcp_lower_mss(c, mtu))
			return;
	} else if (!mtu && hard && c->state == SL_TCPS_SYN_SENT) { /* RFC 5927 5.2 */
		sl_tcp_conn_gone(c, SL_TCP_UNREACHABLE);
		return;
	}
ignored:
	sl_net_drop(t->net, SL_DROP_ICMP_IGNORED);
}
