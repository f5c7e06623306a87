/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "core/api_key.h"
#include "core/cors.h"
#include "core/event.h"
#include "core/pool.h"
#include "core/quota.h"
#include "core/rules.h"
#include "core/trace.h"

static bool is_own(const struct sl_exchange *x)
{
	return x->outcome != SL_OUTCOME_OK;
}

static struct sl_span own_text(const struct sl_exchange *x)
{
	if (x->outcome == SL_OUTCOME_FIXED)
		return sl_span_of(x->route->reply_body, x->route->reply_body_len);
	if (x->outcome == SL_OUTCOME_PREFLIGHT)
		return sl_span_of(NULL, 0);
	return sl_outcome_text((enum sl_outcome)x->outcome);
}

static struct sl_span read_block(const struct sl_exchange *x, const struct sl_store *s, size_t len)
{
	sl_store_read(s, x->core->meta_buf, len);
	return sl_span_of(x->core->meta_buf, len);
}

static void own_head(const struct sl_exchange *x, struct sl_reply_parts *out)
{
	struct sl_reply *r = &out->reply;

	sl_reply_own((enum sl_outcome)x->outcome, out);
	r->body_len = own_text(x).len;
	r->whole = true;
	if (x->outcome == SL_OUTCOME_METHOD ||
	    (x->outcome == SL_OUTCOME_FIXED && x->route->prefix[0] == '*'))
		r->allow = x->allowed;
	if (x->outcome == SL_OUTCOME_PREFLIGHT)
		r->content_type.len = 0;
	if (x->outcome == SL_OUTCOME_UNAUTHENTICATED)
		sl_api_key_put_challenge(x, out);
	if (x->outcome == SL_OUTCOME_RATE_LIMIT)
		sl_quota_put_fields(x, out);
	if (x->outcome != SL_OUTCOME_FIXED)
		return;
	r->status = x->route->reply_status;
	if (x->route->redirect) {
		out->headers[0] = (struct sl_header){sl_span_str("location"),
						     read_block(x, &x->tail, x->tail.len)};
		r->headers = out->headers;
		r->header_cnt = 1;
	}
	if (x->route->reply_type)
		r->content_type = sl_span_cstr(x->route->reply_type);
}

static void log_excess(const struct sl_exchange *x, const char *key, uint64_t found, uint64_t max)
{
	SL_LOG_EVERY(SL_NS_PER_SEC, SL_LOG_WARN,
		     "pool %s: backend %s sent the head of a reply with %s = %" PRIu64
		     "; allowed: %" PRIu64 "; its client gets 502",
		     x->pool->cfg->name, x->backend->name, key, found, max);
}

static bool is_within(const struct sl_exchange *x, size_t len, const struct sl_reply *r)
{
	const struct sl_cfg_pool *p = x->pool->cfg;
	const struct sl_cfg_route *rt = x->route;
	uint64_t head = rt->max_reply_head ? rt->max_reply_head : p->max_reply_head;
	uint32_t fields = rt->max_reply_fields ? rt->max_reply_fields : p->max_reply_fields;

	if (head && len > head)
		log_excess(x, "max_reply_head", len, head);
	else if (fields && r->header_cnt > fields)
		log_excess(x, "max_reply_fields", r->header_cnt, fields);
	else
		return true;
	return false;
}

static bool read_head(const struct sl_exchange *x, struct sl_span block, unsigned sides,
		      struct sl_reply_parts *out)
{
	if (sl_reply_decode(block, sides, out))
		return is_within(x, block.len, &out->reply);
	if (out->reply.header_cnt == SL_ARRAY_LEN(out->headers))
		log_excess(x, "max_reply_fields", SL_RPC_MAX_FIELDS + 1, SL_RPC_MAX_FIELDS);
	return false;
}

static struct sl_span head_block(const struct sl_exchange *x)
{
	if (sl_exchange_is_lent(x) && x->core->loan.is_head)
		return x->core->loan.head;
	return read_block(x, &x->reply, x->head_len);
}

static struct sl_span tail_block(const struct sl_exchange *x)
{
	if (sl_exchange_is_lent(x) && x->core->loan.tail.len)
		return x->core->loan.tail;
	if (x->tail.len || x->in_parts)
		return read_block(x, &x->tail, x->tail.len);
	return head_block(x);
}

bool sl_reply_head(void *conn, struct sl_stream *st, struct sl_reply_parts *out)
{
	struct sl_exchange *x = (struct sl_exchange *)st;
	unsigned sides = x->in_parts ? SL_REPLY_HEAD : SL_REPLY_HEAD | SL_REPLY_TAIL;

	(void)conn;
	if (x->state != SL_EX_REPLYING && x->state != SL_EX_WHOLE)
		return false;
	/* 101 needs the client's upgrade. */
	if (!is_own(x) && (!read_head(x, head_block(x), sides, out) ||
			   (out->reply.status == 101 && !x->stream.upgrade)))
		sl_exchange_fail(x, SL_OUTCOME_BACKEND_ERROR);
	if (!is_own(x) && x->stream.upgrade)
		sl_stream_on_reply_head(x, &out->reply);
	if (is_own(x)) {
		own_head(x, out);
	} else {
		/* The backend's length counts for a body still to come, or HEAD. */
		if ((out->reply.body_len == SL_LEN_UNKNOWN && st->method != SL_METHOD_HEAD) ||
		    x->stream.prefix || (!x->in_parts && x->reply_len))
			out->reply.body_len = x->reply_len;
		if (out->reply.status == 101)
			out->reply.body_len = SL_LEN_UNKNOWN;
		out->reply.whole = x->state == SL_EX_WHOLE;
		out->reply.service_us = x->service_us;
		x->backend_status = out->reply.status;
	}
	if (x->route && x->route->reply_rules.cnt && !sl_rules_apply_reply(x, out)) {
		sl_exchange_fail(x, SL_OUTCOME_BACKEND_ERROR);
		own_head(x, out);
	}
	if (x->cors && !sl_cors_apply_reply(x, out)) {
		sl_exchange_fail(x, SL_OUTCOME_BACKEND_ERROR);
		own_head(x, out);
		(void)sl_cors_apply_reply(x, out);
	}
	if (x->note)
		sl_trace_reply(x, out);
	x->status = out->reply.status;
	x->grpc_status = out->reply.grpc_status;
	return true;
}

static struct sl_piece make_piece(struct sl_span bytes, bool last)
{
	return (struct sl_piece){.bytes = bytes, .behind = last ? SL_END : SL_MORE};
}

struct sl_piece sl_reply_peek(void *conn, struct sl_stream *st)
{
	struct sl_exchange *x = (struct sl_exchange *)st;
	const struct sl_span *lent = x->core->loan.body;
	bool whole = x->state == SL_EX_WHOLE;
	struct sl_span kept;
	uint64_t left;
	size_t may;

	(void)conn;
	if (x->state == SL_EX_BROKEN)
		return (struct sl_piece){.behind = SL_BROKEN};
	if (is_own(x))
		return make_piece(sl_span_skip(own_text(x), x->text_taken), true);
	kept = sl_store_at(&x->reply, x->head_len);
	left = x->reply.len - x->head_len;
	if (sl_exchange_is_lent(x))
		left += lent[0].len + lent[1].len;
	if (!kept.len && sl_exchange_is_lent(x))
		kept = lent[0].len ? lent[0] : lent[1];
	may = sl_stream_rate_allowed(x, SL_RATE_OUT, kept.len);
	return make_piece(sl_span_first(kept, may), whole && left == may);
}

static bool drop_head(struct sl_exchange *x)
{
	struct sl_umem *u = x->core->net->umem;

	if (!x->head_len)
		return true;
	if (x->stream.trailers && !x->in_parts &&
	    !sl_exchange_keep(x, &x->tail, read_block(x, &x->reply, x->head_len)))
		return false;
	sl_store_skip(&x->reply, u, x->head_len);
	x->head_len = 0;
	return true;
}

void sl_reply_take(void *conn, struct sl_stream *st, size_t n)
{
	struct sl_exchange *x = (struct sl_exchange *)st;
	struct sl_span *lent = x->core->loan.body;

	(void)conn;
	x->taken += (uint32_t)n;
	if (x->note)
		x->note->reply_len += n;
	if (is_own(x)) {
		x->text_taken += (uint32_t)n;
		return;
	}
	if (!drop_head(x)) {
		sl_exchange_fail(x, SL_OUTCOME_NO_MEMORY);
		return;
	}
	sl_stream_rate_take(x, SL_RATE_OUT, n);
	if (x->reply.len) {
		sl_store_skip(&x->reply, x->core->net->umem, n);
		sl_exchange_charge(x);
		if (x->state == SL_EX_REPLYING && !sl_exchange_is_lent(x))
			sl_exchange_reply_kept(x);
		return;
	}
	lent += !lent->len;
	*lent = sl_span_skip(*lent, n);
}

bool sl_reply_whole(void *conn, const struct sl_stream *st)
{
	(void)conn;
	return ((const struct sl_exchange *)st)->state == SL_EX_WHOLE;
}

bool sl_reply_trailers(void *conn, struct sl_stream *st, struct sl_reply_parts *out)
{
	struct sl_exchange *x = (struct sl_exchange *)st;

	(void)conn;
	if (!is_own(x) && !sl_reply_decode(tail_block(x), SL_REPLY_TAIL, out))
		sl_exchange_fail(x, SL_OUTCOME_BACKEND_ERROR);
	if (is_own(x))
		sl_reply_own((enum sl_outcome)x->outcome, out);
	x->grpc_status = out->reply.grpc_status;
	return x->state != SL_EX_BROKEN;
}
