/* SPDX-License-Identifier: Apache-2.0 */
/* Request buffers that a transport still reads. All functions are for the worker's thread. */
#ifndef SL_CORE_SENT_BATCH_H
#define SL_CORE_SENT_BATCH_H

#include "core/exchange.h"
#include "core/pool.h"

/*
 * A batch that the transport may still read. Requests that end earlier leave their frames here:
 * early reuse would send one client's bytes as another's.
 */
struct sl_sent_batch {
	const struct sl_backend_ref *backend;
	uint64_t batch;
	uint32_t next;            /* hash chain: index + 1; 0: none */
	struct sl_store orphaned; /* ended requests that only this batch reads */
	struct sl_list shared;    /* struct sl_buf_ref_link */
};

/*
 * MAX_RETRIES: attempts that a backend may have begun, or that a live backend refused.
 * MAX_ELSEWHERE: all attempts.
 */
enum { SL_MAX_RETRIES = SL_MAX_EXCLUDED, SL_MAX_ELSEWHERE = SL_MAX_BACKENDS };

/* Buffers of a resent request that earlier batches read. */
struct sl_buf_ref_link {
	struct sl_list link;
	struct sl_buf_ref *buf_ref;
};

struct sl_buf_ref {
	struct sl_store store;                            /* empty until the exchange ends */
	struct sl_buf_ref_link links[SL_MAX_RETRIES + 1]; /* unlinked: unused */
	uint8_t link_cnt;
	uint8_t refs;
};

/* Makes a table for `cap` batches. Returns 0 or -ENOMEM; fini must follow even then. */
int sl_sent_batches_init(struct sl_core *c, uint32_t cap);
/* Frees the table. All batches must be done. */
void sl_sent_batches_fini(struct sl_core *c);
/* Enters a sent batch. `f` is from c->sent_batches and has its number. */
void sl_sent_batch_begin(struct sl_core *c, const struct sl_backend_ref *m,
			 struct sl_sent_batch *f);

/*
 * Prepares a retry: shares the buffers with the batch that reads them. False: too many do, or
 * without memory.
 */
bool sl_sent_batch_share(struct sl_exchange *x);
/* Prepares two more batches for x's buffers. False: too many, or no memory. */
bool sl_sent_batch_reserve(struct sl_exchange *x);
/* Shares x's buffers with the batch of x->twin, which ends. Needs sl_sent_batch_reserve(). */
void sl_sent_batch_share_hedge(struct sl_exchange *x);
/*
 * Prepares a stream's retry: the batch keeps the head, the exchange gets a copy. False: no frames.
 */
bool sl_sent_batch_copy_head(struct sl_exchange *x);
/* Frees what only this batch held: the transport has read it. */
void sl_sent_batch_done(struct sl_core *c, const struct sl_backend_ref *m, uint64_t batch);

/* Replaces x->backend and its reference; NULL: none. */
static inline void sl_exchange_set_backend(struct sl_exchange *x, struct sl_backend_ref *m)
{
	if (x->backend)
		x->backend->refs--;
	if (m)
		m->refs++;
	x->backend = m;
}

#endif
