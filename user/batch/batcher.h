/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The batcher of one pool on one worker: chooses which requests go next, to which backend, in which
 * batch size. No I/O and no clock.
 *
 *   submit -> [ queue.h: earliest due first, fair between clients ] -> pump -> ops.send -> backend
 *                 | ops.drop: hopeless, expired, share used up                          |
 *                 '<- sl_svc_live: size, hold <- controller <- service times <----- done '
 *
 * A request is due at its own deadline, or earlier: at its arrival plus the latency bound of its
 * policy. A request that cannot meet its own deadline is dropped at once. One that misses the
 * bound is dropped only if bound_mode is hard, or during an overload (overload.h).
 *
 * A request that finds an idle backend and an empty queue is sent, unless its deadline is hopeless.
 *
 * The batcher owns an item from submit until ops.send has accepted it, ops.drop, or remove.
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
	SL_MAX_BACKENDS = 1024, /* per pool */
	SL_MAX_EXCLUDED = 2,    /* backends that failed a request */
};

/* Embedded in the exchange, zeroed before its first submit. */
struct sl_batch_item {
	struct sl_list link;  /* the batcher's while queued */
	struct sl_list age;   /* the batcher's */
	uint64_t arrived_ns;  /* start of the latency bound; 0: submit sets it */
	uint64_t deadline_ns; /* UINT64_MAX: none */
	uint64_t queued_ns;
	uint64_t due_ns;   /* the batcher's */
	uint64_t key;      /* of affinity; 0: none */
	uint32_t client;   /* hash of the fairness key */
	uint32_t heap_pos; /* the batcher's */
	uint32_t bytes;
	uint16_t excluded[SL_MAX_EXCLUDED];
	uint8_t excluded_cnt;
	int8_t policy;   /* enum sl_policy; -1: the pool's */
	uint8_t lane;    /* the batcher's */
	bool unproven;   /* the client's address is not proven */
	bool queued;     /* the batcher's */
	bool found_idle; /* the batcher's: empty queue and idle backend */
};

struct sl_batch_ops {
	/*
	 * Sends items as one batch. Returns 0: the backend has them. -EAGAIN: no credit now.
	 * -EMSGSIZE: too many bytes; fewer are tried. Other: the backend is unusable. Items stay
	 * queued on error.
	 */
	int (*send)(void *app, unsigned backend, struct sl_batch_item **items, unsigned cnt);
	/* Returns the item to the application. Must not submit. */
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
 * Creates a batcher with backends 0 to pool->backend_cnt - 1, all down. The controller publishes
 * into `live`; `ctl` overrides it (may be NULL). Returns NULL if out of memory.
 */
struct sl_batcher *sl_batcher_create(const struct sl_cfg_pool *pool, const struct sl_batch_ops *ops,
				     void *app, struct sl_svc_live *live,
				     const struct sl_svc_ctl *ctl);
void sl_batcher_destroy(struct sl_batcher *b);
/* Makes random choices repeatable. */
void sl_batcher_seed(struct sl_batcher *b, uint64_t seed);

/*
 * Queues an item. Returns SL_OUTCOME_OK, or QUEUE_FULL, FAIR_SHARE, NO_BACKEND, SHED, EXPIRED: the
 * item stays the caller's. May drop an item of a client with more waiting.
 */
enum sl_outcome sl_batcher_submit(struct sl_batcher *b, struct sl_batch_item *item,
				  uint64_t now_ns);
/* Time that requests wait while no backend is up. */
#define SL_BATCH_PATIENCE_NS UINT64_C(2000000000)
/* Requests no longer wait if the pool had no backend for this time. */
#define SL_BATCH_OUTAGE_NS UINT64_C(10000000000)
/* Returns true after SL_BATCH_OUTAGE_NS without a backend. */
bool sl_batcher_is_out(struct sl_batcher *b, uint64_t now_ns);
void sl_batcher_remove(struct sl_batcher *b, struct sl_batch_item *item);
static inline bool sl_batcher_queued(const struct sl_batch_item *item)
{
	return item->queued;
}

struct sl_affinity;
/* Prefers the homes of keys from now on (affinity.h). The batcher frees `a`. */
void sl_batcher_set_affinity(struct sl_batcher *b, struct sl_affinity *a);
/* NULL: none. */
const struct sl_affinity *sl_batcher_affinity(const struct sl_batcher *b);
/* Returns how many backends are up. */
uint32_t sl_batcher_up_cnt(const struct sl_batcher *b);
/* Returns the first backend from the key on that is up, or SL_AFFINITY_NONE. */
unsigned sl_batcher_home(const struct sl_batcher *b, uint64_t key);

/* Forgets what is known of a backend, whose number a new one takes. */
void sl_batcher_begin(struct sl_batcher *b, unsigned backend);
void sl_batcher_backend(struct sl_batcher *b, unsigned backend, bool up, uint64_t now_ns);
/* Sets the weight of a backend, and whether it gets one request at a time. */
void sl_batcher_weigh(struct sl_batcher *b, unsigned backend, uint32_t weight, bool trial);
/* `most`: largest weight of those that are up; 0: all are equal, and none is on trial. */
void sl_batcher_weighted(struct sl_batcher *b, uint32_t most);
/* Forgets the service times of a backend: its failures were fast. */
void sl_batcher_forget(struct sl_batcher *b, unsigned backend);
/*
 * Ends a batch of cnt that was sent at sent_ns. Required exactly once for each accepted ops.send,
 * even if the backend is down. service_ns: 0 without an answer; else the time for `together`
 * requests, which may include batches of other gateways (0: unknown, taken for cnt).
 */
void sl_batcher_done(struct sl_batcher *b, unsigned backend, unsigned cnt, uint64_t sent_ns,
		     uint32_t together, uint64_t service_ns, uint64_t now_ns);
/*
 * Records the first reply of a batch, before its done. trip_ns: round trip less service time.
 * Returns false if another batch was before it: then trip_ns says nothing about the network.
 */
bool sl_batcher_replied(struct sl_batcher *b, unsigned backend, uint64_t sent_ns, uint64_t trip_ns);

/* Passes all queued and outstanding requests, and what was learnt, to the new batcher `b`. */
void sl_batcher_take_over(struct sl_batcher *b, struct sl_batcher *from);
/*
 * Creates a batcher that can take over from one with that max_queue. Backends are numbers below
 * `room`: leaving ones keep theirs until they have gone.
 */
struct sl_batcher *sl_batcher_create_next(const struct sl_cfg_pool *pool, uint32_t room,
					  uint32_t max_queue, const struct sl_batch_ops *ops,
					  void *app, struct sl_svc_live *live,
					  const struct sl_svc_ctl *ctl);

/* Detaches a batcher from the maps: it publishes into `own`, which must live as long. */
void sl_batcher_unpublish(struct sl_batcher *b, struct sl_svc_live *own);

/*
 * Sends and sheds what is due, and runs the controller; once per loop. Returns the number of
 * requests that left.
 */
unsigned sl_batcher_pump(struct sl_batcher *b, uint64_t now_ns);
/* Returns when to call pump at the latest; UINT64_MAX: after the next event. */
uint64_t sl_batcher_next_ns(const struct sl_batcher *b);

/* Returns the number of queued requests. */
uint32_t sl_batcher_queue_len(const struct sl_batcher *b);
void sl_batcher_outstanding(const struct sl_batcher *b, unsigned backend, uint32_t *batches,
			    uint32_t *requests);

#endif
