/* SPDX-License-Identifier: Apache-2.0 */
#include "front/trusted_headers.h"

#include "base/check.h"

const struct sl_span sl_trusted_header_names[SL_TRUSTED_CNT] = {
	[SL_TRUSTED_FOR] = SL_SPAN_LIT("x-forwarded-for"),
	[SL_TRUSTED_PROTO] = SL_SPAN_LIT("x-forwarded-proto"),
	[SL_TRUSTED_HOST] = SL_SPAN_LIT("x-forwarded-host"),
	[SL_TRUSTED_PORT] = SL_SPAN_LIT("x-forwarded-port"),
	[SL_TRUSTED_FORWARDED] = SL_SPAN_LIT("forwarded"),
	[SL_TRUSTED_SUBJECT] = SL_SPAN_LIT("sluice-client-subject"),
	[SL_TRUSTED_SAN] = SL_SPAN_LIT("sluice-client-san"),
	[SL_TRUSTED_KEY] = SL_SPAN_LIT("sluice-client-key"),
};

static uint8_t fold_byte(uint8_t c)
{
	c = sl_ascii_lower(c);
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ? c : '-';
}

bool sl_trusted_header_folds_to(struct sl_span name, struct sl_span lower)
{
	if (name.len != lower.len)
		return false;
	for (size_t i = 0; i < name.len; i++) {
		if (fold_byte(name.ptr[i]) != fold_byte(lower.ptr[i]))
			return false;
	}
	return true;
}

bool sl_trusted_header_is(struct sl_span name)
{
	for (unsigned i = 0; i < SL_TRUSTED_CNT; i++) {
		if (sl_trusted_header_folds_to(name, sl_trusted_header_names[i]))
			return true;
	}
	return false;
}

bool sl_trusted_header_is_framing(struct sl_span name)
{
	static const struct sl_span names[] = {
		SL_SPAN_LIT("content-length"),   SL_SPAN_LIT("content-type"),
		SL_SPAN_LIT("content-encoding"), SL_SPAN_LIT("transfer-encoding"),
		SL_SPAN_LIT("keep-alive"),       SL_SPAN_LIT("proxy-connection"),
	};

	for (unsigned i = 0; i < SL_ARRAY_LEN(names); i++) {
		if (sl_trusted_header_folds_to(name, names[i]))
			return !sl_span_eq_nocase(name, names[i]);
	}
	return false;
}
