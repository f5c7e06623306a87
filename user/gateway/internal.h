/* SPDX-License-Identifier: Apache-2.0 */
/* Functions: control thread. */
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
struct sl_rss;
struct sl_server_checks;
struct sl_spare_queue;

/* A configuration: in force, being drained, or prepared. */
struct sl_cfg_gen {
	struct sl_cfg_gen *older;
	const struct sl_config *cfg;
	struct sl_config *own; /* cfg, to be freed; NULL: the caller's */
	struct sl_worker_cfg *wcfgs[SL_MAX_WORKERS];
	uint32_t slots[SL_MAX_SERVICES]; /* by pool */
	uint32_t number;
};

enum sl_reload_state { SL_RELOAD_NONE, SL_RELOAD_PREPARE, SL_RELOAD_SWITCH };

/* unix_sockets.c */
enum { SL_UNIX_SOCKETS_MAX = 2 * SL_MAX_LISTENERS, SL_UNIX_ID = 1 << 30 };
struct sl_unix_socket {
	char path[108];
	int fd;
	uint32_t id;
	int32_t listener; /* -1: of the next configuration */
	bool serves;
};

struct sl_unix_sockets {
	struct sl_unix_socket list[SL_UNIX_SOCKETS_MAX];
	uint32_t cnt, next_id;
	bool changed; /* cleared by the caller */
};

/* Opens missing sockets of `cfg`. Returns 0, or -errno and err without a change. */
int sl_unix_sockets_open(struct sl_unix_sockets *u, const struct sl_config *cfg,
			 struct sl_err *err);
/*
 * Lets sockets of `cfg` serve, keeps those of `next`, closes others; NULL: none. Returns `changed`.
 */
bool sl_unix_sockets_follow(struct sl_unix_sockets *u, const struct sl_config *cfg,
			    const struct sl_config *next);
/* Returns a hash of the path, for sl_sock_listener.name. */
uint64_t sl_unix_socket_name(const struct sl_unix_socket *s);

struct sl_gateway_link {
	char name[16];
	bool by_sockets;
	uint32_t xdp;      /* without by_sockets: index in sl_gateway.xdp */
	char why[128];     /* of by_sockets; "": configured */
	char replies[128]; /* of servers; "": one worker, or no ports */
};

struct sl_gateway {
	const struct sl_config *cfg; /* generation->cfg */
	struct sl_cfg_gen first, *generation, *next;
	enum sl_reload_state reload;
	uint64_t dial_until_ns; /* a reload waits until then */
	uint32_t service_max;
	uint64_t start_ns;
	uint32_t frame_size;
	struct sl_xdp *xdp; /* [xdp_cnt]; if 0, [0] has tables only */
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
	struct sl_host_addrs host; /* addresses of "*", and MACs */
	struct sl_host_routes routes;
	struct sl_spare_queue *spares; /* for queues that do not exist */
	uint32_t spare_cnt;
	uint64_t queues_ns;                /* next look at the queues */
	struct sl_rss *rss;                /* as workers know it, by xdp; NULL: not read */
	uint64_t rss_ns;                   /* next look */
	struct sl_net_listener *listening; /* in force: packets are redirected */
	uint32_t listening_cnt;
	struct sl_net_listener *opening; /* in force once backends were dialled */
	uint32_t opening_cnt;
	uint64_t open_until_ns;
	struct sl_net_listener stale[SL_MAX_LISTENERS]; /* removed; redirected until trim_ns */
	uint32_t stale_cnt;
	uint64_t trim_ns;
	uint64_t gone_ns; /* no interface exists since; 0: some exist */
	bool draining;
	struct sl_list upstreams; /* see upstreams.h */
	struct sl_server_checks *server_checks;
	uint64_t upstreams_ns;  /* next look at them */
	uint32_t upstreams_for; /* number of the generation that they follow */
	struct sl_offenders {
		uint64_t tidy_ns, log_ns;
		uint32_t checked; /* number of the generation */
		uint32_t unlogged;
		uint32_t cnt[SL_CFG_MAX_INTERFACES]; /* by xdp */
	} offenders;
	struct sl_gateway_info info;
};

/* Returns 0, or < 0 without memory; call sl_snapshot_fini() in both cases. */
int sl_snapshot_init(struct sl_gateway *g);
/* Frees the snapshot. */
void sl_snapshot_fini(struct sl_gateway *g);
/* Makes room for cfg's backends. Returns 0 or -ENOMEM. */
int sl_snapshot_resize(struct sl_gateway *g, const struct sl_config *cfg);

/* Makes kernel sockets serve the interface, and logs why. */
void sl_gateway_link_fall_back(struct sl_gateway_link *k, const char *why);

/* Allocates pools' counters where XDP has no maps for them. Returns 0 or -ENOMEM. */
int sl_tables_open(struct sl_gateway *g);
/* Frees them, if any; also after an error. */
void sl_tables_close(struct sl_gateway *g);

/* listeners.c */
/* Returns the addresses that cfg serves, to be freed; NULL and errno on error. */
struct sl_net_listener *sl_listeners_list(const struct sl_config *cfg, uint32_t *cnt);
/*
 * Redirects packets to the list's addresses, which workers must know. Removed ones stay redirected
 * until sl_listeners_trim(). Takes the list, also on error. Returns 0 or -errno.
 */
int sl_listeners_apply(struct sl_gateway *g, struct sl_net_listener *list, uint32_t cnt);
/* Passes packets to removed addresses to the kernel. */
void sl_listeners_trim(struct sl_gateway *g);
/* Leaves interfaces with XDP, and their VLANs, to XDP. */
void sl_listeners_exclude_links(struct sl_gateway *g);
/* Follows changed addresses and MACs of the host. */
void sl_listeners_follow_host(struct sl_gateway *g, uint64_t now_ns);
/* Passes changed listening sockets to the workers. */
void sl_listeners_tell_workers(struct sl_gateway *g);
/* Opens and closes sockets by the lists and the reload. */
void sl_listeners_follow_ports(struct sl_gateway *g);
/* Applies `opening` once all pools were dialled, or after a time-out. */
void sl_listeners_open(struct sl_gateway *g);

/* queues.c */
/* Creates sockets for queues that can be added, as many as possible; needs capabilities. */
void sl_queues_prepare(struct sl_gateway *g, uint32_t iface, const struct sl_nic_info *nic,
		       const struct sl_xsk_options *o);
/* Gives added queues of NICs to workers; looks once a second. */
void sl_queues_follow(struct sl_gateway *g, uint64_t now_ns);
/* Closes ports that no worker has. Workers must have stopped and still exist. */
void sl_queues_close(struct sl_gateway *g);

/* Passes changed RSS to workers that connect to servers; looks once a second. */
void sl_rss_follow(struct sl_gateway *g, uint64_t now_ns);

/* link_warnings.c */
/* Logs a fall-back to generic mode, and if it drops long packets. */
void sl_warn_of_generic_mode(const struct sl_cfg_interface *ci, const struct sl_xdp *x,
			     const struct sl_port *p);
/* Logs the effect of stripped VLAN tags, unless the program reads them. */
void sl_warn_of_hidden_tags(const struct sl_cfg_interface *ci, const struct sl_xdp *x);

/* routes.c */
/* Gives the workers routes, before they start. Returns 0, or -errno and err. */
int sl_routes_open(struct sl_gateway *g, struct sl_err *err);
/* Passes changed routes of the host to the workers. */
void sl_routes_follow_host(struct sl_gateway *g, uint64_t now_ns);

/* health.c: fills in bi->health, while the worker runs. */
void sl_snapshot_health(const struct sl_backend_ref *m, struct sl_backend_info *bi);

/* acl.c */
/* Returns NULL if no interface with XDP has this name. */
struct sl_xdp *sl_gateway_find_xdp(struct sl_gateway *g, const char *name);
/* Puts the access lists and VLANs of cfg's interfaces in force. Returns 0 or -errno. */
int sl_acl_apply(struct sl_gateway *g, const struct sl_config *cfg);

/* Returns true if packets longer than a frame arrive by the interface. */
bool sl_gateway_takes_chains(const struct sl_gateway *g, const struct sl_xdp *x);
/* Lists sources that workers reported, for XDP to drop, and removes expired ones. */
void sl_offenders_follow(struct sl_gateway *g, uint64_t now_ns);

/* reload.c */
/* Fills the first generation from the workers' configurations. */
void sl_cfg_gen_open(struct sl_gateway *g);
/* Returns the number of all backends. */
uint32_t sl_cfg_gen_backends(const struct sl_config *cfg);
/* Adds dialers for the backends of the first generation. Returns 0, or -1 and errno. */
int sl_cfg_gen_start(struct sl_gateway *g);
/* Frees all generations. Workers and dialers must have ended. */
void sl_cfg_gens_free(struct sl_gateway *g);

#endif
