/* SPDX-License-Identifier: Apache-2.0 */
#include "sdk/client/members.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/check.h"

enum { FIRST_CAP = 8, LINE_MAX_LEN = 4096 };

void sl_members_free(struct sl_members *m)
{
	free(m->list);
	*m = (struct sl_members){0};
}

static bool has_scheme(const char *text)
{
	static const char *const schemes[] = {"shm:///", "rdma://", "rdma+ud://", "tcp://"};

	for (unsigned i = 0; i < SL_ARRAY_LEN(schemes); i++) {
		size_t len = strlen(schemes[i]);

		if (strncmp(text, schemes[i], len) == 0)
			return text[len] != 0;
	}
	return false;
}

static bool is_listed(const struct sl_members *m, const char *text)
{
	for (unsigned i = 0; i < m->cnt; i++) {
		if (strcmp(m->list[i], text) == 0)
			return true;
	}
	return false;
}

static int grow(struct sl_members *m)
{
	unsigned cap = m->cnt ? 2 * m->cnt : FIRST_CAP;
	void *more;

	if (m->cnt && (m->cnt < FIRST_CAP || (m->cnt & (m->cnt - 1))))
		return 0;
	more = realloc(m->list, cap * sizeof(m->list[0]));
	if (!more)
		return -1;
	m->list = more;
	return 0;
}

static int add_member(struct sl_members *m, const char *where, const char *text, size_t len,
		      struct sl_err *err)
{
	if (m->cnt == SL_MEMBERS_MAX)
		return sl_fail(err, -1, "%s: found more endpoints; allowed: %d", where,
			       SL_MEMBERS_MAX);
	if (len >= SL_MEMBER_LEN)
		return sl_fail(err, -1, "%s: found %zu bytes; allowed: at most %d", where, len,
			       SL_MEMBER_LEN - 1);
	if (grow(m))
		return sl_fail(err, -1, "out of memory");
	memcpy(m->list[m->cnt], text, len);
	m->list[m->cnt][len] = 0;
	if (!has_scheme(m->list[m->cnt]))
		return sl_fail(err, -1,
			       "%s: found \"%s\"; allowed: shm:///path, rdma://address:port, "
			       "rdma+ud://address:port, tcp://host:port",
			       where, m->list[m->cnt]);
	if (is_listed(m, m->list[m->cnt]))
		return sl_fail(err, -1, "%s: found %s twice; allowed: once", where,
			       m->list[m->cnt]);
	m->cnt++;
	return 0;
}

static const char *trim(const char *text, size_t *len)
{
	while (*len && strchr(" \t\r\n", *text))
		text++, --*len;
	while (*len && strchr(" \t\r\n", text[*len - 1]))
		--*len;
	return text;
}

int sl_members_parse(struct sl_members *m, const char *text, struct sl_err *err)
{
	int rc = 0;

	*m = (struct sl_members){0};
	for (const char *at = text; !rc; at++) {
		size_t len = strcspn(at, ","), trimmed = len;
		const char *begin = trim(at, &trimmed);

		rc = add_member(m, "endpoints", begin, trimmed, err);
		at += len;
		if (!*at)
			break;
	}
	if (rc)
		sl_members_free(m);
	return rc;
}

static int read_lines(struct sl_members *m, FILE *f, const char *file, struct sl_err *err)
{
	char line[LINE_MAX_LEN], where[LINE_MAX_LEN];
	unsigned number = 0;

	while (fgets(line, sizeof(line), f)) {
		size_t len = strcspn(line, "#");
		const char *text = trim(line, &len);

		snprintf(where, sizeof(where), "%s:%u", file, ++number);
		if (!strchr(line, '\n') && !feof(f))
			return sl_fail(err, -1, "%s: found a line of more than %d bytes", where,
				       LINE_MAX_LEN - 2);
		if (len && add_member(m, where, text, len, err))
			return -1;
	}
	if (ferror(f))
		return sl_fail(err, -1, "%s: %s", file, strerror(errno));
	if (!m->cnt)
		return sl_fail(err, -1, "%s: found no endpoint; allowed: one per line", file);
	return 0;
}

int sl_members_read(struct sl_members *m, const char *file, struct sl_err *err)
{
	FILE *f = fopen(file, "re");
	int rc;

	*m = (struct sl_members){0};
	if (!f)
		return sl_fail(err, -1, "%s: %s", file, strerror(errno));
	rc = read_lines(m, f, file, err);
	fclose(f);
	if (rc)
		sl_members_free(m);
	return rc;
}
