/* SPDX-License-Identifier: Apache-2.0 */
/* Hedged requests: "/e" has the backends a and b, in batches and direct. */
#include <errno.h>

#include "batch/internal.h"
#include "core/hedge.h"
#include "core_bed.h"
#include "suite.h"

enum { AFTER_MS = 20, BODY = 40000 };

static struct sl_cfg_route_pools pools;
static unsigned first, second; /* backends, in the order in which they got the request */

static void set_up(void)
{
	bed_begin();
	pools = (struct sl_cfg_route_pools){
		.split.pool = -1, .mirror.pool = -1, .hedge_ns = AFTER_MS * SL_NS_PER_MS};
	for (uint32_t i = 0; i < bed.cfg->route_cnt; i++) {
		if (strcmp(bed.cfg->routes[i].prefix, "/e") == 0)
			bed.cfg->routes[i].pools = &pools;
	}
}

static void tear_down(void)
{
	bed_settle();
	bed_end();
}

static struct sl_pool *pool(void)
{
	return bed.core.wcfg->pools[0].pool;
}

/* The lowest bit of a case: the policy of all requests; the next: backends lend. */
static void begin(int which)
{
	for (uint32_t i = 0; i < bed.cfg->route_cnt; i++)
		bed.cfg->routes[i].policy = which & 1 ? SL_POLICY_DIRECT : -1;
	for (unsigned i = 0; i < BED_BACKENDS; i++)
		bed_connect(i, which & 2);
	bed_open(0);
	bed_open(1);
}

static uint64_t id_at(unsigned backend)
{
	const struct bed_backend *be = &bed.backends[backend];

	ck_assert_uint_ge(be->id_cnt, 1);
	return be->ids[(be->id_cnt - 1) % BED_IDS];
}

static unsigned got(void)
{
	return bed.backends[0].id_cnt + bed.backends[1].id_cnt;
}

static void pass(unsigned ms)
{
	for (; ms; ms--)
		bed_turn(SL_NS_PER_MS);
}

static void send_with(uint32_t body)
{
	unsigned before = bed.backends[0].id_cnt, all = got();

	bed_post_request(0, "/e", 'z', body);
	bed_turns(3);
	ck_assert_uint_eq(got(), all + 1);
	first = bed.backends[0].id_cnt > before ? 0 : 1;
	second = 1 - first;
}

static void send_hedged(uint32_t body)
{
	unsigned all = got();

	send_with(body);
	pass(AFTER_MS + 5);
	ck_assert_uint_eq(got(), all + 2);
	ck_assert_uint_ge(bed.backends[second].id_cnt, 1);
}

static unsigned heard(unsigned client, const char *text)
{
	const struct bed_client *cl = &bed.clients[client];
	const uint8_t *at = cl->heard, *end = cl->heard + cl->heard_len;
	unsigned n = 0;

	while (at < end && (at = memmem(at, (size_t)(end - at), text, strlen(text)))) {
		at += strlen(text);
		n++;
	}
	return n;
}

static void answer(unsigned backend, uint8_t status, const char *text)
{
	(void)bed_reply(&bed.backends[backend], id_at(backend), status, 0, text);
	bed_turns(3);
}

static void kill_backend(unsigned backend)
{
	bed.backends[backend].broken = -ENOTCONN;
	bed_turns(3);
}

static void expect_counts(uint64_t sent, uint64_t won)
{
	ck_assert_uint_eq(bed.core.stats.hedges, sent);
	ck_assert_uint_eq(bed.core.stats.hedges_won, won);
}

FIXTURE(set_up, tear_down)

TEST_EACH(request_that_is_answered_in_time_has_one_copy, 2)
{
	begin(_i);
	send_with(100);
	pass(AFTER_MS - 5);
	answer(first, SL_RPC_OK, "in time");
	pass(2 * AFTER_MS);
	ck_assert_uint_eq(heard(0, "in time"), 1);
	ck_assert_uint_eq(got(), 1);
	expect_counts(0, 0);
}

TEST_EACH(second_copy_is_answered_first, 4)
{
	begin(_i);
	send_hedged(100);
	answer(second, SL_RPC_OK, "the second's");
	ck_assert_uint_eq(heard(0, "the second's"), 1);
	ck_assert_uint_eq(bed.backends[first].cancels, 1);
	ck_assert_uint_eq(bed.backends[second].cancels, 0);
	answer(first, SL_RPC_OK, "late");
	ck_assert_uint_eq(heard(0, "HTTP/1.1"), 1);
	expect_counts(1, 1);
	ck_assert_uint_eq(bed.core.stats.outcomes[SL_OUTCOME_OK], 1);
	ck_assert_uint_eq(bed.core.stats.retried, 0);
}

TEST_EACH(first_copy_is_answered_first, 4)
{
	begin(_i);
	send_hedged(100);
	answer(first, SL_RPC_OK, "the first's");
	ck_assert_uint_eq(heard(0, "the first's"), 1);
	ck_assert_uint_eq(bed.backends[second].cancels, 1);
	answer(second, SL_RPC_OK, "late");
	ck_assert_uint_eq(heard(0, "HTTP/1.1"), 1);
	expect_counts(1, 0);
}

TEST_EACH(slower_member_has_not_failed, 2)
{
	begin(_i);
	for (unsigned n = 0; n < 5; n++) {
		unsigned all = got();

		bed_post_request(0, "/e", 'z', 10);
		pass(AFTER_MS + 5);
		ck_assert_uint_eq(got(), all + 2);
		answer(0, SL_RPC_OK, "one");
	}
	for (unsigned i = 0; i < 2; i++) {
		struct sl_backend_ref *m = bed_member(i);

		ck_assert_uint_eq(m->faults, 0);
		ck_assert_uint_eq(m->ejections, 0);
		ck_assert(m->served);
	}
}

/* The reply comes in parts: all of them reach the client by the adopted request. */
TEST_EACH(reply_of_the_second_copy_comes_in_parts, 2)
{
	begin(_i);
	send_hedged(100);
	bed_reply(&bed.backends[second], id_at(second), SL_RPC_OK, SL_ENTRY_MORE, "begins ");
	bed_turns(3);
	answer(first, SL_RPC_OK, "late");
	answer(second, SL_RPC_OK, "and ends");
	ck_assert_uint_eq(heard(0, "begins "), 1);
	ck_assert_uint_eq(heard(0, "and ends"), 1);
	ck_assert_uint_eq(heard(0, "late"), 0);
	ck_assert_uint_eq(bed.core.stats.outcomes[SL_OUTCOME_OK], 1);
}

TEST_EACH(third_copy_is_never_sent, 2)
{
	begin(_i);
	send_hedged(100);
	pass(20 * AFTER_MS);
	ck_assert_uint_eq(got(), 2);
	answer(second, SL_RPC_OK, "at last");
	ck_assert_uint_eq(heard(0, "at last"), 1);
}

TEST_EACH(hedge_needs_the_retry_budget, 2)
{
	begin(_i);
	pool()->budget.spent = 1e9; /* more than expires meanwhile */
	send_with(100);
	pass(2 * AFTER_MS);
	ck_assert_uint_eq(got(), 1);
	expect_counts(0, 0);
	ck_assert_uint_eq(bed.core.stats.hedges_refused, 1);
	answer(first, SL_RPC_OK, "alone");
	ck_assert_uint_eq(heard(0, "alone"), 1);
}

TEST_EACH(hedge_needs_another_live_backend, 2)
{
	begin(_i);
	kill_backend(1);
	send_with(100);
	pass(2 * AFTER_MS);
	ck_assert_uint_eq(got(), 1);
	expect_counts(0, 0);
	ck_assert_uint_eq(bed.core.stats.hedges_refused, 0);
	answer(0, SL_RPC_OK, "alone");
}

/* The second backend seems to have more waiting requests. */
TEST(hedge_never_goes_to_the_same_backend)
{
	struct sl_pick_state *s;

	begin(1);
	send_with(100);
	s = &pool()->batcher->backends[second].pick;
	s->waiting = 50;
	pass(AFTER_MS + 5);
	s->waiting = 0;
	ck_assert_uint_eq(bed.backends[first].id_cnt, 1);
	ck_assert_uint_eq(bed.backends[second].id_cnt, 1);
	answer(second, SL_RPC_OK, "the second's");
	ck_assert_uint_eq(heard(0, "the second's"), 1);
}

TEST_EACH(request_that_may_not_be_repeated_has_one_copy, 2)
{
	for (uint32_t i = 0; i < bed.cfg->route_cnt; i++)
		bed.cfg->routes[i].idempotent = -1; /* POST is not */
	begin(_i);
	send_with(100);
	pass(2 * AFTER_MS);
	ck_assert_uint_eq(got(), 1);
	answer(first, SL_RPC_OK, "alone");
}

/* Either backend reads the body after the request has ended. */
TEST_EACH(bytes_stay_until_both_have_read_them, 8)
{
	unsigned by = _i & 4 ? 1 : 0;

	begin(_i & 3);
	bed.backends[0].room = bed.backends[1].room = 1;
	send_hedged(BODY);
	if (by) {
		bed.backends[second].room = 1000;
		bed_turns(3);
		bed_complete(&bed.backends[second], 1000);
		bed_turns(3);
		answer(second, SL_RPC_OK, "the second's");
	} else {
		bed_segment(0, BED_RST | BED_ACK, NULL, 0);
		bed_turns(3);
	}
	ck_assert_uint_eq(sl_mempool_used(&bed.core.exchanges), 0);
	bed_post_request(1, "/o", 'y', BODY); /* takes freed frames */
	bed_turns(3);
	for (unsigned i = 0; i < 2; i++) {
		bed.backends[i].room = 1000;
		bed_turns(3);
		bed_complete(&bed.backends[i], 1000); /* compares what it reads */
		bed_turns(3);
		ck_assert_ptr_null(
			memmem(bed.backends[i].taken, bed.backends[i].taken_len, "yyyyyyyy", 8));
	}
}

TEST_EACH(client_that_goes_cancels_both, 4)
{
	begin(_i);
	send_hedged(100);
	bed_segment(0, BED_RST | BED_ACK, NULL, 0);
	bed_turns(3);
	ck_assert_uint_eq(bed.backends[0].cancels, 1);
	ck_assert_uint_eq(bed.backends[1].cancels, 1);
	ck_assert_uint_eq(sl_mempool_used(&bed.core.exchanges), 0);
	answer(0, SL_RPC_OK, "late");
	answer(1, SL_RPC_OK, "late");
}

/* Bit 2: the second backend dies. */
TEST_EACH(one_backend_dies_and_the_other_answers, 8)
{
	unsigned dies, lives;

	begin(_i & 3);
	send_hedged(BODY);
	dies = _i & 4 ? second : first;
	lives = 1 - dies;
	kill_backend(dies);
	ck_assert_uint_eq(heard(0, "HTTP"), 0);
	ck_assert_uint_eq(bed.core.stats.retried, 0);
	answer(lives, SL_RPC_OK, "the living");
	ck_assert_uint_eq(heard(0, "the living"), 1);
	ck_assert_uint_eq(got(), 2);
}

TEST_EACH(both_backends_die, 4)
{
	begin(_i);
	send_hedged(100);
	kill_backend(first);
	kill_backend(second);
	pass(4000);
	ck_assert_uint_eq(heard(0, "HTTP/1.1 50"), 1);
	ck_assert_uint_eq(heard(0, "HTTP/1.1"), 1);
}

/* Bit 1: the second copy is refused. */
TEST_EACH(one_copy_is_refused_and_the_other_answered, 4)
{
	unsigned refuses;

	begin(_i & 1);
	send_hedged(100);
	refuses = _i & 2 ? second : first;
	answer(refuses, _i & 2 ? SL_RPC_INTERNAL : SL_RPC_REFUSED, "");
	ck_assert_uint_eq(heard(0, "HTTP"), 0);
	ck_assert_uint_eq(got(), 2);
	answer(1 - refuses, SL_RPC_OK, "the other's");
	ck_assert_uint_eq(heard(0, "the other's"), 1);
	ck_assert_uint_eq(bed_member(refuses)->faults, _i & 2 ? 1 : 0);
	expect_counts(1, 0);
}

TEST_EACH(deadline_ends_both, 2)
{
	for (uint32_t i = 0; i < bed.cfg->route_cnt; i++)
		bed.cfg->routes[i].deadline_ns = 200 * SL_NS_PER_MS;
	begin(_i);
	send_hedged(100);
	pass(5000);
	ck_assert_uint_eq(heard(0, "HTTP/1.1 504"), 1);
	ck_assert_uint_eq(sl_mempool_used(&bed.core.exchanges), 0);
	ck_assert_uint_eq(bed_member(second)->faults, 0);
}

static struct sl_sent_batch *taken[4096];
static unsigned taken_cnt;

/* The copy waits in the queue: nothing can be sent. */
static void queue_copy(void)
{
	send_with(100);
	while ((taken[taken_cnt] = sl_mempool_get(&bed.core.sent_batches)))
		taken_cnt++;
	pass(2 * AFTER_MS);
	ck_assert_uint_eq(sl_mempool_used(&bed.core.exchanges), 2);
}

static void let_send(void)
{
	while (taken_cnt)
		sl_mempool_put(&bed.core.sent_batches, taken[--taken_cnt]);
	bed_turns(3);
}

TEST(queued_copy_that_is_shed_leaves_its_original)
{
	struct sl_batcher *b;
	struct sl_batch_item *item = NULL;

	begin(0);
	queue_copy();
	b = pool()->batcher;
	for (unsigned lane = 0; lane < SL_LANES && !item; lane++)
		item = sl_lane_first(&b->queue.lanes[lane]);
	ck_assert_ptr_nonnull(item);
	sl_batch_drop(b, item, SL_OUTCOME_SHED);
	ck_assert_uint_eq(sl_mempool_used(&bed.core.exchanges), 1);
	let_send();
	ck_assert_uint_eq(heard(0, "HTTP"), 0);
	answer(first, SL_RPC_OK, "the first's");
	ck_assert_uint_eq(heard(0, "the first's"), 1);
}

TEST_EACH(queued_copy_ends_with_its_original, 2)
{
	begin(0);
	queue_copy();
	if (_i)
		answer(first, SL_RPC_OK, "the first's");
	else
		kill_backend(first);
	let_send();
	ck_assert_uint_eq(heard(0, "the first's"), _i ? 1 : 0);
	if (_i)
		return;
	answer(second, SL_RPC_OK, "a retry's");
	ck_assert_uint_eq(heard(0, "a retry's"), 1);
	ck_assert_uint_eq(bed.core.stats.retried, 1);
}

/* --- hedge = p95 --- */

static struct sl_hedge_delay delay;

TEST(delay_is_unknown_before_the_first_samples)
{
	delay = (struct sl_hedge_delay){0};
	for (unsigned i = 0; i < SL_HEDGE_FIRST_SAMPLES; i++) {
		ck_assert_uint_eq(sl_hedge_delay_ns(&delay), 0);
		sl_hedge_delay_answered(&delay, (i + 1) * SL_NS_PER_MS);
	}
	ck_assert_uint_eq(sl_hedge_delay_ns(&delay), SL_HEDGE_FIRST_SAMPLES * SL_NS_PER_MS);
}

/* Uniform times from 0 to `most_ns`. */
static unsigned live(unsigned n, uint64_t most_ns, struct sl_prng *prng)
{
	unsigned over = 0;

	for (unsigned i = 0; i < n; i++) {
		uint64_t took = sl_prng_below(prng, most_ns), after = sl_hedge_delay_ns(&delay);

		if (after && took > after) {
			sl_hedge_delay_over(&delay);
			over++;
		} else {
			sl_hedge_delay_answered(&delay, took);
		}
	}
	return over;
}

TEST(twentieth_of_the_requests_outlasts_the_delay)
{
	struct sl_prng prng;
	unsigned over;

	sl_prng_seed(&prng, 7);
	delay = (struct sl_hedge_delay){0};
	live(5000, SL_NS_PER_SEC, &prng);
	over = live(20000, SL_NS_PER_SEC, &prng);
	ck_assert_uint_ge(over, 900);
	ck_assert_uint_le(over, 1100);
	live(5000, SL_NS_PER_MS, &prng); /* a thousand times faster */
	over = live(20000, SL_NS_PER_MS, &prng);
	ck_assert_uint_ge(over, 900);
	ck_assert_uint_le(over, 1100);
}

TEST(replies_without_measurable_time_do_not_make_the_delay_zero)
{
	delay = (struct sl_hedge_delay){0};
	for (unsigned i = 0; i < 10000; i++)
		sl_hedge_delay_answered(&delay, 0);
	ck_assert_uint_ge(sl_hedge_delay_ns(&delay), 900);
	sl_hedge_delay_over(&delay);
	ck_assert_uint_ge(sl_hedge_delay_ns(&delay), 900);
}

TEST_EACH(requests_are_hedged_once_the_delay_is_known, 2)
{
	pools.hedge_ns = SL_HEDGE_P95;
	begin(_i);
	for (unsigned n = 0; n < SL_HEDGE_FIRST_SAMPLES; n++) {
		send_with(10);
		pass(AFTER_MS - 5);
		answer(first, SL_RPC_OK, "ok");
	}
	expect_counts(0, 0);
	ck_assert_uint_ge(sl_hedge_delay_ns(&pool()->hedge_delay), (AFTER_MS - 5) * SL_NS_PER_MS);
	ck_assert_uint_le(sl_hedge_delay_ns(&pool()->hedge_delay), AFTER_MS * SL_NS_PER_MS);
	send_hedged(10);
	answer(second, SL_RPC_OK, "the second's");
	expect_counts(1, 1);
}
