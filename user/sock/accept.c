/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "sock/internal.h"
#include "sock/reserve.h"

enum { ACCEPTS = 16 /* per listener and poll */ };

static void watch_source(struct sl_sock_set *s, struct sl_sock_source *src)
{
	struct epoll_event e = {.events = EPOLLIN | EPOLLEXCLUSIVE};

	e.data.u64 = UINT64_C(1) << 32 | (uint64_t)(src - s->sources);
	src->watched = epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, src->fd, &e) == 0;
	if (!src->watched)
		sl_log_err("cannot watch a listening socket: %s", strerror(errno));
}

static void unwatch_source(struct sl_sock_set *s, struct sl_sock_source *src)
{
	if (src->watched)
		(void)epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, src->fd, NULL);
	src->watched = false;
	src->ready = false;
}

static void close_source(struct sl_sock_set *s, struct sl_sock_source *src)
{
	if (src->fd < 0)
		return;
	unwatch_source(s, src); /* other descriptors keep the socket open */
	close(src->fd);
	src->fd = -1;
}

void sl_sock_watch_sources(struct sl_sock_set *s)
{
	s->accept_ns = 0;
	for (uint32_t i = 0; i < s->source_cnt; i++) {
		if (s->sources[i].fd >= 0 && !s->sources[i].watched)
			watch_source(s, &s->sources[i]);
	}
}

/* Without descriptors or memory the kernel would report the connection repeatedly. */
static void pause_accepting(struct sl_sock_set *s, int error)
{
	s->stats.accept_failures++;
	s->accept_ns = s->now_ns + SL_SOCK_ACCEPT_NS;
	for (uint32_t i = 0; i < s->source_cnt; i++)
		unwatch_source(s, &s->sources[i]);
	SL_LOG_EVERY(10 * SL_NS_PER_SEC, SL_LOG_WARN,
		     "cannot accept connections: %s; trying again in 100 ms", strerror(error));
}

void sl_sock_close_sources(struct sl_sock_set *s)
{
	for (uint32_t i = 0; i < s->source_cnt; i++)
		close_source(s, &s->sources[i]);
}

static struct sl_sock_source *find_source(struct sl_sock_set *s, uint32_t id)
{
	for (uint32_t i = 0; i < s->source_cnt; i++) {
		if (s->sources[i].fd >= 0 && s->sources[i].id == id)
			return &s->sources[i];
	}
	return NULL;
}

static struct sl_sock_source *free_source(struct sl_sock_set *s)
{
	for (uint32_t i = 0; i < s->source_cnt; i++) {
		if (s->sources[i].fd < 0 && !s->sources[i].conns)
			return &s->sources[i];
	}
	return s->source_cnt < SL_SOCK_LISTENERS_MAX ? &s->sources[s->source_cnt++] : NULL;
}

static void add_source(struct sl_sock_set *s, const struct sl_sock_listener *l)
{
	struct sl_sock_source *src = find_source(s, l->id);

	if (src) {
		close(l->fd);
		src->listener = l->listener;
		return;
	}
	src = free_source(s);
	if (!src) {
		sl_log_err("no room for a listening socket");
		close(l->fd);
		return;
	}
	*src = (struct sl_sock_source){
		.fd = l->fd, .id = l->id, .listener = l->listener, .name = l->name};
	if (!s->accept_ns)
		watch_source(s, src);
}

void sl_sock_set_listeners(struct sl_sock_set *s, const struct sl_sock_listener *l, uint32_t cnt)
{
	for (uint32_t i = 0; i < s->source_cnt; i++) {
		bool stays = false;

		for (uint32_t k = 0; k < cnt && !stays; k++)
			stays = l[k].id == s->sources[i].id;
		if (!stays)
			close_source(s, &s->sources[i]);
	}
	for (uint32_t k = 0; k < cnt; k++)
		add_source(s, &l[k]);
}

void sl_sock_renumber(struct sl_sock_set *s, int32_t (*find)(const void *arg, uint64_t name),
		      const void *arg)
{
	for (uint32_t i = 0; i < s->source_cnt; i++) {
		if (s->sources[i].name)
			s->sources[i].listener = find(arg, s->sources[i].name);
	}
}

void sl_sock_exclude(struct sl_sock_set *s, const int *ifindex, uint32_t cnt)
{
	s->excluded_cnt = cnt < SL_SOCK_EXCLUDED_MAX ? cnt : SL_SOCK_EXCLUDED_MAX;
	for (uint32_t i = 0; i < s->excluded_cnt; i++)
		s->excluded[i] = ifindex[i];
}

/*
 * True for unknown interfaces. IPv6 counts loopback traffic as of the address's interface, from
 * which only the host can complete a handshake.
 */
static bool is_excluded(const struct sl_sock_set *s, int fd, const struct sl_conn_info *info)
{
	int ifindex;

	if (!s->excluded_cnt ||
	    memcmp(info->local.addr, info->peer.addr, sizeof(info->peer.addr)) == 0)
		return false;
	ifindex = sl_sock_ingress(fd, info->peer.family);
	if (!ifindex)
		return true;
	for (uint32_t i = 0; i < s->excluded_cnt; i++) {
		if (s->excluded[i] == ifindex)
			return true;
	}
	return false;
}

static void refuse_fd(struct sl_sock_set *s, int fd)
{
	const struct linger at_once = {.l_onoff = 1};

	s->stats.refused++;
	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	close(fd);
}

/* Clients of Unix sockets count as local TCP clients. */
static bool read_addresses(int fd, const struct sockaddr_storage *from, struct sl_addr *local,
			   struct sl_addr *peer)
{
	static const uint8_t loopback[16] = {127, 0, 0, 1};
	SL_UNINIT struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	if (from->ss_family == AF_UNIX) {
		*local = *peer = sl_addr_of(4, loopback, 0);
		return true;
	}
	return getsockname(fd, (struct sockaddr *)&ss, &len) == 0 &&
	       sl_addr_from_sockaddr(local, (const struct sockaddr *)&ss) &&
	       sl_addr_from_sockaddr(peer, (const struct sockaddr *)from);
}

static void accept_fd(struct sl_sock_set *s, struct sl_sock_source *src, int fd,
		      const struct sockaddr_storage *from)
{
	uint16_t index = (uint16_t)(src - s->sources);
	struct sl_conn_info info = {.listener = (uint16_t)src->listener};
	struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET};
	struct sl_sock_conn *c = NULL;

	if (read_addresses(fd, from, &info.local, &info.peer) &&
	    (from->ss_family == AF_UNIX || !is_excluded(s, fd, &info)))
		c = sl_sock_conn_open(s, fd, index, &info.local, &info.peer);
	if (!c) {
		refuse_fd(s, fd);
		return;
	}
	e.data.u64 = sl_mempool_index(&s->conns, c);
	if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &e) == 0)
		c->handle = s->ops.accepted(s->app, c, &info);
	if (!c->handle) {
		s->stats.refused++;
		sl_sock_conn_drop(c, true);
		return;
	}
	s->stats.accepted++;
}

static unsigned accept_from(struct sl_sock_set *s, struct sl_sock_source *src)
{
	unsigned n = 0;

	src->ready = false;
	while (n < ACCEPTS && src->fd >= 0) {
		SL_UNINIT struct sockaddr_storage from;
		socklen_t len = sizeof(from);
		int fd;

		from.ss_family = AF_UNIX;
		fd = accept4(src->fd, (struct sockaddr *)&from, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd >= 0) {
			accept_fd(s, src, fd, &from);
			n++;
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			pause_accepting(s, errno);
		else if (errno == EINVAL) /* no longer listening */
			unwatch_source(s, src);
		else if (errno != EAGAIN && errno != EINTR)
			s->stats.accept_failures++; /* the connection's own, see accept(2) */
		break;
	}
	return n;
}

unsigned sl_sock_accept(struct sl_sock_set *s)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < s->source_cnt; i++) {
		if (s->sources[i].ready)
			n += accept_from(s, &s->sources[i]);
	}
	return n;
}
