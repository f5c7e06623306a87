/* SPDX-License-Identifier: Apache-2.0 */
/* Client certificates: acceptance, the identity that is passed on, and the failures of others. */
#include <openssl/x509v3.h>

#include "suite.h"
#include "tls_talk.h"

enum { HOUR_S = 3600 };

#define OPEN SL_TLS_END_CNT /* it does not end */

struct issued {
	X509 *cert;
	EVP_PKEY *key;
};

enum issuer { NOBODY, ROOT, STRANGER, MIDDLE, LEAF, ITSELF, ISSUER_CNT };

static struct issued issuers[ISSUER_CNT];
static char dir[] = "/tmp/sl-tls-who-XXXXXX", pem[64], key[64], ca[64];
static uint8_t heard_alert;

static void extend(X509 *x, int nid, const char *value)
{
	X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, NULL, nid, value);

	bed_require(e && X509_add_ext(x, e, -1));
	X509_EXTENSION_free(e);
}

/* Begins a certificate, issued by another or by itself; sign() finishes it. */
static struct issued begin(const char *name, bool is_ca)
{
	static int serial;
	struct issued made = {X509_new(), EVP_EC_gen("P-256")};
	X509_NAME *subject = X509_get_subject_name(made.cert);

	X509_set_version(made.cert, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(made.cert), ++serial);
	X509_gmtime_adj(X509_getm_notBefore(made.cert), -HOUR_S);
	X509_gmtime_adj(X509_getm_notAfter(made.cert), HOUR_S);
	X509_NAME_add_entry_by_txt(subject, "O", MBSTRING_UTF8, (const uint8_t *)"Shop", -1, -1, 0);
	X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, (const uint8_t *)name, -1, -1, 0);
	X509_set_pubkey(made.cert, made.key);
	extend(made.cert, NID_basic_constraints, is_ca ? "critical,CA:TRUE" : "CA:FALSE");
	return made;
}

static struct issued sign(struct issued made, enum issuer by)
{
	const struct issued *issuer = by == ITSELF ? &made : &issuers[by];

	X509_set_issuer_name(made.cert, X509_get_subject_name(issuer->cert));
	bed_require(X509_sign(made.cert, issuer->key, EVP_sha256()) > 0);
	return made;
}

static void let_go(struct issued *made)
{
	X509_free(made->cert);
	EVP_PKEY_free(made->key);
}

/* Types and texts, which may be what no tool would write. */
struct name {
	int type;
	const char *text;
	int len;
};

static void add_names(X509 *x, const struct name *names, size_t cnt)
{
	GENERAL_NAMES *all = sk_GENERAL_NAME_new_null();

	for (size_t i = 0; i < cnt && names[i].text; i++) {
		GENERAL_NAME *g = GENERAL_NAME_new();
		ASN1_IA5STRING *s = ASN1_IA5STRING_new();

		ASN1_STRING_set(s, names[i].text,
				names[i].len ? names[i].len : (int)strlen(names[i].text));
		GENERAL_NAME_set0_value(g, names[i].type, s);
		sk_GENERAL_NAME_push(all, g);
	}
	bed_require(X509_add1_ext_i2d(x, NID_subject_alt_name, all, 0, 0) == 1);
	GENERAL_NAMES_free(all);
}

static void set_up(void)
{
	static const char *const names[] = {
		[ROOT] = "root", [STRANGER] = "stranger", [MIDDLE] = "middle", [LEAF] = "leaf"};
	FILE *f;

	talk_start();
	bed_require(mkdtemp(dir));
	snprintf(pem, sizeof(pem), "%s/pem", dir);
	snprintf(key, sizeof(key), "%s/key", dir);
	snprintf(ca, sizeof(ca), "%s/ca", dir);
	bed_write_pair(pem, key);
	for (unsigned i = ROOT; i <= LEAF; i++)
		issuers[i] = sign(begin(names[i], i != LEAF), i < MIDDLE ? ITSELF : ROOT);
	f = fopen(ca, "w");
	bed_require(f && PEM_write_X509(f, issuers[ROOT].cert) && fclose(f) == 0);
}

static void tear_down(void)
{
	for (unsigned i = ROOT; i <= LEAF; i++)
		let_go(&issuers[i]);
	talk_stop();
	unlink(pem);
	unlink(key);
	unlink(ca);
	rmdir(dir);
}

FIXTURE(set_up, tear_down)

static void ask_for(enum sl_client_cert how)
{
	struct sl_cfg_file files[3] = {{pem, 1}, {key, 1}, {ca, 1}};
	struct sl_cfg_tls cfg = {.handshake_threads = 1,
				 .certificates = &files[0],
				 .keys = &files[1],
				 .certificate_cnt = 1,
				 .key_cnt = 1,
				 .client_ca = files[2],
				 .client = (uint8_t)how};
	struct conf_diags mistakes = {.file = "test"};
	static struct sl_tls_tickets *own;
	struct sl_cfg_listener listener = {0};
	struct sl_config one = {.listeners = &listener, .listener_cnt = 1};

	if (!own)
		own = sl_tls_tickets_new();
	listener.tls_server = sl_tls_server_new(&cfg, own, &mistakes);
	ck_assert_ptr_nonnull(listener.tls_server);
	sl_tls_set_listeners(bed.tls, &one);
	sl_tls_server_put(listener.tls_server);
}

static void note_alert(const SSL *ssl, int where, int value)
{
	(void)ssl;
	if ((where & SSL_CB_READ_ALERT) == SSL_CB_READ_ALERT)
		heard_alert = (uint8_t)value;
}

static SSL *client_with(const struct issued *who, bool with_middle)
{
	SSL *ssl = talk_client("X25519");

	SSL_set_info_callback(ssl, note_alert);
	heard_alert = 255;
	if (who && who->cert)
		ck_assert(SSL_use_certificate(ssl, who->cert) && SSL_use_PrivateKey(ssl, who->key));
	if (with_middle)
		ck_assert_int_eq(SSL_add1_chain_cert(ssl, issuers[MIDDLE].cert), 1);
	return ssl;
}

static void ck_refused(SSL *ssl, struct bed_conn *b, enum sl_tls_end end, const char *what)
{
	char none[1];

	while (!b->closed && SSL_do_handshake(ssl) <= 0)
		ck_assert(talk_exchange(ssl, b, BED_SEGMENT));
	while (!b->closed)
		ck_assert_msg(talk_exchange(ssl, b, BED_SEGMENT), "%s: let in", what);
	ck_assert_int_le(SSL_read(ssl, none, 1), 0);
	ck_assert_msg(!b->opened_told && !b->got_len, "%s: opened", what);
	ck_assert_msg(bed.tls->stats.ends[end] == 1, "%s: not counted so", what);
	ck_assert_msg(sl_tls_end_of(heard_alert) == end, "%s: alert %u", what, heard_alert);
	ck_assert_uint_eq(bed.tls->stats.full, 0);
	SSL_free(ssl);
}

static void ck_known(const struct bed_conn *b, const char *subject, const char *san)
{
	struct sl_conn_info in;

	b->filter->offers->info(b->filter, &in);
	ck_assert_msg(sl_span_eq(in.tls.subject, sl_span_cstr(subject)), "%.*s",
		      (int)in.tls.subject.len, (const char *)in.tls.subject.ptr);
	ck_assert_msg(sl_span_eq(in.tls.san, sl_span_cstr(san)), "%.*s", (int)in.tls.san.len,
		      (const char *)in.tls.san.ptr);
}

static const struct {
	const char *what;
	enum issuer by;
	int begins_s, ends_s;
	const char *usage;
	bool with_middle, optional;
	enum sl_tls_end end;
} cases[] = {
	{.what = "none", .end = SL_TLS_END_NO_CERTIFICATE},
	{.what = "none, which is an option", .optional = true, .end = OPEN},
	{.what = "good", .by = ROOT, .end = OPEN},
	{.what = "good, as an option", .by = ROOT, .optional = true, .end = OPEN},
	{.what = "for clients", .by = ROOT, .usage = "clientAuth", .end = OPEN},
	{.what = "for servers",
	 .by = ROOT,
	 .usage = "serverAuth",
	 .end = SL_TLS_END_BAD_CERTIFICATE},
	{.what = "ended", .by = ROOT, .ends_s = -60, .end = SL_TLS_END_EXPIRED},
	{.what = "ended, as an option",
	 .by = ROOT,
	 .ends_s = -60,
	 .optional = true,
	 .end = SL_TLS_END_EXPIRED},
	{.what = "not begun", .by = ROOT, .begins_s = 600, .end = SL_TLS_END_BAD_CERTIFICATE},
	{.what = "of a stranger", .by = STRANGER, .end = SL_TLS_END_UNKNOWN_CA},
	{.what = "of a stranger, as an option",
	 .by = STRANGER,
	 .optional = true,
	 .end = SL_TLS_END_UNKNOWN_CA},
	{.what = "of itself", .by = ITSELF, .end = SL_TLS_END_UNKNOWN_CA},
	{.what = "by way of another", .by = MIDDLE, .with_middle = true, .end = OPEN},
	{.what = "by way of another that is missing", .by = MIDDLE, .end = SL_TLS_END_UNKNOWN_CA},
	{.what = "of who may not issue", .by = LEAF, .end = SL_TLS_END_UNKNOWN_CA},
};

TEST_EACH(each_certificate_gets_its_rights, SL_ARRAY_LEN(cases))
{
	struct issued who = {0};
	struct bed_conn *b;
	SSL *ssl;

	ask_for(cases[_i].optional ? SL_CLIENT_CERT_OPTIONAL : SL_CLIENT_CERT_REQUIRE);
	if (cases[_i].by) {
		who = begin("alice", false);
		if (cases[_i].begins_s)
			X509_gmtime_adj(X509_getm_notBefore(who.cert), cases[_i].begins_s);
		if (cases[_i].ends_s)
			X509_gmtime_adj(X509_getm_notAfter(who.cert), cases[_i].ends_s);
		if (cases[_i].usage)
			extend(who.cert, NID_ext_key_usage, cases[_i].usage);
		who = sign(who, cases[_i].by);
	}
	ssl = client_with(&who, cases[_i].with_middle);
	if (cases[_i].by == LEAF)
		SSL_add1_chain_cert(ssl, issuers[LEAF].cert);
	b = bed_accept(0);
	if (cases[_i].end == OPEN) {
		talk(ssl, b, BED_SEGMENT);
		ck_known(b, cases[_i].by ? "CN=alice,O=Shop" : "", "");
		talk_leave(ssl, b);
	} else {
		ck_refused(ssl, b, cases[_i].end, cases[_i].what);
	}
	let_go(&who);
}

/* The same client again, by its ticket: it shows no certificate, and is known still. */
TEST(a_resumed_client_keeps_its_identity)
{
	struct issued who = sign(begin("alice", false), ROOT);

	ask_for(SL_CLIENT_CERT_REQUIRE);
	for (unsigned i = 0; i < 3; i++) {
		SSL *ssl = client_with(i ? NULL : &who, false);
		struct bed_conn *b = bed_accept(i);

		if (i)
			ck_assert_int_eq(SSL_set_session(ssl, talk_session), 1);
		talk(ssl, b, BED_SEGMENT);
		ck_assert_int_eq(SSL_session_reused(ssl), i > 0);
		ck_known(b, "CN=alice,O=Shop", "");
		talk_leave(ssl, b);
	}
	let_go(&who);
}

/* A ticket is worthless if other issuers or requirements hold now. */
TEST(a_ticket_is_not_good_where_others_are_trusted)
{
	struct issued who = sign(begin("alice", false), ROOT);
	SSL *ssl = client_with(&who, false);
	struct bed_conn *b;
	FILE *f;

	ask_for(SL_CLIENT_CERT_OPTIONAL);
	b = bed_accept(0);
	talk(ssl, b, BED_SEGMENT);
	talk_leave(ssl, b);
	f = fopen(ca, "w");
	bed_require(f && PEM_write_X509(f, issuers[STRANGER].cert) && fclose(f) == 0);
	for (unsigned how = 0; how < 2; how++) {
		SSL_SESSION *shown = SSL_SESSION_dup(talk_session);

		ask_for(how ? SL_CLIENT_CERT_OPTIONAL : SL_CLIENT_CERT_REQUIRE);
		ssl = client_with(NULL, false);
		ck_assert_int_eq(SSL_set_session(ssl, shown), 1);
		b = bed_accept(1 + how);
		if (how) {
			talk(ssl, b, BED_SEGMENT);
			ck_assert(!SSL_session_reused(ssl));
			ck_known(b, "", "");
			talk_leave(ssl, b);
		} else {
			bed.tls->stats.full = 0;
			ck_refused(ssl, b, SL_TLS_END_NO_CERTIFICATE, "a ticket");
		}
		SSL_SESSION_free(shown);
	}
	let_go(&who);
}

/* --- what is said of him --- */

static void named(const char *subject, const struct name *names, size_t cnt,
		  const char *want_subject, const char *want_san)
{
	struct issued who = begin(subject, false);
	struct bed_conn *b;
	SSL *ssl;

	if (cnt)
		add_names(who.cert, names, cnt);
	who = sign(who, ROOT);
	ask_for(SL_CLIENT_CERT_REQUIRE);
	ssl = client_with(&who, false);
	b = bed_accept(0);
	if (want_subject) {
		talk(ssl, b, BED_SEGMENT);
		ck_known(b, want_subject, want_san);
		talk_leave(ssl, b);
	} else {
		ck_refused(ssl, b, SL_TLS_END_BAD_CERTIFICATE, subject);
	}
	let_go(&who);
}

TEST(certificate_names_are_forwarded_with_their_kind)
{
	static const struct name names[] = {{GEN_URI, "spiffe://shop/alice", 0},
					    {GEN_DNS, "a.example", 0},
					    {GEN_EMAIL, "a@example", 0}};

	named("alice", names, SL_ARRAY_LEN(names), "CN=alice,O=Shop",
	      "URI:spiffe://shop/alice,DNS:a.example,email:a@example");
}

/* One name must not read as two, whatever its issuer let it be. */
TEST(a_name_cannot_pass_for_others)
{
	static const struct name names[] = {{GEN_URI, "http://x/,DNS:admin.example", 0},
					    {GEN_EMAIL, "\"a,URI:b\"@example", 0},
					    {GEN_DNS, "b%2c.example", 0}};

	named("alice", names, SL_ARRAY_LEN(names), "CN=alice,O=Shop",
	      "URI:http://x/%2CDNS:admin.example,email:\"a%2CURI:b\"@example,DNS:b%2c.example");
	named("alice,O=Other", NULL, 0, "CN=alice\\,O=Other,O=Shop", "");
}

TEST(letters_beyond_ascii_are_written_in_it)
{
	named("J\xc3\xb6rg", NULL, 0, "CN=J\\C3\\B6rg,O=Shop", "");
	named("a\r\nx: y", NULL, 0, "CN=a\\0D\\0Ax: y,O=Shop", "");
}

/* Half a name would be another's. */
TEST(an_identity_that_does_not_fit_is_refused)
{
	static char long_text[SL_TLS_IDENTITY_MAX + 1];
	static const struct name zero = {GEN_DNS, "a\0.example", 10},
				 lines = {GEN_URI, "x\r\ny: z", 0},
				 too_long = {GEN_DNS, long_text, 0};
	const struct name *all[] = {&zero, &lines, &too_long};

	memset(long_text, 'x', SL_TLS_IDENTITY_MAX);
	for (unsigned i = 0; i < SL_ARRAY_LEN(all); i++) {
		bed.tls->stats.ends[SL_TLS_END_BAD_CERTIFICATE] = 0;
		bed.tls->stats.full = 0;
		named("alice", all[i], 1, NULL, NULL);
		bed_release(&bed.conns[0]);
		bed.conns[0].filter->below_tells->closed(bed.conns[0].filter);
	}
}
