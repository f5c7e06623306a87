/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a record of a request: its span is JSON for jansson, within its bound. */
/* fuzz: max_len=1100 */
#include <jansson.h>

#include "base/check.h"
#include "control/otlp_span.h"
#include "event_bed.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct sl_event e = event_of(data, size);
	char text[SL_OTLP_SPAN_MAX];
	struct sl_strbuf b;
	json_t *o;

	sl_strbuf_fixed(&b, text, sizeof(text));
	sl_otlp_span(&b, &e, UINT64_MAX);
	must(!b.err);
	o = json_loadb(text, b.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	must(json_is_object(o));
	must(json_is_array(json_object_get(o, "attributes")));
	json_decref(o);
	return 0;
}
