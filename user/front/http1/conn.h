/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State of one HTTP/1 connection.
 *
 *   head -> stream -> stream -> tail      requests without a complete reply, oldest first;
 *    |                           |        only the head may write, only the tail may be receiving
 *    +-- its reply is next       +-- CONN_RX: its body is being received
 *
 * Only sl_http1_advance() pulls replies and ends streams.
 */
#ifndef SL_FRONT_HTTP1_CONN_H
#define SL_FRONT_HTTP1_CONN_H

#include "base/check.h"
#include "front/http1/http1.h"

enum http1_phase {
	PHASE_HEAD,
	PHASE_BODY, /* Content-Length */
	PHASE_CHUNKED,
	PHASE_TRAILERS, /* open_ended: after the last chunk */
	PHASE_DEAD,     /* drop input */
};

enum http1_flag {
	CONN_DRAIN = 1 << 0,
	CONN_CLOSED = 1 << 1, /* cb->close was called, or connection gone */
	CONN_CLOSE = 1 << 2,
	CONN_POOLED = 1 << 3,
	CONN_NO_BODY = 1 << 4,
	CONN_RX = 1 << 5, /* the tail's body is being received */
};

/* A partial head or trailers and a body exclude each other. */
struct http1 {
	void *conn;
	struct sl_stream *head, *tail;
	union {
		struct sl_http1_chunked chunked;
		struct {
			union {
				struct sl_frame *frame;
				uint8_t *buf;
			} part; /* while part_len > 0; with `error`: the id of the request */
			uint64_t rx_ns, take_ns;
		};
	};
	uint32_t part_len;
	uint16_t count;
	uint16_t error; /* sent when the list is empty, then close */
	uint8_t flags;
	uint8_t phase;
	uint32_t discarded; /* dropped while the oldest reply is written */
};
_Static_assert(sizeof(struct http1) <= SL_FRONT_STATE_SIZE, "fits into the client connection");

/* sl_stream.flags */
enum {
	ST_CLOSE = 1 << 0,
	ST_EXPECT = 1 << 1,  /* 100 (Continue) is due */
	ST_RX_OVER = 1 << 2, /* complete, or the rest is dropped */
	/* a FIN would look like the reply's end */
	ST_RESET = 1 << 3,
};

/* sl_stream.state */
enum {
	REPLY_NONE,
	REPLY_SWALLOW, /* HEAD, 204, 304, or replaced: drop the body */
	REPLY_LENGTH,
	REPLY_CHUNKS,
	REPLY_UNTIL_CLOSE,
	REPLY_DONE,
};

/* Returns the stream that receives its body, or NULL. */
static inline struct sl_stream *sl_http1_rx(const struct http1 *h)
{
	return h->flags & CONN_RX ? h->tail : NULL;
}

/* Marks that body as complete. */
static inline void sl_http1_rx_over(struct http1 *h)
{
	h->flags &= (uint8_t)~CONN_RX;
}

/* Stops input if only an unneeded body can follow. */
static inline void sl_http1_stop_input(struct http1 *h, struct sl_stream *st)
{
	if (!(st->flags & ST_CLOSE) || st->state == REPLY_NONE || st != h->tail)
		return;
	if (!(st->flags & ST_RX_OVER) && !st->refused)
		return;
	st->flags |= ST_RX_OVER;
	h->phase = PHASE_DEAD;
	if (sl_http1_rx(h) == st)
		sl_http1_rx_over(h);
}

/* Pulls replies in order, ends finished streams, and closes if none is left. */
void sl_http1_advance(struct http1 *h, const struct sl_front_env *env);
/* Answers earlier requests, then the error, then closes. */
void sl_http1_fail(struct http1 *h, const struct sl_front_env *env, unsigned status,
		   enum sl_front_error error);

/* The same for a head; reports it, with what is known of it. NULL: nothing. */
void sl_http1_refuse_request(struct http1 *h, const struct sl_front_env *env,
			     const struct sl_request *rq, unsigned status,
			     enum sl_front_error error);

/* Frees the buffer of an incomplete head. */
void sl_http1_drop_part(struct http1 *h, const struct sl_front_env *env);
/* Keeps the id of a refused request as the part, unless frames are short. */
void sl_http1_keep_id(struct http1 *h, const struct sl_front_env *env, struct sl_span id);
/*
 * Appends input to the partial head or trailers; *len is reduced to what fits. Returns the gathered
 * bytes if a line is complete, or an empty span if more are needed or the request was refused.
 */
struct sl_span sl_http1_keep_part(struct http1 *h, const struct sl_front_env *env,
				  const uint8_t *ptr, size_t *len);

/* Writes what fits; sets REPLY_DONE at the end. */
void sl_http1_pull(struct http1 *h, const struct sl_front_env *env, struct sl_stream *st);
/* Writes the reply for h->error; the caller closes. */
void sl_http1_write_error(struct http1 *h, const struct sl_front_env *env);

#endif
