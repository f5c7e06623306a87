/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/upstream.h"

#include <endian.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/min.h"
#include "net/net.h"
#include "origin/backend.h"
#include "tcp/tcp.h"
#include "config/config.h"
#include "worker/upstream_impl.h"

enum { CALLS_MAX = 65536, CONNS_MAX = 16384, PUMPS_MAX = 4 };
#define BODIES_MEM ((size_t)256 << 20)
#define TELL_NS    (100 * SL_NS_PER_MS)

static void tell_ready(struct origin_server *s)
{
	sl_backend_ready(upstream_of(s)->backend, !s->told_unready);
}

static void tell_why(const struct origin_server *s)
{
	const struct sl_upstream *u = upstream_of(s);

	if (u->status)
		sl_agent_status_server_set_why(u->status, s->why);
}

static void write_remote(const struct sl_addr *a, char *to, size_t len)
{
	bool brackets = a->family == 6;
	char text[SL_ADDR_TEXT];

	snprintf(to, len, "%s%s%s:%u", brackets ? "[" : "", sl_addr_text(a, text),
		 brackets ? "]" : "", be16toh(a->port_be));
}

static void write_address(const struct origin_server *s, char *to, size_t len)
{
	write_remote(&upstream_of(s)->remote, to, len);
}

static struct sl_upstream *next_server(const struct sl_upstream_list *l, const struct sl_list *at)
{
	struct sl_list *next = at->next;

	return next == &l->servers ? NULL : sl_container_of(next, struct sl_upstream, link);
}
#define for_each_server(l, u)                                                                      \
	for (struct sl_upstream *u = next_server((l), &(l)->servers); u;                           \
	     u = next_server((l), &(u)->link))

/* Half of all connections are divided among the servers; the rest is for any of them. */
static uint32_t part_of_server(const struct sl_upstream_list *l)
{
	uint32_t cnt = 0;

	for_each_server(l, u) cnt++;
	return l->conns / 2 / (cnt ? cnt : 1);
}

bool upstream_has_place(const struct sl_upstream *u)
{
	uint32_t part = part_of_server(u->list), used = sl_tcp_active_cnt(u->list->tcp);
	uint32_t kept = 0;

	if (u->origin.conn_cnt < part)
		return used < u->list->conns;
	for_each_server(u->list, other)
	{
		if (other->origin.conn_cnt < part)
			kept += part - (uint32_t)other->origin.conn_cnt;
	}
	return used + kept < u->list->conns;
}

static uint32_t streams_max(const struct origin_server *s)
{
	const struct sl_upstream_list *l = upstream_of(s)->list;
	uint32_t most = l->conns / 2 + part_of_server(l);

	most = most < l->ports ? most : l->ports;
	return most > 1 ? most / 2 : 1;
}

static const struct origin_owner owner = {
	ORIGIN_BACKEND_REPLIES,     .connect = upstream_conn_open, .retry = origin_server_try,
	.gone = upstream_conn_gone, .free = upstream_conn_free,    .ready = tell_ready,
	.explain = tell_why,        .address = write_address,      .streams_max = streams_max,
};

struct sl_upstream_list *sl_upstreams_new(struct sl_tcp *tcp, const struct sl_umem *umem,
					  uint32_t ports, uint32_t conns, uint64_t now_ns)
{
	struct sl_upstream_list *l = calloc(1, sizeof(*l));
	uint64_t seed = 0;

	if (!l || !origin_init(&l->origin, BODIES_MEM, CALLS_MAX, now_ns)) {
		if (l)
			origin_fini(&l->origin);
		free(l);
		return NULL;
	}
	(void)sl_rand_bytes(&seed, sizeof(seed));
	sl_prng_seed(&l->prng, seed ^ now_ns);
	l->tcp = tcp;
	l->owner = owner;
	l->owner.conns_max = CONNS_MAX;
	l->ports = ports;
	l->conns = conns;
	l->umem = umem;
	l->origin.io = &upstream_io;
	l->origin.ops = &origin_call_ops;
	l->origin.owner = &l->owner;
	l->origin.area = "upstream";
	l->origin.prng = &l->prng;
	sl_list_init(&l->servers);
	sl_list_init(&l->received);
	sl_list_init(&l->closing);
	sl_tcp_set_active_ops(tcp, &upstream_tcp_ops);
	return l;
}

static void give_up(struct sl_upstream *u, const char *why)
{
	origin_server_fini(&u->origin, why);
	(void)epoll_ctl(u->epoll_fd, EPOLL_CTL_DEL, sl_backend_fd(u->backend), NULL);
	if (u->status)
		sl_agent_status_server_remove(u->status);
	u->status = NULL;
	sl_list_del(&u->link);
	atomic_store_explicit(&u->left, true, memory_order_release);
}

void sl_upstreams_stop(struct sl_upstream_list *l, struct sl_net *net)
{
	struct sl_upstream *u;

	l->stopping = net;
	while ((u = sl_list_first(&l->servers, struct sl_upstream, link)))
		give_up(u, "the worker ends");
	upstream_handles_reset(l);
	if (net)
		sl_net_flush(net);
	l->stopping = NULL;
}

void sl_upstreams_free(struct sl_upstream_list *l)
{
	if (!l)
		return;
	sl_upstreams_stop(l, NULL);
	origin_conns_free(&l->origin);
	origin_fini(&l->origin);
	free(l);
}

void sl_upstream_authority(struct origin_authority *to, const struct sl_addr *at, const char *host)
{
	to->always = host != NULL;
	if (host)
		snprintf(to->text, sizeof(to->text), "%s", host);
	else
		write_remote(at, to->text, sizeof(to->text));
}

struct sl_upstream *sl_upstream_open(const struct sl_upstream_options *o, struct sl_err *err)
{
	struct sl_upstream *u = calloc(1, sizeof(*u));
	struct sl_backend_options b = {0};

	if (!u) {
		sl_err_set(err, "out of memory");
		return NULL;
	}
	sl_list_init(&u->link);
	u->remote = o->at;
	u->worker = o->worker;
	u->name = strdup(o->name);
	u->listen = strdup(o->listen);
	u->origin.proto = o->h2 ? &origin_h2 : &origin_h1;
	u->origin.name = u->name;
	u->origin.limit.fixed = o->concurrency;
	u->origin.unhealthy = o->checked;
	sl_upstream_authority(&u->origin.authority, &o->at, o->host);
	b.listen = u->listen;
	origin_backend_callbacks(&b, &u->origin);
	if (u->name && u->listen)
		u->backend = sl_backend_open(&b, err->text, err->size);
	else
		sl_err_set(err, "out of memory");
	if (!u->backend) {
		sl_upstream_close(u);
		return NULL;
	}
	sl_backend_ready(u->backend, false);
	sl_upstream_locate(u);
	return u;
}

/* Connecting a datagram socket asks the host's rules and routes, and sends nothing. */
void sl_upstream_locate(struct sl_upstream *u)
{
	unsigned next = !atomic_load_explicit(&u->which, memory_order_relaxed);
	struct sockaddr_storage to, from = {0};
	socklen_t len = sl_addr_to_sockaddr(&u->remote, &to), from_len = sizeof(from);
	int fd = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sl_addr *out = &u->local[next];

	*out = (struct sl_addr){0};
	if (fd >= 0 && connect(fd, (struct sockaddr *)&to, len) == 0 &&
	    getsockname(fd, (struct sockaddr *)&from, &from_len) == 0 &&
	    sl_addr_from_sockaddr(out, (struct sockaddr *)&from))
		out->port_be = 0;
	if (fd >= 0)
		close(fd);
	atomic_store_explicit(&u->which, next, memory_order_release);
}

bool sl_upstream_has_left(const struct sl_upstream *u)
{
	return atomic_load_explicit(&u->left, memory_order_acquire);
}

void sl_upstream_close(struct sl_upstream *u)
{
	sl_backend_close(u->backend);
	free(u->name);
	free(u->listen);
	free(u);
}

void sl_upstream_add(struct sl_upstream_list *l, struct sl_upstream *u, int epoll_fd)
{
	struct epoll_event ev = {.events = EPOLLIN};

	u->list = l;
	u->epoll_fd = epoll_fd;
	ev.data.fd = sl_backend_fd(u->backend);
	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, ev.data.fd, &ev))
		sl_log_err("upstream: %s: cannot be watched", u->name);
	origin_server_init(&u->origin, &l->origin, u->origin.proto, u->origin.limit.fixed);
	u->status = sl_agent_status_server_add(SL_AGENT_STATUS_WORKER(u->worker), u->name);
	sl_list_add_tail(&l->servers, &u->link);
	origin_server_begin(&u->origin, "the first connection is being opened");
	origin_timer_set(&l->origin, &u->origin.retry, l->origin.now_ns);
}

void sl_upstream_leave(struct sl_upstream *u)
{
	u->origin.leaving = true;
	sl_backend_leave(u->backend, true);
}

void sl_upstream_set_health(struct sl_upstream *u, const char *why)
{
	if (*why)
		origin_server_unhealthy(&u->origin, why);
	else
		origin_server_healthy(&u->origin, false);
}

uint32_t sl_upstream_busy(const struct sl_upstream *u)
{
	return atomic_load_explicit(&u->busy, memory_order_relaxed);
}

static void tell_state(struct sl_upstream *u)
{
	const struct origin_server *s = &u->origin;

	atomic_store_explicit(&u->busy, s->busy_cnt, memory_order_relaxed);
	if (u->status)
		sl_agent_status_server_set(
			u->status, &(struct sl_server_info){
					   .up = origin_server_is_up(s),
					   .healthy = !s->unhealthy,
					   .in_flight = s->busy_cnt,
					   .waiting = s->waiting.cnt,
					   .concurrency = origin_concurrency_limit_now(&s->limit),
					   .connections = s->conn_cnt - s->connecting,
				   });
}

static bool is_drained(const struct sl_upstream *u)
{
	struct sl_backend_stats st = {.size = sizeof(st)};

	if (!u->origin.leaving)
		return false;
	sl_backend_stats(u->backend, &st);
	return !st.channels && !st.open_requests;
}

void sl_upstreams_set_now(struct sl_upstream_list *l, uint64_t now_ns)
{
	l->origin.now_ns = now_ns;
}

unsigned sl_upstreams_receive(struct sl_upstream_list *l)
{
	unsigned n = l->events;

	if (!n)
		return 0;
	l->events = 0;
	upstream_conns_pause(l);
	for_each_server(l, u)(void) sl_backend_poll(u->backend, 0);
	return n;
}

static void look_at_servers(struct sl_upstream_list *l)
{
	struct sl_list *at, *next;

	l->tell_ns = l->origin.now_ns + TELL_NS;
	sl_list_for_each_safe (at, next, &l->servers) {
		struct sl_upstream *u = sl_container_of(at, struct sl_upstream, link);

		tell_state(u);
		if (is_drained(u))
			give_up(u, "the server is removed");
	}
}

unsigned sl_upstreams_send(struct sl_upstream_list *l)
{
	unsigned n = 0;

	for_each_server(l, u) n += sl_backend_poll(u->backend, 0) > 0;
	origin_timers_run(&l->origin);
	for (unsigned i = 0; i < PUMPS_MAX; i++) {
		l->origin.pump = false;
		for_each_server(l, u) origin_server_pump(&u->origin);
		origin_conns_write(&l->origin);
		if (!l->origin.pump)
			break;
	}
	origin_conns_free(&l->origin);
	if (l->origin.now_ns >= l->tell_ns)
		look_at_servers(l);
	return n + l->origin.pump;
}

bool sl_upstreams_arm(struct sl_upstream_list *l)
{
	bool work = l->events || !sl_list_empty(&l->received);

	for_each_server(l, u) work |= sl_backend_arm(u->backend) == 0;
	return !work;
}

void sl_upstreams_disarm(struct sl_upstream_list *l)
{
	for_each_server(l, u) sl_backend_disarm(u->backend);
}

uint64_t sl_upstreams_next_ns(const struct sl_upstream_list *l)
{
	uint64_t next = sl_wheel_next_ns(&l->origin.wheel);

	return sl_list_empty(&l->servers) ? next
					  : sl_min_ns(next, l->origin.now_ns + SL_NS_PER_SEC / 2);
}
