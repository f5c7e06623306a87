/* SPDX-License-Identifier: Apache-2.0 */
/* What a datagram's client is told when the gateway answers itself. */
#include <check.h>
#include "base/num.h"
#include "core/exchange.h"

static const struct {
	enum sl_outcome why;
	enum sl_datagram_status status;
} cases[] = {
	{SL_OUTCOME_FIXED, SL_DATAGRAM_OK},
	{SL_OUTCOME_NO_ROUTE, SL_DATAGRAM_NO_SERVICE},
	{SL_OUTCOME_TOO_LARGE, SL_DATAGRAM_TOO_LARGE},
	{SL_OUTCOME_SHED, SL_DATAGRAM_OVERLOADED},
	{SL_OUTCOME_QUEUE_FULL, SL_DATAGRAM_OVERLOADED},
	{SL_OUTCOME_FAIR_SHARE, SL_DATAGRAM_OVERLOADED},
	{SL_OUTCOME_NO_MEMORY, SL_DATAGRAM_OVERLOADED},
	{SL_OUTCOME_NO_BACKEND, SL_DATAGRAM_UNAVAILABLE},
	{SL_OUTCOME_BACKEND_LOST, SL_DATAGRAM_UNAVAILABLE},
	{SL_OUTCOME_EXPIRED, SL_DATAGRAM_EXPIRED},
	{SL_OUTCOME_REQUEST_TIMEOUT, SL_DATAGRAM_EXPIRED},
	{SL_OUTCOME_BACKEND_ERROR, SL_DATAGRAM_INTERNAL},
};

START_TEST(each_outcome_has_its_status)
{
	ck_assert_msg(sl_dgram_status(cases[_i].why) == cases[_i].status, "outcome %d",
		      cases[_i].why);
}
END_TEST

/* One that is added must not pass for success. */
START_TEST(only_a_fixed_reply_is_ok)
{
	for (unsigned o = 0; o < SL_OUTCOME_CNT; o++)
		ck_assert_int_eq(sl_dgram_status(o) == SL_DATAGRAM_OK, o == SL_OUTCOME_FIXED);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("dgram");
	TCase *t = tcase_create("status");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_loop_test(t, each_outcome_has_its_status, 0, (int)SL_ARRAY_LEN(cases));
	tcase_add_test(t, only_a_fixed_reply_is_ok);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
