/* SPDX-License-Identifier: Apache-2.0 */
/* Parts are copied first: the gateway can change the ring. */
#include <errno.h>
#include "sdk/backend/internal.h"
#include "base/clock.h"
#include "base/tlv.h"

enum { HEARD = 4 * SL_RPC_PART_WINDOW };

static bool may_tell(const struct request *rq)
{
	return !atomic_load(&rq->over) && !atomic_load(&rq->gone);
}

static void tell_open(void *arg, struct sl_request_view *view)
{
	((struct request *)view)->channel->b->opt.on_stream->on_open(arg, view);
}

static void tell_data(void *arg, struct sl_request_view *view)
{
	struct request *rq = (struct request *)view;

	view->compressed = rq->parts->compressed;
	rq->channel->b->opt.on_stream->on_data(arg, view, rq->parts->bytes, rq->parts->len,
					       rq->parts->left);
}

static void tell_end(void *arg, struct sl_request_view *view)
{
	((struct request *)view)->channel->b->opt.on_stream->on_end(arg, view);
}

static uint32_t count_of(const struct part *p)
{
	return p->len > SL_RPC_MIN_COST ? p->len : SL_RPC_MIN_COST;
}

static void drop_first(struct request *rq)
{
	struct part *p = rq->parts;

	rq->parts = p->next;
	if (!rq->parts)
		rq->parts_end = &rq->parts;
	rq->in_kept -= count_of(p);
	rq->channel->mem_used -= sizeof(*p) + p->len;
	sl_capped_free(&rq->channel->b->request_mem, p);
}

static void widen_window(struct request *rq)
{
	struct sl_backend *b = rq->channel->b;

	if (rq->wide || rq->in_kept || rq->in_given < HEARD || b->wide_cnt == SL_RPC_WIDE_MAX)
		return;
	rq->wide = true;
	b->wide_cnt++;
}

static void give_credit(struct request *rq)
{
	uint32_t window, most, more;

	widen_window(rq);
	window = rq->wide ? SL_RPC_INITIAL_WINDOW : SL_RPC_PART_WINDOW;
	most = rq->in_kept < window ? window - rq->in_kept : 0;
	more = rq->in_credit < most ? most - rq->in_credit : 0;
	if (more < window / 2 || rq->ended || (may_tell(rq) && atomic_load(&rq->paused)))
		return;
	rq->in_given += rq->in_given < HEARD ? more : 0;
	rq->in_credit += more;
	rq->in_due += more;
	sl_list_del(&rq->window);
	sl_list_add_tail(&rq->channel->windows, &rq->window);
	rq->channel->link.windows_due = true;
	sl_be_channel_wake(rq->channel);
}

static void deliver_parts(struct request *rq)
{
	while (rq->parts && may_tell(rq) && !atomic_load(&rq->paused)) {
		sl_be_upcall(rq, tell_data);
		drop_first(rq);
	}
	if (!rq->parts && (rq->ended || rq->ignored) && !rq->told_end && may_tell(rq) &&
	    !atomic_load(&rq->paused)) {
		rq->told_end = true;
		sl_be_upcall(rq, tell_end);
	}
	/* Input after the reply is dropped but credited: its client may only then read. */
	while (rq->parts && !may_tell(rq))
		drop_first(rq);
	give_credit(rq);
}

void sl_be_stream_over(struct request *rq)
{
	if (rq->stream)
		deliver_parts(rq);
}

void sl_be_stream_open(struct request *rq, const struct sl_part *part)
{
	struct sl_backend *b = rq->channel->b;
	const char *protocol;
	size_t len;

	rq->stream = true;
	/* RFC 9110 7.8: an unsupported Upgrade is ignored; no body follows. */
	rq->ignored = !b->opt.upgrades && sl_request_header(&rq->view, "upgrade", &protocol, &len);
	rq->ended = !(part->entry->flags & SL_ENTRY_MORE);
	rq->view.expect_continue = part->entry->flags & SL_ENTRY_EXPECT;
	atomic_store(&rq->expects, rq->view.expect_continue);
	rq->state = REQUEST_HANDLED;
	rq->begun_ns = b->now_ns;
	rq->together = 1;
	b->stats.requests++;
	sl_be_upcall(rq, tell_open);
	deliver_parts(rq);
}

static bool keep_part(struct request *rq, struct sl_span bytes)
{
	struct channel *ch = rq->channel;
	size_t size = sizeof(struct part) + bytes.len;
	struct part *p = NULL;

	if (ch->mem_used + size <= SL_BE_CHANNEL_MEM)
		p = sl_capped_malloc(&ch->b->request_mem, size);
	if (!p)
		return false;
	rq->in_left -= (uint32_t)bytes.len;
	*p = (struct part){
		.len = (uint32_t)bytes.len, .left = rq->in_left, .compressed = rq->in_compressed};
	if (bytes.len)
		memcpy(p->bytes, bytes.ptr, bytes.len);
	*rq->parts_end = p;
	rq->parts_end = &p->next;
	rq->in_kept += count_of(p);
	ch->mem_used += size;
	return true;
}

static bool entry_begins(struct request *rq, const struct sl_rpc_entry *e)
{
	bool more = e->flags & SL_ENTRY_MORE, compressed = e->flags & SL_ENTRY_COMPRESSED;
	uint32_t cost = sl_rpc_cost(e);

	if (rq->ended || cost > rq->in_credit || (more && e->meta_len) ||
	    (!more && (e->len || e->rest || rq->in_rest || compressed)) ||
	    (rq->in_rest && (e->len + e->rest != rq->in_rest || compressed != rq->in_compressed)))
		return false;
	rq->in_credit -= cost;
	rq->in_left = e->len + e->rest;
	rq->in_compressed = compressed;
	rq->ended = !more;
	return true;
}

static void refuse_stream(struct request *rq, enum sl_rpc_status status)
{
	if (!may_tell(rq))
		return;
	sl_be_replies_drop(rq);
	if (sl_be_answer(rq->channel, rq->id, rq->class, status))
		rq->channel->link.error = -ENOBUFS;
	sl_be_stream_cancel(rq);
}

static bool keep_trailers(struct request *rq, const struct sl_part *part)
{
	struct sl_span block = part->meta, rest = block, field;
	uint16_t tag;

	while (sl_tlv_next(&rest, &tag, &field))
		;
	if (rest.len)
		return false;
	rq->trailers = sl_capped_malloc(&rq->channel->b->request_mem, block.len);
	if (!rq->trailers) {
		refuse_stream(rq, SL_RPC_REFUSED);
		return true;
	}
	memcpy(rq->trailers, block.ptr, block.len);
	rq->view.trailers = rq->trailers;
	rq->view.trailers_len = (uint16_t)block.len;
	rq->channel->mem_used += block.len;
	return true;
}

bool sl_be_stream_part(struct request *rq, const struct sl_part *part)
{
	const struct sl_rpc_entry *e = part->entry;

	if (!rq->stream || rq->in_from != (part->first ? NULL : part->header) ||
	    (part->first && !entry_begins(rq, e)))
		return false;
	rq->in_from = part->last ? NULL : part->header;
	if (rq->in_compressed && !rq->channel->b->opt.compressed)
		refuse_stream(rq, SL_RPC_COMPRESSED);
	if (part->meta.len && !keep_trailers(rq, part))
		return false;
	if (part->last)
		rq->in_rest = e->rest;
	if (!rq->ended && may_tell(rq) && (part->body.len || (part->first && part->last)) &&
	    !keep_part(rq, part->body))
		refuse_stream(rq, SL_RPC_REFUSED);
	deliver_parts(rq);
	return true;
}

static void tell_cancel(void *arg, struct sl_request_view *view)
{
	((struct request *)view)->channel->b->opt.on_stream->on_cancel(arg, view);
}

void sl_be_stream_cancel(struct request *rq)
{
	bool told = atomic_load(&rq->over);

	if (!atomic_exchange_explicit(&rq->gone, true, memory_order_relaxed) && !told)
		sl_be_upcall(rq, tell_cancel);
	while (rq->parts)
		drop_first(rq);
}

unsigned sl_be_stream_grants(struct channel *ch, struct sl_rpc_window *to, unsigned max)
{
	struct sl_list *node;
	unsigned n = 0;

	while (n < max && (node = sl_list_pop_head(&ch->windows))) {
		struct request *rq = sl_container_of(node, struct request, window);

		to[n++] = (struct sl_rpc_window){.id = rq->id, .bytes = rq->in_due};
		rq->in_due = 0;
	}
	return n;
}

static void take_resumed(struct sl_backend *b)
{
	struct request *rq, *next;

	rq = atomic_exchange_explicit(&b->resumed, NULL, memory_order_acquire);
	for (; rq; rq = next) {
		next = rq->resume_next;
		rq->resume_next = b->resumed_next;
		b->resumed_next = rq;
	}
}

void sl_be_stream_free(struct request *rq)
{
	struct sl_backend *b = rq->channel->b;
	struct request **at = &b->resumed_next;

	if (atomic_load(&rq->resuming)) {
		take_resumed(b);
		while (*at && *at != rq)
			at = &(*at)->resume_next;
		if (*at)
			*at = rq->resume_next;
	}
	b->wide_cnt -= rq->wide;
	sl_list_del(&rq->window);
	while (rq->parts)
		drop_first(rq);
	if (!rq->trailers)
		return;
	rq->channel->mem_used -= rq->view.trailers_len;
	sl_capped_free(&b->request_mem, rq->trailers);
}

bool sl_be_streams_take(struct sl_backend *b)
{
	struct request *rq;

	if (!atomic_load_explicit(&b->resumed, memory_order_relaxed) && !b->resumed_next)
		return false;
	take_resumed(b);
	while ((rq = b->resumed_next)) {
		b->resumed_next = rq->resume_next;
		atomic_store(&rq->resuming, false);
		deliver_parts(rq);
	}
	return true;
}

void sl_stream_pause(struct sl_request_view *view)
{
	atomic_store(&((struct request *)view)->paused, true);
}

void sl_stream_resume(struct sl_request_view *view)
{
	struct request *rq = (struct request *)view;
	struct sl_backend *b = rq->channel->b;

	atomic_store(&rq->paused, false);
	if (atomic_exchange(&rq->resuming, true))
		return;
	rq->resume_next = atomic_load_explicit(&b->resumed, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&b->resumed, &rq->resume_next, rq,
						      memory_order_release, memory_order_relaxed))
		;
	sl_be_wake(b);
}
