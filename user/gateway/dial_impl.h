/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internals of the connection manager:
 *
 *   dial.c             threads; connects links that are down
 *   dial_link.c        what all use: connects, probes, sends to the worker
 *   dial_timer.c       heap of dialers by due time
 *   hash_ring.c        which workers a backend is dialled for
 *   endpoint_switch.c  moves links between endpoints
 *   promotion_round.c  selects those links
 *   liveness.c         probes silent peers
 *
 * A busy dialer belongs to the thread that runs it. Fields marked "locked" are written under the
 * manager's lock even then, because other threads read them.
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
	_Atomic bool used;  /* locked to write: the worker uses the backend */
	bool released;      /* locked: the worker was asked to release the link */
	uint64_t link;      /* sl_rpc_link_number() */
	uint64_t peer;      /* sl_rpc_transport_peer() */
	char text[192];     /* locked */
	enum ep_kind ep;    /* locked */
	enum ep_kind to_ep; /* locked: equal to ep if no switch */
	bool offered;       /* locked: the worker was sent the transport */
	uint64_t next_ns;   /* time of the attempt; offered: time-out */
	unsigned retry_ms;
	uint32_t switched_cnt, stayed_cnt; /* before the offer */
	uint32_t number, next_number; /* sl_rpc_transport_number() before and after the switch */
	uint64_t silent_ns;           /* last packet of a silent peer; 0: not silent */
	uint64_t probe_ns;
	bool peer_mismatch; /* logged: the other endpoint is another process */
	char next_text[192];
	struct promo_candidate promo;
	struct sl_dial_stats stats;
};

/* A link at the last scan. Contiguous, because each scan reads all. */
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
	uint32_t generation;           /* last with this backend */
	struct ring_pos pos, next_pos; /* locked: in force; of the next generation */
	uint32_t slots;
	bool stop, busy; /* busy: a thread runs it */
	uint64_t due_ns;
	uint64_t connected_ns; /* last success; 0: the last attempt failed */
	uint64_t logged_ns;    /* last line: down or unready */
	unsigned backoff_ms;   /* without jitter */
	unsigned reconnect_ms; /* wait while connections end soon */
	bool logged_down;
	bool unready;                 /* locked: connected, but no link accepts requests */
	bool tried;                   /* locked: an attempt has ended */
	bool needs_scan;              /* due time may change without a change of a link */
	uint32_t heap_pos;            /* index in mgr->timers plus 1; 0: not in the heap */
	struct link_snapshot *seen;   /* [mgr->worker_cnt], behind these: */
	struct worker_link workers[]; /* [mgr->worker_cnt] */
};

/* Entry of the heap; its dialer is neither busy nor stopped. */
struct dial_timer {
	uint64_t at_ns;
	struct sl_dialer *d;
};

struct sl_conn_mgr {
	struct sl_worker *workers;
	unsigned worker_cnt;
	pthread_mutex_t lock; /* all members below, and the "locked" ones of dialers */
	pthread_cond_t wake;
	struct sl_list dialers;
	struct sl_list with_bootstrap;
	struct sl_list rings; /* rings in force first */
	uint64_t rings_check_ns;
	uint32_t dialer_cnt, stopped_cnt;
	uint64_t added;
	uint32_t max_promoted; /* per worker */
	uint64_t scan_ns;
	struct dial_timer *timers; /* heap, [timer_cnt] */
	uint32_t timer_cnt, timer_cap;
	uint64_t update_cnt;
	bool stop, scanning; /* scanning: an idle thread waits for the next scan */
	pthread_t threads[SL_DIAL_THREADS_MAX];
	unsigned thread_cnt;
	struct sl_prng prng;
};

/* dial_link.c */
const char *sl_dialer_endpoint(const struct sl_dialer *d, enum ep_kind ep);
/* Connects to endpoint. goes_on: as a new transport of the existing link. NULL: err. */
struct sl_transport *sl_dial(struct sl_dialer *d, const struct sl_worker *w, const char *endpoint,
			     bool goes_on, struct sl_err *err);
/* Asks the peer whether it knows the connection. */
enum sl_rpc_probe_result sl_dial_probe(struct sl_dialer *d, const struct sl_worker *w,
				       unsigned timeout_ms);
/* Sends a message to the worker. The worker owns t if 0 is returned, else -errno. */
int sl_dial_send(struct sl_dialer *d, struct sl_worker *w, enum sl_worker_verb verb,
		 struct sl_transport *t);

/* dial_timer.c: under the lock, except sl_dial_timer_link_ns(). */
/* Reserves room for cnt dialers, at most one more. Returns 0 or -ENOMEM. */
int sl_dial_timer_reserve(struct sl_conn_mgr *cm, uint32_t cnt);
/* Sets the due time. The dialer must be neither busy nor stopped. */
void sl_dial_timer_set(struct sl_dialer *d);
/* Reads changes by workers, then sets the due time. */
void sl_dial_timer_update(struct sl_dialer *d, uint64_t now_ns);
void sl_dial_timer_cancel(struct sl_dialer *d);
/* Removes and returns the longest due dialer, or NULL. */
struct sl_dialer *sl_dial_timer_pop(struct sl_conn_mgr *cm, uint64_t now_ns);
/* Returns the earliest due time, or UINT64_MAX. */
uint64_t sl_dial_timer_next_ns(const struct sl_conn_mgr *cm);
/* Updates dialers whose links were changed by workers. */
void sl_dial_timer_scan(struct sl_conn_mgr *cm, uint64_t now_ns);
/* Returns when a link needs a switch or a probe, or UINT64_MAX. */
uint64_t sl_dial_timer_link_ns(const struct sl_dialer *d, unsigned worker);

/* hash_ring.c */
/* Frees all rings. Dialers must still exist. */
void sl_hash_rings_end(struct sl_conn_mgr *cm);
/* Puts the rings of the generation in force. Under the lock. */
void sl_hash_rings_switch(struct sl_conn_mgr *cm, uint32_t generation);
/* Borrows, returns and releases backends (subset.h). Under the lock. */
void sl_hash_rings_update(struct sl_conn_mgr *cm, uint64_t now_ns);

/* endpoint_switch.c */
/*
 * Called when a link begins, by endpoint ep. broke: the former link broke on the primary endpoint,
 * which is tried again only after a delay. Under the lock.
 */
void sl_ep_switch_reset(struct sl_dialer *d, unsigned worker, enum ep_kind ep, bool broke);
/* Tries once to switch to to_ep. Without the lock, by the thread that runs d. */
void sl_ep_switch_try(struct sl_dialer *d, struct sl_worker *w);
/* Returns when a switch is due, or UINT64_MAX. */
uint64_t sl_ep_switch_due_ns(const struct sl_dialer *d, unsigned worker);
/* Reads results of offered switches. Under the lock; d must not be busy. */
void sl_ep_switch_note(struct sl_dialer *d, uint64_t now_ns);

/* promotion_round.c */
/* Selects links to promote and demote (promotion.h). Under the lock. */
void sl_promotion_update(struct sl_conn_mgr *cm, uint64_t now_ns);

/* liveness.c */
/* Reads which peers are silent. Under the lock; d must not be stopped. */
void sl_liveness_note(struct sl_dialer *d);
/* Returns when to probe the link, or UINT64_MAX if its peer is not silent. */
uint64_t sl_liveness_due_ns(const struct sl_dialer *d, unsigned worker);
/* Probes once, by the thread that runs d. */
void sl_liveness_probe(struct sl_dialer *d, struct sl_worker *w);

#endif
