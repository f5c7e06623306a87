/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef SL_STEER_BPF_H
#define SL_STEER_BPF_H

#include "maps.bpf.h"
#include "parse.bpf.h"
#include "tags.bpf.h"

/* Looks up the address and port, then all ports (sets key->port). Returns NULL without entry. */
static __always_inline const struct sl_listener *find_listener(struct sl_listener_key *key)
{
	const struct sl_listener *l = bpf_map_lookup_elem(&sl_listeners, key);

	if (l)
		return l;
	key->port = 0;
	return bpf_map_lookup_elem(&sl_listeners, key);
}

/*
 * Same for the range of local ports, unless a segment opens a connection. Needs `port`: in key it
 * is 0.
 */
static __always_inline const struct sl_listener *
find_range(struct sl_listener_key *key, const struct sl_edge *edge, __be16 port, int opens)
{
	const __u16 number = bpf_ntohs(port);

	if (key->protocol != IPPROTO_TCP || opens || !edge->ports_first ||
	    number < edge->ports_first || number > edge->ports_last)
		return 0;
	key->port = bpf_htons(edge->ports_first);
	return bpf_map_lookup_elem(&sl_listeners, key);
}

/* Returns true if the destination is not the interface's MAC address. */
static __always_inline int is_other_host(const struct xdp_md *ctx, const struct sl_edge *edge)
{
	const struct ethhdr *eth = (void *)(long)ctx->data;
	const __u32 *mac_hi = (const void *)edge->mac;
	const __u16 *mac_lo = (const void *)(edge->mac + 4);

	if ((void *)(eth + 1) > (void *)(long)ctx->data_end)
		return 1;
	return (*(const __u32 *)eth->h_dest ^ *mac_hi) |
	       (*(const __u16 *)(eth->h_dest + 4) ^ *mac_lo);
}

/* Returns true if the interface's listeners are on another VLAN. */
static __always_inline int is_other_vlan(const struct sl_packet *p, const struct sl_edge *edge)
{
	if (edge->vlan == SL_VLAN_ANY)
		return 0;
	return p->vlan != (edge->vlan == SL_VLAN_NONE ? 0 : edge->vlan);
}

/* Returns true by a rule. ICMP errors (family 0) pass: the stack checks their quotes. */
static __always_inline int is_denied(const struct sl_packet *p)
{
	const struct sl_prefix *rule = 0;

	if (p->family == 4)
		rule = bpf_map_lookup_elem(&sl_prefix4, &p->from4);
	else if (p->family == 6)
		rule = bpf_map_lookup_elem(&sl_prefix6, &p->from6);
	return rule && rule->action == SL_PREFIX_DENY;
}

/* Returns true for listed sources; ICMP errors pass. */
static __always_inline int is_offender(const struct sl_packet *p)
{
	struct sl_offender_key key __attribute__((aligned(8))) = {.family = p->family};
	const struct sl_offender *o;

	if (p->family == 4)
		__builtin_memcpy(key.addr, p->from4.addr, sizeof(p->from4.addr));
	else if (p->family == 6)
		__builtin_memcpy(key.addr, p->from6.addr, sizeof(key.addr));
	else
		return 0;
	o = bpf_map_lookup_elem(&sl_offenders, &key);
	return o && bpf_ktime_get_ns() < o->until_ns;
}

/* Returns true with probability shed_level / 65536. */
static __always_inline int is_shed(const struct sl_listener *l, const struct sl_queue *q)
{
	const struct sl_svc_live *live;
	__u32 index;

	if (l->shed_service >= sl_config.service_cnt)
		return 0;
	index = sl_live_index(sl_config.service_cnt, q->worker, l->shed_service);
	live = bpf_map_lookup_elem(&sl_svc_live, &index);
	if (!live || !live->shed_level)
		return 0;
	return (bpf_get_prandom_u32() & 0xffff) < live->shed_level;
}

/* Returns true at the limit, except for one packet in 16, which wakes a sleeping worker. */
static __always_inline int is_crowded(const struct sl_queue *q)
{
	return (__s32)(q->open_limit - q->opens) <= 0 && (bpf_get_prandom_u32() & 15);
}

/* Counts a SYN or datagram. Returns SL_RX_REDIRECT, or why it is refused. */
static __always_inline int admit(const struct sl_packet *p, const struct sl_listener *l,
				 __u32 rx_queue)
{
	struct sl_queue *q = bpf_map_lookup_elem(&sl_queues, &rx_queue);

	if (!q)
		return SL_RX_NO_SOCKET;
	if (is_shed(l, q))
		return p->key.protocol == IPPROTO_TCP ? SL_RX_SHED_CONNECTION : SL_RX_SHED_DATAGRAM;
	if (is_crowded(q))
		return SL_RX_SHED_QUEUE;
	/* packets of a queue are sequential; in generic mode an increment may be lost */
	q->opens++;
	return SL_RX_REDIRECT;
}

/* Writes struct sl_rx_meta, if the driver has room. Invalidates all pointers into the packet. */
static __always_inline void stamp(struct xdp_md *ctx, const struct sl_listener *l)
{
	struct sl_rx_meta *meta;
	void *data;

	if (bpf_xdp_adjust_meta(ctx, -(int)sizeof(*meta)))
		return;
	data = (void *)(long)ctx->data;
	meta = (void *)(long)ctx->data_meta;
	if ((void *)(meta + 1) > data)
		return;
	meta->rx_ns = bpf_ktime_get_ns();
	meta->magic = SL_RX_META_MAGIC;
	meta->queue = (__u16)ctx->rx_queue_index;
	meta->listener = l->listener;
}

/* Returns SL_RX_REDIRECT for a parsed packet that a worker gets, or a verdict. */
static __always_inline int steer_packet(struct xdp_md *ctx, struct sl_packet *p)
{
	const __u32 zero = 0;
	const struct sl_edge *edge = bpf_map_lookup_elem(&sl_edge, &zero);
	const __be16 port = p->key.port;
	const struct sl_listener *l = find_listener(&p->key);
	int verdict, ours = 0; /* of a connection that the gateway has opened */

	if (!l && edge) {
		l = find_range(&p->key, edge, port, p->opens);
		ours = 1;
	}
	if (!l)
		return SL_RX_PASS_NO_LISTENER;
	if (!edge || is_other_host(ctx, edge))
		return SL_RX_PASS_OTHER_HOST;
	read_stripped_tag(ctx, p);
	if (!ours && is_other_vlan(p, edge))
		return SL_RX_PASS_VLAN;
	if (!ours && is_denied(p))
		return SL_RX_DENIED;
	if (edge->offenders && !ours && is_offender(p))
		return SL_RX_OFFENDER;
	if (p->fragment)
		return SL_RX_FRAGMENT;
	if (bpf_redirect_map(&sl_xsks, ctx->rx_queue_index, XDP_PASS) != XDP_REDIRECT)
		return SL_RX_NO_SOCKET;
	if (p->opens) {
		verdict = admit(p, l, ctx->rx_queue_index);
		if (verdict != SL_RX_REDIRECT)
			return verdict;
	}
	if (!insert_stripped_tag(ctx, p))
		return SL_RX_NO_SOCKET; /* no headroom: dropped, as the kernel would reset it */
	stamp(ctx, l);
	return SL_RX_REDIRECT;
}

#endif
