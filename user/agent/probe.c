/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/epoll.h>
#include <sys/uio.h>

#include "agent/internal.h"

static struct agent_probe *probe_of(struct origin_check *c)
{
	return sl_container_of(c, struct agent_probe, check);
}

static struct origin *origin_of(const struct agent_probe *p)
{
	return &p->server->a->origin;
}

static socklen_t copy_address(struct origin_check *c, struct sockaddr_storage *to)
{
	const struct agent_server *s = probe_of(c)->server;

	*to = s->addr;
	return s->addr_len;
}

static int watch_socket(struct origin_check *c, uint32_t event, bool is_new)
{
	struct agent_probe *p = probe_of(c);
	struct epoll_event ev = {.events = event, .data.ptr = &p->watch};

	return epoll_ctl(p->server->a->epoll_fd, is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, c->fd,
			 &ev);
}

static void take_result(struct origin_check *c, const char *why)
{
	struct origin_server *s = &probe_of(c)->server->origin;

	if (why)
		origin_server_unhealthy(s, why);
	else
		origin_server_healthy(s, true);
}

static bool is_full(struct origin_check *c)
{
	const struct origin_server *s = &probe_of(c)->server->origin;

	return s->limit.fixed && s->busy_cnt >= s->limit.fixed;
}

static int shake_hands(struct origin_check *c)
{
	struct agent_probe *p = probe_of(c);

	if (!p->tls)
		p->tls = agent_tls_new(&p->server->tls, c->fd);
	return p->tls ? agent_tls_handshake(p->tls) : -1;
}

static ssize_t send_tls(struct origin_check *c, const uint8_t *bytes, size_t len)
{
	const struct iovec iov = {(void *)(uintptr_t)bytes, len};

	return agent_tls_send(probe_of(c)->tls, &iov, 1);
}

static ssize_t receive_tls(struct origin_check *c, uint8_t *bytes, size_t len)
{
	return agent_tls_recv(probe_of(c)->tls, bytes, len);
}

static bool has_more(struct origin_check *c)
{
	return agent_tls_has_more(probe_of(c)->tls);
}

static const char *explain(struct origin_check *c)
{
	const struct agent_probe *p = probe_of(c);

	if (p->tls)
		return p->tls->why;
	return p->server->tls.ctx ? "out of memory" : p->server->tls.error;
}

static void close_tls(struct origin_check *c)
{
	agent_tls_free(probe_of(c)->tls);
	probe_of(c)->tls = NULL;
}

static const struct origin_check_tls tls = {shake_hands, send_tls, receive_tls,
					    has_more,    explain,  close_tls};
static const struct origin_check_owner owner = {copy_address, watch_socket, take_result, is_full,
						NULL},
				       tls_owner = {copy_address, watch_socket, take_result,
						    is_full, &tls};

static void set_timer(struct agent_probe *p)
{
	origin_timer_set(origin_of(p), &p->timer, p->check.due_ns);
}

static void on_event(struct agent_watch *w, uint32_t events)
{
	struct agent_probe *p = sl_container_of(w, struct agent_probe, watch);

	(void)events;
	origin_check_event(&p->check, origin_of(p)->now_ns);
	set_timer(p);
}

static void on_due(struct origin_timer *t)
{
	struct agent_probe *p = sl_container_of(t, struct agent_probe, timer);

	origin_check_due(&p->check, origin_of(p)->now_ns);
	set_timer(p);
}

bool agent_probe_init(struct agent_probe *p, struct agent_server *s,
		      const struct sl_agent_health *cfg)
{
	const struct origin_check_config check = {
		.target = {.grpc = s->url.proto == SL_SERVER_H2,
			   .secure = s->url.tls,
			   .authority = s->origin.authority.text,
			   .path = cfg->path,
			   .service = cfg->service,
			   .expect = (uint16_t)cfg->expect},
		.interval_ns = cfg->interval_ns,
		.timeout_ns = cfg->timeout_ns,
		.failures = cfg->failures,
		.fd_max = s->a->fd_max,
	};

	if (!cfg->interval_ns)
		return true;
	*p = (struct agent_probe){.watch = {on_event}, .server = s, .timer.fn = on_due};
	if (!origin_check_init(&p->check, s->url.tls ? &tls_owner : &owner, &check, &s->a->prng,
			       s->a->origin.now_ns))
		return false;
	set_timer(p);
	return true;
}

void agent_probe_fini(struct agent_probe *p)
{
	if (!p->server)
		return;
	origin_timer_cancel(origin_of(p), &p->timer);
	origin_check_fini(&p->check);
}
