/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "front/tls/conn.h"

enum {
	PIECES_MAX = 64,
	CONTROL_MAX = 64,
	KEY_UPDATE = 24,
	CLOSE_NOTIFY = 0,
	USER_CANCELED = 90,
};

static bool note_quiet_record(struct sl_tls_conn *c)
{
	if (++c->quiet <= SL_TLS_QUIET_MAX)
		return true;
	sl_tls_fail(c, SL_TLS_END_UNEXPECTED);
	return false;
}

/* RFC 8446 5.1, 5.4 */
static bool take_alert(struct sl_tls_conn *c, const uint8_t *bytes, size_t len)
{
	if (len != 2) {
		sl_tls_fail(c, len ? SL_TLS_END_DECODE : SL_TLS_END_UNEXPECTED);
		return false;
	}
	if (bytes[1] == USER_CANCELED)
		return note_quiet_record(c);
	if (bytes[1] != CLOSE_NOTIFY) {
		sl_tls_break(c, SL_TLS_END_PEER);
		return false;
	}
	c->eof = true;
	sl_tls_backlog_free(c);
	sl_tls_enter(c);
	c->filter.up->eof(c->filter.user);
	sl_tls_leave(c);
	return false;
}

/* RFC 8446 4.6.3. CNT: valid so far. */
static enum sl_tls_end find_mistake(const uint8_t *message, size_t len)
{
	static const uint8_t length[] = {0, 0, 1};
	size_t n = len < 4 ? len : 4;

	if (message[0] != KEY_UPDATE)
		return SL_TLS_END_UNEXPECTED;
	if (memcmp(message + 1, length, n - 1) != 0)
		return SL_TLS_END_DECODE;
	if (len > SL_TLS_KEY_UPDATE_LEN) /* the next message would need the next key */
		return SL_TLS_END_UNEXPECTED;
	if (len == SL_TLS_KEY_UPDATE_LEN && message[4] > 1)
		return SL_TLS_END_ILLEGAL;
	return SL_TLS_END_CNT;
}

/* A KeyUpdate costs as much as hundreds of records: limited. */
static bool take_update(struct sl_tls_conn *c)
{
	if (!note_quiet_record(c))
		return false;
	if (c->update_credit < SL_TLS_UPDATE_COST) {
		sl_tls_fail(c, SL_TLS_END_UNEXPECTED);
		return false;
	}
	c->update_credit = (uint16_t)(c->update_credit - SL_TLS_UPDATE_COST);
	c->tls->stats.key_updates++;
	c->update_due |= c->message[4];
	if (sl_tls_dir_update(c->tls->ciphers, &c->rx))
		return true;
	sl_tls_fail(c, SL_TLS_END_INTERNAL);
	return false;
}

/* Only KeyUpdate, which may be split. */
static bool take_message(struct sl_tls_conn *c, const uint8_t *bytes, size_t len)
{
	size_t room = sizeof(c->message) - c->message_len, n = len < room ? len : room;
	enum sl_tls_end mistake = SL_TLS_END_UNEXPECTED; /* empty record, RFC 8446 5.4 */

	if (n) {
		memcpy(c->message + c->message_len, bytes, n);
		mistake = find_mistake(c->message, c->message_len + len);
	}
	if (mistake != SL_TLS_END_CNT) {
		sl_tls_fail(c, mistake);
		return false;
	}
	c->message_len = (uint8_t)(c->message_len + n);
	if (c->message_len < sizeof(c->message))
		return note_quiet_record(c);
	c->message_len = 0;
	return take_update(c);
}

static bool take_control(struct sl_tls_conn *c, uint8_t type, const uint8_t *bytes, size_t len)
{
	switch (type) {
	case SL_TLS_DATA: return note_quiet_record(c);
	case SL_TLS_ALERT: return take_alert(c, bytes, len);
	case SL_TLS_HANDSHAKE: return take_message(c, bytes, len);
	default: sl_tls_fail(c, SL_TLS_END_UNEXPECTED); return false;
	}
}

static size_t body_len(const uint8_t head[SL_TLS_HEAD])
{
	return (size_t)head[3] << 8 | head[4];
}

static bool head_is_good(struct sl_tls_conn *c, const uint8_t head[SL_TLS_HEAD])
{
	if (head[0] == SL_TLS_DATA && body_len(head) <= SL_TLS_CIPHER_MAX)
		return true;
	sl_tls_fail(c, head[0] == SL_TLS_DATA ? SL_TLS_END_OVERFLOW : SL_TLS_END_UNEXPECTED);
	return false;
}

static size_t strip_padding(const struct sl_tls_piece *pieces, unsigned cnt, uint8_t *type)
{
	size_t end = 0, limit;

	for (unsigned i = 0; i < cnt; i++)
		end += pieces[i].len;
	limit = end - SL_TLS_TAG;
	while (cnt--) {
		size_t start = end - pieces[cnt].len;

		for (size_t at = end < limit ? end : limit; at > start; at--) {
			*type = pieces[cnt].ptr[at - 1 - start];
			if (*type)
				return at - 1;
		}
		end = start;
	}
	*type = 0;
	return 0;
}

static bool open_record(struct sl_tls_conn *c, const uint8_t head[SL_TLS_HEAD],
			const struct sl_tls_piece *pieces, unsigned cnt, uint8_t *type,
			size_t *content)
{
	if (!sl_tls_open(c->tls->ciphers, &c->rx, head, pieces, cnt)) {
		sl_tls_fail(c, SL_TLS_END_BAD_RECORD);
		return false;
	}
	c->tls->stats.records_in++;
	c->update_credit = (uint16_t)(c->update_credit + (c->update_credit < SL_TLS_UPDATE_MAX));
	*content = strip_padding(pieces, cnt, type);
	if (sl_likely(*content <= c->piece_max && (!c->message_len || *type == SL_TLS_HANDSHAKE)))
		return true;
	/* RFC 8446 5.1 */
	sl_tls_fail(c, *content > c->piece_max ? SL_TLS_END_OVERFLOW : SL_TLS_END_UNEXPECTED);
	return false;
}

static size_t offer_piece(struct sl_tls_conn *c, struct sl_chunk *piece, bool *alive)
{
	size_t used;

	c->quiet = 0;
	c->again = false;
	sl_tls_enter(c);
	used = c->filter.up->input(c->filter.user, piece);
	*alive = sl_tls_leave(c) && c->state == SL_TLS_OPEN;
	return used;
}

static bool offer_frame(struct sl_tls_conn *c)
{
	struct sl_umem *u = c->tls->cfg.umem;
	struct sl_frame *f = sl_tls_backlog_pop(c);
	size_t n = f->len, used;
	struct sl_chunk piece = {
		.ptr = f->data, .len = n, .frame = f, .rx_ns = f->rx_ns, .take_ns = f->take_ns};
	bool alive;

	c->backlog.plain = (uint16_t)(c->backlog.plain - n);
	used = offer_piece(c, &piece, &alive);
	if (!piece.frame)
		return alive;
	if (!alive || used == n) {
		sl_frame_put(u, f);
		return alive;
	}
	f->data += used;
	f->len = (uint16_t)(n - used);
	sl_tls_backlog_push(c, f);
	c->backlog.plain = (uint16_t)(c->backlog.plain + f->len);
	c->paused = !(used && c->again);
	return !c->paused;
}

static bool offer_backlog(struct sl_tls_conn *c)
{
	const struct sl_frame *f = c->backlog.head;
	struct sl_chunk piece = {
		.ptr = f->data, .len = c->backlog.plain, .rx_ns = f->rx_ns, .take_ns = f->take_ns};
	bool alive;
	size_t used;

	if (f->len <= c->backlog.plain)
		return offer_frame(c);
	used = offer_piece(c, &piece, &alive);
	if (!alive)
		return false;
	c->paused = used < c->backlog.plain && !(used && c->again);
	c->backlog.plain = (uint16_t)(c->backlog.plain - used);
	sl_tls_backlog_drop(c, used);
	return !c->paused;
}

static bool open_backlog(struct sl_tls_conn *c)
{
	struct sl_tls_piece pieces[PIECES_MAX];
	uint8_t head[SL_TLS_HEAD], bytes[CONTROL_MAX], type;
	size_t body, content, left;
	unsigned cnt = 0;

	if (sl_tls_backlog_peek(c, head, SL_TLS_HEAD) < SL_TLS_HEAD || !head_is_good(c, head))
		return false;
	body = left = body_len(head);
	if (c->backlog.len < SL_TLS_HEAD + body)
		return false;
	sl_tls_backlog_drop(c, SL_TLS_HEAD);
	for (struct sl_frame *f = c->backlog.head; left && cnt < PIECES_MAX; f = f->next) {
		size_t n = f->len < left ? f->len : left;

		pieces[cnt++] = (struct sl_tls_piece){f->data, n};
		left -= n;
	}
	if (left) {
		sl_tls_fail(c, SL_TLS_END_NO_MEMORY);
		return false;
	}
	if (!open_record(c, head, pieces, cnt, &type, &content))
		return false;
	if (type == SL_TLS_DATA && content) {
		c->backlog.plain = (uint16_t)content;
		c->backlog.skip = (uint16_t)(body - content);
		return true;
	}
	content = content < CONTROL_MAX ? content : CONTROL_MAX;
	sl_tls_backlog_peek(c, bytes, content);
	sl_tls_backlog_drop(c, body);
	return take_control(c, type, bytes, content);
}

void sl_tls_pump(struct sl_tls_conn *c)
{
	for (;;) {
		if (c->backlog.plain) {
			if (!offer_backlog(c))
				return;
			continue;
		}
		sl_tls_backlog_drop(c, c->backlog.skip);
		c->backlog.skip = 0;
		if (!open_backlog(c))
			return;
	}
}

static bool keep_chunk(struct sl_tls_conn *c, struct sl_chunk *chunk, size_t at)
{
	if (sl_tls_backlog_add(c, chunk, at))
		return true;
	sl_tls_break(c, SL_TLS_END_NO_MEMORY);
	return false;
}

static bool offer_at(struct sl_tls_conn *c, struct sl_chunk *chunk, size_t at, size_t n, size_t end)
{
	struct sl_chunk piece = {
		.ptr = chunk->ptr + at, .len = n, .rx_ns = chunk->rx_ns, .take_ns = chunk->take_ns};
	struct sl_frame *f = end == chunk->len ? chunk->frame : NULL;
	bool alive;
	size_t used;

	if (f) { /* the whole frame may be taken */
		f->data = (uint8_t *)(uintptr_t)piece.ptr;
		f->len = (uint16_t)n;
		piece.frame = f;
	}
	used = offer_piece(c, &piece, &alive);
	if (f && !piece.frame) {
		chunk->frame = NULL;
		return alive;
	}
	if (f) {
		f->data = (uint8_t *)(uintptr_t)chunk->ptr;
		f->len = (uint16_t)chunk->len;
	}
	if (!alive || used == n)
		return alive;
	c->paused = !(used && c->again);
	if (!keep_chunk(c, chunk, at + used))
		return false;
	c->backlog.plain = (uint16_t)(n - used);
	c->backlog.skip = (uint16_t)(end - at - n);
	if (!c->paused)
		sl_tls_pump(c);
	return false;
}

static bool take_record(struct sl_tls_conn *c, struct sl_chunk *chunk, size_t at)
{
	uint8_t *head = (uint8_t *)(uintptr_t)chunk->ptr + at, type;
	struct sl_tls_piece piece = {head + SL_TLS_HEAD, body_len(head)};
	size_t content;

	if (!open_record(c, head, &piece, 1, &type, &content))
		return false;
	at += SL_TLS_HEAD;
	if (type == SL_TLS_DATA && content)
		return offer_at(c, chunk, at, content, at + piece.len);
	return take_control(c, type, piece.ptr, content);
}

size_t sl_tls_take(struct sl_tls_conn *c, struct sl_chunk *chunk)
{
	const size_t len = chunk->len;
	size_t at = 0;

	if (c->paused)
		return 0;
	if (c->backlog.len) {
		if (keep_chunk(c, chunk, 0))
			sl_tls_pump(c);
		return len;
	}
	while (len - at >= SL_TLS_HEAD) {
		size_t whole = SL_TLS_HEAD + body_len(chunk->ptr + at);

		if (!head_is_good(c, chunk->ptr + at))
			return len;
		if (len - at < whole)
			break;
		if (!take_record(c, chunk, at))
			return len;
		at += whole;
	}
	if (at < len)
		keep_chunk(c, chunk, at);
	return len;
}
