/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/tcpsock/sock.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>

static struct sl_sock *sock_of(struct sl_transport *t)
{
	return (struct sl_sock *)t;
}

static uint32_t tx_room_for(const struct sl_sock *k, enum sl_credit_kind kind)
{
	uint32_t taken = k->plain_len + (kind == SL_CREDIT_DATA ? SK_CONTROL : 0);
	uint32_t room = sk_stream_room(&k->s);

	return room > taken ? room - taken : 0;
}

static bool put_bytes(struct sl_transport *t, const void *bytes, size_t len)
{
	struct sl_sock *k = sock_of(t);
	const uint8_t *from = bytes;

	while (len) {
		bool whole = !k->plain_len && len >= SK_RECORD;
		size_t n = len < SK_RECORD - k->plain_len ? len : SK_RECORD - k->plain_len;

		if (!whole)
			memcpy(k->plain + k->plain_len, from, n);
		k->plain_len += (uint32_t)n;
		if (k->plain_len == SK_RECORD) {
			(void)sk_stream_write(&k->s, whole ? from : k->plain, SK_RECORD);
			k->plain_len = 0;
		}
		from += n;
		len -= n;
	}
	return true;
}

static int sock_post(struct sl_transport *t, const struct sl_rpc_header *header,
		     const struct sl_span *spans, unsigned span_cnt, uint64_t cookie)
{
	struct sl_sock *k = sock_of(t);
	int rc;

	(void)cookie; /* copied or encrypted */
	if (k->s.ended)
		return -ENOTCONN;
	rc = sl_msg_stream_post(t, header, spans, span_cnt, tx_room_for(k, sl_message_kind(header)),
				put_bytes);
	if (!rc)
		t->posted_bytes += (uint32_t)sizeof(*header) + header->fragment_len;
	return rc;
}

static void push_plain(struct sl_sock *k)
{
	if (k->plain_len) {
		(void)sk_stream_write(&k->s, k->plain, k->plain_len);
		k->plain_len = 0;
	}
	sk_stream_push(&k->s);
	k->base.doorbells = k->s.calls;
	k->base.posted_bytes = sk_buf_len(&k->s.out);
}

static void sock_flush(struct sl_transport *t)
{
	sl_msg_stream_credit(t);
	if (t->posted_bytes)
		push_plain(sock_of(t));
}

static void sock_progress(struct sl_transport *t)
{
	if (sock_of(t)->s.writable)
		push_plain(sock_of(t));
}

static uint32_t sock_window(const struct sl_transport *t)
{
	const struct sl_sock *k = (const struct sl_sock *)t;
	uint32_t room = tx_room_for(k, SL_CREDIT_DATA);

	if (!sl_credits_room(&t->credits, SL_CREDIT_DATA) || room <= sizeof(struct sl_rpc_header))
		return 0;
	room -= (uint32_t)sizeof(struct sl_rpc_header);
	return room < t->bulk_max ? room : t->bulk_max;
}

static bool sock_delivered(const struct sl_transport *t)
{
	const struct sl_sock *k = (const struct sl_sock *)t;
	int unacked = 0;

	if (k->s.ended)
		return true;
	return !t->posted_bytes && ioctl(t->fd, SIOCOUTQ, &unacked) == 0 && !unacked;
}

static int fill_rx(struct sl_sock *k)
{
	int n;

	if (!k->msgs.lent && k->rx_head && SK_RX - k->rx_tail < SK_RECORD) {
		memmove(k->rx, k->rx + k->rx_head, k->rx_tail - k->rx_head);
		k->rx_tail -= k->rx_head;
		k->rx_head = 0;
	}
	if (k->rx_tail == SK_RX)
		return 0;
	n = sk_stream_read(&k->s, k->rx + k->rx_tail, SK_RX - k->rx_tail);
	if (n > 0) {
		k->rx_tail += (uint32_t)n;
		return 1;
	}
	k->dry = n == 0 && !sk_stream_may_read(&k->s);
	return n;
}

static int sock_poll(struct sl_transport *t, struct sl_message *msgs, unsigned max)
{
	struct sl_sock *k = sock_of(t);
	unsigned n = 0, looks = SL_MSG_STREAM_LOOKS * max;
	int rc = k->error;

	k->dry = false;
	while (n < max && !rc && looks--) {
		rc = sl_msg_stream_take(t, &k->msgs, k->rx, &k->rx_head, k->rx_tail, &msgs[n]);
		n += rc == SL_MSG_LENT;
		if (rc == SL_MSG_INCOMPLETE) {
			rc = fill_rx(k);
			if (rc == 0)
				break;
		}
		rc = rc < 0 ? rc : 0;
	}
	k->error = rc;
	return n || !rc ? (int)n : rc;
}

static void sock_release(struct sl_transport *t, const struct sl_message *m)
{
	struct sl_sock *k = sock_of(t);

	sl_msg_stream_release(t, &k->msgs, m);
	if (!k->msgs.lent && k->rx_head == k->rx_tail)
		k->rx_head = k->rx_tail = 0;
}

static bool sock_arm(struct sl_transport *t, bool want_room)
{
	const struct sl_sock *k = sock_of(t);

	(void)want_room;
	return k->dry && !k->s.ended && !sk_stream_may_read(&k->s) &&
	       !(t->posted_bytes && k->s.writable);
}

static int sock_check(struct sl_transport *t)
{
	struct sl_sock *k = sock_of(t);

	if (!t->poll_group)
		sk_stream_event(&k->s);
	return k->s.ended ? -ENOTCONN : 0;
}

static void sock_close(struct sl_transport *t)
{
	struct sl_sock *k = sock_of(t);

	sk_poll_group_leave(k);
	sk_stream_close(&k->s);
	free(k->plain);
	free(k->rx);
	free(k);
}

const struct sl_transport_ops sk_ops = {
	.name = "tcp",
	.post = sock_post,
	.flush = sock_flush,
	.poll = sock_poll,
	.release = sock_release,
	.sent = sl_msg_stream_sent,
	.window = sock_window,
	.progress = sock_progress,
	.arm = sock_arm,
	.disarm = sl_msg_stream_disarm,
	.check = sock_check,
	.delivered = sock_delivered,
	.close = sock_close,
	.attach = sk_poll_group_join,
};

void sk_sock_options(int sock)
{
	static const int one = 1, notsent = SK_NOTSENT;

	(void)setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	(void)setsockopt(sock, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &notsent, sizeof(notsent));
}

struct sl_sock *sk_sock_new(struct sk_stream *s, uint32_t slots)
{
	struct sl_sock *k = calloc(1, sizeof(*k));

	if (!k)
		goto fail;
	k->plain = malloc(SK_RECORD);
	k->rx = malloc(SK_RX);
	k->spare = sk_poll_group_new();
	if (!k->plain || !k->rx || !k->spare || sk_stream_grow(s, SK_IN, SK_OUT + SK_RECORD))
		goto free_k;
	k->base.ops = &sk_ops;
	k->base.fd = s->sock;
	k->base.copies = true;
	sl_list_init(&k->base.ready_node);
	k->base.slot_len = SL_RPC_SLOT_SIZE;
	k->base.bulk_max = SK_BULK_MAX;
	k->base.slice_min = SK_SLICE_MIN;
	k->base.rate_bps = SK_RATE_BPS;
	sl_credits_init(&k->base.credits, slots, slots, SK_OUT);
	k->s = *s;
	sk_stream_moved(&k->s);
	return k;
free_k:
	sk_poll_group_free(k->spare);
	free(k->plain);
	free(k->rx);
	free(k);
fail:
	sk_stream_close(s);
	return NULL;
}
