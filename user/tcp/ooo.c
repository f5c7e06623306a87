/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Out-of-order segments, sorted, without overlap; the first copy of a byte is kept. A FIN is stored
 * with the last bytes or in an empty frame; later bytes invalidate it.
 */
#include "tcp/internal.h"

enum {
	OOO_FIN = 1, /* the FIN follows */
	HOLDERS_ASKED = 8,
};

static uint32_t end_of(const struct sl_frame *f)
{
	return f->seq + f->len;
}

static void cut_front(struct sl_frame *f, uint32_t n)
{
	f->seq += n;
	f->data += n;
	f->len = (uint16_t)(f->len - n);
}

/* Connections are linked through their first frames. */
static struct sl_frame *first_of(const struct sl_tcp *t, uint32_t link)
{
	return frame_of(t, conn_of(t, link)->ooo_head);
}

static void join_holders(struct sl_tcp_conn *c)
{
	struct sl_tcp *t = c->tcp;
	struct sl_frame *f = frame_of(t, c->ooo_head);
	uint32_t link = conn_link(c);

	f->holder_prev = t->ooo_last;
	f->holder_next = 0;
	if (t->ooo_last)
		first_of(t, t->ooo_last)->holder_next = link;
	else
		t->ooo_first = link;
	t->ooo_last = link;
}

static void leave_holders(struct sl_tcp_conn *c)
{
	struct sl_tcp *t = c->tcp;
	const struct sl_frame *f = frame_of(t, c->ooo_head);

	if (f->holder_prev)
		first_of(t, f->holder_prev)->holder_next = f->holder_next;
	else
		t->ooo_first = f->holder_next;
	if (f->holder_next)
		first_of(t, f->holder_next)->holder_prev = f->holder_prev;
	else
		t->ooo_last = f->holder_prev;
}

/* Before the old first frame is freed. */
static void set_first(struct sl_tcp_conn *c, struct sl_frame *f)
{
	const struct sl_frame *old = frame_of(c->tcp, c->ooo_head);

	if (old && f) {
		f->holder_prev = old->holder_prev;
		f->holder_next = old->holder_next;
	} else if (old) {
		leave_holders(c);
	}
	c->ooo_head = frame_link(f);
	if (!old && f)
		join_holders(c);
}

static void unlink_after(struct sl_tcp_conn *c, struct sl_frame *prev, struct sl_frame *f)
{
	if (prev)
		prev->next = f->next;
	else
		set_first(c, f->next);
	c->ooo_cnt--;
	c->tcp->ooo_total--;
	sl_tcp_count_frames(c, -1);
}

static void link_after(struct sl_tcp_conn *c, struct sl_frame *prev, struct sl_frame *f)
{
	struct sl_tcp *t = c->tcp;

	if (prev) {
		f->next = prev->next;
		prev->next = f;
	} else {
		f->next = frame_of(t, c->ooo_head);
		set_first(c, f);
	}
	c->ooo_cnt++;
	t->ooo_total++;
	t->stats.ooo_segs++;
	sl_tcp_count_frames(c, 1);
}

/* Drops frames that the new one covers, except a FIN at its end. */
static void cut_tail(struct sl_tcp_conn *c, struct sl_frame *prev, struct sl_frame *f)
{
	struct sl_frame *next;

	while ((next = prev ? prev->next : frame_of(c->tcp, c->ooo_head)) &&
	       sl_seq_geq(end_of(f), end_of(next))) {
		if (end_of(f) == end_of(next))
			f->flags |= next->flags;
		unlink_after(c, prev, next);
		sl_frame_put(c->tcp->umem, next);
	}
	if (!next)
		return;
	if (sl_seq_gt(end_of(f), next->seq))
		f->len = (uint16_t)(next->seq - f->seq);
	f->flags = 0;
}

/* Drops the highest bytes (RFC 2018 8). */
static void shrink(struct sl_tcp_conn *c, uint16_t keep)
{
	struct sl_tcp *t = c->tcp;
	struct sl_frame *last = frame_of(t, c->ooo_head);
	uint32_t gone = (uint32_t)(c->ooo_cnt - keep);

	for (uint16_t i = 1; i < keep; i++)
		last = last->next;
	sl_frame_put_list(t->umem, last->next);
	last->next = NULL;
	c->ooo_cnt = keep;
	t->ooo_total -= gone;
	sl_tcp_count_frames(c, -(int32_t)gone);
	t->net->drops[SL_DROP_TCP_OOO_LIMIT] += gone;
}

/* Halves the largest of the next few holders, if it has twice as many as c would. */
static bool make_room(const struct sl_tcp_conn *c)
{
	struct sl_tcp *t = c->tcp;
	struct sl_tcp_conn *heaviest = NULL;

	for (int i = 0; i < HOLDERS_ASKED && t->ooo_first; i++) {
		struct sl_tcp_conn *holder = conn_of(t, t->ooo_first);

		leave_holders(holder);
		join_holders(holder);
		if (!heaviest || holder->ooo_cnt > heaviest->ooo_cnt)
			heaviest = holder;
	}
	if (!heaviest || heaviest->ooo_cnt < 2 * (c->ooo_cnt + 1))
		return false;
	shrink(heaviest, heaviest->ooo_cnt / 2);
	return true;
}

static void insert(struct sl_tcp_conn *c, struct sl_frame *prev, struct sl_frame *f)
{
	struct sl_tcp *t = c->tcp;
	uint8_t fin = f->flags;

	if (prev && end_of(prev) == f->seq) {
		prev->flags = 0; /* bytes follow: invalid FIN */
		if (sl_tcp_coalesce(t, prev, f)) {
			prev->flags = fin;
			t->stats.ooo_segs++;
			return;
		}
	}
	if (f->len == 0 && !fin)
		sl_net_drop_frame(t->net, f, SL_DROP_TCP_SEQUENCE);
	else if (c->ooo_cnt >= t->cfg.max_ooo_frames || sl_umem_low(t->umem) ||
		 (t->ooo_total >= t->cfg.max_ooo_frames_total && !make_room(c)))
		sl_net_drop_frame(t->net, f, SL_DROP_TCP_OOO_LIMIT);
	else
		link_after(c, prev, f);
}

void sl_tcp_ooo_add(struct sl_tcp_conn *c, struct sl_frame *f, bool fin)
{
	struct sl_frame *prev = NULL, *next = frame_of(c->tcp, c->ooo_head);

	while (next && sl_seq_leq(next->seq + (next->len == 0), f->seq)) {
		prev = next;
		next = next->next;
	}
	c->ooo_recent = f->seq;
	f->flags = fin ? OOO_FIN : 0;
	if (prev && sl_seq_leq(end_of(f), end_of(prev))) {
		if (end_of(f) == end_of(prev) && !prev->next)
			prev->flags |= f->flags;
		if (f->len) {
			/* RFC 2883 */
			c->dsack_seq = f->seq;
			c->dsack_len = (uint16_t)(f->len < 0xffff ? f->len : 0xffff);
			c->flags |= SL_TCPF_DSACK;
			sl_net_drop(c->tcp->net, SL_DROP_TCP_DUPLICATE);
		}
		sl_frame_put(c->tcp->umem, f);
		return;
	}
	if (prev && sl_seq_gt(end_of(prev), f->seq))
		cut_front(f, end_of(prev) - f->seq);
	if (f->state == SL_FRAME_RX)
		sl_frame_to(c->tcp->umem, f, SL_FRAME_HELD);
	cut_tail(c, prev, f);
	insert(c, prev, f);
}

struct sl_frame *sl_tcp_ooo_next(struct sl_tcp_conn *c, bool *fin)
{
	struct sl_frame *f = frame_of(c->tcp, c->ooo_head);
	uint32_t known;

	if (!f || sl_seq_gt(f->seq, c->rcv_nxt))
		return NULL;
	unlink_after(c, NULL, f);
	*fin = (f->flags & OOO_FIN) && sl_seq_geq(end_of(f), c->rcv_nxt);
	known = c->rcv_nxt - f->seq;
	cut_front(f, known < f->len ? known : f->len);
	return f;
}

void sl_tcp_ooo_purge(struct sl_tcp_conn *c)
{
	struct sl_tcp *t = c->tcp;
	struct sl_frame *first = frame_of(t, c->ooo_head);

	set_first(c, NULL);
	sl_frame_put_list(t->umem, first);
	t->ooo_total -= c->ooo_cnt;
	sl_tcp_count_frames(c, -(int32_t)c->ooo_cnt);
	c->ooo_cnt = 0;
}

static uint32_t range_end(const struct sl_frame *f)
{
	return end_of(f) + (f->flags & OOO_FIN);
}

static void next_range(const struct sl_frame **f, uint32_t *start, uint32_t *end)
{
	*start = (*f)->seq;
	*end = range_end(*f);
	for (*f = (*f)->next; *f && (*f)->seq == *end; *f = (*f)->next)
		*end = range_end(*f);
}

static void put_block(struct sl_tcp_opts *o, unsigned *cnt, uint32_t start, uint32_t end)
{
	o->sack[*cnt].start = start;
	o->sack[(*cnt)++].end = end;
}

unsigned sl_tcp_ooo_blocks(const struct sl_tcp_conn *c, struct sl_tcp_opts *o, unsigned max)
{
	const struct sl_frame *f = frame_of(c->tcp, c->ooo_head);
	uint32_t start[SL_TCP_SACK_MAX], end[SL_TCP_SACK_MAX];
	unsigned seen = 0, cnt = 0;

	if (c->flags & SL_TCPF_DSACK)
		put_block(o, &cnt, c->dsack_seq, c->dsack_seq + c->dsack_len);
	while (f) {
		unsigned i = seen++ % SL_TCP_SACK_MAX;

		next_range(&f, &start[i], &end[i]);
		if (sl_seq_gt(end[i], c->ooo_recent))
			break;
	}
	for (unsigned back = 0; back < seen && back < SL_TCP_SACK_MAX && cnt < max; back++) {
		unsigned i = (seen - 1 - back) % SL_TCP_SACK_MAX;

		put_block(o, &cnt, start[i], end[i]);
	}
	while (f && cnt < max) {
		next_range(&f, &start[0], &end[0]);
		put_block(o, &cnt, start[0], end[0]);
	}
	return cnt;
}
