/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a record of a request. Its line of the access log is one line within its bound: JSON
 * for jansson, and in the combined format printable ASCII with six quotes.
 */
/* fuzz: max_len=1100 */
#include <jansson.h>

#include "control/access_line.h"
#include "event_bed.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_line(struct sl_strbuf *b, char *text, const struct sl_event *e,
		       enum sl_access_log_format format, uint32_t fields)
{
	const struct sl_cfg_access_log cfg = {.format = format, .fields = fields};

	sl_strbuf_fixed(b, text, SL_ACCESS_LINE_MAX);
	sl_access_line(b, e, &cfg, 1769860800123456789);
	must(!b->err && b->len);
	must(memchr(text, '\n', b->len) == text + b->len - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint32_t fields = size > 1 ? data[1] * 0x01010101u % (1u << SL_LOG_FIELD_CNT) : 0;
	const struct sl_event e = event_of(data, size);
	char text[SL_ACCESS_LINE_MAX];
	unsigned quotes = 0;
	struct sl_strbuf b;
	json_t *o;

	write_line(&b, text, &e, SL_ACCESS_LOG_JSON, fields);
	o = json_loadb(text, b.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	must(json_is_object(o));
	must(json_is_string(json_object_get(o, "outcome")));
	json_decref(o);
	write_line(&b, text, &e, SL_ACCESS_LOG_COMBINED, fields);
	for (size_t i = 0; i + 1 < b.len; i++) {
		must(text[i] >= ' ' && text[i] <= '~');
		quotes += text[i] == '"';
	}
	must(quotes == 6);
	return 0;
}
