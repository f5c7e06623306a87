/* SPDX-License-Identifier: Apache-2.0 */
#include "origin/reply.h"

#include "origin/hop_by_hop.h"
#include "base/check.h"

bool origin_reply_take(struct origin_reply_fields *out, const struct origin_fields *f,
		       bool trailers)
{
	unsigned max = trailers ? ORIGIN_TRAILERS_MAX : ORIGIN_HEADERS_MAX, n = 0;
	struct origin_options options = {0};

	for (uint32_t i = 0; i < f->cnt; i++) {
		struct sl_span name = f->at[i].name;
		uint8_t *p = (uint8_t *)(uintptr_t)name.ptr;

		for (size_t k = 0; k < name.len; k++)
			p[k] = sl_ascii_lower(p[k]);
		p[name.len] = 0;
		if (sl_span_eq(name, sl_span_str("connection")) &&
		    !origin_options_note(&options, f->at[i].value))
			return false;
	}
	for (uint32_t i = 0; i < f->cnt; i++) {
		const struct sl_header *h = &f->at[i];

		if (origin_is_hop_by_hop(h->name) ||
		    origin_is_one_of(h->name, options.at, options.cnt))
			continue;
		if (n++ == max || out->cnt == SL_ARRAY_LEN(out->at))
			return false;
		out->at[out->cnt++] = (struct sl_header_arg){.name = (const char *)h->name.ptr,
							     .value = h->value.ptr,
							     .value_len = h->value.len,
							     .trailer = trailers};
	}
	return true;
}
