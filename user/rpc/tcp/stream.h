/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream of bytes over one kernel socket that does not block, in TLS 1.3 with a pre-shared key.
 *
 *   out:  sk_stream_write -> OpenSSL -> `out` (records) -> sk_stream_push: one send() for all
 *   in:   recv() of all that fits -> `in` (records) -> OpenSSL -> sk_stream_read
 *
 * OpenSSL never sees the socket: however many records there are, a burst costs one call of the
 * kernel in each direction, and none while the socket is known to have nothing, or to take nothing.
 * That is known from sk_stream_event(): the socket is watched for edges, each of which says "try
 * again". Of an end, which may come with bytes that are read in one piece, the edge is no other than
 * theirs, so it is kept in mind (`ending`).
 *
 * Before the peer has proven its key it may send `quota` bytes, and the buffers are small.
 */
#ifndef SL_RPC_TCP_STREAM_H
#define SL_RPC_TCP_STREAM_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/bytes.h"
#include "rpc/secret.h"

enum {
	SK_RECORD = 16 << 10,    /* the longest plaintext of a record */
	SK_RECORD_EXTRA = 22,    /* header, type and tag */
	SK_HANDSHAKE_MAX = 2048, /* bytes of either side until the key is proven */
	SK_PSK_LEN = 32,
};

/* Bytes [head, tail) are to be used. */
struct sk_buf {
	uint8_t *bytes;
	uint32_t cap, head, tail;
};

struct sk_stream {
	int sock;
	SSL *ssl;
	bool readable, writable; /* for all that is known */
	bool ending;             /* that is known to come, behind what there is to be read */
	bool ended;              /* the peer's end, or an error: nothing more comes */
	uint32_t quota;          /* bytes that may still be received */
	uint64_t calls;          /* send() */
	struct sk_buf in, out;
};

/*
 * What handshakes of one end need: the pre-shared key, derived from the bytes of the key file, as
 * the one thing that proves anything. Must stay where it is until the last of them is done.
 */
struct sk_context {
	SSL_CTX *ssl;
	uint8_t psk[SK_PSK_LEN];
};

/* 0 or -ENOMEM. */
int sk_context_open(struct sk_context *c, const struct sl_secret *s, bool acceptor);
void sk_context_close(struct sk_context *c);

/* Takes the socket if it succeeds. 0 or -ENOMEM. */
int sk_stream_open(struct sk_stream *s, int sock, const struct sk_context *c, bool acceptor);
/* After its bytes were copied to another place. */
void sk_stream_moved(struct sk_stream *s);
/* Once the key is proven: buffers of that size, no quota. */
int sk_stream_grow(struct sk_stream *s, uint32_t in, uint32_t out);
/* Says goodbye if that costs nothing, and closes the socket. */
void sk_stream_close(struct sk_stream *s);

/* 1: done, the peer has the key; 0: to be called again after events; -EPROTO, -ENOTCONN. */
int sk_stream_handshake(struct sk_stream *s);
/* Why, for people: NULL if it was not about keys or versions. */
const char *sk_stream_refusal(void);

/* Bytes read; 0: none now; -ENOTCONN: ended, -EPROTO: a broken record. */
int sk_stream_read(struct sk_stream *s, void *to, uint32_t room);
/* All of them, at most SK_RECORD, with room for them: 0 or -ENOTCONN. */
int sk_stream_write(struct sk_stream *s, const void *from, uint32_t len);
/* Plaintext that could be written now in records as long as they get. */
uint32_t sk_stream_room(const struct sk_stream *s);
void sk_stream_push(struct sk_stream *s);

static inline uint32_t sk_buf_len(const struct sk_buf *b)
{
	return b->tail - b->head;
}

/* Something may be read without an event. */
static inline bool sk_stream_may_read(const struct sk_stream *s)
{
	return s->readable || sk_buf_len(&s->in);
}

static inline void sk_stream_event(struct sk_stream *s)
{
	s->readable = s->writable = true;
}

#endif
