/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Payload at a fixed offset behind all headers. Bytes are copied and summed once.
 *
 * In flight: a frame each. Not sent yet: as many segments as fit, split when sent.
 */
#include "tcp/internal.h"
#include "wire/csum.h"

static uint8_t *payload_of(const struct sl_frame *f)
{
	return f->data + f->payload_off;
}

static bool can_send(const struct sl_tcp_conn *c)
{
	return (c->state == SL_TCPS_ESTABLISHED || c->state == SL_TCPS_CLOSE_WAIT) &&
	       !(c->flags & SL_TCPF_FIN_WANTED);
}

enum {
	SEGS_PER_FRAME = 4,
	MIN_FILL = 1024,
	SPARE_FRAMES = 16,
	FRAMES_TO_GO_ON = 4,
};

static uint32_t max_frames(const struct sl_tcp_conn *c)
{
	uint32_t cnt = c->tcp->cfg.snd_buf / MIN_FILL + SPARE_FRAMES;

	return cnt < UINT16_MAX / 2 ? cnt : UINT16_MAX / 2;
}

static uint32_t frame_fill(const struct sl_tcp_conn *c)
{
	uint32_t room = c->tcp->umem->frame_size - SL_FRAME_HEADROOM, segs;

	if (sl_likely(2u * c->mss > room))
		return c->mss;
	segs = room / c->mss;
	return (segs < SEGS_PER_FRAME ? segs : SEGS_PER_FRAME) * c->mss;
}

/* The pool's last frames are for acknowledgements, heads, and connections with few frames. */
static bool pool_allows(const struct sl_tcp_conn *c)
{
	const struct sl_tcp_ops *ops = ops_of(c);
	const struct sl_umem *u = c->tcp->umem;

	if (c->txq_cnt < FRAMES_TO_GO_ON)
		return !sl_umem_low(u) || u->free_cnt > u->low_water / 2;
	return !sl_umem_low(u) && !(ops->full && c->handle && ops->full(c->handle));
}

static uint32_t queued(const struct sl_tcp_conn *c)
{
	return c->snd_end - c->snd_una;
}

uint32_t sl_tcp_send_most(const struct sl_tcp_conn *c)
{
	uint32_t most = c->tcp->cfg.snd_buf, ahead = c->snd_wnd + c->tcp->cfg.snd_ahead;

	return ahead < most ? ahead : most;
}

size_t sl_tcp_send_room(const struct sl_tcp_conn *c)
{
	uint32_t used = queued(c), max = sl_tcp_send_most(c);

	if (!can_send(c) || used >= max || c->txq_cnt >= max_frames(c) || !pool_allows(c))
		return 0;
	return max - used;
}

static struct sl_frame *append_frame(struct sl_tcp_conn *c)
{
	struct sl_tcp *t = c->tcp;
	struct sl_frame *f = sl_frame_get(t->umem, SL_FRAME_UNACKED, SL_FRAME_HEADROOM);
	struct sl_frame *tail = frame_of(t, c->txq_tail);

	if (!f) {
		sl_net_drop(t->net, SL_DROP_NO_FRAME);
		return NULL;
	}
	f->port = c->path.port;
	f->retain = 1;
	f->seq = c->snd_end;
	if (tail)
		tail->next = f;
	else
		c->txq_head = frame_link(f);
	c->txq_tail = frame_link(f);
	if (!c->txq_send)
		c->txq_send = frame_link(f);
	c->txq_cnt++;
	sl_tcp_count_frames(c, 1);
	return f;
}

static struct sl_frame *open_tail(struct sl_tcp_conn *c, uint32_t fill)
{
	struct sl_frame *f = frame_of(c->tcp, c->txq_tail);

	if (!f || !c->txq_send || (f->flags & SL_TXF_FIN) || f->payload_len >= fill)
		return NULL;
	return f;
}

static void extend(struct sl_tcp_conn *c, struct sl_frame *f, uint32_t len, uint64_t sum)
{
	f->payload_sum = sl_csum_join(f->payload_sum, sum, f->payload_len);
	f->payload_len = (uint16_t)(f->payload_len + len);
	f->len = (uint16_t)(f->len + len);
	c->snd_end += len;
}

/* RFC 5681 4.1 */
static void wake_from_idle(struct sl_tcp_conn *c)
{
	struct sl_tcp *t = c->tcp;
	uint32_t iw = (uint32_t)SL_TCP_INIT_SEGS * c->mss;

	if (c->cwnd > iw &&
	    ticks_ns(now_tick(t) - c->progress_at) > sl_tcp_rto_us(c) * SL_NS_PER_US)
		c->cwnd = iw;
	c->progress_at = now_tick(t);
}

static size_t append(struct sl_tcp_conn *c, const uint8_t *bytes, size_t len,
		     bool (*more)(const struct sl_tcp_conn *c))
{
	uint32_t fill = frame_fill(c);
	size_t done = 0;

	if (c->snd_end == c->snd_una)
		wake_from_idle(c);
	while (done < len) {
		struct sl_frame *f = open_tail(c, fill);
		uint32_t n;

		if (!f) {
			if (!more(c))
				break;
			f = append_frame(c);
			if (!f)
				break;
		}
		n = fill - f->payload_len;
		if (n > len - done)
			n = (uint32_t)(len - done);
		extend(c, f, n, sl_csum_copy(payload_of(f) + f->payload_len, bytes + done, n, 0));
		done += n;
	}
	if (done)
		sl_tcp_dirty(c);
	return done;
}

static bool may_grow(const struct sl_tcp_conn *c)
{
	return c->txq_cnt < max_frames(c) && pool_allows(c);
}

static bool may_grow_head(const struct sl_tcp_conn *c)
{
	(void)c;
	return true;
}

void sl_tcp_want_write(struct sl_tcp_conn *c)
{
	if (!can_send(c))
		return;
	c->flags |= SL_TCPF_WANT_WRITE;
	if (c->snd_end == c->snd_una) /* no acknowledgement will come */
		sl_tcp_set_rtx(c, SL_RTX_NO_FRAME, SL_TCP_NO_FRAME_NS);
}

size_t sl_tcp_send(struct sl_tcp_conn *c, const void *bytes, size_t len)
{
	uint32_t used = queued(c), max = sl_tcp_send_most(c);
	size_t room, done;

	if (!can_send(c) || len == 0)
		return 0;
	room = used < max ? max - used : 0;
	done = append(c, bytes, len < room ? len : room, may_grow);
	if (done < len)
		sl_tcp_want_write(c);
	return done;
}

bool sl_tcp_fits_head(const struct sl_tcp_conn *c, size_t len)
{
	return can_send(c) && len / c->mss + 2 <= c->tcp->umem->free_cnt &&
	       c->txq_cnt <= 2 * max_frames(c);
}

uint8_t *sl_tcp_lay(struct sl_tcp_conn *c, size_t min, bool beyond, size_t *room)
{
	uint32_t fill = frame_fill(c);
	struct sl_frame *f;

	if (!can_send(c))
		return NULL;
	if (c->snd_end == c->snd_una)
		wake_from_idle(c);
	f = open_tail(c, fill);
	if (!f || fill - f->payload_len < min) {
		bool may = beyond || (queued(c) < sl_tcp_send_most(c) && may_grow(c));

		f = may ? append_frame(c) : NULL;
	}
	if (!f) {
		sl_tcp_want_write(c);
		return NULL;
	}
	*room = fill - f->payload_len;
	return payload_of(f) + f->payload_len;
}

void sl_tcp_commit(struct sl_tcp_conn *c, size_t len)
{
	struct sl_frame *f = frame_of(c->tcp, c->txq_tail);

	SL_CHECK(c->txq_send);
	extend(c, f, (uint32_t)len, sl_csum_add(payload_of(f) + f->payload_len, len, 0));
	sl_tcp_dirty(c);
}

bool sl_tcp_send_head(struct sl_tcp_conn *c, const void *bytes, size_t len)
{
	if (!sl_tcp_fits_head(c, len))
		return false;
	return len == 0 || append(c, bytes, len, may_grow_head) == len;
}

void sl_tcp_queue_fin(struct sl_tcp_conn *c)
{
	struct sl_frame *f = frame_of(c->tcp, c->txq_tail);

	if (c->flags & SL_TCPF_FIN_QUEUED)
		return;
	if (!f || !c->txq_send)
		f = append_frame(c);
	if (!f) {
		if (c->rtx_kind == SL_RTX_NONE)
			sl_tcp_set_rtx(c, SL_RTX_NO_FRAME, SL_TCP_NO_FRAME_NS);
		return;
	}
	if (c->snd_end == c->snd_una)
		c->progress_at = now_tick(c->tcp);
	f->flags |= SL_TXF_FIN;
	c->snd_end++;
	c->flags |= SL_TCPF_FIN_QUEUED;
}

static void forget(struct sl_tcp_conn *c, const struct sl_frame *f, uint32_t len)
{
	if (f->flags & SL_TXF_SACKED)
		c->sacked_out -= len;
	if (f->flags & SL_TXF_LOST)
		c->lost_out -= len;
	if (f->flags & SL_TXF_RETX)
		c->retrans_out -= len;
}

void sl_tcp_txq_pop(struct sl_tcp_conn *c)
{
	struct sl_frame *f = frame_of(c->tcp, c->txq_head);

	forget(c, f, txf_len(f));
	c->txq_head = frame_link(f->next);
	if (!f->next)
		c->txq_tail = 0;
	c->txq_cnt--;
	sl_tcp_count_frames(c, -1);
	sl_frame_acked(c->tcp->umem, f);
}

void sl_tcp_txq_trim_head(struct sl_tcp_conn *c, uint32_t ack)
{
	struct sl_frame *f = frame_of(c->tcp, c->txq_head);
	uint32_t n = ack - f->seq;

	forget(c, f, n);
	f->seq = ack;
	f->payload_off = (uint16_t)(f->payload_off + n);
	f->payload_len = (uint16_t)(f->payload_len - n);
	f->payload_sum = sl_csum_add(payload_of(f), f->payload_len, 0);
}

/* Returns a frame with the payload from `off` on, or NULL. */
static struct sl_frame *copy_rest(const struct sl_tcp_conn *c, struct sl_frame *f, uint32_t off)
{
	struct sl_tcp *t = c->tcp;
	uint32_t n = f->payload_len - off;
	struct sl_frame *rest = sl_frame_get(t->umem, SL_FRAME_UNACKED, SL_FRAME_HEADROOM);

	if (!rest) {
		sl_net_drop(t->net, SL_DROP_NO_FRAME);
		return NULL;
	}
	rest->payload_sum = sl_csum_copy(rest->data, payload_of(f) + off, n, 0);
	rest->payload_len = (uint16_t)n;
	rest->len = (uint16_t)n;
	rest->seq = f->seq + off;
	rest->port = f->port;
	rest->retain = 1;
	rest->flags = f->flags;
	rest->xmit_ns = f->xmit_ns;
	rest->xmit_cnt = f->xmit_cnt;
	rest->next = f->next;
	return rest;
}

bool sl_tcp_txq_split(struct sl_tcp_conn *c, struct sl_frame *f, uint32_t len)
{
	struct sl_frame *rest;

	if (c->txq_cnt >= max_frames(c) && in_flight(c))
		return false;
	rest = copy_rest(c, f, len);
	if (!rest)
		return false;
	f->next = rest;
	f->payload_len = (uint16_t)len;
	f->payload_sum = sl_csum_add(payload_of(f), len, 0);
	f->flags &= (uint8_t)~SL_TXF_FIN;
	if (c->txq_tail == frame_link(f))
		c->txq_tail = frame_link(rest);
	c->txq_cnt++;
	sl_tcp_count_frames(c, 1);
	return true;
}

static void replace(struct sl_tcp_conn *c, const struct sl_frame *old, struct sl_frame *f)
{
	struct sl_frame *at = frame_of(c->tcp, c->txq_head);

	if (at == old) {
		c->txq_head = frame_link(f);
	} else {
		while (at->next != old)
			at = at->next;
		at->next = f;
	}
	if (c->txq_tail == frame_link(old))
		c->txq_tail = frame_link(f);
}

struct sl_frame *sl_tcp_txq_sendable(struct sl_tcp_conn *c, struct sl_frame *f)
{
	struct sl_tcp *t = c->tcp;
	struct sl_frame *copy;

	if (f->state != SL_FRAME_TX)
		return f;
	if (now_ns(t) - f->xmit_ns < SL_TCP_RTO_MIN_US * SL_NS_PER_US)
		return NULL;
	copy = copy_rest(c, f, 0);
	if (!copy)
		return NULL;
	replace(c, f, copy);
	sl_frame_acked(t->umem, f);
	return copy;
}

void sl_tcp_txq_purge(struct sl_tcp_conn *c)
{
	struct sl_tcp *t = c->tcp;
	struct sl_frame *f = frame_of(t, c->txq_head);

	sl_tcp_count_frames(c, -(int32_t)c->txq_cnt);
	while (f) {
		struct sl_frame *next = f->next;

		sl_frame_acked(t->umem, f);
		f = next;
	}
	c->txq_head = 0;
	c->txq_tail = 0;
	c->txq_send = 0;
	c->txq_cnt = 0;
	c->sacked_out = 0;
	c->lost_out = 0;
	c->retrans_out = 0;
}

uint32_t sl_tcp_unread_frames(const struct sl_tcp_conn *c)
{
	return c->txq_cnt;
}

uint64_t sl_tcp_unread_ns(const struct sl_tcp_conn *c)
{
	return c->snd_una == c->snd_end ? 0 : ticks_ns(now_tick(c->tcp) - c->progress_at);
}
