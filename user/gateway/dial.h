/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connection manager connects backends to workers.
 *
 * A dialer keeps one backend connected to each worker that uses it (subset.h). A link can switch to
 * another endpoint of the same process without loss: from fallback to primary; between bootstrap
 * and primary by load (promotion.h).
 *
 *   link:   DOWN --dialled--> OFFERED --adopted--> UP --lost--> DOWN
 *             ^ dialer thread          ^ worker              ^ worker
 *
 * Control thread, unless a comment says otherwise.
 */
#ifndef SL_GATEWAY_DIAL_H
#define SL_GATEWAY_DIAL_H

#include "gateway/gateway.h"
#include "worker/worker.h"

struct sl_conn_mgr;
struct sl_dialer;
struct sl_backend_ref;

/* Makes a manager without threads. Returns NULL without memory. The workers must outlive it. */
struct sl_conn_mgr *sl_conn_mgr_create(struct sl_worker *workers, unsigned worker_cnt);
/* Joins the threads, and frees all. Backends must still exist. cm may be NULL. */
void sl_conn_mgr_destroy(struct sl_conn_mgr *cm);

/*
 * Adds a dialer for backend b of the pool. It copies its configuration, and dials after
 * sl_hash_ring_enter(). `backends`, one per worker, must exist until `released`. Returns NULL and
 * errno without memory or threads. sl_conn_mgr_reap() frees it.
 */
struct sl_dialer *sl_dialer_add(struct sl_conn_mgr *cm, const struct sl_cfg_pool *pool, uint32_t b,
				struct sl_backend_ref *const *backends, uint32_t generation,
				uint32_t agent_cnt);
/* Keeps the dialer for another generation. */
void sl_dialer_keep(struct sl_dialer *d, uint32_t generation);

/*
 * Adds a pool's ring of dialers, in the order of its backends; an entry may be NULL. Until
 * sl_conn_mgr_switch() workers use this ring and the one in force. Copies its arguments. Returns 0
 * or -ENOMEM.
 */
int sl_hash_ring_enter(struct sl_conn_mgr *cm, const struct sl_cfg_pool *pool,
		       struct sl_dialer *const *dialers, uint32_t generation);
/* Returns true if each worker is connected to all new backends of the next generation. */
bool sl_hash_rings_ready(struct sl_conn_mgr *cm);
/* Returns true if each worker has a backend of each pool, or all attempts failed. */
bool sl_hash_rings_tried(struct sl_conn_mgr *cm);
/* Counts the worker's own, borrowed and connected backends of a pool; zeros: unknown pool. */
void sl_conn_mgr_subset(struct sl_conn_mgr *cm, const char *pool_name, unsigned worker,
			struct sl_subset_info *out);

/* Limits each worker's promoted links (promotion.h). */
void sl_conn_mgr_set_max_promoted(struct sl_conn_mgr *cm, uint32_t max_promoted);
/* Puts a generation's rings in force, and stops other dialers. */
void sl_conn_mgr_switch(struct sl_conn_mgr *cm, uint32_t generation);
/* Frees stopped dialers without a running attempt, and sets `released` of their backends. */
void sl_conn_mgr_reap(struct sl_conn_mgr *cm);

/* Returns true if the worker uses the backend. Any thread. */
bool sl_dialer_used(const struct sl_dialer *d, unsigned worker);
/* Sets info, on_fallback and dialled of *out. Any thread, without the lock. */
void sl_dialer_info(struct sl_dialer *d, unsigned worker, struct sl_backend_info *out);

#endif
