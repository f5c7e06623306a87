/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments behind a hole, ordered by sequence number and without overlap: what is new of each is
 * cut out when it comes. Of bytes that come twice the first copy stays, so nobody can change what
 * was received already. A FIN is kept with the last bytes; one without bytes comes again.
 */
#include "tcp/internal.h"

enum { OOO_FIN = 1 }; /* in flags: the FIN follows this frame's last byte */

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

static void unlink_after(struct sl_tcp_conn *c, struct sl_frame *prev, struct sl_frame *f)
{
	if (prev)
		prev->next = f->next;
	else
		c->ooo_head = frame_link(f->next);
	c->ooo_cnt--;
	c->tcp->ooo_total--;
}

static void link_after(struct sl_tcp_conn *c, struct sl_frame *prev, struct sl_frame *f)
{
	struct sl_tcp *t = c->tcp;

	if (prev) {
		f->next = prev->next;
		prev->next = f;
	} else {
		f->next = frame_of(t, c->ooo_head);
		c->ooo_head = frame_link(f);
	}
	c->ooo_cnt++;
	t->ooo_total++;
	t->stats.ooo_segs++;
}

/* What must be told to the sender about a duplicate: RFC 2883. */
static void note_duplicate(struct sl_tcp_conn *c, uint32_t seq, uint32_t len)
{
	c->dsack_seq = seq;
	c->dsack_len = (uint16_t)(len < 0xffff ? len : 0xffff);
	c->flags |= SL_TCPF_DSACK;
}

/* Drops what the new frame covers, cuts the new frame where an old one begins. */
static void cut_tail(struct sl_tcp_conn *c, struct sl_frame *prev, struct sl_frame *f)
{
	struct sl_frame *next;

	while ((next = prev ? prev->next : frame_of(c->tcp, c->ooo_head)) &&
	       sl_seq_geq(end_of(f), end_of(next))) {
		unlink_after(c, prev, next);
		sl_frame_put(c->tcp->umem, next);
	}
	if (next && sl_seq_gt(end_of(f), next->seq)) {
		f->len = (uint16_t)(next->seq - f->seq);
		f->flags = 0;
	}
}

void sl_tcp_ooo_add(struct sl_tcp_conn *c, struct sl_frame *f, bool fin)
{
	struct sl_tcp *t = c->tcp;
	struct sl_frame *prev = NULL, *next = frame_of(t, c->ooo_head);

	c->ooo_recent = f->seq;
	f->flags = fin ? OOO_FIN : 0;
	while (next && sl_seq_leq(next->seq, f->seq)) {
		prev = next;
		next = next->next;
	}
	if (prev && sl_seq_leq(end_of(f), end_of(prev))) {
		note_duplicate(c, f->seq, f->len);
		sl_net_drop_frame(t->net, f, SL_DROP_TCP_DUPLICATE);
		return;
	}
	if (prev && sl_seq_gt(end_of(prev), f->seq))
		cut_front(f, end_of(prev) - f->seq);
	if (f->state == SL_FRAME_RX)
		sl_frame_to(t->umem, f, SL_FRAME_HELD);
	cut_tail(c, prev, f);
	if (prev && end_of(prev) == f->seq && sl_tcp_coalesce(t, prev, f)) {
		prev->flags |= fin ? OOO_FIN : 0;
		t->stats.ooo_segs++;
		return;
	}
	if (c->ooo_cnt >= t->cfg.max_ooo_frames || t->ooo_total >= t->cfg.max_ooo_frames_total ||
	    sl_umem_low(t->umem)) {
		sl_net_drop_frame(t->net, f, SL_DROP_TCP_OOO_LIMIT);
		return;
	}
	link_after(c, prev, f);
}

/* Delivers what has become the next in order. False when the connection is gone. */
bool sl_tcp_ooo_drain(struct sl_tcp_conn *c)
{
	struct sl_tcp *t = c->tcp;
	struct sl_frame *f;

	while ((f = frame_of(t, c->ooo_head)) && sl_seq_leq(f->seq, c->rcv_nxt)) {
		uint32_t end = end_of(f);
		bool fin = f->flags & OOO_FIN;

		unlink_after(c, NULL, f);
		if (sl_seq_gt(end, c->rcv_nxt)) {
			cut_front(f, c->rcv_nxt - f->seq);
			if (!sl_tcp_deliver(c, f))
				return false;
		} else {
			sl_frame_put(t->umem, f);
		}
		if (fin && end == c->rcv_nxt && !sl_tcp_fin_arrived(c))
			return false;
	}
	return true;
}

void sl_tcp_ooo_purge(struct sl_tcp_conn *c)
{
	struct sl_tcp *t = c->tcp;

	sl_frame_put_list(t->umem, frame_of(t, c->ooo_head));
	t->ooo_total -= c->ooo_cnt;
	c->ooo_cnt = 0;
	c->ooo_head = 0;
}

/* The next range that we hold without a hole, from *f on. */
static void next_range(const struct sl_frame **f, uint32_t *start, uint32_t *end)
{
	*start = (*f)->seq;
	*end = end_of(*f);
	for (*f = (*f)->next; *f && (*f)->seq == *end; *f = (*f)->next)
		*end = end_of(*f);
}

static void put_block(struct sl_tcp_opts *o, unsigned *cnt, uint32_t start, uint32_t end)
{
	o->sack[*cnt].start = start;
	o->sack[(*cnt)++].end = end;
}

/*
 * Blocks for the SACK option: a duplicate first (RFC 2883 4), then the range with the most recent
 * segment (RFC 2018 4), those below it, which are the next most recent as a rule, and those above.
 */
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
