/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "agent/internal.h"
#include "base/clock.h"

enum { READ_BYTES = 4096, DISCARD_MAX = 64 << 10 };

static struct agent *agent_of(const struct agent_probe *p)
{
	return p->server->a;
}

/* The pause differs by up to a tenth, so that agents do not probe in step. */
static void schedule_next(struct agent_probe *p)
{
	uint64_t tenth = p->cfg.interval_ns / 10;
	uint64_t jitter = sl_prng_below(&agent_of(p)->prng, 2 * tenth + 1);

	origin_timer_set(&agent_of(p)->origin, &p->timer,
			 agent_of(p)->origin.now_ns + p->cfg.interval_ns - tenth + jitter);
}

static void close_socket(struct agent_probe *p)
{
	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
	schedule_next(p);
}

static void settle(struct agent_probe *p, const char *why)
{
	if (p->settled)
		return;
	p->settled = true;
	if (!why) {
		p->failures = 0;
		origin_server_healthy(&p->server->origin);
		return;
	}
	if (++p->failures >= p->cfg.failures)
		origin_server_unhealthy(&p->server->origin, why);
}

static void fail_probe(struct agent_probe *p, const char *why)
{
	settle(p, why);
	close_socket(p);
}

/* The request is small enough for the buffer of a new socket. */
static void send_request(struct agent_probe *p)
{
	struct agent_server *s = p->server;
	const struct origin_probe_target target = {.grpc = s->url.proto == SL_SERVER_H2C,
						   .authority = s->origin.authority.text,
						   .path = p->cfg.path,
						   .service = p->cfg.service,
						   .expect = (uint16_t)p->cfg.expect};
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &p->watch};
	uint8_t request[ORIGIN_PROBE_REQUEST];
	size_t len = origin_probe_begin(&p->reply, &target, request);

	p->sent = true;
	if (!len)
		fail_probe(p, "the request is too long");
	else if (send(p->fd, request, len, MSG_NOSIGNAL) != (ssize_t)len)
		fail_probe(p, "cannot send the request");
	else if (epoll_ctl(agent_of(p)->epoll_fd, EPOLL_CTL_MOD, p->fd, &ev) != 0)
		fail_probe(p, strerror(errno));
}

static void take_bytes(struct agent_probe *p, const uint8_t *bytes, size_t len)
{
	enum origin_probe_result r;

	if (p->settled) {
		p->received += (uint32_t)len;
		return;
	}
	r = origin_probe_input(&p->reply, bytes, len);
	if (r != ORIGIN_PROBE_PENDING)
		settle(p, r == ORIGIN_PROBE_OK ? NULL : p->reply.why);
}

/* After the result, the rest is read: a server may log a connection that is cut off. */
static void receive_reply(struct agent_probe *p)
{
	uint8_t bytes[READ_BYTES];
	ssize_t n = recv(p->fd, bytes, sizeof(bytes), 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) {
		fail_probe(p, strerror(errno));
		return;
	}
	if (n)
		take_bytes(p, bytes, (size_t)n);
	if (!n || p->received > DISCARD_MAX || (p->settled && p->reply.grpc))
		fail_probe(p, "the server closed the connection");
}

static void on_event(struct agent_watch *w, uint32_t events)
{
	struct agent_probe *p = sl_container_of(w, struct agent_probe, watch);
	socklen_t len = sizeof(int);
	int error = 0;

	(void)events;
	if (p->fd < 0)
		return;
	if (p->sent) {
		receive_reply(p);
		return;
	}
	if (getsockopt(p->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
		error = errno;
	if (error)
		fail_probe(p, strerror(error));
	else
		send_request(p);
}

/* A host without descriptors says nothing about the server. */
static bool open_socket(struct agent_probe *p)
{
	const struct agent_server *s = p->server;

	p->fd = s->addr_len
			? socket(s->addr.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)
			: -1;
	if (p->fd >= 0 && p->fd < s->a->fd_max)
		return true;
	close_socket(p);
	return false;
}

static void start_probe(struct agent_probe *p)
{
	struct epoll_event ev = {.events = EPOLLOUT, .data.ptr = &p->watch};
	const struct agent_server *s = p->server;

	if (!open_socket(p))
		return;
	p->sent = p->settled = false;
	p->received = 0;
	origin_timer_set(&s->a->origin, &p->timer, s->a->origin.now_ns + p->cfg.timeout_ns);
	if ((connect(p->fd, (const struct sockaddr *)&s->addr, s->addr_len) &&
	     errno != EINPROGRESS) ||
	    epoll_ctl(s->a->epoll_fd, EPOLL_CTL_ADD, p->fd, &ev))
		fail_probe(p, strerror(errno));
}

/* A server that has all the requests that it may have does not answer one more. */
static bool is_full(const struct origin_server *s)
{
	return s->limit.fixed && s->busy_cnt >= s->limit.fixed;
}

static void end_timer(struct origin_timer *t)
{
	struct agent_probe *p = sl_container_of(t, struct agent_probe, timer);

	if (p->fd < 0) {
		start_probe(p);
		return;
	}
	if (is_full(&p->server->origin))
		p->settled = true;
	fail_probe(p, "no reply in time");
}

bool agent_probe_init(struct agent_probe *p, struct agent_server *s,
		      const struct sl_agent_health *cfg)
{
	*p = (struct agent_probe){.watch = {on_event}, .server = s, .cfg = *cfg, .fd = -1};
	p->timer.fn = end_timer;
	if (!cfg->interval_ns)
		return true;
	p->cfg.path = strdup(cfg->path ? cfg->path : "/");
	p->cfg.service = strdup(cfg->service ? cfg->service : "");
	origin_timer_set(&s->a->origin, &p->timer, s->a->origin.now_ns);
	return p->cfg.path && p->cfg.service;
}

void agent_probe_fini(struct agent_probe *p)
{
	if (!p->server || !p->cfg.interval_ns)
		return;
	if (p->fd >= 0)
		close(p->fd);
	origin_timer_cancel(&agent_of(p)->origin, &p->timer);
	free((void *)(uintptr_t)p->cfg.path);
	free((void *)(uintptr_t)p->cfg.service);
}
