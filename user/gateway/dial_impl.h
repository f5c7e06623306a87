/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of dialling: dial.c has the threads, and connects links that are down; dial_due.c says whose
 * turn it is; ring.c which workers a backend is dialled for; move.c says by which endpoint a link that is up goes on, and brings it there; silence.c asks
 * after those that are not heard.
 *
 * A dialler that is busy is the thread's that has it; what says "locked" is written with the board's
 * lock all the same, for the count of places looks at it.
 */
#ifndef SL_GATEWAY_DIAL_IMPL_H
#define SL_GATEWAY_DIAL_IMPL_H

#include "base/list.h"
#include "base/rand.h"
#include "core/group.h"
#include "gateway/dial.h"
#include "gateway/places.h"
#include "gateway/subset.h"

enum {
	SL_DIAL_TIMEOUT_MS = 1000,
	SL_DIAL_THREADS_MAX = 64, /* attempts at a time: one without answer takes the time-out */
};
#define SL_DIAL_SAY_NS (60 * SL_NS_PER_SEC) /* between lines about the same state */

/* By which of a backend's endpoints. */
enum by { BY_OWN, BY_FIRST, BY_FALLBACK };

/* From a backend to a worker. */
struct way {
	struct sl_member *member;
	_Atomic bool used;     /* locked to write: the worker is to be connected with it */
	bool released;         /* locked: it was asked to let go of the link that there is */
	uint64_t link;         /* sl_rpc_link_number(), of what there is now */
	uint64_t peer;         /* sl_rpc_transport_peer() */
	char text[192];        /* locked */
	enum by by;            /* locked */
	enum by to;            /* locked: where it is to go on; `by` if it stays */
	bool offered;          /* locked: the worker has what it is to go on by */
	uint64_t next_ns;      /* when that is tried; offered: it has failed by then */
	unsigned retry_ms;     /* doubled each time */
	uint32_t moves, stays; /* of the member, before it was offered that */
	uint32_t number,
		next_number; /* sl_rpc_transport_number(), of what it goes by, or may soon */
	uint64_t silent_ns;  /* since when nothing has been heard by that; 0: it has */
	uint64_t ask_ns;     /* not asked after before */
	bool strange;        /* another process is there, and the log says so */
	char next_text[192];
	struct sl_claim claim; /* of a backend with `first` */
	struct sl_dial_stats stats;
};

/* Of a way, at the last look. In a row, for the watch reads all of them. */
struct seen {
	const struct sl_member *member;
	enum sl_member_link link;
};

/* Where a dialler stands on the ring of its pool. NULL: on none. */
struct spot {
	struct sl_ring *ring;
	uint32_t at;
};

struct sl_dialler {
	struct sl_list node;       /* in the switchboard's */
	struct sl_list first_node; /* in its with_first, if it has `first` */
	struct sl_switchboard *board;
	char *pool_name;
	struct sl_cfg_backend backend; /* its texts are ours */
	uint32_t agent_cnt;            /* 0: it is no server */
	uint32_t edition;              /* the last one that it is in */
	struct spot spot, next_spot;   /* locked: in the edition in force, and in the next */
	uint32_t slots;                /* of the ring for small messages */
	bool stop, busy;               /* busy: a thread has it */
	uint64_t due_ns;               /* not dialled before */
	uint64_t
		connected_ns; /* when the last attempt succeeded; 0: it failed, or there was none */
	uint64_t said_ns;     /* when the log has said last that it is down or unready */
	unsigned backoff_ms;  /* after an attempt that failed; jitter comes on top */
	unsigned short_ms;    /* after one that succeeded, while connections end soon */
	bool complained;      /* the log says that it is down */
	bool unready;         /* locked: it has links, and none of them takes requests */
	bool tried;           /* locked: an attempt has ended */
	bool restless;        /* it may become due though all links stay as they are */
	uint32_t place;       /* in the board's `due`, plus 1; 0: in none */
	struct seen *seen;    /* [board->worker_cnt], behind these: */
	struct way workers[]; /* [board->worker_cnt] */
};

/* Of a dialler that is not busy, has not stopped, and will be due unless something changes. */
struct due {
	uint64_t at_ns;
	struct sl_dialler *d;
};

struct sl_switchboard {
	struct sl_worker *workers;
	unsigned worker_cnt;
	pthread_mutex_t lock; /* all below, and what is said of diallers */
	pthread_cond_t wake;
	struct sl_list diallers;
	struct sl_list with_first; /* those that have `first` */
	struct sl_list rings;      /* of pools; those of the edition in force first */
	uint64_t rings_ns;         /* when these are looked at next */
	uint32_t dialler_cnt, stopped_cnt;
	uint64_t added;        /* so far */
	uint32_t max_promoted; /* links of a worker, of backends with `first` */
	uint64_t watch_ns;     /* when these and what workers change are looked at next */
	struct due *due;       /* a heap, [due_cnt] of due_room */
	uint32_t due_cnt, due_room;
	uint64_t looks;     /* at one dialler each: for tests */
	bool stop, watched; /* watched: a thread that is free looks at the links */
	pthread_t threads[SL_DIAL_THREADS_MAX];
	unsigned thread_cnt;
	struct sl_prng prng;
};

/* dial.c */
/* goes_on: for the link that there is. */
struct sl_transport *sl_dial(struct sl_dialler *d, const struct sl_worker *w, const char *endpoint,
			     bool goes_on, struct sl_err *err);
/* By the endpoint that the worker's link goes by: after its connection. */
enum sl_rpc_word sl_dial_ask(struct sl_dialler *d, const struct sl_worker *w, unsigned timeout_ms);
/* About the worker's link; the transport, if any, is the worker's from now on. 0 or -errno. */
int sl_dial_send(struct sl_dialler *d, struct sl_worker *w, enum sl_worker_verb verb,
		 struct sl_transport *t);

/* dial_due.c, all with the lock but for sl_due_link_ns(). */
/* Room for so many, one more than before at the most. 0 or -ENOMEM. */
int sl_due_room(struct sl_switchboard *sb, uint32_t cnt);
/* By what is known of it: when it has changed. Of one that is not busy and has not stopped. */
void sl_due_place(struct sl_dialler *d);
/* The same, and what its workers have changed meanwhile is noted before. */
void sl_due_look(struct sl_dialler *d, uint64_t now_ns);
/* It is nowhere any more. */
void sl_due_drop(struct sl_dialler *d);
/* Who has been due for longest; it is nowhere until it is placed again. NULL: nobody is due. */
struct sl_dialler *sl_due_take(struct sl_switchboard *sb, uint64_t now_ns);
/* When the first of all is due; UINT64_MAX: none is. */
uint64_t sl_due_next_ns(const struct sl_switchboard *sb);
/* What workers have changed, told by nobody. */
void sl_due_watch(struct sl_switchboard *sb, uint64_t now_ns);
/* Of a link that is up: when there is something to be done; UINT64_MAX: there is nothing. */
uint64_t sl_due_link_ns(const struct sl_dialler *d, unsigned worker);

/* ring.c */
/* What is left when all end; the diallers are still there. */
void sl_rings_end(struct sl_switchboard *sb);
/* The next edition, which is that, is in force. With the lock. */
void sl_rings_switch(struct sl_switchboard *sb, uint32_t edition);
/* Who borrows, who gives back, and what is let go of. With the lock. */
void sl_rings_look(struct sl_switchboard *sb, uint64_t now_ns);

/* move.c */
/* Of the backend: the text of that endpoint. */
const char *sl_move_endpoint(const struct sl_dialler *d, enum by by);
/*
 * A link begins, by that. `broke`: the former one went by its own endpoint, and the same process is
 * there: what has broken is tried again after a while. With the lock.
 */
void sl_move_begin(struct sl_dialler *d, unsigned worker, enum by by, bool broke);
/* It is to go on, and is due for it: one attempt. Without the lock, by the thread that has d. */
void sl_move_try(struct sl_dialler *d, struct sl_worker *w);
/* When it is due; UINT64_MAX: it stays. */
uint64_t sl_move_due_ns(const struct sl_dialler *d, unsigned worker);
/* What has become of those that were offered. With the lock, of one that is not busy. */
void sl_moves_note(struct sl_dialler *d, uint64_t now_ns);
/* Who gets a connection of its own, and who gives one up (places.h). With the lock. */
void sl_moves_allot(struct sl_switchboard *sb, uint64_t now_ns);

/* silence.c */
/* Who is silent. With the lock, of one that has not stopped. */
void sl_silence_note(struct sl_dialler *d);
/* When that link is to be asked after; UINT64_MAX: it is heard. */
uint64_t sl_silence_due_ns(const struct sl_dialler *d, unsigned worker);
/* Once, by the thread that has d. */
void sl_silence_ask(struct sl_dialler *d, struct sl_worker *w);

#endif
