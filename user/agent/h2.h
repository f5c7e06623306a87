/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2 connection to a server. h2.c has the connection and requests, h2_reply.c the replies. */
#ifndef SL_AGENT_H2_H
#define SL_AGENT_H2_H

#include <nghttp2/nghttp2.h>

#include "agent/internal.h"
#include "agent/reply.h"
#include "front/grpc/grpc.h"

enum {
	AGENT_RX_LEN = 24 << 10, /* window of a stream */
	AGENT_OUT_LEN = 64 << 10,
	AGENT_TYPE_MAX = 128,
};

struct agent_h2_conn {
	struct agent_conn c;
	nghttp2_session *session;
	struct sl_list streams, touched;
	unsigned stream_cnt, freed; /* open streams; streams freed so far */
	bool going;                 /* draining: takes no more calls */
	size_t out_len, out_sent;
	uint8_t out[AGENT_OUT_LEN];
};

struct agent_h2_stream {
	struct sl_list link, touched; /* in lists of the connection */
	struct sl_list unread;        /* in the agent's list, while `blocked` */
	struct agent_h2_conn *h;
	struct agent_call *call;
	int32_t id;
	uint32_t error;  /* HTTP/2 error code at its end */
	uint16_t status; /* HTTP status; below 200: no final head yet */
	int grpc_status; /* -1: none */
	int foreign;     /* mapped gRPC status of a reply that is not gRPC; -1: it is gRPC */
	bool ended;      /* no more data follows */
	bool whole;      /* complete */
	bool blocked;    /* the gateway has no room */
	bool many;       /* fields cannot pass: too many, or malformed */
	bool over;       /* more fields than any limit allows */
	bool starved;    /* out of memory for received data */
	bool to_head;
	uint8_t interim;    /* interim heads so far */
	bool reset;         /* reset by the server */
	bool in_frame;      /* inside a HEADERS or DATA frame */
	bool trailers_only; /* gRPC: the head ends the stream */
	bool foreign_type;  /* gRPC: foreign content-type */
	bool send_continue; /* the server has sent 100 (Continue) */
	const char *wrong;  /* why the reply is malformed, or NULL */
	/* the request */
	uint8_t prefix[SL_GRPC_PREFIX];
	size_t sent; /* bytes sent of prefix and body */
	/* the reply */
	uint64_t length;        /* content-length, or SL_LEN_UNKNOWN */
	uint32_t message_left;  /* rest of a gRPC message that is passed on in pieces */
	uint8_t *rx;            /* received body, in the agent's `bodies`; or NULL */
	uint32_t rx_at, rx_len; /* unused bytes of rx: from rx_at to rx_len */
	uint32_t rx_cap;
	struct agent_h2_text *text; /* text of fields, in the agent's `bodies`; or NULL */
	uint32_t text_len;          /* bytes of text */
	char type[AGENT_TYPE_MAX];  /* gRPC content-type; "": none, or too long */
	char why[1024];             /* grpc-message */
	/* Only the counts are cleared at the start. */
	struct agent_fields headers, trailers;
};

/* Frees a stream. The caller keeps its call. */
void agent_h2_stream_free(struct agent_h2_stream *s);

/* h2_reply.c */
void agent_h2_callbacks(nghttp2_session_callbacks *cb);
/* Passes on the received reply. May free the stream. */
void agent_h2_settle(struct agent_h2_stream *s);
/* Ends streams whose clients have not read for longest, while memory is short. */
void agent_h2_relieve(struct agent *a);
/* Frees the received body. */
void agent_h2_rx_free(struct agent_h2_stream *s);
/* Frees the text of fields. No field may point into it any more. */
void agent_h2_text_free(struct agent_h2_stream *s);
/* Returns the received body bytes that are not consumed. */
struct sl_span agent_h2_rx(const struct agent_h2_stream *s);
/* Consumes n bytes. */
void agent_h2_consume(struct agent_h2_stream *s, size_t n);
/* Passes on a part. Returns false if it stays or the stream was freed. */
bool agent_h2_reply(struct agent_h2_stream *s, struct sl_reply_args *a);
/* Ends the call with an error and resets the stream. */
void agent_h2_end_with(struct agent_h2_stream *s, enum sl_rpc_status status, const char *why);
/* Returns the call with agent_call_lost(): the stream ended before its reply. */
void agent_h2_lost(struct agent_h2_stream *s);

/* h2_grpc.c */
/* Decides by the head whether the reply is gRPC. */
void agent_h2_judge_head(struct agent_h2_stream *s, bool ends);
void agent_h2_settle_grpc(struct agent_h2_stream *s);

#endif
