/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1.1 connection to a server. */
#ifndef SL_ORIGIN_H1_H
#define SL_ORIGIN_H1_H

#include "origin/h1_reply.h"
#include "origin/origin.h"
#include "origin/reply.h"
#include "origin/request.h"
#include "origin/websocket.h"
#include "front/http1/http1.h"

/*
 * A stalled stream has ORIGIN_PART_MAX bytes, a wide one ORIGIN_PART_WIDE. Heads, trailers and
 * unstreamed replies may have ORIGIN_H1_RX_MAX.
 */
enum {
	ORIGIN_H1_RX = ORIGIN_PART_MAX,
	ORIGIN_H1_RX_MAX = 68 << 10,
	ORIGIN_H1_TX = 28 << 10,
	ORIGIN_REASON_MAX = 128,
};

enum h1_state { H1_IDLE, H1_HEAD, H1_BODY, H1_CHUNKS, H1_TRAILERS, H1_UNTIL_CLOSE };

struct origin_h1_conn {
	struct origin_conn c;
	struct origin_call *call; /* NULL: idle */
	uint8_t state;
	bool to_head;
	bool sent; /* the whole request */
	bool full;
	bool used;      /* has carried calls */
	bool tx_failed; /* a reply may still be readable */
	bool blocked;
	bool whole;   /* rx collects the reply */
	bool wide;    /* counted in origin.wide_cnt */
	bool closing; /* the output has ended */
	uint8_t interim;
	uint64_t left;
	uint64_t passed;
	struct sl_span upgrade;            /* requested protocols, in tx */
	char accept[ORIGIN_WS_ACCEPT + 1]; /* expected, or "" */
	struct sl_http1_chunked chunks;
	uint32_t head_len, head_sent;
	size_t body_sent;
	uint32_t body_at, body_len, raw, end;
	uint32_t searched, parsed; /* of an incomplete head or trailers, from `raw` */
	uint8_t parses;
	struct origin_h1_reply reply;
	char reason[ORIGIN_REASON_MAX];
	struct origin_reply_fields fields;
	uint32_t rx_size, tx_size;
	uint8_t *rx, *tx;
};

/* Writes the head to tx and starts the body. Returns false if it is too long, or without memory. */
bool origin_h1_format(struct origin_h1_conn *h, const struct origin_request *rq);
/* Sends what the transport takes; sets tx_failed on failure. */
void origin_h1_send(struct origin_h1_conn *h);
/* Requests the upcalls that are needed. */
void origin_h1_wait(struct origin_h1_conn *h);

#endif
