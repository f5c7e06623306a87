/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/addr.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>

#include "suite.h"

static const struct {
	const char *text;
	uint8_t family;
} good[] = {{"10.99.0.1", 4}, {"255.255.255.255", 4}, {"fd99::1", 6}, {"::", 6}};

TEST(a_text_and_back)
{
	for (unsigned i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct sl_addr a = {.port_be = 7};
		char text[SL_ADDR_TEXT];

		ck_assert(sl_addr_parse(&a, good[i].text));
		ck_assert_uint_eq(a.family, good[i].family);
		ck_assert_uint_eq(a.port_be, 0);
		ck_assert_str_eq(sl_addr_text(&a, text), good[i].text);
	}
}

TEST(an_invalid_address_changes_nothing)
{
	static const char *const bad[] = {"", "*", "10.0.0", "10.0.0.256", "fd99::1::2", "host"};
	struct sl_addr a = {.family = 6, .port_be = 5}, before = a;

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ck_assert_msg(!sl_addr_parse(&a, bad[i]), "%s", bad[i]);
		ck_assert(sl_addr_equal(&a, &before));
	}
}

TEST(none_is_a_star)
{
	char text[SL_ADDR_TEXT];

	ck_assert_str_eq(sl_addr_text(&(struct sl_addr){0}, text), "*");
}

TEST(the_kernel_s_type_and_back)
{
	for (unsigned i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct sockaddr_storage ss;
		struct sl_addr a, b;
		socklen_t len;

		ck_assert(sl_addr_parse(&a, good[i].text));
		a.port_be = htons(8080);
		len = sl_addr_to_sockaddr(&a, &ss);
		ck_assert_uint_eq(len, a.family == 4 ? sizeof(struct sockaddr_in)
						     : sizeof(struct sockaddr_in6));
		ck_assert(sl_addr_from_sockaddr(&b, (const struct sockaddr *)&ss));
		ck_assert(sl_addr_equal(&a, &b));
	}
}

TEST(a_socket_of_another_kind_has_no_address)
{
	struct sockaddr_storage ss = {.ss_family = AF_UNIX};
	struct sl_addr a = {.family = 4};

	ck_assert(!sl_addr_from_sockaddr(&a, (const struct sockaddr *)&ss));
	ck_assert_uint_eq(a.family, 0);
}

TEST(equal_means_address_port_and_family)
{
	const uint8_t one[16] = {10, 0, 0, 1}, two[16] = {10, 0, 0, 2};
	const struct sl_addr a = sl_addr_of(4, one, 80);
	const struct sl_addr others[] = {sl_addr_of(4, two, 80), sl_addr_of(4, one, 81),
					 sl_addr_of(6, one, 80)};
	struct sl_addr same = sl_addr_of(4, one, 80);

	ck_assert(sl_addr_equal(&a, &same));
	for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		ck_assert(!sl_addr_equal(&a, &others[i]));
}
