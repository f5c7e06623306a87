/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/load/tls.h"

#include <errno.h>
#include <openssl/ssl.h>
#include <stdlib.h>

#include "front/tls/record.h"

enum {
	FLIGHT_MAX = 4096,
	RECORD_MAX = SL_TLS_HEAD + SL_TLS_CIPHER_MAX,
	KEY_UPDATE = 24,
	KEY_UPDATE_LEN = 5,
};

struct tls_conn {
	SSL *ssl;
	struct sl_tls_dir rx, tx;
	bool update_due;
	uint32_t held;
	uint8_t *record, *out;
};

struct sl_load_tls {
	SSL_CTX *ctx;
	struct sl_tls_ciphers *ciphers;
	struct tls_conn *conns;
	uint8_t *records, *outs;
	size_t out_size;
};

static struct tls_conn *conn_of(const struct sl_load *l, const struct sl_load_conn *c)
{
	return &l->tls->conns[c->index];
}

static void take_secret(const SSL *ssl, const char *line)
{
	struct tls_conn *t = SSL_get_app_data(ssl);

	(void)sl_tls_take_secret(line, &t->tx, &t->rx);
}

static bool send_flight(struct sl_load *l, struct sl_load_conn *c)
{
	struct tls_conn *t = conn_of(l, c);
	int n = BIO_read(SSL_get_wbio(t->ssl), t->out, FLIGHT_MAX);

	return n <= 0 || (l->io->has_room(l, c, (size_t)n) &&
			  l->io->send(l, c, sl_span_of(t->out, (size_t)n)));
}

static bool derive_key(struct tls_conn *t)
{
	enum sl_tls_suite suite =
		sl_tls_suite_of(SSL_CIPHER_get_protocol_id(SSL_get_current_cipher(t->ssl)));

	t->rx.suite = t->tx.suite = (uint8_t)suite;
	return suite < SL_TLS_SUITE_CNT && sl_tls_dir_derive(&t->rx, 0) &&
	       sl_tls_dir_derive(&t->tx, 0);
}

static void take_records(struct sl_load *l, struct sl_load_conn *c, struct sl_span bytes);

static void open_connection(struct sl_load *l, struct sl_load_conn *c)
{
	struct tls_conn *t = conn_of(l, c);
	SSL *ssl = t->ssl;
	uint8_t bytes[FLIGHT_MAX];
	int n;

	t->ssl = NULL;
	sl_load_opened(l, c);
	while (c->state == SL_CONN_OPEN &&
	       (n = BIO_read(SSL_get_rbio(ssl), bytes, sizeof(bytes))) > 0)
		take_records(l, c, sl_span_of(bytes, (size_t)n));
	SSL_free(ssl);
}

static void advance_handshake(struct sl_load *l, struct sl_load_conn *c)
{
	struct tls_conn *t = conn_of(l, c);
	int rc = SSL_do_handshake(t->ssl);
	bool good = rc == 1 || SSL_get_error(t->ssl, rc) == SSL_ERROR_WANT_READ;

	if (!good || !send_flight(l, c) || (rc == 1 && !derive_key(t)))
		sl_load_broken(l, c, SL_LOAD_MALFORMED);
	else if (rc == 1)
		open_connection(l, c);
}

void sl_load_tls_begin(struct sl_load *l, struct sl_load_conn *c)
{
	struct tls_conn *t = conn_of(l, c);
	BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());

	t->ssl = SSL_new(l->tls->ctx);
	if (!t->ssl || !in || !out) {
		BIO_free(in);
		BIO_free(out);
		sl_load_broken(l, c, SL_LOAD_MALFORMED);
		return;
	}
	SSL_set_bio(t->ssl, in, out);
	SSL_set_app_data(t->ssl, t);
	SSL_set_connect_state(t->ssl);
	advance_handshake(l, c);
}

void sl_load_tls_end(struct sl_load *l, struct sl_load_conn *c)
{
	struct tls_conn *t = conn_of(l, c);

	SSL_free(t->ssl);
	t->ssl = NULL;
	t->held = 0;
	t->update_due = false;
	sl_tls_dir_wipe(l->tls->ciphers, &t->rx);
	sl_tls_dir_wipe(l->tls->ciphers, &t->tx);
}

static size_t body_len(const uint8_t *record)
{
	return (size_t)record[3] << 8 | record[4];
}

static bool take_message(struct sl_load *l, struct tls_conn *t, const uint8_t *bytes, size_t len)
{
	if (!len || bytes[0] != KEY_UPDATE)
		return true;
	if (len != KEY_UPDATE_LEN)
		return false;
	t->update_due |= bytes[4] == 1;
	return sl_tls_dir_update(l->tls->ciphers, &t->rx);
}

static void take_record(struct sl_load *l, struct sl_load_conn *c, uint8_t *record)
{
	struct tls_conn *t = conn_of(l, c);
	uint8_t *content = record + SL_TLS_HEAD;
	struct sl_tls_piece piece = {content, body_len(record)};
	bool good =
		record[0] == SL_TLS_DATA && sl_tls_open(l->tls->ciphers, &t->rx, record, &piece, 1);
	size_t len = good ? piece.len - SL_TLS_TAG : 0;

	while (len && !content[len - 1])
		len--;
	switch (len ? content[--len] : 0) {
	case SL_TLS_DATA:
		if (len)
			sl_load_content(l, c, sl_span_of(content, len));
		break;
	case SL_TLS_HANDSHAKE:
		if (!take_message(l, t, content, len))
			sl_load_broken(l, c, SL_LOAD_MALFORMED);
		break;
	case SL_TLS_ALERT: sl_load_broken(l, c, SL_LOAD_RESET); break;
	default: sl_load_broken(l, c, SL_LOAD_MALFORMED);
	}
}

static size_t complete_handshake(struct sl_load *l, struct sl_load_conn *c, struct sl_span bytes)
{
	struct tls_conn *t = conn_of(l, c);
	size_t whole = t->held < SL_TLS_HEAD ? SL_TLS_HEAD : SL_TLS_HEAD + body_len(t->record);
	size_t n = whole - t->held < bytes.len ? whole - t->held : bytes.len;

	if (whole > RECORD_MAX) {
		sl_load_broken(l, c, SL_LOAD_MALFORMED);
		return bytes.len;
	}
	memcpy(t->record + t->held, bytes.ptr, n);
	t->held += (uint32_t)n;
	if (t->held > SL_TLS_HEAD && t->held == SL_TLS_HEAD + body_len(t->record)) {
		t->held = 0;
		take_record(l, c, t->record);
	}
	return n;
}

static void take_records(struct sl_load *l, struct sl_load_conn *c, struct sl_span bytes)
{
	const struct tls_conn *t = conn_of(l, c);

	while (bytes.len && c->state == SL_CONN_OPEN) {
		bool whole = !t->held && bytes.len > SL_TLS_HEAD &&
			     bytes.len - SL_TLS_HEAD >= body_len(bytes.ptr);
		size_t n;

		if (whole) {
			n = SL_TLS_HEAD + body_len(bytes.ptr);
			take_record(l, c, (uint8_t *)(uintptr_t)bytes.ptr);
		} else {
			n = complete_handshake(l, c, bytes);
		}
		bytes = sl_span_skip(bytes, n);
	}
}

void sl_load_tls_take(struct sl_load *l, struct sl_load_conn *c, struct sl_span bytes)
{
	struct tls_conn *t = conn_of(l, c);

	if (!t->ssl)
		take_records(l, c, bytes);
	else if (BIO_write(SSL_get_rbio(t->ssl), bytes.ptr, (int)bytes.len) == (int)bytes.len)
		advance_handshake(l, c);
	else
		sl_load_broken(l, c, SL_LOAD_MALFORMED);
}

static size_t sealed_len(size_t len)
{
	return len + (len / SL_TLS_PLAIN_MAX + 1) * SL_TLS_OVERHEAD;
}

static size_t say_update(struct sl_load *l, struct tls_conn *t)
{
	static const uint8_t message[KEY_UPDATE_LEN] = {KEY_UPDATE, 0, 0, 1, 0};
	size_t n;

	memcpy(t->out + SL_TLS_HEAD, message, sizeof(message));
	n = sl_tls_seal(l->tls->ciphers, &t->tx, SL_TLS_HANDSHAKE, t->out, sizeof(message));
	t->update_due = false;
	return sl_tls_dir_update(l->tls->ciphers, &t->tx) ? n : 0;
}

bool sl_load_tls_send(struct sl_load *l, struct sl_load_conn *c, struct sl_span bytes)
{
	struct tls_conn *t = conn_of(l, c);
	size_t len = 0;

	if (!l->io->has_room(l, c, sealed_len(bytes.len) + SL_TLS_OVERHEAD + KEY_UPDATE_LEN))
		return false;
	if (t->update_due)
		len = say_update(l, t);
	while (bytes.len) {
		size_t n = bytes.len < SL_TLS_PLAIN_MAX ? bytes.len : SL_TLS_PLAIN_MAX;

		memcpy(t->out + len + SL_TLS_HEAD, bytes.ptr, n);
		len += sl_tls_seal(l->tls->ciphers, &t->tx, SL_TLS_DATA, t->out + len, n);
		bytes = sl_span_skip(bytes, n);
	}
	return l->io->send(l, c, sl_span_of(t->out, len));
}

static SSL_CTX *make_ctx(void)
{
	static const char suites[] = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:"
				     "TLS_CHACHA20_POLY1305_SHA256";
	static const uint8_t alpn[] = "\x08http/1.1";
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());

	if (ctx && SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) &&
	    SSL_CTX_set_ciphersuites(ctx, suites) &&
	    SSL_CTX_set_alpn_protos(ctx, alpn, sizeof(alpn) - 1) == 0) {
		SSL_CTX_set_verify(ctx, SSL_VERIFY_NONE, NULL);
		SSL_CTX_set_keylog_callback(ctx, take_secret);
		return ctx;
	}
	SSL_CTX_free(ctx);
	return NULL;
}

int sl_load_tls_init(struct sl_load *l, struct sl_err *err)
{
	const size_t cnt = l->o->connections;
	struct sl_load_tls *tls = calloc(1, sizeof(*tls));

	if (!sl_aead_supported()) {
		free(tls);
		return sl_fail(err, -ENOTSUP, "https:// needs a processor with AES-NI");
	}
	l->tls = tls;
	if (!tls)
		return sl_fail(err, -ENOMEM, "no memory for TLS");
	tls->out_size = sealed_len(l->o->depth * l->request_len) + FLIGHT_MAX;
	tls->ctx = make_ctx();
	tls->ciphers = sl_tls_ciphers_new();
	tls->conns = calloc(cnt, sizeof(*tls->conns));
	tls->records = calloc(cnt, RECORD_MAX); /* pages are touched only by split records */
	tls->outs = calloc(cnt, tls->out_size);
	if (!tls->ctx || !tls->ciphers || !tls->conns || !tls->records || !tls->outs)
		return sl_fail(err, -ENOMEM, "no memory for TLS of %zu connections", cnt);
	for (size_t i = 0; i < cnt; i++) {
		tls->conns[i].record = tls->records + i * RECORD_MAX;
		tls->conns[i].out = tls->outs + i * tls->out_size;
	}
	return 0;
}

void sl_load_tls_fini(struct sl_load *l)
{
	struct sl_load_tls *tls = l->tls;

	if (!tls)
		return;
	for (uint32_t i = 0; tls->conns && i < l->o->connections; i++)
		SSL_free(tls->conns[i].ssl);
	SSL_CTX_free(tls->ctx);
	sl_tls_ciphers_free(tls->ciphers);
	free(tls->conns);
	free(tls->records);
	free(tls->outs);
	free(tls);
}
