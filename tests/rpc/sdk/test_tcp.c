/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cases of tcp only: authentication, an attacker between the ends, and the amount of data in kernel
 * buffers. The other suites, which run over tcp too, cover the transfer of messages.
 */
#include <arpa/inet.h>
#include <openssl/x509.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include "base/check.h"
#include "rpc_harness.h"
#include "rpc/tcpsock/sock.h"
#include "suite.h"

enum { CROWD = 100 };

static void echo(void *arg, struct sl_batch *batch)
{
	(void)arg;
	for (unsigned i = 0; i < batch->count; i++)
		sl_reply(batch->requests[i],
			 &(struct sl_reply_args){.body = batch->requests[i]->body,
						 .body_len = batch->requests[i]->body_len});
}

/* An address of this process, whatever the other suites run over. */
static const char *endpoint(void)
{
	return endpoint_named("tcp", 3);
}

static struct backend_proc start_echo(void)
{
	return backend_start(&(struct sl_backend_options){.listen = endpoint(), .on_batch = echo});
}

static void check_served(void)
{
	struct gateway g;
	struct call c;

	gw_open(&g, endpoint());
	call_init(&c, 16);
	ck_assert_int_eq(
		gw_send(&g, &c, sl_span_of(NULL, 0), sl_span_str("hello"), 0, SL_CLASS_NORMAL), 0);
	gw_until(&g, c.done && g.batches_done == 1);
	ck_assert_uint_eq(c.len, 5);
	gw_close(&g);
}

static struct sockaddr_in address_of(const char *ep)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons(7471)};
	char host[32];

	snprintf(host, sizeof(host), "%.*s", (int)strcspn(ep + 6, ":"), ep + 6);
	ck_assert_int_eq(inet_pton(AF_INET, host, &sa.sin_addr), 1);
	return sa;
}

/* Connected to the backend, from that address. */
static int knock(const char *from)
{
	struct sockaddr_in to = address_of(endpoint()), sa = {.sin_family = AF_INET};
	int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ck_assert_int_eq(inet_pton(AF_INET, from, &sa.sin_addr), 1);
	ck_assert_int_eq(bind(sock, (struct sockaddr *)&sa, sizeof(sa)), 0);
	ck_assert_int_eq(connect(sock, (struct sockaddr *)&to, sizeof(to)), 0);
	return sock;
}

/* Reads until the other end has had enough. */
static void await_end(int sock)
{
	uint8_t bytes[4096];
	struct pollfd p = {.fd = sock, .events = POLLIN};

	do
		ck_assert_msg(poll(&p, 1, (int)harness_timeout_s() * 1000) == 1, "it goes on");
	while (recv(sock, bytes, sizeof(bytes), 0) > 0);
	close(sock);
}

static void dial_refused(const char *ep, const char *key_file, const char *says)
{
	struct sl_rpc_dial_options opt = {.endpoint = ep,
					  .key_file = key_file,
					  .bulk_ring_len = 1 << 20,
					  .slots = 64,
					  .timeout_ms = 5000};
	struct sl_err err = SL_ERR(256);

	ck_assert_ptr_null(sl_rpc_dial(&opt, &err));
	ck_assert_msg(strstr(err.text, says) != NULL, "%s", err.text);
}

/* --- authentication --- */

TEST(another_key_is_refused_with_a_reason)
{
	static const char key[] = "another key than the tests have";
	struct backend_proc p = start_echo();
	int fd = memfd_create("key", MFD_CLOEXEC);
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ck_assert_int_eq(fchmod(fd, 0600), 0);
	ck_assert_int_eq(write(fd, key, sizeof(key)), sizeof(key));
	check_served();
	dial_refused(endpoint(), path, "another key");
	dial_refused(endpoint(), NULL, "needs a key file");
	check_served();
	backend_term(p);
}

/* --- an end that has no key, but a certificate --- */

static SSL_CTX *certified(void)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *cert = X509_new();

	ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
	X509_gmtime_adj(X509_getm_notBefore(cert), -1000);
	X509_gmtime_adj(X509_getm_notAfter(cert), 100000);
	ck_assert_int_eq(X509_set_pubkey(cert, key), 1);
	ck_assert_int_gt(X509_sign(cert, key, EVP_sha256()), 0);
	ck_assert_int_eq(SSL_CTX_use_certificate(ctx, cert), 1);
	ck_assert_int_eq(SSL_CTX_use_PrivateKey(ctx, key), 1);
	X509_free(cert);
	EVP_PKEY_free(key);
	return ctx;
}

static int listen_here(void)
{
	struct sockaddr_in sa = address_of(endpoint());
	int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	ck_assert_int_eq(bind(sock, (struct sockaddr *)&sa, sizeof(sa)), 0);
	ck_assert_int_eq(listen(sock, 4), 0);
	return sock;
}

static void *serve_certified(void *arg)
{
	SSL_CTX *ctx = certified();
	SSL *ssl = SSL_new(ctx);
	int sock = accept(*(int *)arg, NULL, NULL);
	bool accepted;

	SSL_set_fd(ssl, sock);
	accepted = SSL_accept(ssl) == 1;
	SSL_free(ssl);
	SSL_CTX_free(ctx);
	close(sock);
	return accepted ? arg : NULL;
}

TEST(a_certificate_proves_nothing)
{
	int sock = listen_here();
	pthread_t thread;
	void *accepted;

	ck_assert_int_eq(pthread_create(&thread, NULL, serve_certified, &sock), 0);
	dial_refused(endpoint(), harness_key(), "shows a certificate and does not know the key");
	pthread_join(thread, &accepted);
	ck_assert_ptr_null(accepted);
	close(sock);
}

/* --- peers that have proven nothing --- */

static const struct {
	const char *what, *bytes;
	size_t len;
} firsts[] = {
	{"another protocol", "GET / HTTP/1.1\r\n\r\n", 18},
	{"an alert", "\x15\x03\x01\x00\x02\x02\x28", 7},
	{"a record longer than ours", "\x16\x03\x01\x40\x00\x01", 6},
	{"an empty record", "\x16\x03\x01\x00\x00", 5},
	{"another message", "\x16\x03\x01\x00\x04\x02\x00\x00\x00", 9},
	{"a message longer than its record", "\x16\x03\x01\x00\x05\x01\x00\xff\xff\x00", 10},
	{"a ClientHello of nothing", "\x16\x03\x01\x00\x04\x01\x00\x00\x00", 9},
	{"half of one", "\x16\x03\x01\x01\x00\x01\x00\x00\xfc\x03\x03", 11},
	{"nothing", "", 0},
};

/* Each is ended, those that could become something when their time is over, and others are served. */
TEST_EACH(a_peer_that_sends_garbage_is_dropped, SL_ARRAY_LEN(firsts))
{
	struct backend_proc p = start_echo();
	int sock;

	check_served();
	sock = knock("127.0.0.1");
	ck_assert_int_eq(send(sock, firsts[_i].bytes, firsts[_i].len, 0), (ssize_t)firsts[_i].len);
	check_served();
	await_end(sock);
	backend_term(p);
}

static _Atomic bool crowd_goes;

static void *crowd_main(void *arg)
{
	int socks[CROWD];
	uint8_t byte;

	(void)arg;
	for (unsigned i = 0; i < CROWD; i++)
		socks[i] = knock("127.99.0.1");
	while (!atomic_load(&crowd_goes)) {
		for (unsigned i = 0; i < CROWD; i++) {
			ssize_t n = recv(socks[i], &byte, 1, MSG_DONTWAIT);

			if (n < 0 && errno == EAGAIN)
				continue;
			close(socks[i]);
			socks[i] = knock("127.99.0.1");
		}
	}
	for (unsigned i = 0; i < CROWD; i++)
		close(socks[i]);
	return NULL;
}

/* Three times as many peers as there are slots, which reconnect as soon as they are refused. */
TEST(a_crowd_from_one_address_keeps_no_other_peer_out)
{
	struct sl_rpc_dial_options opt = {.endpoint = endpoint(),
					  .key_file = harness_key(),
					  .bulk_ring_len = 1 << 20,
					  .slots = 64,
					  .timeout_ms = harness_timeout_s() * 1000};
	struct backend_proc p = start_echo();
	struct sl_err err = SL_ERR(256);
	pthread_t crowd;

	check_served();
	ck_assert_int_eq(pthread_create(&crowd, NULL, crowd_main, NULL), 0);
	usleep(50000);
	for (unsigned i = 0; i < 20; i++) {
		struct sl_transport *t = sl_rpc_dial(&opt, &err);

		ck_assert_msg(t != NULL, "%u: %s", i, err.text);
		sl_rpc_dial_drop(t);
	}
	atomic_store(&crowd_goes, true);
	pthread_join(crowd, NULL);
	backend_term(p);
}

/* --- peers that have the key --- */

static struct sk_stream prove_key(void)
{
	struct sk_context c;
	struct sl_psk secret;
	struct sk_stream s;
	struct sl_err err = SL_ERR(256);
	int sock = knock("127.0.0.1"), rc;

	ck_assert_msg(sl_psk_read(&secret, harness_key(), &err) == 0, "%s", err.text);
	ck_assert_int_eq(sk_context_open(&c, &secret, false), 0);
	ck_assert_int_eq(sk_stream_open(&s, sock, &c, false), 0);
	while ((rc = sk_stream_handshake(&s)) == 0) {
		harness_sleep(sock);
		sk_stream_event(&s);
	}
	ck_assert_int_eq(rc, 1);
	sk_context_close(&c);
	/* The caller's copy is another place. */
	return s;
}

static struct sl_rpc_hello hello(void)
{
	return (struct sl_rpc_hello){.magic = SL_RPC_HELLO_MAGIC,
				     .version = SL_RPC_VERSION,
				     .epoch = 7,
				     .slots = 64,
				     .bulk_len = 1 << 20,
				     .slot_size = SL_RPC_SLOT_SIZE};
}

/* The answer's status, or -1 for none. */
static int say_hello(struct sk_stream *s, const struct sl_rpc_hello *h)
{
	struct sk_hello answer = {.got = 0};
	int rc;

	sk_hello_write(s, h);
	while ((rc = sk_hello_read(&answer, s)) == 0) {
		harness_sleep(s->sock);
		sk_stream_event(s);
	}
	return rc == 1 ? answer.words.status : -1;
}

TEST(a_hello_of_another_kind_is_refused)
{
	struct backend_proc p = start_echo();
	struct sl_rpc_hello h[4] = {hello(), hello(), hello(), hello()};

	h[0].version++;
	h[1].slots = 0;
	h[2].slots = 63;
	h[3].magic++;
	check_served();
	for (unsigned i = 0; i < SL_ARRAY_LEN(h); i++) {
		struct sk_stream s = prove_key();

		sk_stream_moved(&s);
		ck_assert_int_eq(say_hello(&s, &h[i]), i < 3 ? SL_RPC_BAD_REQUEST : -1);
		sk_stream_close(&s);
	}
	check_served();
	backend_term(p);
}

static struct sk_stream come_in(void)
{
	struct sl_rpc_hello h = hello();
	struct sk_stream s = prove_key();

	sk_stream_moved(&s);
	ck_assert_int_eq(say_hello(&s, &h), SL_RPC_OK);
	return s;
}

/* A message that is longer than any may be ends the connection before its bytes are waited for. */
TEST(a_message_longer_than_any_ends_the_connection)
{
	struct backend_proc p = start_echo();
	struct sl_rpc_header h = {.version_type = SL_RPC_VERSION << 4 | SL_RPC_REQUEST,
				  .flags = SL_RPC_BATCH | SL_RPC_FIRST,
				  .count = 1,
				  .fragment_len = SK_BULK_MAX + 1,
				  .id = UINT64_C(7) << 48 | 1};
	struct sk_stream s;

	check_served();
	s = come_in();
	sk_stream_moved(&s);
	ck_assert_int_eq(sk_stream_write(&s, &h, sizeof(h)), 0);
	sk_stream_push(&s);
	await_end(dup(s.sock));
	sk_stream_close(&s);
	check_served();
	backend_term(p);
}

/* Keys that change all the time, each change to be answered, cost others nothing. */
TEST(endless_key_updates_do_not_block_others)
{
	struct backend_proc p = start_echo();
	struct sk_stream s;

	check_served();
	s = come_in();
	sk_stream_moved(&s);
	for (unsigned round = 0; round < 50 && !s.ended; round++) {
		for (unsigned i = 0; i < 20 && SSL_key_update(s.ssl, SSL_KEY_UPDATE_REQUESTED); i++)
			(void)SSL_do_handshake(s.ssl);
		sk_stream_event(&s);
		sk_stream_push(&s);
	}
	check_served();
	sk_stream_close(&s);
	check_served();
	backend_term(p);
}

/* --- an attacker between the ends --- */

struct between {
	int listening;
	bool cut;          /* else: flips a bit */
	_Atomic bool evil; /* from now on */
};

/* True: the connection is over. */
static bool pass_on(struct between *b, int from, int to, bool answer)
{
	uint8_t bytes[65536];
	ssize_t n = recv(from, bytes, sizeof(bytes), 0);

	if (n <= 0)
		return true;
	if (answer && atomic_load(&b->evil)) {
		if (b->cut)
			return send(to, bytes, (size_t)n / 2, 0) >= 0;
		bytes[n / 2] ^= 4;
	}
	return send(to, bytes, (size_t)n, 0) != n;
}

static void *between_main(void *arg)
{
	struct between *b = arg;
	struct pollfd p[2] = {{.events = POLLIN}, {.events = POLLIN}};

	p[0].fd = accept(b->listening, NULL, NULL);
	p[1].fd = knock("127.0.0.1");
	while (poll(p, 2, -1) > 0) {
		if ((p[0].revents && pass_on(b, p[0].fd, p[1].fd, false)) ||
		    (p[1].revents && pass_on(b, p[1].fd, p[0].fd, true)))
			break;
	}
	close(p[0].fd);
	close(p[1].fd);
	return NULL;
}

static void answer_through(bool cut, enum sl_rpc_failure why)
{
	struct between b = {.listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
			    .cut = cut};
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(sa);
	struct backend_proc p = start_echo();
	static uint8_t body[5000];
	struct gateway g;
	struct call c[2];
	pthread_t thread;
	char ep[64];

	check_served();
	ck_assert_int_eq(bind(b.listening, (struct sockaddr *)&sa, sizeof(sa)), 0);
	ck_assert_int_eq(listen(b.listening, 1), 0);
	ck_assert_int_eq(getsockname(b.listening, (struct sockaddr *)&sa, &len), 0);
	snprintf(ep, sizeof(ep), "tcp://127.0.0.1:%u", ntohs(sa.sin_port));
	ck_assert_int_eq(pthread_create(&thread, NULL, between_main, &b), 0);
	gw_open(&g, ep);
	for (unsigned i = 0; i < 2; i++) {
		call_init(&c[i], sizeof(body));
		ck_assert_int_eq(gw_send(&g, &c[i], sl_span_of(NULL, 0),
					 sl_span_of(body, sizeof(body)), 0, SL_CLASS_NORMAL),
				 0);
		gw_until(&g, c[i].done || c[i].failed);
		atomic_store(&b.evil, true);
	}
	ck_assert(c[0].done && c[1].failed && !c[1].done);
	ck_assert_int_eq(c[1].why, why);
	ck_assert_uint_eq(c[1].parts, 0);
	gw_until(&g, g.downs == 1);
	gw_close(&g);
	pthread_join(thread, NULL);
	check_served();
	backend_term(p);
	for (unsigned i = 0; i < 2; i++)
		call_fini(&c[i]);
}

TEST(a_flipped_bit_is_no_reply)
{
	answer_through(false, SL_RPC_FAIL_PROTOCOL);
}

TEST(half_a_reply_is_no_reply)
{
	answer_through(true, SL_RPC_FAIL_LOST);
}

/* --- what the kernel is given --- */

/* The peer does not read: what waits where urgent messages cannot overtake it is bounded. */
TEST(the_kernel_gets_few_bytes_that_are_not_read)
{
	enum { BIG = 32 << 20, BOUND = 1 << 20 };
	struct backend_proc p = start_echo();
	uint8_t *big = calloc(1, BIG);
	struct sl_rpc_stats st;
	struct gateway g;
	struct call c;

	gw_open(&g, endpoint());
	backend_pause(p);
	call_init(&c, 16);
	ck_assert_int_eq(
		gw_send(&g, &c, sl_span_of(NULL, 0), sl_span_of(big, BIG), 0, SL_CLASS_BULK), 0);
	for (unsigned i = 0; i < 20000; i++)
		gw_turn(&g);
	sl_rpc_channel_stats(g.ch, &st);
	ck_assert_uint_gt(st.bytes_sent, 0);
	ck_assert_uint_lt(st.bytes_sent, BOUND);
	backend_kill(p);
	gw_until(&g, g.downs == 1);
	gw_close(&g);
	free(big);
}
