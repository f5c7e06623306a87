/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_GATEWAY_INTERNAL_H
#define SL_GATEWAY_INTERNAL_H

#include "core/health_table.h"
#include "gateway/dial.h"
#include "gateway/ports.h"
#include "gateway/tls_threads.h"
#include "gateway/gateway.h"
#include "worker/worker.h"
#include "xio/host_addr.h"
#include "xio/host_route.h"
#include "xio/probe.h"
#include "xio/xdp/xdp.h"
#include "xio/xsk_port.h"

struct sl_worker_cfg;
struct sl_handover_hub;
struct sl_spare_queue;

/* One generation of the configuration: in force, being drained, or being prepared. */
struct sl_cfg_gen {
	struct sl_cfg_gen *older;
	const struct sl_config *cfg;
	struct sl_config *own; /* cfg, to be freed; NULL: passed to sl_gateway_open() */
	struct sl_worker_cfg *wcfgs[SL_MAX_WORKERS];
	uint32_t slots[SL_MAX_SERVICES]; /* by pool */
	uint32_t number;
};

enum sl_reload_state { SL_RELOAD_NONE, SL_RELOAD_PREPARE, SL_RELOAD_SWITCH };

/* Listening Unix sockets (unix_sockets.c). */
enum { SL_UNIX_SOCKETS_MAX = 2 * SL_MAX_LISTENERS, SL_UNIX_ID = 1 << 30 };
struct sl_unix_socket {
	char path[108];
	int fd;
	uint32_t id;
	int32_t listener; /* index in the configuration; -1: of the next one */
	bool serves;
};

struct sl_unix_sockets {
	struct sl_unix_socket list[SL_UNIX_SOCKETS_MAX];
	uint32_t cnt, next_id;
	bool changed; /* cleared by the caller */
};

/* Opens those of `cfg` that are not open. Returns 0, or -errno and one line in err. */
int sl_unix_sockets_open(struct sl_unix_sockets *u, const struct sl_config *cfg,
			 struct sl_err *err);
/*
 * Serves those of `cfg`, keeps those of `next`, closes all others. Both may be NULL. Returns
 * `changed`.
 */
bool sl_unix_sockets_follow(struct sl_unix_sockets *u, const struct sl_config *cfg,
			    const struct sl_config *next);
/* Returns sl_sock_listener.name. */
uint64_t sl_unix_socket_name(const struct sl_unix_socket *s);

/* An interface of the configuration. */
struct sl_gateway_link {
	char name[16];
	bool by_sockets; /* kernel sockets serve it */
	uint32_t xdp;    /* else: index in sl_gateway.xdp */
	char why[128];   /* of by_sockets; "": configured */
};

struct sl_gateway {
	const struct sl_config *cfg; /* generation->cfg */
	struct sl_cfg_gen first, *generation, *next;
	enum sl_reload_state reload;
	uint64_t dial_until_ns; /* a reload waits until then */
	uint32_t service_max;
	uint64_t start_ns;
	uint32_t frame_size;
	struct sl_xdp *xdp; /* [xdp_cnt]; none: [0] has the tables only */
	uint32_t xdp_cnt;
	struct sl_gateway_link *links; /* as in the first configuration */
	uint32_t link_cnt;
	struct sl_worker *workers;
	unsigned worker_cnt;
	struct sl_tls_threads *tls_threads;
	struct sl_handover_hub *hub; /* NULL with one worker */
	struct sl_conn_mgr *conn_mgr;
	struct sl_ports ports; /* reserved in the kernel */
	struct sl_unix_sockets unix_sockets;
	struct sl_health_table health;
	struct sl_host_addrs host; /* addresses behind "*", and MACs */
	struct sl_host_routes routes;
	struct sl_spare_queue *spares; /* for queues that do not exist yet */
	uint32_t spare_cnt;
	uint64_t queues_ns;                /* next look at the numbers of queues */
	struct sl_net_listener *listening; /* in force: packets are redirected */
	uint32_t listening_cnt;
	struct sl_net_listener *opening; /* not in force before backends were dialled */
	uint32_t opening_cnt;
	uint64_t open_until_ns;
	struct sl_net_listener stale[SL_MAX_LISTENERS]; /* removed; redirected until trim_ns */
	uint32_t stale_cnt;
	uint64_t trim_ns;
	uint64_t gone_ns; /* no interface exists since; 0: one does */
	bool draining;
	struct sl_gateway_info info;
};

/* Allocates the snapshot. Returns 0, or < 0 without memory; sl_snapshot_fini() frees either. */
int sl_snapshot_init(struct sl_gateway *g);
void sl_snapshot_fini(struct sl_gateway *g);
/* Makes room for the backends. Returns 0, or -ENOMEM without a change. */
int sl_snapshot_resize(struct sl_gateway *g, const struct sl_config *cfg);

/* Logs that the interface is served by kernel sockets, and why. */
void sl_gateway_link_fall_back(struct sl_gateway_link *k, const char *why);

/* tables.c: counters of pools in memory, where no XDP program has maps. Returns 0 or -ENOMEM. */
int sl_tables_open(struct sl_gateway *g);
void sl_tables_close(struct sl_gateway *g);

/* listeners.c */
/* Returns the addresses that a configuration serves, for the caller to free. NULL: errno. */
struct sl_net_listener *sl_listeners_list(const struct sl_config *cfg, uint32_t *cnt);
/*
 * Redirects packets to the addresses of the list, which the workers must know already. Removed
 * addresses stay redirected until sl_listeners_trim(). Takes ownership of the list. Returns 0 or
 * -errno.
 */
int sl_listeners_apply(struct sl_gateway *g, struct sl_net_listener *list, uint32_t cnt);
/* Leaves packets to removed addresses to the kernel. */
void sl_listeners_trim(struct sl_gateway *g);
/* Leaves packets of interfaces with XDP, and of their VLANs, to XDP. */
void sl_listeners_exclude_links(struct sl_gateway *g);
/* Follows changed addresses and MACs of the host. */
void sl_listeners_follow_host(struct sl_gateway *g, uint64_t now_ns);
/* Passes changed listening sockets to the workers. */
void sl_listeners_tell_workers(struct sl_gateway *g);
/* Releases reserved ports that no list has, and listens for local clients. */
void sl_listeners_follow_ports(struct sl_gateway *g);
/* Applies `opening` once all pools were dialled, or after a time-out. */
void sl_listeners_open(struct sl_gateway *g);

/* queues.c */
/* Creates sockets for the queues that the interface can have; needs capabilities. */
void sl_queues_prepare(struct sl_gateway *g, uint32_t iface, const struct sl_nic_info *nic,
		       const struct sl_xsk_options *o);
/* Serves queues that were added. */
void sl_queues_follow(struct sl_gateway *g, uint64_t now_ns);
/* Closes ports that no worker has. Workers must have stopped, and still exist. */
void sl_queues_close(struct sl_gateway *g);

/* link_warnings.c: logs what of the interface costs speed or packets. */
void sl_warn_of_link(const struct sl_cfg_interface *ci, const struct sl_xdp *x,
		     const struct sl_port *p);

/* routes.c */
/* Reads the host's routes and gives them to the workers, which have not started. 0 or -errno. */
int sl_routes_open(struct sl_gateway *g, struct sl_err *err);
/* Gives changed routes and neighbours of the host to the workers. */
void sl_routes_follow_host(struct sl_gateway *g, uint64_t now_ns);

/* health.c: fills in the health of a worker's backend. */
void sl_snapshot_health(const struct sl_backend_ref *m, struct sl_backend_info *bi);

/* acl.c: applies VLANs and prefixes. Returns 0 or -errno. */
int sl_acl_apply(struct sl_gateway *g, const struct sl_config *cfg);

/* reload.c */
/* Fills the first generation from the tables that the workers have. */
void sl_cfg_gen_open(struct sl_gateway *g);
uint32_t sl_cfg_gen_backends(const struct sl_config *cfg);
/* Dials the backends of the first generation. Returns 0, or -1 and errno. */
int sl_cfg_gen_start(struct sl_gateway *g);
/* Workers and dialers must have ended. */
void sl_cfg_gens_free(struct sl_gateway *g);

#endif
