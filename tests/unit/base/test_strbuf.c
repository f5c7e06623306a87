/* SPDX-License-Identifier: Apache-2.0 */
#include "base/strbuf.h"

#include <errno.h>

#include "unit.h"
#include "suite.h"

TEST(text_of_all_kinds)
{
	struct sl_strbuf b;

	sl_strbuf_grow(&b, 1 << 20);
	ck_assert_str_eq(sl_strbuf_cstr(&b), "");
	sl_strbuf_str(&b, "a");
	sl_strbuf_char(&b, '=');
	sl_strbuf_str(&b, "18446744073709551615");
	sl_strbuf_printf(&b, " %s %d", "x", -5);
	sl_strbuf_add(&b, "!?", 1);
	ck_assert_str_eq(sl_strbuf_cstr(&b), "a=18446744073709551615 x -5!");
	ck_assert_uint_eq(sl_strbuf_span(&b).len, 28);
	sl_strbuf_reset(&b);
	ck_assert_str_eq(sl_strbuf_cstr(&b), "");
	sl_strbuf_fini(&b);
}

TEST(growth_keeps_the_text_and_stops_at_the_limit)
{
	struct sl_strbuf b;

	sl_strbuf_grow(&b, 1000);
	for (int i = 0; i < 999; i++)
		sl_strbuf_char(&b, (char)('a' + i % 26));
	ck_assert_int_eq(b.err, 0);
	ck_assert_uint_eq(b.len, 999);
	sl_strbuf_char(&b, 'x');
	ck_assert_int_eq(b.err, -ENOSPC);
	ck_assert_uint_eq(strlen(b.ptr), 999);
	for (int i = 0; i < 999; i++)
		ck_assert_int_eq(b.ptr[i], 'a' + i % 26);
	sl_strbuf_fini(&b);
}

TEST(the_first_error_sticks)
{
	uint8_t *mem = flush_with_guard(8);
	struct sl_strbuf b;

	sl_strbuf_fixed(&b, (char *)mem, 8);
	sl_strbuf_printf(&b, "%d", 1234);
	sl_strbuf_str(&b, "5678");
	ck_assert_int_eq(b.err, -ENOSPC);
	ck_assert_str_eq(sl_strbuf_cstr(&b), "1234");
	sl_strbuf_char(&b, '5'); /* would fit, but must not */
	ck_assert_str_eq(sl_strbuf_cstr(&b), "1234");
	sl_strbuf_reset(&b);
	sl_strbuf_printf(&b, "%s", "1234567");
	ck_assert_int_eq(b.err, 0);
	ck_assert_str_eq(sl_strbuf_cstr(&b), "1234567");
	sl_strbuf_printf(&b, "%d", 8);
	ck_assert_int_eq(b.err, -ENOSPC);
	sl_strbuf_fini(&b);
}

static void check_json(const void *in, size_t len, const char *want)
{
	struct sl_strbuf b;

	sl_strbuf_grow(&b, 4096);
	sl_strbuf_json_str(&b, sl_span_of(flush_copy(in, len), len));
	ck_assert_str_eq(sl_strbuf_cstr(&b), want);
	sl_strbuf_fini(&b);
}

#define BAD "\xef\xbf\xbd"

TEST(json_strings_are_always_valid)
{
	static const struct {
		const char *in, *want;
	} cases[] = {
		{"", "\"\""},
		{"a\"b\\c", "\"a\\\"b\\\\c\""},
		{"\n\x01\x7f", "\"\\u000a\\u0001\\u007f\""},
		{"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80",
		 "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\""},
		{"\xc3", "\"" BAD "\""},                         /* cut */
		{"\xe2\x82", "\"" BAD BAD "\""},                 /* cut */
		{"\xc0\xaf", "\"" BAD BAD "\""},                 /* overlong */
		{"\xe0\x9f\xbf", "\"" BAD BAD BAD "\""},         /* overlong */
		{"\xed\xa0\x80", "\"" BAD BAD BAD "\""},         /* surrogate */
		{"\xf4\x90\x80\x80", "\"" BAD BAD BAD BAD "\""}, /* over U+10FFFF */
		{"\xe2\x28\xa1", "\"" BAD "(" BAD "\""},
		{"\xf0\x9f\x98x", "\"" BAD BAD BAD "x\""},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		check_json(cases[i].in, strlen(cases[i].in), cases[i].want);
	check_json("a\0b", 3, "\"a\\u0000b\"");
}
