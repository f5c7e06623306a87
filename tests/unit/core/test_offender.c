/* SPDX-License-Identifier: Apache-2.0 */
#include "core/offender.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "core/client.h"
#include "core/quota_table.h"
#include "suite.h"

enum { AFTER = 5 };
#define WITHIN_NS (10 * SL_NS_PER_SEC)

static struct sl_core core;
static struct sl_config cfg;
static struct sl_client client;
static struct sl_cfg_listener listener;

static void set_up(void)
{
	memset(&core, 0, sizeof(core));
	memset(&client, 0, sizeof(client));
	memset(&cfg, 0, sizeof(cfg));
	cfg.penalty = (struct sl_cfg_penalty){
		.after = AFTER, .within_ns = WITHIN_NS, .table = sl_quota_table_new(64)};
	ck_assert_ptr_nonnull(cfg.penalty.table);
	cfg.listeners = &listener;
	cfg.listener_cnt = 1;
	core.cfg = &cfg;
	core.now_ns = 1000 * SL_NS_PER_SEC;
	core.offenders = sl_ring_new(SL_OFFENDER_RING);
	ck_assert_ptr_nonnull(core.offenders);
	client.core = &core;
}

static void tear_down(void)
{
	sl_ring_free(core.offenders);
	sl_quota_table_put(cfg.penalty.table);
}

static void refuse(const char *addr, unsigned times)
{
	struct sl_addr a;

	ck_assert(sl_addr_parse(&a, addr));
	a.port_be = 1;
	for (unsigned i = 0; i < times; i++)
		sl_offender_count(&client, &a);
}

/* Returns the number of reports; all must be of this address. */
static unsigned reports(const char *addr)
{
	struct sl_addr want, got;
	unsigned n = 0;

	ck_assert(sl_addr_parse(&want, addr));
	for (; sl_offender_take(core.offenders, &got); n++)
		ck_assert(sl_addr_equal(&got, &want));
	return n;
}

FIXTURE(set_up, tear_down)

TEST(an_address_is_reported_after_its_last_tolerated_refusal)
{
	refuse("10.0.0.1", AFTER);
	ck_assert_uint_eq(reports("10.0.0.1"), 0);
	refuse("10.0.0.2", AFTER);
	ck_assert_uint_eq(reports("10.0.0.2"), 0);
	refuse("10.0.0.1", 1);
	ck_assert_uint_eq(reports("10.0.0.1"), 1);
}

TEST(a_report_begins_a_new_count)
{
	refuse("10.0.0.1", 2 * AFTER + 1);
	ck_assert_uint_eq(reports("10.0.0.1"), 1);
	refuse("10.0.0.1", 1);
	ck_assert_uint_eq(reports("10.0.0.1"), 1);
}

TEST(refusals_are_forgotten_within_the_time)
{
	for (unsigned i = 0; i < 10 * AFTER; i++) {
		refuse("10.0.0.1", 1);
		core.now_ns += WITHIN_NS / AFTER;
	}
	ck_assert_uint_eq(reports("10.0.0.1"), 0);
	refuse("10.0.0.1", AFTER);
	core.now_ns += WITHIN_NS;
	refuse("10.0.0.1", AFTER);
	ck_assert_uint_eq(reports("10.0.0.1"), 0);
}

TEST(addresses_of_a_64_count_together)
{
	refuse("fd99::1", AFTER);
	refuse("fd99:0:0:1::1", 1);
	ck_assert_uint_eq(reports("fd99::"), 0);
	refuse("fd99::2:0:0:1", 1);
	ck_assert_uint_eq(reports("fd99::"), 1);
}

TEST(unproven_and_named_addresses_are_never_reported)
{
	static const struct sl_addr none;

	client.kernel = true;
	refuse("10.0.0.1", 10 * AFTER);
	client.kernel = false;
	client.proxied = true;
	refuse("10.0.0.1", 10 * AFTER);
	client.proxied = false;
	refuse("fe80::1", 10 * AFTER);
	listener.forwarded = SL_FORWARDED_APPEND;
	refuse("10.0.0.1", 10 * AFTER);
	listener.forwarded = SL_FORWARDED_REPLACE;
	for (unsigned i = 0; i < 10 * AFTER; i++) {
		sl_offender_count(&client, &none);
		sl_offender_count(&client, NULL); /* the quota of all datagrams */
	}
	cfg.penalty.after = 0;
	refuse("10.0.0.1", 10 * AFTER);
	ck_assert_uint_eq(reports("10.0.0.1"), 0);
}

TEST(a_full_ring_delays_a_report)
{
	struct sl_addr a = {.family = 4};
	unsigned taken = 0;
	char text[32];

	for (unsigned k = 0; k < SL_OFFENDER_RING / 2; k++) {
		snprintf(text, sizeof(text), "10.1.%u.%u", k >> 8, k & 255);
		refuse(text, AFTER + 1);
	}
	refuse("10.0.0.1", 10 * AFTER);
	while (sl_offender_take(core.offenders, &a))
		taken++;
	ck_assert_uint_eq(taken, SL_OFFENDER_RING / 2);
	refuse("10.0.0.1", 1);
	ck_assert_uint_eq(reports("10.0.0.1"), 1);
}
