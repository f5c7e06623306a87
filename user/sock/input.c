/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "sock/internal.h"

enum {
	SPARE_FRAMES = 64, /* not used for reading */
	ROOM_MIN = 2048,   /* fronts wait with little room */
};

static bool is_gone(const struct sl_sock_conn *c)
{
	return c->fd < 0;
}

static void queue_input(struct sl_sock_conn *c, struct sl_frame *f)
{
	sl_sock_append(&c->rx, f);
	c->rx_frames++;
	sl_sock_count_frames(c, 1);
	c->flags |= SL_SOCKF_PAUSED;
}

/* True: freed or taken, also if the connection ends. */
static bool offer(struct sl_sock_conn *c, struct sl_frame *f)
{
	struct sl_sock_set *s = c->sock;
	size_t len = f->len, used;
	struct sl_chunk chunk = {
		.ptr = f->data,
		.len = len,
		.frame = f,
		.take_ns = s->now_ns,
	};

	c->flags |= SL_SOCKF_IN_INPUT;
	used = s->ops.events->input(c->handle, &chunk);
	c->flags &= ~(uint32_t)SL_SOCKF_IN_INPUT;
	if (!chunk.frame)
		return true;
	if (used >= len || is_gone(c) || (c->flags & SL_SOCKF_CLOSING)) {
		sl_frame_put(s->umem, f);
		return true;
	}
	f->data += used;
	f->len = (uint16_t)(len - used);
	return false;
}

static void tell_eof(struct sl_sock_conn *c)
{
	uint32_t want = c->flags & (SL_SOCKF_EOF | SL_SOCKF_EOF_TOLD | SL_SOCKF_CLOSING);

	if (want != SL_SOCKF_EOF || c->rx.head)
		return;
	c->flags |= SL_SOCKF_EOF_TOLD;
	c->sock->ops.events->eof(c->handle);
}

static bool offer_queued(struct sl_sock_conn *c)
{
	struct sl_frame *f = c->rx.head;
	uint16_t len = f->len;

	c->rx.head = f->next;
	if (!f->next)
		c->rx.tail = NULL;
	f->next = NULL;
	c->rx_frames--;
	sl_sock_count_frames(c, -1);
	if (offer(c, f))
		return !is_gone(c) && !(c->flags & SL_SOCKF_CLOSING);
	f->next = c->rx.head;
	c->rx.head = f;
	if (!c->rx.tail)
		c->rx.tail = f;
	c->rx_frames++;
	sl_sock_count_frames(c, 1);
	return f->len < len && (c->flags & SL_SOCKF_RESUME);
}

void sl_sock_resume(struct sl_sock_conn *c)
{
	if (is_gone(c) || (c->flags & SL_SOCKF_CLOSING))
		return;
	if (c->flags & SL_SOCKF_IN_INPUT) {
		c->flags |= SL_SOCKF_RESUME;
		return;
	}
	do
		c->flags &= ~(uint32_t)SL_SOCKF_RESUME;
	while (c->rx.head && offer_queued(c));
	if (is_gone(c) || (c->flags & SL_SOCKF_CLOSING) || c->rx.head)
		return;
	c->flags &= ~(uint32_t)(SL_SOCKF_PAUSED | SL_SOCKF_RESUME);
	if (c->flags & SL_SOCKF_READABLE)
		sl_sock_make_ready(c);
	tell_eof(c);
}

static void deliver(struct sl_sock_conn *c, struct sl_frame **frames, unsigned cnt)
{
	struct sl_sock_set *s = c->sock;

	for (unsigned i = 0; i < cnt; i++) {
		if (is_gone(c) || (c->flags & SL_SOCKF_CLOSING))
			sl_frame_put(s->umem, frames[i]);
		else if (c->rx.head || !offer(c, frames[i]))
			queue_input(c, frames[i]);
	}
	if (is_gone(c) || !(c->flags & SL_SOCKF_RESUME))
		return;
	c->flags &= ~(uint32_t)SL_SOCKF_RESUME;
	sl_sock_resume(c);
}

static unsigned frames_wanted(const struct sl_sock_conn *c)
{
	if (!(c->flags & SL_SOCKF_BULK))
		return 1;
	return c->flags & SL_SOCKF_NARROW ? SL_SOCK_NARROW_FRAMES : SL_SOCK_READ_FRAMES;
}

static ssize_t receive(struct sl_sock_conn *c, struct sl_frame **frames, unsigned cnt)
{
	const uint32_t size = c->sock->umem->frame_size;
	SL_UNINIT struct iovec iov[SL_SOCK_READ_FRAMES];
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = cnt};

	c->sock->stats.reads++;
	if (cnt == 1)
		return recv(c->fd, frames[0]->data, size, MSG_DONTWAIT);
	for (unsigned i = 0; i < cnt; i++)
		iov[i] = (struct iovec){frames[i]->data, size};
	return recvmsg(c->fd, &msg, MSG_DONTWAIT);
}

static void on_end(struct sl_sock_conn *c)
{
	c->flags |= SL_SOCKF_EOF;
	c->flags &= ~(uint32_t)SL_SOCKF_READABLE;
	tell_eof(c);
}

static void on_error(struct sl_sock_conn *c, int error)
{
	if (error == EAGAIN) {
		c->flags &= ~(uint32_t)SL_SOCKF_READABLE;
		return;
	}
	if (error == EINTR)
		return;
	c->sock->stats.resets_in++;
	sl_sock_conn_gone(c, false);
}

/* A short read has emptied the socket; only an end can follow. */
static void note_read(struct sl_sock_conn *c, size_t len, size_t room)
{
	c->sock->stats.bytes_in += len;
	if (len == room) {
		c->flags |= SL_SOCKF_BULK;
		return;
	}
	c->flags &= ~(uint32_t)SL_SOCKF_BULK;
	if (!(c->flags & SL_SOCKF_HUP))
		c->flags &= ~(uint32_t)SL_SOCKF_READABLE;
}

static unsigned fill_frames(struct sl_sock_set *s, struct sl_frame **frames, unsigned cnt,
			    size_t len)
{
	unsigned filled = 0;

	for (unsigned i = 0; i < cnt; i++) {
		size_t n = len < s->umem->frame_size ? len : s->umem->frame_size;

		if (!n) {
			sl_frame_put(s->umem, frames[i]);
			continue;
		}
		frames[i]->len = (uint16_t)n;
		frames[i]->take_ns = s->now_ns;
		len -= n;
		filled++;
	}
	return filled;
}

static bool read_stream(struct sl_sock_conn *c)
{
	struct sl_sock_set *s = c->sock;
	SL_UNINIT struct sl_frame *frames[SL_SOCK_READ_FRAMES];
	unsigned cnt = frames_wanted(c);
	ssize_t n;
	int error;

	if (s->umem->free_cnt < cnt + SPARE_FRAMES)
		return false;
	for (unsigned i = 0; i < cnt; i++)
		frames[i] = sl_frame_get(s->umem, SL_FRAME_HELD, 0);
	n = receive(c, frames, cnt);
	error = errno;
	cnt = fill_frames(s, frames, cnt, n > 0 ? (size_t)n : 0);
	if (n > 0) {
		note_read(c, (size_t)n, (size_t)frames_wanted(c) * s->umem->frame_size);
		deliver(c, frames, cnt);
	} else if (n == 0) {
		on_end(c);
	} else {
		on_error(c, error);
	}
	return true;
}

static bool discard(struct sl_sock_conn *c)
{
	struct sl_sock_set *s = c->sock;
	struct sl_frame *f;
	ssize_t n;
	int error;

	if (s->umem->free_cnt < SPARE_FRAMES)
		return false;
	f = sl_frame_get(s->umem, SL_FRAME_HELD, 0);
	n = recv(c->fd, f->data, s->umem->frame_size, MSG_DONTWAIT);
	error = errno;
	sl_frame_put(s->umem, f);
	if (n > 0) {
		c->discarded += (uint32_t)n;
		note_read(c, (size_t)n, s->umem->frame_size);
		if (c->discarded > s->cfg.discard_max)
			sl_sock_conn_gone(c, true);
	} else if (n == 0) {
		on_end(c);
	} else {
		on_error(c, error);
	}
	return true;
}

static void tell_writable(struct sl_sock_conn *c)
{
	if (!(c->flags & SL_SOCKF_WANT_ROOM) || sl_sock_room(c) < ROOM_MIN)
		return;
	c->flags &= ~(uint32_t)SL_SOCKF_WANT_ROOM;
	c->sock->ops.events->writable(c->handle);
}

static bool ends_now(const struct sl_sock_conn *c)
{
	const uint32_t both = SL_SOCKF_EOF | SL_SOCKF_FIN_SENT;

	return (c->flags & SL_SOCKF_CLOSING) && (c->flags & both) == both;
}

bool sl_sock_input(struct sl_sock_conn *c)
{
	bool has_frames = true;

	if (c->flags & SL_SOCKF_BROKEN) {
		c->sock->stats.resets_in++;
		sl_sock_conn_gone(c, false);
		return true;
	}
	tell_writable(c);
	if (is_gone(c))
		return true;
	if (c->flags & SL_SOCKF_WANT_ROOM && !c->tx_bytes)
		has_frames = false; /* the pool is empty: no event follows */
	if (c->flags & SL_SOCKF_READABLE) {
		if (c->flags & SL_SOCKF_CLOSING)
			has_frames &= discard(c);
		else if (!(c->flags & SL_SOCKF_PAUSED))
			has_frames &= read_stream(c);
	}
	if (is_gone(c))
		return true;
	if (ends_now(c)) {
		sl_sock_conn_gone(c, false);
		return true;
	}
	if (!has_frames) {
		sl_list_del(&c->ready); /* the caller links it */
		return false;
	}
	if (c->flags & SL_SOCKF_READABLE &&
	    (c->flags & SL_SOCKF_CLOSING || !(c->flags & SL_SOCKF_PAUSED)))
		sl_sock_make_ready(c);
	return true;
}
