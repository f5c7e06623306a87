/* SPDX-License-Identifier: Apache-2.0 */
/*
 * At most one record and one frame per connection, and an eighth of all frames; then addresses that
 * hold most lose connections, oldest first.
 */
#include <string.h>

#include "front/tls/conn.h"

enum { SHARE = 8, LOOK_AT = 64 };

static struct sl_umem *umem_of(const struct sl_tls_conn *c)
{
	return c->tls->cfg.umem;
}

static uint32_t frames_of(const struct sl_tls_conn *c)
{
	uint32_t n = 0;

	for (const struct sl_frame *f = c->backlog.head; f; f = f->next)
		n++;
	return n;
}

static struct sl_list *heaviest_bucket(struct sl_tls *t, struct sl_tls_conn *but)
{
	uint32_t own = sl_tls_bucket_of(but), most = 0;
	struct sl_list *conns = NULL;

	for (uint32_t i = 0; i < SL_TLS_BUCKETS; i++) {
		uint32_t n = t->holders[i].frames - (i == own ? frames_of(but) : 0);

		if (n <= most)
			continue;
		most = n;
		conns = &t->holders[i].conns;
	}
	return conns;
}

static struct sl_tls_conn *find_holder(struct sl_tls *t, struct sl_tls_conn *but)
{
	const struct sl_list *l, *conns = heaviest_bucket(t, but);
	struct sl_tls_conn *oldest = NULL;
	unsigned n = 0;

	if (!conns)
		return NULL;
	sl_list_for_each (l, conns) {
		struct sl_tls_conn *c = sl_container_of(l, struct sl_tls_conn, holders);

		if (c == but || c->depth)
			continue;
		if (!c->paused)
			return c;
		if (!oldest)
			oldest = c;
		if (++n == LOOK_AT)
			break;
	}
	return oldest;
}

static void count_in(struct sl_tls_conn *c)
{
	struct sl_tls *t = c->tls;
	uint16_t bucket = sl_tls_bucket_of(c);

	t->backlog_frames++;
	t->holders[bucket].frames++;
	if (sl_list_empty(&c->holders))
		sl_list_add_tail(&t->holders[bucket].conns, &c->holders);
}

static void append_frame(struct sl_tls_conn *c, struct sl_frame *f)
{
	struct sl_tls_backlog *h = &c->backlog;
	struct sl_tls *t = c->tls;

	f->next = NULL;
	if (h->tail)
		h->tail->next = f;
	else
		h->head = f;
	h->tail = f;
	h->len += f->len;
	count_in(c);
	while (t->backlog_frames > umem_of(c)->frame_cnt / SHARE) {
		struct sl_tls_conn *old = find_holder(t, c);

		if (!old)
			return;
		sl_tls_break(old, SL_TLS_END_SLOW_RECORD);
	}
}

bool sl_tls_backlog_add_copy(struct sl_tls_conn *c, const uint8_t *bytes, size_t len)
{
	while (len) {
		struct sl_frame *f = c->backlog.tail;
		size_t n = f ? sl_frame_tailroom(umem_of(c), f) : 0;

		if (!n) {
			f = sl_frame_get(umem_of(c), SL_FRAME_HELD, 0);
			if (!f)
				return false;
			append_frame(c, f);
			continue;
		}
		n = n < len ? n : len;
		memcpy(f->data + f->len, bytes, n);
		f->len = (uint16_t)(f->len + n);
		c->backlog.len += (uint32_t)n;
		bytes += n;
		len -= n;
	}
	return true;
}

bool sl_tls_backlog_add(struct sl_tls_conn *c, struct sl_chunk *chunk, size_t at)
{
	struct sl_frame *f = chunk->frame;
	size_t len = chunk->len - at;

	if (!f || (c->backlog.tail && len <= sl_frame_tailroom(umem_of(c), c->backlog.tail)))
		return sl_tls_backlog_add_copy(c, chunk->ptr + at, len);
	f->data += at;
	f->len = (uint16_t)len;
	chunk->frame = NULL;
	append_frame(c, f);
	return true;
}

struct sl_frame *sl_tls_backlog_pop(struct sl_tls_conn *c)
{
	struct sl_frame *f = c->backlog.head;

	c->backlog.head = f->next;
	c->backlog.len -= f->len;
	c->tls->backlog_frames--;
	c->tls->holders[sl_tls_bucket_of(c)].frames--;
	if (!c->backlog.head) {
		c->backlog.tail = NULL;
		sl_list_del(&c->holders);
	}
	return f;
}

void sl_tls_backlog_push(struct sl_tls_conn *c, struct sl_frame *f)
{
	f->next = c->backlog.head;
	c->backlog.head = f;
	if (!f->next)
		c->backlog.tail = f;
	c->backlog.len += f->len;
	count_in(c);
}

void sl_tls_backlog_drop(struct sl_tls_conn *c, size_t len)
{
	struct sl_tls_backlog *h = &c->backlog;

	while (h->head && len >= h->head->len) {
		struct sl_frame *f = sl_tls_backlog_pop(c);

		len -= f->len;
		sl_frame_put(umem_of(c), f);
	}
	if (len && SL_ENSURE(h->head)) {
		h->head->data += len;
		h->head->len = (uint16_t)(h->head->len - len);
		h->len -= (uint32_t)len;
	}
}

void sl_tls_backlog_free(struct sl_tls_conn *c)
{
	sl_tls_backlog_drop(c, c->backlog.len);
	c->backlog = (struct sl_tls_backlog){0};
}

size_t sl_tls_backlog_peek(const struct sl_tls_conn *c, uint8_t *to, size_t max)
{
	size_t done = 0;

	for (const struct sl_frame *f = c->backlog.head; f && done < max; f = f->next) {
		size_t n = f->len < max - done ? f->len : max - done;

		memcpy(to + done, f->data, n);
		done += n;
	}
	return done;
}
