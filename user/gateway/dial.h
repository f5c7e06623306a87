/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connection manager: connects backends to workers, outside the data path.
 *
 * A dialer keeps one backend connected to each worker that uses it (subset.h). Up to
 * SL_DIAL_THREADS_MAX threads serve all dialers, the longest due one first. One idle thread scans
 * for lost links.
 *
 * A link can switch to another endpoint of the same process without loss of requests: from the
 * fallback to the primary endpoint once it answers; between bootstrap and primary endpoint by its
 * load (promotion.h).
 *
 *   link of a member:   DOWN --dialled--> OFFERED --adopted--> UP --lost--> DOWN
 *                         ^ dialer thread          ^ worker              ^ worker
 */
#ifndef SL_GATEWAY_DIAL_H
#define SL_GATEWAY_DIAL_H

#include "gateway/gateway.h"
#include "worker/worker.h"

struct sl_conn_mgr;
struct sl_dialer;
struct sl_backend_ref;

/* Returns a connection manager without dialers, or NULL without memory. */
struct sl_conn_mgr *sl_conn_mgr_create(struct sl_worker *workers, unsigned worker_cnt);
/* Stops all threads and frees all dialers. cm may be NULL. */
void sl_conn_mgr_destroy(struct sl_conn_mgr *cm);

/*
 * Adds a dialer for backend b of the pool; members has one entry per worker, agent_cnt is the
 * number of the gateway's agents. The dialer copies its configuration, and dials after
 * sl_hash_ring_enter(). Returns NULL and errno without memory or threads.
 */
struct sl_dialer *sl_dialer_add(struct sl_conn_mgr *cm, const struct sl_cfg_pool *pool, uint32_t b,
				struct sl_backend_ref *const *backends, uint32_t generation,
				uint32_t agent_cnt);
/* Keeps the dialer for another generation. */
void sl_dialer_keep(struct sl_dialer *d, uint32_t generation);

/*
 * Adds a pool's ring of dialers, in the order of its backends; an entry may be NULL. Workers use
 * this ring at once, and the ring in force until sl_conn_mgr_switch(). Returns 0 or -ENOMEM.
 */
int sl_hash_ring_enter(struct sl_conn_mgr *cm, const struct sl_cfg_pool *pool,
		       struct sl_dialer *const *dialers, uint32_t generation);
/* Returns true if each worker is connected to all new backends of the next generation. */
bool sl_hash_rings_ready(struct sl_conn_mgr *cm);
/* Returns true if each worker has a backend of each pool, or all attempts have failed. */
bool sl_hash_rings_tried(struct sl_conn_mgr *cm);
/* Fills in the worker's part of a pool in force, or zeros. */
void sl_conn_mgr_subset(struct sl_conn_mgr *cm, const char *pool_name, unsigned worker,
			struct sl_subset_info *out);

/* Limits the links of a worker on primary endpoints beside a bootstrap endpoint. */
void sl_conn_mgr_set_max_promoted(struct sl_conn_mgr *cm, uint32_t max_promoted);
/* Puts a generation in force. Other dialers stop. */
void sl_conn_mgr_switch(struct sl_conn_mgr *cm, uint32_t generation);
/* Frees stopped dialers without a running attempt, and releases their members. */
void sl_conn_mgr_reap(struct sl_conn_mgr *cm);

/* Returns true if the worker uses the backend. Any thread. */
bool sl_dialer_used(const struct sl_dialer *d, unsigned worker);
/* Fills in the worker's transport or last error, and statistics. */
void sl_dialer_info(struct sl_dialer *d, unsigned worker, struct sl_backend_info *out);

#endif
