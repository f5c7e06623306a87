/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "sock/internal.h"

enum {
	SEND_FRAMES = 64,    /* per sendmsg() */
	FRAMES_TO_GO_ON = 4, /* allowed while the pool is low */
};

void sl_sock_append(struct sl_sock_queue *q, struct sl_frame *f)
{
	f->next = NULL;
	if (q->tail)
		q->tail->next = f;
	else
		q->head = f;
	q->tail = f;
}

void sl_sock_free_queue(struct sl_sock_set *s, struct sl_sock_queue *q)
{
	sl_frame_put_list(s->umem, q->head);
	*q = (struct sl_sock_queue){0};
}

static bool can_send(const struct sl_sock_conn *c)
{
	return c->fd >= 0 && !(c->flags & (SL_SOCKF_CLOSING | SL_SOCKF_BROKEN));
}

static bool pool_allows(const struct sl_sock_conn *c)
{
	const struct sl_sock_ops *ops = &c->sock->ops;
	const struct sl_umem *u = c->sock->umem;

	if (c->tx_frames < FRAMES_TO_GO_ON)
		return !sl_umem_low(u) || u->free_cnt > u->low_water / 2;
	return !sl_umem_low(u) && !(ops->full && c->handle && ops->full(c->handle));
}

static uint32_t most_queued(const struct sl_sock_conn *c)
{
	const struct sl_sock_config *cfg = &c->sock->cfg;

	return c->flags & SL_SOCKF_BLOCKED ? cfg->snd_ahead : cfg->snd_buf;
}

size_t sl_sock_room(const struct sl_sock_conn *c)
{
	uint32_t most = most_queued(c);

	if (!can_send(c) || c->tx_bytes >= most || !pool_allows(c))
		return 0;
	return most - c->tx_bytes;
}

bool sl_sock_fits_head(const struct sl_sock_conn *c, size_t len)
{
	const struct sl_sock_set *s = c->sock;

	return can_send(c) && len / s->umem->frame_size + 2 <= s->umem->free_cnt &&
	       c->tx_bytes <= 2 * s->cfg.snd_buf;
}

static struct sl_frame *add_frame(struct sl_sock_conn *c)
{
	struct sl_frame *f = sl_frame_get(c->sock->umem, SL_FRAME_UNACKED, 0);

	if (!f)
		return NULL;
	sl_sock_append(&c->tx, f);
	c->tx_frames++;
	sl_sock_count_frames(c, 1);
	return f;
}

static void note_written(struct sl_sock_conn *c, struct sl_frame *f, size_t len)
{
	if (!c->tx_bytes)
		c->progress_ns = c->sock->now_ns;
	f->len = (uint16_t)(f->len + len);
	c->tx_bytes += (uint32_t)len;
	if (!(c->flags & SL_SOCKF_BLOCKED) && sl_list_empty(&c->out))
		sl_list_add_tail(&c->sock->out, &c->out);
}

static void want_room(struct sl_sock_conn *c)
{
	if (can_send(c))
		sl_sock_stream.want_room(c);
}

size_t sl_sock_write(struct sl_sock_conn *c, const void *bytes, size_t len, bool beyond)
{
	const uint8_t *from = bytes;
	size_t done = 0, most = beyond ? len : sl_sock_room(c);

	if (!can_send(c))
		return 0;
	if (most > len)
		most = len;
	while (done < most) {
		struct sl_frame *f = c->tx.tail;
		size_t n = f ? sl_frame_tailroom(c->sock->umem, f) : 0;

		if (!n) {
			f = beyond || pool_allows(c) ? add_frame(c) : NULL;
			if (!f)
				break;
			n = sl_frame_tailroom(c->sock->umem, f);
		}
		n = n < most - done ? n : most - done;
		memcpy(f->data + f->len, from + done, n);
		note_written(c, f, n);
		done += n;
	}
	if (done < len)
		want_room(c);
	return done;
}

uint8_t *sl_sock_lay(struct sl_sock_conn *c, size_t min, bool beyond, size_t *room)
{
	struct sl_frame *f = c->tx.tail;

	if (!can_send(c))
		return NULL;
	if (!f || sl_frame_tailroom(c->sock->umem, f) < min)
		f = beyond || sl_sock_room(c) ? add_frame(c) : NULL;
	if (!f) {
		want_room(c);
		return NULL;
	}
	*room = sl_frame_tailroom(c->sock->umem, f);
	return f->data + f->len;
}

void sl_sock_commit(struct sl_sock_conn *c, size_t len)
{
	note_written(c, c->tx.tail, len);
}

void sl_sock_finish(struct sl_sock_conn *c)
{
	if (c->tx_bytes || !(c->flags & SL_SOCKF_CLOSING) ||
	    (c->flags & (SL_SOCKF_FIN_SENT | SL_SOCKF_BROKEN)))
		return;
	c->flags |= SL_SOCKF_FIN_SENT;
	(void)shutdown(c->fd, SHUT_WR);
	c->progress_ns = c->sock->now_ns;
	sl_list_del(&c->end);
	sl_list_add_tail(&c->sock->lingering, &c->end);
	if (c->flags & SL_SOCKF_EOF)
		sl_sock_make_ready(c);
}

static void free_sent(struct sl_sock_conn *c, size_t len)
{
	struct sl_sock_set *s = c->sock;
	int32_t freed = 0;

	c->tx_bytes -= (uint32_t)len;
	while (c->tx.head && (len || !c->tx_bytes)) {
		struct sl_frame *f = c->tx.head;

		if (len < f->len) {
			f->data += len;
			f->len = (uint16_t)(f->len - len);
			break;
		}
		len -= f->len;
		c->tx.head = f->next;
		sl_frame_put(s->umem, f);
		freed++;
	}
	if (!c->tx.head)
		c->tx.tail = NULL;
	c->tx_frames -= (uint32_t)freed;
	sl_sock_count_frames(c, -freed);
}

static ssize_t send_frames(struct sl_sock_conn *c, size_t *asked)
{
	SL_UNINIT struct iovec iov[SEND_FRAMES];
	struct msghdr msg = {.msg_iov = iov};

	*asked = 0;
	for (struct sl_frame *f = c->tx.head; f && msg.msg_iovlen < SEND_FRAMES; f = f->next) {
		iov[msg.msg_iovlen++] = (struct iovec){f->data, f->len};
		*asked += f->len;
	}
	c->sock->stats.writes++;
	if (msg.msg_iovlen == 1)
		return send(c->fd, iov[0].iov_base, iov[0].iov_len, MSG_NOSIGNAL | MSG_DONTWAIT);
	return sendmsg(c->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void send_queue(struct sl_sock_conn *c)
{
	struct sl_sock_set *s = c->sock;
	size_t asked = 0;
	ssize_t n = send_frames(c, &asked);

	if (n < 0 && errno == EINTR) { /* no EPOLLOUT follows */
		sl_list_add_tail(&s->out, &c->out);
		return;
	}
	if (n < 0 && errno != EAGAIN) {
		c->flags |= SL_SOCKF_BROKEN;
		sl_sock_make_ready(c);
		return;
	}
	if (n > 0) {
		s->stats.bytes_out += (uint64_t)n;
		c->progress_ns = s->now_ns;
		c->sent += (uint32_t)n;
		free_sent(c, (size_t)n);
	}
	if (n < (ssize_t)asked)
		c->flags |= SL_SOCKF_BLOCKED; /* EPOLLOUT follows */
	else if (c->tx_bytes)
		sl_list_add_tail(&s->out, &c->out);
	if (c->flags & SL_SOCKF_WANT_ROOM && c->tx_bytes < s->cfg.snd_ahead)
		sl_sock_make_ready(c);
	sl_sock_finish(c);
}

unsigned sl_sock_output(struct sl_sock_set *s)
{
	struct sl_list now = SL_LIST_INIT(now), *l;
	unsigned n = 0;

	sl_list_splice_tail(&now, &s->out);
	while ((l = sl_list_pop_head(&now))) {
		send_queue(sl_container_of(l, struct sl_sock_conn, out));
		n++;
	}
	return n;
}
