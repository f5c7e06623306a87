/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies as signs of a backend's health: a backend that fails is ejected, tried again, and returns.
 * Tests: user/core/outcome.c, user/core/serving.c
 */
#include "core_bed.h"
#include "core/outcome.h"
#include "suite.h"

static struct sl_cfg_pool *pool;

static void set_up(void)
{
	bed_begin();
	pool = &bed.cfg->pools[0];
	for (unsigned i = 0; i < BED_BACKENDS; i++)
		bed_connect(i, false);
	bed_open(0);
}

static void tear_down(void)
{
	bed_settle();
	bed_end();
}

FIXTURE(set_up, tear_down)

static struct sl_health *health(unsigned backend)
{
	return &bed_member(backend)->health->health;
}

static void reply(unsigned backend, unsigned status)
{
	struct bed_backend *be = &bed.backends[backend];
	struct sl_rpc_entry e = {
		.id = be->ids[(be->id_cnt - 1) % BED_IDS], .len = 1, .meta_len = 6};
	struct sl_rpc_header h = bed_header(SL_RPC_RESPONSE, 1, 1, sizeof(e) + 8 + 8);
	uint8_t body[sizeof(e) + 16] = {0}, *meta = body + sizeof(e);

	memcpy(body, &e, sizeof(e));
	meta[0] = SL_META_STATUS;
	meta[2] = 2;
	sl_put_le16(meta + 4, (uint16_t)status);
	ck_assert(bed_message(be, &h, body));
}

/* One request; `failing` answers it with the status, others with 200. Returns the backend. */
static unsigned ask(unsigned failing, unsigned status)
{
	unsigned before = bed.backends[0].id_cnt, to;

	bed_post_request(0, "/e", 'z', 10);
	bed_turns(3);
	to = bed.backends[0].id_cnt != before ? 0 : 1;
	reply(to, to == failing ? status : 200);
	bed_turns(3);
	bed.clients[0].heard_len = 0;
	return to;
}

static unsigned ask_many(unsigned cnt, unsigned failing, unsigned status)
{
	unsigned failed = 0;

	while (cnt--)
		failed += ask(failing, status) == failing;
	return failed;
}

static void pass(uint64_t ns)
{
	bed_turn(ns);
	bed_turns(2);
}

TEST(server_that_answers_500_is_ejected_after_three_failures)
{
	ck_assert_uint_le(ask_many(100, 1, 500), 3);
	ck_assert_int_eq(sl_health_state(health(1)), SL_HEALTH_EJECTED);
	ck_assert(!bed_member(1)->served);
	ck_assert(bed_member(0)->served);
	ck_assert_uint_eq(atomic_load(&bed_member(1)->faults), 3);
}

TEST(streams_avoid_an_ejected_backend)
{
	for (uint32_t i = 0; i < bed.cfg->route_cnt; i++)
		bed.cfg->routes[i].stream = true;
	ck_assert_uint_eq(ask_many(100, 1, 500), 3);
	ck_assert_int_eq(sl_health_state(health(1)), SL_HEALTH_EJECTED);
}

/* The trial is one request; its failure doubles the back-off. */
TEST(ejected_backend_is_tried_and_ejected_for_longer)
{
	(void)ask_many(20, 1, 500);
	for (unsigned n = 1; n < 4; n++) {
		uint64_t left_ns = atomic_load(&health(1)->until_ns) - bed.now_ns;

		pass(left_ns + SL_NS_PER_MS);
		ck_assert_uint_eq(ask_many(100, 1, 500), 1);
		ck_assert_uint_eq(atomic_load(&health(1)->ejections), n + 1);
		left_ns = atomic_load(&health(1)->until_ns) - bed.now_ns;
		ck_assert_uint_gt(left_ns, (pool->eject_ns << n) - SL_NS_PER_SEC);
	}
}

TEST(backend_that_answers_again_returns_slowly)
{
	unsigned early, late;

	(void)ask_many(20, 1, 500);
	pass(atomic_load(&health(1)->until_ns) - bed.now_ns + SL_NS_PER_MS);
	ck_assert(bed_member(1)->served);
	ck_assert(bed_member(1)->trial);
	(void)ask_many(100, 2, 0);
	ck_assert_int_eq(sl_health_state(health(1)), SL_HEALTH_UP);
	early = bed_member(1)->share;
	pass(pool->slow_start_ns / 2);
	late = bed_member(1)->share;
	ck_assert_uint_lt(early, 64);
	ck_assert_uint_gt(late, early);
	pass(pool->slow_start_ns);
	ck_assert_uint_eq(bed_member(1)->share, SL_WEIGHT_UNIT);
	ck_assert(!bed.core.wcfg->pools[0].pool->weighted);
}

TEST(last_backend_is_not_ejected)
{
	bed.backends[0].broken = -ENOTCONN;
	bed_turns(3);
	ck_assert_uint_eq(ask_many(20, 1, 500), 20);
	ck_assert(bed_member(1)->served);
	ck_assert_uint_eq(atomic_load(&health(1)->ejections), 0);
}

TEST(ejected_backend_serves_if_the_others_are_gone)
{
	(void)ask_many(20, 1, 500);
	ck_assert(!bed_member(1)->served);
	bed.backends[0].broken = -ENOTCONN;
	bed_turns(3);
	ck_assert(bed_member(1)->served);
	ck_assert_uint_eq(ask_many(5, 1, 200), 5);
}

TEST(statuses_of_clients_do_not_count)
{
	static const unsigned statuses[] = {200, 304, 400, 401, 404, 408, 413, 429, 499};

	for (unsigned i = 0; i < sizeof(statuses) / sizeof(*statuses); i++)
		ck_assert_uint_gt(ask_many(8, 1, statuses[i]), 2);
	ck_assert_uint_eq(atomic_load(&bed_member(1)->faults), 0);
	ck_assert_uint_eq(atomic_load(&health(1)->ejections), 0);
}

/* Keys of `eject`: what counts. */
TEST(pool_decides_which_failures_count)
{
	static const struct {
		enum sl_eject eject;
		unsigned status;
		bool counts;
	} cases[] = {
		{SL_EJECT_5XX, 500, true},      {SL_EJECT_5XX, 599, true},
		{SL_EJECT_GATEWAY, 500, false}, {SL_EJECT_GATEWAY, 502, true},
		{SL_EJECT_GATEWAY, 503, true},  {SL_EJECT_GATEWAY, 504, true},
		{SL_EJECT_LOST, 503, false},    {SL_EJECT_NONE, 503, false},
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		uint64_t before = atomic_load(&bed_member(1)->faults);

		pool->eject = (uint8_t)cases[i].eject;
		while (ask(1, cases[i].status) != 1)
			;
		while (ask(1, 200) != 1)
			;
		ck_assert_uint_eq(atomic_load(&bed_member(1)->faults) - before, cases[i].counts);
	}
}

/* The agent reports resets of its server so. */
TEST(lost_requests_count)
{
	for (unsigned lost = 0; lost < 3;) {
		unsigned before = bed.backends[0].id_cnt;
		struct bed_backend *be;

		bed_post_request(0, "/e", 'z', 10);
		bed_turns(3);
		be = &bed.backends[bed.backends[0].id_cnt == before];
		lost += be == &bed.backends[1];
		ck_assert(bed_reply(be, be->ids[(be->id_cnt - 1) % BED_IDS],
				    be == &bed.backends[1] ? SL_RPC_LOST : SL_RPC_OK, 0, ""));
		bed_turns(3);
	}
	ck_assert_int_eq(sl_health_state(health(1)), SL_HEALTH_EJECTED);
}

/* A client that leaves is no outcome, and neither is a refusal. */
TEST(refusals_and_clients_that_leave_do_not_count)
{
	for (unsigned n = 0; n < 5; n++) {
		bed_open(1 + n);
		bed_post_request(1 + n, "/e", 'z', 10);
		bed_turns(3);
		bed_segment(1 + n, BED_RST | BED_ACK, NULL, 0);
		bed_turns(3);
	}
	ck_assert_uint_eq(atomic_load(&bed_member(1)->faults), 0);
}

/* --- serving.c --- */

TEST(backup_serves_only_without_the_others)
{
	bed_member(1)->tier = SL_TIER_BACKUP;
	sl_pool_update_batcher(bed_member(1)->pool);
	ck_assert_uint_eq(ask_many(20, 1, 200), 0);
	bed.backends[0].broken = -ENOTCONN;
	bed_turns(3);
	ck_assert_uint_eq(ask_many(5, 1, 200), 5);
	bed_connect(0, false);
	bed_turns(3);
	ck_assert_uint_eq(ask_many(20, 1, 200), 0);
}

TEST(backend_of_another_zone_serves_only_without_those_of_this_zone)
{
	bed_member(1)->tier = SL_TIER_OTHER_ZONE;
	sl_pool_update_batcher(bed_member(1)->pool);
	ck_assert_uint_eq(ask_many(20, 1, 200), 0);
	bed.backends[0].broken = -ENOTCONN;
	bed_turns(3);
	ck_assert_uint_eq(ask_many(5, 1, 200), 5);
	bed_connect(0, false);
	bed_turns(3);
	ck_assert_uint_eq(ask_many(20, 1, 200), 0);
}

TEST(backup_serves_only_without_backends_of_other_zones)
{
	bed_member(0)->tier = SL_TIER_OTHER_ZONE;
	bed_member(1)->tier = SL_TIER_BACKUP;
	sl_pool_update_batcher(bed_member(1)->pool);
	ck_assert_uint_eq(ask_many(20, 1, 200), 0);
	bed.backends[0].broken = -ENOTCONN;
	bed_turns(3);
	ck_assert_uint_eq(ask_many(5, 1, 200), 5);
}

/* The backup counts as the other half of the pool. */
TEST(backup_serves_while_the_only_other_backend_is_ejected)
{
	bed_member(1)->tier = SL_TIER_BACKUP;
	sl_pool_update_batcher(bed_member(1)->pool);
	ck_assert_uint_eq(ask_many(20, 0, 500), 3);
	ck_assert(bed_member(1)->served);
	ck_assert(!bed_member(0)->served);
}

TEST(drained_backend_finishes_and_gets_nothing_new)
{
	unsigned before = bed.backends[0].id_cnt, busy;

	bed_open(1);
	bed_post_request(1, "/e", 'z', 10);
	bed_turns(3);
	busy = bed.backends[0].id_cnt != before ? 0 : 1;
	atomic_store(&health(busy)->drained, true);
	sl_pool_health_changed(bed_member(busy)->health->pool);
	bed_turns(1);
	ck_assert(!bed_member(busy)->served);
	ck_assert_uint_eq(ask_many(20, busy, 200), 0);
	ck_assert(bed_reply(&bed.backends[busy], bed.backends[busy].ids[0], SL_RPC_OK, 0, "done"));
	bed_turns(3);
	ck_assert_ptr_nonnull(memmem(bed.clients[1].heard, bed.clients[1].heard_len, "done", 4));
	atomic_store(&health(busy)->drained, false);
	sl_pool_health_changed(bed_member(busy)->health->pool);
	bed_turns(1); /* its slow start begins */
	pass(2 * pool->slow_start_ns);
	ck_assert_uint_gt(ask_many(40, busy, 200), 10);
}

TEST(weight_changes_at_run_time)
{
	atomic_store(&health(1)->weight, 9);
	sl_pool_health_changed(bed_member(1)->health->pool);
	bed_turns(1);
	ck_assert_uint_eq(bed_member(1)->share, 9 * SL_WEIGHT_UNIT);
	ck_assert_uint_gt(ask_many(60, 1, 200), 40);
}

TEST(backend_that_reconnects_starts_slowly)
{
	bed.backends[1].broken = -ENOTCONN;
	bed_turns(3);
	bed_connect(1, false);
	bed_turns(3);
	ck_assert(bed_member(1)->served);
	ck_assert_uint_lt(bed_member(1)->share, SL_WEIGHT_UNIT / 4);
	ck_assert_uint_lt(ask_many(40, 1, 200), 20);
}
