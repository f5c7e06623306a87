/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a record of a request: its span is JSON for jansson, within its bound. */
/* fuzz: max_len=1100 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "control/otlp_span.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void end_name(char *name, size_t size)
{
	name[size - 1] = 0;
}

/* What the worker guarantees: enumerations are in range, names end, lengths fit. */
static void make_valid(struct sl_event *e)
{
	size_t used = 0;

	e->outcome %= SL_OUTCOME_CNT;
	e->proto %= SL_PROTO_CNT;
	e->method %= SL_METHOD_CNT;
	e->path_len %= sizeof(e->path) + 1;
	e->peer.family = e->peer.family % 3 == 0 ? 0 : e->peer.family % 3 == 1 ? 4 : 6;
	end_name(e->pool, sizeof(e->pool));
	end_name(e->backend, sizeof(e->backend));
	end_name(e->route, sizeof(e->route));
	for (unsigned i = 0; i < SL_EVENT_TEXT_CNT; i++) {
		if (used + e->text_len[i] > sizeof(e->texts))
			e->text_len[i] = 0;
		used += e->text_len[i];
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char text[SL_OTLP_SPAN_MAX];
	struct sl_event e = {0};
	struct sl_strbuf b;
	json_t *o;

	memcpy(&e, data, size < sizeof(e) ? size : sizeof(e));
	e.begun = size && data[0] & 1; /* a bool of other bytes is undefined */
	e.resumed = e.upgrade_ignored = false;
	make_valid(&e);
	sl_strbuf_fixed(&b, text, sizeof(text));
	sl_otlp_span(&b, &e, UINT64_MAX);
	must(!b.err);
	o = json_loadb(text, b.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	must(json_is_object(o));
	must(json_is_array(json_object_get(o, "attributes")));
	json_decref(o);
	return 0;
}
