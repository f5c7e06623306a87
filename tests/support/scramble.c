/* SPDX-License-Identifier: Apache-2.0 */
#include "scramble.h"

#include <stdlib.h>
#include <string.h>

enum { KEY = 0x5a, PIECE_MAX = 9, HEAD_MAX = 16384 };

unsigned scramble_live;

void scramble_bytes(uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		bytes[i] ^= KEY;
}

/* --- upward --- */

/* Offers what there is, in pieces of a few bytes, for as long as they are taken. */
static void offer(struct scramble *s)
{
	size_t at = 0;

	while (at < s->kept_len) {
		struct sl_chunk piece = {.ptr = s->kept + at, .len = s->kept_len - at};
		size_t used;

		if (piece.len > PIECE_MAX)
			piece.len = 1 + (size_t)sl_prng_below(&s->prng, PIECE_MAX);
		used = s->filter.up->input(s->filter.user, &piece);
		at += used;
		if (used < piece.len)
			break;
	}
	memmove(s->kept, s->kept + at, s->kept_len - at);
	s->kept_len -= at;
	if (s->eof && !s->kept_len && !s->told) {
		s->told = true;
		s->filter.up->eof(s->filter.user);
	}
}

static size_t input(void *user, struct sl_chunk *chunk)
{
	struct scramble *s = user;

	s->kept = realloc(s->kept, s->kept_len + chunk->len);
	memcpy(s->kept + s->kept_len, chunk->ptr, chunk->len);
	scramble_bytes(s->kept + s->kept_len, chunk->len);
	s->kept_len += chunk->len;
	offer(s);
	return chunk->len;
}

static void eof(void *user)
{
	struct scramble *s = user;

	s->eof = true;
	offer(s);
}

static void writable(void *user)
{
	struct scramble *s = user;

	s->filter.up->writable(s->filter.user);
}

static void scramble_free(struct scramble *s)
{
	scramble_live--;
	free(s->kept);
	free(s);
}

static void closed(void *user)
{
	struct scramble *s = user;

	s->filter.up->closed(s->filter.user);
	scramble_free(s);
}

static void named(void *user)
{
	struct scramble *s = user;

	s->filter.up->named(s->filter.user);
}

static void opened(void *user)
{
	struct scramble *s = user;

	s->filter.up->opened(s->filter.user);
}

static const struct sl_conn_user below_tells = {.named = named,
						.opened = opened,
						.input = input,
						.eof = eof,
						.writable = writable,
						.closed = closed};

/* --- downward --- */

static size_t out_write(void *self, const void *bytes, size_t len)
{
	struct scramble *s = self;
	uint8_t piece[512];
	size_t done = 0;

	while (done < len) {
		size_t n = len - done < sizeof(piece) ? len - done : sizeof(piece), took;

		memcpy(piece, (const uint8_t *)bytes + done, n);
		scramble_bytes(piece, n);
		took = s->filter.below.ops->write(s->filter.below.self, piece, n);
		done += took;
		if (took < n)
			break;
	}
	return done;
}

static bool out_write_head(void *self, const void *bytes, size_t len)
{
	struct scramble *s = self;
	uint8_t copy[HEAD_MAX];

	memcpy(copy, bytes, len);
	scramble_bytes(copy, len);
	return s->filter.below.ops->write_head(s->filter.below.self, copy, len);
}

static size_t out_room(const void *self)
{
	const struct scramble *s = self;

	return s->filter.below.ops->room(s->filter.below.self);
}

static void out_want_room(void *self)
{
	struct scramble *s = self;

	s->filter.below.ops->want_room(s->filter.below.self);
}

/* Kept bytes go first; TCP keeps nothing, since input takes all. */
static void out_resume(void *self)
{
	offer(self);
}

static void out_close(void *self)
{
	struct scramble *s = self;

	s->filter.below.ops->close(s->filter.below.self);
}

static void out_reset(void *self)
{
	struct scramble *s = self;

	s->filter.below.ops->reset(s->filter.below.self);
	scramble_free(s);
}

static void out_info(const void *self, struct sl_conn_info *out)
{
	const struct scramble *s = self;

	s->filter.below.ops->info(s->filter.below.self, out);
}

static const struct sl_conn_ops offers = {
	.write = out_write,
	.write_head = out_write_head,
	.room = out_room,
	.want_room = out_want_room,
	.resume = out_resume,
	.close = out_close,
	.reset = out_reset,
	.info = out_info,
};

bool scramble_open(void *arg, struct sl_conn transport, const struct sl_conn_info *info,
		   struct sl_filter **top)
{
	unsigned cnt = arg ? *(const unsigned *)arg : 1;
	struct sl_filter *under = NULL;

	(void)info;
	for (unsigned i = 0; i < cnt; i++) {
		struct scramble *s = calloc(1, sizeof(*s));

		scramble_live++;
		sl_prng_seed(&s->prng, scramble_live);
		s->filter = (struct sl_filter){
			.below_tells = &below_tells,
			.offers = &offers,
			.below = under ? sl_filter_conn(under) : transport,
			.under = under,
		};
		if (under) {
			under->up = &below_tells;
			under->user = s;
		}
		under = &s->filter;
	}
	*top = under;
	return true;
}
