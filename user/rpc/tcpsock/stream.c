/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/tcpsock/stream.h"

#include <errno.h>
#include <openssl/err.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TURNS_MAX = 16 }; /* records without payload */

static int wire_read(BIO *wire, char *to, int room)
{
	struct sk_stream *s = BIO_get_data(wire);
	struct sk_buf *b = &s->in;
	uint32_t len = sk_buf_len(b);

	BIO_clear_retry_flags(wire);
	if (room <= 0 || !len) {
		BIO_set_retry_read(wire);
		return -1;
	}
	len = len < (uint32_t)room ? len : (uint32_t)room;
	memcpy(to, b->bytes + b->head, len);
	b->head += len;
	if (b->head == b->tail)
		b->head = b->tail = 0;
	return (int)len;
}

static int wire_write(BIO *wire, const char *from, int len)
{
	struct sk_stream *s = BIO_get_data(wire);
	struct sk_buf *b = &s->out;

	BIO_clear_retry_flags(wire);
	if (len > 0 && (uint32_t)len > b->cap - b->tail && b->head) {
		memmove(b->bytes, b->bytes + b->head, sk_buf_len(b));
		b->tail -= b->head;
		b->head = 0;
	}
	if (len < 0 || (uint32_t)len > b->cap - b->tail) {
		BIO_set_retry_write(wire);
		return -1;
	}
	memcpy(b->bytes + b->tail, from, (size_t)len);
	b->tail += (uint32_t)len;
	return len;
}

static long wire_control(BIO *wire, int verb, long number, void *ptr)
{
	(void)wire, (void)number, (void)ptr;
	return verb == BIO_CTRL_FLUSH;
}

static BIO_METHOD *wire_method;

static void make_wire_method(void)
{
	wire_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "sluice stream");
	if (!wire_method)
		return;
	BIO_meth_set_read(wire_method, wire_read);
	BIO_meth_set_write(wire_method, wire_write);
	BIO_meth_set_ctrl(wire_method, wire_control);
}

static int receive_wire(struct sk_stream *s)
{
	struct sk_buf *b = &s->in;
	uint32_t room = b->cap < s->quota ? b->cap : s->quota;
	ssize_t n;

	if (!s->readable)
		return 0;
	if (!room)
		return -EPROTO; /* too many bytes before the key is proven */
	n = recv(s->sock, b->bytes, room, MSG_DONTWAIT);
	if (n > 0) {
		b->head = 0;
		b->tail = (uint32_t)n;
		s->quota -= s->quota == UINT32_MAX ? 0 : (uint32_t)n;
		/* A short read has emptied the socket. */
		s->readable = (uint32_t)n == room || s->ending;
		return 1;
	}
	if (n < 0 && errno == EINTR)
		return 0;
	s->readable = false;
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return 0;
	s->ended = true;
	return -ENOTCONN;
}

void sk_stream_push(struct sk_stream *s)
{
	struct sk_buf *b = &s->out;

	while (sk_buf_len(b) && s->writable) {
		ssize_t n = send(s->sock, b->bytes + b->head, sk_buf_len(b),
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		s->calls++;
		if (n > 0) {
			b->head += (uint32_t)n;
			if (b->head == b->tail)
				b->head = b->tail = 0;
		} else if (n < 0 && errno != EINTR) {
			s->writable = false;
			s->ended |= errno != EAGAIN && errno != EWOULDBLOCK;
		}
	}
}

static int resize_buf(struct sk_buf *b, uint32_t cap)
{
	uint8_t *bytes = realloc(b->bytes, cap);

	if (!bytes)
		return -ENOMEM;
	b->bytes = bytes;
	b->cap = cap;
	return 0;
}

int sk_stream_open(struct sk_stream *s, int sock, const struct sk_context *c, bool acceptor)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	BIO *wire;

	*s = (struct sk_stream){.sock = -1, .readable = true, .writable = true};
	s->quota = SK_HANDSHAKE_MAX;
	s->ssl = SSL_new(c->ssl);
	pthread_once(&once, make_wire_method);
	wire = s->ssl && wire_method ? BIO_new(wire_method) : NULL;
	if (!wire || resize_buf(&s->in, SK_HANDSHAKE_MAX) ||
	    resize_buf(&s->out, SK_HANDSHAKE_MAX)) {
		BIO_free(wire);
		sk_stream_close(s);
		return -ENOMEM;
	}
	BIO_set_data(wire, s);
	BIO_set_init(wire, 1);
	SSL_set_bio(s->ssl, wire, wire);
	if (acceptor)
		SSL_set_accept_state(s->ssl);
	else
		SSL_set_connect_state(s->ssl);
	s->sock = sock;
	return 0;
}

void sk_stream_moved(struct sk_stream *s)
{
	BIO_set_data(SSL_get_rbio(s->ssl), s);
}

int sk_stream_grow(struct sk_stream *s, uint32_t in, uint32_t out)
{
	s->quota = UINT32_MAX;
	return resize_buf(&s->in, in) || resize_buf(&s->out, out) ? -ENOMEM : 0;
}

void sk_stream_close(struct sk_stream *s)
{
	if (s->sock >= 0) {
		if (!s->ended && SSL_is_init_finished(s->ssl))
			(void)SSL_shutdown(s->ssl);
		sk_stream_push(s);
		close(s->sock);
	}
	ERR_clear_error();
	SSL_free(s->ssl);
	free(s->in.bytes);
	free(s->out.bytes);
	*s = (struct sk_stream){.sock = -1};
}

static int continue_tls(struct sk_stream *s, int rc)
{
	switch (SSL_get_error(s->ssl, rc)) {
	case SSL_ERROR_WANT_READ: return sk_buf_len(&s->in) ? 1 : receive_wire(s);
	case SSL_ERROR_WANT_WRITE: return 0;
	case SSL_ERROR_ZERO_RETURN: s->ended = true; return -ENOTCONN;
	default: s->ended = true; return -EPROTO;
	}
}

int sk_stream_handshake(struct sk_stream *s)
{
	int more = 1;

	for (unsigned i = 0; i < TURNS_MAX && more > 0; i++) {
		int rc;

		ERR_clear_error();
		rc = SSL_do_handshake(s->ssl);
		sk_stream_push(s);
		if (rc == 1) /* OpenSSL reports an external key as a resumed session */
			return SSL_session_reused(s->ssl) ? 1 : -EPROTO;
		more = continue_tls(s, rc);
	}
	sk_stream_push(s);
	return more < 0 ? more : 0;
}

const char *sk_stream_refusal(void)
{
	switch (ERR_GET_REASON(ERR_peek_last_error())) {
	case SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER:
	case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
	case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
		return "the backend has another key: give both ends the same key file";
	case SSL_R_WRONG_VERSION_NUMBER:
	case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
	case SSL_R_UNSUPPORTED_PROTOCOL:
		return "the answer is not TLS 1.3: is this a sluice backend?";
	case SSL_R_CERTIFICATE_VERIFY_FAILED:
		return "the peer shows a certificate and does not know the key: is this a sluice "
		       "backend?";
	default: return NULL;
	}
}

int sk_stream_read(struct sk_stream *s, void *to, uint32_t room)
{
	for (unsigned i = 0; i < TURNS_MAX; i++) {
		int more, n;

		ERR_clear_error();
		n = SSL_read(s->ssl, to, (int)room);
		if (n > 0)
			return n;
		more = continue_tls(s, n);
		if (more <= 0)
			return more;
	}
	return 0;
}

int sk_stream_write(struct sk_stream *s, const void *from, uint32_t len)
{
	ERR_clear_error();
	if (SSL_write(s->ssl, from, (int)len) == (int)len)
		return 0;
	s->ended = true;
	return -ENOTCONN;
}

uint32_t sk_stream_room(const struct sk_stream *s)
{
	uint32_t room = s->out.cap - sk_buf_len(&s->out);
	uint32_t extra = (room / SK_RECORD + 2) * SK_RECORD_EXTRA + 512;

	return room > extra ? room - extra : 0;
}
