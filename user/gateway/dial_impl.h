/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of dialling: dial.c has the threads, and connects links that are down; dial_timer.c says whose
 * turn it is; hash_ring.c which workers a backend is dialled for; endpoint_switch.c says by which endpoint a link that is up goes on, and brings it there; liveness.c asks
 * after those that are not heard.
 *
 * A dialer that is busy is the thread's that has it; what says "locked" is written with the manager's
 * lock all the same, for the count of places looks at it.
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
	SL_DIAL_THREADS_MAX = 64, /* attempts at a time: one without answer takes the time-out */
};
#define SL_DIAL_LOG_NS (60 * SL_NS_PER_SEC) /* between lines about the same state */

/* By which of a backend's endpoints. */
enum ep_kind { EP_PRIMARY, EP_BOOTSTRAP, EP_FALLBACK };

/* From a backend to a worker. */
struct worker_link {
	struct sl_backend_ref *backend;
	_Atomic bool used;  /* locked to write: the worker is to be connected with it */
	bool released;      /* locked: it was asked to let go of the link that there is */
	uint64_t link;      /* sl_rpc_link_number(), of what there is now */
	uint64_t peer;      /* sl_rpc_transport_peer() */
	char text[192];     /* locked */
	enum ep_kind ep;    /* locked */
	enum ep_kind to_ep; /* locked: where it is to go on; `by` if it stays */
	bool offered;       /* locked: the worker has what it is to go on by */
	uint64_t next_ns;   /* when that is tried; offered: it has failed by then */
	unsigned retry_ms;  /* doubled each time */
	uint32_t switched_cnt, stayed_cnt; /* of the member, before it was offered that */
	uint32_t number,
		next_number; /* sl_rpc_transport_number(), of what it goes by, or may soon */
	uint64_t silent_ns;  /* since when nothing has been heard by that; 0: it has */
	uint64_t probe_ns;   /* not asked after before */
	bool peer_mismatch;  /* another process is there, and the log says so */
	char next_text[192];
	struct promo_candidate promo; /* of a backend with `first` */
	struct sl_dial_stats stats;
};

/* Of a way, at the last look. In a row, for the watch reads all of them. */
struct link_snapshot {
	const struct sl_backend_ref *backend;
	enum sl_backend_state link;
};

/* Where a dialer stands on the ring of its pool. NULL: on none. */
struct ring_pos {
	struct sl_hash_ring *ring;
	uint32_t at;
};

struct sl_dialer {
	struct sl_list node;           /* in the connection manager's */
	struct sl_list bootstrap_node; /* in its with_bootstrap, if it has `first` */
	struct sl_conn_mgr *mgr;
	char *pool_name;
	struct sl_cfg_backend backend; /* its texts are ours */
	uint32_t agent_cnt;            /* 0: it is no server */
	uint32_t generation;           /* the last one that it is in */
	struct ring_pos pos, next_pos; /* locked: in the generation in force, and in the next */
	uint32_t slots;                /* of the ring for small messages */
	bool stop, busy;               /* busy: a thread has it */
	uint64_t due_ns;               /* not dialled before */
	uint64_t
		connected_ns; /* when the last attempt succeeded; 0: it failed, or there was none */
	uint64_t logged_ns;   /* when the log has said last that it is down or unready */
	unsigned backoff_ms;  /* after an attempt that failed; jitter comes on top */
	unsigned reconnect_ms;        /* after one that succeeded, while connections end soon */
	bool logged_down;             /* the log says that it is down */
	bool unready;                 /* locked: it has links, and none of them takes requests */
	bool tried;                   /* locked: an attempt has ended */
	bool needs_scan;              /* it may become due though all links stay as they are */
	uint32_t heap_pos;            /* in the manager's `due`, plus 1; 0: in none */
	struct link_snapshot *seen;   /* [mgr->worker_cnt], behind these: */
	struct worker_link workers[]; /* [mgr->worker_cnt] */
};

/* Of a dialer that is not busy, has not stopped, and will be due unless something changes. */
struct dial_timer {
	uint64_t at_ns;
	struct sl_dialer *d;
};

struct sl_conn_mgr {
	struct sl_worker *workers;
	unsigned worker_cnt;
	pthread_mutex_t lock; /* all below, and what is said of dialers */
	pthread_cond_t wake;
	struct sl_list dialers;
	struct sl_list with_bootstrap; /* those that have `first` */
	struct sl_list rings;          /* of pools; those of the generation in force first */
	uint64_t rings_check_ns;       /* when these are looked at next */
	uint32_t dialer_cnt, stopped_cnt;
	uint64_t added;            /* so far */
	uint32_t max_promoted;     /* links of a worker, of backends with `first` */
	uint64_t scan_ns;          /* when these and what workers change are looked at next */
	struct dial_timer *timers; /* a heap, [due_cnt] of due_room */
	uint32_t timer_cnt, timer_cap;
	uint64_t update_cnt; /* at one dialer each: for tests */
	bool stop, scanning; /* watched: a thread that is free looks at the links */
	pthread_t threads[SL_DIAL_THREADS_MAX];
	unsigned thread_cnt;
	struct sl_prng prng;
};

/* dial.c */
/* goes_on: for the link that there is. */
struct sl_transport *sl_dial(struct sl_dialer *d, const struct sl_worker *w, const char *endpoint,
			     bool goes_on, struct sl_err *err);
/* By the endpoint that the worker's link goes by: after its connection. */
enum sl_rpc_word sl_dial_probe(struct sl_dialer *d, const struct sl_worker *w, unsigned timeout_ms);
/* About the worker's link; the transport, if any, is the worker's from now on. 0 or -errno. */
int sl_dial_send(struct sl_dialer *d, struct sl_worker *w, enum sl_worker_verb verb,
		 struct sl_transport *t);

/* dial_timer.c, all with the lock but for sl_dial_timer_link_ns(). */
/* Room for so many, one more than before at the most. 0 or -ENOMEM. */
int sl_dial_timer_reserve(struct sl_conn_mgr *cm, uint32_t cnt);
/* By what is known of it: when it has changed. Of one that is not busy and has not stopped. */
void sl_dial_timer_set(struct sl_dialer *d);
/* The same, and what its workers have changed meanwhile is noted before. */
void sl_dial_timer_update(struct sl_dialer *d, uint64_t now_ns);
/* It is nowhere any more. */
void sl_dial_timer_cancel(struct sl_dialer *d);
/* Who has been due for longest; it is nowhere until it is placed again. NULL: nobody is due. */
struct sl_dialer *sl_dial_timer_pop(struct sl_conn_mgr *cm, uint64_t now_ns);
/* When the first of all is due; UINT64_MAX: none is. */
uint64_t sl_dial_timer_next_ns(const struct sl_conn_mgr *cm);
/* What workers have changed, told by nobody. */
void sl_dial_timer_scan(struct sl_conn_mgr *cm, uint64_t now_ns);
/* Of a link that is up: when there is something to be done; UINT64_MAX: there is nothing. */
uint64_t sl_dial_timer_link_ns(const struct sl_dialer *d, unsigned worker);

/* hash_ring.c */
/* What is left when all end; the dialers are still there. */
void sl_hash_rings_end(struct sl_conn_mgr *cm);
/* The next generation, which is that, is in force. With the lock. */
void sl_hash_rings_switch(struct sl_conn_mgr *cm, uint32_t generation);
/* Who borrows, who gives back, and what is let go of. With the lock. */
void sl_hash_rings_update(struct sl_conn_mgr *cm, uint64_t now_ns);

/* endpoint_switch.c */
/* Of the backend: the text of that endpoint. */
const char *sl_dialer_endpoint(const struct sl_dialer *d, enum ep_kind ep);
/*
 * A link begins, by that. `broke`: the former one went by its own endpoint, and the same process is
 * there: what has broken is tried again after a while. With the lock.
 */
void sl_ep_switch_reset(struct sl_dialer *d, unsigned worker, enum ep_kind ep, bool broke);
/* It is to go on, and is due for it: one attempt. Without the lock, by the thread that has d. */
void sl_ep_switch_try(struct sl_dialer *d, struct sl_worker *w);
/* When it is due; UINT64_MAX: it stays. */
uint64_t sl_ep_switch_due_ns(const struct sl_dialer *d, unsigned worker);
/* What has become of those that were offered. With the lock, of one that is not busy. */
void sl_ep_switch_note(struct sl_dialer *d, uint64_t now_ns);
/* Who gets a connection of its own, and who gives one up (promotion.h). With the lock. */
void sl_promotion_update(struct sl_conn_mgr *cm, uint64_t now_ns);

/* liveness.c */
/* Who is silent. With the lock, of one that has not stopped. */
void sl_liveness_note(struct sl_dialer *d);
/* When that link is to be asked after; UINT64_MAX: it is heard. */
uint64_t sl_liveness_due_ns(const struct sl_dialer *d, unsigned worker);
/* Once, by the thread that has d. */
void sl_liveness_probe(struct sl_dialer *d, struct sl_worker *w);

#endif
