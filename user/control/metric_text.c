/* SPDX-License-Identifier: Apache-2.0 */
#include "control/metric_text.h"

void sl_metric_head(struct sl_strbuf *b, const char *name, const char *type, const char *help)
{
	sl_strbuf_printf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* The format has no escape for other control characters than line feed. */
static bool has_controls(const char *value)
{
	for (const char *c = value; *c; c++) {
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			return true;
	}
	return false;
}

static void put_replaced(struct sl_strbuf *b, const char *value)
{
	sl_strbuf_char(b, '"');
	for (const char *c = value; *c; c++) {
		if (*c == '\\' || *c == '"')
			sl_strbuf_char(b, '\\');
		if (*c == '\n')
			sl_strbuf_str(b, "\\n");
		else
			sl_strbuf_char(b, *c < 0x20 || *c == 0x7f ? '?' : *c);
	}
	sl_strbuf_char(b, '"');
}

void sl_metric_label(struct sl_strbuf *b, const char *name, const char *value)
{
	sl_strbuf_str(b, name);
	sl_strbuf_char(b, '=');
	if (has_controls(value))
		put_replaced(b, value);
	else
		sl_strbuf_json_str(b, sl_span_cstr(value)); /* the same escapes, valid UTF-8 */
}
