/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include "base/cpu.h"
#include "rpc/link.h"
#include "rpc/migrate.h"

enum { PUMP_MAX = 128 << 10 };

struct sl_link_cancels {
	struct sl_link_cancels *next;
	uint32_t cnt;
	uint64_t ids[SL_RPC_MAX_CANCELS];
};

#define ID_BITS 48
#define ID_MASK ((UINT64_C(1) << ID_BITS) - 1)

void sl_link_init(struct sl_link *l, struct sl_transport *t, uint64_t now_ns, bool one_class)
{
	l->t = t;
	l->last_rx_ns = l->now_ns = now_ns;
	l->alive.next_ns = now_ns + l->alive.silence_ns;
	l->generation = sl_rpc_boot_epoch() << ID_BITS;
	l->peer_generation = t->peer_epoch << ID_BITS;
	sl_sendq_init(&l->q, one_class);
	sl_link_join(l);
	sl_list_init(&l->in_flight);
	sl_list_init(&l->retired_in_flight);
}

static void drop_cancels(struct sl_link *l)
{
	struct sl_link_cancels *c = l->cancels;

	l->cancels = c->next;
	sl_capped_free(l->mem, c);
}

void sl_link_fini(struct sl_link *l)
{
	while (l->cancels)
		drop_cancels(l);
	for (unsigned i = 0; i < SL_RPC_MAX_INTERLEAVE; i++)
		sl_reassembler_reset(&l->reassemblers[i], l->mem);
	sl_tx_port_leave(&l->out);
	l->t->ops->close(l->t);
	if (l->second)
		l->second->ops->close(l->second);
	l->t = l->second = NULL;
}

static void fail_link(struct sl_link *l, int error)
{
	if (!l->error)
		l->error = error;
}

static struct sl_reassembler *reassembler_of(struct sl_link *l, const struct sl_rpc_header *h)
{
	struct sl_reassembler *unused = NULL;

	if (!l->reassembling)
		return &l->reassemblers[0];
	for (unsigned i = 0; i < SL_RPC_MAX_INTERLEAVE; i++) {
		struct sl_reassembler *r = &l->reassemblers[i];

		if (r->phase == SL_REASM_IDLE)
			unused = unused ? unused : r;
		else if (r->header.id == h->id)
			return r;
	}
	return unused;
}

static int feed_fragment(struct sl_link *l, const struct sl_message *m)
{
	const struct sl_rpc_header *h = &m->header;
	struct sl_reassembler *r = reassembler_of(l, h);
	bool first = h->flags & SL_RPC_FIRST;
	int rc;

	if (h->id >> ID_BITS != l->peer_generation >> ID_BITS)
		return -EPROTO;
	if (!r || (r->phase == SL_REASM_IDLE) != first)
		return -EPROTO;
	if (first) {
		rc = sl_reassembler_start(r, h, l->mem, l->scratch);
		if (h->priority < SL_CLASS_CNT)
			l->out.o->seen_ns[h->priority] = l->now_ns;
	} else {
		rc = h->total_or_offset == r->offset ? 0 : -EPROTO;
	}
	if (!rc)
		rc = sl_reassembler_feed(r, sl_span_of(m->body, h->fragment_len), l->mem,
					 l->scratch, l->ops->part, l->ctx);
	if (rc < 0)
		return rc;
	l->reassembling += (first ? 1 : 0) - (uint32_t)rc;
	if ((rc == 1) != !!(h->flags & SL_RPC_LAST))
		return -EPROTO;
	if (rc == 1 && l->ops->message)
		l->ops->message(l->ctx, &r->header);
	return 0;
}

static int handle_cancel(struct sl_link *l, const struct sl_message *m)
{
	uint64_t id;

	if (m->header.count > SL_RPC_MAX_CANCELS ||
	    m->header.fragment_len != m->header.count * sizeof(id))
		return -EPROTO;
	for (unsigned i = 0; i < m->header.count; i++) {
		memcpy(&id, m->body + i * sizeof(id), sizeof(id));
		l->ops->cancel(l->ctx, id);
	}
	return 0;
}

static int handle_windows(struct sl_link *l, const struct sl_message *m)
{
	struct sl_rpc_window w;

	if (m->header.count > SL_RPC_MAX_WINDOWS ||
	    m->header.fragment_len != m->header.count * sizeof(w))
		return -EPROTO;
	for (unsigned i = 0; i < m->header.count; i++) {
		memcpy(&w, m->body + i * sizeof(w), sizeof(w));
		l->ops->window(l->ctx, w.id, w.bytes);
	}
	return 0;
}

static int handle_message(struct sl_link *l, const struct sl_message *m)
{
	unsigned type = m->header.version_type & 15;

	l->stats.bytes_received += m->header.fragment_len;
	switch (type) {
	case SL_RPC_REQUEST:
	case SL_RPC_RESPONSE: return type == l->takes ? feed_fragment(l, m) : -EPROTO;
	case SL_RPC_CANCEL: return l->takes == SL_RPC_REQUEST ? handle_cancel(l, m) : -EPROTO;
	case SL_RPC_WINDOW: return handle_windows(l, m);
	case SL_RPC_PING:
		/* One PONG answers any number of PINGs, against floods. */
		l->pong_due = true;
		l->pong_id = m->header.id;
		return 0;
	case SL_RPC_PONG: return 0;
	case SL_RPC_GOAWAY: l->ops->goaway(l->ctx, m->header.id == SL_GOAWAY_STAYS); return 0;
	case SL_RPC_READY: l->ops->ready(l->ctx); return 0;
	case SL_RPC_MIGRATE: return sl_migrate_handle(l);
	default: return -EPROTO;
	}
}

static void handle_sent(struct sl_link *l, struct sl_transport *t, const struct sl_list *in_flight)
{
	SL_UNINIT uint64_t cookies[SL_LINK_POLL];
	unsigned n = SL_LINK_POLL;

	while (n == SL_LINK_POLL && !sl_list_empty(in_flight)) {
		n = t->ops->sent(t, cookies, SL_LINK_POLL);
		for (unsigned i = 0; i < n; i++) {
			struct sl_send *s = (struct sl_send *)(uintptr_t)cookies[i];

			sl_list_del(&s->node);
			l->ops->sent(l->ctx, s);
		}
	}
}

static void poll_messages(struct sl_link *l, struct sl_transport *t, const struct sl_message *m,
			  int n)
{
	for (int i = 0; i < n; i++) {
		if (!l->error) {
			int rc = sl_migrate_incoming(l) == t ? handle_message(l, &m[i]) : -EPROTO;

			if (rc)
				fail_link(l, rc);
		}
		t->ops->release(t, &m[i]);
	}
}

static void step_move(struct sl_link *l)
{
	int rc = sl_migrate_step(l);

	if (rc)
		fail_link(l, rc);
	if (l->second)
		handle_sent(l, l->second, &l->retired_in_flight);
}

int sl_link_poll(struct sl_link *l, uint64_t now_ns)
{
	SL_UNINIT struct sl_message m[SL_LINK_POLL];
	struct sl_transport *t;
	int n;

	if (sl_unlikely(l->error))
		return l->error;
	l->now_ns = now_ns;
	if (sl_unlikely(l->move))
		step_move(l);
	handle_sent(l, l->t, &l->in_flight);
	t = sl_migrate_incoming(l);
	n = l->error ? l->error : t->ops->poll(t, m, SL_LINK_POLL);
	sl_tx_port_count(&l->out, l->t->posted_bytes, now_ns);
	if (sl_unlikely(n < 0)) {
		fail_link(l, n);
		return n;
	}
	poll_messages(l, t, m, n);
	if (n) {
		l->last_rx_ns = now_ns;
		l->stats.messages_received += (unsigned)n;
	}
	return l->error ? l->error : n;
}

static void report_read(const struct sl_link *l, const struct sl_span *spans, unsigned cnt)
{
#ifdef SL_DEBUG
	if (l->ops->reads)
		l->ops->reads(l->ctx, spans, cnt);
#else
	(void)l, (void)spans, (void)cnt;
#endif
}

static int post_slice(struct sl_link *l, struct sl_send *s, const struct sl_rpc_header *h)
{
	uint32_t first = s->span, last = first, len = h->fragment_len;
	struct sl_span head, tail;
	size_t have, skip = s->span_skip, cut;
	int rc;

	if (!len)
		return l->t->ops->post(l->t, h, NULL, 0, 0);
	head = s->spans[first];
	s->spans[first] = sl_span_of(head.ptr + skip, head.len - skip);
	for (have = s->spans[first].len; have < len; have += s->spans[last].len)
		last++;
	cut = have - len;
	tail = s->spans[last];
	s->spans[last].len -= cut;
	report_read(l, s->spans + first, last - first + 1);
	rc = l->t->ops->post(l->t, h, s->spans + first, last - first + 1,
			     h->flags & SL_RPC_LAST && !l->t->copies ? (uintptr_t)s : 0);
	s->spans[last] = tail;
	skip = last == first ? skip : 0;
	s->spans[first] = head;
	if (!rc) {
		s->span = last;
		s->span_skip = skip + tail.len - cut;
	}
	return rc;
}

static void post_failed(struct sl_link *l, int rc)
{
	if (rc != -EAGAIN)
		fail_link(l, rc);
}

static bool add_cancels(struct sl_link *l)
{
	struct sl_link_cancels *c = sl_capped_malloc(l->mem, sizeof(*c));

	if (!c)
		return false;
	c->next = NULL;
	c->cnt = 0;
	*(l->cancels ? &l->last_cancels->next : &l->cancels) = c;
	l->last_cancels = c;
	return true;
}

static void add_cancel(struct sl_link *l, uint64_t id)
{
	struct sl_link_cancels *c;

	if ((!l->cancels || l->last_cancels->cnt == SL_RPC_MAX_CANCELS) && !add_cancels(l)) {
		fail_link(l, -ENOBUFS);
		return;
	}
	c = l->last_cancels;
	c->ids[c->cnt++] = id;
}

static void count_posted(struct sl_link *l, struct sl_send *s)
{
	for (uint32_t i = 0; i < s->cancelled_cnt; i++)
		add_cancel(l, s->cancelled[i]);
	if (l->t->copies)
		l->ops->sent(l->ctx, s);
	else
		sl_list_add_tail(&l->in_flight, &s->node);
}

static uint32_t within_spans(const struct sl_link *l, const struct sl_send *s, uint32_t len)
{
	uint32_t max = l->t->spans_max;
	size_t have;

	if (!max || s->span_cnt - s->span <= max)
		return len;
	have = s->spans[s->span].len - s->span_skip;
	for (uint32_t i = 1; i < max && have < len; i++)
		have += s->spans[s->span + i].len;
	return have < len && have >= l->t->slice_min ? (uint32_t)have : len;
}

static bool send_slice(struct sl_link *l, struct sl_send *s, uint32_t len)
{
	struct sl_rpc_header h = s->header;
	int rc;

	len = within_spans(l, s, len);
	h.fragment_len = len;
	h.total_or_offset = s->offset ? s->offset : s->total;
	h.flags |= (uint8_t)(s->offset ? 0 : SL_RPC_FIRST);
	h.flags |= (uint8_t)(s->offset + len == s->total ? SL_RPC_LAST : 0);
	rc = post_slice(l, s, &h);
	if (rc) {
		post_failed(l, rc);
		return false;
	}
	l->stats.messages_sent++;
	l->stats.bytes_sent += len;
	sl_tx_port_count(&l->out, l->t->posted_bytes, l->now_ns);
	if (sl_sendq_posted(&l->q, s, len))
		count_posted(l, s);
	return true;
}

static bool is_free_for(const struct sl_link *l, enum sl_rpc_class class)
{
	const struct sl_tx_port *o = l->out.o;

	if (class <= SL_CLASS_LATENCY)
		return l->t->posted_bytes < o->dql.min_limit;
	return o->posted < o->dql.min_limit && sl_list_empty(&o->waiting);
}

/* Posts a message at once. False: it must be queued. */
static bool send_whole(struct sl_link *l, struct sl_send *s, enum sl_rpc_class class)
{
	struct sl_rpc_header h = s->header;
	int rc;

	if (l->q.cnt || l->error || s->total > l->t->slot_len - sizeof(h) || !is_free_for(l, class))
		return false;
	h.priority = (uint8_t) class;
	h.fragment_len = h.total_or_offset = s->total;
	h.flags |= SL_RPC_FIRST | SL_RPC_LAST;
	report_read(l, s->spans, s->span_cnt);
	rc = l->t->ops->post(l->t, &h, s->spans, s->span_cnt, l->t->copies ? 0 : (uintptr_t)s);
	if (rc) {
		post_failed(l, rc);
		return false;
	}
	s->offset = s->total;
	sl_tx_port_count(&l->out, l->t->posted_bytes, l->now_ns);
	l->stats.messages_sent++;
	l->stats.bytes_sent += s->total;
	count_posted(l, s);
	return true;
}

static void watch_progress(struct sl_link *l)
{
	struct sl_tx_port *o = l->out.o;
	uint32_t before = l->t->posted_bytes;

	if (o->posted < o->dql.min_limit / 2 && !sl_tx_port_not_draining(&l->out))
		return;
	l->t->ops->progress(l->t);
	sl_tx_port_count(&l->out, l->t->posted_bytes, l->now_ns);
	if (l->t->posted_bytes == before)
		return;
	if (o->capped)
		sl_dql_sample(&o->dql, o->posted);
	o->capped = false;
}

static unsigned urgent_class(const struct sl_link *l)
{
	const uint64_t *seen_ns = l->out.o->seen_ns;
	unsigned c = SL_CLASS_LATENCY;

	while (c < SL_CLASS_CNT && sl_list_empty(&l->q.queue[c]) &&
	       (!seen_ns[c] || l->now_ns >= seen_ns[c] + SL_LINK_QUIET_NS))
		c++;
	return c;
}

static void count_stall(struct sl_link *l, const struct sl_send_room *room, bool has_posted)
{
	l->stats.stalls++;
	if (room->window < SL_SENDQ_SLICE_MIN || sl_tx_port_not_draining(&l->out)) {
		sl_list_del(&l->out.node);
		return;
	}
	sl_tx_port_wait(&l->out, has_posted);
	l->out.o->capped |= room->urgent < SL_CLASS_BULK;
}

/* Posts queued messages, a bounded number: a fast reader would delay replies. */
static void pump_queue(struct sl_link *l)
{
	uint64_t bytes = 0;
	struct sl_send_room room = {.slot_body =
					    l->t->slot_len - (uint32_t)sizeof(struct sl_rpc_header),
				    .slice_max = l->t->bulk_max,
				    .slice_min = l->t->slice_min,
				    .urgent = urgent_class(l),
				    .begun_only = sl_migrate_awaits_ends(l),
				    .rate_bps = l->t->rate_bps};

	l->cut = false;
	while (l->q.cnt && !l->error) {
		struct sl_send *s;
		uint32_t len;

		l->cut = bytes >= PUMP_MAX;
		if (l->cut)
			break;
		watch_progress(l);
		room.window = l->t->ops->window(l->t);
		room.own = l->t->posted_bytes;
		room.posted = sl_tx_port_ahead(&l->out);
		room.limit = l->out.o->dql.limit;
		s = sl_sendq_next(&l->q, &room, &len);
		if (!s && (!room.begun_only || !sl_migrate_may_send(l))) {
			count_stall(l, &room, bytes != 0);
			return;
		}
		if (!s || !send_slice(l, s, len))
			break;
		bytes += len;
	}
	sl_list_del(&l->out.node);
}

void sl_link_send(struct sl_link *l, struct sl_send *s, enum sl_rpc_class class, uint64_t now_ns)
{
	s->header.id = l->generation | (++l->next_id & ID_MASK);
	s->header.flags |= SL_RPC_BATCH;
	s->offset = s->span = 0;
	s->span_skip = 0;
	l->now_ns = now_ns;
	l->out.o->seen_ns[class] = now_ns;
	if (sl_likely(send_whole(l, s, class)))
		return;
	sl_sendq_push(&l->q, s, class);
	pump_queue(l);
}

void sl_link_withdraw(struct sl_link *l, struct sl_send *s)
{
	sl_sendq_remove(&l->q, s);
	if (!l->q.cnt)
		sl_list_del(&l->out.node);
	l->ops->sent(l->ctx, s);
}

void sl_link_cancel(struct sl_link *l, uint64_t id, struct sl_send *s)
{
	if (!s || s->offset == s->total)
		add_cancel(l, id);
	else if (!s->offset && s->cancelled_cnt + 1U == s->header.count)
		sl_link_withdraw(l, s);
	else
		s->cancelled[s->cancelled_cnt++] = id;
}

static bool post_list(struct sl_link *l, enum sl_rpc_type type, uint64_t id, uint32_t count,
		      struct sl_span body)
{
	struct sl_rpc_header h = {
		.version_type = (uint8_t)(SL_RPC_VERSION << 4 | type),
		.flags = SL_RPC_FIRST | SL_RPC_LAST,
		.priority = SL_CLASS_CONTROL,
		.count = (uint16_t)count,
		.fragment_len = (uint32_t)body.len,
		.total_or_offset = (uint32_t)body.len,
		.id = id,
	};
	int rc = l->t->ops->post(l->t, &h, &body, count ? 1 : 0, 0);

	if (rc)
		post_failed(l, rc);
	else
		l->stats.messages_sent++;
	return rc == 0;
}

static bool post_control(struct sl_link *l, enum sl_rpc_type type, uint64_t id)
{
	return post_list(l, type, id, 0, sl_span_of(NULL, 0));
}

static void send_cancels(struct sl_link *l)
{
	struct sl_link_cancels *c;

	while ((c = l->cancels) && post_list(l, SL_RPC_CANCEL, 0, c->cnt,
					     sl_span_of(c->ids, c->cnt * sizeof(c->ids[0]))))
		drop_cancels(l);
}

static void send_control(struct sl_link *l)
{
	if (l->pong_due)
		l->pong_due = !post_control(l, SL_RPC_PONG, l->pong_id);
	l->ping_due |= l->unheard && !l->stats.messages_sent;
	l->unheard = false;
	if (l->ping_due)
		l->ping_due = !post_control(l, SL_RPC_PING, ++l->ping_id);
	send_cancels(l);
	while (l->window_cnt || l->windows_due) {
		if (!l->window_cnt) {
			l->window_cnt = l->ops->grants(l->ctx, l->windows, SL_RPC_MAX_WINDOWS);
			l->windows_due = l->window_cnt == SL_RPC_MAX_WINDOWS;
		}
		if (l->window_cnt &&
		    !post_list(l, SL_RPC_WINDOW, 0, l->window_cnt,
			       sl_span_of(l->windows, l->window_cnt * sizeof(l->windows[0]))))
			break;
		l->window_cnt = 0;
	}
	/* A gateway's GOAWAY follows its last request, a backend's precedes refusals. */
	if (l->away != l->said_away && !(l->away && l->q.cnt && l->takes == SL_RPC_RESPONSE) &&
	    post_control(l, l->away ? SL_RPC_GOAWAY : SL_RPC_READY,
			 l->away == SL_AWAY_UNREADY ? SL_GOAWAY_STAYS : 0))
		l->said_away = l->away;
	if (sl_migrate_may_send(l) && post_control(l, SL_RPC_MIGRATE, 0))
		sl_migrate_sent(l);
}

void sl_link_flush(struct sl_link *l, uint64_t now_ns)
{
	if (sl_unlikely(l->error))
		return;
	l->now_ns = now_ns;
	if (l->pong_due | l->ping_due | l->unheard | (l->away != l->said_away) | l->windows_due |
	    l->move_due | (l->window_cnt != 0) | (l->cancels != NULL))
		send_control(l);
	if (l->q.cnt) {
		pump_queue(l);
		send_cancels(l);
	}
	l->t->ops->flush(l->t);
	if (sl_unlikely(l->second != NULL))
		l->second->ops->flush(l->second);
}

bool sl_link_arm(struct sl_link *l)
{
	const struct sl_tx_port *o = l->out.o;
	bool waits = o->port && !sl_list_empty(&l->out.node);
	bool wants_room = l->q.cnt + l->window_cnt != 0 || l->cancels ||
			  (!sl_list_empty(&o->waiting) && l->out.counted);

	/* No completion of ours will come. */
	if (l->error || (l->cut && l->q.cnt) || (waits && !l->out.posted))
		return false;
	return l->move ? sl_migrate_arm(l, wants_room) : l->t->ops->arm(l->t, wants_room);
}

struct sl_send *sl_link_unsent(struct sl_link *l)
{
	struct sl_list *node = sl_list_pop_head(&l->in_flight);

	if (!node)
		node = sl_list_pop_head(&l->retired_in_flight);
	return node ? sl_container_of(node, struct sl_send, node) : sl_sendq_pop(&l->q);
}
