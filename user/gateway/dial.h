/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connecting to backends, off the data path: a dialer keeps one backend connected with every
 * worker that uses it (subset.h), and hands transports over. A few threads do it for all dialers: whoever is due next is
 * taken by a thread that is free, and one of those that are free watches for links that went down.
 * A link goes on by another endpoint of the same process with all that is under way: from a backend's
 * fallback to its own, once that answers; from its `first` to its own and back, by what it carries
 * (promotion.h).
 *
 *   link of a member (core/pool.h):   DOWN --dialled--> OFFERED --adopted--> UP --lost--> DOWN
 *                                        ^ a thread here        ^ worker writes
 */
#ifndef SL_GATEWAY_DIAL_H
#define SL_GATEWAY_DIAL_H

#include "gateway/gateway.h"
#include "worker/worker.h"

struct sl_conn_mgr;
struct sl_dialer;
struct sl_backend_ref;

/* For these workers. NULL: no memory. */
struct sl_conn_mgr *sl_conn_mgr_create(struct sl_worker *workers, unsigned worker_cnt);
/* Ends all threads and dialers. */
void sl_conn_mgr_destroy(struct sl_conn_mgr *cm);

/*
 * For backend b of the pool, in that generation; members: of each worker. It dials once it stands on a
 * ring. Copies what it needs of the configuration. agent_cnt: agents of the gateway's own, for servers. NULL: no
 * memory or thread, and errno.
 */
struct sl_dialer *sl_dialer_add(struct sl_conn_mgr *cm, const struct sl_cfg_pool *pool, uint32_t b,
				struct sl_backend_ref *const *backends, uint32_t generation,
				uint32_t agent_cnt);
/* It is in this generation as well. */
void sl_dialer_keep(struct sl_dialer *d, uint32_t generation);

/*
 * The dialers of a pool, in the order of its backends; a NULL is one that could not be made. Its workers
 * use their parts of them from now on: those of the generation that is in force as well, until the switch.
 * 0 or -ENOMEM.
 */
int sl_hash_ring_enter(struct sl_conn_mgr *cm, const struct sl_cfg_pool *pool,
		       struct sl_dialer *const *dialers, uint32_t generation);
/* False: the next generation has a worker use a backend with which it has no channel yet. */
bool sl_hash_rings_ready(struct sl_conn_mgr *cm);
/* Each worker has a backend of each pool in force, or was dialled in vain for each of its backends. */
bool sl_hash_rings_tried(struct sl_conn_mgr *cm);
/* Of the pool in force; all 0: there is none of that name. */
void sl_conn_mgr_subset(struct sl_conn_mgr *cm, const char *pool_name, unsigned worker,
			struct sl_subset_info *out);

/* So many links of each worker, of backends with `first`, go by their own endpoint; 0 at first. */
void sl_conn_mgr_set_max_promoted(struct sl_conn_mgr *cm, uint32_t max_promoted);
/* This generation is in force; those that are not in it dial no more. */
void sl_conn_mgr_switch(struct sl_conn_mgr *cm, uint32_t generation);
/* Frees those of which no attempt is under way any more, and releases their members. */
void sl_conn_mgr_reap(struct sl_conn_mgr *cm);

/* Any thread: whether that worker uses it. */
bool sl_dialer_used(const struct sl_dialer *d, unsigned worker);
/* Transport line or the last error for that worker; whether it is the fallback. */
void sl_dialer_info(struct sl_dialer *d, unsigned worker, struct sl_backend_info *out);

#endif
