/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which front a connection gets, by its first bytes, within TLS if there is any. core/client.c asks with
 * more of them as long as that is not clear.
 */
#include "front/front.h"

const struct sl_front_ops *sl_front_detect(struct sl_span first)
{
	/* The rest of the preface is the h2 front's to check: no HTTP/1 method is called PRI. */
	static const struct sl_span magic = SL_SPAN_LIT("PRI ");

	if (first.len < magic.len)
		return sl_span_starts(magic, first) ? NULL : &sl_front_http1;
	return sl_span_starts(first, magic) ? &sl_front_h2 : &sl_front_http1;
}
