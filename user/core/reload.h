/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From one configuration to the next while requests run. For each worker the control thread makes a
 * change: all memory that the next one takes. The worker takes it in two steps, between two bursts:
 *
 *   prepare   channels to new backends, so that they can be dialled before anything goes there
 *   switch    routes, limits, listeners, batchers. What waits moves on into the new batchers, what
 *             was learned with it; backends that are gone get no more batches
 *   leave     (by itself, later) a backend that is gone ends when its last request is answered, a
 *             pool that is gone when no exchange of an older generation is left; then `settled`
 *             says the new generation's number, and older configurations can be freed
 *
 *   control:  create -> [prepare] -> wait for links -> [switch] -> free once settled
 */
#ifndef SL_CORE_RELOAD_H
#define SL_CORE_RELOAD_H

#include <stdatomic.h>
#include "core/service.h"

enum sl_core_step { SL_CHANGE_MADE, SL_CHANGE_PREPARED, SL_CHANGE_SWITCHED };

struct sl_core_change {
	struct sl_generation gen;
	uint32_t service_cnt;
	struct sl_batcher **batchers; /* [service_cnt]; after the switch those that were replaced */
	struct sl_rpc_channel **channels; /* [service_cnt][SL_MAX_BACKENDS], those not taken */
	struct sl_net_listener *listeners;
	uint32_t listener_cnt;
	_Atomic int step; /* enum sl_core_step */
};

/* Control thread. `next` is aligned with the living; listeners are the caller's. NULL: no memory.
 */
struct sl_core_change *sl_core_change_create(struct sl_core *c,
					     const struct sl_config *const *living,
					     uint32_t living_cnt, const struct sl_config *next,
					     uint64_t number);
/* Once it is switched: what was replaced or not needed. Before the configuration it came from. */
void sl_core_change_tidy(struct sl_core_change *ch);
/* One that no worker has, or whose generation is not in force any more. */
void sl_core_change_free(struct sl_core_change *ch);

/* The worker. */
void sl_core_prepare(struct sl_core *c, struct sl_core_change *ch);
void sl_core_switch(struct sl_core *c, struct sl_core_change *ch);
void sl_core_leave(struct sl_core *c);

/* core.c: what fronts may take, from the configuration in force. */
void sl_core_set_limits(struct sl_core *c);

/* batch_move.c: all that waits, runs, and was learned passes to `b`, which is new. */
void sl_batcher_take_over(struct sl_batcher *b, struct sl_batcher *from);
/* One for `pool` that can take over what waits in one with that max_queue. */
struct sl_batcher *sl_batcher_create_next(const struct sl_cfg_pool *pool, uint32_t max_queue,
					  const struct sl_batch_ops *ops, void *app,
					  const struct sl_svc_hist *hist, struct sl_svc_live *live,
					  const struct sl_svc_ctl *ctl);

#endif
