/* SPDX-License-Identifier: Apache-2.0 */
#include "front/front.h"

const struct sl_front_ops *sl_front_detect(struct sl_span first)
{
	/* The h2 front checks the rest. No HTTP/1 method is called PRI. */
	static const struct sl_span magic = SL_SPAN_LIT("PRI ");

	if (first.len < magic.len)
		return sl_span_starts(magic, first) ? NULL : &sl_front_http1;
	return sl_span_starts(first, magic) ? &sl_front_h2 : &sl_front_http1;
}
