/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/body.h"

#include <stdio.h>
#include <sys/uio.h>

#include "agent/internal.h"
#include "agent/request.h"
#include "front/front.h"
#include "front/grpc/grpc.h"

enum {
	FRAME_MAX = 24,   /* "ffffffff\r\n" and "\r\n", or a gRPC prefix */
	PIECE_MIN = 2000, /* less than a block of 2 KiB with its headers */
};

struct agent_piece {
	struct agent_piece *next;
	uint32_t len, at;
	uint32_t size;
	uint8_t bytes[];
};

static struct sl_capped_alloc *memory_of(const struct agent_call *call)
{
	return &call->server->a->bodies;
}

static void set_flow(struct agent_call *call)
{
	struct agent_body *b = &call->body;
	bool flows = b->begun && b->kept < AGENT_BODY_HIGH;

	if (flows == b->flows || !call->rq)
		return;
	b->flows = flows;
	if (flows)
		sl_stream_resume(call->rq);
	else
		sl_stream_pause(call->rq);
}

void agent_body_init(struct agent_call *call)
{
	call->body = (struct agent_body){.on = true, .end = &call->body.first};
	sl_stream_pause(call->rq);
}

void agent_body_begin(struct agent_call *call, enum agent_framing framing, uint64_t length)
{
	struct agent_body *b = &call->body;

	if (!b->taken) {
		b->framing = (uint8_t)framing;
		b->left = length;
		b->ended |= !length;
	}
	b->begun = true;
	set_flow(call);
}

static void drop_first(struct agent_call *call)
{
	struct agent_body *b = &call->body;
	struct agent_piece *p = b->first;

	b->kept -= p->len - p->at;
	b->first = p->next;
	if (!b->first)
		b->end = &b->first;
	sl_capped_free(memory_of(call), p);
}

void agent_body_once(struct agent_call *call)
{
	struct agent_body *b = &call->body;

	b->once = true;
	while (b->first && b->first != b->out)
		drop_first(call);
}

void agent_body_stop(struct agent_call *call)
{
	struct agent_body *b = &call->body;

	b->begun = false;
	if (!b->once) {
		for (struct agent_piece *p = b->first; p; p = p->next) {
			b->kept += p->at;
			p->at = 0;
		}
		b->out = b->first;
	}
	set_flow(call);
}

/* Returns a piece with room for `most` bytes. */
static struct agent_piece *add_piece(struct agent_call *call, size_t most)
{
	struct agent_body *b = &call->body;
	struct agent_piece *p = sl_container_of(b->end, struct agent_piece, next);

	if (b->first && most <= p->size - p->len)
		return p;
	most = most > PIECE_MIN ? most : PIECE_MIN;
	p = sl_capped_malloc(memory_of(call), sizeof(*p) + most);
	if (!p)
		return NULL;
	*p = (struct agent_piece){.size = (uint32_t)most};
	*b->end = p;
	b->end = &p->next;
	b->taken = true;
	return p;
}

/* Accounts for bytes added to the last piece p, which had `before` bytes. */
static void note_added(struct agent_call *call, struct agent_piece *p, uint32_t before)
{
	struct agent_body *b = &call->body;

	b->kept += p->len - before;
	if (!b->out)
		b->out = p;
	if (b->once)
		return;
	b->total += p->len - before;
	if (b->total > AGENT_BODY_REPEAT)
		agent_body_once(call);
}

static void put_bytes(struct agent_piece *p, const void *bytes, size_t len)
{
	if (len)
		memcpy(p->bytes + p->len, bytes, len);
	p->len += (uint32_t)len;
}

bool agent_body_add(struct agent_call *call, const void *bytes, size_t len, size_t left)
{
	struct agent_body *b = &call->body;
	uint8_t head[FRAME_MAX];
	struct agent_piece *p;
	uint32_t before;

	if (!len && b->framing != AGENT_MESSAGES)
		return true; /* an empty chunk would end the body */
	if (b->ended || len > b->left)
		return false;
	p = add_piece(call, FRAME_MAX + len);
	if (!p)
		return false;
	before = p->len;
	if (b->framing == AGENT_CHUNKED) {
		put_bytes(p, head, (size_t)snprintf((char *)head, sizeof(head), "%zx\r\n", len));
	} else if (b->framing == AGENT_MESSAGES && !b->in_message) {
		put_bytes(p, head, sl_grpc_prefix(head, len + left, call->rq->compressed));
	}
	b->in_message = left;
	put_bytes(p, bytes, len);
	if (b->framing == AGENT_CHUNKED)
		put_bytes(p, "\r\n", 2);
	b->left -= b->left == SL_LEN_UNKNOWN ? 0 : len;
	b->ended = !b->left;
	note_added(call, p, before);
	set_flow(call);
	return true;
}

bool agent_body_end(struct agent_call *call)
{
	struct sl_span rest = sl_span_of(call->rq->trailers, call->rq->trailers_len);
	struct agent_body *b = &call->body;
	struct agent_piece *p;
	struct sl_header h;
	uint32_t before;

	if (b->ended)
		return true;
	if (b->left && b->left != SL_LEN_UNKNOWN)
		return false;
	b->ended = true;
	if (b->framing != AGENT_CHUNKED)
		return true;
	/* Each field is shorter here than in the source list. */
	p = add_piece(call, FRAME_MAX + call->rq->trailers_len);
	if (!p)
		return false;
	before = p->len;
	put_bytes(p, "0\r\n", 3);
	while (agent_trailer_next(&rest, &h)) {
		put_bytes(p, h.name.ptr, h.name.len);
		put_bytes(p, ": ", 2);
		put_bytes(p, h.value.ptr, h.value.len);
		put_bytes(p, "\r\n", 2);
	}
	put_bytes(p, "\r\n", 2);
	note_added(call, p, before);
	return true;
}

unsigned agent_body_peek(const struct agent_call *call, struct iovec *to, unsigned max)
{
	unsigned n = 0;

	for (struct agent_piece *p = call->body.out; p && n < max; p = p->next)
		to[n++] = (struct iovec){p->bytes + p->at, p->len - p->at};
	return n;
}

void agent_body_skip(struct agent_call *call, size_t len)
{
	struct agent_body *b = &call->body;

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
		agent_body_once(call);
	set_flow(call);
}

void agent_body_drop(struct agent_call *call)
{
	call->body.out = NULL;
	call->body.once = true;
	while (call->body.first)
		drop_first(call);
}
