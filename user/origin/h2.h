/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2 connection to a server. */
#ifndef SL_ORIGIN_H2_H
#define SL_ORIGIN_H2_H

#include <nghttp2/nghttp2.h>

#include "origin/origin.h"
#include "origin/reply.h"
#include "base/num.h"
#include "front/grpc/grpc.h"
#include "sluice/types.h"

enum {
	ORIGIN_RX_LEN = 24 << 10, /* window */
	ORIGIN_OUT_LEN = 64 << 10,
	ORIGIN_TYPE_MAX = 128,
};

struct origin_h2_conn {
	struct origin_conn c;
	nghttp2_session *session;
	struct sl_list streams, touched;
	unsigned stream_cnt, freed;
	bool going; /* takes no more calls */
	bool mute;  /* the output failed; replies may still be readable */
	bool over;  /* has ended; complete replies wait for their clients */
	size_t out_len, out_sent;
	uint8_t out[ORIGIN_OUT_LEN];
};

struct origin_h2_stream {
	struct sl_list link, touched;
	struct sl_list unread; /* in the origin's list, while `blocked` */
	struct origin_h2_conn *h;
	struct origin_call *call;
	int32_t id;
	uint32_t error;
	uint16_t status; /* below 200: no final head */
	int grpc_status; /* -1: none */
	int foreign;     /* gRPC status of a reply that is not gRPC, or -1 */
	bool ended;
	bool whole;
	bool blocked;
	bool bad_head, bad_trailers; /* too many or malformed */
	bool over;                   /* beyond any limit */
	bool starved;
	bool to_head;
	uint8_t interim;
	bool reset;
	bool in_frame;
	bool trailers_only; /* gRPC: the head ends the stream */
	bool foreign_type;
	bool send_continue;
	const char *wrong;
	/* Request */
	uint8_t prefix[SL_GRPC_PREFIX];
	size_t sent; /* of prefix and body */
	/* Reply */
	uint64_t length;        /* or SL_LEN_UNKNOWN */
	uint32_t message_left;  /* rest of a gRPC message in pieces */
	uint8_t *rx;            /* from origin.bodies */
	uint32_t rx_at, rx_len; /* unread: [rx_at, rx_len) */
	uint32_t rx_cap;
	struct origin_h2_text *text; /* of fields; from origin.bodies */
	uint32_t text_len;
	char type[ORIGIN_TYPE_MAX]; /* gRPC content-type */
	char why[1024];             /* grpc-message */
	/* Only the counts are initialized. */
	struct origin_fields headers, trailers;
};

struct origin_h2_head {
	nghttp2_nv nv[ORIGIN_REQUEST_FIELDS + 8];
	size_t cnt;
	char timeout[16], length[SL_U64_DIGITS];
	uint8_t target[SL_RPC_MAX_ASKED];
};

/* Frees the stream; the caller keeps the call. */
void origin_h2_stream_free(struct origin_h2_stream *s);

/* Sets nghttp2's callbacks for replies. */
void origin_h2_callbacks(nghttp2_session_callbacks *cb);
/* Passes on what was received. May free the stream. */
void origin_h2_settle(struct origin_h2_stream *s);
/* While memory is short, ends the longest stalled streams. */
void origin_h2_relieve(struct origin *o);
/* Frees received bytes. */
void origin_h2_rx_free(struct origin_h2_stream *s);
/* Frees the text. No field may point into it. */
void origin_h2_text_free(struct origin_h2_stream *s);
/* Returns the unread bytes, valid until they are consumed or more are received. */
struct sl_span origin_h2_rx(const struct origin_h2_stream *s);
/* Drops n of them, and opens the window. */
void origin_h2_consume(struct origin_h2_stream *s, size_t n);
/* Sets fields and status of *a, and passes on the part. False: it is kept, or the stream freed. */
bool origin_h2_reply(struct origin_h2_stream *s, struct sl_reply_args *a);
/* Fails the call, resets and frees the stream. why: for the log. */
void origin_h2_end_with(struct origin_h2_stream *s, enum sl_rpc_status status, const char *why);
/* Returns the call with lost(), and frees the stream. */
void origin_h2_lost(struct origin_h2_stream *s);

/* Sets `foreign` unless the reply is gRPC. ends: the head ends the stream. */
void origin_h2_judge_head(struct origin_h2_stream *s, bool ends);
/* Does as origin_h2_settle(), for a gRPC call. */
void origin_h2_settle_grpc(struct origin_h2_stream *s);

/* Shorthands for members of the origin. */
static inline const struct origin_ops *origin_h2_ops(const struct origin_h2_stream *s)
{
	return origin_ops_of(s->call);
}
static inline void origin_h2_write_soon(struct origin_h2_conn *h)
{
	origin_io_of(&h->c)->write_soon(&h->c);
}
static inline struct origin *origin_h2_origin(const struct origin_h2_stream *s)
{
	return s->h->c.server->origin;
}

#endif
