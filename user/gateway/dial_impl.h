/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A busy dialer belongs to its thread. Others read fields marked "locked", written under the
 * manager's lock.
 */
#ifndef SL_GATEWAY_DIAL_IMPL_H
#define SL_GATEWAY_DIAL_IMPL_H

#include "base/list.h"
#include "base/rand.h"
#include "core/pool.h"
#include "gateway/dial.h"
#include "gateway/promotion.h"
#include "gateway/subset.h"

enum {
	SL_DIAL_TIMEOUT_MS = 1000,
	SL_DIAL_THREADS_MAX = 64,
};
#define SL_DIAL_LOG_NS (60 * SL_NS_PER_SEC)

enum ep_kind { EP_PRIMARY, EP_BOOTSTRAP, EP_FALLBACK };

struct worker_link {
	struct sl_backend_ref *backend;
	_Atomic bool used; /* locked to write */
	bool released;     /* locked: release was requested */
	uint64_t link;
	uint64_t peer;
	char text[192];     /* locked */
	enum ep_kind ep;    /* locked */
	enum ep_kind to_ep; /* locked: target of a switch, or equal to ep */
	bool offered;       /* locked: the worker was sent the transport */
	uint64_t next_ns;   /* next attempt; offered: time-out */
	unsigned retry_ms;
	uint32_t switched_cnt, stayed_cnt; /* before the offer */
	uint32_t number, next_number;
	uint64_t silent_ns; /* last packet; 0: not silent */
	uint64_t probe_ns;
	bool peer_mismatch; /* logged: the other endpoint has another process */
	char next_text[192];
	struct promo_candidate promo;
	struct sl_dial_stats stats;
};

/* A link at the last scan. Contiguous: each scan reads all. */
struct link_snapshot {
	const struct sl_backend_ref *backend;
	enum sl_backend_state link;
};

struct ring_pos {
	struct sl_hash_ring *ring;
	uint32_t at;
};

struct sl_dialer {
	struct sl_list node;
	struct sl_list bootstrap_node;
	struct sl_conn_mgr *mgr;
	char *pool_name;
	struct sl_cfg_backend backend; /* owns its strings */
	uint32_t agent_cnt;            /* 0: not a server */
	uint32_t generation;           /* last generation with this backend */
	struct ring_pos pos, next_pos; /* locked */
	uint32_t slots;
	bool stop, busy; /* a thread runs it */
	uint64_t due_ns;
	uint64_t connected_ns; /* last success; 0: the last attempt failed */
	uint64_t logged_ns;
	unsigned backoff_ms;   /* without jitter */
	unsigned reconnect_ms; /* delay after a connection that ended soon */
	bool logged_down;
	bool unready;      /* locked: connected, but no link accepts requests */
	bool tried;        /* locked: an attempt has ended */
	bool needs_scan;   /* due time may change although no link does */
	uint32_t heap_pos; /* index in mgr->timers + 1; 0: none */
	struct link_snapshot *seen;
	struct worker_link workers[]; /* [mgr->worker_cnt]; `seen` follows */
};

/* The dialer is neither busy nor stopped. */
struct dial_timer {
	uint64_t at_ns;
	struct sl_dialer *d;
};

struct sl_conn_mgr {
	struct sl_worker *workers;
	unsigned worker_cnt;
	pthread_mutex_t lock; /* all below, and "locked" of dialers */
	pthread_cond_t wake;
	struct sl_list dialers;
	struct sl_list with_bootstrap;
	struct sl_list rings; /* those in force first */
	uint64_t rings_check_ns;
	uint32_t dialer_cnt, stopped_cnt;
	uint64_t added;
	uint32_t max_promoted; /* per worker */
	uint64_t scan_ns;
	struct dial_timer *timers; /* heap, [timer_cnt] */
	uint32_t timer_cnt, timer_cap;
	uint64_t update_cnt;
	bool stop, scanning; /* an idle thread waits for the next scan */
	pthread_t threads[SL_DIAL_THREADS_MAX];
	unsigned thread_cnt;
	struct sl_prng prng;
};

/* dial_link.c */
/* Returns the configured endpoint of that kind; NULL: none. */
const char *sl_dialer_endpoint(const struct sl_dialer *d, enum ep_kind ep);
/*
 * Connects; blocks for at most SL_DIAL_TIMEOUT_MS. Without the lock, by the thread that runs d.
 * goes_on: for the existing link; else the caller has set a new `link` of the worker. Returns a
 * transport for sl_dial_send() or sl_rpc_dial_drop(), or NULL and err.
 */
struct sl_transport *sl_dial(struct sl_dialer *d, const struct sl_worker *w, const char *endpoint,
			     bool goes_on, struct sl_err *err);
/* Asks the peer whether it knows the connection; blocks. Without the lock, as sl_dial(). */
enum sl_rpc_probe_result sl_dial_probe(struct sl_dialer *d, const struct sl_worker *w,
				       unsigned timeout_ms);
/* Sends a message to the worker, which owns t if 0 is returned. Else returns -ENOMEM or -EAGAIN. */
int sl_dial_send(struct sl_dialer *d, struct sl_worker *w, enum sl_worker_verb verb,
		 struct sl_transport *t);

/* Under the lock. */
/* Makes room for cnt timers, at most one more than before. Returns 0 or -ENOMEM. */
int sl_dial_timer_reserve(struct sl_conn_mgr *cm, uint32_t cnt);
/*
 * Sets the due time from the links' states. d must be neither busy nor stopped; room is reserved.
 */
void sl_dial_timer_set(struct sl_dialer *d);
/* Reads changes by workers, then calls sl_dial_timer_set(). */
void sl_dial_timer_update(struct sl_dialer *d, uint64_t now_ns);
/* Removes the dialer from the heap, if it is in it. */
void sl_dial_timer_cancel(struct sl_dialer *d);
/* Removes and returns the longest due dialer, or NULL. */
struct sl_dialer *sl_dial_timer_pop(struct sl_conn_mgr *cm, uint64_t now_ns);
/* Returns the earliest due time; UINT64_MAX: none. */
uint64_t sl_dial_timer_next_ns(const struct sl_conn_mgr *cm);
/* Updates idle dialers with changed links. */
void sl_dial_timer_scan(struct sl_conn_mgr *cm, uint64_t now_ns);
/*
 * Returns the earlier time of a switch or probe; UINT64_MAX: none. Called under the lock, or by the
 * thread that runs d.
 */
uint64_t sl_dial_timer_link_ns(const struct sl_dialer *d, unsigned worker);

/* hash_ring.c */
/* Frees all rings. Dialers must still exist; all threads have ended. */
void sl_hash_rings_end(struct sl_conn_mgr *cm);
/* Puts `generation` in force, and frees other rings. Under the lock. */
void sl_hash_rings_switch(struct sl_conn_mgr *cm, uint32_t generation);
/* Updates the workers' subsets, when due. Under the lock. */
void sl_hash_rings_update(struct sl_conn_mgr *cm, uint64_t now_ns);

/* endpoint_switch.c */
/*
 * Called when a link begins on endpoint ep. broke: the former one broke on the primary endpoint,
 * which is retried later. Under the lock.
 */
void sl_ep_switch_reset(struct sl_dialer *d, unsigned worker, enum ep_kind ep, bool broke);
/*
 * Dials a due switch's endpoint; offers the transport to the worker, or retries later. Blocks.
 * Without the lock, by the thread that runs d.
 */
void sl_ep_switch_try(struct sl_dialer *d, struct sl_worker *w);
/* Returns when to try a switch; UINT64_MAX: none. Called as sl_dial_timer_link_ns(). */
uint64_t sl_ep_switch_due_ns(const struct sl_dialer *d, unsigned worker);
/* Reads results of offered switches. Under the lock; d must not be busy. */
void sl_ep_switch_note(struct sl_dialer *d, uint64_t now_ns);

/* promotion_round.c */
/* Selects each worker's links to promote or demote. Under the lock. */
void sl_promotion_update(struct sl_conn_mgr *cm, uint64_t now_ns);

/* liveness.c */
/* Notes since when peers have been silent. Under the lock; d must be neither busy nor stopped. */
void sl_liveness_note(struct sl_dialer *d);
/* Returns the time of a probe, or UINT64_MAX. Called as sl_dial_timer_link_ns(). */
uint64_t sl_liveness_due_ns(const struct sl_dialer *d, unsigned worker);
/*
 * Probes once; blocks. A worker forgets a connection that the peer does not know. Without the lock,
 * by the thread that runs d.
 */
void sl_liveness_probe(struct sl_dialer *d, struct sl_worker *w);

#endif
