/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The running gateway: attached interfaces, started workers, connected backends. No function is called
 * per packet or request.
 *
 *   sl_gateway_open -> (capabilities dropped) -> sl_gateway_start -> [ worker threads ]
 *       -> sl_gateway_drain -> sl_gateway_close
 *
 * The control thread calls all functions unless a comment says otherwise.
 *
 * Reload: sl_gateway_reload() sends the tables of the next configuration to the workers.
 * sl_gateway_step() is then called every few milliseconds until it returns false. After new
 * backends were dialled, each worker switches between two bursts. Exchanges finish under their
 * first configuration, which is freed after the last one.
 */
#ifndef SL_GATEWAY_GATEWAY_H
#define SL_GATEWAY_GATEWAY_H

#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"
#include "config/config.h"
#include "front/codes.h"
#include "core/stats.h"
#include "front/h2/h2.h"
#include "front/tls/tls.h"
#include "net/net.h"
#include "rpc/rpc.h"
#include "sock/sock.h"
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
 * Starts workers and dialers. sl_gateway_step() opens the listeners once each pool has a backend,
 * or all its backends were dialled. Returns 0, or -errno and one line in err.
 */
int sl_gateway_start(struct sl_gateway *g, struct sl_err *err);
bool sl_gateway_is_open(const struct sl_gateway *g);
/* Writes one line: the state, and the pools without a backend. */
void sl_gateway_status(const struct sl_gateway *g, char *text, size_t len);

/* Returns true if each pool has a backend that is up, else false and the reason in why. */
bool sl_gateway_ready(const struct sl_gateway *g, struct sl_err *why);

/* Returns true if the pool, by index in the configuration, has a backend that is up. */
bool sl_gateway_pool_ready(const struct sl_gateway *g, uint32_t pool);

/* Refuses new connections. Returns true once no exchange is left. May be called again. */
bool sl_gateway_drain(struct sl_gateway *g);
/*
 * Begins to replace the configuration by next, which must be checked. The gateway owns next if 0 is
 * returned. Returns -EBUSY while another reload runs. Returns another -errno and one line in err
 * without any change.
 */
int sl_gateway_reload(struct sl_gateway *g, struct sl_config *next, struct sl_err *err);
/* Continues a reload. Returns true until its configuration is in force in all workers. */
bool sl_gateway_step(struct sl_gateway *g);

/* Stops all threads and frees the gateway. */
void sl_gateway_close(struct sl_gateway *g);

/* Returns true and one line in why if an interface is down or was removed. */
bool sl_gateway_fault(const struct sl_gateway *g, struct sl_err *why);
/*
 * Returns true and one line in why if a restart can end a fault: an interface was created again,
 * the XDP program was detached, or all interfaces have been gone for 30 s.
 */
bool sl_gateway_needs_restart(struct sl_gateway *g, uint64_t now_ns, struct sl_err *why);

/* The snapshot. Its arrays are valid until the next one. */
struct sl_port_info {
	char ifname[16];
	uint16_t queue;
	uint8_t mode; /* enum sl_port_mode */
	struct sl_port_stats stats;
};

struct sl_dial_stats {
	uint64_t promotions;
	uint64_t demotions;
	uint64_t promotions_refused; /* busy links at the limit */
};

struct sl_backend_health_info {
	uint64_t ejections, faults; /* of this worker */
	uint32_t ejected, trial, drained, backup, other_zone;
	uint32_t weight;
};

struct sl_backend_info {
	const char *pool, *name;
	char info[192]; /* transport, or last error */
	uint8_t state;  /* enum sl_rpc_state */
	bool on_fallback;
	struct sl_dial_stats dialled;
	struct sl_backend_health_info health;
	struct sl_rpc_stats stats;
	const struct sl_backend_codes *codes;
};

struct sl_subset_info {
	uint32_t subset;
	uint32_t borrowed;
	uint32_t connected;
};

struct sl_worker_info {
	int cpu;
	uint64_t loops, busy_loops, sleeps;
	uint32_t frames, frames_free, exchanges, exchanges_used, clients;
	uint32_t conn_bytes; /* of an idle connection, all layers */
	struct sl_tcp_stats tcp;
	struct sl_udp_stats udp;
	struct sl_sock_stats sock;
	struct sl_h2_stats h2;
	struct sl_tls_stats tls;
	struct sl_core_stats core;
	uint64_t drops[SL_DROP_CNT];
	uint64_t nexthop_changes, kernel_resends;
	struct sl_port_info ports[SL_MAX_PORTS];
	uint32_t port_cnt;
	struct sl_backend_info *backends;
	uint32_t backend_cnt, backend_max;
	struct sl_subset_info subsets[SL_MAX_SERVICES]; /* by index of the pool in cfg */
};

struct sl_interface_info {
	char name[16];
	char attach[128];
	uint64_t verdicts[SL_RX_VERDICT_CNT];
};

struct sl_gateway_info {
	const struct sl_config *cfg; /* in force */
	uint32_t service_max;        /* pools in the maps */
	uint64_t start_ns;
	bool draining;
	struct sl_worker_info *workers;
	uint32_t worker_cnt;
	struct sl_interface_info *interfaces;
	uint32_t interface_cnt;
};
/* Reads the counters of all workers. The snapshot belongs to the gateway. */
const struct sl_gateway_info *sl_gateway_info(struct sl_gateway *g);

/* Returns the index of a pool in the maps, which is fixed until the pool is removed. */
uint32_t sl_gateway_slot(const struct sl_gateway *g, uint32_t pool);
/* Return entries of the mmapped BPF maps; sl_gateway_live() copies a consistent one. */
const struct sl_svc_hist *sl_gateway_hist(const struct sl_gateway *g, uint32_t worker,
					  uint32_t slot, enum sl_stage stage);
void sl_gateway_live(const struct sl_gateway *g, uint32_t worker, uint32_t slot,
		     struct sl_svc_live *out);
/* Return counters, valid until the next reload. route: cfg->route_cnt stands for no route. */
const struct sl_route_codes *sl_gateway_route_codes(const struct sl_gateway *g, uint32_t worker,
						    uint32_t route);
const struct sl_codes *sl_gateway_pool_codes(const struct sl_gateway *g, uint32_t worker,
					     uint32_t pool);
/* Writes an entry of the map sl_stages. Returns 0 or -errno. */
int sl_gateway_set_stage(struct sl_gateway *g, const struct sl_stage_key *key,
			 const struct sl_stage_times *v);
void sl_gateway_clear_stages(struct sl_gateway *g);
struct sl_svc_ctl *sl_gateway_ctl(struct sl_gateway *g, uint32_t slot);

/* What an operator has set of a backend. It lasts until the gateway ends or the endpoint changes. */
struct sl_backend_override {
	bool drain;
	uint32_t weight; /* 0: as configured */
};
/* Read and replace the overrides of a backend. Return 0, or -ENOENT. */
int sl_gateway_override(const struct sl_gateway *g, const char *pool, const char *backend,
			struct sl_backend_override *out);
int sl_gateway_override_set(struct sl_gateway *g, const char *pool, const char *backend,
			    const struct sl_backend_override *o);

/*
 * Returns a worker's ring of finished exchanges (core/event.h), for one reader. NULL: no such
 * worker, or no records.
 */
struct sl_ring *sl_gateway_events(struct sl_gateway *g, uint32_t worker);

/* Makes the workers fill those rings, or not. */
void sl_gateway_want_events(struct sl_gateway *g, bool wanted);

/*
 * Adds rules to the access list of an interface (xio/xdp/acl_map.h). Action 0 removes the rule of
 * its prefix. Stops at the first error. Returns 0, or -errno and one line in err.
 */
int sl_gateway_acl_change(struct sl_gateway *g, const char *ifname, const struct sl_acl_rule *rules,
			  uint32_t cnt, struct sl_err *err);
/* Copies at most max rules. Returns the number of existing rules, or -ENODEV. */
int sl_gateway_acl_list(struct sl_gateway *g, const char *ifname, struct sl_acl_rule *rules,
			uint32_t max);

#endif
