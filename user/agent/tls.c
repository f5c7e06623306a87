/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "agent/tls.h"

enum { RECORD = SSL3_RT_MAX_PLAIN_LENGTH, HANDSHAKE_MAX = 256 << 10 };

static int read_socket(BIO *b, char *to, int len)
{
	struct agent_tls *t = BIO_get_data(b);
	ssize_t n;

	BIO_clear_retry_flags(b);
	if (!t->left) {
		t->emptied = false;
		BIO_set_retry_read(b);
		return -1;
	}
	if ((uint32_t)len > t->left)
		len = (int)t->left;
	do
		n = recv(t->fd, to, (size_t)len, 0);
	while (n < 0 && errno == EINTR);
	t->emptied = n < len;
	if (n < 0 && errno == EAGAIN)
		BIO_set_retry_read(b);
	else if (n < 0)
		t->error = errno;
	t->ended |= n == 0;
	if (n > 0)
		t->left -= (uint32_t)n;
	return (int)n;
}

static int write_out(BIO *b, const char *from, int len)
{
	struct agent_tls *t = BIO_get_data(b);
	uint32_t n = (uint32_t)len;

	BIO_clear_retry_flags(b);
	if (t->at && t->at + t->len + n > sizeof(t->out)) {
		memmove(t->out, t->out + t->at, t->len);
		t->at = 0;
	}
	if (n > sizeof(t->out) - t->at - t->len)
		n = (uint32_t)sizeof(t->out) - t->at - t->len;
	if (!n) {
		BIO_set_retry_write(b);
		return -1;
	}
	memcpy(t->out + t->at + t->len, from, n);
	t->len += n;
	return (int)n;
}

static long control_bio(BIO *b, int what, long num, void *ptr)
{
	(void)b, (void)num, (void)ptr;
	return what == BIO_CTRL_FLUSH;
}

BIO_METHOD *agent_tls_bio_method(void)
{
	BIO_METHOD *m = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "agent");

	if (m && BIO_meth_set_read(m, read_socket) && BIO_meth_set_write(m, write_out) &&
	    BIO_meth_set_ctrl(m, control_bio))
		return m;
	BIO_meth_free(m);
	return NULL;
}

static bool is_address(const char *name)
{
	uint8_t at[16];

	return inet_pton(AF_INET, name, at) == 1 || inet_pton(AF_INET6, name, at) == 1;
}

static bool set_name(SSL *ssl, const struct agent_tls_server *s)
{
	X509_VERIFY_PARAM *p = SSL_get0_param(ssl);

	/* RFC 9525: names of the subject do not count. */
	X509_VERIFY_PARAM_set_hostflags(p, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT |
						   X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	SSL_set_verify(ssl, s->verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
	if (is_address(s->name))
		return X509_VERIFY_PARAM_set1_ip_asc(p, s->name) == 1;
	return X509_VERIFY_PARAM_set1_host(p, s->name, 0) == 1 &&
	       SSL_set_tlsext_host_name(ssl, s->name) == 1;
}

static bool set_alpn(SSL *ssl, const struct agent_tls_server *s)
{
	static const uint8_t h2[] = "\x02h2", http1[] = "\x08http/1.1";

	return SSL_set_alpn_protos(ssl, s->http2 ? h2 : http1,
				   (unsigned)(s->http2 ? sizeof(h2) : sizeof(http1)) - 1) == 0;
}

static void resume_session(SSL *ssl, struct agent_tls_server *s)
{
	SSL_SESSION *session;

	if (!s->session_cnt)
		return;
	session = s->sessions[--s->session_cnt];
	(void)SSL_set_session(ssl, session);
	SSL_SESSION_free(session);
}

struct agent_tls *agent_tls_new(struct agent_tls_server *s, int fd)
{
	struct agent_tls *t = s->ctx ? calloc(1, sizeof(*t)) : NULL;
	BIO *b;

	if (!t)
		return NULL;
	t->server = s;
	t->ctx = s->ctx;
	t->ctx->refs++;
	t->fd = fd;
	t->left = HANDSHAKE_MAX;
	t->ssl = SSL_new(s->ctx->ssl);
	b = t->ssl ? BIO_new(s->ctx->method) : NULL;
	if (b) {
		BIO_set_data(b, t);
		BIO_set_init(b, 1);
		SSL_set_bio(t->ssl, b, b);
	}
	if (b && set_name(t->ssl, s) && set_alpn(t->ssl, s)) {
		SSL_set_app_data(t->ssl, t);
		SSL_set_connect_state(t->ssl);
		resume_session(t->ssl, s);
		return t;
	}
	t->broken = true;
	agent_tls_free(t);
	return NULL;
}

bool agent_tls_flush(struct agent_tls *t)
{
	ssize_t n;

	while (t->len) {
		n = send(t->fd, t->out + t->at, t->len, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return false;
		if (n < 0) {
			t->error = errno;
			n = t->len;
		}
		t->at += (uint32_t)n;
		t->len -= (uint32_t)n;
	}
	t->at = 0;
	return true;
}

static bool is_alert(unsigned long e)
{
	return ERR_GET_LIB(e) == ERR_LIB_SSL && ERR_GET_REASON(e) >= SSL_AD_REASON_OFFSET;
}

/* RFC 8446 6.2: alerts by which a server refuses a handshake. */
static bool is_refusal(unsigned long e)
{
	if (!is_alert(e))
		return false;
	switch (ERR_GET_REASON(e) - SSL_AD_REASON_OFFSET) {
	case SSL_AD_HANDSHAKE_FAILURE:
	case SSL_AD_BAD_CERTIFICATE:
	case SSL_AD_UNSUPPORTED_CERTIFICATE:
	case SSL_AD_CERTIFICATE_REVOKED:
	case SSL_AD_CERTIFICATE_EXPIRED:
	case SSL_AD_CERTIFICATE_UNKNOWN:
	case SSL_AD_UNKNOWN_CA:
	case SSL_AD_ACCESS_DENIED:
	case SSL_AD_DECRYPT_ERROR:
	case SSL_AD_INSUFFICIENT_SECURITY:
	case SSL_AD_CERTIFICATE_REQUIRED: return true;
	default: return false;
	}
}

static void explain(struct agent_tls *t)
{
	unsigned long e = ERR_peek_error();
	const char *text = ERR_reason_error_string(e);

	t->refused = is_refusal(e);
	if (ERR_GET_LIB(e) == ERR_LIB_SSL && ERR_GET_REASON(e) == SSL_R_CERTIFICATE_VERIFY_FAILED)
		snprintf(t->why, sizeof(t->why), "its certificate is refused: %s",
			 X509_verify_cert_error_string(SSL_get_verify_result(t->ssl)));
	else if (t->error && !is_alert(e)) /* a server that refuses breaks sends, too */
		snprintf(t->why, sizeof(t->why), "%s", strerror(t->error));
	else if (t->ended)
		snprintf(t->why, sizeof(t->why), "it closed the connection %s",
			 SSL_is_init_finished(t->ssl) ? "without close_notify"
						      : "in the TLS handshake");
	else
		snprintf(t->why, sizeof(t->why), "TLS: %s", text ? text : "failed");
}

static bool is_waiting(struct agent_tls *t, int rc)
{
	int e = SSL_get_error(t->ssl, rc);

	if (e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE)
		return true;
	t->broken = true;
	explain(t);
	return false;
}

/* A server without ALPN speaks HTTP/1.1. */
static bool check_alpn(struct agent_tls *t)
{
	const char *want = t->server->http2 ? "h2" : "http/1.1";
	const uint8_t *got;
	unsigned len;

	SSL_get0_alpn_selected(t->ssl, &got, &len);
	if ((!len && !t->server->http2) || (len == strlen(want) && memcmp(got, want, len) == 0))
		return true;
	snprintf(t->why, sizeof(t->why), "it chose %s%.32s by ALPN; expected %s", len ? "" : "no ",
		 len ? "another protocol" : "protocol", want);
	return false;
}

int agent_tls_handshake(struct agent_tls *t)
{
	int rc;

	do {
		ERR_clear_error();
		rc = SSL_do_handshake(t->ssl);
	} while (rc != 1 && SSL_want_write(t->ssl) && agent_tls_flush(t) && !t->error);
	if (rc != 1 && is_waiting(t, rc))
		rc = 0;
	else if (rc != 1 || !check_alpn(t))
		rc = -1;
	if (rc == 0 && !t->left) {
		snprintf(t->why, sizeof(t->why), "its handshake is too long");
		rc = -1;
	}
	(void)agent_tls_flush(t);
	if (rc != 1 || !t->error)
		return rc;
	snprintf(t->why, sizeof(t->why), "%s", strerror(t->error));
	return -1;
}

/* OpenSSL refuses it within a message; out[] may be full. */
static void make_close_notify(struct agent_tls *t)
{
	if (!t->closing || t->broken || SSL_in_init(t->ssl))
		return;
	ERR_clear_error();
	t->closing = SSL_shutdown(t->ssl) < 0;
	(void)agent_tls_flush(t);
}

ssize_t agent_tls_recv(struct agent_tls *t, void *to, size_t len)
{
	size_t n = 0;
	int rc;

	t->left = AGENT_TLS_IN;
	if (t->broken)
		return -EPROTO;
	ERR_clear_error();
	rc = SSL_read_ex(t->ssl, to, len, &n);
	if (rc != 1 && SSL_get_error(t->ssl, rc) == SSL_ERROR_ZERO_RETURN)
		n = 0;
	else if (rc != 1)
		rc = is_waiting(t, rc) ? -EAGAIN : -EPROTO;
	t->held = rc == -EAGAIN && SSL_want_write(t->ssl);
	(void)agent_tls_flush(t);
	make_close_notify(t);
	return rc < 0 ? rc : (ssize_t)n;
}

bool agent_tls_is_cut(const struct agent_tls *t)
{
	return t->held ? !t->len : !t->emptied;
}

bool agent_tls_has_more(const struct agent_tls *t)
{
	return !t->emptied || SSL_has_pending(t->ssl);
}

/* Returns the bytes behind the first `skip`, at most a record; copied if in pieces. */
static size_t take_record(const struct iovec *iov, unsigned cnt, size_t skip, uint8_t copy[RECORD],
			  const uint8_t **at)
{
	size_t len = 0;

	*at = copy;
	for (unsigned i = 0; i < cnt && len < RECORD; i++) {
		size_t n = iov[i].iov_len > skip ? iov[i].iov_len - skip : 0;
		const uint8_t *from = (const uint8_t *)iov[i].iov_base + skip;

		skip = n ? 0 : skip - iov[i].iov_len;
		if (!n)
			continue;
		if (!len && n >= RECORD) {
			*at = from;
			return RECORD;
		}
		n = n < RECORD - len ? n : RECORD - len;
		memcpy(copy + len, from, n);
		len += n;
	}
	return len;
}

/* OpenSSL gets a record only while out[] is empty, so the record fits. */
ssize_t agent_tls_send(struct agent_tls *t, const struct iovec *iov, unsigned cnt)
{
	uint8_t copy[RECORD];
	const uint8_t *from;
	size_t total = 0, len, n;
	int rc;

	t->left = AGENT_TLS_IN;
	while (agent_tls_flush(t)) {
		if (t->broken || t->error)
			return total ? (ssize_t)total : -EPIPE;
		len = take_record(iov, cnt, total, copy, &from);
		if (!len)
			return (ssize_t)total;
		ERR_clear_error();
		rc = SSL_write_ex(t->ssl, from, len, &n);
		if (rc != 1) {
			rc = is_waiting(t, rc) ? -EAGAIN : -EPIPE;
			return total ? (ssize_t)total : rc;
		}
		total += n;
	}
	return total ? (ssize_t)total : -EAGAIN;
}

bool agent_tls_shut(struct agent_tls *t)
{
	if (t->broken)
		return false;
	t->left = 0;
	t->closing = true;
	make_close_notify(t);
	return !t->error;
}

void agent_tls_free(struct agent_tls *t)
{
	if (!t)
		return;
	if (!t->broken && SSL_is_init_finished(t->ssl))
		(void)agent_tls_shut(t);
	else if (t->ended || t->error) /* the ticket stays valid */
		SSL_set_shutdown(t->ssl, SSL_SENT_SHUTDOWN);
	ERR_clear_error();
	SSL_free(t->ssl);
	agent_tls_context_put(t->ctx);
	free(t);
}
