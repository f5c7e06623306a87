/* SPDX-License-Identifier: Apache-2.0 */
#include "front/said.h"

#include "base/check.h"

const struct sl_span sl_said_names[SL_SAID_CNT] = {
	[SL_SAID_FOR] = SL_SPAN_LIT("x-forwarded-for"),
	[SL_SAID_PROTO] = SL_SPAN_LIT("x-forwarded-proto"),
	[SL_SAID_HOST] = SL_SPAN_LIT("x-forwarded-host"),
	[SL_SAID_PORT] = SL_SPAN_LIT("x-forwarded-port"),
	[SL_SAID_FORWARDED] = SL_SPAN_LIT("forwarded"),
	[SL_SAID_SUBJECT] = SL_SPAN_LIT("sluice-client-subject"),
	[SL_SAID_SAN] = SL_SPAN_LIT("sluice-client-san"),
};

/* Maps a byte as such a server does. */
static uint8_t fold(uint8_t c)
{
	c = sl_ascii_lower(c);
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ? c : '-';
}

bool sl_said_folds_to(struct sl_span name, struct sl_span lower)
{
	if (name.len != lower.len)
		return false;
	for (size_t i = 0; i < name.len; i++) {
		if (fold(name.ptr[i]) != fold(lower.ptr[i]))
			return false;
	}
	return true;
}

bool sl_said_is(struct sl_span name)
{
	for (unsigned i = 0; i < SL_SAID_CNT; i++) {
		if (sl_said_folds_to(name, sl_said_names[i]))
			return true;
	}
	return false;
}

bool sl_said_is_framing(struct sl_span name)
{
	static const struct sl_span names[] = {
		SL_SPAN_LIT("content-length"),   SL_SPAN_LIT("content-type"),
		SL_SPAN_LIT("content-encoding"), SL_SPAN_LIT("transfer-encoding"),
		SL_SPAN_LIT("keep-alive"),       SL_SPAN_LIT("proxy-connection"),
	};

	for (unsigned i = 0; i < SL_ARRAY_LEN(names); i++) {
		if (sl_said_folds_to(name, names[i]))
			return !sl_span_eq_nocase(name, names[i]);
	}
	return false;
}
