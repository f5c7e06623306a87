/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   HELLO --complete records--> AWAY --MORE--> HELLO ...
 *                              '---DONE--> OPEN     '---FAILED--> CLOSED
 *
 * Overload: a new handshake evicts the oldest that waits for its client for over GRACE_MS. The
 * queue's last quarter is for tickets or later steps. Threads prefer addresses
 * with few.
 */
#include <openssl/crypto.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "front/tls/conn.h"

enum {
	GRACE_MS = 1000,
	MANY = SL_TLS_HANDSHAKES / 4,
	SHARE = SL_TLS_HANDSHAKES / 32, /* per bucket, when there are MANY */
	LAST = SL_TLS_HANDSHAKES / 8,   /* for buckets without one */
	FEW = 16,                       /* typical of a browser at start */
	HEAD_MAX = 16 << 10,
};

uint16_t sl_tls_bucket_of(struct sl_tls_conn *c)
{
	struct sl_conn_info in;
	uint64_t words[2];

	if (c->bucket)
		return c->bucket - 1;
	c->filter.below.ops->info(c->filter.below.self, &in);
	words[0] = in.peer.family == 4 ? sl_get_be32(in.peer.addr) : sl_get_be64(in.peer.addr);
	words[1] = in.peer.family;
	c->bucket = 1 + sl_siphash13_words(&c->tls->key, words, 2) % SL_TLS_BUCKETS;
	return c->bucket - 1;
}

static void put_hs(struct sl_tls *t, struct sl_tls_hs *hs)
{
	sl_tls_hs_end(hs);
	OPENSSL_cleanse(hs->in, hs->in_len);
	t->shares[hs->bucket]--;
	sl_mempool_put(&t->hs, hs);
	t->stats.handshakes--;
}

static bool submit_handshake(struct sl_tls *t, struct sl_tls_hs *hs)
{
	hs->queued_ns = *t->cfg.now_ns;
	hs->away = true;
	if (t->cfg.submit(t->cfg.arg, hs)) {
		t->queued++;
		return true;
	}
	hs->away = false;
	return false;
}

static void end_hs(struct sl_tls *t, struct sl_tls_hs *hs)
{
	hs->step = SL_TLS_LEFT;
	hs->conn = NULL;
	if (!hs->ssl || !submit_handshake(t, hs))
		put_hs(t, hs);
}

void sl_tls_hs_leave(struct sl_tls_conn *c)
{
	struct sl_tls_hs *hs = c->hs;

	c->hs = NULL;
	if (!hs)
		return;
	hs->conn = NULL;
	if (hs->away) {
		atomic_store_explicit(&hs->gone, true, memory_order_relaxed);
		return; /* freed on return */
	}
	sl_list_del(&hs->link);
	end_hs(c->tls, hs);
}

static struct sl_tls_hs *new_hs(struct sl_tls_conn *c)
{
	struct sl_tls *t = c->tls;
	uint16_t bucket = sl_tls_bucket_of(c);
	uint32_t all = t->stats.handshakes, share = t->shares[bucket];
	struct sl_tls_hs *hs;

	if (all >= MANY && share && (share >= SHARE || all >= SL_TLS_HANDSHAKES - LAST))
		return NULL;
	hs = sl_mempool_get(&t->hs);
	if (!hs) {
		struct sl_tls_hs *old = sl_list_first(&t->waiting, struct sl_tls_hs, link);

		if (old && *t->cfg.now_ns - old->queued_ns > GRACE_MS * SL_NS_PER_MS)
			sl_tls_break(old->conn, SL_TLS_END_GONE);
		hs = sl_mempool_get(&t->hs);
	}
	if (!hs)
		return NULL;
	memset(hs, 0, offsetof(struct sl_tls_hs, in));
	hs->conn = c;
	hs->out = hs->here;
	hs->server = sl_tls_server_get(c->server);
	hs->bucket = bucket;
	hs->few = ++t->shares[bucket] <= FEW;
	sl_list_init(&hs->link);
	t->stats.handshakes++;
	return hs;
}

static size_t whole_records(const struct sl_tls_hs *hs, size_t len)
{
	size_t at = 0;

	while (len - at >= SL_TLS_HEAD) {
		size_t next = at + SL_TLS_HEAD + ((size_t)hs->in[at + 3] << 8 | hs->in[at + 4]);

		if (next > len)
			break;
		at = next;
	}
	return at;
}

static bool begins_well(struct sl_tls_conn *c)
{
	static const char plain[] = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n"
				    "Content-Length: 37\r\nConnection: close\r\n\r\n"
				    "this port speaks https, and not http\n";
	uint8_t head[SL_TLS_HEAD];
	size_t n = sl_tls_backlog_peek(c, head, sizeof(head)), body;

	if (!c->hs && n && head[0] >= 'A' && head[0] <= 'Z') {
		c->filter.below.ops->write_head(c->filter.below.self, plain, sizeof(plain) - 1);
		sl_tls_end(c, SL_TLS_END_PLAIN);
		return false;
	}
	if (n &&
	    (c->hs ? head[0] < SL_TLS_CCS || head[0] > SL_TLS_DATA : head[0] != SL_TLS_HANDSHAKE)) {
		sl_tls_fail(c, SL_TLS_END_UNEXPECTED);
		return false;
	}
	if (n < SL_TLS_HEAD)
		return false;
	body = (size_t)head[3] << 8 | head[4];
	if (body > SL_TLS_CIPHER_MAX) {
		sl_tls_fail(c, SL_TLS_END_OVERFLOW);
		return false;
	}
	return c->backlog.len >= SL_TLS_HEAD + body;
}

void sl_tls_hello(struct sl_tls_conn *c)
{
	struct sl_tls *t = c->tls;
	struct sl_tls_hs *hs;
	uint32_t places = SL_TLS_QUEUE;
	uint8_t name[16];

	if (!begins_well(c))
		return;
	if (!c->hs)
		c->hs = new_hs(c);
	hs = c->hs;
	if (!hs) {
		sl_tls_shed(c);
		return;
	}
	hs->in_len = (uint32_t)whole_records(hs, sl_tls_backlog_peek(c, hs->in, sizeof(hs->in)));
	if (!hs->begun)
		hs->ticket = sl_tls_hello_ticket(sl_span_of(hs->in, hs->in_len), name);
	sl_list_del(&hs->link);
	c->state = SL_TLS_AWAY;
	if (!hs->begun && !hs->ticket && t->shares[hs->bucket] != 1)
		places = SL_TLS_QUEUE / 4 * 3;
	if (t->queued >= places || !submit_handshake(t, hs))
		sl_tls_shed(c);
}

static bool keep_who(struct sl_tls_conn *c, const struct sl_tls_hs *hs)
{
	struct sl_tls_identity *w;

	c->sni_len = (uint8_t)hs->sni_len;
	if (hs->sni_len <= SL_TLS_NAME_INLINE)
		memcpy(c->sni, hs->sni, hs->sni_len);
	if (hs->sni_len <= SL_TLS_NAME_INLINE && !hs->subject_len && !hs->san_len)
		return true;
	w = c->identity = sl_mempool_get(&c->tls->identity);
	if (!w)
		return false;
	w->subject_len = hs->subject_len;
	w->san_len = hs->san_len;
	memcpy(w->sni, hs->sni, hs->sni_len);
	memcpy(w->subject, hs->subject, hs->subject_len);
	memcpy(w->san, hs->san, hs->san_len);
	return true;
}

static void open_conn(struct sl_tls_conn *c, struct sl_tls_hs *hs)
{
	struct sl_tls *t = c->tls;

	if (hs->resumed)
		t->stats.resumed++;
	else
		t->stats.full++;
	c->rx = hs->rx;
	c->tx = hs->tx;
	c->resumed = hs->resumed;
	c->alpn = hs->alpn;
	c->piece_max = hs->piece_max;
	if (!keep_who(c, hs)) {
		sl_tls_break(c, SL_TLS_END_NO_MEMORY);
		return;
	}
	c->cert = hs->cert;
	hs->cert = NULL;
	hs->conn = NULL;
	sl_tls_server_put(c->server);
	c->server = NULL;
	c->state = SL_TLS_OPEN;
	put_hs(t, hs);
	sl_tls_enter(c);
	c->filter.up->opened(c->filter.user);
	if (!sl_tls_leave(c))
		return;
	sl_tls_enter(c);
	sl_tls_pump(c);
	if (sl_tls_leave(c))
		sl_tls_go_on(c);
}

static void take_result(struct sl_tls_conn *c, struct sl_tls_hs *hs)
{
	struct sl_tls *t = c->tls;

	c->state = SL_TLS_HELLO;
	sl_tls_backlog_drop(c, hs->in_used);
	if (hs->step == SL_TLS_DONE) {
		open_conn(c, hs);
		return;
	}
	if (hs->too_large) {
		SL_LOG_EVERY(SL_NS_PER_SEC, SL_LOG_WARN,
			     "tls: a client's certificates were refused: found more than %d bytes; "
			     "allowed: %d",
			     SL_TLS_CLIENT_CERT_MAX, SL_TLS_CLIENT_CERT_MAX);
		sl_tls_end(c, SL_TLS_END_TOO_LARGE);
		return;
	}
	if (hs->step != SL_TLS_MORE) {
		sl_tls_end(c, hs->peer_alert ? SL_TLS_END_PEER : sl_tls_end_of(hs->alert));
		return;
	}
	hs->begun = true;
	hs->queued_ns = *t->cfg.now_ns;
	sl_list_add_tail(&t->waiting, &hs->link);
	sl_tls_enter(c);
	if (c->backlog.len)
		sl_tls_hello(c);
	if (sl_tls_leave(c))
		sl_tls_go_on(c);
}

/* The transport may not take a long flight at once. */
void sl_tls_hs_send(struct sl_tls_conn *c)
{
	const struct sl_conn *below = &c->filter.below;
	struct sl_tls_hs *hs = c->hs;

	while (hs->out_sent < hs->out_len) {
		size_t left = hs->out_len - hs->out_sent, n;

		if (left <= HEAD_MAX &&
		    below->ops->write_head(below->self, hs->out + hs->out_sent, left))
			break;
		n = below->ops->write(below->self, hs->out + hs->out_sent, left);
		if (!n)
			return;
		hs->out_sent += (uint32_t)n;
	}
	hs->out_sent = hs->out_len;
	take_result(c, hs);
}

void sl_tls_result(struct sl_tls *t, struct sl_tls_hs *hs)
{
	struct sl_tls_conn *c = hs->conn;

	t->queued--;
	hs->away = false;
	if (hs->step != SL_TLS_LEFT) { /* otherwise waited_ns is of the previous step */
		t->stats.steps++;
		t->stats.waited_ns += hs->waited_ns;
	}
	if (!c) {
		end_hs(t, hs);
		return;
	}
	sl_tls_hs_send(c);
}
