/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access-log records, one per exchange.
 *
 * Without a reader (core->events_wanted), only exported traces are recorded. A full ring drops and
 * counts records.
 */
#ifndef SL_CORE_EVENT_H
#define SL_CORE_EVENT_H

#include "base/ring.h"
#include "core/exchange.h"
#include "front/codes.h"

/* A failed exchange ends in its stage. */
enum sl_event_stage {
	SL_EVENT_WIRE,    /* XDP to user space */
	SL_EVENT_PARSE,   /* request is complete */
	SL_EVENT_QUEUE,   /* sent to the last backend */
	SL_EVENT_BACKEND, /* first byte of the reply */
	SL_EVENT_REPLY,   /* transport has the last byte */
	SL_EVENT_STAGE_CNT
};

/* The client's texts: any bytes. Each is cut at this length and at the rest of `texts`. */
#define SL_EVENT_TEXTS(X)                                                                          \
	X(TRACE_ID, 32)                                                                            \
	X(REQUEST_ID, 64)                                                                          \
	X(SNI, 64)                                                                                 \
	X(HOST, 100)                                                                               \
	X(SUBJECT, 100)                                                                            \
	X(USER_AGENT, 160)                                                                         \
	X(REFERER, 250)                                                                            \
	X(KEY, 64)
enum sl_event_text {
#define X(name, most) SL_EVENT_##name,
	SL_EVENT_TEXTS(X)
#undef X
		SL_EVENT_TEXT_CNT
};

/* Names are cut to fit and end with NUL. `path` is the client's: any bytes. */
struct sl_event {
	uint64_t end_ns; /* sl_now_ns() */
	uint64_t sent_ns;
	uint64_t stage_ns[SL_EVENT_STAGE_CNT];
	uint64_t request_len, reply_len;
	uint32_t service_us;
	uint16_t status, grpc_status;
	uint16_t together; /* in its batch; 0: not sent */
	uint16_t path_len; /* without NUL */
	uint8_t outcome;
	uint8_t proto; /* enum sl_proto */
	uint8_t method;
	uint8_t version_minor;
	uint8_t retries;
	bool begun;           /* reply's head was sent */
	bool resumed;         /* TLS: by a ticket */
	bool upgrade_ignored; /* route lacks the protocol */
	uint8_t text_len[SL_EVENT_TEXT_CNT];
	const char *cipher; /* NULL: no TLS */
	struct sl_addr peer;
	char listener[24], pool[32], backend[32], route[80];
	char path[256];
	uint8_t trace_id[16], span_id[8], parent_id[8];
	uint8_t trace_flags;
	uint8_t front_error; /* enum sl_front_error + 1: refused before it had an exchange; or 0 */
	char texts[434];
};

enum {
	SL_EVENT_WORDS = sizeof(struct sl_event) / sizeof(uint64_t),
	SL_EVENT_RING = 16384,      /* records; 16 MiB a worker, 100 ms at 160,000/s */
	SL_EVENT_RING_SMALL = 1024, /* without an access log */
};
/* Divides the ring's size: a record is written whole or not at all. */
_Static_assert(sizeof(struct sl_event) == 1024, "a record is a power of two");

/* Returns a text of the record; empty: not sent, or not asked for. */
struct sl_span sl_event_text(const struct sl_event *e, enum sl_event_text which);

/* Returns the final status and outcome. */
struct sl_code_end sl_event_code(const struct sl_event *e);
/* Returns the sum of all stages. */
uint64_t sl_event_total_ns(const struct sl_event *e);

/*
 * Makes notes and ring. Returns 0 or -ENOMEM; fini must follow even then. No records are made
 * before sl_events_want().
 */
int sl_events_init(struct sl_core *c);
/* Frees them. The control thread must have taken its last record. */
void sl_events_fini(struct sl_core *c);

/* Sets whether the control thread takes records. Control thread. */
static inline void sl_events_want(struct sl_core *c, bool wanted)
{
	atomic_store_explicit(&c->events_wanted, wanted, memory_order_relaxed);
}
/* Returns what sl_events_want() has set. Worker, as all below but sl_events_take(). */
static inline bool sl_events_wanted(const struct sl_core *c)
{
	return atomic_load_explicit(&c->events_wanted, memory_order_relaxed);
}

/* Returns true if requests need a record, for the log or traces. */
static inline bool sl_events_noted(const struct sl_core *c)
{
	return sl_events_wanted(c) || sl_cfg_traces(&c->cfg->trace);
}

/* Sets x->note; NULL without memory, counted. Needs sl_events_noted(). */
void sl_event_begin(struct sl_exchange *x, const struct sl_request *rq);
/* Replaces the pool's name. */
void sl_event_pool(struct sl_event *e, const char *pool);
/* Records a request without an exchange. Needs sl_events_noted(). */
void sl_event_refused(struct sl_core *c, const struct sl_client *cl, const struct sl_request *rq,
		      const struct sl_cfg_route *route, enum sl_outcome why);
/*
 * Records a refused head; rq is NULL if unreadable. Returns the id for the reply, or empty
 * (sl_front_cb.refused).
 */
struct sl_span sl_event_unparsed(void *conn, const struct sl_request *rq, unsigned status,
				 unsigned error);
/* Notes that the request takes its hedge's place. Only with x->note, as the next three. */
void sl_event_moved(struct sl_exchange *x);
/* Notes time, backend and batch size. */
void sl_event_sent(struct sl_exchange *x, unsigned together);
/* Notes the name of the API key. */
void sl_event_key(struct sl_exchange *x, const char *name);
/* Passes the complete record to the control thread; frees x->note. */
void sl_event_end(struct sl_exchange *x, enum sl_outcome outcome);

/* Takes up to `max` records. Returns their number. Control thread. */
unsigned sl_events_take(struct sl_ring *ring, struct sl_event *out, unsigned max);

#endif
