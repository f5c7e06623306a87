/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State of one HTTP/1 connection, shared by http1.c (input, events), part.c (partial heads)
 * and reply.c (replies).
 *
 *   head -> stream -> stream -> tail      requests without a whole answer, oldest first;
 *    |                           |        only the head may write, only the tail may be receiving
 *    +-- its turn to reply       +-- CONN_RX: its body is arriving
 *
 * Replies are pulled, and streams given back, in sl_http1_advance() only: behind each input, and when
 * a reply or room for one has come.
 */
#ifndef SL_FRONT_HTTP1_CONN_H
#define SL_FRONT_HTTP1_CONN_H

#include "base/check.h"
#include "front/http1/http1.h"

enum http1_phase {
	PHASE_HEAD,
	PHASE_BODY,     /* Content-Length: rx->body_left */
	PHASE_CHUNKED,  /* http1.chunked */
	PHASE_TRAILERS, /* of a stream: behind its last chunk */
	PHASE_DEAD,     /* no further request: what arrives is thrown away */
};

enum http1_flag {
	CONN_DRAIN = 1 << 0,
	CONN_CLOSED = 1 << 1,  /* host->close has been called, or the connection is gone */
	CONN_CLOSE = 1 << 2,   /* close when the last stream is done */
	CONN_POOLED = 1 << 3,  /* part is of env->heads, not a frame */
	CONN_NO_BODY = 1 << 4, /* the error answers a HEAD */
	CONN_RX = 1 << 5,      /* the tail's body is arriving */
};

/* A partial head, or trailers, and a body do not meet, so their state shares its place: idle ones are many. */
struct http1 {
	void *host;
	struct sl_stream *head, *tail;
	union {
		struct sl_http1_chunked chunked; /* PHASE_CHUNKED */
		struct {
			union {
				struct sl_frame *frame;
				uint8_t *buf;
			} part;                  /* of them, while part_len > 0 */
			uint64_t rx_ns, take_ns; /* of its first byte */
		};
	};
	uint32_t part_len;
	uint16_t count; /* streams on the list */
	uint16_t error; /* status to answer when the list is empty, then close */
	uint8_t flags;
	uint8_t phase;
	uint32_t
		discarded; /* bytes that came while the oldest reply was on its way, and went nowhere */
};
_Static_assert(sizeof(struct http1) <= SL_FRONT_STATE_SIZE, "fits into the client connection");

/* sl_stream.flags */
enum {
	ST_CLOSE = 1 << 0,   /* the connection ends with this reply */
	ST_EXPECT = 1 << 1,  /* 100 (Continue) is due before its body */
	ST_RX_OVER = 1 << 2, /* the request is whole, or the rest of it is thrown away */
	ST_RESET = 1 << 3,   /* the connection must not end in order: the client would believe it */
};

/* sl_stream.state */
enum {
	REPLY_NONE,
	REPLY_SWALLOW, /* HEAD, 204, 304, or answered otherwise: body bytes go nowhere */
	REPLY_LENGTH,
	REPLY_CHUNKS,
	REPLY_UNTIL_CLOSE,
	REPLY_DONE,
};

/* The stream whose body is arriving, or NULL. */
static inline struct sl_stream *sl_http1_rx(const struct http1 *h)
{
	return h->flags & CONN_RX ? h->tail : NULL;
}

static inline void sl_http1_rx_over(struct http1 *h)
{
	h->flags &= (uint8_t)~CONN_RX;
}

/* A request body that nobody wants, and that no request follows, need not be understood. */
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

/* http1.c */
/* Pulls the replies whose turn it is, gives back finished streams, closes what is over. */
void sl_http1_advance(struct http1 *h, const struct sl_front_env *env);
/* The client broke the protocol: what came before is answered, then the error, then the end. */
void sl_http1_fail(struct http1 *h, const struct sl_front_env *env, unsigned status,
		   enum sl_front_error error);

/* part.c */
void sl_http1_drop_part(struct http1 *h, const struct sl_front_env *env);
/*
 * Appends to what is partial, as far as there is room: *len. It is parsed again only when a line of it
 * has become complete, so a client that sends byte by byte costs at most one parse per field. Empty:
 * no parse could say more now, or it was refused.
 */
struct sl_span sl_http1_keep_part(struct http1 *h, const struct sl_front_env *env,
				  const uint8_t *ptr, size_t *len);

/* reply.c */
/* As much of a reply as there is and fits. It is over when the state is DONE. */
void sl_http1_pull(struct http1 *h, const struct sl_front_env *env, struct sl_stream *st);
/* The answer to what could not become a stream; the connection closes behind it. */
void sl_http1_write_error(struct http1 *h, const struct sl_front_env *env);

#endif
