/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/load/engine.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "sluice/datagram.h"

enum { EVENTS = 256, READ_LEN = 65536 };

struct sock {
	int fd;
	struct sl_span pending;
	uint64_t id;
	uint64_t due_ns;
};

struct sock_io {
	int epoll_fd;
	struct sock *socks;
	struct sockaddr_storage to;
	socklen_t to_len;
	uint8_t buf[READ_LEN];
};

static struct sock *sock_of(const struct sl_load *l, const struct sl_load_conn *c)
{
	struct sock_io *io = l->io_state;

	return &io->socks[c->index];
}

static int sock_open(struct sl_load *l, struct sl_load_conn *c)
{
	struct sock_io *io = l->io_state;
	struct sock *s = sock_of(l, c);
	struct epoll_event ev = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.u32 = c->index};
	int type = (l->o->datagram ? SOCK_DGRAM : SOCK_STREAM) | SOCK_NONBLOCK | SOCK_CLOEXEC;
	int one = 1;

	*s = (struct sock){.fd = socket(io->to.ss_family, type, 0)};
	if (s->fd < 0)
		return -errno;
	if (!l->o->datagram)
		setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if ((connect(s->fd, (struct sockaddr *)&io->to, io->to_len) && errno != EINPROGRESS) ||
	    epoll_ctl(io->epoll_fd, EPOLL_CTL_ADD, s->fd, &ev)) {
		int rc = -errno;

		close(s->fd);
		s->fd = -1;
		return rc;
	}
	return 0;
}

static void sock_close(struct sl_load *l, struct sl_load_conn *c)
{
	struct sock *s = sock_of(l, c);

	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
	s->pending.len = 0;
}

static bool write_pending(struct sock *s)
{
	while (s->pending.len) {
		ssize_t n = send(s->fd, s->pending.ptr, s->pending.len, MSG_NOSIGNAL);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR;
		s->pending = sl_span_skip(s->pending, (size_t)n);
	}
	return true;
}

static bool sock_has_room(struct sl_load *l, struct sl_load_conn *c, size_t len)
{
	(void)len;
	return !sock_of(l, c)->pending.len;
}

static bool sock_send(struct sl_load *l, struct sl_load_conn *c, struct sl_span bytes)
{
	struct sock *s = sock_of(l, c);

	if (l->o->datagram) {
		struct sl_datagram_request *h = (struct sl_datagram_request *)bytes.ptr;

		s->id = ++l->sequence;
		h->id = htole64(s->id);
		s->due_ns = l->now_ns + l->o->timeout_ns;
		return send(s->fd, bytes.ptr, bytes.len, MSG_NOSIGNAL) == (ssize_t)bytes.len;
	}
	if (!sock_has_room(l, c, bytes.len))
		return false;
	s->pending = bytes;
	(void)write_pending(s);
	return true;
}

static void read_datagrams(struct sl_load *l, struct sl_load_conn *c, struct sock *s)
{
	struct sock_io *io = l->io_state;
	ssize_t n;

	while ((n = recv(s->fd, io->buf, sizeof(io->buf), 0)) > 0) {
		struct sl_datagram_reply h;
		int error = SL_LOAD_ERROR_CNT;

		if ((size_t)n < sizeof(h))
			continue;
		memcpy(&h, io->buf, sizeof(h));
		if (le64toh(h.id) != s->id || !c->in_flight)
			continue;
		if (le16toh(h.status) != SL_DATAGRAM_OK)
			error = SL_LOAD_STATUS;
		else if (l->o->echo &&
			 !sl_span_eq(sl_span_of(io->buf + sizeof(h), (size_t)n - sizeof(h)),
				     l->o->body))
			error = SL_LOAD_BODY;
		sl_load_finished(l, c, error);
	}
}

static void read_stream(struct sl_load *l, struct sl_load_conn *c, struct sock *s)
{
	struct sock_io *io = l->io_state;

	while (c->state != SL_CONN_CLOSED) {
		ssize_t n = recv(s->fd, io->buf, sizeof(io->buf), 0);

		if (n > 0) {
			sl_load_data(l, c, sl_span_of(io->buf, (size_t)n));
			if ((size_t)n < sizeof(io->buf))
				return; /* edge-triggered: another event follows */
			continue;
		}
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		sock_close(l, c);
		sl_load_closed(l, c);
	}
}

static void handle_event(struct sl_load *l, struct sl_load_conn *c, uint32_t events)
{
	struct sock *s = sock_of(l, c);
	int error = 0;
	socklen_t len = sizeof(error);

	if (s->fd < 0)
		return;
	if (c->state == SL_CONN_OPENING) {
		if ((events & (EPOLLERR | EPOLLHUP)) &&
		    (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &error, &len) || error)) {
			sock_close(l, c);
			sl_load_closed(l, c);
			return;
		}
		if (!(events & EPOLLOUT))
			return;
		sl_load_connected(l, c);
	}
	if ((events & EPOLLOUT) && !l->o->datagram)
		(void)write_pending(s);
	if (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) {
		if (l->o->datagram)
			read_datagrams(l, c, s);
		else
			read_stream(l, c, s);
	}
}

static int sock_poll(struct sl_load *l, uint64_t until_ns)
{
	struct sock_io *io = l->io_state;
	struct epoll_event events[EVENTS];
	uint64_t now_ns = sl_now_ns(), wait = until_ns > now_ns ? until_ns - now_ns : 0;
	struct timespec ts = {.tv_sec = (time_t)(wait / SL_NS_PER_SEC),
			      .tv_nsec = (long)(wait % SL_NS_PER_SEC)};
	int n = epoll_pwait2(io->epoll_fd, events, EVENTS, &ts, NULL);

	l->now_ns = sl_now_ns();
	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	for (int i = 0; i < n; i++)
		handle_event(l, &l->conns[events[i].data.u32], events[i].events);
	for (uint32_t i = 0; l->o->datagram && i < l->o->connections; i++) {
		struct sl_load_conn *c = &l->conns[i];

		if (c->in_flight && l->now_ns >= sock_of(l, c)->due_ns)
			sl_load_finished(l, c, SL_LOAD_TIMEOUT);
	}
	return 0;
}

static void sock_fini(struct sl_load *l)
{
	struct sock_io *io = l->io_state;

	for (uint32_t i = 0; i < l->o->connections; i++)
		sock_close(l, &l->conns[i]);
	if (io->epoll_fd >= 0)
		close(io->epoll_fd);
	free(io->socks);
	free(io);
}

static const struct sl_load_io sock_ops = {
	.open = sock_open,
	.has_room = sock_has_room,
	.send = sock_send,
	.close = sock_close,
	.poll = sock_poll,
	.fini = sock_fini,
};

int sl_load_sock_init(struct sl_load *l, struct sl_err *err)
{
	struct sock_io *io = calloc(1, sizeof(*io));

	if (io)
		io->socks = calloc(l->o->connections, sizeof(*io->socks));
	if (!io || !io->socks) {
		free(io);
		return sl_fail(err, -ENOMEM, "no memory for %u sockets", l->o->connections);
	}
	for (uint32_t i = 0; i < l->o->connections; i++)
		io->socks[i].fd = -1;
	io->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	io->to_len = sl_addr_to_sockaddr(&l->o->to, &io->to);
	l->io = &sock_ops;
	l->io_state = io;
	return 0;
}
