/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets to servers: connect, events, close. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "agent/internal.h"
#include "base/clock.h"

#define CONNECT_NS (3 * SL_NS_PER_SEC)

void agent_conn_wait_for(struct agent_conn *c, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = &c->watch};
	int op = !events ? EPOLL_CTL_DEL : c->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

	if (events == c->events || c->state == AGENT_DEAD)
		return;
	/* Without events epoll would still report errors of the socket, again and again. */
	(void)epoll_ctl(c->server->a->epoll_fd, op, c->fd, &ev);
	c->events = events;
}

void agent_conn_room(struct agent_conn *c)
{
	sl_list_del(&c->ready);
	if (c->state == AGENT_UP && !c->stale && c->server->proto->room(c))
		sl_list_add_head(&c->server->ready, &c->ready);
}

void agent_conn_close(struct agent_conn *c, const char *why)
{
	struct agent_server *s = c->server;

	if (c->state == AGENT_DEAD)
		return;
	s->connecting -= c->state == AGENT_CONNECTING;
	s->conn_cnt--;
	c->state = AGENT_DEAD;
	sl_list_del(&c->ready);
	sl_list_del(&c->dirty);
	sl_list_del(&c->link);
	agent_timer_cancel(s->a, &c->timer);
	s->proto->closing(c, why);
	close(c->fd);
	sl_list_add_tail(&s->a->dead, &c->link);
}

void agent_conn_write_soon(struct agent_conn *c)
{
	sl_list_del(&c->dirty);
	sl_list_add_tail(&c->server->a->dirty, &c->dirty);
}

void agent_conns_write(struct agent *a)
{
	struct agent_conn *c;

	while ((c = sl_list_first(&a->dirty, struct agent_conn, dirty)))
		c->server->proto->writable(c); /* removes it from the list */
}

void agent_conns_free(struct agent *a)
{
	struct sl_list *l;

	while ((l = sl_list_pop_head(&a->dead)))
		free(sl_container_of(l, struct agent_conn, link));
}

void agent_conn_late(struct agent_conn *c)
{
	struct agent_server *s = c->server;
	bool connecting = c->state == AGENT_CONNECTING;

	agent_conn_close(c, connecting ? "no answer" : "idle");
	if (connecting)
		agent_server_down(s, "no answer");
}

static void on_event(struct agent_watch *w, uint32_t events)
{
	struct agent_conn *c = sl_container_of(w, struct agent_conn, watch);
	struct agent_server *s = c->server;
	const struct agent_proto *proto;
	socklen_t len = sizeof(int);
	int error = 0;

	if (c->state == AGENT_DEAD)
		return;
	proto = s->proto;
	if (c->state == AGENT_CONNECTING) {
		if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
			error = errno;
		if (error) {
			agent_conn_close(c, "cannot connect");
			agent_server_down(s, strerror(error));
			return;
		}
		c->state = AGENT_UP;
		s->connecting--;
		agent_timer_cancel(s->a, &c->timer);
		agent_conn_wait_for(c, EPOLLIN);
		if (!proto->up(c)) {
			agent_conn_close(c, "out of memory");
			return;
		}
		agent_server_up(s);
		agent_conn_room(c);
		return;
	}
	if (c->state == AGENT_UP && (events & EPOLLOUT))
		proto->writable(c);
	if (c->state == AGENT_UP && (events & (EPOLLIN | EPOLLHUP | EPOLLERR))) {
		if (c->events & EPOLLIN)
			proto->readable(c);
		else
			agent_conn_wait_for(c, 0); /* the end is seen at the next read */
	}
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
	struct agent_conn *c = fd < 0 ? NULL : calloc(1, s->proto->conn_size);
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
	c->watch.fn = on_event;
	c->server = s;
	c->fd = fd;
	c->timer.kind = AGENT_TIMER_CONN;
	sl_list_init(&c->ready);
	sl_list_init(&c->dirty);
	sl_list_add_tail(&s->conns, &c->link);
	s->conn_cnt++;
	s->connecting++;
	agent_timer_set(s->a, &c->timer, s->a->now_ns + CONNECT_NS);
	agent_conn_wait_for(c, EPOLLOUT);
	return true;
}
