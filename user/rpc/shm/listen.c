/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accepts gateways; never blocks. A silent peer keeps one of PENDING_MAX entries for at most a
 * second.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/stale_socket.h"
#include "rpc/shm/shm.h"
#include "rpc/shm/socket.h"

enum { PENDING_MAX = 16, HELLO_TIMEOUT_MS = 1000, RETRY_MS = 100 };

struct shm_pending {
	int sock; /* -1: unused */
	uint64_t deadline_ns;
};

struct shm_listener {
	struct sl_rpc_listener base; /* fd: epoll */
	int sock;
	uint64_t retry_ns; /* out of descriptors */
	struct shm_pending pending[PENDING_MAX];
	struct sl_shm_geometry max_sizes;
	struct sockaddr_un sa;
	ino_t inode;
};

static void drop_pending(struct shm_listener *l, struct shm_pending *p)
{
	close(p->sock);
	p->sock = -1;
	l->base.refused++;
}

static bool watch_fd(struct shm_listener *l, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(l->base.fd, EPOLL_CTL_ADD, fd, &ev) == 0;
}

static struct shm_pending *pending_slot(struct shm_listener *l)
{
	struct shm_pending *oldest = &l->pending[0];

	for (unsigned i = 0; i < PENDING_MAX; i++) {
		if (l->pending[i].sock < 0)
			return &l->pending[i];
		if (l->pending[i].deadline_ns < oldest->deadline_ns)
			oldest = &l->pending[i];
	}
	drop_pending(l, oldest);
	return oldest;
}

static void send_refusal(int sock, struct sl_rpc_hello *h, enum sl_rpc_status reason)
{
	h->version = SL_RPC_VERSION;
	h->status = (uint8_t)reason;
	(void)sl_shm_hello_send(sock, h, -1);
}

static struct sl_shm *create_conn(struct shm_listener *l, int sock, struct sl_rpc_hello *h)
{
	struct sl_shm_geometry g = {.slots = sl_rpc_at_most(h->slots, l->max_sizes.slots),
				    .bulk_len = sl_rpc_at_most(h->bulk_len, l->max_sizes.bulk_len)};
	struct sl_shm *s = NULL;
	struct ucred peer = sl_shm_peer(sock);
	int memfd;

	if (h->version != SL_RPC_VERSION) {
		send_refusal(sock, h, SL_RPC_BAD_REQUEST);
		return NULL;
	}
	if (sl_rpc_listener_full(&l->base, h->flags)) {
		send_refusal(sock, h, SL_RPC_REFUSED);
		return NULL;
	}
	if (!sl_shm_geometry_ok(&g))
		return NULL;
	memfd = sl_shm_memory_create(&g);
	if (memfd < 0)
		return NULL;
	s = sl_shm_new(sock, memfd, &g, true);
	if (s) {
		s->base.peer_epoch = h->epoch;
		s->base.peer_worker = h->worker;
		s->base.link = h->link;
		s->base.resumes = h->flags & SL_HELLO_RESUME;
		snprintf(s->base.info, sizeof(s->base.info), "shm %.80s pid %d uid %u worker %u",
			 l->sa.sun_path, (int)peer.pid, peer.uid, h->worker);
		h->slots = g.slots;
		h->bulk_len = g.bulk_len;
		h->slot_size = SL_RPC_SLOT_SIZE;
		h->epoch = sl_rpc_boot_epoch();
		h->status = SL_RPC_OK;
		if (sl_shm_hello_send(sock, h, memfd))
			s->gone = true;
	}
	close(memfd);
	return s;
}

static struct sl_shm *advance_pending(struct shm_listener *l, struct shm_pending *p,
				      uint64_t now_ns)
{
	struct sl_rpc_hello h;
	struct sl_shm *s = NULL;
	int stray = -1, rc = sl_shm_hello_recv(p->sock, &h, &stray);

	if (stray >= 0)
		close(stray);
	if (rc == -EAGAIN && now_ns < p->deadline_ns)
		return NULL;
	if (!rc)
		s = create_conn(l, p->sock, &h);
	if (!s) {
		drop_pending(l, p);
		return NULL;
	}
	(void)epoll_ctl(l->base.fd, EPOLL_CTL_DEL, p->sock, NULL);
	p->sock = -1;
	return s;
}

static void listen_again(struct shm_listener *l, uint64_t retry_ns)
{
	struct epoll_event ev = {.events = retry_ns ? 0 : EPOLLIN, .data.fd = l->sock};

	l->retry_ns = retry_ns;
	(void)epoll_ctl(l->base.fd, EPOLL_CTL_MOD, l->sock, &ev);
}

static void add_pending(struct shm_listener *l, int sock, uint64_t now_ns)
{
	struct ucred peer = sl_shm_peer(sock);
	struct shm_pending *p;

	if (!sl_shm_may_connect(&peer) || !watch_fd(l, sock)) {
		close(sock);
		l->base.refused++;
		return;
	}
	p = pending_slot(l);
	p->sock = sock;
	p->deadline_ns = now_ns + HELLO_TIMEOUT_MS * SL_NS_PER_MS;
}

static void accept_peers(struct shm_listener *l, uint64_t now_ns)
{
	for (unsigned i = 0; i < PENDING_MAX; i++) {
		int sock = accept4(l->sock, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (sock >= 0) {
			add_pending(l, sock, now_ns);
			continue;
		}
		if (sl_rpc_accept_later(errno))
			listen_again(l, now_ns + RETRY_MS * SL_NS_PER_MS);
		return;
	}
}

static struct sl_transport *shm_accept(struct sl_rpc_listener *base, uint64_t now_ns)
{
	struct shm_listener *l = (struct shm_listener *)base;

	if (l->retry_ns && now_ns >= l->retry_ns)
		listen_again(l, 0);
	if (!l->retry_ns)
		accept_peers(l, now_ns);
	for (unsigned i = 0; i < PENDING_MAX; i++) {
		struct sl_shm *s = NULL;

		if (l->pending[i].sock >= 0)
			s = advance_pending(l, &l->pending[i], now_ns);
		if (s)
			return &s->base;
	}
	return NULL;
}

static uint64_t shm_next_ns(const struct sl_rpc_listener *base)
{
	const struct shm_listener *l = (const struct shm_listener *)base;
	uint64_t next = l->retry_ns ? l->retry_ns : UINT64_MAX;

	for (unsigned i = 0; i < PENDING_MAX; i++) {
		if (l->pending[i].sock >= 0 && l->pending[i].deadline_ns < next)
			next = l->pending[i].deadline_ns;
	}
	return next;
}

static void shm_listener_close(struct sl_rpc_listener *base)
{
	struct shm_listener *l = (struct shm_listener *)base;
	struct stat st;

	if (l->inode && stat(l->sa.sun_path, &st) == 0 && st.st_ino == l->inode)
		(void)unlink(l->sa.sun_path);
	for (unsigned i = 0; i < PENDING_MAX; i++) {
		if (l->pending[i].sock >= 0)
			close(l->pending[i].sock);
	}
	if (l->sock >= 0)
		close(l->sock);
	if (l->base.fd >= 0)
		close(l->base.fd);
	free(l);
}

static const struct sl_rpc_listener_ops listener_ops = {
	.accept = shm_accept,
	.next_ns = shm_next_ns,
	.close = shm_listener_close,
};

static int bind_path(struct shm_listener *l)
{
	const struct sockaddr *sa = (const struct sockaddr *)&l->sa;
	struct stat st;

	if (bind(l->sock, sa, sizeof(l->sa)) < 0) {
		if (errno != EADDRINUSE)
			return -errno;
		/* A socket file may be replaced only if its process is dead. */
		if (!sl_socket_is_stale(&l->sa, SOCK_SEQPACKET))
			return -EADDRINUSE;
		if (unlink(l->sa.sun_path) < 0 || bind(l->sock, sa, sizeof(l->sa)) < 0)
			return -errno;
	}
	/* Credentials decide, not the mode. */
	if (chmod(l->sa.sun_path, 0666) < 0 || stat(l->sa.sun_path, &st) < 0)
		return -errno;
	l->inode = st.st_ino;
	return listen(l->sock, PENDING_MAX) < 0 ? -errno : 0;
}

static const char *listen_error_text(int rc)
{
	switch (rc) {
	case -EADDRINUSE:
		return "in use: another backend listens there, or the path is not a socket";
	case -ENOENT: return "no such directory: create it first";
	case -ENAMETOOLONG:
	case -EINVAL: return "expected an absolute path of at most 107 bytes";
	default: return strerror(-rc);
	}
}

struct sl_rpc_listener *sl_shm_listen(const struct sl_rpc_listen_options *opt, struct sl_err *err)
{
	struct shm_listener *l = sl_rpc_listener_new(sizeof(*l), &listener_ops, err);
	int rc;

	if (!l)
		return NULL;
	l->sock = -1;
	for (unsigned i = 0; i < PENDING_MAX; i++)
		l->pending[i].sock = -1;
	l->max_sizes =
		(struct sl_shm_geometry){.slots = opt->slots, .bulk_len = opt->bulk_ring_len};
	rc = sl_shm_address(opt->address, &l->sa);
	if (!rc) {
		l->base.fd = epoll_create1(EPOLL_CLOEXEC);
		l->sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		rc = l->base.fd < 0 || l->sock < 0 ? -errno : bind_path(l);
	}
	if (!rc && !watch_fd(l, l->sock))
		rc = -errno;
	if (!rc)
		return &l->base;
	shm_listener_close(&l->base);
	sl_err_set(err, "shm://%s: %s", opt->address, listen_error_text(rc));
	return NULL;
}
