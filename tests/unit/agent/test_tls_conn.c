/* SPDX-License-Identifier: Apache-2.0 */
/* TLS to a server, record by record: no byte that has come waits for another event. */
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <signal.h>

#include "agent/internal.h"
#include "agent_bed.h"
#include "config/agent_status.h"

enum {
	LONG = 200000,
	FRAGMENT = 512,
	HEADER = 5,
	RECORD_MAX = 16384,
	TICKETS = 700,
	UPDATES = 560
};

static SSL_CTX *ctx;
static SSL *server;

/* The agent checks no certificate. */
static SSL_CTX *make_context(void)
{
	SSL_CTX *c = SSL_CTX_new(TLS_server_method());
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *x = X509_new();

	X509_gmtime_adj(X509_getm_notBefore(x), 0);
	X509_gmtime_adj(X509_getm_notAfter(x), 86400);
	ck_assert(X509_set_pubkey(x, key) && X509_sign(x, key, EVP_sha256()));
	ck_assert_int_eq(SSL_CTX_use_certificate(c, x), 1);
	ck_assert_int_eq(SSL_CTX_use_PrivateKey(c, key), 1);
	SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	X509_free(x);
	EVP_PKEY_free(key);
	return c;
}

static void accept_tls(void)
{
	bed_server_accept();
	server = SSL_new(ctx);
	SSL_set_fd(server, bed.server_fd);
}

static void shake_hands(void)
{
	accept_tls();
	bed_until(SSL_accept(server) == 1);
}

static void close_tls(void)
{
	SSL_free(server);
	server = NULL;
	bed_server_close();
}

static struct agent_server *own(void)
{
	return sl_list_first(&bed.agent->servers, struct agent_server, link);
}

/* No URL says TLS over a Unix socket, whose buffers a test knows. */
static void set_up(void)
{
	const struct sl_agent_tls any = {.ca = -1, .certificate = -1, .key = -1};
	char to[128];

	signal(SIGPIPE, SIG_IGN); /* OpenSSL writes tickets to a socket that the agent has closed */
	ctx = make_context();
	bed_listen();
	snprintf(to, sizeof(to), "http+unix://%s", bed.path);
	ck_assert_int_eq(sl_agent_status_make(), 0);
	bed_open(to, (struct sl_agent_options){0});
	own()->url.tls = true;
	ck_assert_int_eq(agent_tls_server_init(&own()->tls, &bed.agent->tls, &any, "x", false), 0);
	bed_go();
	accept_tls();
	bed_until((SSL_accept(server), !bed.unready));
	close_tls();
}

static void tear_down(void)
{
	bed_stop();
	SSL_free(server);
	SSL_CTX_free(ctx);
}

FIXTURE(set_up, tear_down)

static bool has_heard_head(void)
{
	int n = SSL_read(server, bed.heard + bed.heard_len, 4096);

	bed.heard_len += n > 0 ? (size_t)n : 0;
	return strstr((char *)bed.heard, "\r\n\r\n");
}

static void say(const void *bytes, size_t len)
{
	ck_assert_int_eq(SSL_write(server, bytes, (int)len), (int)len);
}

static const char head[] = "HTTP/1.1 200 OK\r\ncontent-length: 200000\r\n\r\n";

static void say_head(void)
{
	static char record[RECORD_MAX];

	memcpy(record, head, sizeof(head) - 1);
	say(record, sizeof(record));
}

/*
 * The client has room again after the last event of the socket: the bytes within TLS end where the
 * next record begins.
 */
TEST(records_that_came_while_a_client_did_not_read_are_read)
{
	static char record[RECORD_MAX];
	struct bed_request *r = bed_ask(SL_PROTO_HTTP1, false);
	size_t left = LONG + sizeof(head) - 1 - RECORD_MAX, n;
	int size = 1 << 20;

	r->full = true;
	shake_hands();
	ck_assert_int_eq(setsockopt(bed.server_fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
	bed_until(has_heard_head());
	bed_turns(2); /* the agent takes the tickets */
	say_head();
	bed_until(r->blocked);
	bed_turns(2);
	for (; left; left -= n) {
		n = left < RECORD_MAX ? left : RECORD_MAX;
		say(record, n);
	}
	bed_turns(4);
	bed_room(r);
	bed_until(r->ends);
	ck_assert_int_eq(r->error, SL_RPC_OK);
	ck_assert_uint_eq(r->len, LONG);
	bed_request_free(r);
}

/* The agent's only connection. */
static const struct agent_tls *conn(void)
{
	return agent_conn_of(sl_list_first(&own()->origin.conns, struct origin_conn, link))->tls;
}

/*
 * A server says much of its handshake layer, then answers, and reads no request: what the agent has
 * to say waits for room. It goes on when there is room, and before.
 */
TEST_EACH(a_flood_of_messages_does_not_hide_a_reply, 2)
{
	static const char reply[] = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
	static char upload[16000], bytes[RECORD_MAX];
	struct bed_request *r = bed_ask(SL_PROTO_HTTP1, true);
	int size = 1 << 20;

	shake_hands();
	ck_assert_int_eq(setsockopt(bed.server_fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
	bed_until(has_heard_head());
	while (!conn()->len) {
		if (!r->paused)
			bed.opt.on_stream->on_data(bed.opt.arg, r->view, upload, sizeof(upload), 0);
		bed_turns(1);
	}
	bed_turns(2);
	for (unsigned i = 0; i < (_i ? UPDATES : TICKETS); i++) {
		ck_assert_int_eq(_i ? SSL_key_update(server, SSL_KEY_UPDATE_REQUESTED)
				    : SSL_new_session_ticket(server),
				 1);
		ck_assert_int_eq(SSL_do_handshake(server), 1);
	}
	say(reply, sizeof(reply) - 1);
	if (_i) {
		bed_turns(4);
		while (SSL_read(server, bytes, sizeof(bytes)) > 0)
			;
	}
	bed_until(r->ends);
	ck_assert_int_eq(r->error, SL_RPC_OK);
	ck_assert_uint_eq(r->len, 2);
	bed_request_free(r);
}

static bool is_refused(struct bed_request *r)
{
	return (SSL_accept(server), r->ends);
}

static bool is_shown_up(void)
{
	struct sl_server_info info;

	bed_turns(2);
	agent_server_tell(own());
	ck_assert(sl_agent_status_server_get(0, 0, &info));
	ck_assert(info.up || *info.why);
	return info.up;
}

/* The agent is connected before the server has looked for its certificate (RFC 8446 4.4.2). */
TEST(server_that_refuses_the_certificate_is_down)
{
	struct bed_request *r;

	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	for (unsigned i = 0; i < 3; i++) {
		uint32_t pause_ms = own()->origin.retry_ms;

		r = bed_ask(SL_PROTO_HTTP1, i % 2);
		accept_tls();
		bed_until(is_refused(r)); /* by its only connection */
		ck_assert_int_eq(r->error, SL_RPC_REFUSED);
		bed_request_free(r);
		ck_assert(bed.unready);
		ck_assert_ptr_nonnull(strstr(own()->origin.why, "certificate required"));
		ck_assert_uint_ge(own()->origin.retry_ms, i ? 2 * pause_ms : pause_ms);
		close_tls();
		while (bed.unready) { /* the next try */
			accept_tls();
			for (unsigned k = 0; k < 20 && bed.unready; k++)
				(SSL_accept(server), bed_turns(1));
			close_tls();
		}
		ck_assert(!is_shown_up());
	}
	SSL_CTX_set_verify(ctx, SSL_VERIFY_NONE, NULL);
	r = bed_ask(SL_PROTO_HTTP1, false);
	shake_hands();
	bed_until(has_heard_head());
	say("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", 38);
	bed_until(r->ends);
	ck_assert_int_eq(r->error, SL_RPC_OK);
	ck_assert_str_eq(own()->origin.why, "");
	ck_assert(is_shown_up());
	bed_request_free(r);
}

/* --- a connection alone: agent <-> near, far <-> server --- */

static int near, far;

static struct agent_tls *open_pair(void)
{
	int a[2], b[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, a), 0);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, b), 0);
	near = a[1];
	far = b[1];
	bed.server_fd = b[0];
	server = SSL_new(ctx);
	SSL_set_fd(server, b[0]);
	return agent_tls_new(&own()->tls, a[0]);
}

/* Returns the bytes moved, at most `max`. */
static size_t move(int from, int to, size_t max)
{
	static char bytes[1 << 16];
	ssize_t n = recv(from, bytes, max < sizeof(bytes) ? max : sizeof(bytes), 0);

	if (n > 0)
		ck_assert_int_eq(send(to, bytes, (size_t)n, MSG_NOSIGNAL), n);
	return n > 0 ? (size_t)n : 0;
}

static void close_pair(struct agent_tls *t)
{
	int fd = t->fd;

	agent_tls_free(t);
	close(fd);
	close(near);
	close(far);
	close(bed.server_fd);
}

static void end_handshake(struct agent_tls *t)
{
	int rc = 0;

	for (int i = 0; i < 8 && (rc = agent_tls_handshake(t)) == 0; i++) {
		move(near, far, SIZE_MAX);
		(void)SSL_accept(server);
		move(far, near, SIZE_MAX);
	}
	ck_assert_int_eq(rc, 1);
	move(near, far, SIZE_MAX);
	(void)SSL_accept(server);
}

TEST(alert_is_the_reason_though_a_send_has_failed)
{
	const struct iovec iov = {"x", 1};
	struct agent_tls *t = open_pair();
	char in[16];

	SSL_set_verify(server, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	end_handshake(t);
	ck_assert_uint_gt(move(far, near, SIZE_MAX), 0);
	shutdown(near, SHUT_RDWR);
	(void)agent_tls_send(t, &iov, 1);
	ck_assert_int_eq(t->error, EPIPE);
	ck_assert_int_eq(agent_tls_recv(t, in, sizeof(in)), -EPROTO);
	ck_assert_msg(strstr(t->why, "certificate required") && t->refused, "%s", t->why);
	close_pair(t);
}

TEST(handshake_whose_end_cannot_be_sent_fails)
{
	struct agent_tls *t = open_pair();

	ck_assert_int_eq(agent_tls_handshake(t), 0);
	move(near, far, SIZE_MAX);
	(void)SSL_accept(server);
	move(far, near, SIZE_MAX);
	shutdown(near, SHUT_RDWR);
	ck_assert_int_eq(agent_tls_handshake(t), -1);
	ck_assert_str_eq(t->why, "Broken pipe");
	close_pair(t);
}

static int make_ticket_long(SSL *ssl, void *arg)
{
	static const char data[4 * FRAGMENT];

	(void)arg;
	return SSL_SESSION_set1_ticket_appdata(SSL_get_session(ssl), data, sizeof(data));
}

/* OpenSSL refuses SSL_shutdown() while a message of the handshake layer is read. */
TEST(close_notify_waits_for_the_end_of_a_message)
{
	struct agent_tls *t;
	char in[16];

	SSL_CTX_set_session_ticket_cb(ctx, make_ticket_long, NULL, NULL);
	SSL_CTX_set_max_send_fragment(ctx, FRAGMENT);
	t = open_pair();
	end_handshake(t);
	move(far, near, HEADER + FRAGMENT + 17);
	ck_assert_int_eq(agent_tls_recv(t, in, sizeof(in)), -EAGAIN);
	ck_assert(SSL_in_init(t->ssl));
	ck_assert(agent_tls_shut(t));
	ck_assert_uint_eq(move(near, far, SIZE_MAX), 0);
	move(far, near, SIZE_MAX);
	ck_assert_int_eq(agent_tls_recv(t, in, sizeof(in)), -EAGAIN);
	ck_assert_uint_gt(move(near, far, SIZE_MAX), 0);
	ck_assert_int_eq(SSL_get_error(server, SSL_read(server, in, sizeof(in))),
			 SSL_ERROR_ZERO_RETURN);
	close_pair(t);
}
