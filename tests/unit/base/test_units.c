/* SPDX-License-Identifier: Apache-2.0 */
#include "base/units.h"

#include <errno.h>

#include "unit.h"
#include "suite.h"

typedef int (*parse_fn)(struct sl_span s, uint64_t *v);

struct parse_case {
	const char *text;
	int err;
	uint64_t want;
};

static void check_cases(parse_fn parse, const struct parse_case *c, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++) {
		size_t len = strlen(c[i].text);
		uint64_t v = 77;

		ck_assert_msg(parse(sl_span_of(flush_copy(c[i].text, len), len), &v) == c[i].err,
			      "'%s'", c[i].text);
		ck_assert_msg(v == (c[i].err ? 77 : c[i].want), "'%s'", c[i].text);
	}
}
#define CHECK_CASES(parse, ...)                                                                    \
	do {                                                                                       \
		static const struct parse_case cases_[] = {__VA_ARGS__};                           \
		check_cases(parse, cases_, sizeof(cases_) / sizeof(cases_[0]));                    \
	} while (0)

TEST(a_duration_has_one_unit)
{
	CHECK_CASES(sl_parse_duration, {"500us", 0, 500000}, {"2ms", 0, 2000000},
		    {"1s", 0, 1000000000}, {"1m", 0, UINT64_C(60000000000)}, {"7ns", 0, 7},
		    {"3h", 0, UINT64_C(10800000000000)}, {"1d", 0, UINT64_C(86400000000000)},
		    {"0", 0, 0}, {"0s", 0, 0}, {"5", -EINVAL, 0}, {"", -EINVAL, 0},
		    {"ms", -EINVAL, 0}, {"1 s", -EINVAL, 0}, {" 1s", -EINVAL, 0},
		    {"1s ", -EINVAL, 0}, {"-1s", -EINVAL, 0}, {"+1s", -EINVAL, 0},
		    {"1.5s", -EINVAL, 0}, {"1S", -EINVAL, 0}, {"1ms1", -EINVAL, 0},
		    {"213503d", 0, UINT64_C(18446659200000000000)}, {"213504d", -ERANGE, 0},
		    {"99999999999999999999ns", -ERANGE, 0}, {"99999999999999999999x", -EINVAL, 0});
}

TEST(a_size_has_at_most_one_unit)
{
	CHECK_CASES(sl_parse_size, {"4096", 0, 4096}, {"64k", 0, 65536}, {"8M", 0, 8 << 20},
		    {"1g", 0, 1 << 30}, {"2t", 0, UINT64_C(2) << 40}, {"0", 0, 0},
		    {"18446744073709551615", 0, UINT64_MAX}, {"16777216t", -ERANGE, 0},
		    {"1kb", -EINVAL, 0}, {"k", -EINVAL, 0}, {"0x10", -EINVAL, 0});
}

TEST(texts_for_people)
{
	char buf[SL_UNIT_TEXT];

	ck_assert_str_eq(sl_format_duration(buf, 0), "0");
	ck_assert_str_eq(sl_format_duration(buf, 999), "999ns");
	ck_assert_str_eq(sl_format_duration(buf, 37000), "37us");
	ck_assert_str_eq(sl_format_duration(buf, 1250000), "1.25ms");
	ck_assert_str_eq(sl_format_duration(buf, 12340000), "12.3ms");
	ck_assert_str_eq(sl_format_duration(buf, UINT64_C(100000000)), "100ms");
	ck_assert_str_eq(sl_format_duration(buf, UINT64_C(90000000000)), "90s");
	ck_assert_str_eq(sl_format_duration(buf, UINT64_C(60000000000)), "1m");
	ck_assert_str_eq(sl_format_duration(buf, UINT64_C(7200000000000)), "2h");
	ck_assert_str_eq(sl_format_duration(buf, UINT64_MAX), "18446744074s");
	ck_assert_str_eq(sl_format_size(buf, 0), "0");
	ck_assert_str_eq(sl_format_size(buf, 1023), "1023");
	ck_assert_str_eq(sl_format_size(buf, 1536), "1.5k");
	ck_assert_str_eq(sl_format_size(buf, UINT64_MAX), "16777216t");
	for (int u = SL_UNIT_DURATION; u <= SL_UNIT_SIZE; u++)
		ck_assert_ptr_nonnull(strstr(sl_unit_expected((enum sl_unit)u), " like "));
}
