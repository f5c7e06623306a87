/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection of HTTP/2 to a server, and its streams: h2.c has the connection and requests, h2_reply.c
 * what comes back.
 */
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
	unsigned stream_cnt, freed; /* now; ever */
	bool going;                 /* it takes no more calls */
	size_t out_len, out_sent;
	uint8_t out[AGENT_OUT_LEN];
};

struct agent_h2_stream {
	struct sl_list link, touched; /* of the connection's */
	struct sl_list unread;        /* of the agent's, while `blocked` */
	struct agent_h2_conn *h;
	struct agent_call *call;
	int32_t id;
	uint32_t error;  /* of its end */
	uint16_t status; /* HTTP; below 200: the head is not here */
	int grpc_status; /* -1: not said */
	int foreign;     /* status of a call whose reply is none of gRPC's; -1: it is one */
	bool ended;      /* nothing more comes */
	bool whole;      /* and nothing is missing */
	bool blocked;    /* the gateway has no room */
	bool many;       /* fields that cannot go on: too many, or malformed */
	bool over;       /* of them there are more than any limit can allow */
	bool starved;    /* no memory was left for what came */
	bool to_head;
	uint8_t interim;    /* heads of interim replies so far */
	bool reset;         /* by the server */
	bool in_frame;      /* of HEADERS or DATA, which nghttp2 has not taken yet */
	bool trailers_only; /* gRPC: the head is the end as well */
	bool foreign_type;  /* gRPC: the content-type is another one */
	bool send_continue; /* the server wants the body */
	const char *wrong;  /* the reply is malformed: what about it; or NULL */
	/* the request */
	uint8_t prefix[SL_GRPC_PREFIX];
	size_t sent; /* of prefix and body */
	/* the reply */
	uint64_t length;       /* content-length; SL_LEN_UNKNOWN */
	uint32_t message_left; /* of one of gRPC that is passed on in pieces */
	uint8_t *rx; /* what has come of the body, in the agent's `bodies`; NULL: nothing */
	uint32_t rx_at, rx_len; /* what is in rx; from there on it is of use */
	uint32_t rx_cap;
	struct agent_h2_text *text; /* of fields, in the agent's `bodies`; NULL: none */
	uint32_t text_len;          /* of all of it */
	char type[AGENT_TYPE_MAX];  /* content-type of gRPC; "": none, or a longer one */
	char why[1024];             /* grpc-message */
	/* Not cleared at its start, but for their counts. */
	struct agent_fields headers, trailers;
};

/* It goes; its call, if it still has one, is the caller's. */
void agent_h2_stream_free(struct agent_h2_stream *s);

/* h2_reply.c */
void agent_h2_callbacks(nghttp2_session_callbacks *cb);
/* Passes on what has come of a reply; the stream may be gone afterwards. */
void agent_h2_settle(struct agent_h2_stream *s);
/* While memory is short: those go whose clients have not read for longest. */
void agent_h2_relieve(struct agent *a);
/* What has come of the body is of no more use. */
void agent_h2_rx_free(struct agent_h2_stream *s);
/* Frees the text of the fields: nothing may point into it. */
void agent_h2_text_free(struct agent_h2_stream *s);
/* Returns what has come of the body and is of use. */
struct sl_span agent_h2_rx(const struct agent_h2_stream *s);
/* Drops the first n bytes of it. */
void agent_h2_consume(struct agent_h2_stream *s, size_t n);
/* Passes on a part of the reply. False: it stays, or the stream is gone. */
bool agent_h2_reply(struct agent_h2_stream *s, struct sl_reply_args *a);
/* Ends the call with an error of the agent's, and resets the stream. */
void agent_h2_end_with(struct agent_h2_stream *s, enum sl_rpc_status status, const char *why);
/* Gives the call back: the stream ended before its reply did. */
void agent_h2_lost(struct agent_h2_stream *s);

/* h2_grpc.c */
/* Decides by the head, before any body, whether the reply is one of gRPC. */
void agent_h2_judge_head(struct agent_h2_stream *s, bool ends);
void agent_h2_settle_grpc(struct agent_h2_stream *s);

#endif
