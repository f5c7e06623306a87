/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In-order payload: offered at once, else queued. Small pieces are joined: single bytes must not
 * use a frame each.
 */
#include "tcp/internal.h"

static void rxq_append(struct sl_tcp_conn *c, struct sl_frame *f)
{
	struct sl_tcp *t = c->tcp;
	struct sl_frame *tail = frame_of(t, c->rxq_tail);

	c->rcv_queued += f->len;
	if (tail && sl_tcp_coalesce(t, tail, f))
		return;
	f->next = NULL;
	if (tail)
		tail->next = f;
	else
		c->rxq_head = frame_link(f);
	c->rxq_tail = frame_link(f);
	sl_tcp_count_frames(c, 1);
}

/* Bytes consumed; if all, the frame is freed or taken. */
static size_t offer(struct sl_tcp_conn *c, struct sl_frame *f)
{
	struct sl_tcp *t = c->tcp;
	size_t len = f->len, used;
	struct sl_chunk chunk = {
		.ptr = f->data,
		.len = len,
		.frame = f,
		.rx_ns = f->rx_ns,
		.take_ns = f->take_ns,
	};

	c->flags |= SL_TCPF_IN_DATA;
	used = ops_of(c)->data(c->handle, &chunk);
	c->flags &= ~(uint32_t)SL_TCPF_IN_DATA;
	if (!chunk.frame) /* taken; may already be freed */
		return len;
	if (used >= len) {
		sl_frame_put(t->umem, f);
		return len;
	}
	f->data += used;
	f->len = (uint16_t)(len - used);
	return used;
}

static bool tell_fin(struct sl_tcp_conn *c)
{
	uint32_t want = c->flags & (SL_TCPF_FIN_RCVD | SL_TCPF_FIN_TOLD | SL_TCPF_DISCARD);

	if (want != SL_TCPF_FIN_RCVD || c->rxq_head || !(c->flags & SL_TCPF_TOLD))
		return true;
	c->flags |= SL_TCPF_FIN_TOLD;
	ops_of(c)->fin(c->handle);
	return c->state != SL_TCPS_CLOSED;
}

/* RFC 5681 4.2 */
static void schedule_ack(struct sl_tcp_conn *c)
{
	if (c->rcv_nxt - c->last_ack_sent >= 2u * c->mss || c->ooo_head)
		c->flags |= SL_TCPF_ACK_NOW;
	if (c->flags & SL_TCPF_ACK_NOW)
		sl_tcp_dirty(c);
	else
		sl_tcp_set_ack(c);
}

static bool may_go_on(struct sl_tcp_conn *c)
{
	if (!sl_seq_gt(c->rcv_nxt, c->discard_end))
		return true;
	c->tcp->stats.linger_aborts++;
	sl_tcp_send_rst(c);
	sl_tcp_conn_gone(c, SL_TCP_CLOSED);
	return false;
}

bool sl_tcp_deliver(struct sl_tcp_conn *c, struct sl_frame *f)
{
	struct sl_tcp *t = c->tcp;

	c->rcv_nxt += f->len;
	t->stats.bytes_in += f->len;
	schedule_ack(c);
	if (c->flags & SL_TCPF_DISCARD) {
		sl_net_drop_frame(t->net, f, SL_DROP_TCP_CLOSED);
		return may_go_on(c);
	}
	if (f->state == SL_FRAME_RX)
		sl_frame_to(t->umem, f, SL_FRAME_HELD);
	if (c->rxq_head) {
		rxq_append(c, f);
		return true;
	}
	size_t len = f->len;
	size_t used = offer(c, f);

	if (c->state == SL_TCPS_CLOSED || (c->flags & SL_TCPF_DISCARD)) {
		if (used < len)
			sl_frame_put(t->umem, f);
		return c->state != SL_TCPS_CLOSED;
	}
	if (used < len)
		rxq_append(c, f);
	if (c->flags & SL_TCPF_RESUME) {
		c->flags &= ~(uint32_t)SL_TCPF_RESUME;
		if (used)
			sl_tcp_resume(c);
	}
	return c->state != SL_TCPS_CLOSED;
}

bool sl_tcp_deliver_fin(struct sl_tcp_conn *c)
{
	c->rcv_nxt++;
	if (sl_seq_gt(c->rcv_nxt, c->rcv_adv)) /* a FIN after a full window */
		c->rcv_adv = c->rcv_nxt;
	c->flags |= SL_TCPF_FIN_RCVD | SL_TCPF_ACK_NOW;
	c->tcp->net->drops[SL_DROP_TCP_CLOSED] += c->ooo_cnt;
	sl_tcp_ooo_purge(c);
	sl_tcp_dirty(c);
	return tell_fin(c);
}

static bool offer_head(struct sl_tcp_conn *c)
{
	struct sl_tcp *t = c->tcp;
	struct sl_frame *f = frame_of(t, c->rxq_head);
	struct sl_frame *next = f->next;
	size_t len = f->len, used;

	/* `data` may free the queue. */
	c->rxq_head = frame_link(next);
	if (!next)
		c->rxq_tail = 0;
	sl_tcp_count_frames(c, -1);
	used = offer(c, f);
	if (c->state == SL_TCPS_CLOSED || (c->flags & SL_TCPF_DISCARD)) {
		if (used < len)
			sl_frame_put(t->umem, f);
		return false;
	}
	c->rcv_queued -= (uint32_t)used;
	if (used == len)
		return true;
	f->next = frame_of(t, c->rxq_head);
	if (!c->rxq_head)
		c->rxq_tail = frame_link(f);
	c->rxq_head = frame_link(f);
	sl_tcp_count_frames(c, 1);
	return used > 0 && (c->flags & SL_TCPF_RESUME);
}

/* RFC 9293 3.8.6.2.2 */
static void maybe_update_window(struct sl_tcp_conn *c)
{
	uint32_t told = c->rcv_adv - c->rcv_nxt;
	uint32_t space = sl_tcp_rcv_space(c);
	uint32_t step =
		2u * c->mss < c->tcp->cfg.rcv_buf / 2 ? 2u * c->mss : c->tcp->cfg.rcv_buf / 2;

	if ((c->flags & SL_TCPF_FIN_RCVD) || space < told || space - told < step)
		return;
	c->flags |= SL_TCPF_ACK_NOW;
	sl_tcp_dirty(c);
}

bool sl_tcp_narrow(struct sl_tcp_conn *c, bool narrow)
{
	if (narrow == !!(c->flags & SL_TCPF_NARROW))
		return false;
	c->flags ^= SL_TCPF_NARROW;
	if (!narrow && c->rcv_adv - c->rcv_nxt < SL_TCP_NARROW / 2)
		maybe_update_window(c);
	return true;
}

uint32_t sl_tcp_rtt_us(const struct sl_tcp_conn *c)
{
	return c->srtt_us;
}

void sl_tcp_resume(struct sl_tcp_conn *c)
{
	if (c->state == SL_TCPS_CLOSED)
		return;
	if (c->flags & SL_TCPF_IN_DATA) {
		c->flags |= SL_TCPF_RESUME;
		return;
	}
	do {
		c->flags &= ~(uint32_t)SL_TCPF_RESUME;
	} while (c->rxq_head && offer_head(c));
	if (c->state == SL_TCPS_CLOSED)
		return;
	c->flags &= ~(uint32_t)SL_TCPF_RESUME;
	maybe_update_window(c);
	if (tell_fin(c))
		(void)sl_tcp_try_finish(c);
}
