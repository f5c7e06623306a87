/* SPDX-License-Identifier: Apache-2.0 */
#include "front/front.h"

const struct sl_front_ops *sl_front_detect(struct sl_span first)
{
	static const struct sl_span preface = SL_SPAN_LIT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");

	if (first.len >= preface.len)
		return sl_span_starts(first, preface) ? &sl_front_h2 : &sl_front_http1;
	return sl_span_starts(preface, first) ? NULL : &sl_front_http1;
}
