/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets to servers: connect, events, close. Sockets are watched edge-triggered and never changed,
 * so that stopping and resuming a server takes no system call. An event that a protocol does not
 * want is dropped: a protocol sends before it waits, and input is read when it is wanted again.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

#include "agent/internal.h"
#include "base/clock.h"

enum { READ_MAX = 240 << 10 }; /* bytes of a connection in one turn */

static struct agent *agent_of(const struct agent_conn *c)
{
	return agent_conn_server(c)->a;
}

void agent_conn_gone(struct origin_conn *o)
{
	struct agent_conn *c = agent_conn_of(o);

	sl_list_del(&c->unfinished);
	close(c->fd);
}

void agent_conn_free(struct origin_conn *c)
{
	free(agent_conn_of(c));
}

/*
 * Returns true if the socket may have more, of which the protocol takes some. A short read took all
 * that caused the last event, except the end of the input.
 */
static bool read_once(struct agent_conn *c, size_t *total)
{
	const struct origin_proto *proto = c->origin.server->proto;
	struct origin_space space = proto->space(&c->origin);
	ssize_t n;

	if (!space.len)
		return false;
	n = recv(c->fd, space.at, space.len, 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return errno == EINTR;
	if (n <= 0) {
		proto->eof(&c->origin, n ? strerror(errno) : NULL);
		return false;
	}
	*total += (size_t)n;
	/* A connection without a call takes the rest in another turn. */
	if (!proto->input(&c->origin, (size_t)n))
		*total = READ_MAX;
	return (size_t)n == space.len || c->ended;
}

void agent_conn_read(struct agent_conn *c)
{
	size_t total = 0;
	bool more = true;

	while (more && total < READ_MAX)
		more = read_once(c, &total);
	if (c->origin.state != ORIGIN_UP)
		return;
	c->origin.server->proto->pause(&c->origin);
	if (more && c->origin.state == ORIGIN_UP) {
		sl_list_del(&c->unfinished);
		sl_list_add_tail(&agent_of(c)->unfinished, &c->unfinished);
	}
}

bool agent_conns_read(struct agent *a)
{
	struct sl_list now;
	struct agent_conn *c;

	sl_list_init(&now);
	sl_list_splice_tail(&now, &a->unfinished);
	while ((c = sl_list_first(&now, struct agent_conn, unfinished))) {
		sl_list_del(&c->unfinished);
		agent_conn_read(c);
	}
	return !sl_list_empty(&a->unfinished);
}

void agent_conn_resume(struct origin_call *call)
{
	struct origin_conn *c = call->conn;

	if (c->server->proto->resume(c, call))
		agent_conn_read(agent_conn_of(c));
}

/* Transport of the protocols. */

static ssize_t io_send(struct origin_conn *c, const struct iovec *iov, unsigned cnt)
{
	struct msghdr msg = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = cnt};
	ssize_t n = sendmsg(agent_conn_of(c)->fd, &msg, MSG_NOSIGNAL);

	if (n >= 0)
		return n;
	return errno == EINTR ? -EAGAIN : -errno;
}

static bool io_shut(struct origin_conn *c)
{
	return shutdown(agent_conn_of(c)->fd, SHUT_WR) == 0;
}

static void io_read(struct origin_conn *c)
{
	agent_conn_read(agent_conn_of(c));
}

static void io_wait(struct origin_conn *c, bool input, bool writable)
{
	agent_conn_of(c)->wants_input = input;
	agent_conn_of(c)->wants_output = writable;
}

const struct origin_io agent_io = {
	.send = io_send,
	.shut = io_shut,
	.read = io_read,
	.wait = io_wait,
	.write_soon = origin_conn_write_soon,
	.idle = origin_conn_idle,
	.busy = origin_conn_busy,
	.room = origin_conn_room,
	.close = origin_conn_close,
};

/* Returns false if there is no connection. */
static bool end_connecting(struct agent_conn *c)
{
	socklen_t len = sizeof(int);
	int error = 0;

	if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
		error = errno;
	if (!error) {
		c->wants_input = true;
		return origin_conn_up(&c->origin);
	}
	origin_conn_failed(&c->origin, strerror(error));
	return false;
}

static void on_event(struct agent_watch *w, uint32_t events)
{
	struct agent_conn *c = sl_container_of(w, struct agent_conn, watch);

	if (c->origin.state == ORIGIN_DEAD ||
	    (c->origin.state == ORIGIN_CONNECTING && !end_connecting(c)))
		return;
	if ((events & EPOLLOUT) && c->wants_output)
		origin_conn_write(&c->origin);
	c->ended |= (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
	if (c->origin.state == ORIGIN_UP && c->wants_input && (events & EPOLLIN || c->ended))
		agent_conn_read(c);
}

static bool watch_socket(struct agent_conn *c)
{
	struct epoll_event ev = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
				 .data.ptr = &c->watch};

	return epoll_ctl(agent_of(c)->epoll_fd, EPOLL_CTL_ADD, c->fd, &ev) == 0;
}

void agent_conn_init(struct agent_conn *c, struct agent_server *s, int fd)
{
	c->watch.fn = on_event;
	c->origin.server = &s->origin;
	c->fd = fd;
	sl_list_init(&c->unfinished);
	origin_conn_init(&c->origin);
}

/* The kernel gives the lowest free descriptor, so its number tells how many are in use. */
static int open_socket(const struct agent_server *s)
{
	int fd = socket(s->addr.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < agent_fds_of(s))
		return fd;
	close(fd);
	errno = EMFILE;
	return -1;
}

/* Closes an idle connection if necessary. */
static int take_socket(struct agent_server *s)
{
	int fd = open_socket(s);

	return fd < 0 && errno == EMFILE && agent_close_idle(s->a) ? open_socket(s) : fd;
}

bool agent_conn_open(struct origin_server *o)
{
	struct agent_server *s = agent_server_of(o);
	int one = 1, fd = take_socket(s);
	struct agent_conn *c =
		fd < 0 ? NULL
		       : calloc(1, offsetof(struct agent_conn, origin) + o->proto->conn_size);
	int rc;

	if (!c) {
		origin_server_short(o, fd < 0 ? strerror(errno) : "out of memory");
		if (fd >= 0)
			close(fd);
		return false;
	}
	if (!s->url.local)
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	rc = connect(fd, (const struct sockaddr *)&s->addr, s->addr_len) ? errno : 0;
	if (rc && rc != EINPROGRESS) {
		free(c);
		close(fd);
		if (rc == EADDRNOTAVAIL)
			origin_server_short(o, strerror(rc));
		else if (rc == EAGAIN && o->conn_cnt) /* the backlog of a Unix socket is full */
			origin_server_retry(o);
		else
			origin_server_down(o, strerror(rc));
		return false;
	}
	agent_conn_init(c, s, fd);
	origin_conn_connecting(&c->origin);
	if (watch_socket(c))
		return true;
	origin_server_short(o, strerror(errno));
	origin_conn_close(&c->origin, "cannot be watched");
	return false;
}
