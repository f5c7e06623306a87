/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/msg_stream.h"

#include <errno.h>
#include <string.h>
#include "base/check.h"

int sl_msg_stream_post(struct sl_transport *t, const struct sl_rpc_header *header,
		       const struct sl_span *spans, unsigned span_cnt, uint32_t room,
		       sl_msg_stream_write *write)
{
	struct sl_rpc_header h = *header;
	uint32_t left = h.fragment_len;

	if (!sl_credits_room(&t->credits, sl_message_kind(header)) || left > t->bulk_max ||
	    left + sizeof(h) > room)
		return -EAGAIN;
	h.consumed = sl_credits_post(&t->credits);
	t->credits.done = t->credits.sent;
	if (!write(t, &h, sizeof(h)))
		return -ENOMEM;
	for (unsigned i = 0; i < span_cnt; i++) {
		uint32_t len = spans[i].len < left ? (uint32_t)spans[i].len : left;

		(void)write(t, spans[i].ptr, len);
		left -= len;
	}
	SL_CHECK(left == 0);
	return 0;
}

void sl_msg_stream_credit(struct sl_transport *t)
{
	static const struct sl_rpc_header credit = {
		.version_type = SL_RPC_VERSION << 4 | SL_RPC_CREDIT,
		.flags = SL_RPC_FIRST | SL_RPC_LAST,
		.priority = SL_CLASS_CONTROL,
	};

	if (sl_credits_due(&t->credits))
		(void)t->ops->post(t, &credit, NULL, 0, 0);
}

int sl_msg_stream_take(struct sl_transport *t, struct sl_msg_stream *s, const uint8_t *rx,
		       uint32_t *head, uint32_t tail, struct sl_message *m)
{
	uint32_t len = tail - *head;

	if (len < sizeof(m->header))
		return SL_MSG_INCOMPLETE;
	memcpy(&m->header, rx + *head, sizeof(m->header));
	if (sl_message_check(&m->header, t->bulk_max))
		return -EPROTO;
	if (len - sizeof(m->header) < m->header.fragment_len)
		return SL_MSG_INCOMPLETE;
	if (sl_credits_ack(&t->credits, m->header.consumed) < 0)
		return -EPROTO;
	m->body = rx + *head + sizeof(m->header);
	m->token = s->rx_next++;
	*head += (uint32_t)sizeof(m->header) + m->header.fragment_len;
	if ((m->header.version_type & 15) != SL_RPC_CREDIT) {
		s->lent++;
		return SL_MSG_LENT;
	}
	if (!s->lent)
		t->credits.consumed = s->rx_next;
	return SL_MSG_CREDIT;
}

void sl_msg_stream_release(struct sl_transport *t, struct sl_msg_stream *s,
			   const struct sl_message *m)
{
	s->lent--;
	t->credits.consumed = s->lent ? m->token + 1 : s->rx_next;
}

unsigned sl_msg_stream_sent(struct sl_transport *t, uint64_t *cookies, unsigned max)
{
	(void)t, (void)cookies, (void)max;
	return 0;
}

void sl_msg_stream_disarm(struct sl_transport *t)
{
	(void)t;
}
