/* SPDX-License-Identifier: Apache-2.0 */
/* Counts packets and passes them on to the next program of the dispatcher's chain. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <xdp/xdp_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} NAME SEC(".maps");

struct {
	__uint(priority, PRIORITY);
	__uint(XDP_PASS, 1);
} XDP_RUN_CONFIG(count_packets);

SEC("xdp")
int count_packets(struct xdp_md *ctx)
{
	__u32 key = 0;
	__u64 *packets = bpf_map_lookup_elem(&NAME, &key);

	(void)ctx;
	if (packets)
		__sync_fetch_and_add(packets, 1);
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
