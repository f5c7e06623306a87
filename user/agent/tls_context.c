/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/pem.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/tls.h"

enum { FILE_MAX = 2 << 20 };

struct tls_text {
	uint8_t *bytes;
	size_t len;
};

struct tls_texts {
	struct tls_text ca, certificate, key;
};

/* Other programs may move the descriptor's offset. */
static int read_text(struct tls_text *t, int fd, const char *what, struct sl_err *err)
{
	struct stat st;
	ssize_t n = 0;

	if (fd == -1)
		return 0;
	if (fstat(fd, &st) != 0)
		return sl_fail(err, -1, "%s: %s", what, strerror(errno));
	if (!S_ISREG(st.st_mode) || st.st_size > FILE_MAX)
		return sl_fail(err, -1, "%s: it cannot be read, or is longer than %d bytes", what,
			       FILE_MAX);
	t->bytes = OPENSSL_malloc((size_t)st.st_size + 1);
	if (!t->bytes)
		return sl_fail(err, -1, "out of memory");
	while (t->len < (size_t)st.st_size &&
	       (n = pread(fd, t->bytes + t->len, (size_t)st.st_size - t->len, (off_t)t->len)) > 0)
		t->len += (size_t)n;
	return n < 0 ? sl_fail(err, -1, "%s: %s", what, strerror(errno)) : 0;
}

static int read_key(struct tls_text *t, int fd, struct sl_err *err)
{
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	    st.st_mode & (S_IRWXO | S_IWGRP))
		return sl_fail(err, -1, "key: others may use it; allowed: mode 600 or 640");
	return read_text(t, fd, "key", err);
}

static void clear_texts(struct tls_texts *t)
{
	OPENSSL_free(t->ca.bytes);
	OPENSSL_free(t->certificate.bytes);
	OPENSSL_clear_free(t->key.bytes, t->key.len + 1);
}

static void hash_texts(const struct tls_texts *t, bool verify, uint8_t digest[32])
{
	const struct tls_text *all[] = {&t->ca, &t->certificate, &t->key};
	/* An empty file is an error, not an absent one. */
	uint8_t each[4][SHA256_DIGEST_LENGTH] = {
		{verify, t->ca.bytes != NULL, t->certificate.bytes != NULL, t->key.bytes != NULL}};

	for (unsigned i = 0; i < 3; i++)
		SHA256(all[i]->bytes ? all[i]->bytes : (const uint8_t *)"", all[i]->len,
		       each[i + 1]);
	SHA256(each[0], sizeof(each), digest);
}

static STACK_OF(X509) * parse_certs(const struct tls_text *t)
{
	STACK_OF(X509) *all = sk_X509_new_null();
	BIO *in = BIO_new_mem_buf(t->bytes, (int)t->len);
	unsigned long e;
	X509 *x;

	ERR_clear_error();
	while (all && in && (x = PEM_read_bio_X509(in, NULL, NULL, NULL))) {
		if (!sk_X509_push(all, x))
			X509_free(x);
	}
	BIO_free(in);
	e = ERR_peek_last_error();
	ERR_clear_error();
	if (ERR_GET_LIB(e) == ERR_LIB_PEM && ERR_GET_REASON(e) == PEM_R_NO_START_LINE)
		return all;
	sk_X509_pop_free(all, X509_free);
	return NULL;
}

static int use_issuers(SSL_CTX *ssl, const struct tls_text *ca, struct sl_err *err)
{
	STACK_OF(X509) *all = parse_certs(ca);
	int cnt = sk_X509_num(all);

	for (int i = 0; i < cnt; i++)
		X509_STORE_add_cert(SSL_CTX_get_cert_store(ssl), sk_X509_value(all, i));
	sk_X509_pop_free(all, X509_free);
	if (!all)
		return sl_fail(err, -1, "ca_file: a certificate in it cannot be read");
	return cnt > 0 ? 0 : sl_fail(err, -1, "ca_file: there is no certificate in it");
}

static int use_certificate(SSL_CTX *ssl, const struct tls_texts *t, struct sl_err *err)
{
	STACK_OF(X509) *chain = parse_certs(&t->certificate);
	BIO *in = BIO_new_mem_buf(t->key.bytes, (int)t->key.len);
	EVP_PKEY *key = in ? PEM_read_bio_PrivateKey(in, NULL, NULL, (void *)(uintptr_t) "") : NULL;
	X509 *leaf = sk_X509_shift(chain);
	int rc = 0;

	if (!chain)
		rc = sl_fail(err, -1, "certificate: one in the file cannot be read");
	else if (!leaf)
		rc = sl_fail(err, -1, "certificate: there is none in the file");
	else if (!key)
		rc = sl_fail(err, -1, "key: there is none in the file, or it is encrypted");
	else if (X509_check_private_key(leaf, key) != 1)
		rc = sl_fail(err, -1, "key: it is not that of the certificate");
	else if (SSL_CTX_use_cert_and_key(ssl, leaf, key, chain, 1) != 1)
		rc = sl_fail(err, -1, "certificate: %s", ERR_reason_error_string(ERR_get_error()));
	ERR_clear_error();
	BIO_free(in);
	EVP_PKEY_free(key);
	X509_free(leaf);
	sk_X509_pop_free(chain, X509_free);
	return rc;
}

static void put_session(struct agent_tls_server *s, SSL_SESSION *session)
{
	if (s->session_cnt == AGENT_TLS_SESSIONS) {
		SSL_SESSION_free(s->sessions[0]);
		s->session_cnt--;
		memmove(s->sessions, s->sessions + 1, s->session_cnt * sizeof(s->sessions[0]));
	}
	s->sessions[s->session_cnt++] = session;
}

static int on_session(SSL *ssl, SSL_SESSION *session)
{
	const struct agent_tls *t = SSL_get_app_data(ssl);

	if (t->ctx != t->server->ctx || !SSL_SESSION_is_resumable(session))
		return 0;
	put_session(t->server, session);
	return 1;
}

static SSL_CTX *make_ssl(const struct tls_texts *t, bool verify, struct sl_err *err)
{
	SSL_CTX *ssl = SSL_CTX_new(TLS_client_method());

	if (!ssl || SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION) != 1) {
		SSL_CTX_free(ssl);
		sl_err_set(err, "out of memory");
		return NULL;
	}
	SSL_CTX_set_mode(ssl, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_CTX_set_read_ahead(ssl, 1);
	SSL_CTX_set_session_cache_mode(ssl,
				       SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL_STORE);
	SSL_CTX_sess_set_new_cb(ssl, on_session);
	if ((!verify || !use_issuers(ssl, &t->ca, err)) &&
	    (!t->certificate.bytes || !use_certificate(ssl, t, err)))
		return ssl;
	SSL_CTX_free(ssl);
	return NULL;
}

static struct agent_tls_context *make_context(const struct tls_texts *t, bool verify,
					      struct sl_err *err)
{
	struct agent_tls_context *c = calloc(1, sizeof(*c));

	if (!c) {
		sl_err_set(err, "out of memory");
		return NULL;
	}
	c->refs = 1;
	sl_list_init(&c->link);
	c->method = agent_tls_bio_method();
	c->ssl = c->method ? make_ssl(t, verify, err) : NULL;
	if (c->ssl)
		return c;
	if (!c->method)
		sl_err_set(err, "out of memory");
	agent_tls_context_put(c);
	return NULL;
}

static struct agent_tls_context *find_context(struct sl_list *all, const uint8_t digest[32])
{
	struct sl_list *at, *next;

	sl_list_for_each_safe (at, next, all) {
		struct agent_tls_context *c = sl_container_of(at, struct agent_tls_context, link);

		if (memcmp(c->digest, digest, sizeof(c->digest)) == 0)
			return c;
	}
	return NULL;
}

struct agent_tls_context *agent_tls_context_get(struct sl_list *all, const struct sl_agent_tls *tls,
						struct sl_err *err)
{
	struct agent_tls_context *c = NULL;
	struct tls_texts t = {0};
	uint8_t digest[32];

	/* The sandbox hides OpenSSL's configuration. */
	(void)OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
	if (read_text(&t.ca, tls->verify ? tls->ca : -1, "ca_file", err) ||
	    read_text(&t.certificate, tls->certificate, "certificate", err) ||
	    read_key(&t.key, tls->key, err)) {
		clear_texts(&t);
		return NULL;
	}
	hash_texts(&t, tls->verify, digest);
	c = find_context(all, digest);
	if (c) {
		c->refs++;
	} else if ((c = make_context(&t, tls->verify, err))) {
		memcpy(c->digest, digest, sizeof(digest));
		sl_list_add_tail(all, &c->link);
	}
	clear_texts(&t);
	return c;
}

void agent_tls_context_put(struct agent_tls_context *c)
{
	if (!c || --c->refs)
		return;
	sl_list_del(&c->link);
	SSL_CTX_free(c->ssl);
	BIO_meth_free(c->method);
	free(c);
}

static void drop_sessions(struct agent_tls_server *s)
{
	while (s->session_cnt)
		SSL_SESSION_free(s->sessions[--s->session_cnt]);
}

int agent_tls_server_init(struct agent_tls_server *s, struct sl_list *all,
			  const struct sl_agent_tls *tls, const char *host, bool http2)
{
	struct sl_err err = {s->error, sizeof(s->error)};
	size_t n;

	s->name = strdup(tls->server_name ? tls->server_name : host);
	s->verify = tls->verify;
	s->http2 = http2;
	if (!s->name)
		return -1;
	n = strlen(s->name);
	if (n > 1 && s->name[n - 1] == '.')
		s->name[n - 1] = 0;
	s->ctx = agent_tls_context_get(all, tls, &err);
	return 0;
}

bool agent_tls_server_renew(struct agent_tls_server *s, struct sl_list *all,
			    const struct sl_agent_tls *tls, struct sl_err *err)
{
	struct agent_tls_context *next = agent_tls_context_get(all, tls, err);

	if (!next && !s->ctx)
		snprintf(s->error, sizeof(s->error), "%s", err->text);
	if (!next || next == s->ctx) {
		agent_tls_context_put(next);
		return false;
	}
	agent_tls_context_put(s->ctx);
	s->ctx = next;
	drop_sessions(s);
	return true;
}

void agent_tls_server_fini(struct agent_tls_server *s)
{
	drop_sessions(s);
	agent_tls_context_put(s->ctx);
	free(s->name);
	*s = (struct agent_tls_server){0};
}
