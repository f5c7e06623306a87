/* SPDX-License-Identifier: Apache-2.0 */
/* The front of a connection, chosen by its first bytes. */
#include "front/front.h"
#include "suite.h"

/* A stand-in: only its address matters here. */
const struct sl_front_ops sl_front_h2 = {.name = "h2"};

TEST(the_first_byte_that_differs_from_the_preface_decides)
{
	static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
	size_t n = sizeof(preface) - 1, magic = strlen("PRI ");
	char bytes[64];

	for (size_t len = 0; len < magic; len++) {
		ck_assert_ptr_null(sl_front_detect(sl_span_of(preface, len)));
		memcpy(bytes, preface, n);
		bytes[len] ^= 1;
		ck_assert_ptr_eq(sl_front_detect(sl_span_of(bytes, len + 1)), &sl_front_http1);
		ck_assert_ptr_eq(sl_front_detect(sl_span_of(bytes, n)), &sl_front_http1);
	}
	for (size_t len = magic; len <= n; len++)
		ck_assert_ptr_eq(sl_front_detect(sl_span_of(preface, len)), &sl_front_h2);
	ck_assert_ptr_eq(sl_front_detect(sl_span_str("GET / HTTP/1.1\r\n")), &sl_front_http1);
	ck_assert_ptr_eq(sl_front_detect(sl_span_str("PO")), &sl_front_http1);
	ck_assert_ptr_eq(sl_front_detect(sl_span_str("PRIX")), &sl_front_http1);
}
