/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "rpc/sendq.h"
#include "rpc/rdma/ud/ud_iface.h"

static struct ud_conn *conn_of(struct sl_transport *t)
{
	return (struct ud_conn *)t;
}

static void mark_busy(struct ud_conn *c)
{
	if (c->iface && sl_list_empty(&c->busy))
		sl_list_add_tail(&c->iface->busy, &c->busy);
}

static void mark_ready(struct ud_conn *c)
{
	c->rx_empty = false;
	if (sl_list_empty(&c->base.ready_node))
		sl_list_add_tail(&c->iface->group.ready, &c->base.ready_node);
}

static void fail_conn(struct ud_conn *c, int error)
{
	if (!c->error)
		c->error = error;
	mark_ready(c);
}

static bool send_datagram(struct ud_conn *c, const struct ud_arq_out *out)
{
	uint8_t *to = rdma_device->tx_buf(c->iface->qp);
	struct sl_ud_header h = out->header;
	uint32_t len = (uint32_t)sizeof(h) + h.len;

	if (!to)
		return false;
	h.to = c->peer_id;
	memcpy(to, &h, sizeof(h));
	if (h.len)
		memcpy(to + sizeof(h), out->bytes, h.len);
	ud_mac_write(&c->keys.out, to, len, out->number);
	rdma_device->send(c->iface->qp, c->ah_entry->ah, c->qpn, len);
	return true;
}

static void send_due(struct ud_conn *c, uint64_t now_ns)
{
	struct ud_arq_out out;

	if (!c->qpn || c->base.port_down)
		return;
	while (rdma_device->tx_buf(c->iface->qp) && ud_arq_next(&c->arq, now_ns, &out))
		(void)send_datagram(c, &out);
	c->base.retransmitted = c->arq.retransmitted;
	c->base.doorbells += c->iface->qp->unflushed;
	if (rdma_device->flush(c->iface->qp))
		c->iface->failed = true;
}

static uint32_t tx_room_for(const struct ud_conn *c, enum sl_credit_kind kind)
{
	uint32_t room = ud_arq_room(&c->arq);
	uint32_t taken = kind == SL_CREDIT_DATA ? UD_CONTROL : 0;

	return room > taken ? room - taken : 0;
}

static bool write_bytes(struct sl_transport *t, const void *bytes, size_t len)
{
	return ud_arq_write(&conn_of(t)->arq, bytes, (uint32_t)len);
}

static int conn_post(struct sl_transport *t, const struct sl_rpc_header *header,
		     const struct sl_span *spans, unsigned span_cnt, uint64_t cookie)
{
	struct ud_conn *c = conn_of(t);
	int rc;

	(void)cookie; /* copied */
	if (c->error || !c->iface)
		return c->error ? c->error : -ENOTCONN;
	if (t->port_down)
		return -EAGAIN;
	rc = sl_msg_stream_post(t, header, spans, span_cnt, tx_room_for(c, sl_message_kind(header)),
				write_bytes);
	if (rc == -ENOMEM) {
		fail_conn(c, rc);
		return -ENOTCONN;
	}
	t->posted_bytes = c->arq.bytes;
	if (!rc)
		mark_busy(c);
	return rc;
}

static void conn_flush(struct sl_transport *t)
{
	struct ud_conn *c = conn_of(t);

	sl_msg_stream_credit(t);
	ud_arq_push(&c->arq);
	t->posted_bytes = c->arq.bytes;
	if (!sl_list_empty(&c->busy))
		send_due(c, sl_now_ns());
}

static void conn_progress(struct sl_transport *t)
{
	t->posted_bytes = conn_of(t)->arq.bytes;
}

static uint32_t conn_window(const struct sl_transport *t)
{
	uint32_t room = tx_room_for((const struct ud_conn *)t, SL_CREDIT_DATA);

	if (t->port_down || !sl_credits_room(&t->credits, SL_CREDIT_DATA) ||
	    room <= sizeof(struct sl_rpc_header))
		return 0;
	room -= (uint32_t)sizeof(struct sl_rpc_header);
	/* The last part of the buffer is left to small messages, which may be urgent. */
	if (room < UD_SMALL + SL_SENDQ_SLICE_MIN)
		return sl_rpc_at_most(room, t->slot_len - (uint32_t)sizeof(struct sl_rpc_header));
	return sl_rpc_at_most(room - UD_SMALL, t->bulk_max);
}

static bool conn_delivered(const struct sl_transport *t)
{
	const struct ud_conn *c = (const struct ud_conn *)t;

	return c->error || ud_arq_idle(&c->arq);
}

static void note_silence(struct ud_conn *c)
{
	bool owes = c->arq.una != c->arq.sent && !c->base.port_down;

	c->base.silent_ns = owes ? c->arq.heard_ns : 0;
}

void ud_conn_receive(struct ud_conn *c, const struct ud_packet *p, uint64_t now_ns)
{
	uint64_t base = c->arq.base, ooo_bits = c->arq.ooo_bits;
	struct sl_ud_header h;
	int rc;

	if (c->error)
		return;
	memcpy(&h, p->bytes, sizeof(h));
	rc = ud_arq_input(&c->arq, &h, p->bytes + sizeof(h), now_ns);
	/*
	 * Learns the peer's QP from new data only: a replayed datagram must not redirect the
	 * answers.
	 */
	if (!c->qpn || c->arq.base != base || c->arq.ooo_bits != ooo_bits)
		c->qpn = p->qpn;
	c->base.duplicates = c->arq.duplicates;
	note_silence(c);
	if (rc)
		fail_conn(c, rc);
	mark_busy(c);
	mark_ready(c);
}

void ud_conn_set_port_down(struct ud_conn *c, bool held, uint64_t now_ns)
{
	c->base.port_down = held;
	if (!held) {
		ud_arq_resume(&c->arq, now_ns);
		mark_busy(c);
	}
	note_silence(c);
	mark_ready(c);
}

bool ud_conn_tick(struct ud_conn *c, uint64_t now_ns)
{
	int rc;

	if (c->qpn && c->base.port_down)
		return false;
	c->arq.silence_ns = c->base.peer_busy ? UD_DEAD_AFTER_NS : UD_SILENCE_NS;
	rc = ud_arq_tick(&c->arq, now_ns);
	note_silence(c);
	if (!c->qpn && now_ns >= c->created_ns + UD_CONFIRM_NS)
		rc = -ETIMEDOUT;
	if (rc)
		fail_conn(c, rc);
	if (c->error)
		return false;
	send_due(c, now_ns);
	return !c->qpn || !ud_arq_idle(&c->arq) || ud_arq_next_ns(&c->arq) != UINT64_MAX;
}

void ud_conn_fail(struct ud_conn *c)
{
	fail_conn(c, -ENOTCONN);
}

static void deliver_rx(struct ud_conn *c)
{
	uint64_t before = c->arq.base;

	ud_arq_deliver(&c->arq);
	if (c->arq.base == before)
		return;
	c->rx_empty = false;
	mark_busy(c);
}

static int conn_error(const struct ud_conn *c)
{
	if (c->error)
		return c->error;
	return c->arq.bye || (c->iface && c->iface->failed) ? -ENOTCONN : 0;
}

static int conn_poll(struct sl_transport *t, struct sl_message *msgs, unsigned max)
{
	struct ud_conn *c = conn_of(t);
	unsigned n = 0, looks = SL_MSG_STREAM_LOOKS * max;
	int rc = SL_MSG_CREDIT;

	deliver_rx(c);
	while (n < max && rc > 0 && looks--) {
		rc = sl_msg_stream_take(t, &c->msgs, c->arq.rx, &c->arq.rx_head, c->arq.rx_tail,
					&msgs[n]);
		n += rc == SL_MSG_LENT;
	}
	c->arq.lent = c->msgs.lent != 0;
	if (!c->arq.lent)
		ud_arq_trim(&c->arq);
	c->rx_empty = rc == SL_MSG_INCOMPLETE;
	if (rc < 0 && !c->error)
		c->error = rc;
	return n ? (int)n : conn_error(c);
}

static void conn_release(struct sl_transport *t, const struct sl_message *m)
{
	struct ud_conn *c = conn_of(t);

	sl_msg_stream_release(t, &c->msgs, m);
	c->arq.lent = c->msgs.lent != 0;
	if (!c->arq.lent)
		deliver_rx(c);
}

static bool conn_arm(struct sl_transport *t, bool want_room)
{
	const struct ud_conn *c = conn_of(t);

	(void)want_room; /* freed room marks it ready, too */
	return c->rx_empty && !conn_error(c);
}

static int conn_check(struct sl_transport *t)
{
	return conn_error(conn_of(t));
}

static int conn_attach(struct sl_transport *t, const void *owner)
{
	struct ud_conn *c = conn_of(t);
	struct ud_iface *h;
	int rc;

	if (c->iface)
		return 0;
	h = ud_iface_get(&c->ah_entry->local, owner, c->worker);
	rc = h ? ud_conn_attach_iface(c, h) : -EUSERS;
	/* The peer learns our QP from the first data, or from this acknowledgement. */
	if (!rc)
		c->arq.ack_ns = sl_now_ns() + UD_ACK_DELAY_NS;
	return rc;
}

int ud_conn_attach_iface(struct ud_conn *c, struct ud_iface *h)
{
	if (h->qp->mtu < sizeof(struct sl_ud_header) + c->arq.payload)
		return -EMSGSIZE;
	if (ud_iface_add_conn(h, c))
		return -ENOMEM;
	c->iface = h;
	c->arq.mem = &h->mem;
	c->base.port_down = h->down;
	h->refs++;
	c->base.poll_group = &h->group;
	mark_busy(c);
	return 0;
}

static void leave_iface(struct ud_conn *c)
{
	struct ud_iface *h = c->iface;
	struct ud_arq_out out;

	if (c->qpn && !h->failed) {
		ud_arq_ack(&c->arq, SL_UD_BYE, &out);
		(void)send_datagram(c, &out);
		(void)rdma_device->flush(h->qp);
	}
	ud_iface_remove_conn(h, c);
	sl_list_del(&c->busy);
	sl_list_del(&c->base.ready_node);
	ud_arq_fini(&c->arq);
	ud_iface_put(h);
}

static void conn_close(struct sl_transport *t)
{
	struct ud_conn *c = conn_of(t);

	if (c->iface)
		leave_iface(c);
	ah_cache_put(c->ah_entry);
	ud_id_put(c->id);
	free(c);
}

static const struct sl_transport_ops conn_ops = {
	.name = "ud",
	.post = conn_post,
	.flush = conn_flush,
	.poll = conn_poll,
	.release = conn_release,
	.sent = sl_msg_stream_sent,
	.window = conn_window,
	.progress = conn_progress,
	.arm = conn_arm,
	.disarm = sl_msg_stream_disarm,
	.check = conn_check,
	.delivered = conn_delivered,
	.close = conn_close,
	.attach = conn_attach,
};

struct ud_conn *ud_conn_new(const struct ud_conn_params *terms, const struct ud_keys *keys,
			    struct ah_entry *n)
{
	struct ud_conn *c = calloc(1, sizeof(*c));

	if (!c || ud_arq_init(&c->arq, terms->mtu)) {
		free(c);
		return NULL;
	}
	c->base.ops = &conn_ops;
	c->base.fd = -1;
	c->base.copies = true;
	c->base.slot_len = SL_RPC_SLOT_SIZE;
	c->base.bulk_max = UD_BULK_MAX;
	c->base.slice_min = UD_SLICE_MIN;
	c->base.rate_bps = UD_RATE_BPS;
	c->base.peer_epoch = terms->peer_epoch;
	c->base.peer_worker = terms->peer_worker;
	c->base.link = terms->link;
	c->base.resumes = terms->resumes;
	c->base.number = terms->id;
	sl_credits_init(&c->base.credits, terms->slots, terms->slots, UD_TX_BYTES);
	sl_list_init(&c->base.ready_node);
	sl_list_init(&c->busy);
	c->keys = *keys;
	c->ah_entry = n;
	c->id = terms->id;
	c->peer_id = terms->peer_id;
	c->worker = terms->worker;
	c->qpn = terms->qpn;
	c->created_ns = sl_now_ns();
	return c;
}
