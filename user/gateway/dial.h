/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connecting to backends, off the data path: a dialler keeps one backend connected with every
 * worker that uses it (subset.h), and hands transports over. A few threads do it for all diallers: whoever is due next is
 * taken by a thread that is free, and one of those that are free watches for links that went down.
 * A link goes on by another endpoint of the same process with all that is under way: from a backend's
 * fallback to its own, once that answers; from its `first` to its own and back, by what it carries
 * (places.h).
 *
 *   link of a member (core/group.h):   DOWN --dialled--> OFFERED --adopted--> UP --lost--> DOWN
 *                                        ^ a thread here        ^ worker writes
 */
#ifndef SL_GATEWAY_DIAL_H
#define SL_GATEWAY_DIAL_H

#include "gateway/gateway.h"
#include "worker/worker.h"

struct sl_switchboard;
struct sl_dialler;
struct sl_member;

/* For these workers. NULL: no memory. */
struct sl_switchboard *sl_switchboard_create(struct sl_worker *workers, unsigned worker_cnt);
/* Ends all threads and diallers. */
void sl_switchboard_destroy(struct sl_switchboard *sb);

/*
 * For backend b of the pool, in that edition; members: of each worker. It dials once it stands on a
 * ring. Copies what it needs of the configuration. agent_cnt: agents of the gateway's own, for servers. NULL: no
 * memory or thread, and errno.
 */
struct sl_dialler *sl_dialler_add(struct sl_switchboard *sb, const struct sl_cfg_pool *pool,
				  uint32_t b, struct sl_member *const *members, uint32_t edition,
				  uint32_t agent_cnt);
/* It is in this edition as well. */
void sl_dialler_keep(struct sl_dialler *d, uint32_t edition);

/*
 * The diallers of a pool, in the order of its backends; a NULL is one that could not be made. Its workers
 * use their parts of them from now on: those of the edition that is in force as well, until the switch.
 * 0 or -ENOMEM.
 */
int sl_ring_enter(struct sl_switchboard *sb, const struct sl_cfg_pool *pool,
		  struct sl_dialler *const *diallers, uint32_t edition);
/* False: the next edition has a worker use a backend with which it has no channel yet. */
bool sl_rings_ready(struct sl_switchboard *sb);
/* Each worker has a backend of each pool in force, or was dialled in vain for each of its backends. */
bool sl_rings_tried(struct sl_switchboard *sb);
/* Of the pool in force; all 0: there is none of that name. */
void sl_switchboard_subset(struct sl_switchboard *sb, const char *pool_name, unsigned worker,
			   struct sl_subset_info *out);

/* So many links of each worker, of backends with `first`, go by their own endpoint; 0 at first. */
void sl_switchboard_allow(struct sl_switchboard *sb, uint32_t max_promoted);
/* This edition is in force; those that are not in it dial no more. */
void sl_switchboard_switch(struct sl_switchboard *sb, uint32_t edition);
/* Frees those of which no attempt is under way any more, and releases their members. */
void sl_switchboard_reap(struct sl_switchboard *sb);

/* Any thread: whether that worker uses it. */
bool sl_dialler_used(const struct sl_dialler *d, unsigned worker);
/* Transport line or the last error for that worker; whether it is the fallback. */
void sl_dialler_info(struct sl_dialler *d, unsigned worker, struct sl_backend_info *out);

#endif
