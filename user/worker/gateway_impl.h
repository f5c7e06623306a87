/* SPDX-License-Identifier: Apache-2.0 */
/* What gateway.c and info.c share. */
#ifndef SL_WORKER_GATEWAY_IMPL_H
#define SL_WORKER_GATEWAY_IMPL_H

#include "worker/dial.h"
#include "worker/gateway.h"
#include "worker/worker.h"
#include "xio/xdp_load.h"
#include "xio/xsk_port.h"

struct sl_core_change;
struct sl_handover_hub;

/* A configuration that is in force, was, or is about to be; the newest first. */
struct sl_epoch {
	struct sl_epoch *older;
	const struct sl_config *cfg;
	struct sl_config *own; /* the same, unless it is the one that the gateway was opened with */
	uint64_t number;       /* of its generation */
	struct sl_core_change *changes[SL_MAX_WORKERS];
};

enum sl_reload_state { SL_RELOAD_NONE, SL_RELOAD_PREPARE, SL_RELOAD_SWITCH };

struct sl_gateway {
	const struct sl_config *cfg; /* epoch->cfg */
	struct sl_epoch first, *epoch, *next;
	enum sl_reload_state reload;
	uint64_t dial_until_ns; /* new backends are waited for until then */
	uint32_t service_max;
	uint64_t start_ns;
	uint32_t frame_size;
	struct sl_xdp *xdp; /* [interface_cnt] */
	uint32_t xdp_cnt;
	struct sl_worker *workers;
	unsigned worker_cnt;
	struct sl_handover_hub *hub;       /* NULL with one worker */
	struct sl_dialler **diallers;      /* [service_max][SL_MAX_BACKENDS] */
	struct sl_dialler **ending;        /* the same, of backends that have been taken out */
	struct sl_net_listener *listening; /* what the program sends to us */
	uint32_t listening_cnt;
	struct sl_net_listener stale[SL_MAX_LISTENERS]; /* the kernel's again at trim_ns */
	uint32_t stale_cnt;
	uint64_t trim_ns;
	bool draining;
	struct sl_gateway_info info;
};

static inline uint32_t sl_dialler_slot(uint32_t pool, uint32_t backend)
{
	return pool * SL_MAX_BACKENDS + backend;
}

int sl_info_init(struct sl_gateway *g);
void sl_info_fini(struct sl_gateway *g);
/* Makes room for the backends of g->cfg. 0 or -ENOMEM, and all is as before. */
int sl_info_resize(struct sl_gateway *g);

/* listeners.c */
/* What the listeners of a configuration come to; the caller frees it. NULL: errno. */
struct sl_net_listener *sl_listeners_list(const struct sl_config *cfg, uint32_t *cnt);
/*
 * The program sends those that are listed to us, once the workers know of them. Those of before
 * that are not listed are still sent, for the connections that they have, until the trim. Takes the
 * list. 0 or -errno.
 */
int sl_listeners_apply(struct sl_gateway *g, const struct sl_config *cfg,
		       struct sl_net_listener *list, uint32_t cnt);
void sl_listeners_trim(struct sl_gateway *g);

/* reload.c */
/* For the backends that have none yet. 0 or -1 and errno. */
int sl_diallers_start(struct sl_gateway *g, const struct sl_config *cfg);
void sl_diallers_stop(struct sl_gateway *g);
void sl_reload_fini(struct sl_gateway *g);

#endif
