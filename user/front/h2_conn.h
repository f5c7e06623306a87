/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State of one HTTP/2 connection, shared by the h2*.c files.
 *
 *   bytes in  -> nghttp2 -> h2_recv.c (frames, bodies) -> h2_head.c (request heads) -> host
 *   bytes out <- nghttp2 <- h2_reply.c (replies; nghttp2 asks it for body bytes)    <- host
 *
 * nghttp2 is entered from sl_h2_flush() and input() only. While it is on the stack, streams that
 * end or want more of their reply are put on lists; sl_h2_settle() tells the host afterwards, so
 * that no stream vanishes under nghttp2, and begin, body and end never meet done, cancel or resume.
 */
#ifndef SL_FRONT_H2_CONN_H
#define SL_FRONT_H2_CONN_H

#include "base/list.h"
#include "base/pool.h"
#include "front/grpc.h"
#include "front/h2.h"
#include "front/h2_mem.h"

struct sl_h2_env {
	struct sl_h2_config cfg;
	const struct sl_front_limits *limits;
	struct sl_pool conns, streams;
	struct sl_pool calls; /* struct h2_call: of the services that the gateway answers itself */
	struct sl_list watches; /* of them, those who want to hear about a change */
	struct sl_h2_mem mem;
	nghttp2_session_callbacks *callbacks;
	nghttp2_option *option;
	uint8_t *head;   /* [limits->max_head]: a request head, while a burst of input is read */
	uint8_t *cookie; /* the same size: its cookie, joined */
};

/* Fields of a request as they come: {u16 name length, u16 value length, name, value}... */
struct h2_head {
	uint8_t *buf; /* env->head, or one of sl_front_env.heads between bursts; NULL: none begun */
	uint32_t len;
	uint16_t fields;
	uint16_t cookies;
	bool pooled;
	bool too_large;
	int32_t id;
	uint64_t rx_ns, take_ns;
};

/* What a peer may do so often: refilled by time. */
struct h2_bucket {
	uint64_t full_ns; /* when it will be full again */
};

enum h2_conn_flag {
	H2_BUSY = 1 << 0,     /* nghttp2 is on the stack */
	H2_SETTLING = 1 << 1, /* sl_h2_settle is */
	H2_CLOSED = 1 << 2,   /* host->close was called, or the connection is gone */
	H2_EOF = 1 << 3,      /* the client closed its half */
	H2_DRAIN = 1 << 4,    /* the first GOAWAY was sent */
	H2_LAST = 1 << 5,     /* the second one */
	H2_READY = 1 << 6,    /* the client's SETTINGS have come */
	H2_FAILED = 1 << 7,   /* no further input is understood */
	H2_BROKEN = 1 << 8,   /* nghttp2 cannot go on: nothing more is written either */
};

struct h2_conn {
	nghttp2_session *session;
	struct sl_h2_env *env;
	const struct sl_front_env *front;
	void *host;
	struct sl_list streams; /* all, by h2_stream.link */
	struct sl_list ended;   /* closed by nghttp2: to be given back */
	struct sl_list wanting; /* could send more, by h2_stream.turn */
	const uint8_t *out;     /* of nghttp2's, until written */
	size_t out_len;
	struct sl_chunk *chunk;      /* the input that is being read */
	struct h2_stream *beginning; /* inside the host's begin */
	struct h2_stream *stuck; /* its body bytes were not taken: the next ones to come are its */
	size_t stuck_len;
	struct h2_head head;
	struct h2_bucket resets, controls;
	struct sl_h2_budget budget;
	uint16_t flags;
	uint8_t continuations;
	uint16_t watches; /* health watches that are open */
};

enum h2_stream_flag {
	ST_GRPC = 1 << 0,
	ST_HEAD_SENT = 1 << 1, /* a response is with nghttp2 */
	ST_RX_OVER = 1 << 2,   /* the request is whole */
	ST_END = 1 << 3,       /* the host gave the last byte */
	ST_END_SENT = 1 << 4,  /* END_STREAM left */
	ST_NO_BODY = 1 << 5,   /* reply bytes go nowhere */
	ST_ENDED = 1 << 6,     /* on conn->ended */
	ST_DROP = 1 << 7,      /* request bytes go nowhere */
	ST_FRAME = 1 << 8,     /* gRPC: a reply of known length: the message's prefix is ours */
	ST_LOCAL = 1 << 9,     /* answered here, has no host stream */
	ST_LENGTH = 1 << 10,   /* reply_left counts */
	ST_SHORT = 1 << 11,    /* the host keeps bytes that were not taken */
	ST_CALL = 1 << 12,     /* ST_LOCAL: `call`, see grpc_call.h */
	ST_WHY = 1 << 13,      /* trailers say why the reply is about to break off */
};

/* The trailer section of a reply whose body is not out yet. */
struct h2_trailers {
	size_t cnt;
	nghttp2_nv nv[];
};

struct h2_stream {
	struct sl_list link, turn;
	struct h2_conn *conn;
	struct sl_stream *st; /* NULL: answered here */
	int32_t id;
	uint16_t flags;
	uint8_t method;
	uint8_t prefix_left; /* of the reply's message prefix */
	uint8_t prefix[SL_GRPC_PREFIX];
	struct sl_span cur;  /* reply bytes on offer, during reply and more; ST_LOCAL: until sent */
	uint64_t reply_left; /* ST_LENGTH */
	struct h2_trailers *trailers;
	struct sl_grpc_reader in;
	struct h2_call *call; /* ST_CALL */
	char text[48];        /* body of an answer of ours */
};

/* h2.c */
struct h2_stream *sl_h2_stream_new(struct h2_conn *c, int32_t id);
/* Writes what nghttp2 has, as far as the host takes it. Not while H2_BUSY. */
void sl_h2_flush(struct h2_conn *c);
/* Tells the host about streams that ended or can go on; closes what is over. */
void sl_h2_settle(struct h2_conn *c);
/* The connection ends with this error code; `error` is counted. */
void sl_h2_fail(struct h2_conn *c, uint32_t code, enum sl_front_error error);
void sl_h2_count(const struct h2_conn *c, enum sl_front_error error);

/* h2_recv.c */
int sl_h2_callbacks(nghttp2_session_callbacks **out);
/* Body bytes to the host (gRPC: out of their messages). Returns how many were used. */
size_t sl_h2_deliver(struct h2_stream *s, const uint8_t *ptr, size_t len);
void sl_h2_request_over(struct h2_stream *s);

/* h2_head.c */
/* Inside begin: the stream becomes the host's, by its first reply or by being returned. */
void sl_h2_adopt(struct h2_conn *c, struct sl_stream *st);
void sl_h2_head_begin(struct h2_conn *c, int32_t id);
void sl_h2_head_field(struct h2_conn *c, struct sl_span name, struct sl_span value);
/* The head is whole: a request begins, or is refused. */
void sl_h2_head_end(struct h2_conn *c, struct h2_stream *s, bool end);
/* Between bursts of input it moves out of the shared buffer. */
void sl_h2_head_keep(struct h2_conn *c);
void sl_h2_head_drop(struct h2_conn *c);

/* h2_reply.c */
/* ST_CALL: response headers, with bytes from `read`; the trailers, when these are over. */
void sl_h2_call_head(struct h2_stream *s, nghttp2_data_source_read_callback read);
bool sl_h2_call_trailers(struct h2_stream *s, enum sl_grpc_status status, const char *text);
/* An answer of the gateway to what has no host stream (any more). */
void sl_h2_answer(struct h2_stream *s, unsigned http, enum sl_grpc_status grpc, const char *text);
int64_t sl_h2_reply(void *state, const struct sl_front_env *env, struct sl_stream *st,
		    const struct sl_reply *r);
size_t sl_h2_more(void *state, const struct sl_front_env *env, struct sl_stream *st,
		  struct sl_span body, bool end);
void sl_h2_trailers(void *state, const struct sl_front_env *env, struct sl_stream *st,
		    const struct sl_reply *r);
void sl_h2_abort(void *state, const struct sl_front_env *env, struct sl_stream *st);

/* The host's stream carries the way to ours in the link that http1 chains its own with. */
static inline struct h2_stream *sl_h2_of(const struct sl_stream *st)
{
	return (struct h2_stream *)(void *)st->next;
}

static inline struct h2_conn *sl_h2_conn(void *state)
{
	return *(struct h2_conn **)state;
}

#endif
