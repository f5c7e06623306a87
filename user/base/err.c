/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void format_text(struct sl_err *e, const char *fmt, va_list ap)
{
	const int kept = errno;

	if (e)
		vsnprintf(e->text, e->size, fmt, ap);
	errno = kept;
}

void sl_err_set(struct sl_err *e, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	format_text(e, fmt, ap);
	va_end(ap);
}

bool sl_err_add(struct sl_err *e, const char *lines)
{
	const size_t len = e && e->size ? strlen(e->text) : 0;

	if (e && e->size)
		snprintf(e->text + len, e->size - len, "%s%s", len ? "\n" : "", lines);
	return false;
}

int sl_fail(struct sl_err *e, int res, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	format_text(e, fmt, ap);
	va_end(ap);
	return res;
}
