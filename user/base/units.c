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

/* Each table: larger units first, so that formatting takes the first that fits. */
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
static const struct unit_row bitrate_units[] = {
	{"gbit", 1000000000},
	{"mbit", 1000000},
	{"kbit", 1000},
	{"bit", 1},
};
/* Per 1000 seconds; "x/m" and "x/h" are handled by the period. */
static const struct unit_row rate_units[] = {
	{"g", UINT64_C(1000000000000)},
	{"m", 1000000000},
	{"k", 1000000},
	{"", 1000},
};

static int parse_scaled(struct sl_span s, const struct unit_row *rows, size_t row_cnt, uint64_t *v)
{
	size_t digits = 0;
	uint64_t n;
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

int sl_parse_bitrate(struct sl_span s, uint64_t *bits_per_s)
{
	return parse_scaled(s, bitrate_units, SL_ARRAY_LEN(bitrate_units), bits_per_s);
}

/* Seconds of the "/s", "/m" or "/h" at the end; 0 if there is none. */
static uint64_t rate_period(struct sl_span s)
{
	if (s.len < 2 || s.ptr[s.len - 2] != '/')
		return 0;
	switch (s.ptr[s.len - 1]) {
	case 's': return 1;
	case 'm': return 60;
	case 'h': return 3600;
	default: return 0;
	}
}

int sl_parse_rate(struct sl_span s, uint64_t *per_1000s)
{
	uint64_t period = rate_period(s), n;
	int err;

	if (!period)
		return -EINVAL;
	err = parse_scaled(sl_span_first(s, s.len - 2), rate_units, SL_ARRAY_LEN(rate_units), &n);
	if (!err)
		*per_1000s = n / period + (n % period * 2 >= period);
	return err;
}

const char *sl_unit_expected(enum sl_unit unit)
{
	static const char *const texts[] = {
		[SL_UNIT_DURATION] = "a duration like 500us, 2ms, 1s or 1m",
		[SL_UNIT_SIZE] = "a size like 4096, 64k, 8m or 1g",
		[SL_UNIT_RATE] = "a rate like 500/s, 10k/s or 90/m",
		[SL_UNIT_BITRATE] = "a bit rate like 100mbit or 25gbit",
	};

	return texts[unit];
}

/* "1.25" and the unit: three significant digits, zeros at the end left out. */
static const char *format_scaled(char *buf, uint64_t v, const struct unit_row *row,
				 const char *tail)
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
	snprintf(buf + n, (size_t)(SL_UNIT_TEXT - n), "%s%s", row->suffix, tail);
	return buf;
}

static const struct unit_row *largest_unit(const struct unit_row *rows, size_t row_cnt, uint64_t v)
{
	for (size_t i = 0; i < row_cnt; i++) {
		if (v >= rows[i].scale)
			return &rows[i];
	}
	return &rows[row_cnt - 1];
}

const char *sl_format_duration(char buf[SL_UNIT_TEXT], uint64_t ns)
{
	const struct unit_row *row = duration_units;

	if (ns == 0)
		return memcpy(buf, "0", 2);
	/* Days, hours and minutes only when they come out whole: "90s", not "1.5m". */
	while (row->scale > SL_NS_PER_SEC && (ns < row->scale || ns % row->scale))
		row++;
	while (row->scale > 1 && ns < row->scale)
		row++;
	return format_scaled(buf, ns, row, "");
}

const char *sl_format_size(char buf[SL_UNIT_TEXT], uint64_t bytes)
{
	return format_scaled(buf, bytes, largest_unit(size_units, SL_ARRAY_LEN(size_units), bytes),
			     "");
}

const char *sl_format_rate(char buf[SL_UNIT_TEXT], uint64_t per_1000s)
{
	return format_scaled(buf, per_1000s,
			     largest_unit(rate_units, SL_ARRAY_LEN(rate_units), per_1000s), "/s");
}

const char *sl_format_bitrate(char buf[SL_UNIT_TEXT], uint64_t bits_per_s)
{
	return format_scaled(buf, bits_per_s,
			     largest_unit(bitrate_units, SL_ARRAY_LEN(bitrate_units), bits_per_s),
			     "");
}
