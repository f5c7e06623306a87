/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages over a byte stream, for `tcp` and `ud`: header and body in order, with credits
 * (credits.h). The owner's thread.
 */
#ifndef SL_RPC_MSG_STREAM_H
#define SL_RPC_MSG_STREAM_H

#include "rpc/transport.h"

/* Messages parsed per returned one; the rest are CREDITs, left to the next poll. */
enum { SL_MSG_STREAM_LOOKS = 4 };

struct sl_msg_stream {
	uint32_t rx_next, lent;
};

/* Returns false if out of memory, which only the first write of a message reports. */
typedef bool sl_msg_stream_write(struct sl_transport *t, const void *bytes, size_t len);

/*
 * Writes a message. Returns 0, -EAGAIN (no credit, or over `room` bytes) or -ENOMEM: end the
 * stream.
 */
int sl_msg_stream_post(struct sl_transport *t, const struct sl_rpc_header *header,
		       const struct sl_span *spans, unsigned span_cnt, uint32_t room,
		       sl_msg_stream_write *write);
/* Posts a CREDIT if one is due; without room it stays due. */
void sl_msg_stream_credit(struct sl_transport *t);

enum sl_msg_stream_got { SL_MSG_INCOMPLETE, SL_MSG_LENT, SL_MSG_CREDIT };
/* Takes the message at `*head`, a LENT one into *m. Returns enum sl_msg_stream_got or -EPROTO. */
int sl_msg_stream_take(struct sl_transport *t, struct sl_msg_stream *s, const uint8_t *rx,
		       uint32_t *head, uint32_t tail, struct sl_message *m);
/* Gives the bytes of a LENT message back, in order. */
void sl_msg_stream_release(struct sl_transport *t, struct sl_msg_stream *s,
			   const struct sl_message *m);

/* Implements `sent` for transports that copy: returns 0. */
unsigned sl_msg_stream_sent(struct sl_transport *t, uint64_t *cookies, unsigned max);
/* Implements `disarm`: late events are harmless. */
void sl_msg_stream_disarm(struct sl_transport *t);

#endif
