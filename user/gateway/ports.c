/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/ports.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "sock/reserve.h"

#define RETRY_NS SL_NS_PER_SEC

static bool is_any(const struct sl_addr *a)
{
	static const uint8_t any[16];

	return memcmp(a->addr, any, sizeof(any)) == 0;
}

static bool overlaps(const struct sl_addr *a, uint8_t a_protocol, const struct sl_net_listener *b)
{
	return a_protocol == b->protocol && a->family == b->at.family &&
	       a->port_be == b->at.port_be &&
	       (is_any(a) || is_any(&b->at) || sl_addr_equal(a, &b->at));
}

static bool is_covered(struct sl_ports_want want, const struct sl_net_listener *l)
{
	for (uint32_t i = 0; i < want.cnt && !is_any(&l->at); i++) {
		if (is_any(&want.list[i].at) &&
		    overlaps(&want.list[i].at, want.list[i].protocol, l))
			return true;
	}
	return false;
}

static struct sl_port_socket *find_socket(struct sl_ports *p, const struct sl_net_listener *l)
{
	for (uint32_t i = 0; i < p->cnt; i++) {
		struct sl_port_socket *s = &p->list[i];

		if (s->protocol == l->protocol && sl_addr_equal(&s->at, &l->at))
			return s;
	}
	return NULL;
}

static bool is_blocked(const struct sl_ports *p, const struct sl_net_listener *l)
{
	for (uint32_t i = 0; i < p->cnt; i++) {
		if (p->list[i].fd >= 0 && overlaps(&p->list[i].at, p->list[i].protocol, l))
			return true;
	}
	return false;
}

static void close_socket(struct sl_ports *p, struct sl_port_socket *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
	p->changed |= s->listening;
	s->listening = false;
}

/*
 * Adds a socket for an address and binds it. Returns 0 also if it can be bound later, or the host
 * lacks its family.
 */
static int add_socket(struct sl_ports *p, const struct sl_net_listener *l)
{
	struct sl_port_socket s = {.at = l->at, .protocol = l->protocol, .id = p->next_id++};

	if (p->cnt == SL_PORTS_MAX)
		return -E2BIG;
	s.fd = sl_sock_reserve(&l->at, l->protocol);
	if (s.fd == -EAFNOSUPPORT)
		return 0;
	if (s.fd < 0 && s.fd != -EADDRNOTAVAIL && !(s.fd == -EADDRINUSE && is_blocked(p, l)))
		return s.fd;
	if (s.fd < 0)
		s.fd = -1;
	p->list[p->cnt++] = s;
	return 0;
}

static void count_pending(struct sl_ports *p)
{
	p->pending_cnt = 0;
	for (uint32_t i = 0; i < p->cnt; i++)
		p->pending_cnt += p->list[i].fd < 0;
}

static int tell_failure(const struct sl_config *cfg, const struct sl_net_listener *l, int rc,
			struct sl_err *err)
{
	const struct sl_cfg_listener *cl = &cfg->listeners[l->listener];
	const struct sl_cfg_location at = sl_config_location(cfg, cl->line);
	const char *protocol = l->protocol == IPPROTO_TCP ? "TCP" : "UDP";
	char text[SL_ADDR_TEXT];

	sl_addr_text(&l->at, text);
	if (rc == -EADDRINUSE)
		return sl_fail(err, rc,
			       "%s:%d: found %s port %u of %s, which another program uses; "
			       "allowed: a free port or address (ss -anp shows the program)",
			       at.file, at.line, protocol, ntohs(l->at.port_be), text);
	if (rc == -EACCES || rc == -EPERM)
		return sl_fail(err, rc,
			       "%s:%d: found %s port %u of %s without the right to use it; "
			       "allowed: CAP_NET_BIND_SERVICE, or a port from "
			       "net.ipv4.ip_unprivileged_port_start",
			       at.file, at.line, protocol, ntohs(l->at.port_be), text);
	return sl_fail(err, rc,
		       "%s:%d: found %s port %u of %s, which cannot be reserved: %s; allowed: "
		       "an address and port that the kernel can bind",
		       at.file, at.line, protocol, ntohs(l->at.port_be), text, strerror(-rc));
}

int sl_ports_reserve(struct sl_ports *p, const struct sl_config *cfg, struct sl_ports_want want,
		     struct sl_err *err)
{
	const uint32_t before = p->cnt;

	for (uint32_t i = 0; i < want.cnt; i++) {
		const struct sl_net_listener *l = &want.list[i];
		int rc = is_covered(want, l) || find_socket(p, l) ? 0 : add_socket(p, l);

		if (!rc)
			continue;
		while (p->cnt > before)
			close_socket(p, &p->list[--p->cnt]);
		count_pending(p);
		return tell_failure(cfg, l, rc, err);
	}
	count_pending(p);
	return 0;
}

static void mark_wanted(struct sl_ports *p, struct sl_ports_want want)
{
	for (uint32_t i = 0; i < want.cnt; i++) {
		struct sl_port_socket *s = find_socket(p, &want.list[i]);

		if (s && !is_covered(want, &want.list[i]))
			s->wanted = true;
	}
}

static void yield_to_pending(struct sl_ports *p, struct sl_ports_want now)
{
	for (uint32_t i = 0; i < now.cnt; i++) {
		const struct sl_net_listener *l = &now.list[i];
		const struct sl_port_socket *next = find_socket(p, l);

		if (!next || next->fd >= 0 || is_covered(now, l))
			continue;
		for (uint32_t k = 0; k < p->cnt; k++) {
			if (overlaps(&p->list[k].at, p->list[k].protocol, l) && &p->list[k] != next)
				p->list[k].wanted = false;
		}
	}
}

static void mark_served(struct sl_ports *p, const struct sl_config *cfg, struct sl_ports_want now)
{
	for (uint32_t i = 0; i < now.cnt; i++) {
		const struct sl_net_listener *l = &now.list[i];

		if (l->protocol != IPPROTO_TCP || !cfg->listeners[l->listener].local)
			continue;
		for (uint32_t k = 0; k < p->cnt; k++) {
			struct sl_port_socket *s = &p->list[k];

			if (s->wanted && overlaps(&s->at, s->protocol, l) &&
			    (is_any(&s->at) || sl_addr_equal(&s->at, &l->at)))
				s->serves = true;
		}
	}
}

static void set_listening(struct sl_ports *p, struct sl_port_socket *s)
{
	char text[SL_ADDR_TEXT];
	int rc;

	if (s->fd < 0 || s->serves == s->listening)
		return;
	rc = s->serves ? sl_sock_listen(s->fd) : sl_sock_unlisten(s->fd);
	if (rc) {
		sl_log_err("cannot listen at port %u of %s: %s", ntohs(s->at.port_be),
			   sl_addr_text(&s->at, text), strerror(-rc));
		return;
	}
	s->listening = s->serves;
	p->changed = true;
}

void sl_ports_follow(struct sl_ports *p, const struct sl_config *cfg, struct sl_ports_want now,
		     struct sl_ports_want stale, struct sl_ports_want next)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < p->cnt; i++) {
		p->list[i].wanted = false;
		p->list[i].serves = false;
	}
	mark_wanted(p, stale);
	yield_to_pending(p, now);
	mark_wanted(p, next);
	mark_wanted(p, now);
	if (cfg)
		mark_served(p, cfg, now);
	for (uint32_t i = 0; i < p->cnt; i++) {
		if (p->list[i].wanted)
			p->list[kept++] = p->list[i];
		else
			close_socket(p, &p->list[i]);
	}
	p->cnt = kept;
	for (uint32_t i = 0; i < kept; i++)
		set_listening(p, &p->list[i]);
	count_pending(p);
	p->retry_ns = 0;
	sl_ports_retry(p, sl_now_ns());
}

void sl_ports_retry(struct sl_ports *p, uint64_t now_ns)
{
	char text[SL_ADDR_TEXT];

	if (!p->pending_cnt || now_ns < p->retry_ns)
		return;
	p->retry_ns = now_ns + RETRY_NS;
	for (uint32_t i = 0; i < p->cnt; i++) {
		struct sl_port_socket *s = &p->list[i];
		int fd;

		if (s->fd >= 0)
			continue;
		fd = sl_sock_reserve(&s->at, s->protocol);
		s->fd = fd < 0 ? -1 : fd;
		set_listening(p, s);
		if (fd < 0)
			SL_LOG_EVERY(10 * SL_NS_PER_SEC, SL_LOG_WARN,
				     "cannot reserve port %u of %s: %s; trying again",
				     ntohs(s->at.port_be), sl_addr_text(&s->at, text),
				     strerror(-fd));
	}
	count_pending(p);
}

void sl_ports_close(struct sl_ports *p)
{
	while (p->cnt)
		close_socket(p, &p->list[--p->cnt]);
}
