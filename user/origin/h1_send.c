/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "origin/h1.h"
#include "base/num.h"
#include "origin/scratch.h"

enum { PIECES_MAX = 32 };

struct origin_h1_out {
	uint8_t *p, *end;
	bool full;
};

static void put_span(struct origin_h1_out *o, struct sl_span s)
{
	if ((size_t)(o->end - o->p) < s.len) {
		o->full = true;
		return;
	}
	if (s.len)
		memcpy(o->p, s.ptr, s.len);
	o->p += s.len;
}
#define PUT(o, lit) put_span((o), sl_span_str(lit))

/* Methods without Content-Length if there is no body (RFC 9110 8.6). */
static bool needs_no_length(struct sl_span method)
{
	static const struct sl_span none[] = {SL_SPAN_LIT("GET"), SL_SPAN_LIT("HEAD"),
					      SL_SPAN_LIT("DELETE"), SL_SPAN_LIT("OPTIONS"),
					      SL_SPAN_LIT("TRACE")};

	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		if (sl_span_eq(method, none[i]))
			return true;
	}
	return false;
}

/*
 * Writes Upgrade and Connection (RFC 9110 7.8). Makes a Sec-WebSocket-Key for clients of HTTP/2
 * (RFC 8441 5). Returns false if it cannot.
 */
static bool put_upgrade(struct origin_h1_out *o, struct origin_h1_conn *h,
			const struct origin_request *rq)
{
	char key[ORIGIN_WS_KEY + 1];
	bool keyed = h->call->rq->protocol == SL_PROTO_HTTP1;

	PUT(o, "connection: upgrade\r\nupgrade: ");
	h->upgrade = sl_span_of(o->p, rq->upgrade.len);
	put_span(o, rq->upgrade);
	PUT(o, "\r\n");
	for (uint32_t i = 0; i < rq->cnt; i++)
		keyed |= sl_span_eq(rq->fields[i].name, sl_span_str("sec-websocket-key"));
	if (keyed || !sl_span_eq_nocase(rq->upgrade, sl_span_str("websocket")))
		return true;
	if (!origin_ws_key(key) || !origin_ws_accept(key, h->accept))
		return false;
	PUT(o, "sec-websocket-key: ");
	put_span(o, sl_span_cstr(key));
	PUT(o, "\r\n");
	return true;
}

static void put_framing(struct origin_h1_out *o, struct origin_call *call, bool may_be_none)
{
	const struct sl_request_view *rq = call->rq;
	uint64_t length = call->body.on ? rq->length : rq->body_len;
	char digits[SL_U64_DIGITS];

	if (length == SL_LEN_UNKNOWN) {
		PUT(o, "transfer-encoding: chunked\r\n");
	} else if (length || !may_be_none) {
		PUT(o, "content-length: ");
		put_span(o, sl_span_of(digits, sl_format_u64(digits, length)));
		PUT(o, "\r\n");
	}
	if (rq->expect_continue)
		PUT(o, "expect: 100-continue\r\n");
	if (call->body.on)
		origin_body_begin(call, length == SL_LEN_UNKNOWN ? ORIGIN_CHUNKED : ORIGIN_PLAIN,
				  length);
}

static bool keep_head(struct origin_h1_conn *h, const uint8_t *head, size_t len)
{
	uint32_t size = ((uint32_t)len + 1023) & ~UINT32_C(1023);
	uint8_t *tx = h->tx_size == size ? h->tx : realloc(h->tx, size);

	if (!tx)
		return false;
	h->tx_size = size;
	memcpy(tx, head, len);
	if (h->upgrade.len)
		h->upgrade.ptr = tx + (h->upgrade.ptr - head);
	h->tx = tx;
	h->head_len = (uint32_t)len;
	return true;
}

bool origin_h1_format(struct origin_h1_conn *h, const struct origin_request *rq)
{
	uint8_t *head = h->c.server->origin->scratch->text;
	struct origin_h1_out o = {.p = head, .end = head + ORIGIN_H1_TX};
	const struct origin_call *call = h->call;

	h->upgrade = sl_span_of(NULL, 0);
	h->accept[0] = 0;
	put_span(&o, rq->method);
	PUT(&o, " ");
	put_span(&o, rq->path);
	if (rq->query.ptr) {
		PUT(&o, "?");
		put_span(&o, rq->query);
	}
	PUT(&o, " HTTP/1.1\r\nhost: ");
	put_span(&o, rq->authority);
	PUT(&o, "\r\n");
	for (uint32_t i = 0; i < rq->cnt; i++) {
		put_span(&o, rq->fields[i].name);
		PUT(&o, ": ");
		put_span(&o, rq->fields[i].value);
		PUT(&o, "\r\n");
	}
	if (rq->upgrade.len && call->body.on && sl_span_eq(rq->method, sl_span_str("GET")))
		o.full |= !put_upgrade(&o, h, rq);
	else
		put_framing(&o, h->call, needs_no_length(rq->method));
	PUT(&o, "\r\n");
	return !o.full && keep_head(h, head, (size_t)(o.p - head));
}

static unsigned gather_iov(const struct origin_h1_conn *h, struct iovec iov[1 + PIECES_MAX])
{
	const struct sl_request_view *rq = h->call->rq;
	unsigned n = 0;

	if (h->head_sent < h->head_len)
		iov[n++] = (struct iovec){(uint8_t *)(uintptr_t)h->tx + h->head_sent,
					  h->head_len - h->head_sent};
	if (h->call->body.on)
		return n + origin_body_peek(h->call, iov + n, PIECES_MAX);
	if (h->body_sent < rq->body_len)
		iov[n++] = (struct iovec){(uint8_t *)(uintptr_t)rq->body + h->body_sent,
					  rq->body_len - h->body_sent};
	return n;
}

void origin_h1_wait(struct origin_h1_conn *h)
{
	origin_io_of(&h->c)->wait(&h->c, !h->blocked, h->full);
}

void origin_h1_send(struct origin_h1_conn *h)
{
	struct origin_call *call = h->call;
	const struct origin_io *io = origin_io_of(&h->c);
	struct iovec iov[1 + PIECES_MAX];
	size_t of_head, of_body;
	unsigned cnt;
	ssize_t rc = 0;

	while (!h->tx_failed && (cnt = gather_iov(h, iov)) > 0) {
		rc = io->send(&h->c, iov, cnt);
		if (rc < 0)
			break;
		of_head = h->head_len - h->head_sent;
		of_head = (size_t)rc < of_head ? (size_t)rc : of_head;
		of_body = (size_t)rc - of_head;
		h->head_sent += (uint32_t)of_head;
		if (call->body.on)
			origin_body_skip(call, of_body);
		else
			h->body_sent += of_body;
		call->written = true;
	}
	h->full = rc == -EAGAIN;
	h->tx_failed |= rc < 0 && !h->full;
	if (h->tx_failed)
		origin_body_drop(call);
	h->sent = !h->tx_failed && !h->full && (!call->body.on || call->body.ended);
	if (h->sent && h->upgrade.len && !h->closing)
		h->closing = io->shut(&h->c);
	origin_h1_wait(h);
}
