/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Puts VLAN tags that the NIC has stripped off (rxvlan) from the receive descriptor back into
 * packets; replies carry the tags of requests.
 *
 * Only in the object bound to one device (SL_READ_TAGS, Linux 6.8). Otherwise both functions are
 * empty, and the object runs on any kernel and by ip(8).
 */
#ifndef SL_TAGS_BPF_H
#define SL_TAGS_BPF_H

#include "parse.bpf.h"

#ifdef SL_READ_TAGS

/* Function of the kernel: reads the stripped tag. Returns 0 or -errno. */
extern int bpf_xdp_metadata_rx_vlan_tag(const struct xdp_md *ctx, __be16 *vlan_proto,
					__u16 *vlan_tci) __ksym;

/* Sets p->stripped and p->vlan. VLAN 0 is a priority only. */
static __always_inline void read_stripped_tag(struct xdp_md *ctx, struct sl_packet *p)
{
	__be16 proto = 0;
	__u16 tci = 0;

	if (bpf_xdp_metadata_rx_vlan_tag(ctx, &proto, &tci) || !(tci & SL_VLAN_MASK))
		return;
	p->stripped.proto = proto;
	p->stripped.tci = bpf_htons(tci);
	p->vlan = p->vlan ? SL_VLAN_NONE : tci & SL_VLAN_MASK;
}

/* Puts the tag back. Returns 0 without headroom. Invalidates all pointers into the packet. */
static __always_inline int insert_stripped_tag(struct xdp_md *ctx, const struct sl_packet *p)
{
	const __u32 *from;
	__be16 *tag;
	__u32 *to;

	if (!p->stripped.proto)
		return 1;
	if (bpf_xdp_adjust_head(ctx, -(int)sizeof(p->stripped)))
		return 0;
	to = (void *)(long)ctx->data;
	from = to + 1;
	if ((void *)(to + 5) > (void *)(long)ctx->data_end)
		return 0;
	/* both MAC addresses */
	to[0] = from[0];
	to[1] = from[1];
	to[2] = from[2];
	tag = (void *)(to + 3);
	tag[0] = p->stripped.proto;
	tag[1] = p->stripped.tci;
	return 1;
}

#else

static __always_inline void read_stripped_tag(struct xdp_md *ctx, struct sl_packet *p)
{
	(void)ctx;
	(void)p;
}

static __always_inline int insert_stripped_tag(struct xdp_md *ctx, const struct sl_packet *p)
{
	(void)ctx;
	(void)p;
	return 1;
}

#endif
#endif
