/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include "sdk/backend/internal.h"
#include "base/clock.h"
#include "base/tlv.h"

enum { FLUSH_NS = 50000, FLUSH_MAX_NS = 1000000, FLUSH_COSTS = 8 };

static int check_args(const struct sl_reply_args *a)
{
	return a->priority < SL_CLASS_CNT ? sl_be_check_size(a, a->size, sizeof(*a)) : -EINVAL;
}

/* Set once: parts of several classes could overtake each other. */
static void set_class(struct request *rq, uint8_t priority)
{
	if (priority && !rq->class_set)
		rq->class = priority;
	rq->class_set = true;
}

static size_t text_field_len(const char *s)
{
	return s ? 4 + strlen(s) : 0;
}

static size_t meta_len_of(const struct sl_reply_args *a)
{
	size_t len = text_field_len(a->content_type) + text_field_len(a->grpc_message);

	len += text_field_len(a->reason);
	len += a->status ? 6 : 0;
	len += a->grpc_status ? 6 : 0;
	len += a->has_total ? SL_TLV_HEAD + sizeof(uint64_t) : 0;
	for (unsigned i = 0; i < a->header_cnt; i++) {
		size_t name_len = strlen(a->headers[i].name);

		if (name_len > UINT8_MAX || a->headers[i].value_len > SL_RPC_MAX_META)
			return SL_RPC_MAX_META + 1;
		len += 5 + name_len + a->headers[i].value_len;
	}
	return len;
}

static struct reply *reply_alloc(struct request *rq, size_t bytes)
{
	size_t len = sizeof(struct reply) + bytes;
	struct reply *rp = NULL;

	if (sl_be_polling == rq->channel->b) {
		if (sl_be_reply_mem_left(rq->share, len))
			rp = sl_be_reply_mem_take(rq->share, len);
		if (rp)
			rp->where = REPLY_POOLED;
		return rp;
	}
	if (!sl_be_foreign_take(rq->share, len))
		return NULL;
	rp = malloc(len);
	if (rp)
		rp->where = REPLY_MALLOC;
	else
		sl_be_foreign_undo(rq->share, len);
	return rp;
}

static uint64_t fill_head(struct reply *rp, struct request *rq, enum sl_rpc_status status)
{
	uint64_t now = sl_now_ns();

	rp->rq = rq;
	rp->share = rq->share;
	rp->whole = NULL;
	rp->meta = rp->body = reply_bytes(rp);
	rp->cut = 0;
	rp->pieces = 1;
	rp->discard = rp->lent = rp->counted = false;
	rp->priority = rq->class;
	rp->entry = (struct sl_rpc_entry){
		.id = rq->id,
		.status = (uint8_t)status,
		.time_us = rq->begun_ns ? (uint32_t)((now - rq->begun_ns) / SL_NS_PER_US) : 0,
		.together = rq->together,
	};
	return now;
}

static void close_with(struct request *rq, enum sl_rpc_status status, bool discard)
{
	struct reply *rp = &rq->closing;

	atomic_store(&rq->over, true);
	(void)fill_head(rp, rq, status);
	rp->where = REPLY_EMBEDDED;
	rp->discard = discard;
	sl_be_reply_hand_over(rq->channel->b, rp);
}

void sl_be_request_close(struct request *rq, enum sl_rpc_status status)
{
	close_with(rq, status, false);
}

static void flush_early(struct sl_backend *b, bool now, uint64_t ns)
{
	uint64_t gap_ns;

	if (sl_be_polling != b)
		return;
	gap_ns = b->flush_gap_ns < FLUSH_NS ? FLUSH_NS : b->flush_gap_ns;
	if (!now && ns - b->flushed_ns < gap_ns)
		return;
	b->now_ns = ns;
	sl_be_flush(b);
	b->now_ns = b->flushed_ns = sl_now_ns();
	gap_ns = (b->now_ns - ns) * FLUSH_COSTS;
	b->flush_gap_ns = gap_ns < FLUSH_MAX_NS ? gap_ns : FLUSH_MAX_NS;
}

/*
 * True: earlier parts are within the credit. Otherwise `on_writable` follows; the second check
 * avoids a race with the I/O thread.
 */
static bool has_room(struct request *rq)
{
	if (atomic_load(&rq->room) > 0)
		return true;
	atomic_store(&rq->blocked, true);
	return (atomic_load(&rq->room) > 0 || atomic_load(&rq->gone)) &&
	       atomic_exchange(&rq->blocked, false);
}

static void raise_wanted(_Atomic size_t *wanted, size_t len)
{
	size_t least = atomic_load(wanted);

	while ((!least || len < least) && !atomic_compare_exchange_weak(wanted, &least, len)) {
	}
}

/* Blocks a part; refuses a last one, which cannot wait. */
static int without_memory(struct request *rq, size_t bytes, bool more)
{
	struct channel *ch = rq->channel;

	if (!more) {
		close_with(rq, sl_be_unanswered(rq), false);
		return -ENOBUFS;
	}
	/* In this order: a thread that sees one store looks for earlier ones. */
	atomic_store(&rq->blocked, true);
	raise_wanted(&rq->share->wanted, sizeof(struct reply) + bytes);
	raise_wanted(&ch->wanted, sizeof(struct reply) + bytes);
	atomic_store(&ch->b->full, true);
	sl_be_wake(ch->b);
	return -EAGAIN;
}

static bool is_full(struct request *rq)
{
	struct channel *ch = rq->channel;

	if (atomic_load_explicit(&ch->unsent, memory_order_relaxed) < SL_BE_UNSENT_MEM)
		return false;
	/* Order as in without_memory(). */
	atomic_store(&rq->blocked, true);
	atomic_store(&ch->blocked, true);
	atomic_store(&ch->b->full, true);
	sl_be_wake(ch->b);
	return true;
}

static void put_bytes(struct reply *rp, const struct sl_reply_args *args)
{
	size_t padded = sl_rpc_pad8(rp->entry.meta_len);
	uint8_t *meta = reply_bytes(rp), *body = meta + padded;
	struct sl_tlv_writer w = {.at = meta, .end = meta + rp->entry.meta_len};

	if (padded)
		memset(body - 8, 0, 8);
	if (args->content_type)
		sl_tlv_put(&w, SL_META_CONTENT_TYPE, sl_span_cstr(args->content_type));
	if (args->status)
		sl_tlv_put_u16(&w, SL_META_STATUS, args->status);
	if (args->reason)
		sl_tlv_put(&w, SL_META_REASON, sl_span_cstr(args->reason));
	if (args->grpc_status)
		sl_tlv_put_u16(&w, SL_META_GRPC_STATUS, args->grpc_status);
	if (args->has_total)
		sl_tlv_put_u64(&w, SL_META_LENGTH, args->total_len);
	if (args->grpc_message)
		sl_tlv_put(&w, SL_META_GRPC_MESSAGE, sl_span_cstr(args->grpc_message));
	for (unsigned i = 0; i < args->header_cnt; i++) {
		const struct sl_header_arg *h = &args->headers[i];
		size_t name_len = strlen(h->name);
		uint8_t *to = sl_tlv_room(&w, h->trailer ? SL_META_TRAILER : SL_META_HEADER,
					  1 + name_len + h->value_len);

		if (!to)
			continue;
		*to = (uint8_t)name_len;
		memcpy(to + 1, h->name, name_len);
		if (h->value_len)
			memcpy(to + 1 + name_len, h->value, h->value_len);
	}
	if (rp->lent || !args->body_len)
		return;
	memset(body + sl_rpc_pad8(args->body_len) - 8, 0, 8);
	memcpy(body, args->body, args->body_len);
	rp->body = body;
}

struct loan {
	sl_reply_done_fn *done;
	void *arg;
};

static int as_piece(const struct request *rq, struct sl_reply_args *a, uint64_t *rest)
{
	bool begins = !rq->message_left;
	uint64_t total = begins ? a->total_len : rq->message_left;

	*rest = 0;
	if (total > SL_RPC_MAX_MESSAGE)
		return -EMSGSIZE;
	if (!a->more || a->no_message || !a->body_len || a->body_len > total)
		return -EINVAL;
	if (!begins)
		*a = (struct sl_reply_args){.body = a->body,
					    .body_len = a->body_len,
					    .more = true,
					    .compressed = rq->message_compressed};
	*rest = total - a->body_len;
	return 0;
}

static bool is_no_message(const struct sl_reply_args *a)
{
	return a->no_message || (!a->more && !a->body_len && a->grpc_status);
}

static int reply_part(struct request *rq, const struct sl_reply_args *args, uint64_t rest,
		      const struct loan *loan)
{
	struct sl_backend *b = rq->channel->b;
	size_t meta_len = meta_len_of(args), bytes;
	uint64_t now_ns;
	struct reply *rp;

	if (args->body_len > SL_RPC_MAX_MESSAGE || meta_len > SL_RPC_MAX_META)
		return -EMSGSIZE;
	if (args->status == 101 && rq->ignored)
		return -EINVAL;
	if (atomic_load_explicit(&rq->gone, memory_order_relaxed)) {
		close_with(rq, SL_RPC_CANCELLED, true);
		return -ECANCELED;
	}
	if (args->more && (!has_room(rq) || is_full(rq)))
		return -EAGAIN;
	bytes = sl_rpc_pad8(meta_len) + (loan ? 0 : sl_rpc_pad8(args->body_len));
	rp = reply_alloc(rq, bytes);
	if (!rp)
		return without_memory(rq, bytes, args->more);
	set_class(rq, args->priority);
	now_ns = fill_head(rp, rq, SL_RPC_OK);
	rp->entry.len = (uint32_t)args->body_len;
	rp->entry.rest = (uint32_t)rest;
	rp->entry.meta_len = (uint16_t)meta_len;
	rq->message_left = (uint32_t)rest;
	rq->message_compressed = args->compressed;
	atomic_store(&rq->expects, false);
	atomic_store(&rq->begun, true);
	rp->entry.flags = (uint8_t)((args->more ? SL_ENTRY_MORE : 0) |
				    (is_no_message(args) ? SL_ENTRY_NO_MESSAGE : 0) |
				    (args->compressed ? SL_ENTRY_COMPRESSED : 0));
	if (loan) {
		rp->lent = true;
		rp->body = args->body;
		rp->done = loan->done;
		rp->done_arg = loan->arg;
	}
	put_bytes(rp, args);
	if (args->more) {
		sl_be_reply_count(rp);
		atomic_fetch_sub(&rq->room, sl_rpc_cost(&rp->entry));
	} else {
		atomic_store_explicit(&rq->over, true, memory_order_release);
	}
	sl_be_reply_hand_over(b, rp);
	flush_early(b, args->more, now_ns);
	return 0;
}

static int reply_piece(struct request *rq, const struct sl_reply_args *given,
		       const struct loan *loan)
{
	struct sl_reply_args piece = *given;
	uint64_t rest;
	int rc = as_piece(rq, &piece, &rest);

	return rc ? rc : reply_part(rq, &piece, rest, loan);
}

static int send_reply(struct request *rq, const struct sl_reply_args *args, const struct loan *loan)
{
	int rc = check_args(args);

	if (rc)
		return rc;
	if (rq->message_left || args->in_pieces)
		return reply_piece(rq, args, loan);
	return reply_part(rq, args, 0, loan);
}

int sl_reply(struct sl_request_view *rq, const struct sl_reply_args *args)
{
	return send_reply((struct request *)rq, args, NULL);
}

int sl_reply_ref(struct sl_request_view *rq, const struct sl_reply_args *args,
		 sl_reply_done_fn *done, void *arg)
{
	return send_reply((struct request *)rq, args, &(struct loan){done, arg});
}

static void say_before(struct request *rq, struct reply *rp, const struct sl_reply_args *args,
		       size_t meta_len)
{
	set_class(rq, args->priority);
	fill_head(rp, rq, SL_RPC_OK);
	rp->entry.flags = SL_ENTRY_GO_ON | SL_ENTRY_MORE;
	rp->entry.meta_len = (uint16_t)meta_len;
	put_bytes(rp, args);
	atomic_fetch_sub(&rq->room, sl_rpc_cost(&rp->entry));
	sl_be_reply_hand_over(rq->channel->b, rp);
	flush_early(rq->channel->b, true, sl_now_ns());
}

int sl_stream_send_continue(struct sl_request_view *view)
{
	static const struct sl_reply_args nothing;
	struct request *rq = (struct request *)view;
	struct reply *rp;

	if (!atomic_exchange(&rq->expects, false))
		return -EINVAL;
	rp = reply_alloc(rq, 0);
	if (!rp) {
		atomic_store(&rq->expects, true);
		return without_memory(rq, 0, true);
	}
	say_before(rq, rp, &nothing, 0);
	return 0;
}

int sl_stream_go_on(struct sl_request_view *view)
{
	return sl_stream_send_continue(view);
}

int sl_be_reply_interim(struct sl_request_view *view, const struct sl_reply_args *given, bool waits)
{
	const struct sl_reply_args args = {.status = given->status,
					   .headers = given->headers,
					   .header_cnt = given->header_cnt,
					   .priority = given->priority};
	struct request *rq = (struct request *)view;
	size_t meta_len = meta_len_of(&args);
	struct reply *rp;
	int rc = check_args(given);

	if (rc)
		return rc;
	if (args.status <= 101 || args.status > 199 || atomic_load(&rq->begun))
		return -EINVAL;
	if (meta_len > SL_RPC_MAX_META)
		return -EMSGSIZE;
	if (atomic_fetch_add(&rq->interims, 1) >= SL_RPC_MAX_INTERIM) {
		atomic_fetch_sub(&rq->interims, 1);
		return -EINVAL;
	}
	rp = reply_alloc(rq, sl_rpc_pad8(meta_len));
	if (!rp) {
		atomic_fetch_sub(&rq->interims, 1);
		return waits ? without_memory(rq, sl_rpc_pad8(meta_len), true) : -ENOBUFS;
	}
	say_before(rq, rp, &args, meta_len);
	return 0;
}

int sl_reply_interim(struct sl_request_view *view, const struct sl_reply_args *args)
{
	return sl_be_reply_interim(view, args, true);
}

int sl_reply_error(struct sl_request_view *view, enum sl_rpc_status status)
{
	struct request *rq = (struct request *)view;
	struct sl_backend *b = rq->channel->b;

	if (atomic_load_explicit(&rq->gone, memory_order_relaxed)) {
		close_with(rq, SL_RPC_CANCELLED, true);
		return -ECANCELED;
	}
	close_with(rq, status, false);
	flush_early(b, false, sl_now_ns());
	return 0;
}
