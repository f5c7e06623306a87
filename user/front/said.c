/* SPDX-License-Identifier: Apache-2.0 */
#include "front/said.h"

const struct sl_span sl_said_names[SL_SAID_CNT] = {
	[SL_SAID_FOR] = SL_SPAN_LIT("x-forwarded-for"),
	[SL_SAID_PROTO] = SL_SPAN_LIT("x-forwarded-proto"),
	[SL_SAID_HOST] = SL_SPAN_LIT("x-forwarded-host"),
	[SL_SAID_PORT] = SL_SPAN_LIT("x-forwarded-port"),
	[SL_SAID_FORWARDED] = SL_SPAN_LIT("forwarded"),
	[SL_SAID_SUBJECT] = SL_SPAN_LIT("sluice-client-subject"),
	[SL_SAID_SAN] = SL_SPAN_LIT("sluice-client-san"),
};

bool sl_said_is(struct sl_span name)
{
	for (unsigned i = 0; i < SL_SAID_CNT; i++) {
		if (sl_span_eq_nocase(name, sl_said_names[i]))
			return true;
	}
	return false;
}
