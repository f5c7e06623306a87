/* SPDX-License-Identifier: Apache-2.0 */
#include "origin/health_check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/rand.h"

enum { READ_BYTES = 4096, DISCARD_MAX = 64 << 10 };

static void close_fd(struct origin_check *c)
{
	if (c->fd < 0)
		return;
	if (c->owner->tls)
		c->owner->tls->close(c);
	close(c->fd);
	c->fd = -1;
}

static void close_socket(struct origin_check *c, uint64_t now_ns)
{
	uint64_t tenth = c->cfg.interval_ns / 10;

	close_fd(c);
	c->due_ns = now_ns + c->cfg.interval_ns - tenth + sl_prng_below(c->prng, 2 * tenth + 1);
}

static void settle(struct origin_check *c, const char *why)
{
	if (c->settled)
		return;
	c->settled = true;
	c->failures = why ? c->failures + 1 : 0;
	if (!why || c->failures >= c->cfg.failures)
		c->owner->result(c, why);
}

static void fail_probe(struct origin_check *c, const char *why, uint64_t now_ns)
{
	settle(c, why);
	close_socket(c, now_ns);
}

static void send_request(struct origin_check *c, uint64_t now_ns)
{
	uint8_t request[ORIGIN_PROBE_REQUEST];
	size_t len = origin_probe_begin(&c->reply, &c->cfg.target, request);
	ssize_t n;

	c->sent = true;
	if (!len) {
		fail_probe(c, "the request is too long", now_ns);
		return;
	}
	n = c->owner->tls ? c->owner->tls->send(c, request, len)
			  : send(c->fd, request, len, MSG_NOSIGNAL);
	if (n != (ssize_t)len)
		fail_probe(c, "cannot send the request", now_ns);
}

static void shake_hands(struct origin_check *c, uint64_t now_ns)
{
	int rc = c->owner->tls ? c->owner->tls->handshake(c) : 1;

	if (rc < 0)
		fail_probe(c, c->owner->tls->why(c), now_ns);
	else if (rc > 0)
		send_request(c, now_ns);
}

static void end_connecting(struct origin_check *c, uint64_t now_ns)
{
	socklen_t len = sizeof(int);
	int error = 0;

	if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0 ||
	    (!error && c->owner->watch(c, EPOLLIN, false)))
		error = errno;
	c->connected = true;
	if (error)
		fail_probe(c, strerror(error), now_ns);
	else
		shake_hands(c, now_ns);
}

static void take_bytes(struct origin_check *c, const uint8_t *bytes, size_t len)
{
	enum origin_probe_result r;

	if (c->settled) {
		c->received += (uint32_t)len;
		return;
	}
	r = origin_probe_input(&c->reply, bytes, len);
	if (r != ORIGIN_PROBE_PENDING)
		settle(c, r == ORIGIN_PROBE_OK ? NULL : c->reply.why);
}

static ssize_t receive(struct origin_check *c, uint8_t bytes[READ_BYTES])
{
	ssize_t n;

	if (c->owner->tls)
		return c->owner->tls->receive(c, bytes, READ_BYTES);
	n = recv(c->fd, bytes, READ_BYTES, 0);
	return n < 0 ? -errno : n;
}

/*
 * Reads on after the result: a server may log a connection that is cut off. Returns true if there
 * may be more.
 */
static bool receive_reply(struct origin_check *c, uint64_t now_ns)
{
	uint8_t bytes[READ_BYTES];
	ssize_t n = receive(c, bytes);

	if (n == -EAGAIN || n == -EINTR)
		return false;
	if (n < 0) {
		fail_probe(c, c->owner->tls ? c->owner->tls->why(c) : strerror((int)-n), now_ns);
		return false;
	}
	if (n)
		take_bytes(c, bytes, (size_t)n);
	if (!n || c->received > DISCARD_MAX || (c->settled && c->reply.grpc)) {
		fail_probe(c, "the server closed the connection", now_ns);
		return false;
	}
	return c->owner->tls && c->owner->tls->has_more(c);
}

void origin_check_event(struct origin_check *c, uint64_t now_ns)
{
	if (c->fd < 0)
		return;
	if (!c->connected)
		end_connecting(c, now_ns);
	else if (!c->sent)
		shake_hands(c, now_ns);
	while (c->fd >= 0 && c->sent && receive_reply(c, now_ns))
		;
}

/* A host without descriptors says nothing about the server. */
static void start_probe(struct origin_check *c, uint64_t now_ns)
{
	struct sockaddr_storage to;
	socklen_t len = c->owner->address(c, &to);

	c->fd = len ? socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0) : -1;
	if (c->fd < 0 || c->fd >= c->cfg.fd_max) {
		close_socket(c, now_ns);
		return;
	}
	c->connected = c->sent = c->settled = false;
	c->received = 0;
	c->due_ns = now_ns + c->cfg.timeout_ns;
	if ((connect(c->fd, (const struct sockaddr *)&to, len) && errno != EINPROGRESS) ||
	    c->owner->watch(c, EPOLLOUT, true))
		fail_probe(c, strerror(errno), now_ns);
}

void origin_check_due(struct origin_check *c, uint64_t now_ns)
{
	if (c->fd < 0) {
		start_probe(c, now_ns);
		return;
	}
	if (c->owner->is_full(c))
		c->settled = true;
	fail_probe(c, "no reply in time", now_ns);
}

bool origin_check_init(struct origin_check *c, const struct origin_check_owner *owner,
		       const struct origin_check_config *cfg, struct sl_prng *prng, uint64_t now_ns)
{
	struct origin_probe_target *t = &c->cfg.target;

	*c = (struct origin_check){
		.owner = owner, .cfg = *cfg, .prng = prng, .due_ns = now_ns, .fd = -1};
	t->path = strdup(t->path ? t->path : "/");
	t->service = strdup(t->service ? t->service : "");
	return t->path && t->service;
}

void origin_check_fini(struct origin_check *c)
{
	close_fd(c);
	free((void *)(uintptr_t)c->cfg.target.path);
	free((void *)(uintptr_t)c->cfg.target.service);
}
