/* SPDX-License-Identifier: Apache-2.0 */
/* Flights: whose bytes may be read until when. */
#ifndef SL_CORE_FLIGHT_H
#define SL_CORE_FLIGHT_H

#include "core/exchange.h"
#include "core/group.h"

/*
 * A batch whose bytes the transport may still read. Requests that end earlier leave their frames
 * here until it says `sent`: a frame that is used anew would show one client's bytes to a backend
 * as another's.
 */
struct sl_flight {
	const struct sl_member *member;
	uint64_t batch;
	uint32_t next;         /* with the same slot: index + 1; 0: none */
	struct sl_store limbo; /* of requests that it alone reads */
	struct sl_list shared; /* struct sl_hold_ref */
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
struct sl_hold_ref {
	struct sl_list link;
	struct sl_hold *hold;
};

struct sl_hold {
	struct sl_store store;                          /* once the exchange does without */
	struct sl_hold_ref flights[SL_MAX_RETRIES + 1]; /* a link that is empty: free again */
	uint8_t flight_cnt;
	uint8_t refs;
};

/* For as many at once as the pool has. 0 or -errno. */
int sl_flights_init(struct sl_core *c, uint32_t cap);
void sl_flights_fini(struct sl_core *c);
/* One of c->flights, with the number of a batch that this member was sent. */
void sl_flight_begin(struct sl_core *c, const struct sl_member *m, struct sl_flight *f);

/*
 * Before it is sent once more: the flight that has it now keeps it readable beside the next one.
 * False: there are too many like that.
 */
bool sl_flight_hold(struct sl_exchange *x);
/* The same of a stream's head: the flight keeps what it reads, the exchange has a copy. */
bool sl_flight_copy_head(struct sl_exchange *x);
/* The transport has read this batch. */
void sl_flight_sent(struct sl_core *c, const struct sl_member *m, uint64_t batch);

/* Which member has it now; NULL: none. */
static inline void sl_exchange_goes_to(struct sl_exchange *x, struct sl_member *m)
{
	if (x->member)
		x->member->refs--;
	if (m)
		m->refs++;
	x->member = m;
}

#endif
