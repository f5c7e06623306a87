/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State of one HTTP/1 connection, shared by http1.c (input, events) and http1_reply.c (replies).
 *
 *   head -> stream -> stream -> tail      requests without a whole answer, oldest first;
 *    |                           |        only the head may write, only the tail may be receiving
 *    +-- its turn to reply       +-- CONN_RX: its body is arriving
 *
 * Upcalls may call back into the front. done and resume come from sl_http1_advance() only, which
 * never runs inside begin, body or end, so a stream cannot vanish under the code that handles it.
 */
#ifndef SL_FRONT_HTTP1_CONN_H
#define SL_FRONT_HTTP1_CONN_H

#include "base/check.h"
#include "front/http1.h"

enum http1_phase {
	PHASE_HEAD,
	PHASE_BODY,    /* Content-Length: rx->body_left */
	PHASE_CHUNKED, /* http1.chunked */
	PHASE_DEAD,    /* no further request: what arrives is thrown away */
};

enum http1_flag {
	CONN_BUSY = 1 << 0,      /* inside input: its upcalls are on the stack */
	CONN_ADVANCING = 1 << 1, /* inside sl_http1_advance */
	CONN_DRAIN = 1 << 2,
	CONN_CLOSED = 1 << 3,  /* host->close has been called, or the connection is gone */
	CONN_CLOSE = 1 << 4,   /* close when the last stream is done */
	CONN_POOLED = 1 << 5,  /* part is of env->heads, not a frame */
	CONN_BEGIN = 1 << 6,   /* inside begin, and its stream is not yet on the list */
	CONN_NO_BODY = 1 << 7, /* the error answers a HEAD */
	CONN_RX = 1 << 8,      /* the tail's body is arriving */
};

/* A partial head and a body do not meet, so their state shares its place: idle ones are many. */
struct http1 {
	void *host;
	struct sl_stream *head, *tail;
	union {
		struct sl_http1_chunked chunked; /* PHASE_CHUNKED */
		struct {
			union {
				struct sl_frame *frame;
				uint8_t *buf;
			} part; /* partial head, while part_len > 0 */
			union {
				uint64_t rx_ns;                    /* of its first byte */
				const struct sl_http1_head *begin; /* CONN_BEGIN: a whole one */
			};
			uint64_t take_ns;
		};
	};
	uint32_t part_len;
	uint16_t count; /* streams on the list */
	uint16_t error; /* status to answer when the list is empty, then close */
	uint16_t flags;
	uint8_t phase;
};
_Static_assert(sizeof(struct http1) <= SL_FRONT_STATE_SIZE, "fits into the client connection");

/* sl_stream.flags */
enum {
	ST_CLOSE = 1 << 0,   /* the connection ends with this reply */
	ST_EXPECT = 1 << 1,  /* 100 (Continue) is due before its body */
	ST_WAITING = 1 << 2, /* the host wants `resume` */
	ST_RX_OVER = 1 << 3, /* the request is whole, or the rest of it is thrown away */
	ST_ABORTED = 1 << 4, /* the host gave up before its turn: 502 */
};

/* sl_stream.state */
enum {
	REPLY_NONE,
	REPLY_SWALLOW, /* HEAD, 204, 304, or answered otherwise: body bytes go nowhere */
	REPLY_LENGTH,
	REPLY_CHUNKS,
	REPLY_UNTIL_CLOSE,
	REPLY_LAST_CHUNK, /* all but the last chunk is written */
	REPLY_DONE,
};

/* The stream whose body is arriving, or NULL. */
static inline struct sl_stream *sl_http1_rx(const struct http1 *h)
{
	return h->flags & CONN_RX ? h->tail : NULL;
}

static inline void sl_http1_rx_over(struct http1 *h)
{
	h->flags &= (uint16_t)~CONN_RX;
}

/* http1.c */
void sl_http1_adopt(struct http1 *h, const struct sl_front_env *env, struct sl_stream *st);
/* Ends the connection in order (or by reset), cancelling what is left. */
void sl_http1_shutdown(struct http1 *h, const struct sl_front_env *env, bool reset);
/* Gives back finished streams, wakes the next one, sends a pending error; not inside upcalls. */
void sl_http1_advance(struct http1 *h, const struct sl_front_env *env);
void sl_http1_unlink(struct http1 *h, struct sl_stream *st);
/* A request body that nobody wants, and that no request follows, need not be understood. */
void sl_http1_stop_input(struct http1 *h, struct sl_stream *st);

/* The host takes no body any more. */
static inline bool sl_http1_unwanted(const struct sl_stream *st)
{
	return st->refused || (st->flags & ST_ABORTED);
}

/* http1_reply.c */
int64_t sl_http1_reply(void *state, const struct sl_front_env *env, struct sl_stream *st,
		       const struct sl_reply *r);
size_t sl_http1_more(void *state, const struct sl_front_env *env, struct sl_stream *st,
		     struct sl_span body, bool end);
void sl_http1_abort(void *state, const struct sl_front_env *env, struct sl_stream *st);
/* The answer to what could not become a stream; the connection closes behind it. */
void sl_http1_write_error(struct http1 *h, const struct sl_front_env *env);
/* 502 for a stream that its host has given up. False: no room now. */
bool sl_http1_bad_gateway(struct http1 *h, const struct sl_front_env *env, struct sl_stream *st);
bool sl_http1_last_chunk(struct http1 *h, const struct sl_front_env *env, struct sl_stream *st);

#endif
