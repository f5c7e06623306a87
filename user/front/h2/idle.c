/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RST_STREAM of streams that are not open is a connection error (RFC 9113 6.4). But the gRPC C
 * core, recognised by its SETTINGS, sends it for calls whose deadline passes before HEADERS.
 *
 * The start of a split frame is held back until its type is known.
 */
#include "base/check.h"
#include "front/h2/conn.h"

enum {
	FRAME_HEAD = 9,
	CODE_LEN = 4,
	TYPE_AT = 3,
	SETTING_TRUE_BINARY = 0xfe03, /* GRPC_ALLOW_TRUE_BINARY_METADATA */
};
_Static_assert(H2_HELD == FRAME_HEAD + CODE_LEN, "a whole frame");

void sl_h2_idle_settings(struct h2_conn *c, const nghttp2_settings *s)
{
	for (size_t i = 0; i < s->niv; i++) {
		if (s->iv[i].settings_id == SETTING_TRUE_BINARY)
			c->flags |= H2_GRPC_CORE;
	}
}

static int32_t stream_of(const uint8_t *head)
{
	return (int32_t)(sl_get_be32(head + FRAME_HEAD - 4) & INT32_MAX);
}

static bool is_idle_reset(const uint8_t *head, int32_t top)
{
	int32_t id = stream_of(head);

	return head[TYPE_AT] == NGHTTP2_RST_STREAM && sl_get_be24(head) == CODE_LEN && (id & 1) &&
	       id > top;
}

static bool may_be_reset(const uint8_t *p, size_t len)
{
	return len <= TYPE_AT || p[TYPE_AT] == NGHTTP2_RST_STREAM;
}

/* Offset of the frame or its possible start, or `len`. */
static size_t find_reset(const struct h2_conn *c, const uint8_t *p, size_t len)
{
	struct h2_walk w = c->walk;
	int32_t top = c->recent.top;
	size_t i = 0, n;

	while (i < len) {
		if (w.left) {
			n = len - i < w.left ? len - i : w.left;
			w.left -= (uint32_t)n;
			i += n;
			continue;
		}
		if (!w.have && len - i < FRAME_HEAD)
			return may_be_reset(p + i, len - i) ? i : len;
		if (!w.have && is_idle_reset(p + i, top))
			return i;
		n = w.have < FRAME_HEAD ? (size_t)FRAME_HEAD - w.have : 0;
		if (len - i < n)
			return len;
		memcpy(w.head + w.have, p + i, n);
		i += n;
		if (w.head[TYPE_AT] == NGHTTP2_HEADERS && stream_of(w.head) > top)
			top = stream_of(w.head);
		w.left = sl_get_be24(w.head);
		w.left -= w.have > FRAME_HEAD ? (uint32_t)w.have - FRAME_HEAD : 0;
		w.have = 0;
	}
	return len;
}

static ssize_t read_part(struct h2_conn *c, const uint8_t *p, size_t len)
{
	ssize_t n = len ? nghttp2_session_mem_recv(c->session, p, len) : 0;

	if (n > 0)
		sl_h2_flood_until(c, p + n);
	return n;
}

static ssize_t read_held(struct h2_conn *c, const uint8_t *p, size_t len)
{
	size_t had = c->held_len, n = H2_HELD - had < len ? H2_HELD - had : len;
	ssize_t rc;

	memcpy(c->held + had, p, n);
	c->held_len = (uint8_t)(had + n);
	if (c->held_len < H2_HELD && may_be_reset(c->held, c->held_len))
		return (ssize_t)n;
	c->walked = c->held;
	if (c->held_len == H2_HELD && is_idle_reset(c->held, c->recent.top)) {
		sl_h2_flood_until(c, c->held + H2_HELD);
		rc = (ssize_t)n;
	} else {
		rc = read_part(c, c->held, had);
		rc = rc < 0 ? rc : 0;
	}
	c->held_len = 0;
	c->walked = p + (rc > 0 ? rc : 0);
	return rc;
}

ssize_t sl_h2_idle_read(struct h2_conn *c, const uint8_t *p, size_t len)
{
	ssize_t n = c->held_len ? read_held(c, p, len) : 0;
	size_t used = n > 0 ? (size_t)n : 0, at;

	if (n < 0 || c->held_len)
		return n;
	while (used < len && !(c->flags & H2_FAILED)) {
		at = used + find_reset(c, p + used, len - used);
		n = read_part(c, p + used, at - used);
		if (n < 0)
			return n;
		used += (size_t)n;
		if (used < at || at == len || c->stuck_len)
			break;
		if (len - at < H2_HELD) {
			c->held_len = (uint8_t)(len - at);
			memcpy(c->held, p + at, len - at);
			used = len;
		} else {
			used = at + H2_HELD;
			sl_h2_flood_until(c, p + used);
		}
	}
	return (ssize_t)used;
}
