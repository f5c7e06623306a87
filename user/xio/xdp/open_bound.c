/* SPDX-License-Identifier: Apache-2.0 */
#include <linux/bpf.h>
#include <bpf/libbpf.h>
#include "xio/xdp/setup.h"

/* Generated with sign conversions. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#include "sluice_tags.skel.h" /* struct sluice_bpf, too */
#pragma GCC diagnostic pop

#ifndef BPF_F_XDP_DEV_BOUND_ONLY /* Linux 6.3 */
#define BPF_F_XDP_DEV_BOUND_ONLY (1U << 6)
#endif

struct sluice_bpf *sl_xdp_open_bound(int ifindex)
{
	struct sluice_bpf *skel = sluice_bpf__open();
	struct bpf_program *p = NULL;

	while (skel && (p = bpf_object__next_program(skel->obj, p))) {
		bpf_program__set_ifindex(p, (uint32_t)ifindex);
		bpf_program__set_flags(p, bpf_program__flags(p) | BPF_F_XDP_DEV_BOUND_ONLY);
	}
	return skel;
}
