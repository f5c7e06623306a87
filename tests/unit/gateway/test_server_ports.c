/* SPDX-License-Identifier: Apache-2.0 */
/* server_ports.c: ports that the kernel does not use. */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "gateway/server_ports.h"
#include "suite.h"

TEST(a_list_of_reserved_ports_has_ports_and_ranges)
{
	static const char list[] = "80,8000-8010,20000-29999\n";

	ck_assert(sl_server_ports_listed(list, 80));
	ck_assert(!sl_server_ports_listed(list, 81));
	ck_assert(sl_server_ports_listed(list, 8000) && sl_server_ports_listed(list, 8010));
	ck_assert(!sl_server_ports_listed(list, 7999) && !sl_server_ports_listed(list, 8011));
	ck_assert(sl_server_ports_listed(list, 29999) && !sl_server_ports_listed(list, 30000));
	ck_assert(!sl_server_ports_listed("", 1) && !sl_server_ports_listed("\n", 0));
	ck_assert(!sl_server_ports_listed("x,,-,5-", 6));
}

TEST(a_socket_of_another_program_is_found_in_both_families)
{
	static char text[] =
		"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt\n"
		"   0: 0100007F:4E20 00000000:0000 0A 00000000:00000000 00:00000000 00000000\n"
		"   1: 0100007F:4E21 0100007F:0050 06 00000000:00000000 03:00000000 00000000\n"
		"  12: 00000000000000000000000001000000:4E22 "
		"00000000000000000000000000000000:0000 0A 0 0\n"
		"no line of a table\n";
	static const struct {
		unsigned first, last, port;
	} cases[] = {
		{20000, 29999, 20000}, /* listens */
		{20001, 20001, 0},     /* TIME-WAIT */
		{20001, 29999, 20002}, /* IPv6 */
		{1024, 19999, 0},
	};

	for (size_t i = 0; i < SL_ARRAY_LEN(cases); i++) {
		FILE *f = fmemopen(text, strlen(text), "r");

		ck_assert_uint_eq(sl_server_ports_used(f, cases[i].first, cases[i].last),
				  cases[i].port);
		fclose(f);
	}
}
