/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/server_checks.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/min.h"
#include "base/rand.h"
#include "config/config.h"
#include "config/server.h"
#include "origin/health_check.h"
#include "origin/request.h"
#include "worker/upstream.h"

enum { EVENTS = 64 };

struct sl_server_checks {
	struct sl_gateway *gateway;
	const struct sl_server_checks_ops *ops;
	struct sl_list checks;
	struct sl_prng prng;
	int epoll_fd;
};

struct sl_server_check {
	struct sl_list link;
	struct sl_server_checks *list;
	struct origin_check check;
	char key[SL_SERVER_ENDPOINT_LEN]; /* endpoint in worker 0: names the configuration */
	struct sl_addr at;
	struct origin_authority authority;
	uint32_t refs, concurrency;
	bool h2;
};

static struct sl_server_check *owner_of(struct origin_check *c)
{
	return sl_container_of(c, struct sl_server_check, check);
}

static socklen_t write_address(struct origin_check *c, struct sockaddr_storage *to)
{
	return sl_addr_to_sockaddr(&owner_of(c)->at, to);
}

static int watch_socket(struct origin_check *c, uint32_t event, bool is_new)
{
	struct epoll_event ev = {.events = event, .data.ptr = c};

	return epoll_ctl(owner_of(c)->list->epoll_fd, is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, c->fd,
			 &ev);
}

static void tell_workers(struct origin_check *c, const char *why)
{
	const struct sl_server_checks *l = owner_of(c)->list;

	l->ops->tell(l->gateway, owner_of(c), why);
}

static bool is_full(struct origin_check *c)
{
	const struct sl_server_check *s = owner_of(c);

	return s->concurrency && s->list->ops->is_full(s->list->gateway, s, s->concurrency);
}

static const struct origin_check_owner owner = {write_address, watch_socket, tell_workers, is_full,
						NULL};

struct sl_server_checks *sl_server_checks_new(struct sl_gateway *g,
					      const struct sl_server_checks_ops *ops)
{
	struct sl_server_checks *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->gateway = g;
	l->ops = ops;
	l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	sl_list_init(&l->checks);
	sl_prng_seed(&l->prng, sl_now_ns());
	if (l->epoll_fd >= 0)
		return l;
	free(l);
	return NULL;
}

void sl_server_checks_free(struct sl_server_checks *l)
{
	if (!l)
		return;
	close(l->epoll_fd);
	free(l);
}

static struct sl_server_check *find_check(const struct sl_server_checks *l, const char *key)
{
	struct sl_list *at;

	sl_list_for_each (at, &l->checks) {
		struct sl_server_check *c = sl_container_of(at, struct sl_server_check, link);

		if (strcmp(c->key, key) == 0)
			return c;
	}
	return NULL;
}

static bool init_check(struct sl_server_check *c, const struct sl_cfg_health *h)
{
	const struct origin_check_config cfg = {
		.target = {.grpc = c->h2,
			   .authority = c->authority.text,
			   .path = h->path,
			   .service = h->service,
			   .expect = (uint16_t)h->expect},
		.interval_ns = h->interval_ns,
		.timeout_ns = h->timeout_ns,
		.failures = h->failures,
		.fd_max = INT_MAX,
	};

	return origin_check_init(&c->check, &owner, &cfg, &c->list->prng, sl_now_ns());
}

struct sl_server_check *sl_server_check_get(struct sl_server_checks *l,
					    const struct sl_cfg_pool *pool,
					    const struct sl_cfg_backend *b)
{
	char key[SL_SERVER_ENDPOINT_LEN];
	struct sl_server_check *c;

	sl_server_endpoint(key, 0, pool->name, b);
	c = find_check(l, key);
	if (c) {
		c->refs++;
		if (c->check.fd < 0)
			c->check.due_ns = sl_now_ns(); /* the result is new to this worker */
		return c;
	}
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->check.fd = -1;
	sl_list_add_tail(&l->checks, &c->link);
	memcpy(c->key, key, sizeof(key));
	c->list = l;
	c->refs = 1;
	c->concurrency = b->concurrency;
	c->h2 = sl_server_is_h2(b);
	if (sl_server_at(b, &c->at)) {
		sl_upstream_authority(&c->authority, &c->at, b->host);
		if (init_check(c, &pool->health))
			return c;
	}
	sl_server_check_put(c);
	return NULL;
}

void sl_server_check_put(struct sl_server_check *c)
{
	if (!c || --c->refs)
		return;
	sl_list_del(&c->link);
	origin_check_fini(&c->check);
	free(c);
}

void sl_server_checks_run(struct sl_server_checks *l, uint64_t now_ns)
{
	struct epoll_event ev[EVENTS];
	int n = epoll_wait(l->epoll_fd, ev, EVENTS, 0);
	struct sl_list *at;

	for (int i = 0; i < n; i++)
		origin_check_event(ev[i].data.ptr, now_ns);
	sl_list_for_each (at, &l->checks) {
		struct sl_server_check *c = sl_container_of(at, struct sl_server_check, link);

		if (now_ns >= c->check.due_ns)
			origin_check_due(&c->check, now_ns);
	}
}

int sl_server_checks_fd(const struct sl_server_checks *l)
{
	return l->epoll_fd;
}

uint64_t sl_server_checks_due_ns(const struct sl_server_checks *l)
{
	uint64_t due = UINT64_MAX;
	struct sl_list *at;

	sl_list_for_each (at, &l->checks)
		due = sl_min_ns(due,
				sl_container_of(at, struct sl_server_check, link)->check.due_ns);
	return due;
}
