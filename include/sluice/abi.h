/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * BPF maps shared by the XDP program, the gateway and bpftool.
 *
 *   map           kind             key                    value               written by
 *   sl_listeners  hash             sl_listener_key        sl_listener         control thread
 *   sl_xsks       XSKMAP           rx queue               AF_XDP socket       worker start
 *   sl_queues     array, mmapable  rx queue               sl_queue            worker, XDP program
 *   sl_rx_drops   per-CPU array    enum sl_rx_verdict     u64 packets         XDP program
 *   sl_svc_hist   array, mmapable  sl_hist_index()        sl_svc_hist         workers
 *   sl_svc_live   array, mmapable  sl_live_index()        sl_svc_live         batch controller
 *   sl_stages     hash             sl_stage_key           sl_stage_times      control thread
 *   sl_svc_ctl    array, mmapable  service                sl_svc_ctl          operator
 *   sl_edge       array            0                      sl_edge             control thread
 *   sl_prefix4    LPM trie         sl_prefix4             sl_prefix           control thread
 *   sl_prefix6    LPM trie         sl_prefix6             sl_prefix           control thread
 *   sl_offenders  LRU hash         sl_offender_key        sl_offender         control thread
 *
 * The gateway sets the sizes of sl_svc_* before it loads the program. The size of sl_svc_ctl is the
 * service_cnt of the index functions.
 *
 * Ports and addresses are in network byte order, other fields in host order. Times are nanoseconds
 * of CLOCK_MONOTONIC. Writers of mmapable maps use plain stores. Readers of sl_svc_live retry if
 * `seq` was odd or has changed.
 */
#ifndef SLUICE_ABI_H
#define SLUICE_ABI_H

#include <linux/types.h>

#define SL_PIN_ROOT "/sys/fs/bpf/sluice"

enum {
	SL_MAX_QUEUES = 64,
	SL_MAX_LISTENERS = 256,
	SL_MAX_LISTENER_KEYS = 65536, /* listeners times addresses */
	SL_MAX_WORKERS = 16,
	SL_MAX_SERVICES = 256,
	SL_MAX_PREFIXES = 16384, /* per address family */
	SL_MAX_OFFENDERS = 8192,
	/* Sizes if ip(8) or xdp-loader loads it. */
	SL_DEFAULT_WORKERS = 8,
	SL_DEFAULT_SERVICES = 16,
	SL_HIST_BUCKET_CNT = 320, /* equals SL_HIST_BUCKETS of base/hist.h */
	SL_ANY_SERVICE = 0xffff,
};

/* The only variable in .rodata: the version of a program on an interface. */
struct sl_prog_config {
	__u32 magic;
	__u32 version;
	__u32 service_cnt;
	__u32 by_gateway; /* 1: loaded by a gateway; stale without it */
};
#define SL_PROG_MAGIC  0x736c7570u
#define SL_ABI_VERSION 8u

/*
 * A served address and port. A listener for any address has one entry per address of the host. Port
 * 0: all ports of the address. An entry with the first port of sl_edge's range stands for the
 * range.
 */
struct sl_listener_key {
	__u8 addr[16]; /* IPv4: first four bytes, the rest zero */
	__be16 port;
	__u8 family;   /* 4 or 6 */
	__u8 protocol; /* IPPROTO_TCP or IPPROTO_UDP */
};

struct sl_listener {
	__u16 listener;     /* index in the configuration */
	__u16 shed_service; /* service whose sl_svc_live controls shedding; SL_ANY_SERVICE: none */
	__u32 flags;
};

/*
 * Worker of a receive queue, and the limit of waiting SYNs and datagrams: at most half of the
 * queue's frames, to spare established connections in a flood. One cache line per writer.
 */
struct sl_queue {
	__u32 worker;
	__u32 open_limit; /* worker: above it 15 of 16 are refused; wraps like `opens` */
	__u32 pad0[14];
	__u32 opens; /* XDP program: number admitted */
	__u32 pad1[15];
};

/*
 * Filter of packets for the interface's listeners. Packets of other VLANs are passed to the kernel.
 * The longest matching prefix decides: denied packets are dropped, others accepted. An allow list
 * denies 0.0.0.0/0 and ::/0.
 */
enum {
	SL_VLAN_ANY = 0,       /* tagged or untagged; default */
	SL_VLAN_NONE = 0xffff, /* untagged or priority-tagged (VLAN 0) */
};

/*
 * ports_first to ports_last: local TCP ports of the gateway's own connections to servers. Their
 * packets need no match of VLAN or prefix. A SYN for them is passed to the kernel.
 */
struct sl_edge {
	__u32 vlan;                    /* VLAN 1 to 4094, or one of the above */
	__u8 mac[6];                   /* frames to others are passed to the kernel */
	__u16 ports_first, ports_last; /* 0: none */
	__u8 offenders;                /* 0: sl_offenders is empty */
	__u8 pad;
};

struct sl_prefix4 {
	__u32 len; /* bits */
	__u8 addr[4];
};

struct sl_prefix6 {
	__u32 len;
	__u8 addr[16];
};

enum sl_prefix_action { SL_PREFIX_ALLOW = 1, SL_PREFIX_DENY = 2 };
enum sl_prefix_origin { SL_PREFIX_OF_FILE, SL_PREFIX_OF_OPERATOR };

struct sl_prefix {
	__u32 action;
	__u32 origin; /* the operator's prefixes survive a reload */
};

/* A source whose packets to the listeners are dropped: an IPv4 address or an IPv6 /64. */
struct sl_offender_key {
	__u8 addr[8]; /* IPv4: first four bytes, the rest zero */
	__u32 family; /* 4 or 6 */
};

struct sl_offender {
	__u64 until_ns; /* ignored from then on, until it is removed */
};

/* XDP metadata in front of a redirected packet. */
struct sl_rx_meta {
	__u64 rx_ns; /* bpf_ktime_get_ns() */
	__u32 magic;
	__u16 queue;
	__u16 listener;
};
#define SL_RX_META_MAGIC 0x736c7831u

/* Stages of an exchange, each with a histogram in nanoseconds. */
enum sl_stage {
	SL_STAGE_WIRE,    /* XDP program -> taken from the AF_XDP ring */
	SL_STAGE_PARSE,   /* -> head parsed */
	SL_STAGE_QUEUE,   /* -> in a batch */
	SL_STAGE_SEND,    /* -> passed to the transport */
	SL_STAGE_COMPUTE, /* reported by the backend */
	SL_STAGE_RPC,   /* sent -> reply received, minus compute; only batches without one ahead */
	SL_STAGE_REPLY, /* -> last byte of the reply passed to TCP or UDP */
	SL_STAGE_TOTAL, /* first byte in -> last byte out */
	SL_STAGE_FIRST, /* stream: opened -> first part of the reply received */
	SL_STAGE_GAP,   /* stream: between parts of the reply */
	SL_STAGE_CNT,
};

struct sl_svc_hist {
	__u64 count;
	__u64 sum_ns;
	__u64 bucket[SL_HIST_BUCKET_CNT];
	__u64 pad[6]; /* neighbours may belong to other workers */
};

/* A pool's stage by name, for readers. The name is cut to fit, and ends with NUL. */
struct sl_stage_key {
	char pool[32];
	enum sl_stage stage;
};

/* Of the last 2 to 4 seconds, written every 2. */
struct sl_stage_times {
	__u32 service; /* index in sl_svc_ctl */
	__u32 pad;
	__u64 count; /* since the start */
	__u64 recent;
	__u64 mean_ns;
	__u64 p50_ns;
	__u64 p90_ns;
	__u64 p99_ns;
};

/* Returns the index in sl_svc_hist of a worker, service and enum sl_stage. */
static inline __u32 sl_hist_index(__u32 service_cnt, __u32 worker, __u32 service, __u32 stage)
{
	return (worker * service_cnt + service) * SL_STAGE_CNT + stage;
}

/* Written only by the worker's batch controller. */
struct sl_svc_live {
	__u32 seq;       /* odd while being written */
	__u32 batch_cap; /* largest batch within the latency bound */
	__u32 batch_low; /* smallest that keeps up with arrivals */
	__u32 batch_last;
	__u64 hold_ns;     /* delay of a batch for more requests */
	__u64 arrival_mhz; /* requests per 1000 s */
	__u64 alpha_ns;    /* service time of a batch of b requests: alpha + beta * b */
	__u64 beta_ns;
	__u64 dev_ns; /* mean deviation */
	__u64 rtt_ns; /* without compute */
	__u64 bound_ns;
	__u32 queued;
	__u32 in_flight;  /* requests */
	__u32 shed_level; /* 0: none .. 65536: XDP refuses all new connections */
	__u32 policy;     /* enum sl_policy */
	__u64 shed;       /* requests answered 429 or 503 since start */
	__u64 batches;
	__u64 requests;
	__u64 updated_ns;
	__u64 pad;
};

/* Returns the index in sl_svc_live. */
static inline __u32 sl_live_index(__u32 service_cnt, __u32 worker, __u32 service)
{
	return worker * service_cnt + service;
}

/* Overrides by the operator; zero: left to the controller. */
struct sl_svc_ctl {
	__u32 batch_size;
	__u32 shed_level; /* as above plus 1; 1: shed nothing */
	__u64 hold_ns;    /* as above plus 1; 1: no delay */
	__u64 bound_ns;
	__u64 deadline_ns;
};

_Static_assert(sizeof(struct sl_listener_key) == 20, "map key");
_Static_assert(sizeof(struct sl_prefix4) == 8 && sizeof(struct sl_prefix6) == 20, "map keys");
_Static_assert(sizeof(struct sl_offender_key) == 12, "map key");
_Static_assert(sizeof(struct sl_queue) == 128, "whole cache lines");
_Static_assert(sizeof(struct sl_rx_meta) == 16, "a multiple of 4 and at most 32, as XDP wants it");
_Static_assert(sizeof(struct sl_stage_key) == 36, "map key");
_Static_assert(sizeof(struct sl_svc_hist) % 64 == 0, "whole cache lines");
_Static_assert(sizeof(struct sl_svc_live) == 128, "whole cache lines");

#endif
