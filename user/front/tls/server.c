/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Certificates with the same names form a group; OpenSSL selects by the client's signature
 * algorithms. A group has one SSL_CTX per thread.
 */
#include "front/tls/server.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

enum { TICKET_CERT_MAX = 8 << 10, CERT_LIST_SLACK = 1 << 10 };

static const char groups[] = "X25519:P-256:P-384";
static const char ciphersuites[] = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:"
				   "TLS_CHACHA20_POLY1305_SHA256";
static const uint8_t alpn_h2[] = {2, 'h', '2'};
static const uint8_t alpn_all[] = {2, 'h', '2', 8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

struct tls_group {
	SSL_CTX **ctxs;
	const struct sl_tls_cert *cert; /* the first; its names identify the group */
};

struct sl_tls_server {
	_Atomic uint32_t refs;
	struct sl_tls_tickets *tickets;
	struct sl_tls_cert **certs; /* ends with NULL */
	X509 **leaves;              /* parallel to `certs` */
	unsigned cert_cnt, group_cnt, thread_cnt;
	struct tls_group *groups;
};

static struct sl_tls_hs *hs_of(const SSL *ssl)
{
	return SSL_get_app_data(ssl);
}

static int choose_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len,
		       const unsigned char *in, unsigned in_len, void *arg)
{
	unsigned char *found;

	(void)arg;
	if (SSL_select_next_proto(&found, out_len, alpn_all, sizeof(alpn_all), in, in_len) !=
	    OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL; /* no_application_protocol */
	*out = found;
	hs_of(ssl)->alpn = *out_len == alpn_h2[0] && memcmp(found, alpn_h2 + 1, *out_len) == 0
				   ? SL_TLS_ALPN_H2
				   : SL_TLS_ALPN_HTTP1;
	return SSL_TLSEXT_ERR_OK;
}

static const struct tls_group *find_group(const struct sl_tls_server *s, struct sl_span name)
{
	for (unsigned i = 0; i < s->group_cnt; i++) {
		if (sl_tls_cert_names(s->groups[i].cert, name))
			return &s->groups[i];
	}
	for (unsigned i = 0; i < s->group_cnt; i++) {
		if (sl_tls_cert_covers(s->groups[i].cert, name))
			return &s->groups[i];
	}
	return &s->groups[0];
}

static int choose_group(SSL *ssl, int *alert, void *arg)
{
	struct sl_tls_hs *hs = hs_of(ssl);
	const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
	size_t len = name ? strlen(name) : 0;
	SSL_CTX *ctx;

	(void)alert, (void)arg;
	if (len && name[len - 1] == '.')
		len--;
	hs->sni_len = (uint16_t)(len < SL_TLS_NAME_MAX ? len : 0);
	for (size_t i = 0; i < hs->sni_len; i++)
		hs->sni[i] = (char)sl_ascii_lower((uint8_t)name[i]);
	ctx = find_group(hs->server, sl_span_of(hs->sni, hs->sni_len))->ctxs[hs->thread];
	if (ctx != SSL_get_SSL_CTX(ssl))
		SSL_set_SSL_CTX(ssl, ctx);
	return hs->sni_len ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
}

/*
 * Formatting secrets is slow: installed after a Finished message, when only this and the exporter
 * secret follow.
 */
static void take_secret(const SSL *ssl, const char *line)
{
	struct sl_tls_hs *hs = hs_of(ssl);

	if (sl_tls_take_secret(line, &hs->rx, &hs->tx))
		SSL_CTX_set_keylog_callback(SSL_get_SSL_CTX(ssl), NULL);
}

/* Sent, or received and not processed yet. */
static void note_message(int sent, int version, int type, const void *bytes, size_t len, SSL *ssl,
			 void *arg)
{
	(void)sent, (void)version, (void)arg;
	if (type == SSL3_RT_HANDSHAKE && len && *(const uint8_t *)bytes == SSL3_MT_FINISHED)
		SSL_CTX_set_keylog_callback(SSL_get_SSL_CTX(ssl), take_secret);
}

static void note_alert(const SSL *ssl, int where, int ret)
{
	struct sl_tls_hs *hs = hs_of(ssl);

	if (!(where & SSL_CB_ALERT))
		return;
	hs->alert = (uint8_t)ret;
	hs->peer_alert = where & SSL_CB_READ;
}

static int use_ticket(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *c,
		      EVP_MAC_CTX *h, int seal)
{
	struct sl_tls_hs *hs = hs_of(ssl);

	return sl_tls_tickets_use(hs->server->tickets, name, iv, c, h, seal,
				  hs->queued_ns + hs->waited_ns);
}

static uint16_t text_of_bio(BIO *bio, char *to, size_t size)
{
	char *text;
	long len = BIO_get_mem_data(bio, &text);

	if (len < 0 || (size_t)len > size)
		return UINT16_MAX;
	if (len)
		memcpy(to, text, (size_t)len);
	return (uint16_t)len;
}

/* A comma separates names. */
static void print_name(BIO *to, const char *kind, const ASN1_STRING *name)
{
	const uint8_t *text = ASN1_STRING_get0_data(name);

	BIO_printf(to, "%s%s:", BIO_pending(to) ? "," : "", kind);
	for (int i = 0; i < ASN1_STRING_length(name); i++)
		BIO_write(to, text[i] == ',' ? "%2C" : (const char *)text + i,
			  text[i] == ',' ? 3 : 1);
}

static void print_san(BIO *to, const X509 *x)
{
	GENERAL_NAMES *all = X509_get_ext_d2i(x, NID_subject_alt_name, NULL, NULL);

	for (int i = 0; i < sk_GENERAL_NAME_num(all); i++) {
		const GENERAL_NAME *g = sk_GENERAL_NAME_value(all, i);
		const char *kind = g->type == GEN_DNS     ? "DNS"
				   : g->type == GEN_EMAIL ? "email"
				   : g->type == GEN_URI   ? "URI"
							  : NULL;

		if (kind)
			print_name(to, kind, g->d.ia5);
	}
	GENERAL_NAMES_free(all);
}

static bool is_clean(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (text[i] < 0x20 || text[i] > 0x7e)
			return false;
	}
	return true;
}

static bool describe_client(struct sl_tls_hs *hs, const X509 *x)
{
	BIO *subject = BIO_new(BIO_s_mem()), *san = BIO_new(BIO_s_mem());
	bool ok = subject && san;

	if (ok) {
		X509_NAME_print_ex(subject, X509_get_subject_name(x), 0, XN_FLAG_RFC2253);
		print_san(san, x);
		hs->subject_len = text_of_bio(subject, hs->subject, sizeof(hs->subject));
		hs->san_len = text_of_bio(san, hs->san, sizeof(hs->san));
		ok = hs->subject_len != UINT16_MAX && hs->san_len != UINT16_MAX &&
		     is_clean(hs->subject, hs->subject_len) && is_clean(hs->san, hs->san_len);
	}
	BIO_free(subject);
	BIO_free(san);
	return ok;
}

/* Rejects identities that cannot be passed to the backend. */
static int check_client(int good, X509_STORE_CTX *store)
{
	SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
	X509 *x = X509_STORE_CTX_get_current_cert(store);

	if (!good || X509_STORE_CTX_get_error_depth(store) > 0)
		return good;
	/* A ticket's certificate has a 16-bit length. */
	if (i2d_X509(x, NULL) > TICKET_CERT_MAX)
		SSL_set_num_tickets(ssl, 0);
	if (describe_client(hs_of(ssl), x))
		return good;
	X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_REJECTED);
	return 0;
}

/* max_fragment_length: 1 to 4 stand for 512 to 4096 bytes. */
static uint16_t piece_max(const SSL *ssl)
{
	const SSL_SESSION *session = SSL_get_session(ssl);
	uint8_t code = session ? SSL_SESSION_get_max_fragment_length(session) : 0;

	if (code >= 1 && code <= 4)
		return (uint16_t)(256u << code);
	return SL_TLS_PLAIN_MAX;
}

static bool finish_handshake(struct sl_tls_hs *hs)
{
	const struct sl_tls_server *s = hs->server;
	const X509 *used = SSL_get_certificate(hs->ssl);
	const SSL_CIPHER *cipher = SSL_get_current_cipher(hs->ssl);
	enum sl_tls_suite suite =
		cipher ? sl_tls_suite_of(SSL_CIPHER_get_protocol_id(cipher)) : SL_TLS_SUITE_CNT;
	uint64_t sealed = 0;
	unsigned i = 0;

	/* Ticket records already use our application key. */
	for (size_t at = 0; at + SL_TLS_HEAD <= hs->out_len;
	     at += SL_TLS_HEAD + ((size_t)hs->out[at + 3] << 8 | hs->out[at + 4]))
		sealed += hs->out[at] == SL_TLS_DATA;
	hs->rx.suite = hs->tx.suite = (uint8_t)suite;
	hs->resumed = SSL_session_reused(hs->ssl);
	hs->piece_max = piece_max(hs->ssl);
	if (suite == SL_TLS_SUITE_CNT || !sl_tls_dir_derive(&hs->rx, 0) ||
	    !sl_tls_dir_derive(&hs->tx, sealed))
		return false;
	/* A full handshake has called check_client(). */
	if (hs->resumed && SSL_get0_peer_certificate(hs->ssl) &&
	    !describe_client(hs, SSL_get0_peer_certificate(hs->ssl)))
		return false;
	while (i < s->cert_cnt && s->leaves[i] != used)
		i++;
	hs->cert = sl_tls_cert_get(s->certs[i < s->cert_cnt ? i : 0]);
	return true;
}

static bool take_out(struct sl_tls_hs *hs)
{
	BIO *bio = SSL_get_wbio(hs->ssl);
	int len = BIO_pending(bio);

	if (len > SL_TLS_HS_BYTES)
		hs->out = len <= SL_TLS_FLIGHT_MAX ? malloc((size_t)len) : NULL;
	if (!hs->out) {
		hs->out = hs->here;
		return false;
	}
	hs->out_len = (uint32_t)len;
	if (len)
		BIO_read(bio, hs->out, len);
	return true;
}

static enum sl_tls_step step_handshake(struct sl_tls_hs *hs)
{
	int rc;

	if (!hs->ssl) {
		BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());

		hs->ssl = SSL_new(hs->server->groups[0].ctxs[hs->thread]);
		if (!hs->ssl || !in || !out) {
			BIO_free(in);
			BIO_free(out);
			return SL_TLS_FAILED;
		}
		SSL_set_bio(hs->ssl, in, out);
		SSL_set_app_data(hs->ssl, hs);
		SSL_set_accept_state(hs->ssl);
	}
	ERR_clear_error();
	BIO_write(SSL_get_rbio(hs->ssl), hs->in, (int)hs->in_len);
	rc = SSL_do_handshake(hs->ssl);
	hs->in_used = hs->in_len - (uint32_t)BIO_pending(SSL_get_rbio(hs->ssl));
	rc = rc == 1 ? 1 : SSL_get_error(hs->ssl, rc);
	hs->too_large = ERR_GET_REASON(ERR_peek_error()) == SSL_R_EXCESSIVE_MESSAGE_SIZE;
	if (!take_out(hs))
		return SL_TLS_FAILED;
	if (rc == SSL_ERROR_WANT_READ && SSL_get_shutdown(hs->ssl) == 0)
		return SL_TLS_MORE;
	return SSL_is_init_finished(hs->ssl) && finish_handshake(hs) ? SL_TLS_DONE : SL_TLS_FAILED;
}

static void free_out(struct sl_tls_hs *hs)
{
	if (hs->out != hs->here)
		free(hs->out);
	hs->out = hs->here;
	hs->out_len = hs->out_sent = 0;
}

void sl_tls_hs_step(struct sl_tls_hs *hs, uint64_t now_ns)
{
	hs->waited_ns = now_ns - hs->queued_ns;
	hs->alert = UINT8_MAX;
	free_out(hs);
	hs->step = (uint8_t)step_handshake(hs);
	if (hs->step == SL_TLS_MORE) {
		/* OpenSSL keeps an incomplete record. */
		hs->in_used = hs->in_len;
		return;
	}
	SSL_free(hs->ssl);
	hs->ssl = NULL;
}

void sl_tls_hs_end(struct sl_tls_hs *hs)
{
	free_out(hs);
	SSL_free(hs->ssl);
	sl_tls_server_put(hs->server);
	sl_tls_cert_put(hs->cert);
	OPENSSL_cleanse(&hs->rx, sizeof(hs->rx));
	OPENSSL_cleanse(&hs->tx, sizeof(hs->tx));
	hs->ssl = NULL;
	hs->server = NULL;
	hs->cert = NULL;
}

/* The same client authentication and CA files: gateways with the same ticket keys may differ. */
static bool set_context(SSL_CTX *ctx, const struct sl_cfg_tls *cfg, STACK_OF(X509) * cas)
{
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	uint8_t digest[EVP_MAX_MD_SIZE], one[EVP_MAX_MD_SIZE];
	unsigned len = 0, one_len;
	bool ok = md && EVP_DigestInit_ex(md, EVP_sha256(), NULL) &&
		  EVP_DigestUpdate(md, cfg->client_ca.path ? &cfg->client : NULL,
				   cfg->client_ca.path ? 1 : 0);

	for (int i = 0; ok && i < sk_X509_num(cas); i++)
		ok = X509_digest(sk_X509_value(cas, i), EVP_sha256(), one, &one_len) &&
		     EVP_DigestUpdate(md, one, one_len);
	ok = ok && EVP_DigestFinal_ex(md, digest, &len) &&
	     SSL_CTX_set_session_id_context(ctx, digest, len);
	EVP_MD_CTX_free(md);
	return ok;
}

static bool demand_certificate(SSL_CTX *ctx, const struct sl_cfg_tls *cfg, STACK_OF(X509) * cas)
{
	X509_STORE *store = SSL_CTX_get_cert_store(ctx);
	bool ok = true;

	for (int i = 0; ok && i < sk_X509_num(cas); i++)
		ok = X509_STORE_add_cert(store, sk_X509_value(cas, i)) &&
		     SSL_CTX_add_client_CA(ctx, sk_X509_value(cas, i));
	if (cas)
		SSL_CTX_set_verify(ctx,
				   SSL_VERIFY_PEER | (cfg->client == SL_CLIENT_CERT_REQUIRE
							      ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT
							      : 0),
				   check_client);
	return ok;
}

static SSL_CTX *make_ctx(const struct sl_cfg_tls *cfg, STACK_OF(X509) * cas)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());

	if (!ctx)
		return NULL;
	SSL_CTX_set_options(ctx, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
	SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_max_early_data(ctx, 0);
	SSL_CTX_set_max_cert_list(ctx, SL_TLS_CLIENT_CERT_MAX + CERT_LIST_SLACK);
	/* a second one costs a twentieth of a handshake */
	SSL_CTX_set_num_tickets(ctx, 1);
	SSL_CTX_set_alpn_select_cb(ctx, choose_alpn, NULL);
	SSL_CTX_set_tlsext_servername_callback(ctx, choose_group);
	SSL_CTX_set_msg_callback(ctx, note_message);
	SSL_CTX_set_info_callback(ctx, note_alert);
	SSL_CTX_set_tlsext_ticket_key_evp_cb(ctx, use_ticket);
	if (SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) &&
	    SSL_CTX_set_ciphersuites(ctx, ciphersuites) && SSL_CTX_set1_groups_list(ctx, groups) &&
	    set_context(ctx, cfg, cas) && demand_certificate(ctx, cfg, cas))
		return ctx;
	SSL_CTX_free(ctx);
	return NULL;
}

static bool same_names(const struct sl_tls_cert *a, const struct sl_tls_cert *b)
{
	bool same = a->name_cnt == b->name_cnt;

	for (uint32_t i = 0; same && i < a->name_cnt; i++)
		same = sl_tls_cert_names(b, sl_span_cstr(a->names[i]));
	return same;
}

static bool add_group(struct sl_tls_server *s, const struct sl_tls_cert *cert,
		      const struct sl_cfg_tls *cfg, STACK_OF(X509) * cas)
{
	struct tls_group *g = &s->groups[s->group_cnt];
	bool ok;

	*g = (struct tls_group){calloc(s->thread_cnt, sizeof(*g->ctxs)), cert};
	ok = g->ctxs;
	s->group_cnt += ok;
	for (unsigned i = 0; ok && i < s->thread_cnt; i++)
		ok = (g->ctxs[i] = make_ctx(cfg, cas));
	return ok;
}

static bool add_pair(struct sl_tls_server *s, const struct sl_tls_pair *p,
		     const struct sl_cfg_tls *cfg, STACK_OF(X509) * cas)
{
	unsigned i = 0;
	bool ok = true;

	while (i < s->group_cnt && !same_names(s->groups[i].cert, p->cert))
		i++;
	if (i == s->group_cnt && !add_group(s, p->cert, cfg, cas))
		return false;
	s->certs[s->cert_cnt] = sl_tls_cert_get(p->cert);
	s->leaves[s->cert_cnt++] = p->leaf;
	for (unsigned t = 0; ok && t < s->thread_cnt; t++)
		ok = SSL_CTX_use_cert_and_key(s->groups[i].ctxs[t], p->leaf, p->key, p->chain, 1) ==
		     1;
	return ok;
}

static bool fill_server(struct sl_tls_server *s, const struct sl_cfg_tls *cfg, STACK_OF(X509) * cas,
			struct conf_diags *mistakes)
{
	bool ok = true;

	for (uint32_t i = 0; i < cfg->certificate_cnt; i++) {
		struct sl_tls_diag to = {mistakes, cfg->certificates[i].line};
		struct sl_tls_pair p;
		bool loaded = sl_tls_pair_load(&p, &cfg->certificates[i], &cfg->keys[i], mistakes);

		ok = loaded && ok;
		if (loaded && !add_pair(s, &p, cfg, cas)) {
			sl_tls_diagnose(&to, "found certificate \"%s\", rejected by OpenSSL (%s)",
					cfg->certificates[i].path,
					ERR_reason_error_string(ERR_peek_last_error()));
			ok = false;
		}
		sl_tls_pair_free(&p);
	}
	return ok;
}

struct sl_tls_server *sl_tls_server_new(const struct sl_cfg_tls *cfg, struct sl_tls_tickets *own,
					struct conf_diags *mistakes)
{
	struct sl_tls_diag to = {mistakes, cfg->line};
	struct sl_tls_server *s = calloc(1, sizeof(*s));
	STACK_OF(X509) *cas = NULL;
	bool ok;

	if (!s)
		return NULL;
	s->refs = 1;
	s->thread_cnt = cfg->handshake_threads;
	s->certs = calloc(cfg->certificate_cnt + 1, sizeof(struct sl_tls_cert *));
	s->leaves = calloc(cfg->certificate_cnt + 1, sizeof(X509 *));
	s->groups = calloc(cfg->certificate_cnt + 1, sizeof(*s->groups));
	ok = s->certs && s->leaves && s->groups;
	if (!ok)
		sl_tls_diagnose(&to, "found too little memory");
	if (ok && cfg->client_ca.path) {
		to.line = cfg->client_ca.line;
		cas = sl_tls_read_certs(&cfg->client_ca, &to);
		ok = cas;
	}
	s->tickets = cfg->ticket_keys.path ? sl_tls_tickets_load(&cfg->ticket_keys, mistakes)
					   : sl_tls_tickets_get(own);
	if (s->certs && s->leaves && s->groups)
		ok = fill_server(s, cfg, cas, mistakes) && ok;
	sk_X509_pop_free(cas, X509_free);
	if (ok && s->tickets)
		return s;
	sl_tls_server_put(s);
	return NULL;
}

struct sl_tls_server *sl_tls_server_get(struct sl_tls_server *s)
{
	atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
	return s;
}

void sl_tls_server_put(struct sl_tls_server *s)
{
	if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
		return;
	for (unsigned i = 0; i < s->group_cnt; i++) {
		for (unsigned t = 0; t < s->thread_cnt; t++)
			SSL_CTX_free(s->groups[i].ctxs[t]);
		free(s->groups[i].ctxs);
	}
	for (unsigned i = 0; i < s->cert_cnt; i++)
		sl_tls_cert_put(s->certs[i]);
	sl_tls_tickets_put(s->tickets);
	free(s->groups);
	free(s->leaves);
	free(s->certs);
	free(s);
}

unsigned sl_tls_server_threads(const struct sl_tls_server *s)
{
	return s->thread_cnt;
}

const struct sl_tls_cert *sl_tls_server_cert(const struct sl_tls_server *s, unsigned i)
{
	return i < s->cert_cnt ? s->certs[i] : NULL;
}

struct sl_tls_tickets *sl_tls_server_tickets(struct sl_tls_server *s)
{
	return s->tickets;
}
