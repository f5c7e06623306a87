/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The running gateway: interfaces attached, workers started, backends connected. What the control
 * thread and the command line see of the data path; nothing here is called per packet or request.
 *
 *   sl_gateway_open -> (capabilities dropped) -> sl_gateway_start -> [ worker threads ]
 *       -> sl_gateway_drain -> sl_gateway_close
 *
 * All functions are called from the control thread unless said otherwise.
 *
 * Reload: sl_gateway_reload() makes all that the next configuration takes and hands it to the
 * workers; sl_gateway_step(), called every few milliseconds until it returns false, takes it
 * further as they answer: new backends are dialled first, then each worker switches between two
 * bursts. Exchanges finish under the configuration that they began under, which is freed after the
 * last.
 */
#ifndef SL_GATEWAY_GATEWAY_H
#define SL_GATEWAY_GATEWAY_H

#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "config/config.h"
#include "core/stats.h"
#include "front/h2/h2.h"
#include "front/tls/tls.h"
#include "net/net.h"
#include "rpc/rpc.h"
#include "tcp/tcp.h"
#include "udp/udp.h"
#include "xio/xdp/acl_map.h"

struct sl_gateway;
struct sl_ring;

/*
 * Attaches and allocates: all that needs capabilities, and no thread yet. Returns NULL and one line
 * in err.
 */
struct sl_gateway *sl_gateway_open(const struct sl_config *cfg, struct sl_err *err);
/*
 * Starts workers and dialers. sl_gateway_step() opens the listeners as soon as each pool has a backend
 * or was dialled in vain. 0, or -errno and one line in err.
 */
int sl_gateway_start(struct sl_gateway *g, struct sl_err *err);
/* The listeners are open. */
bool sl_gateway_is_open(const struct sl_gateway *g);
/* For people, one line: what it does, and which pools have no backend. */
void sl_gateway_status(const struct sl_gateway *g, char *text, size_t len);

/* Ready: every worker runs and at least one backend of each pool is up (or there are no pools). */
bool sl_gateway_ready(const struct sl_gateway *g, struct sl_err *why);

/* Stops new connections, finishes what is in flight; true once nothing is left. Idempotent. */
bool sl_gateway_drain(struct sl_gateway *g);
/*
 * next: checked; the gateway's when this returns 0. -EBUSY: not yet, call again later. Else -errno
 * and one line in err, and nothing has changed.
 */
int sl_gateway_reload(struct sl_gateway *g, struct sl_config *next, struct sl_err *err);
/* True while a reload is under way: its configuration is not in force everywhere. */
bool sl_gateway_step(struct sl_gateway *g);

/* Ends workers, detaches, frees. */
void sl_gateway_close(struct sl_gateway *g);

/* True, and one line, when an interface is down or gone. */
bool sl_gateway_fault(const struct sl_gateway *g, struct sl_err *why);

/* A snapshot for status, metrics and top. Arrays belong to the snapshot until the next one. */
struct sl_port_info {
	char ifname[16];
	uint16_t queue;
	uint8_t mode; /* enum sl_port_mode */
	struct sl_port_stats stats;
};

/* Of a backend with `first`. */
struct sl_dial_stats {
	uint64_t promotions;         /* links that went on by the backend's own endpoint */
	uint64_t demotions;          /* and those that gave that up for others */
	uint64_t promotions_refused; /* were worth it, and there was none left */
};

struct sl_backend_info {
	const char *pool, *name;
	char info[192]; /* transport line, or why it is down */
	uint8_t state;  /* enum sl_rpc_state */
	bool on_fallback;
	struct sl_dial_stats dialled;
	struct sl_rpc_stats stats;
};

/* Of a pool, for one worker. */
struct sl_subset_info {
	uint32_t subset;    /* members that are its own */
	uint32_t borrowed;  /* and others, as too few of these are connected */
	uint32_t connected; /* of all */
};

struct sl_worker_info {
	int cpu;
	uint64_t loops, busy_loops, sleeps;
	uint32_t frames, frames_free, exchanges, exchanges_used, clients;
	uint32_t conn_bytes; /* memory of one idle connection, all layers */
	struct sl_tcp_stats tcp;
	struct sl_udp_stats udp;
	struct sl_h2_stats h2;
	struct sl_tls_stats tls;
	struct sl_core_stats core;
	uint64_t drops[SL_DROP_CNT];
	struct sl_port_info ports[SL_MAX_PORTS];
	uint32_t port_cnt;
	struct sl_backend_info *backends; /* those that it uses, or is connected with */
	uint32_t backend_cnt, backend_max;
	struct sl_subset_info subsets[SL_MAX_SERVICES]; /* of the pools of cfg */
};

struct sl_interface_info {
	char name[16];
	char attach[128]; /* "native, single program", "generic (driver has no XDP)", "adopted prog
			    42" */
	uint64_t verdicts[SL_RX_VERDICT_CNT];
};

struct sl_gateway_info {
	const struct sl_config *cfg; /* in force */
	uint32_t service_max;        /* slots in the maps: cfg->pool_cnt is not above it */
	uint64_t start_ns;
	bool draining;
	struct sl_worker_info *workers;
	uint32_t worker_cnt;
	struct sl_interface_info *interfaces;
	uint32_t interface_cnt;
};
const struct sl_gateway_info *sl_gateway_info(struct sl_gateway *g);

/* The slot that a pool of the configuration in force has in the maps, as long as it stays. */
uint32_t sl_gateway_slot(const struct sl_gateway *g, uint32_t pool);
/* Histogram, live and override entries of the mmapped BPF maps. */
const struct sl_svc_hist *sl_gateway_hist(const struct sl_gateway *g, uint32_t worker,
					  uint32_t slot, enum sl_stage stage);
void sl_gateway_live(const struct sl_gateway *g, uint32_t worker, uint32_t slot,
		     struct sl_svc_live *out);
struct sl_svc_ctl *sl_gateway_ctl(struct sl_gateway *g, uint32_t slot);

/*
 * A worker's records of finished exchanges (core/event.h), for one reader. NULL: it keeps none, or
 * there are not so many workers. */
struct sl_ring *sl_gateway_events(struct sl_gateway *g, uint32_t worker);

/*
 * The edge of an interface, by the interface's name: who reaches its listeners (xio/xdp/acl_map.h). A
 * rule with action 0 takes the one with its prefix away; all or nothing, but for a full map. 0, or
 * -errno and one line in err.
 */
int sl_gateway_acl_change(struct sl_gateway *g, const char *ifname, const struct sl_acl_rule *rules,
			  uint32_t cnt, struct sl_err *err);
/* The rules, at most max of them; returns how many there are, or -ENODEV. */
int sl_gateway_acl_list(struct sl_gateway *g, const char *ifname, struct sl_acl_rule *rules,
			uint32_t max);

#endif
