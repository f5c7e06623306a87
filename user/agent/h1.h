/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection of HTTP/1.1 to a server: h1_send.c writes requests, h1.c reads what comes back.
 */
#ifndef SL_AGENT_H1_H
#define SL_AGENT_H1_H

#include "agent/h1_reply.h"
#include "agent/internal.h"
#include "agent/reply.h"
#include "agent/request.h"
#include "agent/websocket.h"
#include "front/http1/http1.h"

/*
 * Of a stream no more than AGENT_PART_MAX is read ahead, so that one that stands still costs that and a
 * part, which the SDK keeps. What has to be in one piece may take RX_MAX: heads, trailers, and replies
 * that go whole.
 */
enum {
	AGENT_H1_RX = AGENT_PART_MAX,
	AGENT_H1_RX_MAX = 68 << 10,
	AGENT_H1_TX = 28 << 10,
	AGENT_REASON_MAX = 128,
};

enum h1_state { H1_IDLE, H1_HEAD, H1_BODY, H1_CHUNKS, H1_TRAILERS, H1_UNTIL_CLOSE };

struct agent_h1_conn {
	struct agent_conn c;
	struct agent_call *call; /* NULL: idle */
	uint8_t state;
	bool to_head;   /* the request is a HEAD */
	bool sent;      /* all of the request */
	bool full;      /* the socket takes no more now */
	bool used;      /* it has had calls before */
	bool tx_failed; /* the server takes no more; its reply may be there */
	bool blocked;   /* the gateway has no room */
	bool whole;     /* the reply fits into rx, and goes on when it is here */
	bool closing;   /* upgraded, and the client has said its last */
	uint8_t interim;
	uint64_t left;                    /* H1_BODY: bytes to come */
	struct sl_span upgrade;           /* protocols that were asked for, in tx; or none */
	char accept[AGENT_WS_ACCEPT + 1]; /* what the server has to say to our key; or "" */
	struct sl_http1_chunked chunks;
	uint32_t head_len, head_sent;
	size_t body_sent;
	uint32_t body_at, body_len, raw, end;
	struct agent_h1_reply reply;
	char reason[AGENT_REASON_MAX]; /* "": the usual one */
	struct agent_reply_fields fields;
	uint32_t rx_size, tx_size;
	uint8_t *rx, *tx; /* tx: head_len */
};

/*
 * The head of its call's request; the body is begun. False: it is longer than any server would take, or
 * there is no memory for it.
 */
bool agent_h1_format(struct agent_h1_conn *h, const struct agent_request *rq);
/* As much of the request as the socket takes. */
void agent_h1_send(struct agent_h1_conn *h);
/* What the loop is to wait for. */
void agent_h1_wait(struct agent_h1_conn *h);

#endif
