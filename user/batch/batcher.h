/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The batcher of one service on one worker: what waits, which of it goes next, to whom, and in how
 * large a batch. No I/O and no clock: the gateway and the simulation in bench/batch run the same
 * code.
 *
 *   submit -> [ queue.h: earliest due first, fair between clients ] -> pump -> ops.send -> backend
 *                 | ops.drop: hopeless, expired, share used up                          |
 *                 '<- sl_svc_live: size, hold <- controller <- service times <----- done '
 *
 * A request is due at the earliest of its own deadline and, under a policy with a latency bound,
 * its arrival plus that bound. What cannot be ready by its own deadline is dropped at once and
 * never computed; what misses the bound, only where bound_mode is hard, or during a sustained
 * overload (overload.h). README.md states each law.
 *
 * What finds an idle backend and an empty queue is sent, whatever the bound: only its own deadline
 * can be a reason not to.
 *
 * An item belongs to the batcher from submit until it is passed to ops.send (and accepted) or
 * ops.drop, or removed.
 */
#ifndef SL_BATCH_BATCHER_H
#define SL_BATCH_BATCHER_H

#include <stdbool.h>
#include <stdint.h>
#include "base/list.h"
#include "config/config.h"
#include "sluice/abi.h"
#include "sluice/outcome.h"

enum {
	SL_MAX_BACKENDS = 1024, /* of a group */
	SL_MAX_EXCLUDED = 2,    /* backends that a request may not go to any more */
};

/* One request in the queue; embedded in the exchange, zeroed before its first submit. */
struct sl_batch_item {
	struct sl_list link;  /* the batcher's while queued, else free for use */
	struct sl_list age;   /* the batcher's */
	uint64_t arrived_ns;  /* what the latency bound counts from; 0: submit sets it */
	uint64_t deadline_ns; /* absolute; UINT64_MAX: none */
	uint64_t queued_ns;   /* of the last submit */
	uint64_t due_ns;      /* the batcher's */
	uint32_t client;      /* hash of what fairness goes by */
	uint32_t heap_pos;    /* the batcher's */
	uint32_t bytes;       /* of the request */
	uint16_t excluded[SL_MAX_EXCLUDED]; /* backends that failed it */
	uint8_t excluded_cnt;
	int8_t policy;   /* enum sl_policy; -1: the pool's */
	uint8_t lane;    /* the batcher's */
	bool unproven;   /* nothing has shown that the client is who it says to be */
	bool queued;     /* the batcher's */
	bool found_idle; /* the batcher's: nothing was in its way when it came */
};

struct sl_batch_ops {
	/*
	 * Sends items as one batch. 0: they are the backend's now; -EAGAIN: no credit now, they
	 * stay queued; -EMSGSIZE: too many bytes for one message, fewer are tried; other: the
	 * backend is unusable, they stay queued.
	 */
	int (*send)(void *app, unsigned backend, struct sl_batch_item **items, unsigned cnt);
	/* The item is the application's again and will not be computed. May not submit. */
	void (*drop)(void *app, struct sl_batch_item *item, enum sl_outcome why);
};

static inline bool sl_batch_excludes(const struct sl_batch_item *item, unsigned backend)
{
	for (unsigned i = 0; i < item->excluded_cnt; i++) {
		if (item->excluded[i] == backend)
			return true;
	}
	return false;
}

struct sl_batcher;

/*
 * Backends are numbers below pool->backend_cnt, all of them down. live is what the controller
 * publishes, ctl what overrides it (may be NULL). NULL: no memory.
 */
struct sl_batcher *sl_batcher_create(const struct sl_cfg_pool *pool, const struct sl_batch_ops *ops,
				     void *app, struct sl_svc_live *live,
				     const struct sl_svc_ctl *ctl);
void sl_batcher_destroy(struct sl_batcher *b);
/* Makes its choices repeatable; without it they differ from run to run. */
void sl_batcher_seed(struct sl_batcher *b, uint64_t seed);

/*
 * Queues an item: SL_OUTCOME_OK; or why not (QUEUE_FULL, FAIR_SHARE, NO_BACKEND, SHED, EXPIRED):
 * then it is still the caller's. May drop another item, of a client that has more waiting.
 */
enum sl_outcome sl_batcher_submit(struct sl_batcher *b, struct sl_batch_item *item,
				  uint64_t now_ns);
/*
 * How long requests wait while no backend is up: one may come in a moment. Backends and agents start
 * again, and a worker that uses a part of a group is connected with others of it when it has lost those.
 */
#define SL_BATCH_PATIENCE_NS UINT64_C(2000000000)
/* After so long without any backend a pool is not restarting: requests do not wait any more. */
#define SL_BATCH_OUTAGE_NS UINT64_C(10000000000)
/* No backend has been up for as long as that. */
bool sl_batcher_is_out(struct sl_batcher *b, uint64_t now_ns);
/* Takes a queued item out (its client has gone). */
void sl_batcher_remove(struct sl_batcher *b, struct sl_batch_item *item);
/* True while the item is in the queue. */
static inline bool sl_batcher_queued(const struct sl_batch_item *item)
{
	return item->queued;
}

/* A backend that has the number of one that has gone: nothing is known of it. */
void sl_batcher_begin(struct sl_batcher *b, unsigned backend);
void sl_batcher_backend(struct sl_batcher *b, unsigned backend, bool up, uint64_t now_ns);
/*
 * Nothing of a batch of cnt, sent at sent_ns, is outstanding any more: exactly once for each that
 * ops.send accepted, however its requests ended, and also while the backend is down. service_ns: 0
 * when there was no answer. A backend may merge batches of several gateways or workers: then
 * service_ns is what `together` requests took; 0: not known, taken for cnt.
 */
void sl_batcher_done(struct sl_batcher *b, unsigned backend, unsigned cnt, uint64_t sent_ns,
		     uint32_t together, uint64_t service_ns, uint64_t now_ns);
/*
 * A reply of a batch that was sent at sent_ns begins, ahead of its done; trip_ns: since it was
 * sent, less what the backend took. False: the batch found another one before it, so this says
 * nothing about the way there and back.
 */
bool sl_batcher_replied(struct sl_batcher *b, unsigned backend, uint64_t sent_ns, uint64_t trip_ns);

/* All that waits, runs, and was learned passes to `b`, which is new. */
void sl_batcher_take_over(struct sl_batcher *b, struct sl_batcher *from);
/*
 * One for `pool` that can take over what waits in one with that max_queue. Its backends are numbers
 * below `room`: those that are leaving are known by theirs until they have gone.
 */
struct sl_batcher *sl_batcher_create_next(const struct sl_cfg_pool *pool, uint32_t room,
					  uint32_t max_queue, const struct sl_batch_ops *ops,
					  void *app, struct sl_svc_live *live,
					  const struct sl_svc_ctl *ctl);

/*
 * Detaches a batcher from the maps: it publishes into `own`, which lives as long as the batcher, and
 * has no overrides any more.
 */
void sl_batcher_unpublish(struct sl_batcher *b, struct sl_svc_live *own);

/* Sends and sheds what is due, and runs the controller; once per loop. Requests that left the queue. */
unsigned sl_batcher_pump(struct sl_batcher *b, uint64_t now_ns);
/* When pump wants to be called at the latest; UINT64_MAX: not before the next event. */
uint64_t sl_batcher_next_ns(const struct sl_batcher *b);

uint32_t sl_batcher_queue_len(const struct sl_batcher *b);
/* Batches and requests that are at a backend. */
void sl_batcher_outstanding(const struct sl_batcher *b, unsigned backend, uint32_t *batches,
			    uint32_t *requests);

#endif
