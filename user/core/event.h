/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One record per exchange for the access log, written by the worker at its end and read by the
 * control thread. It is collected in a note beside the exchange, since path and peer are not known
 * any more at the end:
 *
 *   begin -> note: client, request       sent -> backend, batch       head -> status
 *   done, cancel -> times, sizes, outcome -> ring of this worker -> control thread
 *
 * Without a reader there are no notes (core->events is NULL). Nothing waits: a record that finds
 * the ring full is dropped and counted (access_log_dropped).
 */
#ifndef SL_CORE_EVENT_H
#define SL_CORE_EVENT_H

#include "base/ring.h"
#include "core/exchange.h"

/*
 * Where the time of an exchange went. Each moment counts for one stage; a failed exchange ends in
 * the stage that it had reached.
 */
enum sl_event_stage {
	SL_EVENT_WIRE,    /* from the XDP program to user space */
	SL_EVENT_PARSE,   /* until the request was complete */
	SL_EVENT_QUEUE,   /* until it was sent to the last backend */
	SL_EVENT_BACKEND, /* until the first byte of the reply */
	SL_EVENT_REPLY,   /* until the transport had the last byte */
	SL_EVENT_STAGE_CNT
};

/*
 * Texts of the client that the access log has fields for; any bytes. Each is cut at its length here
 * and at the rest of `texts`.
 */
#define SL_EVENT_TEXTS(X)                                                                          \
	X(TRACE_ID, 32)                                                                            \
	X(REQUEST_ID, 64)                                                                          \
	X(SNI, 64)                                                                                 \
	X(HOST, 100)                                                                               \
	X(SUBJECT, 100)                                                                            \
	X(USER_AGENT, 160)                                                                         \
	X(REFERER, 250)
enum sl_event_text {
#define X(name, most) SL_EVENT_##name,
	SL_EVENT_TEXTS(X)
#undef X
		SL_EVENT_TEXT_CNT
};

/* Names end with NUL and are cut to fit. `path` is as the client sent it, any bytes. */
struct sl_event {
	uint64_t end_ns; /* sl_now_ns() */
	uint64_t sent_ns;
	uint64_t stage_ns[SL_EVENT_STAGE_CNT];
	uint64_t request_len, reply_len; /* bodies */
	uint32_t service_us;             /* as the backend reports it */
	uint16_t status, grpc_status;    /* the reply's, by its protocol */
	uint16_t together;               /* requests in its batch; 0: not sent */
	uint16_t path_len;               /* length without the NUL */
	uint8_t outcome;                 /* enum sl_outcome */
	uint8_t proto;                   /* enum sl_proto */
	uint8_t method;                  /* enum sl_method */
	uint8_t version_minor;           /* HTTP/1 */
	uint8_t retries;
	bool begun;           /* the head of a reply was sent */
	bool resumed;         /* TLS: by a ticket */
	bool upgrade_ignored; /* the route lacks the protocol that the client asked for */
	uint8_t text_len[SL_EVENT_TEXT_CNT];
	const char *cipher; /* TLS: its name; NULL: none */
	struct sl_addr peer;
	char listener[24], pool[32], backend[32], route[80];
	char path[256];
	char texts[468]; /* concatenated */
};

enum {
	SL_EVENT_WORDS = sizeof(struct sl_event) / sizeof(uint64_t),
	SL_EVENT_RING = 16384, /* records: 16 MiB for each worker, 100 ms at 160,000/s */
};
/* The size divides that of the ring, so a record is written whole or not at all. */
_Static_assert(sizeof(struct sl_event) == 1024, "a record is a power of two");

/* Returns one of the texts; empty: not sent, or not asked for. */
struct sl_span sl_event_text(const struct sl_event *e, enum sl_event_text which);

/* Allocates notes and ring. Returns 0 or -ENOMEM. */
int sl_events_init(struct sl_core *c);
/* Frees them. */
void sl_events_fini(struct sl_core *c);

void sl_event_begin(struct sl_exchange *x, const struct sl_request *rq);
/* Records a request that got no exchange. */
void sl_event_refused(struct sl_core *c, const struct sl_client *cl, const struct sl_request *rq,
		      const struct sl_cfg_route *route, enum sl_outcome why);
/* Notes that the exchange was sent in a batch of that size. Only with x->note. */
void sl_event_sent(struct sl_exchange *x, unsigned together);
/* Writes the record. Only with x->note. */
void sl_event_end(struct sl_exchange *x, enum sl_outcome outcome);

/* Takes up to max records; returns how many. Control thread. */
unsigned sl_events_take(struct sl_ring *ring, struct sl_event *out, unsigned max);

#endif
