/* SPDX-License-Identifier: Apache-2.0 */
#include "front/grpc/pb.h"

enum { VARINT_MAX = 10, TYPE_BITS = 3 };

static bool take_varint(struct sl_span *in, uint64_t *v)
{
	*v = 0;
	for (unsigned i = 0; i < VARINT_MAX && i < in->len; i++) {
		uint8_t b = in->ptr[i];

		if (i == VARINT_MAX - 1 && b > 1)
			return false;
		*v |= (uint64_t)(b & 0x7f) << (7 * i);
		if (b < 0x80) {
			*in = sl_span_skip(*in, i + 1);
			return true;
		}
	}
	return false;
}

static bool take_bytes(struct sl_span *in, uint64_t len, struct sl_span *bytes)
{
	if (len > in->len)
		return false;
	*bytes = sl_span_first(*in, (size_t)len);
	*in = sl_span_skip(*in, (size_t)len);
	return true;
}

bool sl_pb_next(struct sl_span *in, struct sl_pb_field *f)
{
	struct sl_span rest = *in;
	uint64_t key, len;
	bool ok;

	if (!rest.len || !take_varint(&rest, &key) || key > UINT32_MAX || key >> TYPE_BITS == 0)
		return false;
	*f = (struct sl_pb_field){.no = (uint32_t)(key >> TYPE_BITS), .type = key & 7};
	switch (f->type) {
	case SL_PB_VARINT: ok = take_varint(&rest, &f->number); break;
	case SL_PB_FIXED64: ok = take_bytes(&rest, sizeof(uint64_t), &f->bytes); break;
	case SL_PB_FIXED32: ok = take_bytes(&rest, sizeof(uint32_t), &f->bytes); break;
	case SL_PB_BYTES: ok = take_varint(&rest, &len) && take_bytes(&rest, len, &f->bytes); break;
	default: ok = false;
	}
	if (ok)
		*in = rest;
	return ok;
}

static uint8_t *put_varint(uint8_t *to, uint64_t v)
{
	for (; v > 0x7f; v >>= 7)
		*to++ = (uint8_t)(v | 0x80);
	*to++ = (uint8_t)v;
	return to;
}

uint8_t *sl_pb_put_head(uint8_t *to, uint32_t no, size_t len)
{
	return put_varint(put_varint(to, (uint64_t)no << TYPE_BITS | SL_PB_BYTES), len);
}

uint8_t *sl_pb_put_number(uint8_t *to, uint32_t no, uint64_t value)
{
	return put_varint(put_varint(to, (uint64_t)no << TYPE_BITS | SL_PB_VARINT), value);
}
