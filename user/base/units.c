/* SPDX-License-Identifier: Apache-2.0 */
#include "base/units.h"

#include <errno.h>
#include <stdio.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/num.h"

struct unit_row {
	const char *suffix;
	uint64_t scale;
};

static const struct unit_row duration_units[] = {
	{"d", 86400 * SL_NS_PER_SEC},
	{"h", 3600 * SL_NS_PER_SEC},
	{"m", 60 * SL_NS_PER_SEC},
	{"s", SL_NS_PER_SEC},
	{"ms", SL_NS_PER_MS},
	{"us", SL_NS_PER_US},
	{"ns", 1},
};
static const struct unit_row size_units[] = {
	{"t", UINT64_C(1) << 40}, {"g", UINT64_C(1) << 30}, {"m", UINT64_C(1) << 20},
	{"k", UINT64_C(1) << 10}, {"T", UINT64_C(1) << 40}, {"G", UINT64_C(1) << 30},
	{"M", UINT64_C(1) << 20}, {"K", UINT64_C(1) << 10}, {"", 1},
};
static int parse_scaled(struct sl_span s, const struct unit_row *rows, size_t row_cnt, uint64_t *v)
{
	size_t digits = 0;
	uint64_t n = 0;
	int err;

	while (digits < s.len && s.ptr[digits] >= '0' && s.ptr[digits] <= '9')
		digits++;
	err = sl_parse_u64(sl_span_first(s, digits), &n);
	if (err == -EINVAL)
		return err;
	for (size_t i = 0; i < row_cnt; i++) {
		if (!sl_span_eq(sl_span_skip(s, digits), sl_span_cstr(rows[i].suffix)))
			continue;
		if (err || __builtin_mul_overflow(n, rows[i].scale, &n))
			return -ERANGE;
		*v = n;
		return 0;
	}
	return -EINVAL;
}

int sl_parse_duration(struct sl_span s, uint64_t *ns)
{
	if (sl_span_eq(s, sl_span_str("0"))) {
		*ns = 0;
		return 0;
	}
	return parse_scaled(s, duration_units, SL_ARRAY_LEN(duration_units), ns);
}

int sl_parse_size(struct sl_span s, uint64_t *bytes)
{
	return parse_scaled(s, size_units, SL_ARRAY_LEN(size_units), bytes);
}

const char *sl_unit_expected(enum sl_unit unit)
{
	static const char *const texts[] = {
		[SL_UNIT_DURATION] = "a duration like 500us, 2ms, 1s or 1m",
		[SL_UNIT_SIZE] = "a size like 4096, 64k, 8m or 1g",
	};

	return texts[unit];
}

/* Three significant digits without trailing zeros. */
static const char *format_scaled(char *buf, uint64_t v, const struct unit_row *row)
{
	double x = (double)v / (double)row->scale;
	int decimals = row->scale == 1 || x >= 100 ? 0 : x >= 10 ? 1 : 2;
	int n = snprintf(buf, SL_UNIT_TEXT, "%.*f", decimals, x);

	if (decimals) {
		while (buf[n - 1] == '0')
			n--;
		if (buf[n - 1] == '.')
			n--;
	}
	snprintf(buf + n, (size_t)(SL_UNIT_TEXT - n), "%s", row->suffix);
	return buf;
}

const char *sl_format_duration(char buf[SL_UNIT_TEXT], uint64_t ns)
{
	const struct unit_row *row = duration_units;

	if (ns == 0)
		return memcpy(buf, "0", 2);
	while (row->scale > SL_NS_PER_SEC && (ns < row->scale || ns % row->scale))
		row++;
	while (row->scale > 1 && ns < row->scale)
		row++;
	return format_scaled(buf, ns, row);
}

const char *sl_format_size(char buf[SL_UNIT_TEXT], uint64_t bytes)
{
	const struct unit_row *u = size_units;

	while (u < &size_units[SL_ARRAY_LEN(size_units) - 1] && bytes < u->scale)
		u++;
	return format_scaled(buf, bytes, u);
}
