/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A byte stream over a non-blocking kernel socket, in TLS 1.3 with a pre-shared key.
 *
 *   out:  sk_stream_write -> OpenSSL -> `out` (records) -> sk_stream_push: one send() for all
 *   in:   recv() of all that fits -> `in` (records) -> OpenSSL -> sk_stream_read
 *
 * The socket is edge-triggered. The peer's end may share its edge with bytes: see `ending`.
 *
 * A peer may send `quota` bytes before it has proven its key.
 */
#ifndef SL_RPC_TCPSOCK_STREAM_H
#define SL_RPC_TCPSOCK_STREAM_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/bytes.h"
#include "rpc/psk.h"

enum {
	SK_RECORD = 16 << 10,    /* longest plaintext of a record */
	SK_RECORD_EXTRA = 22,    /* header, type and tag */
	SK_HANDSHAKE_MAX = 2048, /* bytes of each end until the key is proven */
	SK_PSK_LEN = 32,
};

/* Bytes [head, tail) are in use. */
struct sk_buf {
	uint8_t *bytes;
	uint32_t cap, head, tail;
};

struct sk_stream {
	int sock;
	SSL *ssl;
	bool readable, writable;
	bool ending; /* the peer's end follows readable bytes */
	bool ended;  /* no more input: the peer's end, or an error */
	uint32_t quota;
	uint64_t calls;
	struct sk_buf in, out;
};

/* Configuration of handshakes. Must not move or end before the last one. */
struct sk_context {
	SSL_CTX *ssl;
	uint8_t psk[SK_PSK_LEN];
};

/* Makes the TLS context of one role, with the key. Returns 0 or -ENOMEM. */
int sk_context_open(struct sk_context *c, const struct sl_psk *s, bool acceptor);
/* Frees it, and clears the key. */
void sk_context_close(struct sk_context *c);

/* Starts a TLS stream on a socket, which it owns. Returns 0 or -ENOMEM. */
int sk_stream_open(struct sk_stream *s, int sock, const struct sk_context *c, bool acceptor);
/* Updates OpenSSL's pointer after the struct has moved. */
void sk_stream_moved(struct sk_stream *s);
/* Ends the quota, once the key is proven, and resizes the buffers. Returns 0 or -ENOMEM. */
int sk_stream_grow(struct sk_stream *s, uint32_t in, uint32_t out);
/* Sends close_notify if there is room, closes the socket and frees all but `s`. */
void sk_stream_close(struct sk_stream *s);

/* Returns 1 (done, the peer has the key), 0 (call again after events), -EPROTO or -ENOTCONN. */
int sk_stream_handshake(struct sk_stream *s);
/* Returns why this thread's last handshake failed; NULL: not keys or versions. */
const char *sk_stream_refusal(void);

/* Returns the number of bytes, 0 (none now), -ENOTCONN (ended) or -EPROTO (a broken record). */
int sk_stream_read(struct sk_stream *s, void *to, uint32_t room);
/* Sends at most SK_RECORD bytes as a record; the caller checks the room. 0 or -ENOTCONN. */
int sk_stream_write(struct sk_stream *s, const void *from, uint32_t len);
/* Returns how much can be written now, in full records. */
uint32_t sk_stream_room(const struct sk_stream *s);
/* Sends records until the socket takes no more. An error sets `ended`. */
void sk_stream_push(struct sk_stream *s);

/* Returns the number of bytes not yet read. */
static inline uint32_t sk_buf_len(const struct sk_buf *b)
{
	return b->tail - b->head;
}

/* Returns true if a read may find bytes without an event. */
static inline bool sk_stream_may_read(const struct sk_stream *s)
{
	return s->readable || sk_buf_len(&s->in);
}

/* Allows reads and writes after an event. */
static inline void sk_stream_event(struct sk_stream *s)
{
	s->readable = s->writable = true;
}

#endif
