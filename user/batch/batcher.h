/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The batcher of one pool on one worker: chooses which requests go next, to which backend, in which
 * batch size. No I/O and no clock.
 *
 *   submit -> [ queue.h ] -> pump -> ops.send -> backend
 *                  | ops.drop                        |
 *                  '<- sl_svc_live <- controller <- done
 *
 * A request is due at its deadline, or earlier: at its arrival plus the latency bound. If it cannot
 * meet the deadline, it is dropped. If it misses the bound, it is dropped only with a hard
 * bound_mode or during an overload. One that has found an idle backend ignores the bound.
 *
 * The batcher owns an item from submit until ops.send has accepted it, ops.drop, or remove. The
 * control thread creates and destroys batchers; the worker calls all other functions.
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
	uint64_t key;      /* affinity key's hash; 0: none */
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
	 * Sends items as one batch. Returns 0, -EAGAIN without credit, or -EMSGSIZE for too many
	 * bytes; fewer are tried then. Other errors: the backend is unusable. Items stay queued on
	 * error.
	 */
	int (*send)(void *app, unsigned backend, struct sl_batch_item **items, unsigned cnt);
	/* Returns the item to the application. Must not submit. */
	void (*drop)(void *app, struct sl_batch_item *item, enum sl_outcome why);
	/* A backend is silent (pick.h), or no longer. NULL: not called. */
	void (*silent)(void *app, unsigned backend, bool silent);
};

/* Returns true if the request must not go to the backend. */
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
 * into `live`; `ctl` overrides it (may be NULL). All arguments must outlive the batcher. Returns
 * NULL without memory.
 */
struct sl_batcher *sl_batcher_create(const struct sl_cfg_pool *pool, const struct sl_batch_ops *ops,
				     void *app, struct sl_svc_live *live,
				     const struct sl_svc_ctl *ctl);
/* Frees the batcher and its affinity, not its items. */
void sl_batcher_destroy(struct sl_batcher *b);
/* Sets the seed of random choices, for tests. */
void sl_batcher_seed(struct sl_batcher *b, uint64_t seed);

/*
 * Queues an item; next_ns() changes. Returns SL_OUTCOME_OK, or a reason for which the item stays
 * the caller's: QUEUE_FULL, FAIR_SHARE, NO_BACKEND, SHED, EXPIRED. May drop another item.
 */
enum sl_outcome sl_batcher_submit(struct sl_batcher *b, struct sl_batch_item *item,
				  uint64_t now_ns);
/* Returns true if another backend that the item does not exclude is up. */
bool sl_batcher_has_other(const struct sl_batcher *b, const struct sl_batch_item *item,
			  unsigned than);
/* As submit, but never drops another item or uses an excluded backend. May call ops.send. */
enum sl_outcome sl_batcher_submit_copy(struct sl_batcher *b, struct sl_batch_item *item,
				       uint64_t now_ns);
/* Requests wait so long for a backend. */
#define SL_BATCH_PATIENCE_NS UINT64_C(2000000000)
/* Requests do not wait after such an outage. */
#define SL_BATCH_OUTAGE_NS UINT64_C(10000000000)
/* Returns true if no backend has been up for that long. */
bool sl_batcher_is_out(struct sl_batcher *b, uint64_t now_ns);
/* Returns an item to the caller if it is queued. */
void sl_batcher_remove(struct sl_batcher *b, struct sl_batch_item *item);
/* Returns true from submit to send, drop or remove. */
static inline bool sl_batcher_queued(const struct sl_batch_item *item)
{
	return item->queued;
}

struct sl_affinity;
/* Prefers the homes of keys. The batcher owns `a`, which may be NULL. At most once. */
void sl_batcher_set_affinity(struct sl_batcher *b, struct sl_affinity *a);
/* Returns that; NULL: none. */
const struct sl_affinity *sl_batcher_affinity(const struct sl_batcher *b);
/* Returns how many backends are up. */
uint32_t sl_batcher_up_cnt(const struct sl_batcher *b);
/* Returns the first backend from the key on that is up; SL_AFFINITY_NONE: none, or no affinity. */
unsigned sl_batcher_home(const struct sl_batcher *b, uint64_t key);

/* Forgets a backend: a new one takes its number. Must precede its first `up`. */
void sl_batcher_begin(struct sl_batcher *b, unsigned backend);
/* Sets a backend up or down. May drop items that no other one can have. */
void sl_batcher_backend(struct sl_batcher *b, unsigned backend, bool up, uint64_t now_ns);
/*
 * Sets a backend's weight, used after sl_batcher_weighted(). trial: it gets one request at a time.
 */
void sl_batcher_weigh(struct sl_batcher *b, unsigned backend, uint32_t weight, bool trial);
/* `most`: largest weight of backends that are up; 0: all are equal, none is on trial. */
void sl_batcher_weighted(struct sl_batcher *b, uint32_t most);
/* Forgets a backend's service times: its failures were fast. */
void sl_batcher_forget(struct sl_batcher *b, unsigned backend);
/*
 * Ends a batch: exactly once for each accepted ops.send, also of a backend that is down.
 * service_ns: 0 without an answer; else the time for `together` requests, other gateways' included
 * (0: cnt).
 */
void sl_batcher_done(struct sl_batcher *b, unsigned backend, unsigned cnt, uint64_t sent_ns,
		     uint32_t together, uint64_t service_ns, uint64_t now_ns);
/*
 * Records the first reply of a batch, before its done. trip_ns: round trip less service time.
 * Returns false, without use of trip_ns, if another batch was before it.
 */
bool sl_batcher_replied(struct sl_batcher *b, unsigned backend, uint64_t sent_ns, uint64_t trip_ns);

/* Moves all requests, and what was learnt, to the new batcher `b`. `from` can be destroyed then. */
void sl_batcher_take_over(struct sl_batcher *b, struct sl_batcher *from);
/* Like create, but can take over from one with that max_queue and backends below `room`. */
struct sl_batcher *sl_batcher_create_next(const struct sl_cfg_pool *pool, uint32_t room,
					  uint32_t max_queue, const struct sl_batch_ops *ops,
					  void *app, struct sl_svc_live *live,
					  const struct sl_svc_ctl *ctl);

/* Publishes into `own`, which must outlive the batcher, instead of the maps. */
void sl_batcher_unpublish(struct sl_batcher *b, struct sl_svc_live *own);

/* Sends and drops what is due. Returns how many requests left the queue. */
unsigned sl_batcher_pump(struct sl_batcher *b, uint64_t now_ns);
/* Returns the latest time to call pump, unless an event comes before. */
uint64_t sl_batcher_next_ns(const struct sl_batcher *b);

/* Returns the number of queued requests. */
uint32_t sl_batcher_queue_len(const struct sl_batcher *b);
/* Writes how many batches and requests a backend has, without streams. */
void sl_batcher_outstanding(const struct sl_batcher *b, unsigned backend, uint32_t *batches,
			    uint32_t *requests);

#endif
