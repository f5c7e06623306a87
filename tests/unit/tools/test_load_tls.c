/* SPDX-License-Identifier: Apache-2.0 */
/* The load generator's TLS, with OpenSSL as the server, and a wire that is cut into pieces. */
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "front/tls/record.h"
#include "suite.h"
#include "tools/load/tls.h"

static const char request[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
static const char reply[] = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

static struct sl_load_options o;
static struct sl_load_result r;
static struct sl_load_conn c;
static struct sl_load l;
static uint64_t meant[4];
static SSL_CTX *ctx;
static SSL *server;
static bool room, hung_up;
static size_t piece;

static bool has_room(struct sl_load *load, struct sl_load_conn *conn, size_t len)
{
	(void)load;
	(void)conn;
	(void)len;
	return room;
}

static bool to_server(struct sl_load *load, struct sl_load_conn *conn, struct sl_span bytes)
{
	(void)load;
	(void)conn;
	ck_assert(room);
	return BIO_write(SSL_get_rbio(server), bytes.ptr, (int)bytes.len) == (int)bytes.len;
}

static void hang_up(struct sl_load *load, struct sl_load_conn *conn)
{
	(void)load;
	(void)conn;
	hung_up = true;
}

static const struct sl_load_io io = {.has_room = has_room, .send = to_server, .close = hang_up};

static SSL_CTX *make_server(void)
{
	SSL_CTX *made = SSL_CTX_new(TLS_server_method());
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *x = X509_new();

	X509_gmtime_adj(X509_getm_notBefore(x), 0);
	X509_gmtime_adj(X509_getm_notAfter(x), 86400);
	ck_assert(X509_set_pubkey(x, key) && X509_sign(x, key, EVP_sha256()));
	ck_assert_int_eq(SSL_CTX_use_cert_and_key(made, x, key, NULL, 1), 1);
	X509_free(x);
	EVP_PKEY_free(key);
	return made;
}

static void begin(size_t request_len)
{
	struct sl_err err = SL_ERR(256);

	o = (struct sl_load_options){.connections = 1, .depth = 4, .method = "GET", .tls = true};
	r = (struct sl_load_result){0};
	l = (struct sl_load){.o = &o,
			     .r = &r,
			     .io = &io,
			     .conns = &c,
			     .measuring = true,
			     .request_len = request_len};
	c = (struct sl_load_conn){.load = &l, .meant = meant};
	ck_assert_int_eq(sl_hist_fine_init(&r.latency, SL_HIST_FINE_SUB_BITS), 0);
	ck_assert_int_eq(sl_load_tls_init(&l, &err), 0);
	ctx = make_server();
	server = SSL_new(ctx);
	SSL_set_bio(server, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
	SSL_set_accept_state(server);
	room = true;
	hung_up = false;
	piece = SIZE_MAX;
}

static void set_up(void)
{
	begin(sizeof(request) - 1);
}

static void tear_down(void)
{
	sl_load_tls_fini(&l);
	sl_hist_fine_fini(&r.latency);
	SSL_free(server);
	SSL_CTX_free(ctx);
}

FIXTURE(set_up, tear_down)

/* Passes the server's bytes to the client in pieces of `piece` bytes. */
static void to_client(void)
{
	static uint8_t bytes[1 << 17];
	int len = BIO_read(SSL_get_wbio(server), bytes, sizeof(bytes));

	for (size_t at = 0; len > 0 && at < (size_t)len && !hung_up;) {
		size_t n = (size_t)len - at < piece ? (size_t)len - at : piece;

		sl_load_data(&l, &c, sl_span_of(bytes + at, n));
		at += n;
	}
}

static void shake_hands(void)
{
	c.state = SL_CONN_OPENING;
	sl_load_connected(&l, &c);
	for (int i = 0; i < 4 && SSL_do_handshake(server) != 1; i++) {
		ck_assert_int_ne(c.state, SL_CONN_OPEN);
		to_client();
	}
	to_client(); /* the tickets */
	ck_assert_int_eq(c.state, SL_CONN_OPEN);
	ck_assert_uint_eq(r.connects, 1);
}

static void ask(void)
{
	ck_assert(sl_load_tls_send(&l, &c, sl_span_of(request, sizeof(request) - 1)));
	c.in_flight++;
}

static void answer(void)
{
	char got[sizeof(request)];

	ck_assert_int_eq(SSL_read(server, got, sizeof(got)), sizeof(request) - 1);
	ck_assert_mem_eq(got, request, sizeof(request) - 1);
	ck_assert_int_eq(SSL_write(server, reply, sizeof(reply) - 1), sizeof(reply) - 1);
	to_client();
}

TEST(requests_and_replies_pass_through_tls)
{
	shake_hands();
	for (unsigned i = 1; i <= 3; i++) {
		ask();
		answer();
		ck_assert_uint_eq(r.requests, i);
	}
	ck_assert(!hung_up);
}

TEST(records_come_in_pieces_of_any_length)
{
	piece = 1;
	shake_hands();
	for (piece = 1; piece < 70; piece++) {
		ask();
		answer();
		ck_assert_uint_eq(r.requests, piece);
	}
}

TEST(the_server_chooses_another_suite)
{
	SSL_set_ciphersuites(server, "TLS_CHACHA20_POLY1305_SHA256");
	shake_hands();
	ask();
	answer();
	ck_assert_uint_eq(r.requests, 1);
}

TEST(records_may_be_padded)
{
	SSL_set_block_padding(server, 256);
	shake_hands();
	ask();
	answer();
	ck_assert_uint_eq(r.requests, 1);
}

TEST(a_long_request_is_several_records)
{
	static char body[40000], got[40000];
	int at = 0, n;

	tear_down();
	begin(sizeof(body));
	memset(body, 'x', sizeof(body));
	shake_hands();
	ck_assert(sl_load_tls_send(&l, &c, sl_span_of(body, sizeof(body))));
	while ((n = SSL_read(server, got + at, (int)sizeof(got) - at)) > 0)
		at += n;
	ck_assert_mem_eq(got, body, sizeof(body));
}

static unsigned updates; /* by the client */

static void count_updates(int sent, int version, int type, const void *bytes, size_t len, SSL *ssl,
			  void *arg)
{
	(void)version;
	(void)ssl;
	(void)arg;
	updates += !sent && type == SL_TLS_HANDSHAKE && len && *(const uint8_t *)bytes == 24;
}

TEST(keys_are_updated_both_ways)
{
	updates = 0;
	shake_hands();
	SSL_set_msg_callback(server, count_updates);
	for (unsigned i = 1; i <= 2; i++) {
		ck_assert(SSL_key_update(server, SSL_KEY_UPDATE_REQUESTED));
		ck_assert_int_eq(SSL_do_handshake(server), 1); /* says so */
		to_client();
		ask();
		answer();
		ck_assert_uint_eq(r.requests, i);
		ck_assert_uint_eq(updates, i);
	}
}

TEST(without_room_nothing_is_sealed)
{
	shake_hands();
	room = false;
	ck_assert(!sl_load_tls_send(&l, &c, sl_span_of(request, sizeof(request) - 1)));
	room = true;
	ask();
	answer();
	ck_assert_uint_eq(r.requests, 1);
}

TEST(the_servers_end_is_the_connections)
{
	shake_hands();
	ask();
	SSL_shutdown(server);
	to_client();
	ck_assert(hung_up);
	ck_assert_int_eq(c.state, SL_CONN_CLOSED);
	ck_assert_uint_eq(r.errors[SL_LOAD_RESET], 1);
}

TEST(a_record_that_is_changed_ends_the_connection)
{
	uint8_t bytes[256];
	int len;

	shake_hands();
	ask();
	SSL_write(server, reply, sizeof(reply) - 1);
	len = BIO_read(SSL_get_wbio(server), bytes, sizeof(bytes));
	bytes[20] ^= 1;
	sl_load_data(&l, &c, sl_span_of(bytes, (size_t)len));
	ck_assert(hung_up);
	ck_assert_uint_eq(r.errors[SL_LOAD_MALFORMED], 1);
	ck_assert_uint_eq(r.requests, 0);
}

TEST(server_without_tls_counts_as_a_connect_error)
{
	static const uint8_t plain[] = "HTTP/1.1 400 Bad Request\r\n\r\n";

	c.state = SL_CONN_OPENING;
	sl_load_connected(&l, &c);
	sl_load_data(&l, &c, sl_span_of(plain, sizeof(plain) - 1));
	ck_assert(hung_up);
	ck_assert_uint_eq(r.errors[SL_LOAD_CONNECT], 1);
	/* It may be opened anew. */
	SSL_clear(server);
	BIO_reset(SSL_get_rbio(server));
	hung_up = false;
	shake_hands();
}

TEST(a_record_above_the_limit_is_not_held)
{
	static const uint8_t head[] = {23, 3, 3, 0xff, 0xff, 0};

	shake_hands();
	ask();
	sl_load_data(&l, &c, sl_span_of(head, sizeof(head)));
	ck_assert(hung_up);
	ck_assert_uint_eq(r.errors[SL_LOAD_MALFORMED], 1);
}
