/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "sock/internal.h"

enum {
	EVENTS = 64,
	SNAPSHOT = 256, /* connections per poll */
	IDLE_POLL_NS = 5000,
};

void sl_sock_config_default(struct sl_sock_config *cfg)
{
	*cfg = (struct sl_sock_config){
		.max_conns = 1024,
		.snd_buf = 512 << 10,
		.snd_ahead = 64 << 10,
		.discard_max = 2 << 20,
		.linger_ns = 60 * SL_NS_PER_SEC,
	};
}

struct sl_sock_set *sl_sock_create(struct sl_umem *umem, const struct sl_sock_config *cfg,
				   const struct sl_sock_ops *ops, void *app)
{
	struct sl_sock_set *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return NULL;
	*s = (struct sl_sock_set){.umem = umem, .cfg = *cfg, .ops = *ops, .app = app};
	sl_list_init(&s->ready);
	sl_list_init(&s->starved);
	sl_list_init(&s->out);
	sl_list_init(&s->lingering);
	sl_list_init(&s->gone);
	s->now_ns = sl_now_ns();
	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	rc = s->epoll_fd < 0
		     ? -errno
		     : sl_mempool_init(&s->conns, sizeof(struct sl_sock_conn), 64, cfg->max_conns);
	if (!rc)
		return s;
	sl_sock_destroy(s);
	errno = -rc;
	return NULL;
}

void sl_sock_destroy(struct sl_sock_set *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; i < s->conns.fresh; i++) {
		struct sl_sock_conn *c = sl_mempool_at(&s->conns, i);

		if (sl_mempool_in_use(&s->conns, i) && c->fd >= 0) {
			c->handle = NULL;
			sl_sock_conn_drop(c, true);
		}
	}
	sl_sock_close_sources(s);
	if (s->epoll_fd >= 0)
		close(s->epoll_fd);
	sl_mempool_fini(&s->conns);
	free(s);
}

static void note_event(struct sl_sock_set *s, const struct epoll_event *e)
{
	const uint32_t ended = EPOLLRDHUP | EPOLLHUP | EPOLLERR;
	uint32_t index = (uint32_t)e->data.u64;
	struct sl_sock_conn *c;

	if (e->data.u64 >> 32) {
		s->sources[index].ready = true;
		return;
	}
	c = sl_mempool_at(&s->conns, index);
	if (c->fd < 0)
		return;
	if (e->events & (EPOLLIN | ended))
		c->flags |= SL_SOCKF_READABLE;
	if (e->events & ended)
		c->flags |= SL_SOCKF_HUP;
	if (e->events & EPOLLERR)
		c->flags |= SL_SOCKF_BROKEN;
	if (e->events & EPOLLOUT) {
		c->flags &= ~(uint32_t)SL_SOCKF_BLOCKED;
		if (c->tx_bytes && sl_list_empty(&c->out))
			sl_list_add_tail(&s->out, &c->out);
	}
	if (c->flags & (SL_SOCKF_READABLE | SL_SOCKF_WANT_ROOM))
		sl_sock_make_ready(c);
}

static unsigned read_events(struct sl_sock_set *s)
{
	SL_UNINIT struct epoll_event events[EVENTS];
	int n;

	if (s->now_ns < s->poll_ns || (!s->source_cnt && !sl_mempool_used(&s->conns)))
		return 0;
	n = epoll_wait(s->epoll_fd, events, EVENTS, 0);
	for (int i = 0; i < n; i++)
		note_event(s, &events[i]);
	s->poll_ns = n > 0 ? 0 : s->now_ns + IDLE_POLL_NS;
	return n > 0 ? (unsigned)n : 0;
}

static unsigned run_ready(struct sl_sock_set *s)
{
	struct sl_list now = SL_LIST_INIT(now), *l;
	unsigned n = 0;

	sl_list_splice_tail(&now, &s->ready);
	while (n < SNAPSHOT && (l = sl_list_pop_head(&now))) {
		if (!sl_sock_input(sl_container_of(l, struct sl_sock_conn, ready))) {
			sl_list_add_tail(&s->starved, l);
			s->retry_ns = s->now_ns + SL_SOCK_RETRY_NS;
		} else {
			n++;
		}
	}
	sl_list_splice_tail(&now, &s->ready); /* the rest goes first */
	sl_list_splice_tail(&s->ready, &now);
	return n;
}

static void retry_starved(struct sl_sock_set *s)
{
	struct sl_list *l;

	while (s->now_ns >= s->retry_ns && (l = sl_list_pop_head(&s->starved)))
		sl_list_add_tail(&s->ready, l);
}

static unsigned end_lingering(struct sl_sock_set *s)
{
	unsigned n = 0;

	while (!sl_list_empty(&s->lingering)) {
		struct sl_sock_conn *c =
			sl_container_of(s->lingering.next, struct sl_sock_conn, end);

		if (s->now_ns < c->progress_ns + s->cfg.linger_ns)
			break;
		s->stats.timeouts++;
		sl_sock_conn_gone(c, false);
		n++;
	}
	return n;
}

unsigned sl_sock_poll(struct sl_sock_set *s, uint64_t now_ns)
{
	unsigned n;

	s->now_ns = now_ns;
	sl_sock_free_gone(s);
	n = read_events(s);
	retry_starved(s);
	n += run_ready(s);
	n += end_lingering(s);
	if (s->accept_ns && now_ns >= s->accept_ns)
		sl_sock_watch_sources(s);
	return n + sl_sock_accept(s);
}

uint64_t sl_sock_next_ns(const struct sl_sock_set *s)
{
	uint64_t next = UINT64_MAX;

	if (!sl_list_empty(&s->ready))
		return s->now_ns;
	if (!sl_list_empty(&s->starved))
		next = s->retry_ns;
	if (s->accept_ns && s->accept_ns < next)
		next = s->accept_ns;
	if (!sl_list_empty(&s->lingering)) {
		const struct sl_sock_conn *c =
			sl_container_of(s->lingering.next, struct sl_sock_conn, end);
		uint64_t due = c->progress_ns + s->cfg.linger_ns;

		next = due < next ? due : next;
	}
	return next;
}

int sl_sock_fd(const struct sl_sock_set *s)
{
	return s->epoll_fd;
}

uint32_t sl_sock_free_places(const struct sl_sock_set *s)
{
	return sl_mempool_capacity(&s->conns) - sl_mempool_used(&s->conns);
}

void sl_sock_stats(const struct sl_sock_set *s, struct sl_sock_stats *out)
{
	*out = s->stats;
	out->conns = sl_mempool_used(&s->conns);
	out->conn_bytes = (uint32_t)sizeof(struct sl_sock_conn);
}
