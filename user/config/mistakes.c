/* SPDX-License-Identifier: Apache-2.0 */
#include "config/mistakes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/parse.h"

enum { MORE_LEN = 80 }; /* of "and 12 more mistakes", behind the file's name */

void conf_mistake_add(struct conf_mistakes *m, int line, const void *of, const char *fmt,
		      va_list ap)
{
	char text[CONF_MISTAKE_LEN];

	if (conf_mistakes_full(m))
		return;
	vsnprintf(text, sizeof(text), fmt, ap);
	/* One line, whatever the file contained. */
	for (char *c = text; *c; c++) {
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
	}
	m->list[m->cnt++] = (struct conf_mistake){line, of, strdup(text)};
}

void conf_fail(struct conf_parse *p, int line, const void *of, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	conf_mistake_add(&p->mistakes, line, of, fmt, ap);
	va_end(ap);
}

bool conf_mistaken(const struct conf_mistakes *m, const void *of)
{
	for (uint32_t i = 0; i < m->cnt; i++) {
		if (m->list[i].of == of)
			return true;
	}
	return false;
}

bool conf_mistakes_within(const struct conf_mistakes *m, int first, int last)
{
	for (uint32_t i = 0; i < m->cnt; i++) {
		if (!m->list[i].of && m->list[i].line >= first && m->list[i].line <= last)
			return true;
	}
	return false;
}

void conf_mistakes_print(struct conf_mistakes *m, struct sl_err *err)
{
	const size_t reserve = strlen(m->file) + MORE_LEN;
	const size_t len = err ? err->size : 0;
	char *buf = err ? err->text : NULL;
	size_t at = 0;

	if (!len)
		return;
	buf[0] = 0;
	/* By insertion: those of one line keep the order in which they were found. */
	for (uint32_t i = 1; i < m->cnt; i++) {
		struct conf_mistake x = m->list[i];
		uint32_t to = i;

		for (; to && m->list[to - 1].line > x.line; to--)
			m->list[to] = m->list[to - 1];
		m->list[to] = x;
	}
	for (uint32_t i = 0; i < m->cnt; i++) {
		const struct conf_mistake *k = &m->list[i];
		const char *text = k->text ? k->text : "found too little memory";
		const size_t need = strlen(m->file) + strlen(text) + 16;

		/* The first is told as far as it goes. */
		if (i && at + need + reserve > len) {
			snprintf(buf + at, len - at, "\n%s:%d: and %u more mistakes", m->file,
				 k->line, m->cnt - i);
			return;
		}
		at += (size_t)snprintf(buf + at, len - at, "%s%s:%d: %s", i ? "\n" : "", m->file,
				       k->line, text);
		if (at >= len)
			return;
	}
	if (conf_mistakes_full(m))
		snprintf(buf + at, len - at, "\n%s:%d: the rest was not looked at", m->file,
			 m->list[m->cnt - 1].line);
}

void conf_mistakes_free(struct conf_mistakes *m)
{
	for (uint32_t i = 0; i < m->cnt; i++)
		free(m->list[i].text);
	m->cnt = 0;
}
