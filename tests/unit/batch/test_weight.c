/* SPDX-License-Identifier: Apache-2.0 */
/* Shares of backends by weight, in simulations with fixed seeds. */
#include <stdlib.h>
#include <string.h>

#include "batch/batcher.h"
#include "base/rand.h"
#include "suite.h"

#define MS UINT64_C(1000000)

enum { MANY = 64, REQUESTS = 20000, FLIGHTS = 4 * MANY };

static struct sl_cfg_backend cfg_backends[MANY];
static struct sl_cfg_pool pool;
static struct sl_svc_live live;
static struct sl_batcher *b;
static struct sl_batch_item items[REQUESTS];
static unsigned got[MANY], most_at_once[MANY], at_once[MANY], backends, flight_cnt, drops;
static uint64_t now_ns, takes_ns[MANY];
static struct {
	unsigned backend, cnt;
	uint64_t sent_ns, end_ns;
} flights[FLIGHTS];
static struct sl_prng prng;

static int on_send(void *app, unsigned backend, struct sl_batch_item **list, unsigned cnt)
{
	(void)app, (void)list;
	ck_assert_uint_lt(flight_cnt, FLIGHTS);
	flights[flight_cnt].backend = backend;
	flights[flight_cnt].cnt = cnt;
	flights[flight_cnt].sent_ns = now_ns;
	flights[flight_cnt++].end_ns = now_ns + takes_ns[backend];
	got[backend] += cnt;
	at_once[backend] += cnt;
	if (at_once[backend] > most_at_once[backend])
		most_at_once[backend] = at_once[backend];
	return 0;
}

static void on_drop(void *app, struct sl_batch_item *item, enum sl_outcome why)
{
	(void)app, (void)item, (void)why;
	drops++;
}

static void begin(enum sl_policy policy, unsigned cnt)
{
	static const struct sl_batch_ops ops = {.send = on_send, .drop = on_drop};

	backends = cnt;
	memset(got, 0, sizeof(got));
	memset(at_once, 0, sizeof(at_once));
	memset(most_at_once, 0, sizeof(most_at_once));
	flight_cnt = drops = 0;
	pool = (struct sl_cfg_pool){
		.backends = cfg_backends,
		.backend_cnt = cnt,
		.max_queue = REQUESTS,
		.batch = {.policy = (uint8_t)policy, .max_size = 4, .bound_ns = 10000 * MS}};
	now_ns = 1000 * MS;
	b = sl_batcher_create(&pool, &ops, NULL, &live, NULL);
	ck_assert_ptr_nonnull(b);
	sl_batcher_seed(b, 5);
	sl_prng_seed(&prng, 11);
	for (unsigned i = 0; i < cnt; i++) {
		takes_ns[i] = 10 * MS;
		sl_batcher_backend(b, i, true, now_ns);
		sl_batcher_weigh(b, i, 1, false);
	}
}

static void tear_down(void)
{
	if (b)
		sl_batcher_destroy(b);
	b = NULL;
}

FIXTURE(NULL, tear_down)

static void end_due(void)
{
	for (unsigned i = 0; i < flight_cnt;) {
		if (flights[i].end_ns > now_ns) {
			i++;
			continue;
		}
		at_once[flights[i].backend] -= flights[i].cnt;
		sl_batcher_done(b, flights[i].backend, flights[i].cnt, flights[i].sent_ns, 0,
				takes_ns[flights[i].backend], now_ns);
		flights[i] = flights[--flight_cnt];
	}
}

/* Poisson arrivals, in steps of 0.1 ms. */
static void run(unsigned cnt, double gap_ns)
{
	double next = (double)now_ns;

	for (unsigned n = 0; n < cnt;) {
		now_ns += MS / 10;
		end_due();
		while (n < cnt && next <= (double)now_ns) {
			items[n] = (struct sl_batch_item){.deadline_ns = UINT64_MAX, .policy = -1};
			ck_assert_int_eq(sl_batcher_submit(b, &items[n++], now_ns), SL_OUTCOME_OK);
			next += sl_prng_exp(&prng, gap_ns);
		}
		sl_batcher_pump(b, now_ns);
	}
	while (flight_cnt || sl_batcher_queue_len(b)) {
		now_ns += MS / 10;
		end_due();
		sl_batcher_pump(b, now_ns);
	}
	ck_assert_uint_eq(drops, 0);
}

static const enum sl_policy policies[] = {SL_POLICY_ADAPTIVE, SL_POLICY_DIRECT};

/* 3 of 5, 1 of 5, 1 of 5. */
TEST_EACH(equal_backends_get_requests_by_weight, 2)
{
	begin(policies[_i], 3);
	sl_batcher_weigh(b, 1, 3, false);
	sl_batcher_weighted(b, 3);
	run(10000, 40e6);
	ck_assert_msg(got[1] > 5300 && got[1] < 6700, "%u of 10000", got[1]);
	ck_assert_msg(got[0] > 1500 && got[0] < 2500, "%u of 10000", got[0]);
}

/* More than the few that are examined one by one. */
TEST_EACH(weights_hold_among_many_backends, 2)
{
	unsigned heavy = 0;

	begin(policies[_i], MANY);
	for (unsigned i = 0; i < MANY / 4; i++)
		sl_batcher_weigh(b, i, 4, false);
	sl_batcher_weighted(b, 4);
	run(20000, 5e6);
	for (unsigned i = 0; i < MANY; i++) {
		ck_assert_uint_gt(got[i], 0);
		heavy += i < MANY / 4 ? got[i] : 0;
	}
	/* 16 * 4 of 16 * 4 + 48. */
	ck_assert_msg(heavy > 10000 && heavy < 14500, "%u of 20000", heavy);
}

/* A share of a tenth, also for one that looks faster. */
TEST_EACH(backend_that_returns_gets_little_at_first, 2)
{
	begin(policies[_i], 3);
	for (unsigned i = 0; i < 3; i++)
		sl_batcher_weigh(b, i, i ? 256 : 26, false);
	takes_ns[0] = MS;
	sl_batcher_weighted(b, 256);
	run(10000, 20e6);
	ck_assert_msg(got[0] > 200 && got[0] < 1500, "%u of 10000", got[0]);
}

TEST_EACH(backend_on_trial_gets_one_request_at_a_time, 2)
{
	begin(policies[_i], 3);
	sl_batcher_weigh(b, 0, 1, true);
	sl_batcher_weighted(b, 1);
	run(10000, 2e6);
	ck_assert_uint_gt(got[0], 0);
	ck_assert_uint_eq(most_at_once[0], 1);
	ck_assert_uint_gt(most_at_once[1], 1);
}

/* Also when more than one request is under way. */
TEST_EACH(weights_hold_while_backends_are_busy, 2)
{
	begin(policies[_i], 4);
	sl_batcher_weigh(b, 1, 4, false);
	sl_batcher_weighted(b, 4);
	run(10000, 9e6);
	ck_assert_msg(got[1] > 3500 && got[1] < 6500, "%u of 10000", got[1]);
}

/* Light backends are used when the heavy ones have two batches. */
TEST_EACH(light_backends_help_when_the_heavy_one_is_full, 2)
{
	begin(policies[_i], 2);
	sl_batcher_weigh(b, 1, 10, false);
	sl_batcher_weighted(b, 10);
	run(10000, 15e5);
	ck_assert_msg(got[0] > 700, "%u of 10000", got[0]);
}

/* A latency outlier loses traffic by its predicted completion, and stays a member. */
TEST_EACH(slow_backend_gets_few_requests, 2)
{
	begin(policies[_i], 3);
	takes_ns[2] = 100 * MS;
	run(10000, 8e6);
	ck_assert_msg(got[2] > 0 && got[2] < 1500, "%u of 10000", got[2]);
	ck_assert_msg(got[0] > 3500 && got[1] > 3500, "%u, %u", got[0], got[1]);
}

/* After failures that were fast, the service times of the backend are learnt anew. */
TEST(forgotten_backend_stays_up_and_is_learnt_again)
{
	begin(SL_POLICY_ADAPTIVE, 2);
	takes_ns[0] = MS / 10;
	run(2000, 20e6);
	ck_assert_msg(got[0] > 1500, "%u of 2000", got[0]);
	sl_batcher_forget(b, 0);
	takes_ns[0] = 50 * MS;
	got[0] = 0;
	run(2000, 20e6);
	ck_assert_msg(got[0] > 0 && got[0] < 500, "%u of 2000", got[0]);
}
