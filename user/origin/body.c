/* SPDX-License-Identifier: Apache-2.0 */
#include "origin/body.h"

#include <stdio.h>
#include <sys/uio.h>

#include "origin/origin.h"
#include "front/front.h"
#include "front/grpc/grpc.h"

enum {
	FRAME_MAX = 24,   /* "ffffffff\r\n" and "\r\n", or a gRPC prefix */
	PIECE_MIN = 2000, /* with its headers less than a block of 2 KiB */
};

struct origin_piece {
	struct origin_piece *next;
	uint32_t len, at;
	uint32_t size;
	uint8_t bytes[];
};

static struct sl_capped_alloc *memory_of(const struct origin_call *call)
{
	return &call->server->origin->bodies;
}

static void set_flow(struct origin_call *call)
{
	struct origin_body *b = &call->body;
	bool flows = b->begun && b->kept < ORIGIN_BODY_HIGH;

	if (flows == b->flows || !call->rq)
		return;
	b->flows = flows;
	origin_ops_of(call)->flow(call, flows);
}

void origin_body_init(struct origin_call *call)
{
	call->body = (struct origin_body){.on = true, .end = &call->body.first};
	origin_ops_of(call)->flow(call, false);
}

void origin_body_begin(struct origin_call *call, enum origin_framing framing, uint64_t length)
{
	struct origin_body *b = &call->body;

	if (!b->taken) {
		b->framing = (uint8_t)framing;
		b->left = length;
		b->ended |= !length;
	}
	b->begun = true;
	set_flow(call);
}

static void drop_first(struct origin_call *call)
{
	struct origin_body *b = &call->body;
	struct origin_piece *p = b->first;

	b->kept -= p->len - p->at;
	b->first = p->next;
	if (!b->first)
		b->end = &b->first;
	sl_capped_free(memory_of(call), p);
}

void origin_body_once(struct origin_call *call)
{
	struct origin_body *b = &call->body;

	b->once = true;
	while (b->first && b->first != b->out)
		drop_first(call);
}

void origin_body_stop(struct origin_call *call)
{
	struct origin_body *b = &call->body;

	b->begun = false;
	if (!b->once) {
		for (struct origin_piece *p = b->first; p; p = p->next) {
			b->kept += p->at;
			p->at = 0;
		}
		b->out = b->first;
	}
	set_flow(call);
}

static struct origin_piece *add_piece(struct origin_call *call, size_t most)
{
	struct origin_body *b = &call->body;
	struct origin_piece *p = sl_container_of(b->end, struct origin_piece, next);

	if (b->first && most <= p->size - p->len)
		return p;
	most = most > PIECE_MIN ? most : PIECE_MIN;
	p = sl_capped_malloc(memory_of(call), sizeof(*p) + most);
	if (!p)
		return NULL;
	*p = (struct origin_piece){.size = (uint32_t)most};
	*b->end = p;
	b->end = &p->next;
	b->taken = true;
	return p;
}

static void note_added(struct origin_call *call, struct origin_piece *p, uint32_t before)
{
	struct origin_body *b = &call->body;

	b->kept += p->len - before;
	if (!b->out)
		b->out = p;
	if (b->once)
		return;
	b->total += p->len - before;
	if (b->total > ORIGIN_BODY_REPEAT)
		origin_body_once(call);
}

static void put_bytes(struct origin_piece *p, const void *bytes, size_t len)
{
	if (len)
		memcpy(p->bytes + p->len, bytes, len);
	p->len += (uint32_t)len;
}

bool origin_body_add(struct origin_call *call, const void *bytes, size_t len, size_t left)
{
	struct origin_body *b = &call->body;
	uint8_t head[FRAME_MAX];
	struct origin_piece *p;
	uint32_t before;

	if (!len && b->framing != ORIGIN_MESSAGES)
		return true; /* an empty chunk would end the body */
	if (b->ended || len > b->left)
		return false;
	p = add_piece(call, FRAME_MAX + len);
	if (!p)
		return false;
	before = p->len;
	if (b->framing == ORIGIN_CHUNKED) {
		put_bytes(p, head, (size_t)snprintf((char *)head, sizeof(head), "%zx\r\n", len));
	} else if (b->framing == ORIGIN_MESSAGES && !b->in_message) {
		put_bytes(p, head, sl_grpc_prefix(head, len + left, call->rq->compressed));
	}
	b->in_message = left;
	put_bytes(p, bytes, len);
	if (b->framing == ORIGIN_CHUNKED)
		put_bytes(p, "\r\n", 2);
	b->left -= b->left == SL_LEN_UNKNOWN ? 0 : len;
	b->ended = !b->left;
	note_added(call, p, before);
	set_flow(call);
	return true;
}

bool origin_body_end(struct origin_call *call)
{
	struct sl_span rest = sl_span_of(call->rq->trailers, call->rq->trailers_len);
	struct origin_body *b = &call->body;
	struct origin_piece *p;
	struct sl_header h;
	uint32_t before;

	if (b->ended)
		return true;
	if (b->left && b->left != SL_LEN_UNKNOWN)
		return false;
	b->ended = true;
	if (b->framing != ORIGIN_CHUNKED)
		return true;
	p = add_piece(call, FRAME_MAX + call->rq->trailers_len);
	if (!p)
		return false;
	before = p->len;
	put_bytes(p, "0\r\n", 3);
	while (origin_trailer_next(&rest, &h)) {
		put_bytes(p, h.name.ptr, h.name.len);
		put_bytes(p, ": ", 2);
		put_bytes(p, h.value.ptr, h.value.len);
		put_bytes(p, "\r\n", 2);
	}
	put_bytes(p, "\r\n", 2);
	note_added(call, p, before);
	return true;
}

unsigned origin_body_peek(const struct origin_call *call, struct iovec *to, unsigned max)
{
	unsigned n = 0;

	for (struct origin_piece *p = call->body.out; p && n < max; p = p->next)
		to[n++] = (struct iovec){p->bytes + p->at, p->len - p->at};
	return n;
}

void origin_body_skip(struct origin_call *call, size_t len)
{
	struct origin_body *b = &call->body;

	while (b->out && len) {
		uint32_t left = b->out->len - b->out->at;
		uint32_t n = len < left ? (uint32_t)len : left;

		b->out->at += n;
		b->kept -= n;
		len -= n;
		if (n == left)
			b->out = b->out->next;
	}
	if (b->once)
		origin_body_once(call);
	set_flow(call);
}

void origin_body_drop(struct origin_call *call)
{
	call->body.out = NULL;
	call->body.once = true;
	while (call->body.first)
		drop_first(call);
}
