/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/clock.h"
#include "core/addr_quota.h"
#include "suite.h"

enum { CAP = 100 };

static struct sl_addr_quotas t;
static uint64_t refused[SL_QUOTA_LIMIT_CNT];
static struct sl_top_refused who;

static void set_up(void)
{
	memset(&t, 0, sizeof(t));
	memset(refused, 0, sizeof(refused));
	memset(&who, 0, sizeof(who));
	ck_assert_int_eq(sl_addr_quotas_init(&t, CAP, refused, &who), 0);
}

static void tear_down(void)
{
	sl_addr_quotas_fini(&t);
}

FIXTURE(set_up, tear_down)

static struct sl_addr_quota *open4(uint32_t host)
{
	struct sl_addr a = {
		.addr = {10, (uint8_t)(host >> 16), (uint8_t)(host >> 8), (uint8_t)host},
		.family = 4};

	return sl_addr_quota_open(&t, &a);
}

static struct sl_addr_quota *open6(uint8_t net, uint8_t host)
{
	struct sl_addr a = {.addr = {0x20, 1, 0, 0, 0, 0, 0, net, [15] = host}, .family = 6};

	return sl_addr_quota_open(&t, &a);
}

TEST(an_account_is_an_ipv4_address_or_an_ipv6_64)
{
	char text[SL_QUOTA_TEXT];
	struct sl_addr_quota *a = open4(1);

	ck_assert_ptr_eq(open4(1), a);
	ck_assert_ptr_ne(open4(2), a);
	ck_assert_str_eq(sl_addr_quota_text(a, text), "10.0.0.1");
	a = open6(7, 1);
	ck_assert_ptr_eq(open6(7, 2), a);
	ck_assert_ptr_ne(open6(8, 1), a);
	ck_assert_str_eq(sl_addr_quota_text(a, text), "2001:0:0:7::/64");
	ck_assert_str_eq(sl_addr_quota_text(&t.unproven, text), "datagrams");
}

TEST(all_come_and_go_in_any_order)
{
	static struct sl_addr_quota *a[CAP];

	for (unsigned round = 0; round < 20; round++) {
		for (uint32_t i = 0; i < CAP; i++)
			ck_assert_ptr_nonnull(a[i] = open4(round * 7 + i));
		for (uint32_t i = 0; i < CAP; i++)
			ck_assert_ptr_eq(open4(round * 7 + i), a[i]);
		for (uint32_t k = 0; k < CAP; k++) {
			uint32_t i = (k * 37 + round) % CAP;

			sl_addr_quota_close(&t, a[i], 0);
			sl_addr_quota_close(&t, a[i], 0);
		}
		ck_assert_uint_eq(sl_mempool_used(&t.pool), 0);
		for (uint32_t i = 0; i <= t.mask; i++)
			ck_assert_uint_eq(t.slots[i], 0);
	}
}

TEST(an_empty_bucket_outlives_connections_until_the_place_is_wanted)
{
	struct sl_addr_quota *a = open4(1);

	t.limits[SL_QUOTA_REQUESTS] = 2;
	ck_assert(sl_addr_quota_admits_request(&t, a, 1000));
	ck_assert(sl_addr_quota_admits_request(&t, a, 1000));
	ck_assert(!sl_addr_quota_admits_request(&t, a, 1000));
	sl_addr_quota_close(&t, a, 1000);
	a = open4(1);
	ck_assert(!sl_addr_quota_admits_request(&t, a, 2000));
	ck_assert(sl_addr_quota_admits_request(&t, a, 1000 + SL_NS_PER_SEC / 2));
	sl_addr_quota_close(&t, a, 1000 + SL_NS_PER_SEC / 2);
	ck_assert_uint_eq(refused[SL_QUOTA_REQUESTS], 2);
	for (uint32_t i = 10; i < 10 + CAP + 1; i++)
		ck_assert_ptr_nonnull(open4(i));
	ck_assert_uint_eq(sl_mempool_used(&t.pool), CAP + 1);
}

TEST(a_class_is_left_downwards_at_three_quarters)
{
	struct sl_addr_quota *a = open4(1), *b = open4(2);

	sl_addr_quota_set_frames(&t, b, 40);
	sl_addr_quota_set_frames(&t, a, 64);
	sl_addr_quota_set_frames(&t, a, 48); /* as one that comes and goes at a border */
	ck_assert_ptr_eq(sl_addr_quota_heaviest(&t, SL_RANK_FRAMES), a);
	sl_addr_quota_set_frames(&t, a, 47);
	ck_assert_ptr_eq(sl_addr_quota_heaviest(&t, SL_RANK_FRAMES), b);
	ck_assert_ptr_eq(sl_addr_quota_lighter(&t, SL_RANK_FRAMES, b), a);
	sl_addr_quota_set_frames(&t, b, 0);
	ck_assert_ptr_eq(sl_addr_quota_heaviest(&t, SL_RANK_FRAMES), a);
	sl_addr_quota_set_frames(&t, a, 0);
	ck_assert_ptr_null(sl_addr_quota_heaviest(&t, SL_RANK_FRAMES));
}

TEST(the_heaviest_is_found_up_to_a_factor)
{
	struct sl_addr_quota *a = open4(1), *b = open4(2), *c = open4(3);

	ck_assert_ptr_null(sl_addr_quota_heaviest(&t, SL_RANK_FRAMES));
	sl_addr_quota_set_frames(&t, a, SL_RANK_FLOOR - 1); /* too little to speak of */
	ck_assert_ptr_null(sl_addr_quota_heaviest(&t, SL_RANK_FRAMES));
	sl_addr_quota_set_frames(&t, a, 40);
	sl_addr_quota_set_frames(&t, b, 5000);
	sl_addr_quota_set_frames(&t, c, 300);
	ck_assert_ptr_eq(sl_addr_quota_heaviest(&t, SL_RANK_FRAMES), b);
	ck_assert_ptr_eq(sl_addr_quota_lighter(&t, SL_RANK_FRAMES, b), c);
	ck_assert_ptr_eq(sl_addr_quota_lighter(&t, SL_RANK_FRAMES, c), a);
	ck_assert_ptr_null(sl_addr_quota_lighter(&t, SL_RANK_FRAMES, a));
	ck_assert_ptr_null(sl_addr_quota_heaviest(&t, SL_RANK_EXCHANGES));
	sl_addr_quota_set_frames(&t, b, 0);
	ck_assert_ptr_eq(sl_addr_quota_heaviest(&t, SL_RANK_FRAMES), c);
	sl_addr_quota_set_frames(&t, a, 0);
	sl_addr_quota_set_frames(&t, c, 0);
	ck_assert_ptr_null(sl_addr_quota_heaviest(&t, SL_RANK_FRAMES));
}
