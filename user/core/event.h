/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access-log records: one per exchange, written by the worker at its end and read by the control
 * thread. A note beside the exchange collects it:
 *
 *   begin -> note: client, request       sent -> backend, batch       head -> status
 *   done, cancel -> times, sizes, outcome -> ring of this worker -> control thread
 *
 * Without a reader (core->events_wanted) only the trace block makes notes, and only the records that
 * it exports are written. A record that finds the ring full is dropped and counted.
 */
#ifndef SL_CORE_EVENT_H
#define SL_CORE_EVENT_H

#include "base/ring.h"
#include "core/exchange.h"
#include "front/codes.h"

/* Stages of an exchange. A failed exchange ends in the stage that it had reached. */
enum sl_event_stage {
	SL_EVENT_WIRE,    /* XDP program to user space */
	SL_EVENT_PARSE,   /* request is complete */
	SL_EVENT_QUEUE,   /* sent to the last backend */
	SL_EVENT_BACKEND, /* first byte of the reply */
	SL_EVENT_REPLY,   /* transport has the last byte */
	SL_EVENT_STAGE_CNT
};

/* Texts of the client; any bytes. Each is cut at this length and at the rest of `texts`. */
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
	uint64_t request_len, reply_len; /* bodies */
	uint32_t service_us;             /* reported by the backend */
	uint16_t status, grpc_status;
	uint16_t together;     /* in its batch; 0: not sent */
	uint16_t path_len;     /* without NUL */
	uint8_t outcome;       /* enum sl_outcome */
	uint8_t proto;         /* enum sl_proto */
	uint8_t method;        /* enum sl_method */
	uint8_t version_minor; /* HTTP/1 */
	uint8_t retries;
	bool begun;           /* reply's head was sent */
	bool resumed;         /* TLS: by a ticket */
	bool upgrade_ignored; /* route lacks the protocol */
	uint8_t text_len[SL_EVENT_TEXT_CNT];
	const char *cipher; /* NULL: no TLS */
	struct sl_addr peer;
	char listener[24], pool[32], backend[32], route[80];
	char path[256];
	uint8_t trace_id[16], span_id[8], parent_id[8]; /* trace.h */
	uint8_t trace_flags;
	char texts[435]; /* concatenated */
};

enum {
	SL_EVENT_WORDS = sizeof(struct sl_event) / sizeof(uint64_t),
	SL_EVENT_RING = 16384,      /* records; 16 MiB a worker, 100 ms at 160,000/s */
	SL_EVENT_RING_SMALL = 1024, /* without an access log */
};
/* The size divides that of the ring: a record is written whole or not at all. */
_Static_assert(sizeof(struct sl_event) == 1024, "a record is a power of two");

/* Returns a text; empty: not sent, or not asked for. */
struct sl_span sl_event_text(const struct sl_event *e, enum sl_event_text which);

/* Returns status and outcome, for codes.h. */
struct sl_code_end sl_event_code(const struct sl_event *e);
uint64_t sl_event_total_ns(const struct sl_event *e);

/* Allocates the ring. No records are made before sl_events_want(). Returns 0 or -ENOMEM. */
int sl_events_init(struct sl_core *c);
void sl_events_fini(struct sl_core *c);

/* Begins or ends making records. Control thread. */
static inline void sl_events_want(struct sl_core *c, bool wanted)
{
	atomic_store_explicit(&c->events_wanted, wanted, memory_order_relaxed);
}
/* Worker. */
static inline bool sl_events_wanted(const struct sl_core *c)
{
	return atomic_load_explicit(&c->events_wanted, memory_order_relaxed);
}

/* Worker. */
static inline bool sl_events_noted(const struct sl_core *c)
{
	return sl_events_wanted(c) || sl_cfg_traces(&c->cfg->trace);
}

/* Notes the request; counts a drop without memory. */
void sl_event_begin(struct sl_exchange *x, const struct sl_request *rq);
/* Names the pool that was selected after the begin. */
void sl_event_pool(struct sl_event *e, const char *pool);
/* Records a request that got no exchange. */
void sl_event_refused(struct sl_core *c, const struct sl_client *cl, const struct sl_request *rq,
		      const struct sl_cfg_route *route, enum sl_outcome why);
/* Notes the size of its batch. These three only with x->note. */
void sl_event_sent(struct sl_exchange *x, unsigned together);
/* Notes the name of the API key. */
void sl_event_key(struct sl_exchange *x, const char *name);
/* Writes the record. */
void sl_event_end(struct sl_exchange *x, enum sl_outcome outcome);

/* Takes up to max records. Returns how many. Control thread. */
unsigned sl_events_take(struct sl_ring *ring, struct sl_event *out, unsigned max);

#endif
