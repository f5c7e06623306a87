/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The running gateway. Control thread, unless a comment says otherwise.
 *
 *   sl_gateway_open -> (capabilities dropped) -> sl_gateway_start -> [ worker threads ]
 *       -> sl_gateway_drain -> sl_gateway_close
 *
 * After sl_gateway_reload(), call sl_gateway_step() every few milliseconds until it returns false.
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
#include "xio/xdp/offender_map.h"

struct sl_gateway;
struct sl_ring;

/* Calls emit for interfaces that strip needed VLAN tags, as sl_config_each_warning(). */
void sl_gateway_each_link_warning(const struct sl_config *cfg, sl_config_warn_fn *emit, void *arg);

/*
 * Does all that needs capabilities. Starts no thread. cfg must outlive the gateway. Returns NULL
 * and err.
 */
struct sl_gateway *sl_gateway_open(const struct sl_config *cfg, struct sl_err *err);
/*
 * Starts the threads. sl_gateway_step() opens the listeners once each pool has a backend, or all
 * its backends were dialled. Returns 0, or -errno and err; close the gateway then.
 */
int sl_gateway_start(struct sl_gateway *g, struct sl_err *err);
/* Returns true once the listeners are open. */
bool sl_gateway_is_open(const struct sl_gateway *g);
/* Writes the state, and pools without a backend, in one line, cut at len. */
void sl_gateway_status(const struct sl_gateway *g, char *text, size_t len);

/* Returns false and why if the gateway drains, or a pool has no backend up. */
bool sl_gateway_ready(const struct sl_gateway *g, struct sl_err *why);

/* Returns true if a backend is up and not drained. `pool`: index in the configuration. */
bool sl_gateway_pool_ready(const struct sl_gateway *g, uint32_t pool);

/* Refuses new connections. Call until it returns true: no exchange is left. */
bool sl_gateway_drain(struct sl_gateway *g);
/*
 * Begins to replace the configuration by `next`, which must be checked. Returns 0: the gateway owns
 * it; -EBUSY during another reload, or another -errno and err.
 */
int sl_gateway_reload(struct sl_gateway *g, struct sl_config *next, struct sl_err *err);
/*
 * Does the control thread's periodic work: changes of the host, servers, reload. Returns true
 * during a reload.
 */
bool sl_gateway_step(struct sl_gateway *g);
/*
 * Return a descriptor, and a time or UINT64_MAX: sl_gateway_step() has checks of servers to do when
 * it is readable or due. Other work of sl_gateway_step() needs calls at intervals.
 */
int sl_gateway_fd(const struct sl_gateway *g);
uint64_t sl_gateway_due_ns(const struct sl_gateway *g);

/* Stops all threads and frees all. */
void sl_gateway_close(struct sl_gateway *g);

/* Returns true and one line in why if an interface is down or was removed. */
bool sl_gateway_fault(const struct sl_gateway *g, struct sl_err *why);
/*
 * Returns true and one line in why if a restart can help: an interface was created again, the XDP
 * program was detached, or all interfaces have been gone for 30 s.
 */
bool sl_gateway_needs_restart(struct sl_gateway *g, uint64_t now_ns, struct sl_err *why);

/* Snapshot. Arrays are valid until the next one. */
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
	uint64_t ejections, faults, silences; /* by this worker */
	uint32_t ejected, silent, trial, drained, backup, other_zone;
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
	uint32_t conn_bytes; /* of an idle connection */
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
	struct sl_subset_info subsets[SL_MAX_SERVICES]; /* by pool in cfg */
};

struct sl_interface_info {
	char name[16];
	char attach[128];
	char replies[128]; /* way from servers to the worker; "": one */
	uint64_t verdicts[SL_RX_VERDICT_CNT];
	uint32_t offenders; /* sources listed, at most a second ago */
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
/* Fills and returns the gateway's snapshot. */
const struct sl_gateway_info *sl_gateway_info(struct sl_gateway *g);

/* Returns the index of a pool in the maps, fixed until its removal. */
uint32_t sl_gateway_slot(const struct sl_gateway *g, uint32_t pool);
/* Returns an entry of the mmapped BPF maps, which the worker writes; valid until the close. */
const struct sl_svc_hist *sl_gateway_hist(const struct sl_gateway *g, uint32_t worker,
					  uint32_t slot, enum sl_stage stage);
/* Copies a consistent sl_svc_live of the maps. */
void sl_gateway_live(const struct sl_gateway *g, uint32_t worker, uint32_t slot,
		     struct sl_svc_live *out);
/*
 * Return a route's or pool's reply counters, valid until the next reload. route: cfg->route_cnt: no
 * route.
 */
const struct sl_route_codes *sl_gateway_route_codes(const struct sl_gateway *g, uint32_t worker,
						    uint32_t route);
const struct sl_codes *sl_gateway_pool_codes(const struct sl_gateway *g, uint32_t worker,
					     uint32_t pool);
/* Writes an entry of the BPF map sl_stages. Returns 0, also without XDP, or -errno. */
int sl_gateway_set_stage(struct sl_gateway *g, const struct sl_stage_key *key,
			 const struct sl_stage_times *v);
/* Removes all entries of sl_stages. */
void sl_gateway_clear_stages(struct sl_gateway *g);
/* Returns an operator's overrides of a pool, for workers; valid until the close. */
struct sl_svc_ctl *sl_gateway_ctl(struct sl_gateway *g, uint32_t slot);

/* Set by an operator until the gateway's end or a new endpoint. */
struct sl_backend_override {
	bool drain;
	uint32_t weight; /* 0: as configured */
};
/* Reads an operator's override of a backend. Returns 0, or -ENOENT: no such backend. */
int sl_gateway_override(const struct sl_gateway *g, const char *pool, const char *backend,
			struct sl_backend_override *out);
/* Sets an override. Returns 0, or -ENOENT: no such backend. */
int sl_gateway_override_set(struct sl_gateway *g, const char *pool, const char *backend,
			    const struct sl_backend_override *o);

/*
 * Returns the worker's ring of finished exchanges (core/event.h), for one reader; NULL: no such
 * worker.
 */
struct sl_ring *sl_gateway_events(struct sl_gateway *g, uint32_t worker);

/* Starts or stops all workers' records of exchanges. */
void sl_gateway_want_events(struct sl_gateway *g, bool wanted);

/*
 * Adds rules to an access list (xio/xdp/acl_map.h). Action 0 removes the rule of its prefix. Stops
 * at the first error. Returns 0, or -errno and err.
 */
int sl_gateway_acl_change(struct sl_gateway *g, const char *ifname, const struct sl_acl_rule *rules,
			  uint32_t cnt, struct sl_err *err);
/* Copies at most max sources that XDP drops. Returns their number. */
uint32_t sl_gateway_offenders(struct sl_gateway *g, const char *ifname,
			      struct sl_xdp_offender *list, uint32_t max);
/* Serves a source again. Returns 0, -ENOENT: it is not listed, or -ENODEV. */
int sl_gateway_unlist(struct sl_gateway *g, const char *ifname, const struct sl_addr *source);
/* Copies at most max rules. Returns the number of existing rules, or -ENODEV. */
int sl_gateway_acl_list(struct sl_gateway *g, const char *ifname, struct sl_acl_rule *rules,
			uint32_t max);

#endif
