/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "origin/server.h"

#define CONNECT_NS (3 * SL_NS_PER_SEC)
#define IDLE_NS    (50 * SL_NS_PER_SEC)

static struct origin *origin_of(const struct origin_conn *c)
{
	return c->server->origin;
}

void origin_conn_room(struct origin_conn *c)
{
	struct origin_server *s = c->server;

	sl_list_del(&c->ready);
	if (c->state == ORIGIN_UP && !c->stale && s->proto->room(c))
		sl_list_add_head(&s->ready, &c->ready);
}

void origin_conn_close(struct origin_conn *c, const char *why)
{
	struct origin_server *s = c->server;

	if (c->state == ORIGIN_DEAD)
		return;
	s->connecting -= c->state == ORIGIN_CONNECTING;
	s->conn_cnt--;
	s->ended_cnt -= c->ended;
	c->state = ORIGIN_DEAD;
	sl_list_del(&c->ready);
	sl_list_del(&c->dirty);
	sl_list_del(&c->link);
	origin_timer_cancel(s->origin, &c->timer);
	s->proto->closing(c, why);
	s->origin->owner->gone(c);
	sl_list_add_tail(&s->origin->dead, &c->link);
}

void origin_conn_ended(struct origin_conn *c)
{
	if (c->ended || c->state != ORIGIN_UP)
		return;
	c->ended = true;
	c->server->ended_cnt++;
}

void origin_conn_end_idle(struct origin_conn *c, const char *why, bool unused)
{
	struct origin_server *s = c->server;
	bool mute = c->called && !c->spoke;

	s->origin->io->close(c, why);
	if (mute)
		origin_server_mute(s, why ? why : "it closes connections without a reply");
	if (unused)
		origin_server_retry(s);
}

void origin_conn_spoke(struct origin_conn *c)
{
	c->spoke = true;
	origin_server_spoke(c->server);
}

static struct origin_conn *find_silent(const struct origin_server *s)
{
	const struct sl_list *at;

	sl_list_for_each (at, &s->conns) {
		struct origin_conn *c = sl_container_of(at, struct origin_conn, link);

		if (c->state == ORIGIN_UP && !c->spoke && !c->unread)
			return c;
	}
	return NULL;
}

/* The server refuses its other new connections as well. */
void origin_conn_refused(struct origin_conn *c, const char *why)
{
	struct origin_server *s = c->server;

	s->mute_cnt = ORIGIN_MUTE_MAX;
	s->refused = true;
	do {
		c->unread = true;
		s->proto->eof(c, why);
	} while ((c = find_silent(s)));
	origin_server_down(s, why);
}

static void end_late(struct origin_timer *t)
{
	struct origin_conn *c = sl_container_of(t, struct origin_conn, timer);
	struct origin_server *s = c->server;
	bool connecting = c->state == ORIGIN_CONNECTING;

	origin_conn_close(c, connecting ? "no answer" : "idle");
	if (connecting)
		origin_server_down(s, "no answer");
}

void origin_conn_init(struct origin_conn *c)
{
	c->timer.fn = end_late;
	sl_list_init(&c->ready);
	sl_list_init(&c->dirty);
	sl_list_add_tail(&c->server->conns, &c->link);
	c->server->conn_cnt++;
}

void origin_conn_connecting(struct origin_conn *c)
{
	c->state = ORIGIN_CONNECTING;
	c->server->connecting++;
	origin_timer_set(origin_of(c), &c->timer, origin_of(c)->now_ns + CONNECT_NS);
}

bool origin_conn_up(struct origin_conn *c)
{
	struct origin_server *s = c->server;
	/* Idle connections block servers that serve one at a time. */
	bool only_tried = s->down_ns && !s->waiting.cnt && sl_list_empty(&s->resting);

	c->state = ORIGIN_UP;
	s->connecting--;
	origin_timer_cancel(s->origin, &c->timer);
	if (!s->proto->up(c)) {
		origin_conn_close(c, "out of memory");
		return false;
	}
	origin_server_up(s);
	if (only_tried) {
		origin_conn_close(c, "the server is up");
		return false;
	}
	origin_conn_room(c);
	return true;
}

void origin_conn_failed(struct origin_conn *c, const char *why)
{
	struct origin_server *s = c->server;

	origin_conn_close(c, "cannot connect");
	origin_server_down(s, why);
}

void origin_conn_write_soon(struct origin_conn *c)
{
	sl_list_del(&c->dirty);
	sl_list_add_tail(&origin_of(c)->dirty, &c->dirty);
}

void origin_conn_idle(struct origin_conn *c)
{
	origin_timer_set(origin_of(c), &c->timer, origin_of(c)->now_ns + IDLE_NS);
}

void origin_conn_busy(struct origin_conn *c)
{
	origin_timer_cancel(origin_of(c), &c->timer);
}

void origin_conn_resume(struct origin_call *call)
{
	struct origin_conn *c = call->conn;

	if (c->server->proto->resume(c, call))
		c->server->origin->io->read(c);
}

void origin_conn_write(struct origin_conn *c)
{
	c->server->proto->writable(c);
	sl_list_del(&c->dirty);
}

void origin_conns_write(struct origin *o)
{
	struct origin_conn *c;

	while ((c = sl_list_first(&o->dirty, struct origin_conn, dirty)))
		origin_conn_write(c);
}

void origin_conns_free(struct origin *o)
{
	struct sl_list *l;

	while ((l = sl_list_pop_head(&o->dead)))
		o->owner->free(sl_container_of(l, struct origin_conn, link));
}
