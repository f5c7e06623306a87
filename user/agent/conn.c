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

#define CONNECT_NS (3 * SL_NS_PER_SEC)
#define IDLE_NS    (50 * SL_NS_PER_SEC)

enum { READ_MAX = 240 << 10 }; /* bytes of a connection in one turn */

static struct agent_conn *conn_of(struct origin_conn *c)
{
	return sl_container_of(c, struct agent_conn, origin);
}

static struct agent *agent_of(const struct agent_conn *c)
{
	return agent_conn_server(c)->a;
}

void agent_conn_room(struct agent_conn *c)
{
	struct agent_server *s = agent_conn_server(c);

	sl_list_del(&c->ready);
	if (c->origin.state == ORIGIN_UP && !c->stale && s->proto->room(&c->origin))
		sl_list_add_head(&s->ready, &c->ready);
}

void agent_conn_close(struct agent_conn *c, const char *why)
{
	struct agent_server *s = agent_conn_server(c);

	if (c->origin.state == ORIGIN_DEAD)
		return;
	s->connecting -= c->origin.state == ORIGIN_CONNECTING;
	s->conn_cnt--;
	c->origin.state = ORIGIN_DEAD;
	sl_list_del(&c->ready);
	sl_list_del(&c->dirty);
	sl_list_del(&c->unfinished);
	sl_list_del(&c->link);
	agent_timer_cancel(s->a, &c->timer);
	s->proto->closing(&c->origin, why);
	close(c->fd);
	sl_list_add_tail(&s->a->dead, &c->link);
}

/* All output has been taken from the protocol, also what was scheduled meanwhile. */
static void write_conn(struct agent_conn *c)
{
	agent_conn_server(c)->proto->writable(&c->origin);
	sl_list_del(&c->dirty);
}

void agent_conns_write(struct agent *a)
{
	struct agent_conn *c;

	while ((c = sl_list_first(&a->dirty, struct agent_conn, dirty)))
		write_conn(c);
}

/*
 * Returns true if the socket may have more, of which the protocol takes some. A short read took all
 * that caused the last event, except the end of the input.
 */
static bool read_once(struct agent_conn *c, size_t *total)
{
	const struct origin_proto *proto = agent_conn_server(c)->proto;
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
	agent_conn_server(c)->proto->pause(&c->origin);
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
	struct agent_conn *c = conn_of(call->conn);

	if (agent_conn_server(c)->proto->resume(&c->origin, call))
		agent_conn_read(c);
}

/* Transport of the protocols. */

static ssize_t io_send(struct origin_conn *c, const struct iovec *iov, unsigned cnt)
{
	struct msghdr msg = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = cnt};
	ssize_t n = sendmsg(conn_of(c)->fd, &msg, MSG_NOSIGNAL);

	if (n >= 0)
		return n;
	return errno == EINTR ? -EAGAIN : -errno;
}

static bool io_shut(struct origin_conn *c)
{
	return shutdown(conn_of(c)->fd, SHUT_WR) == 0;
}

static void io_read(struct origin_conn *c)
{
	agent_conn_read(conn_of(c));
}

static void io_wait(struct origin_conn *c, bool input, bool writable)
{
	conn_of(c)->wants_input = input;
	conn_of(c)->wants_output = writable;
}

static void io_write_soon(struct origin_conn *o)
{
	struct agent_conn *c = conn_of(o);

	sl_list_del(&c->dirty);
	sl_list_add_tail(&agent_of(c)->dirty, &c->dirty);
}

static void io_idle(struct origin_conn *o)
{
	struct agent_conn *c = conn_of(o);

	agent_timer_set(agent_of(c), &c->timer, agent_of(c)->now_ns + IDLE_NS);
}

static void io_busy(struct origin_conn *o)
{
	struct agent_conn *c = conn_of(o);

	agent_timer_cancel(agent_of(c), &c->timer);
}

static void io_room(struct origin_conn *c)
{
	agent_conn_room(conn_of(c));
}

static void io_close(struct origin_conn *c, const char *why)
{
	agent_conn_close(conn_of(c), why);
}

const struct origin_io agent_io = {
	.send = io_send,
	.shut = io_shut,
	.read = io_read,
	.wait = io_wait,
	.write_soon = io_write_soon,
	.idle = io_idle,
	.busy = io_busy,
	.room = io_room,
	.close = io_close,
};

void agent_conns_free(struct agent *a)
{
	struct sl_list *l;

	while ((l = sl_list_pop_head(&a->dead)))
		free(sl_container_of(l, struct agent_conn, link));
}

void agent_conn_late(struct agent_conn *c)
{
	struct agent_server *s = agent_conn_server(c);
	bool connecting = c->origin.state == ORIGIN_CONNECTING;

	agent_conn_close(c, connecting ? "no answer" : "idle");
	if (connecting)
		agent_server_down(s, "no answer");
}

static void on_event(struct agent_watch *w, uint32_t events)
{
	struct agent_conn *c = sl_container_of(w, struct agent_conn, watch);
	struct agent_server *s = agent_conn_server(c);
	socklen_t len = sizeof(int);
	bool only_tried;
	int error = 0;

	if (c->origin.state == ORIGIN_DEAD)
		return;
	if (c->origin.state == ORIGIN_CONNECTING) {
		if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
			error = errno;
		if (error) {
			agent_conn_close(c, "cannot connect");
			agent_server_down(s, strerror(error));
			return;
		}
		c->origin.state = ORIGIN_UP;
		s->connecting--;
		/* An idle connection would occupy a server that serves one at a time. */
		only_tried = s->down_ns && !s->waiting.cnt && sl_list_empty(&s->resting);
		agent_timer_cancel(s->a, &c->timer);
		c->wants_input = true;
		if (!s->proto->up(&c->origin)) {
			agent_conn_close(c, "out of memory");
			return;
		}
		agent_server_up(s);
		if (only_tried) {
			agent_conn_close(c, "the server is up");
			return;
		}
		agent_conn_room(c);
	}
	if ((events & EPOLLOUT) && c->wants_output)
		write_conn(c);
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
	c->timer.kind = AGENT_TIMER_CONN;
	sl_list_init(&c->ready);
	sl_list_init(&c->dirty);
	sl_list_init(&c->unfinished);
	sl_list_add_tail(&s->conns, &c->link);
	s->conn_cnt++;
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

bool agent_conn_open(struct agent_server *s)
{
	int one = 1, fd = take_socket(s);
	struct agent_conn *c =
		fd < 0 ? NULL
		       : calloc(1, offsetof(struct agent_conn, origin) + s->proto->conn_size);
	int rc;

	if (!c) {
		agent_server_short(s, fd < 0 ? strerror(errno) : "out of memory");
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
			agent_server_short(s, strerror(rc));
		else if (rc == EAGAIN && s->conn_cnt) /* the backlog of a Unix socket is full */
			agent_server_retry(s);
		else
			agent_server_down(s, strerror(rc));
		return false;
	}
	agent_conn_init(c, s, fd);
	s->connecting++;
	agent_timer_set(s->a, &c->timer, s->a->now_ns + CONNECT_NS);
	if (watch_socket(c))
		return true;
	agent_server_short(s, strerror(errno));
	agent_conn_close(c, "cannot be watched");
	return false;
}
