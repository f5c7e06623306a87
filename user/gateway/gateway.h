/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The running gateway: attached interfaces, started workers, connected backends. The control thread
 * and the command line reach the data path through it; no function is called per packet or request.
 *
 *   sl_gateway_open -> (capabilities dropped) -> sl_gateway_start -> [ worker threads ]
 *       -> sl_gateway_drain -> sl_gateway_close
 *
 * The control thread calls all functions unless a comment says otherwise.
 *
 * Reload: sl_gateway_reload() builds the tables of the next configuration and sends them to the
 * workers. sl_gateway_step() is then called every few milliseconds until it returns false. It waits
 * until new backends were dialled, then each worker switches between two bursts. Exchanges finish
 * under the configuration under which they began. That configuration is freed after the last one.
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
 * Attaches to the interfaces and allocates memory: every step that needs capabilities. Starts no
 * thread. cfg must outlive the gateway. Returns NULL and one line in err on failure.
 */
struct sl_gateway *sl_gateway_open(const struct sl_config *cfg, struct sl_err *err);
/*
 * Starts workers and dialers. sl_gateway_step() opens the listeners as soon as each pool has a
 * backend, or each of its backends was dialled without success. Returns 0, or -errno and one line in
 * err.
 */
int sl_gateway_start(struct sl_gateway *g, struct sl_err *err);
/* Returns true once the listeners are open. */
bool sl_gateway_is_open(const struct sl_gateway *g);
/* Writes one line of status: the state, and the pools without a backend. */
void sl_gateway_status(const struct sl_gateway *g, char *text, size_t len);

/* Returns true if each pool has a backend that is up. Otherwise why has the reason. */
bool sl_gateway_ready(const struct sl_gateway *g, struct sl_err *why);

/* Refuses new connections. Returns true once no exchange is left. May be called again. */
bool sl_gateway_drain(struct sl_gateway *g);
/*
 * Begins to replace the configuration by next, which must be checked. The gateway owns next if 0 is
 * returned. Returns -EBUSY while another reload runs. Returns another -errno and one line in err if
 * the reload is impossible; nothing has changed then.
 */
int sl_gateway_reload(struct sl_gateway *g, struct sl_config *next, struct sl_err *err);
/* Continues a reload. Returns true until its configuration is in force in all workers. */
bool sl_gateway_step(struct sl_gateway *g);

/* Stops all threads, detaches from the interfaces and frees the gateway. */
void sl_gateway_close(struct sl_gateway *g);

/* Returns true and one line in why if an interface is down or was removed. */
bool sl_gateway_fault(const struct sl_gateway *g, struct sl_err *why);
/*
 * Returns true and one line in why if a restart can end a fault: an interface was created again, or
 * the XDP program was detached. Also true after all interfaces have been gone for 30 s.
 */
bool sl_gateway_needs_restart(struct sl_gateway *g, uint64_t now_ns, struct sl_err *why);

/* The snapshot for status, metrics and top. Its arrays are valid until the next snapshot. */
struct sl_port_info {
	char ifname[16];
	uint16_t queue;
	uint8_t mode; /* enum sl_port_mode */
	struct sl_port_stats stats;
};

/* Endpoint switches of a backend that has a bootstrap endpoint. */
struct sl_dial_stats {
	uint64_t promotions;         /* links that switched to the primary endpoint */
	uint64_t demotions;          /* links that switched back */
	uint64_t promotions_refused; /* busy links that found the limit reached */
};

struct sl_backend_info {
	const char *pool, *name;
	char info[192]; /* description of the transport, or the last error */
	uint8_t state;  /* enum sl_rpc_state */
	bool on_fallback;
	struct sl_dial_stats dialled;
	struct sl_rpc_stats stats;
};

/* The part of a pool that one worker uses. */
struct sl_subset_info {
	uint32_t subset;    /* backends of the worker's own part */
	uint32_t borrowed;  /* further backends, because too few of its own are connected */
	uint32_t connected; /* connected backends of the pool */
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
	uint64_t nexthop_changes, kernel_resends;
	struct sl_port_info ports[SL_MAX_PORTS];
	uint32_t port_cnt;
	struct sl_backend_info *backends; /* used by the worker, or connected */
	uint32_t backend_cnt, backend_max;
	struct sl_subset_info subsets[SL_MAX_SERVICES]; /* by index of the pool in cfg */
};

struct sl_interface_info {
	char name[16];
	char attach[128]; /* "native, single program", "generic (driver has no XDP)", "adopted prog
			    42" */
	uint64_t verdicts[SL_RX_VERDICT_CNT];
};

struct sl_gateway_info {
	const struct sl_config *cfg; /* in force */
	uint32_t service_max;        /* pools for which the maps have entries */
	uint64_t start_ns;
	bool draining;
	struct sl_worker_info *workers;
	uint32_t worker_cnt;
	struct sl_interface_info *interfaces;
	uint32_t interface_cnt;
};
/* Reads the counters of all workers. Returns a snapshot that belongs to the gateway. */
const struct sl_gateway_info *sl_gateway_info(struct sl_gateway *g);

/* Returns the index of a pool in the maps. It changes only if the pool is removed. */
uint32_t sl_gateway_slot(const struct sl_gateway *g, uint32_t pool);
/* Return entries of the mmapped BPF maps; sl_gateway_live() copies a consistent one. */
const struct sl_svc_hist *sl_gateway_hist(const struct sl_gateway *g, uint32_t worker,
					  uint32_t slot, enum sl_stage stage);
void sl_gateway_live(const struct sl_gateway *g, uint32_t worker, uint32_t slot,
		     struct sl_svc_live *out);
struct sl_svc_ctl *sl_gateway_ctl(struct sl_gateway *g, uint32_t slot);

/*
 * Returns a worker's ring of finished exchanges (core/event.h), for one reader. NULL if the worker
 * does not exist or records none.
 */
struct sl_ring *sl_gateway_events(struct sl_gateway *g, uint32_t worker);

/*
 * Adds rules to the access list of an interface (xio/xdp/acl_map.h). A rule with action 0 removes
 * the rule of its prefix. Stops at the first error, for example a full map. Returns 0, or -errno and
 * one line in err.
 */
int sl_gateway_acl_change(struct sl_gateway *g, const char *ifname, const struct sl_acl_rule *rules,
			  uint32_t cnt, struct sl_err *err);
/* Copies at most max rules. Returns the number of rules that exist, or -ENODEV. */
int sl_gateway_acl_list(struct sl_gateway *g, const char *ifname, struct sl_acl_rule *rules,
			uint32_t max);

#endif
