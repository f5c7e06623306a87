/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Maps of include/sluice/abi.h. The gateway replaces the sizes of sl_svc_* with
 * sl_config.service_cnt before the load.
 */
#ifndef SL_MAPS_BPF_H
#define SL_MAPS_BPF_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "sluice/abi.h"
#include "sluice/drop.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, SL_MAX_LISTENER_KEYS);
	__type(key, struct sl_listener_key);
	__type(value, struct sl_listener);
} sl_listeners SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, SL_MAX_QUEUES);
	__type(key, __u32);
	__type(value, __u32);
} sl_xsks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SL_MAX_QUEUES);
	__type(key, __u32);
	__type(value, struct sl_queue);
} sl_queues SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SL_RX_VERDICT_CNT);
	__type(key, __u32);
	__type(value, __u64);
} sl_rx_drops SEC(".maps");

/* Not used by the program; every loader must create it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SL_DEFAULT_WORKERS *SL_DEFAULT_SERVICES *SL_STAGE_CNT);
	__type(key, __u32);
	__type(value, struct sl_svc_hist);
} sl_svc_hist SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SL_DEFAULT_WORKERS *SL_DEFAULT_SERVICES);
	__type(key, __u32);
	__type(value, struct sl_svc_live);
} sl_svc_live SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, SL_MAX_SERVICES *SL_STAGE_CNT);
	__type(key, struct sl_stage_key);
	__type(value, struct sl_stage_times);
} sl_stages SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SL_DEFAULT_SERVICES);
	__type(key, __u32);
	__type(value, struct sl_svc_ctl);
} sl_svc_ctl SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sl_edge);
} sl_edge SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, SL_MAX_PREFIXES);
	__type(key, struct sl_prefix4);
	__type(value, struct sl_prefix);
} sl_prefix4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, SL_MAX_PREFIXES);
	__type(key, struct sl_prefix6);
	__type(value, struct sl_prefix);
} sl_prefix6 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, SL_MAX_OFFENDERS);
	__type(key, struct sl_offender_key);
	__type(value, struct sl_offender);
} sl_offenders SEC(".maps");

const volatile struct sl_prog_config sl_config = {
	.magic = SL_PROG_MAGIC,
	.version = SL_ABI_VERSION,
	.service_cnt = SL_DEFAULT_SERVICES,
};

#endif
