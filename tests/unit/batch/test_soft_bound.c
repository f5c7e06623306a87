/* SPDX-License-Identifier: Apache-2.0 */
/* The latency bound shapes batches; it refuses only when more comes, for longer, than can be
 * served. */
#include "fixture.h"
#include "suite.h"

/* One backend that serves up to 3.2 requests a millisecond, in batches of 64 that take 20 ms. */
static struct {
	double owed; /* requests, of the next millisecond */
	unsigned first, refused, served, late, largest;
	uint64_t ends_ns, began_ns;
} line;

static void begin(uint8_t mode)
{
	memset(&line, 0, sizeof(line));
	start((struct sl_cfg_batch){.policy = SL_POLICY_ADAPTIVE, .bound_mode = mode}, 1);
	teach(1);
}

static void take_next(void)
{
	if (line.ends_ns || sent_cnt == line.first)
		return;
	line.began_ns = now_ns;
	line.ends_ns = now_ns + takes(sent[line.first].cnt);
}

static void end_batch(void)
{
	struct sent *s = &sent[line.first++];

	for (unsigned i = 0; i < s->cnt; i++)
		line.late += now_ns > s->items[i]->arrived_ns + 100 * MS + MS;
	line.served += s->cnt;
	line.largest = s->cnt > line.largest ? s->cnt : line.largest;
	answer(s, now_ns - line.began_ns);
	line.ends_ns = 0;
	if (line.first == sent_cnt)
		line.first = sent_cnt = 0;
}

static void pass_ms(double requests, bool stands_still)
{
	line.owed += requests;
	for (; line.owed >= 1; line.owed--)
		line.refused += submit_for((uint32_t)line.owed, UINT64_MAX) != SL_OUTCOME_OK;
	pump(MS);
	take_next();
	if (stands_still)
		line.ends_ns += line.ends_ns ? MS : 0;
	else if (line.ends_ns && now_ns >= line.ends_ns)
		end_batch();
	take_next();
	if (sent_cnt >= SENT_MAX - 4) {
		memmove(sent, &sent[line.first], (sent_cnt - line.first) * sizeof(sent[0]));
		sent_cnt -= line.first;
		line.first = 0;
	}
}

static unsigned refused(void)
{
	unsigned sum = line.refused;

	for (unsigned i = 0; i < SL_OUTCOME_CNT; i++)
		sum += drops[i];
	return sum;
}

/* At 25, 50, 75 and 90 % of what can be served, and each 3 s a stall longer than the bound. */
static const double loads[] = {0.8, 1.6, 2.4, 2.9};

static void stall_at(double load)
{
	for (unsigned ms = 0; ms < 15000; ms++)
		pass_ms(load, ms % 3000 >= 1000 && ms % 3000 < 1130);
}

FIXTURE(NULL, tear_down)

TEST_EACH(stall_causes_no_refusals, 4)
{
	begin(SL_BOUND_SOFT);
	stall_at(loads[_i]);
	ck_assert_uint_eq(refused(), 0);
	ck_assert_uint_gt(line.late, 0); /* and it was one that the bound feels */
	ck_assert_uint_gt(line.served, (unsigned)(loads[_i] * 14000));
}

TEST_EACH(hard_bound_refuses_for_a_stall, 4)
{
	begin(SL_BOUND_HARD);
	stall_at(loads[_i]);
	ck_assert_uint_gt(refused(), 0);
}

TEST(sustained_overload_is_refused_early_and_the_rest_is_in_time)
{
	unsigned late;

	begin(SL_BOUND_SOFT);
	for (unsigned ms = 0; ms < 1000; ms++)
		pass_ms(4.8, false);
	ck_assert_uint_gt(refused(), 0);
	late = line.late;
	line.served = 0;
	for (unsigned ms = 0; ms < 5000; ms++)
		pass_ms(4.8, false);
	ck_assert_uint_gt(line.served, 15000);
	ck_assert_uint_lt(line.late - late, line.served / 100);
	ck_assert_uint_eq(drops[SL_OUTCOME_EXPIRED], 0);
	ck_assert_uint_gt(live.shed_level, 0);
}

TEST(stall_after_an_overload_causes_no_refusals)
{
	unsigned before;

	begin(SL_BOUND_SOFT);
	for (unsigned ms = 0; ms < 3000; ms++)
		pass_ms(4.8, false);
	for (unsigned ms = 0; ms < 15000; ms++)
		pass_ms(1.6, false);
	before = refused();
	ck_assert_uint_gt(before, 0);
	stall_at(1.6);
	ck_assert_uint_eq(refused(), before);
}

/* A request that waits without end does so for the queue's limit only. */
TEST(queue_limit_holds_while_the_backend_stands_still)
{
	begin(SL_BOUND_SOFT);
	for (unsigned ms = 0; ms < 3000; ms++)
		pass_ms(0.8, true);
	ck_assert_uint_eq(sl_batcher_queue_len(b), QUEUE);
	ck_assert_uint_eq(submit_for(1, UINT64_MAX), SL_OUTCOME_QUEUE_FULL);
	ck_assert_uint_eq(drops[SL_OUTCOME_SHED], 0);
}

TEST(own_deadlines_are_kept)
{
	begin(SL_BOUND_SOFT);
	submit(8);
	pump(1);
	submit(8);
	pump(20 * MS);
	ck_assert_uint_eq(sent_cnt, 2); /* there is no place for a third */
	ck_assert_int_eq(submit_for(5, now_ns + 150 * MS), SL_OUTCOME_OK);
	pump(40 * MS);
	ck_assert_uint_eq(sl_batcher_queue_len(b), 1); /* late for the bound is late only */
	pump(115 * MS);
	ck_assert_uint_eq(sl_batcher_queue_len(b), 0);
	ck_assert_uint_eq(drops[SL_OUTCOME_SHED] + drops[SL_OUTCOME_EXPIRED], 1);
}

/* Late requests go in the batches that serve most, not in those that keep the bound. */
TEST(late_requests_catch_up_in_large_batches)
{
	begin(SL_BOUND_SOFT);
	ctl.bound_ns = 22 * MS; /* two of at most 26 fit in it */
	pump(200 * MS);
	ck_assert_uint_lt(live.batch_cap, 30);
	for (unsigned ms = 0; ms < 200; ms++)
		pass_ms(1, ms < 60);
	ck_assert_uint_gt(line.largest, 45);
	ck_assert_uint_eq(refused(), 0);
}
