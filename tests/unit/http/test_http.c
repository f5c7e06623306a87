/* SPDX-License-Identifier: Apache-2.0 */
#include "http/date.h"
#include "http/field.h"
#include "http/method.h"
#include "http/status.h"
#include "suite.h"

TEST(methods_and_statuses_have_their_names)
{
	ck_assert_int_eq(sl_method_parse(sl_span_str("PATCH")), SL_METHOD_PATCH);
	ck_assert_int_eq(sl_method_parse(sl_span_str("PATCHX")), SL_METHOD_OTHER);
	ck_assert_int_eq(sl_method_parse(sl_span_str("")), SL_METHOD_OTHER);
	for (int i = 1; i < SL_METHOD_CNT; i++)
		ck_assert_int_eq(sl_method_parse(sl_span_cstr(sl_method_name(i))), i);
	ck_assert_str_eq(sl_method_name(SL_METHOD_OTHER), "");
	ck_assert(sl_method_idempotent(SL_METHOD_PUT) && !sl_method_idempotent(SL_METHOD_POST));
	ck_assert(!sl_method_idempotent(SL_METHOD_OTHER) && !sl_method_idempotent(SL_METHOD_PATCH));
	ck_assert_str_eq(sl_status_text(404), "Not Found");
	ck_assert_str_eq(sl_status_text(599), "Unknown");
	ck_assert_str_eq(sl_status_text(70000), "Unknown");
}

/* The example of RFC 9110 5.6.7, and a day in February. */
TEST(dates_are_of_fixed_length)
{
	char date[SL_HTTP_DATE_LEN + 1];

	sl_http_date(date, 784111777);
	ck_assert_str_eq(date, "Sun, 06 Nov 1994 08:49:37 GMT");
	sl_http_date(date, 1709164800);
	ck_assert_str_eq(date, "Thu, 29 Feb 2024 00:00:00 GMT");
}

TEST(names_are_known_whatever_their_case)
{
	ck_assert(SL_NAME_IS(sl_span_str("Host"), "host"));
	ck_assert(SL_NAME_IS(sl_span_str("CONTENT-length"), "content-length"));
	ck_assert(!SL_NAME_IS(sl_span_str("content-lengtk"), "content-length"));
	ck_assert(!SL_NAME_IS(sl_span_str("content-len"), "content-length"));
}
