/* SPDX-License-Identifier: Apache-2.0 */
#include "control/metric_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"

static void put_help(const struct sl_metric_text *m, const char *help)
{
	for (const char *c = help; *c; c++) {
		if (*c == '\\' || (m->openmetrics && *c == '"'))
			sl_strbuf_char(m->b, '\\');
		sl_strbuf_char(m->b, *c);
	}
}

static bool ends_in(const char *name, int len, const char *suffix)
{
	size_t n = strlen(suffix);

	return (size_t)len > n && memcmp(name + (size_t)len - n, suffix, n) == 0;
}

static int family_len(const struct sl_metric_text *m, const char *name, const char *type)
{
	int len = (int)strlen(name);

	if (m->openmetrics && type[0] == 'c' && ends_in(name, len, "_total"))
		return len - (int)strlen("_total");
	if (m->openmetrics && type[0] == 'i' && ends_in(name, len, "_info"))
		return len - (int)strlen("_info");
	return len;
}

void sl_metric_head(const struct sl_metric_text *m, const char *name, const char *type,
		    const char *help)
{
	static const char *const units[] = {"seconds", "bytes"};
	int len = family_len(m, name, type);

	if (!m->openmetrics && type[0] == 'i')
		type = "gauge";
	sl_strbuf_printf(m->b, "# HELP %.*s ", len, name);
	put_help(m, help);
	sl_strbuf_printf(m->b, "\n# TYPE %.*s %s\n", len, name, type);
	for (size_t i = 0; m->openmetrics && i < SL_ARRAY_LEN(units); i++) {
		if (ends_in(name, len, units[i]) && name[(size_t)len - strlen(units[i]) - 1] == '_')
			sl_strbuf_printf(m->b, "# UNIT %.*s %s\n", len, name, units[i]);
	}
}

/* The format can escape no control character but line feed. */
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
		sl_strbuf_json_str(b, sl_span_cstr(value));
}

/* OpenMetrics writes whole numbers as 1.0. */
void sl_metric_bound(const struct sl_metric_text *m, double bound)
{
	char text[32] = "+Inf";

	if (isfinite(bound))
		snprintf(text, sizeof(text), "%.10g", bound);
	sl_strbuf_printf(m->b, ",le=\"%s%s\"", text,
			 m->openmetrics && !strpbrk(text, ".eI") ? ".0" : "");
}
