/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <errno.h>

#include "suite.h"

TEST(a_step_fails_with_its_result_and_a_line)
{
	struct sl_err err = SL_ERR(64);

	ck_assert_str_eq(err.text, "");
	ck_assert_int_eq(sl_fail(&err, -ENODEV, "interface %s does not exist", "sl9"), -ENODEV);
	ck_assert_str_eq(err.text, "interface sl9 does not exist");
	sl_err_set(&err, "later");
	ck_assert_str_eq(err.text, "later");
}

TEST(a_text_is_cut_where_its_memory_ends)
{
	char memory[8] = "1234567";
	struct sl_err err = {memory, 6};

	sl_err_set(&err, "abcdefghij");
	ck_assert_str_eq(err.text, "abcde");
	ck_assert_int_eq(memory[6], '7');
}

TEST(fail_returns_its_code_without_a_buffer)
{
	struct sl_err none = {NULL, 0};

	ck_assert_int_eq(sl_fail(NULL, -1, "%s", "text"), -1);
	ck_assert_int_eq(sl_fail(&none, -2, "%s", "text"), -2);
}

/* The arguments of a message may use errno: if (...) return sl_fail(e, -errno, ...) */
TEST(errno_stays)
{
	struct sl_err err = SL_ERR(16);

	errno = EBUSY;
	sl_err_set(&err, "%ls", L"\x110000"); /* vsnprintf() fails with EILSEQ */
	ck_assert_int_eq(errno, EBUSY);
}
