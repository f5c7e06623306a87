/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The batcher of one service on one worker: what waits, which of it goes next, to whom, and in how
 * large a batch. No I/O and no clock: the gateway and the simulation in bench/batch run the same
 * code.
 *
 *   submit -> [ queue.h: earliest due first, fair between clients ] -> pump -> ops.send -> backend
 *                 | ops.drop: hopeless, expired, share used up                          |
 *                 '<- sl_svc_live: size, hold <- control.h <- service times <----- done '
 *
 * A request is due at the earliest of its own deadline and, under a policy with a latency bound,
 * its arrival plus that bound. What cannot be ready when it is due is dropped at once and never
 * computed. A backend has at most two batches: the first goes at once, the second waits, and grows,
 * until the first is expected to end (adaptive), or until it is full (fixed, aimd).
 *
 * What finds an idle backend and an empty queue is sent, whatever the bound: only its own deadline
 * can be a reason not to.
 *
 * An item belongs to the batcher from submit until it is passed to ops.send (and accepted) or
 * ops.drop, or removed.
 */
#ifndef SL_CORE_BATCH_H
#define SL_CORE_BATCH_H

#include <stdbool.h>
#include <stdint.h>
#include "base/list.h"
#include "config/config.h"
#include "core/stats.h"
#include "sluice/abi.h"

enum { SL_MAX_BACKENDS = 32 };

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
	uint32_t excluded;    /* bit per backend not to be used (it failed this request) */
	uint32_t bytes;       /* of the request */
	int8_t policy;        /* enum sl_policy; -1: the pool's */
	uint8_t lane;         /* the batcher's */
	bool queued;          /* the batcher's */
	bool found_idle;      /* the batcher's: nothing was in its way when it came */
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

struct sl_batcher;

/* hist: entries of this worker and service, [SL_STAGE_CNT]; ctl may be NULL. Returns NULL: no
 * memory. */
struct sl_batcher *sl_batcher_create(const struct sl_cfg_pool *pool, const struct sl_batch_ops *ops,
				     void *app, const struct sl_svc_hist *hist,
				     struct sl_svc_live *live, const struct sl_svc_ctl *ctl);
void sl_batcher_destroy(struct sl_batcher *b);
/* Makes its choices repeatable; without it they differ from run to run. */
void sl_batcher_seed(struct sl_batcher *b, uint64_t seed);

/*
 * Queues an item: SL_OUTCOME_OK; or why not (QUEUE_FULL, FAIR_SHARE, NO_BACKEND, SHED, EXPIRED):
 * then it is still the caller's. May drop another item, of a client that has more waiting.
 */
enum sl_outcome sl_batcher_submit(struct sl_batcher *b, struct sl_batch_item *item,
				  uint64_t now_ns);
/* Takes a queued item out (its client has gone). */
void sl_batcher_remove(struct sl_batcher *b, struct sl_batch_item *item);
/* True while the item is in the queue. */
static inline bool sl_batcher_queued(const struct sl_batch_item *item)
{
	return item->queued;
}

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
 * Whether a batch whose first reply is here, ahead of done, found another one before it: then its
 * round trip says nothing about the way there and back.
 */
bool sl_batcher_waited(const struct sl_batcher *b, unsigned backend, uint64_t sent_ns);

/* Sends and sheds what is due, and runs the controller; once per loop. */
void sl_batcher_pump(struct sl_batcher *b, uint64_t now_ns);
/* When pump wants to be called at the latest; UINT64_MAX: not before the next event. */
uint64_t sl_batcher_next_ns(const struct sl_batcher *b);

uint32_t sl_batcher_queue_len(const struct sl_batcher *b);
/* Batches and requests that are at a backend. */
void sl_batcher_outstanding(const struct sl_batcher *b, unsigned backend, uint32_t *batches,
			    uint32_t *requests);

#endif
