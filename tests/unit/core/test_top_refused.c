/* SPDX-License-Identifier: Apache-2.0 */
/* The most refused addresses are known, and each of them is logged. */
#include <string.h>

#include "base/clock.h"
#include "core/addr_quota.h"
#include "suite.h"

static struct sl_top_refused r, seen;

static void set_up(void)
{
	memset(&r, 0, sizeof(r));
}

FIXTURE(set_up, NULL)

static struct sl_addr host(uint32_t n)
{
	return (struct sl_addr){.addr = {10, (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n},
				.port_be = 7,
				.family = 4};
}

static bool refuse(uint32_t n, uint64_t now_ns)
{
	struct sl_addr a = host(n);

	return sl_top_refused_add(&r, &a, n % 2 ? SL_QUOTA_FRAMES : SL_QUOTA_REQUESTS, now_ns);
}

static const char *name_of(unsigned place)
{
	static char text[SL_QUOTA_TEXT];

	ck_assert(sl_top_refused_read(&r, &seen));
	return sl_top_refused_text(&seen.list[place].addr, text);
}

TEST(each_refused_address_is_reported_once_in_ten_seconds)
{
	const uint64_t now = 100 * SL_NS_PER_SEC;

	ck_assert(refuse(1, now));
	ck_assert(refuse(2, now)); /* the first one's line is not the second one's */
	ck_assert(!refuse(1, now + 1));
	ck_assert(!refuse(2, now + SL_NS_PER_SEC));
	ck_assert(refuse(1, now + 10 * SL_NS_PER_SEC));
	ck_assert(refuse(2, now + 10 * SL_NS_PER_SEC));
}

TEST(the_log_has_so_many_lines_of_all_of_them)
{
	const uint64_t now = 100 * SL_NS_PER_SEC;
	unsigned lines = 0;

	for (uint32_t i = 0; i < 10000; i++)
		lines += refuse(i, now + i);
	ck_assert_uint_eq(lines, SL_TOP_REFUSED_LINES);
	ck_assert(refuse(20000, now + 10 * SL_NS_PER_SEC));
}

TEST(most_refused_address_stays_listed)
{
	for (uint32_t i = 0; i < 6000; i++) {
		refuse(1, 1);
		refuse(2, 1);
		refuse(100 + i, 1); /* as many others, once each */
		if (i % 2)
			refuse(1, 1);
	}
	ck_assert_str_eq(name_of(0), "10.0.0.1");
	ck_assert_str_eq(name_of(1), "10.0.0.2");
	ck_assert_uint_eq(seen.list[0].cnt[SL_QUOTA_FRAMES], 9000);
	ck_assert_uint_eq(seen.list[1].cnt[SL_QUOTA_REQUESTS], 6000);
	ck_assert_uint_eq(seen.list[1].cnt[SL_QUOTA_FRAMES], 0);
}

/* Others come with him, once each: neither they nor those of before keep him off it. */
TEST(late_frequent_address_becomes_listed)
{
	for (uint32_t i = 0; i < 8 * 100; i++)
		refuse(200 + i % 8, 1);
	for (uint32_t i = 0; i < 1000; i++) {
		refuse(1, 1);
		refuse(1000 + i, 1);
	}
	ck_assert_str_eq(name_of(0), "10.0.0.1");
}

TEST(an_ipv6_network_is_one_and_so_are_all_that_prove_nothing)
{
	struct sl_addr a = {.addr = {0x20, 1, [7] = 7, [15] = 1}, .port_be = 9, .family = 6}, b = a;
	struct sl_addr none = {0};

	b.addr[15] = 2;
	ck_assert_str_eq(name_of(0), "datagrams"); /* no address: family 0 */
	ck_assert_uint_eq(seen.list[0].rank, 0);
	sl_top_refused_add(&r, &a, SL_QUOTA_CONNECTIONS, 1);
	sl_top_refused_add(&r, &b, SL_QUOTA_CONNECTIONS, 1);
	sl_top_refused_add(&r, &none, SL_QUOTA_EXCHANGES, 1);
	ck_assert_str_eq(name_of(0), "2001:0:0:7::/64");
	ck_assert_uint_eq(seen.list[0].cnt[SL_QUOTA_CONNECTIONS], 2);
	ck_assert_str_eq(name_of(1), "datagrams");
	ck_assert_uint_eq(seen.list[1].rank, 1);
	ck_assert_uint_eq(seen.list[2].rank, 0);
}

TEST(list_being_written_is_not_read)
{
	refuse(1, 1);
	r.version++;
	ck_assert(!sl_top_refused_read(&r, &seen));
	ck_assert_uint_eq(seen.list[0].rank, 0);
	r.version++;
	ck_assert(sl_top_refused_read(&r, &seen));
	ck_assert_uint_eq(seen.list[0].rank, 1);
}
