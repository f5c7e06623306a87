/* SPDX-License-Identifier: Apache-2.0 */
/* Flights: whose bytes may be read until when. */
#ifndef SL_CORE_SENT_BATCH_H
#define SL_CORE_SENT_BATCH_H

#include "core/exchange.h"
#include "core/pool.h"

/*
 * A batch whose bytes the transport may still read. Requests that end earlier leave their frames
 * here until it says `sent`: a frame that is used anew would show one client's bytes to a backend
 * as another's.
 */
struct sl_sent_batch {
	const struct sl_backend_ref *backend;
	uint64_t batch;
	uint32_t next;            /* with the same slot: index + 1; 0: none */
	struct sl_store orphaned; /* of requests that it alone reads */
	struct sl_list shared;    /* struct sl_buf_ref_link */
};

/*
 * A request that a backend may have begun, or that was refused by one which stays up, goes elsewhere so
 * often. One that was not begun by a backend which is not up any more goes to the next in any case.
 */
enum { SL_MAX_RETRIES = SL_MAX_EXCLUDED, SL_MAX_ELSEWHERE = SL_MAX_BACKENDS };

/*
 * The bytes of a request that was sent again while a flight that has it was not `sent`: that one
 * reads on for as long as its backend takes, whatever becomes of the exchange and of later flights.
 * The exchange and each such flight count in refs; the last one frees the frames.
 */
struct sl_buf_ref_link {
	struct sl_list link;
	struct sl_buf_ref *buf_ref;
};

struct sl_buf_ref {
	struct sl_store store;                            /* once the exchange does without */
	struct sl_buf_ref_link links[SL_MAX_RETRIES + 1]; /* a link that is empty: free again */
	uint8_t link_cnt;
	uint8_t refs;
};

/* For as many at once as the pool has. 0 or -errno. */
int sl_sent_batches_init(struct sl_core *c, uint32_t cap);
void sl_sent_batches_fini(struct sl_core *c);
/* One of c->flights, with the number of a batch that this member was sent. */
void sl_sent_batch_begin(struct sl_core *c, const struct sl_backend_ref *m,
			 struct sl_sent_batch *f);

/*
 * Before it is sent once more: the flight that has it now keeps it readable beside the next one.
 * False: there are too many like that.
 */
bool sl_sent_batch_share(struct sl_exchange *x);
/* The same of a stream's head: the flight keeps what it reads, the exchange has a copy. */
bool sl_sent_batch_copy_head(struct sl_exchange *x);
/* The transport has read this batch. */
void sl_sent_batch_done(struct sl_core *c, const struct sl_backend_ref *m, uint64_t batch);

/* Which member has it now; NULL: none. */
static inline void sl_exchange_set_backend(struct sl_exchange *x, struct sl_backend_ref *m)
{
	if (x->backend)
		x->backend->refs--;
	if (m)
		m->refs++;
	x->backend = m;
}

#endif
