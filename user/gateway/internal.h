/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the gateway's room. */
#ifndef SL_GATEWAY_INTERNAL_H
#define SL_GATEWAY_INTERNAL_H

#include "gateway/dial.h"
#include "gateway/tls_threads.h"
#include "gateway/gateway.h"
#include "worker/worker.h"
#include "xio/host_addr.h"
#include "xio/xdp/xdp.h"
#include "xio/xsk_port.h"

struct sl_worker_cfg;
struct sl_handover_hub;

/* A configuration that is in force, was, or is about to be; the newest first. */
struct sl_cfg_gen {
	struct sl_cfg_gen *older;
	const struct sl_config *cfg;
	struct sl_config *own; /* the same, unless it is the one that the gateway was opened with */
	struct sl_worker_cfg *wcfgs[SL_MAX_WORKERS]; /* made of it for each worker */
	uint32_t slots[SL_MAX_SERVICES];             /* of its pools, in the maps */
	uint32_t number;                             /* counts up */
};

enum sl_reload_state { SL_RELOAD_NONE, SL_RELOAD_PREPARE, SL_RELOAD_SWITCH };

struct sl_gateway {
	const struct sl_config *cfg; /* generation->cfg */
	struct sl_cfg_gen first, *generation, *next;
	enum sl_reload_state reload;
	uint64_t dial_until_ns; /* new backends are waited for until then */
	uint32_t service_max;
	uint64_t start_ns;
	uint32_t frame_size;
	struct sl_xdp *xdp; /* [interface_cnt] */
	uint32_t xdp_cnt;
	struct sl_worker *workers;
	unsigned worker_cnt;
	struct sl_tls_threads *tls_threads;
	struct sl_handover_hub *hub; /* NULL with one worker */
	struct sl_conn_mgr *conn_mgr;
	struct sl_host_addrs host;         /* addresses behind "*", and MACs of interfaces */
	struct sl_net_listener *listening; /* what the program sends to us */
	uint32_t listening_cnt;
	struct sl_net_listener
		*opening; /* what it is to send once backends were dialled; NULL: it does */
	uint32_t opening_cnt;
	uint64_t open_until_ns;                         /* it does by then */
	struct sl_net_listener stale[SL_MAX_LISTENERS]; /* the kernel's again at trim_ns */
	uint32_t stale_cnt;
	uint64_t trim_ns;
	bool draining;
	struct sl_gateway_info info;
};

int sl_snapshot_init(struct sl_gateway *g);
void sl_snapshot_fini(struct sl_gateway *g);
/* Makes room for the backends of a configuration. 0 or -ENOMEM, and all is as before. */
int sl_snapshot_resize(struct sl_gateway *g, const struct sl_config *cfg);

/* listeners.c */
/* What the listeners of a configuration come to; the caller frees it. NULL: errno. */
struct sl_net_listener *sl_listeners_list(const struct sl_config *cfg, uint32_t *cnt);
/*
 * The program sends those that are listed to us, once the workers know of them. Those of before
 * that are not listed are still sent, for the connections that they have, until the trim. Takes the
 * list. 0 or -errno.
 */
int sl_listeners_apply(struct sl_gateway *g, struct sl_net_listener *list, uint32_t cnt);
void sl_listeners_trim(struct sl_gateway *g);
/* Follows addresses and MACs of the host that were added, removed or changed. Control thread. */
void sl_listeners_follow_host(struct sl_gateway *g, uint64_t now_ns);
/* Applies those that are to be opened, if it is time for that. */
void sl_listeners_open(struct sl_gateway *g);

/* acl.c: the VLANs and prefixes of the file are in force. 0 or -errno. */
int sl_acl_apply(struct sl_gateway *g, const struct sl_config *cfg);

/* reload.c */
/* The first configuration, whose tables the workers have. */
void sl_cfg_gen_open(struct sl_gateway *g);
/* Backends in a configuration. */
uint32_t sl_cfg_gen_backends(const struct sl_config *cfg);
/* Its backends are dialled. 0, or -1 and errno. */
int sl_cfg_gen_start(struct sl_gateway *g);
/* Once no worker and no dialer is left. */
void sl_cfg_gens_free(struct sl_gateway *g);

#endif
