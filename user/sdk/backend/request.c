/* SPDX-License-Identifier: Apache-2.0 */
#include "sdk/backend/internal.h"
#include "base/check.h"
#include "base/tlv.h"

static struct request **bucket_of(struct channel *ch, uint64_t id)
{
	/* Multiplicative hash, random odd factor: a gateway cannot aim at a bucket. */
	return &ch->bucket[(id * ch->b->hash_key) >> 52 & (SL_BE_BUCKETS - 1)];
}

struct request *sl_be_find(const struct channel *ch, uint64_t id)
{
	struct request *rq = *bucket_of((struct channel *)(uintptr_t)ch, id);

	while (rq && rq->id != id)
		rq = rq->hash_next;
	return rq;
}

static void set_field(struct request *rq, unsigned tag, const uint8_t *ptr, uint16_t len)
{
	struct sl_request_view *v = &rq->view;

	switch (tag) {
	case SL_META_METHOD:
		v->method = (const char *)ptr;
		v->method_len = len;
		break;
	case SL_META_PATH:
		v->path = (const char *)ptr;
		v->path_len = len;
		break;
	case SL_META_QUERY:
		v->query = (const char *)ptr;
		v->query_len = len;
		break;
	case SL_META_CONTENT_TYPE:
		v->content_type = (const char *)ptr;
		v->content_type_len = len;
		break;
	case SL_META_LENGTH:
		if (len == sizeof(uint64_t))
			v->length = sl_get_le64(ptr);
		break;
	case SL_META_PROTOCOL:
		if (len == sizeof(uint16_t))
			v->protocol = (uint8_t)sl_get_le16(ptr);
		break;
	case SL_META_BUDGET:
		if (len == sizeof(uint64_t) && !v->budget_us)
			v->long_budget_us = sl_get_le64(ptr);
		break;
	case SL_META_CLIENT:
		if (len == sizeof(uint32_t))
			v->client = sl_get_le32(ptr);
		break;
	default: break;
	}
}

struct request *sl_be_request_new(struct channel *ch, const struct sl_part *part)
{
	const struct sl_rpc_entry *e = part->entry;
	size_t meta = (part->meta.len + 15) & ~(size_t)15;
	bool apart = ch->b->opt.place && e->len && !(e->flags & SL_ENTRY_STREAM);
	size_t size = sizeof(struct request) + 16 + meta + (apart ? 0 : e->len);
	uint32_t credit = e->flags & SL_ENTRY_STREAM ? SL_RPC_STREAM_WINDOW : SL_RPC_INITIAL_WINDOW;
	struct request *rq, **bucket;

	if (ch->open_cnt >= SL_BE_OPEN_MAX || ch->mem_used + size > SL_BE_CHANNEL_MEM)
		return NULL;
	rq = sl_capped_malloc(&ch->b->request_mem, size);
	if (!rq)
		return NULL;
	*rq = (struct request){
		.channel = ch,
		.share = &ch->unknown,
		.id = e->id,
		.size = size,
		.class = part->header->priority,
		.deadline_ns = UINT64_MAX,
		.credit = credit,
		.room = credit,
		.in_credit = SL_RPC_PART_WINDOW,
		.view = {.idempotent = e->flags & SL_ENTRY_IDEMPOTENT,
			 .compressed = e->flags & SL_ENTRY_COMPRESSED,
			 .body_len = e->len,
			 .priority = part->header->priority,
			 .budget_us = e->time_us < SL_RPC_TIME_MAX ? e->time_us : 0,
			 .arrived_ns = ch->b->now_ns,
			 .meta_len = e->meta_len,
			 .length = UINT64_MAX},
	};
	if (rq->view.budget_us)
		rq->deadline_ns = ch->b->now_ns + rq->view.budget_us * UINT64_C(1000);
	rq->view.meta = rq->bytes;
	if (!apart)
		rq->body = (uint8_t *)(((uintptr_t)rq->bytes + meta + 15) & ~(uintptr_t)15);
	rq->view.body = rq->body;
	sl_list_add_tail(&ch->open, &rq->node);
	sl_list_init(&rq->queue);
	sl_list_init(&rq->window);
	sl_list_init(&rq->stalled);
	rq->waiting_end = &rq->waiting;
	rq->parts_end = &rq->parts;
	bucket = bucket_of(ch, rq->id);
	rq->hash_next = *bucket;
	*bucket = rq;
	ch->open_cnt++;
	ch->mem_used += size;
	ch->b->open_cnt++;
	return rq;
}

bool sl_be_request_parse(struct request *rq, const struct sl_part *part)
{
	struct sl_span rest, value;
	uint16_t tag;

	if (part->meta.len)
		memcpy(rq->bytes, part->meta.ptr, part->meta.len);
	rest = sl_span_of(rq->bytes, part->meta.len);
	while (sl_tlv_next(&rest, &tag, &value)) {
		rq->has_headers |= tag == SL_META_HEADER;
		set_field(rq, tag, value.ptr, (uint16_t)value.len);
	}
	sl_be_share_join(rq);
	return rest.len == 0;
}

bool sl_be_request_place(struct request *rq)
{
	struct channel *ch = rq->channel;
	struct sl_backend *b = ch->b, *outer;

	if (rq->body)
		return true;
	outer = sl_be_step_out();
	rq->body = b->opt.place(b->opt.arg, &rq->view);
	sl_be_polling = outer;
	rq->where = BODY_PLACED;
	if (!rq->body) {
		rq->where = BODY_APART;
		if (rq->view.body_len <= SL_BE_CHANNEL_MEM - ch->mem_used)
			rq->body = sl_capped_malloc(&b->request_mem, rq->view.body_len);
		if (!rq->body)
			return false;
		rq->size += rq->view.body_len;
		ch->mem_used += rq->view.body_len;
	}
	rq->view.body = rq->body;
	return true;
}

void sl_be_request_free(struct request *rq)
{
	struct channel *ch = rq->channel;
	struct request **at = bucket_of(ch, rq->id);

	sl_be_replies_drop(rq);
	sl_be_share_leave(rq);
	sl_be_stream_free(rq);
	if (rq->where == BODY_PLACED)
		sl_be_upcall(rq, ch->b->opt.unplace);
	else if (rq->where == BODY_APART)
		sl_capped_free(&ch->b->request_mem, rq->body);
	while (*at != rq)
		at = &(*at)->hash_next;
	*at = rq->hash_next;
	sl_list_del(&rq->node);
	if (!sl_list_empty(&rq->queue)) {
		sl_list_del(&rq->queue);
		ch->b->queue_cnt--;
	}
	ch->open_cnt--;
	ch->mem_used -= rq->size;
	ch->b->open_cnt--;
	sl_capped_free(&ch->b->request_mem, rq);
}
