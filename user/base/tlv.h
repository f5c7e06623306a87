/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of fields: {u16 tag, u16 length, bytes} without gaps, little-endian.
 */
#ifndef SL_BASE_TLV_H
#define SL_BASE_TLV_H

#include "base/bytes.h"

enum { SL_TLV_HEAD = 4 };

/*
 * Takes the next field off `rest`. Returns false at the end (`rest` is empty) and for a field that
 * is cut off.
 */
static inline bool sl_tlv_next(struct sl_span *rest, uint16_t *tag, struct sl_span *value)
{
	uint16_t len;

	if (rest->len < SL_TLV_HEAD)
		return false;
	*tag = sl_get_le16(rest->ptr);
	len = sl_get_le16(rest->ptr + 2);
	if (len > rest->len - SL_TLV_HEAD)
		return false;
	*value = sl_span_of(rest->ptr + SL_TLV_HEAD, len);
	*rest = sl_span_skip(*rest, SL_TLV_HEAD + (size_t)len);
	return true;
}

struct sl_tlv_writer {
	uint8_t *at, *end;
	bool full;
};

/* Appends a field's header. Returns where to write its bytes, or NULL and sets `full`. */
static inline uint8_t *sl_tlv_room(struct sl_tlv_writer *w, uint16_t tag, size_t len)
{
	uint8_t *to = w->at + SL_TLV_HEAD;

	if (w->full || len > UINT16_MAX || (size_t)(w->end - w->at) < SL_TLV_HEAD + len) {
		w->full = true;
		return NULL;
	}
	sl_put_le16(w->at, tag);
	sl_put_le16(w->at + 2, (uint16_t)len);
	w->at = to + len;
	return to;
}

/* Append a field, or set `full`. */
static inline void sl_tlv_put(struct sl_tlv_writer *w, uint16_t tag, struct sl_span value)
{
	uint8_t *to = sl_tlv_room(w, tag, value.len);

	if (to && value.len)
		memcpy(to, value.ptr, value.len);
}
static inline void sl_tlv_put_u64(struct sl_tlv_writer *w, uint16_t tag, uint64_t value)
{
	uint8_t *to = sl_tlv_room(w, tag, sizeof(value));

	if (to)
		sl_put_le64(to, value);
}
static inline void sl_tlv_put_u32(struct sl_tlv_writer *w, uint16_t tag, uint32_t value)
{
	uint8_t *to = sl_tlv_room(w, tag, sizeof(value));

	if (to)
		sl_put_le32(to, value);
}
static inline void sl_tlv_put_u16(struct sl_tlv_writer *w, uint16_t tag, uint16_t value)
{
	uint8_t *to = sl_tlv_room(w, tag, sizeof(value));

	if (to)
		sl_put_le16(to, value);
}

#endif
