/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RST_STREAM(NO_ERROR) stops the client (RFC 9113 8.1). Some (curl 7.88) discard a reply with that
 * frame in the same read, so it follows the acknowledgement of a PING behind the reply.
 */
#include "front/h2/conn.h"

static const uint8_t early_mark[8] = "slearly";

bool sl_h2_early_reply_is_mark(const uint8_t mark[8])
{
	return !memcmp(mark, early_mark, sizeof(early_mark));
}

bool sl_h2_early_reply_pending(const struct h2_stream *s)
{
	return (s->flags & (ST_END_SENT | ST_RX_OVER)) == ST_END_SENT;
}

void sl_h2_early_reply_ping(struct h2_conn *c)
{
	struct sl_list *l;

	if (c->flags & H2_ASKED)
		return;
	sl_list_for_each (l, &c->streams) {
		struct h2_stream *s = sl_container_of(l, struct h2_stream, link);

		if (!sl_h2_early_reply_pending(s) || (s->flags & ST_ASKED))
			continue;
		s->flags |= ST_ASKED;
		c->flags |= H2_ASKED;
	}
	if (c->flags & H2_ASKED)
		nghttp2_submit_ping(c->session, NGHTTP2_FLAG_NONE, early_mark);
}

void sl_h2_early_reply_acked(struct h2_conn *c)
{
	struct sl_list *l;

	sl_list_for_each (l, &c->streams) {
		struct h2_stream *s = sl_container_of(l, struct h2_stream, link);

		if (s->flags & ST_ASKED)
			nghttp2_submit_rst_stream(c->session, NGHTTP2_FLAG_NONE, s->id,
						  s->flags & ST_MALFORMED ? NGHTTP2_PROTOCOL_ERROR
									  : NGHTTP2_NO_ERROR);
	}
	c->flags &= (uint16_t)~H2_ASKED;
	sl_h2_early_reply_ping(c);
}

void sl_h2_early_reply_finish(struct h2_conn *c)
{
	struct sl_list *l;

	if (!(c->flags & H2_ASKED))
		return;
	sl_list_for_each (l, &c->streams) {
		struct h2_stream *s = sl_container_of(l, struct h2_stream, link);
		struct sl_stream *st = s->st;

		if (!st || !sl_h2_early_reply_pending(s))
			continue;
		s->st = NULL;
		c->front->cb->done(c->conn, st);
	}
}
