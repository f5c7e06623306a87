/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Edge-triggered sockets to servers: stopping and resuming a server takes no system call. Unwanted
 * events are dropped: a protocol sends before it waits, and reads when it resumes.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

#include "agent/internal.h"
#include "base/clock.h"
#include "base/log.h"

enum { READ_MAX = 240 << 10 };

static struct agent *agent_of(const struct agent_conn *c)
{
	return agent_conn_server(c)->a;
}

void agent_conn_gone(struct origin_conn *o)
{
	struct agent_conn *c = agent_conn_of(o);

	sl_list_del(&c->unfinished);
	agent_tls_free(c->tls);
	c->tls = NULL;
	close(c->fd);
}

void agent_conn_free(struct origin_conn *c)
{
	free(agent_conn_of(c));
}

static ssize_t receive(struct agent_conn *c, struct origin_space space, size_t *total)
{
	ssize_t n;

	if (c->tls) {
		n = agent_tls_recv(c->tls, space.at, space.len);
		*total += AGENT_TLS_IN - c->tls->left;
		return n;
	}
	n = recv(c->fd, space.at, space.len, 0);
	*total += n > 0 ? (size_t)n : 0;
	return n < 0 ? -errno : n;
}

/* A server that refuses a client certificate says so after the handshake. */
static void say_alert(const struct agent_conn *c)
{
	if (c->tls && !c->tls->ended && !c->tls->error)
		SL_LOG_EVERY(SL_NS_PER_SEC, SL_LOG_WARN, "agent: %s: %s", c->origin.server->name,
			     c->tls->why);
}

/* Returns true if there may be more input. */
static bool read_once(struct agent_conn *c, size_t *total)
{
	const struct origin_proto *proto = c->origin.server->proto;
	struct origin_space space = proto->space(&c->origin);
	char why[AGENT_TLS_WHY];
	ssize_t n;

	if (!space.len)
		return false;
	n = receive(c, space, total);
	if (n == -EAGAIN && c->tls && agent_tls_is_cut(c->tls)) {
		*total = READ_MAX;
		return true;
	}
	if (n == -EAGAIN || n == -EINTR)
		return n == -EINTR;
	if (n < 0 && c->tls && c->tls->refused && !c->origin.spoke) {
		snprintf(why, sizeof(why), "%s", c->tls->why);
		origin_conn_refused(&c->origin, why);
		return false;
	}
	if (n < 0)
		say_alert(c);
	if (n <= 0) {
		snprintf(why, sizeof(why), "%s", c->tls ? c->tls->why : strerror((int)-n));
		proto->eof(&c->origin, n ? why : NULL);
		return false;
	}
	if (!proto->input(&c->origin, (size_t)n))
		*total = READ_MAX;
	if (c->tls && agent_tls_has_more(c->tls))
		return true;
	return (!c->tls && (size_t)n == space.len) || c->origin.ended;
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

void agent_conns_read(struct agent *a)
{
	struct sl_list now;
	struct agent_conn *c;

	sl_list_init(&now);
	sl_list_splice_tail(&now, &a->unfinished);
	while ((c = sl_list_first(&now, struct agent_conn, unfinished))) {
		sl_list_del(&c->unfinished);
		agent_conn_read(c);
	}
}

static ssize_t io_send(struct origin_conn *c, const struct iovec *iov, unsigned cnt)
{
	struct msghdr msg = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = cnt};
	ssize_t n;

	if (agent_conn_of(c)->tls)
		return agent_tls_send(agent_conn_of(c)->tls, iov, cnt);
	n = sendmsg(agent_conn_of(c)->fd, &msg, MSG_NOSIGNAL);
	if (n >= 0)
		return n;
	return errno == EINTR ? -EAGAIN : -errno;
}

static bool io_shut(struct origin_conn *c)
{
	struct agent_conn *a = agent_conn_of(c);

	return a->tls ? agent_tls_shut(a->tls) : shutdown(a->fd, SHUT_WR) == 0;
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

static bool end_handshake(struct agent_conn *c)
{
	struct agent_server *s = agent_conn_server(c);
	char why[AGENT_TLS_WHY] = "out of memory";
	int rc;

	if (!c->tls)
		c->tls = agent_tls_new(&s->tls, c->fd);
	rc = c->tls ? agent_tls_handshake(c->tls) : -1;
	if (rc < 0) {
		if (c->tls)
			memcpy(why, c->tls->why, sizeof(why));
		origin_conn_failed(&c->origin, why);
	}
	return rc > 0;
}

/* Returns false if the connection failed or waits for the handshake. */
static bool end_connecting(struct agent_conn *c)
{
	socklen_t len = sizeof(int);
	int error = 0;

	if (!c->tls && getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
		error = errno;
	if (error) {
		origin_conn_failed(&c->origin, strerror(error));
		return false;
	}
	if (agent_conn_server(c)->url.tls && !end_handshake(c))
		return false;
	c->wants_input = true;
	return origin_conn_up(&c->origin);
}

static uint32_t pass_tls(struct agent_tls *t, uint32_t events)
{
	if (events & EPOLLIN)
		t->emptied = false;
	if (!agent_tls_flush(t))
		return events & ~(uint32_t)EPOLLOUT;
	return t->held ? events | EPOLLIN : events;
}

static void on_event(struct agent_watch *w, uint32_t events)
{
	struct agent_conn *c = sl_container_of(w, struct agent_conn, watch);
	bool connecting = c->origin.state == ORIGIN_CONNECTING;

	if (c->origin.state == ORIGIN_DEAD || (connecting && !end_connecting(c)))
		return;
	if (connecting && c->tls) /* bytes behind the handshake have no event */
		events |= EPOLLIN;
	if (c->tls)
		events = pass_tls(c->tls, events);
	if ((events & EPOLLOUT) && c->wants_output)
		origin_conn_write(&c->origin);
	if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		origin_conn_ended(&c->origin);
	if (c->origin.state == ORIGIN_UP && c->wants_input && (events & EPOLLIN || c->origin.ended))
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

/* The kernel gives the lowest free descriptor: its number tells how many are in use. */
static int open_socket(const struct agent_server *s)
{
	int fd = socket(s->addr.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < agent_fds_of(s))
		return fd;
	close(fd);
	errno = EMFILE;
	return -1;
}

static int take_socket(struct agent_server *s)
{
	int fd = open_socket(s);

	return fd < 0 && errno == EMFILE && agent_close_idle(s->a) ? open_socket(s) : fd;
}

bool agent_conn_open(struct origin_server *o)
{
	struct agent_server *s = agent_server_of(o);
	struct agent_conn *c;
	int one = 1, fd, rc;

	if (s->url.tls && !s->tls.ctx) {
		origin_server_down(o, s->tls.error);
		return false;
	}
	s->tried = true;
	fd = take_socket(s);
	c = fd < 0 ? NULL : calloc(1, offsetof(struct agent_conn, origin) + o->proto->conn_size);
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
