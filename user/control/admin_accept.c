/* SPDX-License-Identifier: Apache-2.0 */
#include "control/admin_accept.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fnv.h"
#include "base/log.h"

enum { ACCEPTS = 64, EVENTS = 64, WATCHED = -1, FIRST_SLOT = ADMIN_ACCEPT_LISTENERS };

struct accept_slot {
	int fd;
	bool local;
	uint64_t peer_id;
	uint64_t since_ns;
};

struct admin_acceptor {
	int epoll_fd;
	admin_enter_fn *enter;
	void *arg;
	struct {
		int fd;
		bool local;
	} listeners[ADMIN_ACCEPT_LISTENERS];
	unsigned listener_cnt;
	struct accept_slot slots[ADMIN_ACCEPT_SLOTS];
};

static int epoll_add(const struct admin_acceptor *d, int fd, uint32_t events, int id)
{
	struct epoll_event e = {.events = events, .data.u32 = (uint32_t)id};

	return epoll_ctl(d->epoll_fd, EPOLL_CTL_ADD, fd, &e) ? -errno : 0;
}

struct admin_acceptor *admin_acceptor_open(admin_enter_fn *enter, void *arg)
{
	struct admin_acceptor *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->enter = enter;
	d->arg = arg;
	for (int i = 0; i < ADMIN_ACCEPT_SLOTS; i++)
		d->slots[i].fd = -1;
	d->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (d->epoll_fd >= 0)
		return d;
	free(d);
	return NULL;
}

int admin_acceptor_listen(struct admin_acceptor *d, int fd, bool local)
{
	int rc = d->listener_cnt < ADMIN_ACCEPT_LISTENERS
			 ? epoll_add(d, fd, EPOLLIN, (int)d->listener_cnt)
			 : -E2BIG;

	if (rc) {
		close(fd);
		return rc;
	}
	d->listeners[d->listener_cnt].fd = fd;
	d->listeners[d->listener_cnt++].local = local;
	return 0;
}

int admin_acceptor_watch(struct admin_acceptor *d, int fd)
{
	return epoll_add(d, fd, EPOLLIN, WATCHED);
}

void admin_acceptor_close(struct admin_acceptor *d)
{
	if (!d)
		return;
	for (unsigned i = 0; i < d->listener_cnt; i++)
		close(d->listeners[i].fd);
	for (int i = 0; i < ADMIN_ACCEPT_SLOTS; i++) {
		if (d->slots[i].fd >= 0)
			close(d->slots[i].fd);
	}
	close(d->epoll_fd);
	free(d);
}

int admin_acceptor_fd(const struct admin_acceptor *d)
{
	return d->epoll_fd;
}

static uint64_t hash_bytes(const void *bytes, size_t len)
{
	return sl_fnv64(SL_FNV64, bytes, len);
}

uint64_t admin_peer_id(int fd)
{
	struct sockaddr_storage ss = {0};
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)&ss;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&ss;
	struct ucred peer = {0};
	socklen_t len = sizeof(ss);

	getpeername(fd, (struct sockaddr *)&ss, &len);
	if (ss.ss_family == AF_INET)
		return hash_bytes(&v4->sin_addr, sizeof(v4->sin_addr));
	if (ss.ss_family == AF_INET6)
		return hash_bytes(&v6->sin6_addr, 8);
	len = sizeof(peer);
	getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len);
	return hash_bytes(&peer.uid, sizeof(peer.uid));
}

static void close_slot(struct accept_slot *p)
{
	close(p->fd);
	p->fd = -1;
}

static struct accept_slot *take_slot(struct admin_acceptor *d)
{
	struct accept_slot *worst = &d->slots[0];
	unsigned most = 0;

	for (int i = 0; i < ADMIN_ACCEPT_SLOTS; i++) {
		if (d->slots[i].fd < 0)
			return &d->slots[i];
	}
	for (int i = 0; i < ADMIN_ACCEPT_SLOTS; i++) {
		struct accept_slot *p = &d->slots[i];
		unsigned n = 0;

		for (int k = 0; k < ADMIN_ACCEPT_SLOTS; k++)
			n += d->slots[k].fd >= 0 && d->slots[k].peer_id == p->peer_id;
		if (n > most || (n == most && p->since_ns < worst->since_ns)) {
			worst = p;
			most = n;
		}
	}
	close_slot(worst);
	return worst;
}

static size_t head_len(const char *at, size_t len)
{
	for (size_t i = 1; i < len; i++) {
		if (at[i] != '\n')
			continue;
		if (at[i - 1] == '\n' || (i >= 3 && memcmp(at + i - 3, "\r\n\r", 3) == 0))
			return i + 1;
	}
	return 0;
}

static bool read_head(struct admin_acceptor *d, struct accept_slot *p)
{
	static const char too_large[] =
		"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\n"
		"Content-Length: 0\r\n\r\n";
	char head[ADMIN_ACCEPT_HEAD_MAX];
	ssize_t n = recv(p->fd, head, sizeof(head), MSG_PEEK | MSG_DONTWAIT);
	size_t len;
	int fd = p->fd;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	len = n > 0 ? head_len(head, (size_t)n) : 0;
	if (n > 0 && !len && (size_t)n < sizeof(head))
		return false;
	if (!len) {
		if (n > 0)
			(void)!send(fd, too_large, sizeof(too_large) - 1,
				    MSG_DONTWAIT | MSG_NOSIGNAL);
		close_slot(p);
		return true;
	}
	p->fd = -1;
	epoll_ctl(d->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	d->enter(d->arg, fd, p->local, head, len);
	return true;
}

/* Edge-triggered: an incomplete head must not wake the loop again. */
static void accept_connection(struct admin_acceptor *d, int fd, bool local, uint64_t now_ns)
{
	struct accept_slot *p = take_slot(d);
	int id = FIRST_SLOT + (int)(p - d->slots);

	*p = (struct accept_slot){.fd = fd, .local = local, .since_ns = now_ns};
	p->peer_id = admin_peer_id(fd);
	if (epoll_add(d, fd, EPOLLIN | EPOLLRDHUP | EPOLLET, id)) {
		close_slot(p);
		return;
	}
	read_head(d, p);
}

static void take_connections(struct admin_acceptor *d, unsigned listener, uint64_t now_ns)
{
	for (int i = 0; i < ACCEPTS; i++) {
		int fd = accept4(d->listeners[listener].fd, NULL, NULL,
				 SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			accept_connection(d, fd, d->listeners[listener].local, now_ns);
			continue;
		}
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			SL_LOG_EVERY(UINT64_C(1000000000), SL_LOG_WARN, "admin: accept: %s",
				     strerror(errno));
		return;
	}
}

void admin_acceptor_run(struct admin_acceptor *d, uint64_t now_ns)
{
	struct epoll_event events[EVENTS];
	int n = epoll_wait(d->epoll_fd, events, EVENTS, 0);

	/* Waiting connections first: a new one may evict the oldest. */
	for (int i = 0; i < n; i++) {
		int id = (int)events[i].data.u32;

		if (id >= FIRST_SLOT && d->slots[id - FIRST_SLOT].fd >= 0)
			read_head(d, &d->slots[id - FIRST_SLOT]);
	}
	for (int i = 0; i < n; i++) {
		int id = (int)events[i].data.u32;

		if (id >= 0 && id < FIRST_SLOT)
			take_connections(d, (unsigned)id, now_ns);
	}
	for (int i = 0; i < ADMIN_ACCEPT_SLOTS; i++) {
		struct accept_slot *p = &d->slots[i];

		if (p->fd >= 0 && now_ns - p->since_ns > ADMIN_ACCEPT_HEAD_MS * SL_NS_PER_MS)
			close_slot(p);
	}
}
