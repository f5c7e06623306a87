/* SPDX-License-Identifier: Apache-2.0 */
#include "core/exchange.h"

#include <string.h>

/* A block that is being written; `fail` is sticky. */
struct meta_writer {
	uint8_t *at, *end;
	bool fail;
};

static void put_field(struct meta_writer *w, enum sl_meta_tag tag, struct sl_span value)
{
	if (w->fail || value.len > UINT16_MAX || (size_t)(w->end - w->at) < value.len + 4) {
		w->fail = true;
		return;
	}
	sl_put_le16(w->at, (uint16_t)tag);
	sl_put_le16(w->at + 2, (uint16_t)value.len);
	if (value.len)
		memcpy(w->at + 4, value.ptr, value.len);
	w->at += 4 + value.len;
}

static void put_nonempty(struct meta_writer *w, enum sl_meta_tag tag, struct sl_span value)
{
	if (value.len)
		put_field(w, tag, value);
}

static void put_u16(struct meta_writer *w, enum sl_meta_tag tag, uint16_t value)
{
	uint8_t b[2];

	sl_put_le16(b, value);
	put_field(w, tag, sl_span_of(b, sizeof(b)));
}

static void put_header(struct meta_writer *w, const struct sl_header *h)
{
	size_t len = 1 + h->name.len + h->value.len;

	if (w->fail || h->name.len > UINT8_MAX || len > UINT16_MAX ||
	    (size_t)(w->end - w->at) < len + 4) {
		w->fail = true;
		return;
	}
	sl_put_le16(w->at, SL_META_HEADER);
	sl_put_le16(w->at + 2, (uint16_t)len);
	w->at[4] = (uint8_t)h->name.len;
	for (size_t i = 0; i < h->name.len; i++)
		w->at[5 + i] = sl_ascii_lower(h->name.ptr[i]);
	memcpy(w->at + 5 + h->name.len, h->value.ptr, h->value.len);
	w->at += 4 + len;
}

/* gRPC metadata goes through whole; other requests pass what the route names. */
static bool forwards(const struct sl_cfg_route *r, const struct sl_request *rq,
		     const struct sl_header *h)
{
	if (rq->proto == SL_PROTO_GRPC)
		return h->name.len && h->name.ptr[0] != ':';
	for (uint32_t i = 0; i < r->forward_header_cnt; i++) {
		if (sl_span_eq_nocase(h->name, sl_span_cstr(r->forward_headers[i])))
			return true;
	}
	return false;
}

static struct sl_span path_rest(const struct sl_cfg_route *r, const struct sl_request *rq)
{
	if (rq->proto == SL_PROTO_GRPC)
		return sl_span_skip(rq->path, 1);
	if (rq->proto == SL_PROTO_DATAGRAM)
		return rq->path;
	return r->strip_prefix ? sl_span_skip(rq->path, r->prefix_len) : rq->path;
}

static void write_fields(struct meta_writer *w, const struct sl_exchange *x,
			 const struct sl_request *rq)
{
	if (rq->proto != SL_PROTO_GRPC && rq->proto != SL_PROTO_DATAGRAM)
		put_nonempty(w, SL_META_METHOD, rq->method_name);
	if (rq->proto != SL_PROTO_HTTP1)
		put_u16(w, SL_META_PROTOCOL, rq->proto);
	put_nonempty(w, SL_META_PATH, path_rest(x->route, rq));
	put_nonempty(w, SL_META_QUERY, rq->query);
	put_nonempty(w, SL_META_CONTENT_TYPE, rq->content_type);
	if (!x->route->forward_header_cnt && rq->proto != SL_PROTO_GRPC)
		return;
	for (uint32_t i = 0; i < rq->header_cnt; i++) {
		if (forwards(x->route, rq, &rq->headers[i]))
			put_header(w, &rq->headers[i]);
	}
}

/* Rounded up to 8 by an empty field, so that the payload behind it is aligned as on the wire. */
static void pad_block(struct meta_writer *w, const uint8_t *start)
{
	size_t len = (size_t)(w->at - start), pad = (size_t)(sl_rpc_pad8(len) - len);

	if (pad && pad < 4)
		pad += 8;
	if (!pad)
		return;
	if (w->fail || (size_t)(w->end - w->at) < pad) {
		w->fail = true;
		return;
	}
	memset(w->at, 0, pad);
	sl_put_le16(w->at + 2, (uint16_t)(pad - 4));
	w->at += pad;
}

/* The common case: straight into the exchange's first frame. */
static bool encode_in_frame(struct sl_exchange *x, const struct sl_request *rq)
{
	struct sl_umem *u = x->core->net->umem;
	struct sl_frame *f = sl_umem_low(u) ? NULL : sl_frame_get(u, SL_FRAME_HELD, 0);
	struct meta_writer w;

	if (!f)
		return false;
	w = (struct meta_writer){.at = f->data, .end = f->data + sl_frame_tailroom(u, f)};
	write_fields(&w, x, rq);
	pad_block(&w, f->data);
	if (w.fail) {
		sl_frame_put(u, f);
		return false;
	}
	f->len = (uint16_t)(w.at - f->data);
	x->request = (struct sl_store){.head = f, .tail = f, .len = f->len, .frames = 1};
	x->request_meta_len = f->len;
	return true;
}

bool sl_meta_encode(struct sl_exchange *x, const struct sl_request *rq)
{
	uint8_t block[SL_RPC_MAX_META];
	struct meta_writer w = {.at = block, .end = block + sizeof(block)};
	size_t len;

	if (encode_in_frame(x, rq))
		return true;
	write_fields(&w, x, rq);
	pad_block(&w, block);
	len = (size_t)(w.at - block);
	if (w.fail || sl_store_copy(&x->request, x->core->net->umem, block, len) != len)
		return false;
	x->request_meta_len = (uint16_t)len;
	return true;
}
