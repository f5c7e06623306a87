/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/clock.h"
#include "base/tlv.h"
#include "core/client.h"
#include "core/forwarded.h"
#include "core/rules.h"
#include "core/trace.h"
#include "front/path.h"
#include "front/trusted_headers.h"

static void put_nonempty(struct sl_tlv_writer *w, uint16_t tag, struct sl_span value)
{
	if (value.len)
		sl_tlv_put(w, tag, value);
}

static void put_field(struct sl_tlv_writer *w, uint16_t tag, const struct sl_header *h)
{
	uint8_t *to;

	w->full |= h->name.len > UINT8_MAX;
	to = sl_tlv_room(w, tag, 1 + h->name.len + h->value.len);
	if (!to)
		return;
	*to++ = (uint8_t)h->name.len;
	for (size_t i = 0; i < h->name.len; i++)
		*to++ = sl_ascii_lower(h->name.ptr[i]);
	if (h->value.len)
		memcpy(to, h->value.ptr, h->value.len);
}

/* The client's own field is hop-by-hop. */
static const char upgrade[] = "upgrade";

/* Returns true for WebSocket's fields. CONNECT has no key (RFC 8441 5). */
static bool is_of_upgrade(const struct sl_exchange *x, const struct sl_request *rq,
			  struct sl_span name)
{
	static const struct sl_span prefix = SL_SPAN_LIT("sec-websocket-");

	return x->stream.upgrade && sl_span_eq_nocase(sl_span_first(name, prefix.len), prefix) &&
	       !(rq->must_upgrade && sl_span_eq_nocase(name, sl_span_str("sec-websocket-key")));
}

static void put_headers(struct sl_tlv_writer *w, const struct sl_exchange *x,
			const struct sl_request *rq)
{
	for (uint32_t i = 0; i < rq->header_cnt; i++) {
		struct sl_span name = rq->headers[i].name;

		if ((sl_forwarded_passes(x->route, name, rq->all_headers) ||
		     is_of_upgrade(x, rq, name)) &&
		    !(x->note && sl_trace_hides(x, name)) &&
		    !sl_span_eq_nocase(name, sl_span_cstr(upgrade)))
			put_field(w, SL_META_HEADER, &rq->headers[i]);
	}
}

static void put_budget(struct sl_tlv_writer *w, const struct sl_exchange *x)
{
	uint64_t left_us = (x->deadline_ns - x->core->now_ns) / SL_NS_PER_US;

	if (x->deadline_ns != UINT64_MAX && x->deadline_ns > x->core->now_ns &&
	    left_us >= SL_RPC_TIME_MAX)
		sl_tlv_put_u64(w, SL_META_BUDGET, left_us);
}

static void write_fields(struct sl_tlv_writer *w, const struct sl_exchange *x,
			 const struct sl_request *rq)
{
	const struct sl_cfg_route *r = x->route;
	struct sl_span path = r->strip_prefix ? sl_path_behind(rq->path, r->prefix_len) : rq->path;

	if (!rq->call.len)
		put_nonempty(w, SL_META_METHOD, rq->method_name);
	if (rq->proto) /* 0: default */
		sl_tlv_put_u16(w, SL_META_PROTOCOL, rq->proto);
	if (x->quota->hash)
		sl_tlv_put_u32(w, SL_META_CLIENT, (uint32_t)x->quota->hash);
	put_nonempty(w, SL_META_PATH, rq->call.len ? rq->call : path);
	if (rq->query.len || (r->forward_all && rq->query.ptr))
		sl_tlv_put(w, SL_META_QUERY, rq->query);
	put_nonempty(w, SL_META_CONTENT_TYPE, rq->content_type);
	if (r->forward_all)
		put_nonempty(w, SL_META_AUTHORITY, rq->authority);
	put_budget(w, x);
	if (x->stream.open_ended && (!x->open || rq->content_length != SL_LEN_UNKNOWN))
		sl_tlv_put_u64(w, SL_META_LENGTH, x->open ? rq->content_length : 0);
	if (x->stream.upgrade)
		put_field(w, SL_META_HEADER,
			  &(struct sl_header){sl_span_cstr(upgrade), sl_exchange_upgrade(x)});
	if (r->request_rules.cnt)
		sl_rules_put_request(w, x, rq);
	if (r->forward_header_cnt || rq->all_headers || r->forward_all || x->stream.upgrade)
		put_headers(w, x, rq);
	if (x->note)
		sl_trace_put(w, x, rq);
	if (r->forward_header_cnt || r->forward_all || x->client->filtered || x->key)
		sl_forwarded_put(w, x, rq);
}

static void pad_block(struct sl_tlv_writer *w, const uint8_t *start)
{
	size_t len = (size_t)(w->at - start), pad = (size_t)(sl_rpc_pad8(len) - len), zeros;
	uint8_t *to;

	if (!pad)
		return;
	if (pad < SL_TLV_HEAD)
		pad += 8;
	zeros = pad - SL_TLV_HEAD;
	to = sl_tlv_room(w, 0, zeros);
	if (!to || !zeros)
		return;
	if (zeros >= 4) {
		sl_put_le32(to, 0);
		sl_put_le32(to + zeros - 4, 0);
	} else {
		to[0] = to[zeros / 2] = to[zeros - 1] = 0;
	}
}

static bool encode_in_frame(struct sl_exchange *x, const struct sl_request *rq)
{
	struct sl_umem *u = x->core->net->umem;
	struct sl_frame *f = sl_umem_low(u) ? NULL : sl_frame_get(u, SL_FRAME_HELD, 0);
	struct sl_tlv_writer w;

	if (!f)
		return false;
	w = (struct sl_tlv_writer){.at = f->data, .end = f->data + sl_frame_tailroom(u, f)};
	write_fields(&w, x, rq);
	pad_block(&w, f->data);
	if (w.full) {
		sl_frame_put(u, f);
		return false;
	}
	f->len = (uint16_t)(w.at - f->data);
	x->request = (struct sl_store){.head = f, .tail = f, .len = f->len, .frames = 1};
	x->request_meta_len = f->len;
	return true;
}

/*
 * Encodes a head larger than a frame. Not inlined: keeps its buffer off the stack of other
 * requests.
 */
static __attribute__((noinline)) bool encode_large(struct sl_exchange *x,
						   const struct sl_request *rq)
{
	SL_UNINIT uint8_t block[SL_RPC_MAX_ASKED];
	struct sl_tlv_writer w = {.at = block, .end = block + sizeof(block)};
	size_t len;

	write_fields(&w, x, rq);
	pad_block(&w, block);
	len = (size_t)(w.at - block);
	if (w.full || sl_store_copy(&x->request, x->core->net->umem, block, len) != len)
		return false;
	x->request_meta_len = (uint16_t)len;
	return true;
}

bool sl_meta_encode(struct sl_exchange *x, const struct sl_request *rq)
{
	return encode_in_frame(x, rq) || encode_large(x, rq);
}

static bool may_be_trailer(struct sl_span name)
{
	static const struct sl_span never[] = {
		SL_SPAN_LIT("authorization"),
		SL_SPAN_LIT("cache-control"),
		SL_SPAN_LIT("connection"),
		SL_SPAN_LIT("content-encoding"),
		SL_SPAN_LIT("content-length"),
		SL_SPAN_LIT("content-range"),
		SL_SPAN_LIT("content-type"),
		SL_SPAN_LIT("cookie"),
		SL_SPAN_LIT("expect"),
		SL_SPAN_LIT("host"),
		SL_SPAN_LIT("keep-alive"),
		SL_SPAN_LIT("max-forwards"),
		SL_SPAN_LIT("proxy-connection"),
		SL_SPAN_LIT("proxy-authorization"),
		SL_SPAN_LIT("range"),
		SL_SPAN_LIT("te"),
		SL_SPAN_LIT("trailer"),
		SL_SPAN_LIT("transfer-encoding"),
		SL_SPAN_LIT("upgrade"),
	};

	for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++) {
		if (sl_trusted_header_folds_to(name, never[i]))
			return false;
	}
	return true;
}

bool sl_meta_encode_trailers(struct sl_exchange *x, const struct sl_header *fields, uint32_t cnt)
{
	SL_UNINIT uint8_t block[SL_RPC_MAX_ASKED];
	struct sl_tlv_writer w = {.at = block, .end = block + sizeof(block)};
	size_t len;

	for (uint32_t i = 0; i < cnt; i++) {
		if (sl_forwarded_passes(x->route, fields[i].name, false) &&
		    may_be_trailer(fields[i].name))
			put_field(&w, SL_META_TRAILER, &fields[i]);
	}
	len = (size_t)(w.at - block);
	if (w.full || sl_store_copy(&x->request, x->core->net->umem, block, len) != len)
		return false;
	x->trailers_len = (uint16_t)len;
	return true;
}
