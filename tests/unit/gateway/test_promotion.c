/* SPDX-License-Identifier: Apache-2.0 */
/* Links that get a connection of their own, by their load. */
#include "gateway/promotion.h"
#include "suite.h"

enum { LINKS = 4 };
#define MS UINT64_C(1000000)

static struct promo_candidate candidates[LINKS];
static struct sl_rpc_traffic traffic[LINKS];
static enum promo_state states[LINKS];
static bool stuck[LINKS]; /* its last attempt has just failed */
static struct promo_round a;
static uint64_t now_ns;

static void set_up(void)
{
	now_ns = 1000 * MS;
	for (unsigned i = 0; i < LINKS; i++) {
		traffic[i] = (struct sl_rpc_traffic){.messages = 1000, .bytes = 1000000};
		promo_candidate_begin(&candidates[i], &traffic[i], now_ns);
		states[i] = PROMO_BOOTSTRAP;
		stuck[i] = false;
	}
}

FIXTURE(set_up, NULL)

/* A look, so long after the last one. */
static void look(unsigned max, uint64_t after_ms)
{
	now_ns += after_ms * MS;
	a = (struct promo_round){.max = max};
	for (unsigned i = 0; i < LINKS; i++) {
		promo_candidate_note(&candidates[i], &traffic[i], now_ns);
		promo_round_count(&a, states[i]);
	}
	for (unsigned i = 0; i < LINKS; i++)
		promo_round_add(&a, &candidates[i], states[i], !stuck[i], now_ns);
	promo_round_end(&a);
}

/* Looks like that for so long. */
static void look_on(unsigned max, uint64_t for_ms)
{
	for (uint64_t ms = 0; ms < for_ms; ms += 20)
		look(max, 20);
}

static void carry(unsigned i, uint64_t messages, uint64_t bytes)
{
	traffic[i].messages += messages;
	traffic[i].bytes += bytes;
}

static void make_worth(unsigned i)
{
	carry(i, 1, PROMO_BYTES);
}

TEST(idle_link_stays_on_the_bootstrap_endpoint)
{
	for (unsigned n = 0; n < 200; n++) {
		carry(0, 2, 100); /* a hundred messages a second */
		look(4, 20);
		ck_assert_ptr_null(a.promote);
		ck_assert_ptr_null(a.demote);
	}
}

TEST(late_round_averages_over_the_whole_time)
{
	uint64_t windows = 10, ms = windows * PROMO_WINDOW_NS / MS;

	carry(0, windows * PROMO_MESSAGES - 1, windows * PROMO_BYTES - 1);
	carry(1, windows * PROMO_MESSAGES, 100);
	carry(2, 1, windows * PROMO_BYTES);
	look(4, ms);
	ck_assert(!candidates[0].busy);
	ck_assert(candidates[1].busy);
	ck_assert(candidates[2].busy);
}

TEST(a_body_many_messages_or_a_wait_is_worth_a_place)
{
	carry(0, 1, PROMO_BYTES - 1);
	carry(1, PROMO_MESSAGES - 1, 100);
	look(4, 20);
	ck_assert_ptr_null(a.promote);
	carry(0, 0, 1);
	look(4, 20);
	ck_assert_ptr_eq(a.promote, &candidates[0]);
	states[0] = PROMO_PROMOTED;
	carry(1, 1, 1);
	look(4, 20);
	ck_assert_ptr_eq(a.promote, &candidates[1]);
	states[1] = PROMO_PROMOTED;
	traffic[2].waits++;
	look(4, 20);
	ck_assert_ptr_eq(a.promote, &candidates[2]);
}

TEST(slow_traffic_does_not_add_up)
{
	for (unsigned n = 0; n < 100; n++) {
		carry(0, PROMO_MESSAGES / 2 - 1, PROMO_BYTES / 2 - 1);
		look(4, 100);
		ck_assert_ptr_null(a.promote);
	}
}

TEST(link_that_was_busy_first_is_promoted_first)
{
	make_worth(2);
	look(0, 20);
	make_worth(1);
	make_worth(2); /* again: it goes on waiting */
	look(0, 20);
	look(1, 20);
	ck_assert_ptr_eq(a.promote, &candidates[2]);
	stuck[2] = true;
	look(1, 20);
	ck_assert_ptr_eq(a.promote, &candidates[1]);
}

TEST(busy_state_expires)
{
	make_worth(0);
	look_on(0, 1000);
	look(1, 0);
	ck_assert_ptr_eq(a.promote, &candidates[0]);
	look(1, 20);
	ck_assert_ptr_null(a.promote);
}

TEST(no_link_is_promoted_without_capacity)
{
	make_worth(0);
	look(0, 20);
	ck_assert_ptr_null(a.promote);
	ck_assert_ptr_null(a.demote);
	ck_assert_uint_eq(a.refused, 1);
}

TEST(idle_links_stay_promoted_without_demand)
{
	states[0] = states[1] = PROMO_PROMOTED;
	look_on(2, 5000);
	ck_assert_ptr_null(a.demote);
}

TEST(longest_idle_link_is_demoted_first)
{
	states[0] = states[1] = states[2] = PROMO_PROMOTED;
	make_worth(2);
	look_on(3, 200);
	make_worth(0);
	look_on(3, 200);
	for (unsigned n = 0; n < 60; n++) {
		make_worth(1); /* it is at work */
		make_worth(3);
		look(3, 20);
		ck_assert_ptr_null(a.promote);
		ck_assert(!a.demote || a.demote == &candidates[2]);
		ck_assert_int_eq(a.demote != NULL, now_ns - candidates[2].busy_ns >= PROMO_IDLE_NS);
	}
	ck_assert_ptr_eq(a.demote, &candidates[2]);
	stuck[2] = true;
	look(3, 200);
	ck_assert_ptr_eq(a.demote, &candidates[0]);
}

/* A request now and then, and PINGs. */
TEST(nearly_idle_link_is_demoted_for_a_busy_one)
{
	states[0] = PROMO_PROMOTED;
	for (unsigned n = 0; n < 60; n++) {
		carry(0, 4, 1000);
		make_worth(1);
		look(1, 20);
	}
	ck_assert_ptr_eq(a.demote, &candidates[0]);
}

TEST(one_link_is_demoted_for_one_waiting)
{
	states[0] = states[1] = PROMO_PROMOTED;
	look(2, 2000);
	make_worth(2);
	look(2, 20);
	ck_assert_ptr_eq(a.demote, &candidates[0]);
	states[0] = PROMO_DEMOTING;
	look(2, 20);
	ck_assert_ptr_null(a.demote);
	ck_assert_ptr_null(a.promote); /* it has not left yet */
	states[0] = PROMO_BOOTSTRAP;
	look(2, 20);
	ck_assert_ptr_eq(a.promote, &candidates[2]);
}

/* Their `first` was not there; or a reload has lowered the bound. */
TEST(links_above_a_lowered_limit_are_demoted)
{
	states[0] = states[1] = PROMO_PROMOTED;
	look(1, 20);
	ck_assert_ptr_null(a.demote); /* they have just begun */
	look(1, 1000);
	ck_assert_ptr_eq(a.demote, &candidates[0]);
	states[0] = PROMO_DEMOTING;
	look(1, 20);
	ck_assert_ptr_null(a.demote);
}

TEST(refused_promotion_is_counted_once)
{
	unsigned cnt = 0;

	states[0] = PROMO_PROMOTED;
	for (unsigned n = 0; n < 50; n++) {
		make_worth(1);
		carry(0, 1, 1);
		look(1, 20);
		cnt += a.refused;
	}
	ck_assert_uint_eq(cnt, 1);
	look_on(1, 1100);
	make_worth(1);
	look(1, 20);
	ck_assert_uint_eq(a.refused, 1);
}

TEST(counters_that_fall_are_nothing)
{
	traffic[0] = (struct sl_rpc_traffic){.messages = 0};
	look(4, 20);
	ck_assert_ptr_null(a.promote);
	carry(0, 1, PROMO_BYTES);
	look(4, 100);
	look(4, 20);
	ck_assert_ptr_null(a.promote); /* below what the last window began with */
	make_worth(0);
	look(4, 20);
	ck_assert_ptr_eq(a.promote, &candidates[0]);
}
