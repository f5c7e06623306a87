/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State of one HTTP/2 connection, shared by the files of this room.
 *
 *   bytes in  -> nghttp2 -> recv.c (frames, bodies) -> head.c (request heads) -> host
 *                        guard.c (what may come now, how often)
 *   bytes out <- nghttp2 <- reply.c, which nghttp2 asks for body bytes           <- host
 *
 * nghttp2 pulls by itself: it asks a reply for bytes when priorities and windows allow, reply.c
 * asks the host. A stream that has none is deferred until `ready`. Streams that end while nghttp2 is
 * on the stack are put on a list; sl_h2_settle() gives them back afterwards, so that none vanishes
 * under nghttp2, and begin, body and end never meet done or cancel.
 */
#ifndef SL_FRONT_H2_CONN_H
#define SL_FRONT_H2_CONN_H

#include "base/list.h"
#include "base/mempool.h"
#include "front/grpc/grpc.h"
#include "front/h2/h2.h"
#include "front/h2/mem.h"

enum {
	/*
	 * Of a stream: about what a client takes it for before our SETTINGS, and whole frames, since of
	 * half a window that lacks a byte nothing is given back.
	 */
	H2_FIRST_WINDOW = 48 << 10,
	H2_HELD = 13, /* bytes of an RST_STREAM frame */
};

/* What all connections of one client address have. */
struct h2_source {
	uint64_t memory; /* bytes of sl_h2_env.mem */
	uint32_t conns, streams;
	uint32_t calls;    /* of sl_h2_env.calls */
	uint32_t beyond;   /* bytes of fields in this burst that no head may have */
	uint64_t burst_ns; /* the burst */
};

struct sl_h2_env {
	struct sl_h2_config cfg;
	const struct sl_front_limits *limits;
	struct sl_mempool conns, streams;
	struct sl_mempool calls;   /* struct h2_call, of those that may last for ever */
	struct h2_source *sources; /* [cfg.sources] */
	struct sl_list watches;    /* of `calls`, those who want to hear about a change */
	struct sl_h2_mem mem;
	nghttp2_session_callbacks *callbacks;
	nghttp2_option *option;
	uint8_t *head;   /* [limits->max_head]: a request head, while a burst of input is read */
	uint8_t *cookie; /* the same size: its cookie, joined */
	void *fields;    /* reply.c: of the reply that goes to nghttp2, which copies them */
};

/* Fields of a request as they come: {u16 name length, u16 value length, name, value}... */
struct h2_head {
	uint8_t *buf; /* env->head, or one of sl_front_env.heads between bursts; NULL: none begun */
	uint32_t len;
	uint16_t fields; /* RFC 9113 8.2.3: all crumbs of a cookie are one */
	bool pooled;
	bool too_large;
	bool cookie; /* a crumb has come */
	bool blanks; /* around a value: dropped, allowed in gRPC only */
	int32_t id;
	uint64_t rx_ns, take_ns;
	uint64_t since_ns; /* 0: none is being read; also of one that found no `buf` */
};

/* What a peer may do so often: refilled by time. */
struct h2_bucket {
	uint64_t full_ns; /* when it will be full again */
};

/*
 * The streams that the client opened last. nghttp2 forgets a stream once it is closed and ignores
 * what still comes for it, but not all of that is a race: who has ended his side, or has jumped
 * over a stream, has no excuse. Of a stream whose bit is neither, or long gone, he may not know yet
 * that we have reset it.
 */
struct h2_recent {
	int32_t top;     /* the highest identifier of all */
	uint64_t opened; /* bit i: the stream top - 2 * i was opened */
	uint64_t over;   /* ... and the client has ended or reset it */
};

/* Where the input stands between frames. */
struct h2_walk {
	uint32_t left; /* bytes to skip */
	uint8_t have;  /* bytes in `head` */
	uint8_t head
		[9 +
		 4]; /* of a frame; of a PRIORITY also the stream it depends on, of padded DATA the
				length of the padding */
};

enum h2_conn_flag {
	H2_CLOSED = 1 << 0,    /* host->close was called, or the connection is gone */
	H2_EOF = 1 << 1,       /* the client closed its half */
	H2_DRAIN = 1 << 2,     /* the first GOAWAY was sent */
	H2_LAST = 1 << 3,      /* the second one */
	H2_READY = 1 << 4,     /* the client's SETTINGS have come */
	H2_FAILED = 1 << 5,    /* no further input is understood */
	H2_BROKEN = 1 << 6,    /* nghttp2 cannot go on: nothing more is written either */
	H2_ASKED = 1 << 7,     /* whether early replies were seen */
	H2_WAITS = 1 << 9,     /* heads of replies, until the client reads */
	H2_GRPC_CORE = 1 << 8, /* idle.c: it resets streams that have not begun */
};

struct h2_conn {
	nghttp2_session *session;
	struct sl_h2_env *env;
	struct h2_source *source;
	const struct sl_front_env *front;
	void *host;
	struct sl_list streams; /* all, by h2_stream.link */
	struct sl_list ended;   /* closed by nghttp2: to be given back */
	const uint8_t *out;     /* of nghttp2's, until written */
	size_t out_len;
	struct sl_chunk *chunk;  /* the input that is being read */
	const uint8_t *walked;   /* its bytes up to here have passed the guard */
	struct h2_stream *stuck; /* its body bytes were not taken: the next ones to come are its */
	size_t stuck_len;
	struct h2_head head;
	uint64_t drain_ns;       /* when the first GOAWAY was sent */
	struct h2_bucket resets; /* streams that broke off: by the client, or by us for his fault */
	struct h2_bucket controls;
	uint32_t updates; /* WINDOW_UPDATEs that may still come and count as nothing */
	uint32_t told;    /* bytes of the fields of the head that comes, as HPACK unpacks them */
	uint32_t beyond;  /* of those of all heads, more than one may have, not paid for yet */
	struct h2_recent recent;
	struct h2_walk walk;
	struct sl_h2_budget budget;
	uint16_t flags;
	uint8_t continuations;
	uint8_t held_len;
	uint8_t held[H2_HELD]; /* idle.c: the beginning of a frame that nghttp2 has not read yet */
	uint16_t watches;      /* health watches that are open, and their request is whole */
	uint16_t watching;     /* all of them */
	uint32_t taken;        /* bytes of replies, of all streams, by windows that let them */
};

enum h2_stream_flag {
	ST_GRPC = 1 << 0,
	ST_HEAD_SENT = 1 << 1, /* a response is with nghttp2 */
	ST_RX_OVER = 1 << 2,   /* the request is whole */
	ST_END_SENT = 1 << 3,  /* END_STREAM left */
	ST_DROP = 1 << 4,      /* request bytes go nowhere */
	ST_LOCAL = 1 << 5,     /* answered here, has no host stream */
	ST_CALL = 1 << 6,      /* ST_LOCAL: `call`, see grpc/call.h */
	ST_LENGTH = 1 << 7,    /* the host's reply_left counts */
	ST_ASKED = 1 << 8,     /* early, and behind its end there is a PING */
	ST_WAITS = 1 << 9,     /* its head, until the client reads */
	ST_EXPECT = 1 << 11,   /* 100 (Continue) is due before its body */
	ST_CONNECT = 1 << 10,  /* RFC 8441: success is to go on in another protocol */
};

struct h2_stream {
	struct sl_list link;
	struct h2_conn *conn;
	struct sl_stream *st; /* NULL: answered here */
	int32_t id;
	uint16_t flags;
	uint8_t method;
	uint8_t cut_off;          /* enum sl_grpc_status: its reply ends with that */
	uint64_t deadline_ns;     /* that its client has set; 0: none */
	uint32_t given;           /* bytes of its body for which the host has not made room yet */
	uint32_t came;            /* of its body, while they count for its window */
	uint32_t window;          /* how much the client may send ahead */
	struct sl_span text_left; /* ST_LOCAL: of `text`; of a call that was cut off, why */
	struct sl_grpc_reader in;
	struct h2_call *call; /* ST_CALL */
	char text[48];        /* body of an answer of ours */
};

/* h2.c */
struct h2_stream *sl_h2_stream_new(struct h2_conn *c, int32_t id);
/* Writes what nghttp2 has, as far as the host takes it. */
void sl_h2_flush(struct h2_conn *c);
/* Gives back the streams that ended; closes what is over. */
void sl_h2_settle(struct h2_conn *c);
/* The connection ends with this error code; `error` is counted. */
SL_COLD void sl_h2_fail(struct h2_conn *c, uint32_t code, enum sl_front_error error);
void sl_h2_count(const struct h2_conn *c, enum sl_front_error error);

/* guard.c: whatever is too much ends the connection. */
void sl_h2_guard_open(struct h2_conn *c);
/* The client has reset this stream; NULL: it knows of none. */
void sl_h2_guard_abandoned(struct h2_conn *c, const struct h2_stream *s);
/* A reply has gone out whole: a client that lets requests end may also give some up. */
void sl_h2_guard_served(struct h2_conn *c);
/* A stream, or bytes of a reply, for which WINDOW_UPDATEs are expected. */
void sl_h2_guard_credit(struct h2_conn *c);
/* A stream of the client's was reset by us. */
void sl_h2_guard_reset(struct h2_conn *c, uint32_t code);
/* One more field of the head that comes. */
enum h2_verdict { H2_GO_ON, H2_PAUSE, H2_END };
enum h2_verdict sl_h2_guard_field(struct h2_conn *c, size_t len);
/* nghttp2 has read its bytes up to here. False: the connection fails. */
bool sl_h2_guard_until(struct h2_conn *c, const uint8_t *end);

/* idle.c */
/* The client's SETTINGS may say what it is. */
void sl_h2_idle_settings(struct h2_conn *c, const nghttp2_settings *s);
/* As nghttp2_session_mem_recv(), without frames that nghttp2 need not see. c->walked is p. */
ssize_t sl_h2_idle_read(struct h2_conn *c, const uint8_t *p, size_t len);

/* recv.c */
int sl_h2_callbacks(nghttp2_session_callbacks **out);
/* Body bytes to the host (gRPC: out of their messages). Returns how many were used. */
size_t sl_h2_deliver(struct h2_stream *s, const uint8_t *ptr, size_t len);
void sl_h2_request_over(struct h2_stream *s);
/* Of another protocol: no more of the client's comes to its backend, which ends its own side then. */
void sl_h2_upgrade_drain(struct h2_stream *s);
/* What the host has passed on makes room in the stream's window. */
void sl_h2_passed(struct h2_stream *s);

/* early.c */
/* The reply has left, the request is not whole. */
bool sl_h2_early(const struct h2_stream *s);
/* One more such: a PING goes behind it. */
void sl_h2_early_ask(struct h2_conn *c);
/* Whether it is that PING, and it has come back. */
bool sl_h2_early_is(const uint8_t mark[8]);
void sl_h2_early_seen(struct h2_conn *c);
/* Outside of nghttp2: what the host has of them is given back. */
void sl_h2_early_settle(struct h2_conn *c);

/* head.c */
void sl_h2_head_begin(struct h2_conn *c, int32_t id);
void sl_h2_head_field(struct h2_conn *c, struct sl_span name, struct sl_span value);
/* RFC 9113 8.1.1: the stream is reset, its request goes nowhere. */
void sl_h2_malformed(struct h2_stream *s);
/* What was read as a head stands behind the body of a stream: to the host, or the stream is reset. */
void sl_h2_trailers(struct h2_conn *c, struct h2_stream *s);
/* The value without blanks around it: RFC 9110 5.6.3. */
struct sl_span sl_h2_trim(struct sl_span value);
/* The head is whole: a request begins, or is refused. */
void sl_h2_head_end(struct h2_conn *c, struct h2_stream *s, bool end);
/* Between bursts of input it moves out of the shared buffer. */
void sl_h2_head_keep(struct h2_conn *c);
void sl_h2_head_drop(struct h2_conn *c);

/* reply.c */
/* Bytes of sl_h2_env.fields. */
size_t sl_h2_reply_scratch(void);
/* ST_CALL: response headers, with bytes from `read`; the trailers, when these are over. */
void sl_h2_call_head(struct h2_stream *s, nghttp2_data_source_read_callback read);
bool sl_h2_call_trailers(struct h2_stream *s, enum sl_grpc_status status, const char *text);
/* An answer of the gateway to what has no host stream (any more). */
void sl_h2_answer(struct h2_stream *s, unsigned http, enum sl_grpc_status grpc, const char *text);
/* The same where the head is out already: the reply ends with that, whatever has come of it. */
void sl_h2_cut_off(struct h2_stream *s, enum sl_grpc_status grpc, const char *text);
/* 100 (Continue), once it is due and the host lets it be said. */
void sl_h2_continue(struct h2_stream *s);
/* An interim reply of the host's. */
void sl_h2_interim(struct h2_stream *s, const struct sl_reply *r);
/* There is something to pull on a stream of the host. */
void sl_h2_pull(struct h2_stream *s);
/* Pulls one of the heads that waited for the client to read. False: there is none, or it has not. */
bool sl_h2_pull_waiting(struct h2_conn *c);

static inline struct h2_conn *sl_h2_conn(void *state)
{
	return *(struct h2_conn **)state;
}

#endif
