/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * XDP program: redirects packets of served addresses, and passes others to the kernel.
 *
 *   parse -> listener or local port? -> own MAC? -> VLAN matches? -> not denied, no offender? -> socket on this queue?
 *         -> admitted? -> stamp -> redirect
 *
 * Loaded by `sluice run`, ip(8) or xdp-loader. The run configuration below is for the dispatcher of
 * libxdp.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <xdp/xdp_helpers.h>
#include "maps.bpf.h"
#include "parse.bpf.h"
#include "steer.bpf.h"

/*
 * After filters (xdp-filter has 10) and the default of 50; passed packets go to the next program.
 */
struct {
	__uint(priority, 60);
	__uint(XDP_PASS, 1);
} XDP_RUN_CONFIG(sluice_xdp);

/*
 * Keeps unused maps: a reference ties them to the program, even in code that the verifier removes.
 */
static __always_inline void keep_maps(void)
{
	if (sl_config.service_cnt == 0) {
		asm volatile("" ::"r"(&sl_svc_hist));
		asm volatile("" ::"r"(&sl_stages));
		asm volatile("" ::"r"(&sl_svc_ctl));
	}
}

static __always_inline int finish(__u32 verdict)
{
	__u64 *count = bpf_map_lookup_elem(&sl_rx_drops, &verdict);

	if (count)
		*count += 1; /* per CPU, and XDP does not interrupt itself */
	switch (verdict) {
	case SL_RX_REDIRECT: return XDP_REDIRECT;
	case SL_RX_SHED_CONNECTION:
	case SL_RX_SHED_DATAGRAM:
	case SL_RX_SHED_QUEUE:
	case SL_RX_NO_SOCKET: /* the kernel would reset connections of other queues */
	case SL_RX_FRAGMENT:  /* and those of reassembled segments */
	case SL_RX_DENIED:
	case SL_RX_OFFENDER: return XDP_DROP;
	default: return XDP_PASS;
	}
}

static __always_inline int steer(struct xdp_md *ctx)
{
	struct sl_packet p = {
		.pos = (void *)(long)ctx->data,
		.end = (void *)(long)ctx->data_end,
	};
	int verdict = parse_packet(&p);

	if (verdict == SL_RX_REDIRECT)
		verdict = steer_packet(ctx, &p);
	keep_maps();
	return finish((__u32)verdict);
}

SEC("xdp")
int sluice_xdp(struct xdp_md *ctx)
{
	return steer(ctx);
}

/* The same, for sl_xdp_renew(): the kernel ignores an update of a link to the same program. */
SEC("xdp")
int sluice_xdp2(struct xdp_md *ctx)
{
	return steer(ctx);
}

/* bpf_xdp_metadata_rx_vlan_tag() requires a licence that is compatible with the GPL. */
char sl_license[] SEC("license") = "Dual BSD/GPL";
