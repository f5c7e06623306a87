/* SPDX-License-Identifier: Apache-2.0 */
/* A number in the bodies of replies, in one piece and byte by byte. */
#include <string.h>

#include "base/check.h"
#include "core/usage_scan.h"
#include "suite.h"

static const struct {
	const char *body;
	bool events;
	int64_t found; /* -1: none */
} bodies[] = {
	{"{\"id\": \"x\", \"usage\": {\"prompt_tokens\": 9, \"total_tokens\": 21}, \"a\": 1}",
	 false, 21},
	{"{\"usage\":{\"total_tokens\":0}}", false, 0},
	{"{\"usage\":{\"total_tokens\":\n7\n}}", false, 7},
	{"{\"usage\":{\"d\":{\"total_tokens\":1},\"total_tokens\":4294967295}}", false, 4294967295},
	{"{\"usage\":{\"total_tokens\":4294967296}}", false, -1},
	{"{\"usage\":{\"total_tokens\":99999999999999999999999}}", false, -1},
	{"{\"usage\":{\"total_tokens\":01}}", false, -1},
	{"{\"usage\":{\"total_tokens\":00}}", false, -1},
	{"{\"usage\":{\"total_tokens\":-1}}", false, -1},
	{"{\"usage\":{\"total_tokens\":1.5}}", false, -1},
	{"{\"usage\":{\"total_tokens\":1e3}}", false, -1},
	{"{\"usage\":{\"total_tokens\":12", false, -1}, /* may go on */
	{"{\"usage\":{\"total_tokens\":\"5\"}}", false, -1},
	{"{\"usage\":{\"total_tokens\":null}}", false, -1},
	{"{\"usage\":{}}", false, -1},
	{"{\"usage\":null}", false, -1},
	{"{\"usage\":5}", false, -1},
	{"{\"usage\":[{\"total_tokens\":5}]}", false, -1},
	{"{\"total_tokens\":5}", false, -1},
	{"{\"a\":{\"usage\":{\"total_tokens\":5}}}", false, -1},
	{"{\"a\":\"\\\"usage\\\":{\\\"total_tokens\\\":5}\"}", false, -1},
	{"{\"a\":tru,\"usage\":{\"total_tokens\":5}}", false, -1},
	{"data: {\"usage\":{\"total_tokens\":5}}", false, -1},
	{"", false, -1},
	{"data: {\"usage\":{\"total_tokens\":5}}\n\n", true, 5},
	{"data:{\"usage\":{\"total_tokens\":5}}", true, 5},
	{": ping\r\n\r\ndata: {\"usage\":null}\r\n\r\ndata: {\"usage\":{\"total_tokens\":3}}\r\n"
	 "data: {\"usage\":{\"total_tokens\":8}}\r\n\r\ndata: [DONE]\r\n\r\n",
	 true, 8},
	{"data: {\"usage\":{\"total_tokens\":3}}\ndata: {\"usage\":{\"total_tokens\":\"x\"}}\n",
	 true, 3},
	{"data: {\"usage\":{\"total_tokens\":5\n}}\n", true, -1},
	{"data: {\"usage\":{\n\"total_tokens\":5}}\n", true, -1},
	{"event: {\"usage\":{\"total_tokens\":5}}\ndat\ndatas: {\"usage\":{\"total_tokens\":5}}\n",
	 true, -1},
	{"data\n: {\"usage\":{\"total_tokens\":5}}\n", true, -1},
	{"data:  {\"usage\":{\"total_tokens\":5}}\n", true, 5},
	{"data:\ndata: \ndata: {\"usage\":{\"total_tokens\":5}}\n", true, 5},
};

static int64_t scan(const char *body, size_t len, bool events, size_t step)
{
	struct sl_usage_scan s;
	uint64_t value;

	sl_usage_scan_begin(&s, "usage.total_tokens", events);
	for (size_t at = 0; at < len; at += step) {
		size_t n = len - at < step ? len - at : step;

		sl_usage_scan_read(&s, sl_span_of(body + at, n));
	}
	return sl_usage_scan_value(&s, &value) ? (int64_t)value : -1;
}

TEST_EACH(the_number_is_found_however_the_body_is_cut, SL_ARRAY_LEN(bodies))
{
	const char *body = bodies[_i].body;

	for (size_t step = 1; step < 90; step++)
		ck_assert_msg(scan(body, strlen(body), bodies[_i].events, step) == bodies[_i].found,
			      "%s by %zu", body, step);
}

TEST(a_nul_behind_a_number_ends_the_text)
{
	static const char body[] = "{\"usage\":{\"total_tokens\":5\0}}";

	ck_assert_int_eq(scan(body, sizeof(body) - 1, false, 100), -1);
}
