/* SPDX-License-Identifier: Apache-2.0 */
/* Well-filled frames are taken over, others copied together. */
#include "core/exchange.h"

#include <string.h>

#include "base/check.h"

enum {
	STORE_TAKE_MIN = 1024,
};

static void store_link(struct sl_store *s, struct sl_frame *f)
{
	f->next = NULL;
	if (s->tail)
		s->tail->next = f;
	else
		s->head = f;
	s->tail = f;
	s->frames++;
}

size_t sl_store_copy(struct sl_store *s, struct sl_umem *u, const void *bytes, size_t len)
{
	const uint8_t *p = bytes;
	size_t left = len;

	while (left) {
		size_t room = s->tail ? sl_frame_tailroom(u, s->tail) : 0;
		size_t n;

		if (!room) {
			struct sl_frame *f =
				sl_umem_low(u) ? NULL : sl_frame_get(u, SL_FRAME_HELD, 0);

			if (!f)
				break;
			store_link(s, f);
			room = sl_frame_tailroom(u, f);
		}
		n = left < room ? left : room;
		memcpy(s->tail->data + s->tail->len, p, n);
		s->tail->len = (uint16_t)(s->tail->len + n);
		p += n;
		left -= n;
	}
	s->len += len - left;
	return len - left;
}

size_t sl_store_append(struct sl_store *s, struct sl_umem *u, struct sl_chunk *chunk)
{
	struct sl_frame *f = chunk->frame;

	/* Taking over wastes the rest of the frame: only while frames are plentiful. */
	if (!f || chunk->len < STORE_TAKE_MIN || u->free_cnt <= u->frame_cnt / 2)
		return sl_store_copy(s, u, chunk->ptr, chunk->len);
	if (f->state != SL_FRAME_HELD)
		sl_frame_to(u, f, SL_FRAME_HELD);
	f->data = (uint8_t *)chunk->ptr;
	f->len = (uint16_t)chunk->len;
	store_link(s, f);
	s->len += chunk->len;
	chunk->frame = NULL;
	return chunk->len;
}

struct sl_span sl_store_span(const struct sl_store *s, size_t off)
{
	off += s->off;
	for (const struct sl_frame *f = s->head; f; f = f->next) {
		if (off < f->len)
			return sl_span_of(f->data + off, f->len - off);
		off -= f->len;
	}
	return sl_span_of(NULL, 0);
}

void sl_store_read(const struct sl_store *s, void *to, size_t len)
{
	uint8_t *p = to;

	for (size_t off = 0; off < len;) {
		struct sl_span part = sl_span_first(sl_store_at(s, off), len - off);

		SL_CHECK(part.len);
		if (!part.ptr)
			return;
		memcpy(p + off, part.ptr, part.len);
		off += part.len;
	}
}

void sl_store_skip(struct sl_store *s, struct sl_umem *u, size_t len)
{
	while (len && s->head) {
		struct sl_frame *f = s->head;
		size_t n = (size_t)f->len - s->off;

		if (len < n) {
			s->off += (uint32_t)len;
			s->len -= len;
			return;
		}
		s->head = f->next;
		if (!s->head)
			s->tail = NULL;
		s->off = 0;
		s->len -= n;
		s->frames--;
		len -= n;
		sl_frame_put(u, f);
	}
}

void sl_store_splice(struct sl_store *s, struct sl_store *from)
{
	if (!from->head)
		return;
	/* Only the first frame of a store may have taken bytes. */
	from->head->data += from->off;
	from->head->len = (uint16_t)(from->head->len - from->off);
	if (s->tail)
		s->tail->next = from->head;
	else
		s->head = from->head;
	s->tail = from->tail;
	s->len += from->len;
	s->frames += from->frames;
	*from = (struct sl_store){0};
}
