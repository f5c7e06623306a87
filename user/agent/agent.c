/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/agent.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/internal.h"
#include "base/clock.h"
#include "base/log.h"

enum {
	EVENTS_MAX = 256,
	POLLS_MAX = 8,
	PUMPS_MAX = 4,
	SPARE_FDS = 256,
};
#define SLEEP_NS (SL_NS_PER_SEC / 2) /* the SDK must notice silent gateways */
#define DRAIN_NS (5 * SL_NS_PER_SEC)

struct foreign_server {
	struct agent_watch watch;
	struct sl_list link;
	void (*fn)(void *arg);
	void *arg;
};

static struct agent_server *next_server(const struct agent *a, const struct sl_list *at)
{
	struct sl_list *next = at->next;

	return next == &a->servers ? NULL : sl_container_of(next, struct agent_server, link);
}
#define for_each_server(a, s)                                                                      \
	for (struct agent_server *s = next_server((a), &(a)->servers); s;                          \
	     s = next_server((a), &(s)->link))

bool agent_close_idle(struct agent *a)
{
	for_each_server(a, s)
	{
		struct sl_list *ready = &s->origin.ready;
		struct origin_conn *c = sl_container_of(ready->prev, struct origin_conn, ready);

		if (sl_list_empty(ready) || !sl_timer_pending(&c->timer.t))
			continue;
		origin_conn_close(c, "its descriptor is needed");
		return true;
	}
	return false;
}

/* Half of the descriptors is divided between servers. */
static int part_of_server(const struct agent *a)
{
	int n = 0;

	for_each_server(a, s) n++;
	return a->fd_max / 2 / (n ? n : 1);
}

int agent_fds_of(const struct agent_server *server)
{
	const struct agent *a = server->a;
	int part = part_of_server(a), left = a->fd_max;

	for_each_server(a, s)
	{
		if (s != server && (int)s->origin.conn_cnt < part)
			left -= part - (int)s->origin.conn_cnt;
	}
	return (int)server->origin.conn_cnt < part ? a->fd_max : left;
}

uint32_t agent_streams_max(const struct origin_server *o)
{
	const struct agent *a = agent_server_of(o)->a;
	int most = a->fd_max / 2 + part_of_server(a);

	if (most > AGENT_CONNS_MAX || o->proto->calls_per_conn > 1)
		most = AGENT_CONNS_MAX;
	return most > 1 ? (uint32_t)most / 2 : 1;
}

static int most_fds(void)
{
	struct rlimit files;
	rlim_t spare;

	if (getrlimit(RLIMIT_NOFILE, &files) != 0)
		return INT_MAX;
	if (files.rlim_cur < files.rlim_max) {
		struct rlimit all = {files.rlim_max, files.rlim_max};

		if (setrlimit(RLIMIT_NOFILE, &all) == 0)
			files = all;
	}
	if (files.rlim_cur >= INT_MAX)
		return INT_MAX;
	spare = files.rlim_cur / 4 < SPARE_FDS ? files.rlim_cur / 4 : SPARE_FDS;
	return (int)(files.rlim_cur - spare);
}

static void on_names(void *arg)
{
	agent_address_answers(arg);
}

struct agent *sl_agent_open(struct sl_err *err)
{
	struct agent *a = calloc(1, sizeof(*a));
	uint64_t seed = 0;

	if (!a) {
		sl_err_set(err, "out of memory");
		return NULL;
	}
	sl_list_init(&a->servers);
	sl_list_init(&a->watches);
	sl_list_init(&a->unfinished);
	sl_list_init(&a->tls);
	a->fd_max = most_fds();
	if (a->fd_max < AGENT_CONNS_MAX)
		sl_log_warn(
			"agent: few descriptors are allowed: at most %d connections to servers; "
			"for %d RLIMIT_NOFILE (LimitNOFILE of systemd) must be %d",
			a->fd_max, AGENT_CONNS_MAX, AGENT_CONNS_MAX + SPARE_FDS);
	(void)sl_rand_bytes(&seed, sizeof(seed));
	if (!origin_init(&a->origin, AGENT_BODIES_MEM, AGENT_CALLS_MAX, sl_now_ns())) {
		sl_err_set(err, "out of memory");
		origin_fini(&a->origin);
		free(a);
		return NULL;
	}
	sl_prng_seed(&a->prng, seed ^ a->origin.now_ns);
	a->origin.io = &agent_io;
	a->origin.ops = &origin_call_ops;
	a->origin.owner = &agent_owner;
	a->origin.area = "agent";
	a->origin.prng = &a->prng;
	a->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	a->names = agent_names_new();
	if (a->epoll_fd >= 0 && a->names &&
	    sl_agent_watch(a, agent_names_fd(a->names), on_names, a) == 0)
		return a;
	sl_err_set(err, "agent: %s", strerror(errno));
	sl_agent_close(a);
	return NULL;
}

static bool watch_fd(struct agent *a, int fd, struct agent_watch *w)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = w};

	return epoll_ctl(a->epoll_fd, EPOLL_CTL_ADD, fd, &ev) == 0;
}

static void on_foreign(struct agent_watch *w, uint32_t events)
{
	struct foreign_server *f = sl_container_of(w, struct foreign_server, watch);

	(void)events;
	f->fn(f->arg);
}

int sl_agent_watch(struct agent *a, int fd, void (*fn)(void *arg), void *arg)
{
	struct foreign_server *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	*f = (struct foreign_server){.watch = {on_foreign}, .fn = fn, .arg = arg};
	if (!watch_fd(a, fd, &f->watch)) {
		free(f);
		return -errno;
	}
	sl_list_add_tail(&a->watches, &f->link);
	return 0;
}

int sl_agent_start(struct agent *a)
{
	return agent_names_start(a->names);
}

void sl_agent_look_up(struct agent *a)
{
	for_each_server(a, s) agent_address_look_up(s);
}

static void on_backend(struct agent_watch *w, uint32_t events)
{
	(void)w, (void)events;
}

void sl_agent_renew(struct agent *a, const char *listen, const struct sl_agent_tls *tls)
{
	struct sl_err err = SL_ERR(200);

	for_each_server(a, s)
	{
		if (!s->url.tls || s->origin.leaving || strcmp(s->listen, listen) != 0)
			continue;
		err.text[0] = 0;
		if (agent_tls_server_renew(&s->tls, &a->tls, tls, &err)) {
			agent_server_retire(s, "its TLS files have changed");
			if (s->origin.down_ns)
				origin_server_moved(&s->origin);
		} else if (err.text[0])
			sl_log_err("agent: %s: %s%s", s->name, err.text,
				   s->tls.ctx ? "; the former files stay" : "");
	}
}

static bool is_draining(struct agent *a, const char *listen)
{
	for_each_server(a, s)
	{
		if (!s->origin.leaving || strcmp(s->listen, listen) != 0)
			continue;
		s->origin.leaving = false;
		sl_backend_leave(s->backend, false);
		sl_log_info("agent: %s stays", s->name);
		return true;
	}
	return false;
}

int sl_agent_add(struct agent *a, const struct sl_agent_options *opt, struct sl_err *err)
{
	struct agent_server *s;

	if (is_draining(a, opt->listen)) {
		sl_agent_renew(a, opt->listen, &opt->tls);
		return 0;
	}
	s = agent_server_new(a, opt, err);
	if (!s)
		return -1;
	s->watch.fn = on_backend;
	if (!watch_fd(a, sl_backend_fd(s->backend), &s->watch)) {
		sl_err_set(err, "agent: epoll: %s", strerror(errno));
		agent_server_free(s);
		return -1;
	}
	sl_list_add_tail(&a->servers, &s->link);
	if (strcmp(s->name, opt->to) == 0)
		sl_log_info("agent: %s: gateways connect to %s", s->name, s->listen);
	else
		sl_log_info("agent: %s: server %s, gateways connect to %s", s->name, opt->to,
			    s->listen);
	return 0;
}

void sl_agent_remove(struct agent *a, const char *listen)
{
	for_each_server(a, s)
	{
		if (!s->origin.leaving && strcmp(s->listen, listen) == 0) {
			s->origin.leaving = true;
			sl_backend_leave(s->backend, true);
		}
	}
}

static bool is_left(const struct agent_server *s)
{
	struct sl_backend_stats st = {.size = sizeof(st)};

	sl_backend_stats(s->backend, &st);
	return !st.channels && !st.open_requests;
}

static void sleep_and_take(struct agent *a, bool more)
{
	struct epoll_event ev[EVENTS_MAX];
	bool armed = !more;
	int n, wait_ms = 0;

	if (armed) {
		for_each_server(a, s) more |= sl_backend_arm(s->backend) == 0;
	}
	if (!more) {
		uint64_t until = sl_wheel_next_ns(&a->origin.wheel), now = sl_now_ns();

		if (until > now + SLEEP_NS)
			until = now + SLEEP_NS;
		if (until > now)
			wait_ms = (int)((until - now + SL_NS_PER_MS - 1) / SL_NS_PER_MS);
	}
	n = epoll_wait(a->epoll_fd, ev, EVENTS_MAX, wait_ms);
	if (armed) {
		for_each_server(a, s) sl_backend_disarm(s->backend);
	}
	a->origin.now_ns = sl_now_ns();
	for (int i = 0; i < n; i++) {
		struct agent_watch *w = ev[i].data.ptr;

		w->fn(w, ev[i].events);
	}
}

/*
 * Writing can free places, and lost calls wait again. Returns true if calls may still start: the
 * loop must not sleep.
 */
static bool send_calls(struct agent *a)
{
	for (unsigned i = 0; i < PUMPS_MAX; i++) {
		a->origin.pump = false;
		for_each_server(a, s) origin_server_pump(&s->origin);
		origin_conns_write(&a->origin);
		if (!a->origin.pump)
			return false;
	}
	return true;
}

static void run_turn(struct agent *a)
{
	struct sl_list *at, *next;
	bool more = false;

	for_each_server(a, s)
	{
		int n = 0, polls = 0;

		do
			n = sl_backend_poll(s->backend, 0);
		while (n > 0 && ++polls < POLLS_MAX);
		more |= n > 0;
	}
	agent_conns_read(a);
	more |= send_calls(a);
	more |= !sl_list_empty(&a->unfinished);
	sleep_and_take(a, more);
	origin_timers_run(&a->origin);
	(void)send_calls(a);
	origin_conns_free(&a->origin);
	for_each_server(a, s) agent_server_tell(s);
	sl_list_for_each_safe (at, next, &a->servers) {
		struct agent_server *s = sl_container_of(at, struct agent_server, link);

		if (s->origin.leaving && is_left(s))
			agent_server_free(s);
	}
}

void sl_agent_run(struct agent *a)
{
	uint64_t until;
	int rc = sl_agent_start(a);

	if (rc)
		sl_log_err("agent: names cannot be looked up: %s", strerror(-rc));
	while (!a->stop)
		run_turn(a);
	for_each_server(a, s)
	{
		s->origin.leaving = true;
		sl_backend_leave(s->backend, true);
	}
	until = sl_now_ns() + DRAIN_NS;
	while (a->stop < 2 && sl_now_ns() < until) {
		bool idle = true;

		for_each_server(a, s) idle &= is_left(s);
		if (idle)
			break;
		run_turn(a);
	}
}

void sl_agent_stop(struct agent *a)
{
	a->stop++;
}

void sl_agent_close(struct agent *a)
{
	struct agent_server *s;
	struct sl_list *l;

	if (!a)
		return;
	while ((s = sl_list_first(&a->servers, struct agent_server, link)))
		agent_server_free(s);
	while ((l = sl_list_pop_head(&a->watches)))
		free(sl_container_of(l, struct foreign_server, link));
	agent_names_free(a->names);
	origin_conns_free(&a->origin);
	origin_fini(&a->origin);
	if (a->epoll_fd >= 0)
		close(a->epoll_fd);
	free(a);
}
