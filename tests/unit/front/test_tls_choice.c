/* SPDX-License-Identifier: Apache-2.0 */
/* Results of a handshake: certificate, kind of key, protocol, group and suite. */
#include <openssl/x509v3.h>

#include "suite.h"
#include "tls_talk.h"

enum { CERTS = 4 };

static const struct {
	const char *names;
	bool rsa;
} certs[CERTS] = {
	{"DNS:first.example", false},
	{"DNS:*.b.example,DNS:c.example", false},
	{"DNS:x.b.example", false},
	{"DNS:first.example", true},
};

static char dir[] = "/tmp/sl-tls-choice-XXXXXX", paths[CERTS][2][64];

static void write_pair(const char *names, bool rsa, const char *cert_path, const char *key_path)
{
	EVP_PKEY *key = rsa ? EVP_RSA_gen(2048) : EVP_EC_gen("P-256");
	X509 *x = X509_new();
	X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, names);
	FILE *f;

	X509_set_version(x, 2);
	X509_gmtime_adj(X509_getm_notBefore(x), 0);
	X509_gmtime_adj(X509_getm_notAfter(x), 86400);
	bed_require(e && X509_add_ext(x, e, -1) && X509_set_pubkey(x, key));
	bed_require(X509_sign(x, key, EVP_sha256()) > 0);
	f = fopen(cert_path, "w");
	bed_require(f && PEM_write_X509(f, x) && fclose(f) == 0);
	f = fopen(key_path, "w");
	bed_require(f && PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL) &&
		    fclose(f) == 0 && chmod(key_path, 0600) == 0);
	X509_EXTENSION_free(e);
	X509_free(x);
	EVP_PKEY_free(key);
}

/* Made once for all tests: an RSA key takes longer than the tests. */
static void make_all(void)
{
	bed_require(mkdtemp(dir));
	for (unsigned i = 0; i < CERTS; i++) {
		for (unsigned k = 0; k < 2; k++)
			snprintf(paths[i][k], sizeof(paths[i][k]), "%s/%u.%u", dir, i, k);
		write_pair(certs[i].names, certs[i].rsa, paths[i][0], paths[i][1]);
	}
}

static void drop_all(void)
{
	for (unsigned i = 0; i < CERTS; i++) {
		unlink(paths[i][0]);
		unlink(paths[i][1]);
	}
	rmdir(dir);
}

FIXTURE_ONCE(make_all, drop_all)

/* A listener with all of them, in their order. */
static void start(void)
{
	struct sl_cfg_file files[2][CERTS];
	struct sl_cfg_tls cfg = {.handshake_threads = 1,
				 .certificates = files[0],
				 .keys = files[1],
				 .certificate_cnt = CERTS,
				 .key_cnt = CERTS};
	struct conf_diags mistakes = {.file = "test"};
	struct sl_tls_tickets *own = sl_tls_tickets_new();
	struct sl_cfg_listener listener = {0};
	struct sl_config one = {.listeners = &listener, .listener_cnt = 1};

	talk_start();
	for (unsigned i = 0; i < CERTS; i++) {
		for (unsigned k = 0; k < 2; k++)
			files[k][i] = (struct sl_cfg_file){paths[i][k], 1};
	}
	listener.tls_server = sl_tls_server_new(&cfg, own, &mistakes);
	ck_assert_ptr_nonnull(listener.tls_server);
	sl_tls_set_listeners(bed.tls, &one);
	sl_tls_server_put(listener.tls_server);
	sl_tls_tickets_put(own);
}

/* Index of the certificate that it was shown; our own account of it is the same. */
static unsigned shown_to(SSL *ssl, const struct bed_conn *b)
{
	struct sl_conn_info in;
	char *pem;
	long len;
	BIO *out = BIO_new(BIO_s_mem());
	X509 *x = SSL_get1_peer_certificate(ssl);
	unsigned found = CERTS;

	b->filter->offers->info(b->filter, &in);
	PEM_write_bio_X509(out, x);
	len = BIO_get_mem_data(out, &pem);
	for (unsigned i = 0; i < CERTS; i++) {
		char text[4096];
		FILE *f = fopen(paths[i][0], "r");

		if (fread(text, 1, sizeof(text), f) == (size_t)len &&
		    !memcmp(text, pem, (size_t)len))
			found = i;
		fclose(f);
	}
	ck_assert_uint_lt(found, CERTS);
	ck_assert_str_eq(in.tls.cert->file, paths[found][0]);
	X509_free(x);
	BIO_free(out);
	return found;
}

static const struct {
	const char *name, *algorithms;
	unsigned cert;
} names[] = {
	{"first.example", NULL, 0},
	{"c.example", NULL, 1},
	{"y.b.example", NULL, 1},
	{"x.b.example", NULL, 2}, /* exact before wildcard */
	{"X.B.Example.", NULL, 2},
	{"b.example", NULL, 0},
	{"y.x.b.example", NULL, 0},
	{"other.example", NULL, 0},
	{NULL, NULL, 0},
	{"first.example", "RSA-PSS+SHA256", 3},
	{NULL, "RSA-PSS+SHA256", 3},
	{"first.example", "ECDSA+SHA256", 0},
	{"c.example", "ECDSA+SHA256", 1},
};

TEST_EACH(a_certificate_is_chosen_by_name_and_kind_of_key, SL_ARRAY_LEN(names))
{
	struct bed_conn *b;
	SSL *ssl;

	start();
	ssl = talk_client("X25519");
	b = bed_accept(0);
	if (names[_i].name)
		ck_assert_int_eq(SSL_set_tlsext_host_name(ssl, names[_i].name), 1);
	if (names[_i].algorithms)
		ck_assert_int_eq(SSL_set1_sigalgs_list(ssl, names[_i].algorithms), 1);
	talk(ssl, b, BED_SEGMENT);
	ck_assert_uint_eq(shown_to(ssl, b), names[_i].cert);
	talk_leave(ssl, b);
	talk_stop();
}

static void settle(const char *groups, const char *suites, const char *protocols, const char *want)
{
	SSL *ssl = talk_client(groups);
	struct bed_conn *b = bed_accept(0);
	const uint8_t *chosen;
	unsigned len;

	if (suites)
		ck_assert_int_eq(SSL_set_ciphersuites(ssl, suites), 1);
	if (protocols)
		SSL_set_alpn_protos(ssl, (const uint8_t *)protocols, (unsigned)strlen(protocols));
	talk(ssl, b, BED_SEGMENT);
	SSL_get0_alpn_selected(ssl, &chosen, &len);
	ck_assert_uint_eq(len, strlen(want));
	ck_assert(!len || memcmp(chosen, want, len) == 0);
	if (suites)
		ck_assert_str_eq(SSL_get_cipher(ssl), suites);
	talk_leave(ssl, b);
}

TEST(h2_is_chosen_where_both_are_spoken)
{
	start();
	settle("X25519", NULL, "\x08http/1.1\x02h2", "h2");
	settle("X25519", NULL, "\x02h2", "h2");
	settle("X25519", NULL, "\x08http/1.1\x08spdy/3.1", "http/1.1");
	settle("X25519", NULL, NULL, "");
	talk_stop();
}

TEST(a_length_of_records_is_answered_and_kept)
{
	struct bed_conn *b;
	SSL *ssl;

	start();
	ssl = talk_client("X25519");
	ck_assert_int_eq(SSL_set_tlsext_max_fragment_length(ssl, TLSEXT_max_fragment_length_1024),
			 1);
	b = bed_accept(0);
	talk(ssl, b, BED_SEGMENT);
	ck_assert_uint_eq(sl_container_of(b->filter, struct sl_tls_conn, filter)->piece_max, 1024);
	talk_leave(ssl, b);
	talk_stop();
}

TEST(each_group_and_suite_is_spoken)
{
	start();
	settle("X25519", "TLS_AES_128_GCM_SHA256", NULL, "");
	settle("P-256", "TLS_AES_256_GCM_SHA384", NULL, "");
	settle("P-384", "TLS_CHACHA20_POLY1305_SHA256", NULL, "");
	talk_stop();
}

/* Checks that the handshake ends before there are keys, with the right alert. */
static void ck_refused(SSL *ssl, enum sl_tls_end end)
{
	struct bed_conn *b = bed_accept(0);

	while (!b->closed && SSL_do_handshake(ssl) <= 0)
		ck_assert(talk_exchange(ssl, b, BED_SEGMENT));
	ck_assert(b->closed && !b->opened_told);
	ck_assert_uint_eq(b->sent[0], SL_TLS_ALERT);
	ck_assert_uint_eq(b->sent[SL_TLS_HEAD + 1], sl_tls_alert_of(end));
	ck_assert_uint_eq(bed.tls->stats.ends[end], 1);
	SSL_free(ssl);
	talk_stop();
}

TEST(a_version_before_1_3_is_refused)
{
	SSL *ssl;

	start();
	ssl = talk_client("X25519");
	ck_assert_int_eq(SSL_set_max_proto_version(ssl, TLS1_2_VERSION), 1);
	ck_refused(ssl, SL_TLS_END_VERSION);
}

TEST(no_protocol_in_common_is_refused)
{
	SSL *ssl;

	start();
	ssl = talk_client("X25519");
	SSL_set_alpn_protos(ssl, (const uint8_t *)"\x08spdy/3.1", 9);
	ck_refused(ssl, SL_TLS_END_NO_ALPN);
}

TEST(no_group_in_common_is_refused)
{
	start();
	ck_refused(talk_client("P-521"), SL_TLS_END_HANDSHAKE_FAILURE);
}

TEST(no_kind_of_key_in_common_is_refused)
{
	SSL *ssl;

	start();
	ssl = talk_client("X25519");
	ck_assert_int_eq(SSL_set_tlsext_host_name(ssl, "c.example"), 1);
	ck_assert_int_eq(SSL_set1_sigalgs_list(ssl, "RSA-PSS+SHA256"), 1);
	ck_refused(ssl, SL_TLS_END_HANDSHAKE_FAILURE);
}
