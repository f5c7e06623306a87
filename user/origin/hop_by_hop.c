/* SPDX-License-Identifier: Apache-2.0 */
#include "origin/hop_by_hop.h"

#include "base/check.h"

bool origin_options_note(struct origin_options *o, struct sl_span value)
{
	struct sl_span e;

	while (sl_span_next_element(&value, &e)) {
		if (e.len && o->cnt == ORIGIN_OPTIONS_MAX)
			return false;
		if (e.len)
			o->at[o->cnt++] = e;
	}
	return true;
}

bool origin_is_one_of(struct sl_span name, const struct sl_span *names, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++) {
		if (sl_span_eq_nocase(name, names[i]))
			return true;
	}
	return false;
}

bool origin_is_hop_by_hop(struct sl_span name)
{
	static const struct sl_span names[] = {
		SL_SPAN_LIT("connection"),
		SL_SPAN_LIT("keep-alive"),
		SL_SPAN_LIT("proxy-connection"),
		SL_SPAN_LIT("te"),
		SL_SPAN_LIT("trailer"),
		SL_SPAN_LIT("transfer-encoding"),
		SL_SPAN_LIT("upgrade"),
		SL_SPAN_LIT("content-length"),
		SL_SPAN_LIT("proxy-authenticate"),
	};

	return origin_is_one_of(name, names, SL_ARRAY_LEN(names));
}
