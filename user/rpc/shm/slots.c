/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sys/socket.h>
#include "rpc/shm/shm.h"

enum { INLINE_MAX = SL_RPC_SLOT_SIZE - sizeof(struct sl_rpc_header) };

static struct sl_shm *shm_of(struct sl_transport *t)
{
	return (struct sl_shm *)t;
}

static int shm_post(struct sl_transport *t, const struct sl_rpc_header *header,
		    const struct sl_span *spans, unsigned span_cnt, uint64_t cookie)
{
	struct sl_shm *s = shm_of(t);
	struct sl_credits *c = &t->credits;
	uint32_t len = header->fragment_len, seq = c->sent, at;
	struct sl_shm_slot *slot = (void *)sl_shm_slot_at(s->tx_slots, s->mask, seq);

	(void)cookie; /* copied */
	if (s->gone)
		return -ENOTCONN;
	if (!sl_credits_room(c, sl_message_kind(header)))
		return -EAGAIN;
	if (len <= INLINE_MAX) {
		sl_message_gather(slot->body, len, spans, span_cnt);
	} else {
		if (len > t->bulk_max || len > sl_credits_bulk_room(c))
			return -EAGAIN;
		c->bulk_sent = sl_credits_bulk_place(c->bulk_len, c->bulk_sent, len, &at);
		sl_message_gather(s->tx_bulk + at, len, spans, span_cnt);
	}
	s->posted[seq & s->mask] = (struct sl_shm_posted){c->bulk_sent, len};
	t->posted_bytes += len;
	slot->header = *header;
	slot->header.consumed = sl_credits_post(c);
	atomic_store_explicit(&slot->seq, seq + 1, memory_order_release);
	s->unflushed |= SL_SHM_SLEEP_MESSAGE;
	return 0;
}

static void complete_posts(struct sl_shm *s, uint32_t upto)
{
	struct sl_credits *c = &s->base.credits;

	for (; c->done != upto; c->done++)
		s->base.posted_bytes -= s->posted[c->done & s->mask].body_len;
}

static void shm_progress(struct sl_transport *t)
{
	struct sl_shm *s = shm_of(t);
	uint32_t upto = atomic_load_explicit(&s->peer->consumed, memory_order_acquire);

	/* Ignores forged values: outside of what was posted. */
	if (upto - t->credits.done <= t->credits.sent - t->credits.done)
		complete_posts(s, upto);
}

static int handle_ack(struct sl_shm *s, uint32_t consumed)
{
	struct sl_credits *c = &s->base.credits;
	int64_t fresh = sl_credits_ack(c, consumed);

	if (fresh < 0)
		return -EPROTO;
	if (fresh > 0) {
		c->bulk_acked = s->posted[(consumed - 1) & s->mask].bulk_end;
		if (consumed - c->done <= c->sent - c->done)
			complete_posts(s, consumed);
	}
	return 0;
}

static void consumed_upto(struct sl_shm *s, uint32_t seq)
{
	s->base.credits.consumed = seq;
	s->base.credits.bulk_consumed = s->rx_bulk_end[(seq - 1) & s->mask];
}

static int take_message(struct sl_shm *s, struct sl_message *m)
{
	struct sl_shm_slot *slot = (void *)sl_shm_slot_at(s->rx_slots, s->mask, s->rx_next);
	uint32_t at;
	int rc;

	if (atomic_load_explicit(&slot->seq, memory_order_acquire) != s->rx_next + 1)
		return 0;
	m->header = *(volatile struct sl_rpc_header *)&slot->header;
	rc = sl_message_check(&m->header, s->base.bulk_max);
	if (!rc)
		rc = handle_ack(s, m->header.consumed);
	if (rc)
		return rc;
	m->body = slot->body;
	if (m->header.fragment_len > INLINE_MAX) {
		s->rx_bulk_head = sl_credits_bulk_place(s->base.credits.bulk_len, s->rx_bulk_head,
							m->header.fragment_len, &at);
		m->body = s->rx_bulk + at;
	}
	m->token = s->rx_next;
	s->rx_bulk_end[s->rx_next & s->mask] = s->rx_bulk_head;
	s->rx_next++;
	return 1;
}

static int shm_poll(struct sl_transport *t, struct sl_message *msgs, unsigned max)
{
	struct sl_shm *s = shm_of(t);
	unsigned n = 0, looks = 2 * max;

	/* At most a window, whatever the slots say. */
	while (n < max && looks-- && s->rx_next - t->credits.consumed <= s->mask) {
		int rc = take_message(s, &msgs[n]);

		if (rc < 0 && n == 0)
			return rc;
		if (rc <= 0)
			break;
		if ((msgs[n].header.version_type & 15) != SL_RPC_CREDIT) {
			n++;
			s->lent++;
		} else if (!s->lent) {
			consumed_upto(s, s->rx_next);
		}
	}
	if (n == 0 && s->gone)
		return -ENOTCONN;
	return (int)n;
}

static void publish_posts(struct sl_shm *s)
{
	s->published = s->base.credits.consumed;
	atomic_store_explicit(&s->mine->consumed, s->published, memory_order_release);
	s->unflushed |= SL_SHM_SLEEP_ROOM;
}

static void shm_release(struct sl_transport *t, const struct sl_message *m)
{
	struct sl_shm *s = shm_of(t);

	s->lent--;
	consumed_upto(s, s->lent ? m->token + 1 : s->rx_next);
	/* A sender at its cap waits for long messages; others wait for a flush. */
	if (m->header.fragment_len > INLINE_MAX)
		publish_posts(s);
}

void sl_shm_wake_peer(struct sl_shm *s)
{
	static const uint8_t ding;

	/* The end that clears the bits rings: once per sleep. */
	if (!atomic_exchange_explicit(&s->peer->sleeping, 0, memory_order_acq_rel))
		return;
	s->base.doorbells++;
	/* A full socket rings already. */
	(void)send(s->base.fd, &ding, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void shm_flush(struct sl_transport *t)
{
	struct sl_shm *s = shm_of(t);
	uint32_t news;

	if (sl_credits_due(&t->credits)) {
		struct sl_rpc_header h = {
			.version_type = SL_RPC_VERSION << 4 | SL_RPC_CREDIT,
			.flags = SL_RPC_FIRST | SL_RPC_LAST,
			.priority = SL_CLASS_CONTROL,
		};

		(void)shm_post(&s->base, &h, NULL, 0, 0);
	}
	if (s->published != t->credits.consumed)
		publish_posts(s);
	news = s->unflushed;
	if (!news)
		return;
	s->unflushed = 0;
	/* Pairs with the fence in sl_shm_arm(): one end sees the other's store. */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&s->peer->sleeping, memory_order_relaxed) & news)
		sl_shm_wake_peer(s);
}

static unsigned shm_sent(struct sl_transport *t, uint64_t *cookies, unsigned max)
{
	(void)t, (void)cookies, (void)max;
	return 0;
}

static uint32_t shm_window(const struct sl_transport *t)
{
	return sl_transport_window(t, INLINE_MAX);
}

const struct sl_transport_ops sl_shm_ops = {
	.name = "shm",
	.post = shm_post,
	.flush = shm_flush,
	.poll = shm_poll,
	.release = shm_release,
	.sent = shm_sent,
	.window = shm_window,
	.progress = shm_progress,
	.arm = sl_shm_arm,
	.disarm = sl_shm_disarm,
	.check = sl_shm_check,
	.close = sl_shm_close,
};
