/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Picks the packets of served addresses out of an interface; everything else stays with the kernel.
 *
 *   parse -> listener? -> own MAC? -> of its VLAN? -> not denied? -> socket on this queue? -> admitted?
 *         -> stamp -> redirect
 *
 * Every packet leaves through finish(), which counts it under exactly one verdict.
 *
 * Loaded by `sluice run`, or by hand: `ip link set dev X xdpdrv obj sluice.bpf.o sec xdp`,
 * `xdp-loader load X sluice.bpf.o`. The run configuration below is for libxdp's dispatcher.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <xdp/xdp_helpers.h>
#include "maps.bpf.h"
#include "parse.bpf.h"
#include "steer.bpf.h"

/* After filters (xdp-filter has 10) and the default of 50; what we pass goes on to the next. */
struct {
	__uint(priority, 60);
	__uint(XDP_PASS, 1);
} XDP_RUN_CONFIG(sluice_xdp);

/*
 * Maps that the program does not use live only as long as their loader; a reference, even in code
 * that the verifier removes because sl_config.service_cnt is known not to be 0, ties them to the
 * program.
 */
static __always_inline void keep_maps(void)
{
	if (sl_config.service_cnt == 0) {
		asm volatile("" ::"r"(&sl_svc_hist));
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
	case SL_RX_DENIED: return XDP_DROP;
	default: return XDP_PASS;
	}
}

SEC("xdp")
int sluice_xdp(struct xdp_md *ctx)
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

/* No helper in use asks for the GPL. */
char sl_license[] SEC("license") = "Apache-2.0";
