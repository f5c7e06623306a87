/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>
#include "base/clock.h"
#include "rpc/rpc.h"
#include "rpc/tcpsock/sock.h"

struct sk_dial_call {
	const struct sl_rpc_dial_options *opt;
	struct sk_context context;
	uint64_t deadline_ns;
	const char *why;
};

static int await_socket(int sock, short events, uint64_t deadline_ns)
{
	struct pollfd p = {.fd = sock, .events = events};

	for (;;) {
		uint64_t now = sl_now_ns();
		int n;

		if (now >= deadline_ns)
			return -ETIMEDOUT;
		n = poll(&p, 1, (int)((deadline_ns - now) / SL_NS_PER_MS) + 1);
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
	}
}

static int connect_socket(int sock, const struct addrinfo *to, uint64_t deadline_ns)
{
	int error = 0, rc;
	socklen_t len = sizeof(error);

	if (connect(sock, to->ai_addr, to->ai_addrlen) == 0)
		return 0;
	if (errno != EINPROGRESS)
		return -errno;
	rc = await_socket(sock, POLLOUT, deadline_ns);
	if (!rc && getsockopt(sock, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		rc = -errno;
	return rc ? rc : -error;
}

static int await_input(const struct sk_dial_call *d, struct sk_stream *s)
{
	int rc = await_socket(s->sock, (short)(POLLIN | (sk_buf_len(&s->out) ? POLLOUT : 0)),
			      d->deadline_ns);

	sk_stream_event(s);
	return rc;
}

static int run_handshake(struct sk_dial_call *d, struct sk_stream *s)
{
	int rc;

	while ((rc = sk_stream_handshake(s)) == 0) {
		rc = await_input(d, s);
		if (rc)
			break;
	}
	if (rc == -EPROTO)
		d->why = sk_stream_refusal();
	if (rc == -ENOTCONN)
		d->why = "the peer closed the connection: is this a sluice backend?";
	return rc < 0 ? rc : 0;
}

static int exchange_hellos(struct sk_dial_call *d, struct sk_stream *s, struct sk_hello *h)
{
	const struct sl_rpc_hello ours = {
		.magic = SL_RPC_HELLO_MAGIC,
		.version = SL_RPC_VERSION,
		.worker = d->opt->worker,
		.epoch = sl_rpc_boot_epoch(),
		.slots = d->opt->slots,
		.bulk_len = d->opt->bulk_ring_len,
		.slot_size = SL_RPC_SLOT_SIZE,
		.flags = d->opt->resumes ? SL_HELLO_RESUME : 0,
		.link = d->opt->link,
	};
	int rc = run_handshake(d, s);

	if (rc)
		return rc;
	sk_hello_write(s, &ours);
	while (!rc && (rc = sk_hello_read(h, s)) == 0)
		rc = await_input(d, s);
	if (rc < 0)
		return rc;
	if (h->words.version == SL_RPC_VERSION && h->words.status == SL_RPC_REFUSED) {
		d->why = SL_RPC_FULL_TEXT;
		return -EPROTO;
	}
	if (h->words.version != SL_RPC_VERSION || h->words.status != SL_RPC_OK) {
		d->why = "refused: the backend speaks another version: build both from one release";
		return -EPROTO;
	}
	return h->words.slot_size == SL_RPC_SLOT_SIZE && sk_slots_ok(h->words.slots) &&
			       h->words.slots <= d->opt->slots
		       ? 0
		       : -EBADMSG;
}

static int try_one(struct sk_dial_call *d, const struct addrinfo *to, uint64_t deadline_ns,
		   struct sl_sock **k)
{
	int sock = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int rc = sock < 0 ? -errno : connect_socket(sock, to, deadline_ns);
	struct sockaddr_storage here, there;
	socklen_t here_len = sizeof(here), there_len = sizeof(there);
	char from_name[SK_NAME_LEN] = "?", to_name[SK_NAME_LEN] = "?";
	struct sk_hello h = {.got = 0};
	struct sk_stream s;

	if (!rc)
		rc = sk_stream_open(&s, sock, &d->context, false);
	if (rc) {
		if (sock >= 0)
			close(sock);
		return rc;
	}
	sk_sock_options(sock);
	rc = exchange_hellos(d, &s, &h);
	if (rc) {
		sk_stream_close(&s);
		return rc;
	}
	*k = sk_sock_new(&s, h.words.slots);
	if (!*k)
		return -ENOMEM;
	(*k)->base.peer_epoch = h.words.epoch;
	(*k)->base.link = d->opt->link;
	(*k)->base.resumes = d->opt->resumes;
	if (getsockname(sock, (struct sockaddr *)&here, &here_len) == 0)
		sk_name(&here, from_name);
	if (getpeername(sock, (struct sockaddr *)&there, &there_len) == 0)
		sk_name(&there, to_name);
	snprintf((*k)->base.info, sizeof((*k)->base.info), "tcp %.46s from %.46s %.24s", to_name,
		 from_name, SSL_get_cipher_name((*k)->s.ssl));
	return 0;
}

static int try_all(struct sk_dial_call *d, const struct addrinfo *all, struct sl_sock **k)
{
	unsigned left = 0;
	int rc = -ENOENT;

	for (const struct addrinfo *at = all; at; at = at->ai_next)
		left++;
	for (const struct addrinfo *at = all; at && rc; at = at->ai_next, left--) {
		uint64_t now = sl_now_ns();

		if (now >= d->deadline_ns)
			break;
		d->why = NULL;
		rc = try_one(d, at, now + (d->deadline_ns - now) / left, k);
	}
	return rc;
}

static const char *dial_error_text(const struct sk_dial_call *d, int rc)
{
	if (d->why)
		return d->why;
	switch (rc) {
	case -ECONNREFUSED: return "connection refused: is the backend running?";
	case -ETIMEDOUT: return "no answer in time: the backend is busy, stopped or cut off";
	case -ENETUNREACH:
	case -EHOSTUNREACH: return "no route: see `ip route get`";
	case -ENOTCONN: return "the peer closed the connection: the backend may be full";
	case -EBADMSG: return "the answer is not a sluice HELLO: is this a sluice backend?";
	default: return strerror(-rc);
	}
}

static struct sl_transport *sk_dial(const struct sl_rpc_dial_options *opt, const char *address,
				    struct sl_err *err)
{
	struct sk_dial_call d = {.opt = opt,
				 .deadline_ns = sl_now_ns() + opt->timeout_ms * SL_NS_PER_MS};
	struct addrinfo *all;
	struct sl_psk psk;
	struct sl_sock *k = NULL;
	int rc;

	if (sl_psk_read(&psk, opt->key_file, err))
		return NULL;
	rc = sk_context_open(&d.context, &psk, false);
	sl_psk_wipe(&psk);
	all = sk_resolve(address, false, &d.why);
	if (!rc && all)
		rc = try_all(&d, all, &k);
	if (all)
		freeaddrinfo(all);
	sk_context_close(&d.context);
	if (k)
		return &k->base;
	sl_err_set(err, "tcp://%s: %s", address, dial_error_text(&d, rc));
	return NULL;
}

/* Describes the route to an address: connecting a datagram socket only asks the routes. */
static int sk_route_info(const char *address, const struct sl_rpc_rdma *rdma, char *text,
			 size_t len)
{
	struct sockaddr_storage here;
	socklen_t here_len = sizeof(here);
	char from[SK_NAME_LEN] = "?", to[SK_NAME_LEN];
	const char *unused;
	struct addrinfo *all = sk_resolve(address, false, &unused);
	int rc = -ENOENT, sock;

	(void)rdma;
	for (const struct addrinfo *at = all; at && rc; at = at->ai_next) {
		sock = socket(at->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		rc = sock < 0 || connect(sock, at->ai_addr, at->ai_addrlen) ? -errno : 0;
		if (!rc && getsockname(sock, (struct sockaddr *)&here, &here_len) == 0)
			sk_name(&here, from);
		sk_name((const struct sockaddr_storage *)at->ai_addr, to);
		if (sock >= 0)
			close(sock);
	}
	if (!rc)
		snprintf(text, len, "tcp %s from %.*s, TLS 1.3", to,
			 (int)(strrchr(from, ':') ? strrchr(from, ':') - from : 1), from);
	if (all)
		freeaddrinfo(all);
	return rc;
}

static void sk_preload(void)
{
	(void)OPENSSL_init_ssl(0, NULL);
	SSL_CTX_free(SSL_CTX_new(TLS_client_method()));
}

const struct sl_transport_scheme sl_sock_scheme = {
	.scheme = "tcp",
	.bulk_ring_len = 4 << 20,
	.dial = sk_dial,
	.listen = sk_listen,
	.route_info = sk_route_info,
	.has_name = sk_has_name,
	.preload = sk_preload,
};
