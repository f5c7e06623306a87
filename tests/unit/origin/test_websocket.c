/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "origin/websocket.h"
#include "suite.h"

TEST(accept_of_rfc_6455)
{
	char accept[ORIGIN_WS_ACCEPT + 1];

	ck_assert(origin_ws_accept("dGhlIHNhbXBsZSBub25jZQ==", accept));
	ck_assert_str_eq(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

TEST(keys_are_16_random_bytes)
{
	char a[ORIGIN_WS_KEY + 1], b[ORIGIN_WS_KEY + 1];

	ck_assert(origin_ws_key(a) && origin_ws_key(b));
	ck_assert_uint_eq(strlen(a), ORIGIN_WS_KEY);
	ck_assert_str_eq(a + ORIGIN_WS_KEY - 2, "==");
	ck_assert_str_ne(a, b);
}
