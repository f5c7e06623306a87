/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accepts gateways. A client without proof of the key gets one of PENDING_MAX entries for some
 * seconds, and no further memory before its whole ClientHello. If all are used, the address with
 * the most loses one.
 *
 *   SOCK_NEW --ClientHello--> SOCK_TLS --key proven--> SOCK_HELLO --hello--> a transport
 *
 * All sockets are edge-triggered; `due`: an event was not handled yet.
 */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "base/clock.h"
#include "rpc/tcpsock/sock.h"

enum {
	PENDING_MAX = 32,
	SOCKS_MAX = 4,
	BACKLOG = 1024,
	HELLO_TIMEOUT_MS = 3000,
	RETRY_MS = 100, /* out of descriptors */
	EVENTS_MAX = 16,
};

enum sock_stage { SOCK_NEW, SOCK_TLS, SOCK_HELLO };

struct sock_pending {
	int sock; /* -1: unused */
	enum sock_stage stage;
	bool due;
	uint64_t deadline_ns;
	struct sockaddr_storage from;
	uint8_t crowd[8];
	struct sk_stream s;
	struct sk_hello hello;
};

struct sock_listener {
	struct sl_rpc_listener base; /* fd: epoll */
	int socks[SOCKS_MAX];
	unsigned sock_cnt;
	bool due;
	uint64_t retry_ns;
	struct sk_context context;
	uint32_t slots, bulk_len;
	struct sock_pending pending[PENDING_MAX];
};

static bool watch_fd(struct sock_listener *l, int fd, void *ptr)
{
	struct epoll_event ev = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = ptr};

	return epoll_ctl(l->base.fd, EPOLL_CTL_ADD, fd, &ev) == 0;
}

static void drop_pending(struct sock_listener *l, struct sock_pending *p)
{
	if (p->stage == SOCK_NEW)
		close(p->sock);
	else
		sk_stream_close(&p->s);
	p->sock = -1;
	l->base.refused++;
}

static struct sock_pending *pending_slot(struct sock_listener *l)
{
	struct sock_pending *worst = l->pending;
	unsigned most = 0;

	for (unsigned i = 0; i < PENDING_MAX; i++) {
		struct sock_pending *p = &l->pending[i];
		unsigned crowd = 0;

		if (p->sock < 0)
			return p;
		for (unsigned k = 0; k < PENDING_MAX; k++)
			crowd += memcmp(l->pending[k].crowd, p->crowd, sizeof(p->crowd)) == 0;
		if (crowd > most || (crowd == most && p->deadline_ns < worst->deadline_ns)) {
			worst = p;
			most = crowd;
		}
	}
	drop_pending(l, worst);
	return worst;
}

static void add_pending(struct sock_listener *l, int sock, const struct sockaddr_storage *from,
			uint64_t now_ns)
{
	const struct sockaddr_in6 *six = (const void *)from;
	const struct sockaddr_in *four = (const void *)from;
	struct sock_pending *p = pending_slot(l);

	*p = (struct sock_pending){.sock = sock, .stage = SOCK_NEW, .due = true, .from = *from};
	p->deadline_ns = now_ns + HELLO_TIMEOUT_MS * SL_NS_PER_MS;
	if (from->ss_family == AF_INET6)
		memcpy(p->crowd, &six->sin6_addr, sizeof(p->crowd));
	else
		memcpy(p->crowd, &four->sin_addr, sizeof(four->sin_addr));
	sk_sock_options(sock);
	if (!watch_fd(l, sock, p))
		drop_pending(l, p);
}

static bool accept_from(struct sock_listener *l, int listening, uint64_t now_ns)
{
	for (unsigned i = 0; i < EVENTS_MAX; i++) {
		struct sockaddr_storage from = {.ss_family = AF_UNSPEC};
		socklen_t len = sizeof(from);
		int sock = accept4(listening, (struct sockaddr *)&from, &len,
				   SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (sock >= 0) {
			add_pending(l, sock, &from, now_ns);
		} else if (sl_rpc_accept_later(errno)) {
			l->retry_ns = now_ns + RETRY_MS * SL_NS_PER_MS;
			return true;
		} else if (errno == EAGAIN || errno == EWOULDBLOCK) {
			return false;
		}
	}
	return true;
}

static int check_client_hello(struct sock_listener *l, struct sock_pending *p)
{
	uint8_t bytes[SK_HANDSHAKE_MAX];
	ssize_t n = recv(p->sock, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);
	int rc;

	if (n <= 0)
		return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? 0 : -ENOTCONN;
	rc = sk_hello_begins(bytes, (size_t)n);
	if (rc <= 0)
		return rc;
	if (sk_stream_open(&p->s, p->sock, &l->context, true))
		return -ENOMEM;
	p->stage = SOCK_TLS;
	return 1;
}

static struct sl_sock *create_conn(struct sock_listener *l, struct sock_pending *p)
{
	struct sl_rpc_hello h = p->hello.words;
	struct sl_sock *k = NULL;
	bool same = h.version == SL_RPC_VERSION && h.slot_size == SL_RPC_SLOT_SIZE;
	bool full = sl_rpc_listener_full(&l->base, h.flags);
	char from[SK_NAME_LEN];

	h.slots = sl_rpc_at_most(h.slots, l->slots);
	h.bulk_len = sl_rpc_at_most(h.bulk_len, l->bulk_len);
	h.version = SL_RPC_VERSION;
	h.epoch = sl_rpc_boot_epoch();
	h.status = !same || !sk_slots_ok(h.slots) ? SL_RPC_BAD_REQUEST
		   : full                         ? SL_RPC_REFUSED
						  : SL_RPC_OK;
	sk_hello_write(&p->s, &h);
	if (h.status != SL_RPC_OK)
		return NULL;
	(void)epoll_ctl(l->base.fd, EPOLL_CTL_DEL, p->sock, NULL);
	k = sk_sock_new(&p->s, h.slots);
	p->sock = -1;
	if (!k)
		return NULL;
	k->base.peer_epoch = p->hello.words.epoch;
	k->base.peer_worker = p->hello.words.worker;
	k->base.link = p->hello.words.link;
	k->base.resumes = p->hello.words.flags & SL_HELLO_RESUME;
	sk_name(&p->from, from);
	snprintf(k->base.info, sizeof(k->base.info), "tcp from %s worker %u %.24s", from,
		 k->base.peer_worker, SSL_get_cipher_name(k->s.ssl));
	return k;
}

static struct sl_sock *advance_pending(struct sock_listener *l, struct sock_pending *p)
{
	struct sl_sock *k = NULL;
	int rc = 1;

	p->due = false;
	if (p->stage == SOCK_NEW)
		rc = check_client_hello(l, p);
	if (rc == 1 && p->stage == SOCK_TLS) {
		sk_stream_event(&p->s);
		rc = sk_stream_handshake(&p->s);
		p->stage = rc == 1 ? SOCK_HELLO : SOCK_TLS;
	}
	if (rc == 1) {
		sk_stream_event(&p->s);
		rc = sk_hello_read(&p->hello, &p->s);
	}
	if (rc == 1) {
		k = create_conn(l, p);
		rc = k ? 1 : -EPROTO;
	}
	if (rc < 0 && p->sock >= 0)
		drop_pending(l, p);
	return k;
}

static struct sl_transport *sock_accept(struct sl_rpc_listener *base, uint64_t now_ns)
{
	struct sock_listener *l = (struct sock_listener *)base;
	struct epoll_event ev[EVENTS_MAX];
	int n = epoll_wait(l->base.fd, ev, EVENTS_MAX, 0);

	for (int i = 0; i < n; i++) {
		struct sock_pending *p = ev[i].data.ptr;

		if (p)
			p->due = true;
		else
			l->due = true;
	}
	if (l->due && now_ns >= l->retry_ns) {
		l->due = false;
		for (unsigned i = 0; i < l->sock_cnt; i++)
			l->due |= accept_from(l, l->socks[i], now_ns);
	}
	for (unsigned i = 0; i < PENDING_MAX; i++) {
		struct sock_pending *p = &l->pending[i];
		struct sl_sock *k = NULL;

		if (p->sock >= 0 && p->due)
			k = advance_pending(l, p);
		if (k)
			return &k->base;
		if (p->sock >= 0 && now_ns >= p->deadline_ns)
			drop_pending(l, p);
	}
	return NULL;
}

static uint64_t sock_next_ns(const struct sl_rpc_listener *base)
{
	const struct sock_listener *l = (const struct sock_listener *)base;
	uint64_t next = l->due ? l->retry_ns : UINT64_MAX;

	for (unsigned i = 0; i < PENDING_MAX; i++) {
		if (l->pending[i].sock >= 0 && l->pending[i].deadline_ns < next)
			next = l->pending[i].deadline_ns;
	}
	return next;
}

static void sock_listener_close(struct sl_rpc_listener *base)
{
	struct sock_listener *l = (struct sock_listener *)base;

	for (unsigned i = 0; i < PENDING_MAX; i++) {
		if (l->pending[i].sock >= 0)
			drop_pending(l, &l->pending[i]);
	}
	for (unsigned i = 0; i < l->sock_cnt; i++)
		close(l->socks[i]);
	if (base->fd >= 0)
		close(base->fd);
	sk_context_close(&l->context);
	free(l);
}

static const struct sl_rpc_listener_ops listener_ops = {
	.accept = sock_accept,
	.next_ns = sock_next_ns,
	.close = sock_listener_close,
};

static int open_one(struct sock_listener *l, const struct addrinfo *at)
{
	static const int one = 1;
	int sock = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), rc;

	if (sock < 0)
		return -errno;
	(void)setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (at->ai_family == AF_INET6) /* 0.0.0.0 can be another endpoint */
		(void)setsockopt(sock, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	if (bind(sock, at->ai_addr, at->ai_addrlen) == 0 && listen(sock, BACKLOG) == 0 &&
	    watch_fd(l, sock, NULL)) {
		l->socks[l->sock_cnt++] = sock;
		return 0;
	}
	rc = -errno;
	close(sock);
	return rc;
}

static int open_all(struct sock_listener *l, const struct addrinfo *all)
{
	int rc = 0, missing = -EADDRNOTAVAIL;

	l->base.fd = epoll_create1(EPOLL_CLOEXEC);
	if (l->base.fd < 0)
		return -errno;
	for (; all && !rc && l->sock_cnt < SOCKS_MAX; all = all->ai_next) {
		rc = open_one(l, all);
		if (rc == -EADDRNOTAVAIL || rc == -EAFNOSUPPORT) {
			missing = rc;
			rc = 0;
		}
	}
	return rc || l->sock_cnt ? rc : missing;
}

static const char *listen_error_text(int rc)
{
	switch (rc) {
	case -EADDRINUSE: return "in use: another process listens there";
	case -EADDRNOTAVAIL: return "not an address of this host: see `ip address`";
	case -EACCES: return "permission denied: ports below 1024 need root";
	default: return strerror(-rc);
	}
}

struct sl_rpc_listener *sk_listen(const struct sl_rpc_listen_options *opt, struct sl_err *err)
{
	struct sock_listener *l = sl_rpc_listener_new(sizeof(*l), &listener_ops, err);
	struct addrinfo *all = NULL;
	struct sl_psk psk;
	const char *form;
	int rc;

	if (!l)
		return NULL;
	l->slots = opt->slots;
	l->bulk_len = opt->bulk_ring_len;
	for (unsigned i = 0; i < PENDING_MAX; i++)
		l->pending[i].sock = -1;
	if (sl_psk_read(&psk, opt->key_file, err))
		goto fail;
	rc = sk_context_open(&l->context, &psk, true);
	sl_psk_wipe(&psk);
	all = sk_resolve(opt->address, true, &form);
	if (!rc && all)
		rc = open_all(l, all);
	if (!rc && all) {
		freeaddrinfo(all);
		return &l->base;
	}
	sl_err_set(err, "tcp://%s: %s", opt->address, all ? listen_error_text(rc) : form);
	if (all)
		freeaddrinfo(all);
fail:
	sock_listener_close(&l->base);
	return NULL;
}
