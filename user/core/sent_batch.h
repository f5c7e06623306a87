/* SPDX-License-Identifier: Apache-2.0 */
/* Request buffers that a transport still reads, and when they are freed. */
#ifndef SL_CORE_SENT_BATCH_H
#define SL_CORE_SENT_BATCH_H

#include "core/exchange.h"
#include "core/pool.h"

/*
 * A batch whose bytes the transport may still read. Requests that end earlier leave their frames
 * here until the transport is done. Reusing a frame too early would send one client's bytes as
 * another's.
 */
struct sl_sent_batch {
	const struct sl_backend_ref *backend;
	uint64_t batch;
	uint32_t next;            /* next in the hash chain: index + 1; 0: none */
	struct sl_store orphaned; /* frames of ended requests that only this batch reads */
	struct sl_list shared;    /* struct sl_buf_ref_link */
};

/*
 * How often a request is sent again. MAX_RETRIES counts attempts that a backend may have begun, or
 * that a live backend refused. MAX_ELSEWHERE counts all.
 */
enum { SL_MAX_RETRIES = SL_MAX_EXCLUDED, SL_MAX_ELSEWHERE = SL_MAX_BACKENDS };

/*
 * Shared buffers of a request that was sent again while an earlier batch still reads them. The
 * exchange and each such batch hold a reference; the last one frees the frames.
 */
struct sl_buf_ref_link {
	struct sl_list link;
	struct sl_buf_ref *buf_ref;
};

struct sl_buf_ref {
	struct sl_store store;                            /* filled when the exchange ends */
	struct sl_buf_ref_link links[SL_MAX_RETRIES + 1]; /* an unlinked one is unused */
	uint8_t link_cnt;
	uint8_t refs;
};

/* Makes room for `cap` batches. Returns 0 or -errno. */
int sl_sent_batches_init(struct sl_core *c, uint32_t cap);
/* Frees the table. All batches must be done. */
void sl_sent_batches_fini(struct sl_core *c);
/* Enters a batch that was sent to a backend. `f` is from c->sent_batches and has its number. */
void sl_sent_batch_begin(struct sl_core *c, const struct sl_backend_ref *m,
			 struct sl_sent_batch *f);

/*
 * Prepares a request to be sent again: the batch that reads it shares the buffers. False: too many
 * batches share them.
 */
bool sl_sent_batch_share(struct sl_exchange *x);
/*
 * Prepares a stream's head to be sent again: the batch keeps its bytes, the exchange gets a copy.
 * False: no frame.
 */
bool sl_sent_batch_copy_head(struct sl_exchange *x);
/* Frees the buffers of a batch that the transport has read. */
void sl_sent_batch_done(struct sl_core *c, const struct sl_backend_ref *m, uint64_t batch);

/* Sets the backend that has the exchange; NULL: none. Moves the reference. */
static inline void sl_exchange_set_backend(struct sl_exchange *x, struct sl_backend_ref *m)
{
	if (x->backend)
		x->backend->refs--;
	if (m)
		m->refs++;
	x->backend = m;
}

#endif
