/* SPDX-License-Identifier: Apache-2.0 */
#include "config/diagnostics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/parse.h"

enum { MORE_LEN = 80 };

void conf_diag_add(struct conf_diags *m, int line, const void *of, const char *fmt, va_list ap)
{
	char text[CONF_DIAG_LEN];

	if (conf_diags_full(m))
		return;
	vsnprintf(text, sizeof(text), fmt, ap);
	for (char *c = text; *c; c++) {
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
	}
	m->list[m->cnt++] = (struct conf_diag){line, of, strdup(text)};
}

void conf_fail(struct conf_parse *p, int line, const void *of, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	conf_diag_add(&p->mistakes, line, of, fmt, ap);
	va_end(ap);
}

const char *conf_line_name(const struct conf_parse *p, int line, int from, char buf[CONF_LINE_NAME])
{
	const struct sl_cfg_location at = sl_config_location(p->cfg, line);

	if (strcmp(at.file, sl_config_location(p->cfg, from).file) == 0)
		snprintf(buf, CONF_LINE_NAME, "line %d", at.line);
	else
		snprintf(buf, CONF_LINE_NAME, "%.270s:%d", at.file, at.line);
	return buf;
}

bool conf_diags_has(const struct conf_diags *m, const void *of)
{
	for (uint32_t i = 0; i < m->cnt; i++) {
		if (m->list[i].of == of)
			return true;
	}
	return false;
}

bool conf_diags_within(const struct conf_diags *m, int first, int last)
{
	for (uint32_t i = 0; i < m->cnt; i++) {
		if (!m->list[i].of && m->list[i].line >= first && m->list[i].line <= last)
			return true;
	}
	return false;
}

static void sort_mistakes(struct conf_diags *m)
{
	for (uint32_t i = 1; i < m->cnt; i++) {
		struct conf_diag x = m->list[i];
		uint32_t to = i;

		for (; to && m->list[to - 1].line > x.line; to--)
			m->list[to] = m->list[to - 1];
		m->list[to] = x;
	}
}

static struct sl_cfg_location place_of(const struct conf_diags *m, int line)
{
	if (m->cfg)
		return sl_config_location(m->cfg, line);
	return (struct sl_cfg_location){m->file, line};
}

void conf_diags_print(struct conf_diags *m, struct sl_err *err)
{
	const size_t len = err ? err->size : 0;
	char *buf = err ? err->text : NULL;
	struct sl_cfg_location at = {m->file, 0};
	size_t used = 0;

	if (!len)
		return;
	buf[0] = 0;
	sort_mistakes(m);
	for (uint32_t i = 0; i < m->cnt; i++) {
		const struct conf_diag *k = &m->list[i];
		const char *text = k->text ? k->text : "found too little memory";
		size_t need;

		at = place_of(m, k->line);
		need = strlen(at.file) + strlen(text) + 16;
		if (i && used + need + strlen(at.file) + MORE_LEN > len) {
			snprintf(buf + used, len - used, "\n%s:%d: and %u more mistakes", at.file,
				 at.line, m->cnt - i);
			return;
		}
		used += (size_t)snprintf(buf + used, len - used, "%s%s:%d: %s", i ? "\n" : "",
					 at.file, at.line, text);
		if (used >= len)
			return;
	}
	if (conf_diags_full(m))
		snprintf(buf + used, len - used, "\n%s:%d: the rest was not looked at", at.file,
			 at.line);
}

void conf_diags_free(struct conf_diags *m)
{
	for (uint32_t i = 0; i < m->cnt; i++)
		free(m->list[i].text);
	m->cnt = 0;
}
