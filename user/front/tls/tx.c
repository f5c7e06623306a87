/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Content goes into the frame that leaves next. A worker has at most one open record.
 *
 *   frame that leaves:  [ sealed records ... | head | content so far |   type, tag   ]
 *                                             ^ t->record    t->content     t->room
 */
#include <string.h>

#include "front/tls/conn.h"

enum {
	CONTENT_MIN = 32, /* with less room, a record starts in the next frame */
	RECORD_GUESS = 1024,
	REKEY_AFTER = 1 << 23, /* RFC 8446 5.5 allows three times as many */
};

/* Assumes records of about a segment. */
static size_t record_overhead(size_t len)
{
	return (len / RECORD_GUESS + 1) * SL_TLS_OVERHEAD;
}

size_t sl_tls_room(const struct sl_tls_conn *c)
{
	size_t below;

	if (c->state != SL_TLS_OPEN)
		return 0;
	below = c->filter.below.ops->room(c->filter.below.self);
	return below > record_overhead(below) ? below - record_overhead(below) : 0;
}

bool sl_tls_fits(const struct sl_tls_conn *c, size_t len)
{
	return c->state == SL_TLS_OPEN &&
	       c->filter.below.ops->fits_head(c->filter.below.self, len + 2 * record_overhead(len));
}

static void seal_record(struct sl_tls_conn *c, uint8_t type, uint8_t *record, size_t len)
{
	size_t n = sl_tls_seal(c->tls->ciphers, &c->tx, type, record, len);

	c->filter.below.ops->commit(c->filter.below.self, n);
	c->tls->stats.records_out++;
	c->update_due |= c->tx.seq >= REKEY_AFTER;
}

void sl_tls_seal_open(struct sl_tls *t)
{
	struct sl_tls_conn *c = t->writer;

	t->writer = NULL;
	if (c && t->content)
		seal_record(c, SL_TLS_DATA, t->record, t->content);
}

bool sl_tls_say(struct sl_tls_conn *c, uint8_t type, const uint8_t *bytes, size_t len)
{
	size_t room;
	uint8_t *record;

	sl_tls_seal_open(c->tls);
	record = c->filter.below.ops->lay(c->filter.below.self, len + SL_TLS_OVERHEAD, true, &room);
	if (!record)
		return false;
	memcpy(record + SL_TLS_HEAD, bytes, len);
	seal_record(c, type, record, len);
	return true;
}

static bool update_key(struct sl_tls_conn *c)
{
	static const uint8_t message[] = {24, 0, 0, 1, 0}; /* update_not_requested */

	if (!sl_tls_say(c, SL_TLS_HANDSHAKE, message, sizeof(message)))
		return false;
	if (!sl_tls_dir_update(c->tls->ciphers, &c->tx)) {
		/* The layer above is on the stack. */
		c->tls->stats.ends[SL_TLS_END_INTERNAL]++;
		c->state = SL_TLS_CLOSED;
		c->filter.below.ops->close(c->filter.below.self);
		return false;
	}
	c->update_due = false;
	c->tls->stats.key_updates++;
	return true;
}

static bool open_record(struct sl_tls_conn *c, bool beyond)
{
	struct sl_tls *t = c->tls;

	sl_tls_seal_open(t);
	if (c->state != SL_TLS_OPEN || (sl_unlikely(c->update_due) && !update_key(c)))
		return false;
	t->record = c->filter.below.ops->lay(c->filter.below.self, CONTENT_MIN + SL_TLS_OVERHEAD,
					     beyond, &t->room);
	if (!t->record)
		return false;
	if (t->room > SL_TLS_PLAIN_MAX)
		t->room = SL_TLS_PLAIN_MAX;
	if (t->room > c->piece_max + (size_t)SL_TLS_OVERHEAD)
		t->room = c->piece_max + (size_t)SL_TLS_OVERHEAD;
	t->writer = c;
	t->content = 0;
	return true;
}

size_t sl_tls_write(struct sl_tls_conn *c, const uint8_t *bytes, size_t len, bool beyond)
{
	struct sl_tls *t = c->tls;
	size_t done = 0;

	while (done < len) {
		size_t n;

		if (t->writer != c && !open_record(c, beyond))
			break;
		n = t->room - SL_TLS_OVERHEAD - t->content;
		n = n < len - done ? n : len - done;
		memcpy(t->record + SL_TLS_HEAD + t->content, bytes + done, n);
		t->content += n;
		done += n;
		if (t->content + SL_TLS_OVERHEAD == t->room)
			sl_tls_seal_open(t);
	}
	return done;
}
