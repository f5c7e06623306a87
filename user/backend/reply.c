/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include "backend/internal.h"
#include "base/clock.h"

/*
 * A slow handler's early replies do not wait for its late ones. But where sending takes long itself
 * (a doorbell that is a system call), more of them go together.
 */
enum { FLUSH_NS = 50000, FLUSH_MAX_NS = 1000000, FLUSH_COSTS = 8 };

static uint8_t *put_field(uint8_t *to, unsigned tag, const void *ptr, size_t len)
{
	sl_put_le16(to, (uint16_t)tag);
	sl_put_le16(to + 2, (uint16_t)len);
	if (len)
		memcpy(to + 4, ptr, len);
	return to + 4 + len;
}

static uint8_t *put_u16(uint8_t *to, unsigned tag, uint16_t v)
{
	uint8_t le[2];

	sl_put_le16(le, v);
	return put_field(to, tag, le, sizeof(le));
}

static uint8_t *put_header(uint8_t *to, const struct sl_header_arg *h)
{
	size_t name_len = strlen(h->name);

	sl_put_le16(to, h->trailer ? SL_META_TRAILER : SL_META_HEADER);
	sl_put_le16(to + 2, (uint16_t)(1 + name_len + h->value_len));
	to[4] = (uint8_t)name_len;
	memcpy(to + 5, h->name, name_len);
	if (h->value_len)
		memcpy(to + 5 + name_len, h->value, h->value_len);
	return to + 5 + name_len + h->value_len;
}

static size_t text_field_len(const char *s)
{
	return s ? 4 + strlen(s) : 0;
}

/* Length of the metadata, beyond SL_RPC_MAX_META if it is too long anywhere. */
static size_t meta_len_of(const struct sl_reply_args *a)
{
	size_t len = text_field_len(a->content_type) + text_field_len(a->grpc_message);

	len += a->status ? 6 : 0;
	len += a->grpc_status ? 6 : 0;
	for (unsigned i = 0; i < a->header_cnt; i++) {
		size_t name_len = strlen(a->headers[i].name);

		if (name_len > UINT8_MAX || a->headers[i].value_len > SL_RPC_MAX_META)
			return SL_RPC_MAX_META + 1;
		len += 5 + name_len + a->headers[i].value_len;
	}
	return len;
}

static void put_meta(uint8_t *to, const struct sl_reply_args *a)
{
	if (a->content_type)
		to = put_field(to, SL_META_CONTENT_TYPE, a->content_type, strlen(a->content_type));
	if (a->status)
		to = put_u16(to, SL_META_STATUS, a->status);
	if (a->grpc_status)
		to = put_u16(to, SL_META_GRPC_STATUS, a->grpc_status);
	if (a->grpc_message)
		to = put_field(to, SL_META_GRPC_MESSAGE, a->grpc_message, strlen(a->grpc_message));
	for (unsigned i = 0; i < a->header_cnt; i++)
		to = put_header(to, &a->headers[i]);
}

static struct reply *reply_alloc(struct sl_backend *b, size_t bytes)
{
	size_t len = sizeof(struct reply) + bytes;
	struct reply *rp;

	if (sl_be_polling == b) {
		rp = sl_mem_alloc(&b->reply_mem, len);
		if (rp)
			rp->where = REPLY_POOLED;
		return rp;
	}
	if (atomic_fetch_add_explicit(&b->foreign_used, len, memory_order_relaxed) + len >
		    SL_BE_REPLY_MEM ||
	    !(rp = malloc(len))) {
		atomic_fetch_sub_explicit(&b->foreign_used, len, memory_order_relaxed);
		return NULL;
	}
	rp->where = REPLY_MALLOC;
	return rp;
}

void sl_be_reply_free(struct sl_backend *b, struct reply *rp)
{
	size_t bytes = sl_rpc_pad8(rp->entry.meta_len) + sl_rpc_pad8(rp->entry.len);

	switch (rp->where) {
	case REPLY_POOLED: sl_mem_free(&b->reply_mem, rp); break;
	case REPLY_MALLOC:
		atomic_fetch_sub_explicit(&b->foreign_used, sizeof(*rp) + bytes,
					  memory_order_relaxed);
		free(rp);
		break;
	default: break;
	}
}

static void append(struct channel *ch, struct reply *rp)
{
	rp->next = NULL;
	*ch->replies_end = rp;
	ch->replies_end = &rp->next;
}

/* Poll thread: a reply joins those that go out next; the last one of a request ends it. */
static void take_reply(struct sl_backend *b, struct reply *rp)
{
	struct request *rq = rp->rq;
	struct channel *ch = rq->channel;
	bool ends = !(rp->entry.flags & SL_ENTRY_MORE);
	struct reply *copy = rp;

	if (rp->discard || !ch->up || atomic_load_explicit(&rq->gone, memory_order_relaxed)) {
		sl_be_reply_free(b, rp);
		b->stats.cancelled += ends;
		/* Only REPLY_MALLOC is freed, and that one does not live in the request. */
		if (ends)
			sl_be_request_free(rq); /* NOLINT(clang-analyzer-unix.Malloc) */
		return;
	}
	if (rp->where == REPLY_EMBEDDED) {
		/* Lives in the request, which ends now. */
		copy = sl_mem_alloc(&b->reply_mem, sizeof(*copy));
		if (copy) {
			memcpy(copy, rp, sizeof(*copy));
			copy->where = REPLY_POOLED;
		} else {
			ch->link.error = -ENOBUFS; /* one that never reads its replies */
		}
	}
	if (copy)
		append(ch, copy);
	if (ends) {
		b->stats.replies++;
		sl_be_request_free(rq);
	}
}

static void wake(struct sl_backend *b)
{
	static const uint64_t one = 1;

	/* Pairs with the fence of go_to_sleep(): one of the two sees the other's store. */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&b->sleeping, memory_order_relaxed) &&
	    write(b->wake_fd, &one, sizeof(one)) < 0)
		return; /* full: it rings already */
}

static void hand_over(struct sl_backend *b, struct reply *rp)
{
	if (sl_be_polling == b) {
		sl_be_replies_take(b); /* earlier parts that another thread has handed over */
		take_reply(b, rp);
		return;
	}
	rp->next = atomic_load_explicit(&b->handed, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&b->handed, &rp->next, rp,
						      memory_order_release, memory_order_relaxed))
		;
	wake(b);
}

void sl_be_replies_take(struct sl_backend *b)
{
	struct reply *rp, *next, *in_order = NULL;

	if (!atomic_load_explicit(&b->handed, memory_order_relaxed))
		return;
	rp = atomic_exchange_explicit(&b->handed, NULL, memory_order_acquire);
	for (; rp; rp = next) {
		next = rp->next;
		rp->next = in_order;
		in_order = rp;
	}
	for (; in_order; in_order = next) {
		next = in_order->next;
		take_reply(b, in_order);
	}
}

/* Returns the time. */
static uint64_t fill_head(struct reply *rp, struct request *rq, enum sl_rpc_status status)
{
	uint64_t now = sl_now_ns();

	rp->rq = rq;
	rp->discard = false;
	rp->priority = rq->view.priority;
	rp->begun_ns = rq->begun_ns ? rq->begun_ns : now;
	rp->entry = (struct sl_rpc_entry){
		.id = rq->id,
		.status = (uint8_t)status,
		.time_us = (uint32_t)((now - rp->begun_ns) / SL_NS_PER_US),
	};
	return now;
}

/* With the reply that every request brings along, so this cannot fail. */
static void close_with(struct request *rq, enum sl_rpc_status status, bool discard)
{
	struct reply *rp = &rq->closing;

	(void)fill_head(rp, rq, status);
	rp->where = REPLY_EMBEDDED;
	rp->discard = discard;
	hand_over(rq->channel->b, rp);
}

void sl_be_request_close(struct request *rq, enum sl_rpc_status status)
{
	close_with(rq, status, false);
}

int sl_be_refuse(struct channel *ch, const struct sl_part *part, enum sl_rpc_status status)
{
	struct reply *rp = sl_mem_alloc(&ch->b->reply_mem, sizeof(*rp));

	if (!rp)
		return -ENOMEM;
	*rp = (struct reply){
		.entry = {.id = part->entry->id, .status = (uint8_t)status},
		.where = REPLY_POOLED,
		.priority = part->header->priority,
		.begun_ns = ch->b->now_ns,
	};
	append(ch, rp);
	return 0;
}

/* Replies that a long-running handler has made are on their way while it goes on. */
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

int sl_reply(struct sl_request_view *view, const struct sl_reply_args *args)
{
	struct request *rq = (struct request *)view;
	struct sl_backend *b = rq->channel->b;
	size_t meta_len = meta_len_of(args), padded = sl_rpc_pad8(meta_len);
	struct reply *rp;
	uint64_t now_ns;
	uint8_t *body;

	if (args->body_len > SL_RPC_MAX_MESSAGE || meta_len > SL_RPC_MAX_META)
		return -EMSGSIZE;
	if (atomic_load_explicit(&rq->gone, memory_order_relaxed)) {
		close_with(rq, SL_RPC_CANCELLED, true);
		return -ECANCELED;
	}
	rp = reply_alloc(b, padded + sl_rpc_pad8(args->body_len));
	if (!rp && args->more)
		return -EAGAIN;
	if (!rp) {
		close_with(rq, SL_RPC_REFUSED, false);
		return -ENOBUFS;
	}
	now_ns = fill_head(rp, rq, SL_RPC_OK);
	rp->entry.len = (uint32_t)args->body_len;
	rp->entry.meta_len = (uint16_t)meta_len;
	rp->entry.flags = (uint8_t)((args->more ? SL_ENTRY_MORE : 0) |
				    (args->no_message ? SL_ENTRY_NO_MESSAGE : 0));
	if (padded)
		memset(reply_bytes(rp) + padded - 8, 0, 8); /* the padding: no old bytes leave */
	put_meta(reply_bytes(rp), args);
	if (args->body_len) {
		body = reply_bytes(rp) + padded;
		memset(body + sl_rpc_pad8(args->body_len) - 8, 0, 8);
		memcpy(body, args->body, args->body_len);
	}
	hand_over(b, rp);
	flush_early(b, args->more, now_ns);
	return 0;
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
