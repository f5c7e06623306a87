/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2 connection to a server: h2.c has the connection and requests, h2_reply.c replies. */
#ifndef SL_AGENT_H2_H
#define SL_AGENT_H2_H

#include <nghttp2/nghttp2.h>

#include "agent/internal.h"
#include "agent/reply.h"
#include "front/grpc/grpc.h"

enum {
	AGENT_RX_LEN = 24 << 10, /* window */
	AGENT_OUT_LEN = 64 << 10,
	AGENT_TYPE_MAX = 128,
};

struct agent_h2_conn {
	struct agent_conn c;
	nghttp2_session *session;
	struct sl_list streams, touched;
	unsigned stream_cnt, freed; /* open; freed so far */
	bool going;                 /* takes no more calls */
	size_t out_len, out_sent;
	uint8_t out[AGENT_OUT_LEN];
};

struct agent_h2_stream {
	struct sl_list link, touched;
	struct sl_list unread; /* in the agent's list, while `blocked` */
	struct agent_h2_conn *h;
	struct agent_call *call;
	int32_t id;
	uint32_t error;
	uint16_t status; /* below 200: no final head yet */
	int grpc_status; /* -1: none */
	int foreign;     /* gRPC status of a reply that is not gRPC, or -1 */
	bool ended;
	bool whole;
	bool blocked;
	bool many;    /* too many or malformed fields */
	bool over;    /* beyond any limit */
	bool starved; /* out of memory */
	bool to_head;
	uint8_t interim; /* heads */
	bool reset;      /* RST_STREAM came */
	bool in_frame;
	bool trailers_only; /* gRPC: the head ends the stream */
	bool foreign_type;
	bool send_continue;
	const char *wrong; /* why the reply is malformed */
	/* the request */
	uint8_t prefix[SL_GRPC_PREFIX];
	size_t sent; /* prefix and body */
	/* the reply */
	uint64_t length;        /* content-length, or SL_LEN_UNKNOWN */
	uint32_t message_left;  /* bytes of a gRPC message that is passed on in pieces */
	uint8_t *rx;            /* received body, in the agent's `bodies` */
	uint32_t rx_at, rx_len; /* unused: [rx_at, rx_len) */
	uint32_t rx_cap;
	struct agent_h2_text *text; /* fields, in the agent's `bodies` */
	uint32_t text_len;
	char type[AGENT_TYPE_MAX]; /* gRPC content-type */
	char why[1024];            /* grpc-message */
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
/* No field may point into the text any more. */
void agent_h2_text_free(struct agent_h2_stream *s);
/* Returns the body bytes that are not consumed. */
struct sl_span agent_h2_rx(const struct agent_h2_stream *s);
/* Consumes n bytes. */
void agent_h2_consume(struct agent_h2_stream *s, size_t n);
/* Passes on a part. Returns false if it stays or the stream was freed. */
bool agent_h2_reply(struct agent_h2_stream *s, struct sl_reply_args *a);
/* Ends the call with an error and resets the stream. */
void agent_h2_end_with(struct agent_h2_stream *s, enum sl_rpc_status status, const char *why);
/* Returns the call with agent_call_lost(). */
void agent_h2_lost(struct agent_h2_stream *s);

/* h2_grpc.c */
/* Decides by the head whether the reply is gRPC. */
void agent_h2_judge_head(struct agent_h2_stream *s, bool ends);
void agent_h2_settle_grpc(struct agent_h2_stream *s);

#endif
