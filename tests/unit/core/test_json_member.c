/* SPDX-License-Identifier: Apache-2.0 */
/* One string member of a JSON text, in any segmentation. tests/fuzz/json_member.c knows the rest. */
#include <stdio.h>
#include <string.h>

#include "core/json_member.h"
#include "suite.h"

static struct sl_json_member m;

static enum sl_json_verdict read_in(const char *text, size_t len, size_t step)
{
	sl_json_member_begin(&m, sl_span_str("model"));
	for (size_t at = 0; at < len; at += step)
		sl_json_member_read(&m, sl_span_of(text + at, len - at < step ? len - at : step));
	return sl_json_member_verdict(&m);
}

/* In pieces of each length. */
static void ck_verdict(const char *text, enum sl_json_verdict v, const char *value)
{
	for (size_t step = 1; step <= strlen(text); step++) {
		struct sl_span found;

		ck_assert_msg(read_in(text, strlen(text), step) == v, "%s by %zu: %d", text, step,
			      m.verdict);
		if (!value)
			continue;
		found = sl_json_member_value(&m);
		ck_assert(sl_span_eq(found, sl_span_cstr(value)));
	}
}

TEST(member_is_found_at_the_top_level_only)
{
	ck_verdict("{\"model\":\"a\"", SL_JSON_FOUND, "a");
	ck_verdict(" \r\n\t{ \"x\" : [ 1 , {\"model\":\"no\"} , [] , {} ] , \"model\" : \"b\"",
		   SL_JSON_FOUND, "b");
	ck_verdict("{\"x\":{\"model\":\"no\"}}", SL_JSON_ABSENT, NULL);
	ck_verdict("{\"model\":\"\"", SL_JSON_FOUND, "");
	ck_verdict("{\"x\":\"model\",\"y\":\"a\"}", SL_JSON_ABSENT, NULL);
	ck_verdict("{\"models\":\"a\",\"mode\":\"b\",\"Model\":\"c\",\"\":\"d\"}", SL_JSON_ABSENT,
		   NULL);
	ck_verdict("{}", SL_JSON_ABSENT, NULL);
	ck_verdict("{\"model\":\"a", SL_JSON_MORE, NULL);
}

TEST(first_of_two_members_counts)
{
	ck_verdict("{\"model\":\"a\",\"model\":\"b\"}", SL_JSON_FOUND, "a");
}

TEST(escapes_are_decoded_in_key_and_value)
{
	ck_verdict("{\"m\\u006fdel\":\"a\\u00e9\\n\\/\\ud83d\\ude00\\u20aC\"", SL_JSON_FOUND,
		   "a\xc3\xa9\n/\xf0\x9f\x98\x80\xe2\x82\xac");
	ck_verdict("{\"mod\\\\el\":\"a\",\"\\\"model\":\"b\"}", SL_JSON_ABSENT, NULL);
	ck_verdict("{\"model\":\"\xc3\xa9\xf4\x8f\xbf\xbf\"", SL_JSON_FOUND,
		   "\xc3\xa9\xf4\x8f\xbf\xbf");
}

TEST(member_that_is_no_string)
{
	static const char *const values[] = {"1", "-1", "true", "false", "null", "{}", "[\"a\"]"};

	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
		char text[64];

		snprintf(text, sizeof(text), "{\"model\": %s}", values[i]);
		ck_verdict(text, SL_JSON_OTHER, NULL);
	}
}

TEST(malformed_text_is_bad_at_its_first_wrong_byte)
{
	static const char *const texts[] = {
		"[",
		"\"",
		"{,",
		"{1",
		"{\"a\"}",
		"{\"a\":}",
		"{\"a\":1,}",
		"{\"a\":01",
		"{\"a\":1.}",
		"{\"a\":.",
		"{\"a\":1e}",
		"{\"a\":+",
		"{\"a\":-}",
		"{\"a\":1.5.",
		"{\"a\":tru}",
		"{\"a\":T",
		"{\"a\":[1,]",
		"{\"a\":[}",
		"{\"a\":[1}",
		"{\"a\":\"\n",
		"{\"a\":\"\\x",
		"{\"a\":\"\\u12g",
		"{\"a\":\"\\ud800\"",
		"{\"a\":\"\\ud800\\n",
		"{\"a\":\"\\udc00",
		"{\"a\":\"\\ud800\\ud800",
		"{\"a\":\"\xff",
		"{\"a\":\"\xc0",
		"{\"a\":\"\xed\xa0",
		"{\"a\":\"\xf4\x90",
		"{\"a\":\"\xe2\x82\"",
		"{\"a\":\"\xe0\x80",
		"{\"a\" 1",
		"{\"a\":1 2",
		"\xef",
		"{'",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		ck_verdict(texts[i], SL_JSON_BAD, NULL);
		ck_assert_uint_eq(sl_json_member_read(&m, sl_span_str("x")), 0);
		/* Not before. */
		ck_assert_msg(read_in(texts[i], strlen(texts[i]) - 1, 1) == SL_JSON_MORE, "%s",
			      texts[i]);
	}
}

TEST(numbers_of_all_forms)
{
	ck_verdict("{\"a\":[0,-0,10,1.5,-1.25e+10,2E-3,0e0,0.1],\"b\":3}", SL_JSON_ABSENT, NULL);
}

TEST(nesting_is_bounded)
{
	char text[SL_JSON_DEPTH_MAX + 32] = "{\"a\":";
	size_t at = strlen(text);

	memset(text + at, '[', SL_JSON_DEPTH_MAX);
	ck_assert(read_in(text, at + SL_JSON_DEPTH_MAX - 1, 7) == SL_JSON_MORE);
	ck_assert(read_in(text, at + SL_JSON_DEPTH_MAX, 7) == SL_JSON_DEEP);
}

/* Levels of both kinds are told apart beyond the first word of bits. */
TEST(closing_brackets_must_fit_at_each_depth)
{
	char text[4 * SL_JSON_DEPTH_MAX] = "";
	int deep = SL_JSON_DEPTH_MAX / 2 - 1;

	for (int i = 0; i < deep; i++)
		strcat(text, i ? "[{\"a\":" : "{\"a\":[{\"a\":");
	strcat(text, "1");
	for (int i = 0; i < deep; i++)
		strcat(text, "}]");
	ck_assert(read_in(text, strlen(text), 5) == SL_JSON_MORE);
	strcat(text, "}");
	ck_assert(read_in(text, strlen(text), 5) == SL_JSON_ABSENT);
	text[strlen(text) - 2] = '}';
	ck_assert(read_in(text, strlen(text), 5) == SL_JSON_BAD);
}

TEST(long_value_is_not_kept_and_not_cut)
{
	char text[1024] = "{\"model\":\"";
	size_t at = strlen(text);

	memset(text + at, 'x', SL_JSON_VALUE_MAX + 1);
	text[at + SL_JSON_VALUE_MAX] = '"';
	for (size_t step = 1; step < 600; step += 37) {
		ck_assert(read_in(text, at + SL_JSON_VALUE_MAX + 1, step) == SL_JSON_FOUND);
		ck_assert_uint_eq(sl_json_member_value(&m).len, SL_JSON_VALUE_MAX);
	}
	memset(text + at, 'x', SL_JSON_VALUE_MAX + 300);
	text[at + SL_JSON_VALUE_MAX + 300] = '"';
	for (size_t step = 1; step < 900; step += 37) {
		ck_assert(read_in(text, at + SL_JSON_VALUE_MAX + 301, step) == SL_JSON_FOUND);
		ck_assert_ptr_null(sl_json_member_value(&m).ptr);
	}
}

TEST(reading_stops_behind_the_value)
{
	const char *text = "{\"model\":\"a\", and more";

	sl_json_member_begin(&m, sl_span_str("model"));
	ck_assert_uint_eq(sl_json_member_read(&m, sl_span_cstr(text)), 12);
}
