/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gRPC replies over HTTP/2 (PROTOCOL-HTTP2.md), as parts of an SDK reply.
 *
 *   head that is no gRPC ............ its HTTP status, mapped; the body is not read
 *   head with END_STREAM ............ one part: status and trailers (Trailers-Only)
 *   head, <= 1 message, status OK ... one part, if all of it has come
 *   else ............................ head; each message, or pieces of it; status and trailers
 */
#include <stdio.h>

#include "origin/h2.h"
#include "base/bytes.h"
#include "sluice/types.h"

void origin_h2_judge_head(struct origin_h2_stream *s, bool ends)
{
	s->trailers_only = ends;
	if (s->status == 200 && !s->foreign_type)
		return;
	/* http-grpc-status-mapping.md: a grpc-status has priority. */
	if (s->grpc_status >= 0)
		s->foreign = s->grpc_status;
	else if (s->status == 200)
		s->foreign = SL_GRPC_UNKNOWN;
	else
		s->foreign = (int)sl_grpc_from_http(s->status);
	s->trailers_only = true;
}

static void answer_foreign(struct origin_h2_stream *s)
{
	struct sl_reply_args a = {.grpc_status = (uint16_t)s->foreign, .no_message = true};
	char why[64];

	snprintf(why, sizeof(why), "the server answered HTTP %u%s", s->status,
		 s->foreign_type ? " and no gRPC" : "");
	a.grpc_message = s->why[0] ? s->why : why;
	s->trailers.cnt = 0;
	(void)origin_h2_reply(s, &a);
}

static size_t find_piece(const struct origin_h2_stream *s, struct sl_reply_args *a)
{
	struct sl_span in = origin_h2_rx(s);
	size_t prefix = s->message_left ? 0 : SL_GRPC_PREFIX;

	*a = (struct sl_reply_args){.more = true};
	if (in.len < (prefix ? prefix : 1))
		return 0;
	a->total_len = prefix ? sl_get_be32(in.ptr + 1) : s->message_left;
	if (in.len - prefix < a->total_len && in.len < ORIGIN_RX_LEN / 2)
		return 0;
	a->body = in.ptr + prefix;
	a->body_len = in.len - prefix < a->total_len ? in.len - prefix : a->total_len;
	a->in_pieces = prefix && a->body_len < a->total_len;
	a->compressed = prefix && in.ptr[0];
	return prefix + a->body_len;
}

static bool is_refused(struct origin_h2_stream *s)
{
	struct sl_span in = origin_h2_rx(s);

	if (s->message_left || in.len < SL_GRPC_PREFIX)
		return false;
	if (in.ptr[0] > SL_GRPC_COMPRESSED)
		origin_h2_end_with(s, SL_RPC_INTERNAL,
				   "a message with reserved bits set in its prefix");
	else if (sl_get_be32(in.ptr + 1) > SL_RPC_MAX_MESSAGE)
		origin_h2_end_with(s, SL_RPC_TOO_LARGE, "a message that is too large");
	else
		return false;
	return true;
}

static bool is_last(const struct origin_h2_stream *s, size_t n, const struct sl_reply_args *a)
{
	return s->whole && s->grpc_status == SL_GRPC_OK && n == origin_h2_rx(s).len &&
	       !s->message_left && !a->in_pieces;
}

static bool is_one_part(const struct origin_h2_stream *s)
{
	struct sl_reply_args a;
	size_t n;

	if (s->trailers_only)
		return s->whole;
	n = find_piece(s, &a);
	return is_last(s, n, &a) && (!n || origin_h2_rx(s).ptr[0] <= SL_GRPC_COMPRESSED);
}

static enum sl_grpc_status status_of_reset(uint32_t code)
{
	switch (code) {
	case NGHTTP2_REFUSED_STREAM: return SL_GRPC_UNAVAILABLE;
	case NGHTTP2_CANCEL: return SL_GRPC_CANCELLED;
	case NGHTTP2_ENHANCE_YOUR_CALM: return SL_GRPC_RESOURCE_EXHAUSTED;
	case NGHTTP2_INADEQUATE_SECURITY: return SL_GRPC_PERMISSION_DENIED;
	default: return code > NGHTTP2_HTTP_1_1_REQUIRED ? SL_GRPC_UNKNOWN : SL_GRPC_INTERNAL;
	}
}

static void end_early(struct origin_h2_stream *s)
{
	struct sl_reply_args a = {.no_message = true};
	const struct origin_call *call = s->call;
	char why[64];

	if (!s->reset || (s->error == NGHTTP2_REFUSED_STREAM && !call->answered)) {
		origin_h2_lost(s);
		return;
	}
	a.grpc_status = (uint16_t)status_of_reset(s->error);
	if (s->error == NGHTTP2_CANCEL && call->deadline_ns <= origin_h2_origin(s)->now_ns) {
		origin_h2_end_with(s, SL_RPC_EXPIRED, "the server cancelled it at its deadline");
	} else if (s->message_left) { /* only an error may follow an incomplete message */
		origin_h2_end_with(
			s, a.grpc_status == SL_GRPC_UNAVAILABLE ? SL_RPC_LOST : SL_RPC_INTERNAL,
			"it was reset within a message");
	} else {
		snprintf(why, sizeof(why), "the server reset the call: %s",
			 nghttp2_http2_strerror(s->error));
		a.grpc_message = why;
		if (!call->answered)
			s->headers.cnt = 0;
		(void)origin_h2_reply(s, &a);
	}
}

static void end_whole(struct origin_h2_stream *s, struct sl_reply_args *a, size_t n)
{
	if (n < origin_h2_rx(s).len || s->message_left) {
		origin_h2_end_with(s, SL_RPC_INTERNAL, "its last message is cut off");
		return;
	}
	a->more = false;
	a->no_message = !n;
	a->grpc_message = s->why[0] ? s->why : NULL;
	a->grpc_status = s->grpc_status >= 0 ? (uint16_t)s->grpc_status : SL_GRPC_UNKNOWN;
	(void)origin_h2_reply(s, a);
}

void origin_h2_settle_grpc(struct origin_h2_stream *s)
{
	struct sl_reply_args a = {.more = true, .no_message = true};
	size_t n;

	if (s->foreign >= 0) {
		answer_foreign(s);
		return;
	}
	if (s->call->answered && !s->call->begun && !is_one_part(s) && !origin_h2_reply(s, &a))
		return;
	for (;;) {
		if (is_refused(s))
			return;
		n = find_piece(s, &a);
		if (!n || is_last(s, n, &a))
			break;
		if (!origin_h2_reply(s, &a))
			return;
		s->message_left = (uint32_t)(a.total_len - a.body_len);
		origin_h2_consume(s, n);
	}
	if (s->wrong)
		origin_h2_end_with(s, SL_RPC_INTERNAL, s->wrong);
	else if (s->whole)
		end_whole(s, &a, n);
	else if (s->ended)
		end_early(s);
}
