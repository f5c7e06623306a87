/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Beside the frame, as a NIC that strips tags does: gives what is sent tag 100, and drops it from what comes. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("push_tag")
int push(struct __sk_buff *skb)
{
	bpf_skb_vlan_push(skb, __builtin_bswap16(0x8100), 100);
	return 0;
}

SEC("pop_tag")
int pop(struct __sk_buff *skb)
{
	bpf_skb_vlan_pop(skb);
	return 0;
}

char program_license[] SEC("license") = "Dual BSD/GPL";
