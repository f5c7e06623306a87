/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sock/internal.h"

struct sl_sock_conn *sl_sock_conn_open(struct sl_sock_set *s, int fd, uint16_t source,
				       const struct sl_addr *local, const struct sl_addr *peer)
{
	struct sl_sock_conn *c = sl_mempool_get(&s->conns);

	if (!c)
		return NULL;
	memset(c, 0, sizeof(*c));
	c->sock = s;
	c->fd = fd;
	c->source = source;
	c->local = *local;
	c->peer = *peer;
	sl_list_init(&c->ready);
	sl_list_init(&c->out);
	sl_list_init(&c->end);
	s->sources[source].conns++;
	return c;
}

void sl_sock_count_frames(struct sl_sock_conn *c, int32_t frames)
{
	if (frames && c->handle && c->sock->ops.holds)
		c->sock->ops.holds(c->handle, frames);
}

void sl_sock_conn_drop(struct sl_sock_conn *c, bool reset)
{
	const struct linger at_once = {.l_onoff = 1};
	struct sl_sock_set *s = c->sock;

	if (c->fd < 0)
		return;
	sl_sock_count_frames(c, -(int32_t)(c->rx_frames + c->tx_frames));
	sl_sock_free_queue(s, &c->rx);
	sl_sock_free_queue(s, &c->tx);
	if (reset) {
		(void)setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
		s->stats.resets_out++;
	}
	close(c->fd);
	c->fd = -1;
	c->handle = NULL;
	sl_list_del(&c->ready);
	sl_list_del(&c->out);
	sl_list_del(&c->end);
	s->sources[c->source].conns--;
	s->stats.closed++;
	sl_list_add_tail(&s->gone, &c->end);
}

void sl_sock_conn_gone(struct sl_sock_conn *c, bool reset)
{
	void *handle = c->handle;

	sl_sock_conn_drop(c, reset);
	c->sock->ops.events->closed(handle);
}

void sl_sock_free_gone(struct sl_sock_set *s)
{
	struct sl_list *l;

	while ((l = sl_list_pop_head(&s->gone)))
		sl_mempool_put(&s->conns, sl_container_of(l, struct sl_sock_conn, end));
}

void sl_sock_make_ready(struct sl_sock_conn *c)
{
	if (c->fd >= 0 && sl_list_empty(&c->ready))
		sl_list_add_tail(&c->sock->ready, &c->ready);
}

int32_t sl_sock_listener(const struct sl_sock_conn *c)
{
	const struct sl_sock_source *src = &c->sock->sources[c->source];

	return src->name ? src->listener : SL_SOCK_BY_ADDRESS;
}

static size_t op_write(void *self, const void *bytes, size_t len)
{
	return sl_sock_write(self, bytes, len, false);
}

static bool op_write_head(void *self, const void *bytes, size_t len)
{
	return sl_sock_fits_head(self, len) && sl_sock_write(self, bytes, len, true) == len;
}

static size_t op_room(const void *self)
{
	return sl_sock_room(self);
}

static void op_want_room(void *self)
{
	struct sl_sock_conn *c = self;

	if (c->flags & SL_SOCKF_CLOSING)
		return;
	c->flags |= SL_SOCKF_WANT_ROOM;
	if (!(c->flags & SL_SOCKF_BLOCKED))
		sl_sock_make_ready(c);
}

static void op_resume(void *self)
{
	sl_sock_resume(self);
}

static void op_close(void *self)
{
	struct sl_sock_conn *c = self;

	if (c->fd < 0 || (c->flags & SL_SOCKF_CLOSING))
		return;
	c->flags |= SL_SOCKF_CLOSING;
	c->flags &= ~(uint32_t)(SL_SOCKF_WANT_ROOM | SL_SOCKF_PAUSED);
	sl_sock_count_frames(c, -(int32_t)c->rx_frames);
	c->rx_frames = 0;
	sl_sock_free_queue(c->sock, &c->rx);
	sl_sock_finish(c);
	sl_sock_make_ready(c);
}

static void op_reset(void *self)
{
	sl_sock_conn_drop(self, true);
}

static void op_info(const void *self, struct sl_conn_info *out)
{
	const struct sl_sock_conn *c = self;

	*out = (struct sl_conn_info){.local = c->local, .peer = c->peer};
}

static uint8_t *op_lay(void *self, size_t min, bool beyond, size_t *room)
{
	return sl_sock_lay(self, min, beyond, room);
}

static void op_commit(void *self, size_t len)
{
	sl_sock_commit(self, len);
}

static bool op_fits_head(const void *self, size_t len)
{
	return sl_sock_fits_head(self, len);
}

static bool op_narrow(void *self, bool narrow)
{
	struct sl_sock_conn *c = self;
	uint32_t before = c->flags;

	if (narrow)
		c->flags |= SL_SOCKF_NARROW;
	else
		c->flags &= ~(uint32_t)SL_SOCKF_NARROW;
	return c->flags != before;
}

static uint32_t op_held_frames(const void *self)
{
	const struct sl_sock_conn *c = self;

	return c->rx_frames + c->tx_frames;
}

static uint32_t op_unread_frames(const void *self)
{
	return ((const struct sl_sock_conn *)self)->tx_frames;
}

static uint64_t op_unread_ns(const void *self)
{
	const struct sl_sock_conn *c = self;

	return c->tx_bytes && (c->flags & SL_SOCKF_BLOCKED) ? c->sock->now_ns - c->progress_ns : 0;
}

/* The kernel's buffer counts as read. */
static uint32_t op_read_bytes(const void *self)
{
	return ((const struct sl_sock_conn *)self)->sent;
}

/* The kernel's figure would cost a system call. */
static uint32_t op_rtt_us(const void *self)
{
	(void)self;
	return 0;
}

const struct sl_conn_ops sl_sock_stream = {
	.write = op_write,
	.write_head = op_write_head,
	.room = op_room,
	.want_room = op_want_room,
	.resume = op_resume,
	.close = op_close,
	.reset = op_reset,
	.info = op_info,
	.lay = op_lay,
	.commit = op_commit,
	.fits_head = op_fits_head,
	.narrow = op_narrow,
	.held_frames = op_held_frames,
	.unread_frames = op_unread_frames,
	.unread_ns = op_unread_ns,
	.read_bytes = op_read_bytes,
	.rtt_us = op_rtt_us,
};
