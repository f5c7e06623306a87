/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What became of an exchange: one record for each, written by the worker when it ends, read by the
 * control thread (access log). It is gathered beside the exchange, in a note of its own, since what
 * begin shows (path, peer) is gone at the end:
 *
 *   begin -> note: who asks for what       sent -> backend, batch       head -> status
 *   done, cancel -> times, sizes, outcome -> ring of this worker -> control thread
 *
 * Without a reader there are no notes (core->events is NULL): a branch for each request and one for
 * each step, and nothing else. Nothing here waits: a record for which the ring has no room is
 * dropped and counted (events_dropped).
 */
#ifndef SL_CORE_EVENT_H
#define SL_CORE_EVENT_H

#include "base/ring.h"
#include "core/exchange.h"

/*
 * Where the time of an exchange went. Each moment of it counts in one of them: an exchange that
 * failed has the rest in the one that it was in.
 */
enum sl_event_stage {
	SL_EVENT_WIRE,    /* from the XDP program to user space */
	SL_EVENT_PARSE,   /* until the request was whole */
	SL_EVENT_QUEUE,   /* until it left for the backend that was asked last */
	SL_EVENT_BACKEND, /* until the first byte of the reply */
	SL_EVENT_REPLY,   /* until the last byte was the transport's */
	SL_EVENT_STAGE_CNT
};

/*
 * What a client says of itself, as far as the access log has the field: any bytes. Each is cut at the
 * length that stands here, and at what those before it leave of `texts`.
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

/* Names end with a NUL and are cut to fit; `path` too, as the client sent it, any bytes. */
struct sl_event {
	uint64_t end_ns; /* sl_now_ns() */
	uint64_t sent_ns;
	uint64_t stage_ns[SL_EVENT_STAGE_CNT];
	uint64_t request_len, reply_len; /* bodies */
	uint32_t service_us;             /* that the backend says it took */
	uint16_t status, grpc_status;    /* as the reply has them; each protocol tells its own */
	uint16_t together;     /* requests in the batch that it was sent in; 0: not sent */
	uint16_t path_len;     /* in `path`, without the NUL */
	uint8_t outcome;       /* enum sl_outcome */
	uint8_t proto;         /* enum sl_proto */
	uint8_t method;        /* enum sl_method */
	uint8_t version_minor; /* HTTP/1 */
	uint8_t retries;
	bool begun;           /* the client got the head of a reply */
	bool resumed;         /* TLS: by a ticket */
	bool upgrade_ignored; /* the client asked for another protocol: the route lacks it */
	uint8_t text_len[SL_EVENT_TEXT_CNT];
	const char *cipher; /* TLS: its name; NULL: none */
	struct sl_addr peer;
	char listener[24], pool[32], backend[32], route[80];
	char path[256];
	char texts[468]; /* one behind the other */
};

enum {
	SL_EVENT_WORDS = sizeof(struct sl_event) / sizeof(uint64_t),
	SL_EVENT_RING =
		16384, /* records: 16 MiB for each worker, and a burst of 100 ms at 160,000/s */
};
/* In the ring of words a record is put whole or not at all, as its size divides the ring's. */
_Static_assert(sizeof(struct sl_event) == 1024, "a record is a power of two");

/* One of the texts; empty: the client did not say it, or nobody asked. */
struct sl_span sl_event_text(const struct sl_event *e, enum sl_event_text which);

/* 0 or -ENOMEM. */
int sl_events_init(struct sl_core *c);
void sl_events_fini(struct sl_core *c);

void sl_event_begin(struct sl_exchange *x, const struct sl_request *rq);
/* There was no exchange for this request: it has no more than a beginning. */
void sl_event_refused(struct sl_core *c, const struct sl_client *cl, const struct sl_request *rq,
		      const struct sl_cfg_route *route, enum sl_outcome why);
/* With x->note only: */
void sl_event_sent(struct sl_exchange *x, unsigned together);
void sl_event_end(struct sl_exchange *x, enum sl_outcome outcome);

/* The control thread: takes up to max records, returns how many. */
unsigned sl_events_take(struct sl_ring *ring, struct sl_event *out, unsigned max);

#endif
