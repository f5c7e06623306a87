/* SPDX-License-Identifier: Apache-2.0 */
/* Choice of backends for streams and direct requests, in simulations with a fixed seed. */
#include <stdlib.h>
#include <string.h>

#include "batch/pick.h"
#include "base/rand.h"
#include "suite.h"

#define MS  UINT64_C(1000000)
#define SEC (1000 * MS)

enum { MANY = 64, FLIGHTS = 512 };

static struct sl_cfg_backend cfg_backends[MANY];
static struct sl_cfg_pool pool;
static struct sl_svc_live live;
static struct sl_batcher *b;
static struct sl_prng prng;
static uint64_t now_ns, takes_ns[MANY];
static unsigned got[MANY], silences, ends_of_silence, flight_cnt;
static struct {
	unsigned backend;
	uint64_t sent_ns, end_ns;
} flights[FLIGHTS];

static int on_send(void *app, unsigned backend, struct sl_batch_item **list, unsigned cnt)
{
	(void)app, (void)list, (void)backend, (void)cnt;
	ck_abort_msg("streams are not sent by the batcher");
	return -1;
}

static void on_drop(void *app, struct sl_batch_item *item, enum sl_outcome why)
{
	(void)app, (void)item, (void)why;
}

static void on_silent(void *app, unsigned backend, bool silent)
{
	(void)app, (void)backend;
	silences += silent;
	ends_of_silence += !silent;
}

static const struct sl_batch_ops ops = {.send = on_send, .drop = on_drop, .silent = on_silent};

static void begin(unsigned cnt)
{
	memset(got, 0, sizeof(got));
	silences = ends_of_silence = flight_cnt = 0;
	pool = (struct sl_cfg_pool){
		.backends = cfg_backends,
		.backend_cnt = cnt,
		.max_queue = 64,
		.progress_ns = SEC,
		.batch = {.policy = SL_POLICY_ADAPTIVE, .max_size = 4, .bound_ns = 10 * SEC}};
	now_ns = 1000 * SEC;
	b = sl_batcher_create(&pool, &ops, NULL, &live, NULL);
	ck_assert_ptr_nonnull(b);
	sl_batcher_seed(b, 5);
	sl_prng_seed(&prng, 11);
	for (unsigned i = 0; i < cnt; i++) {
		takes_ns[i] = 5 * MS;
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

static unsigned choose(bool tunnel)
{
	const struct sl_batch_item item = {.deadline_ns = UINT64_MAX};
	unsigned i = sl_pick_for_stream(b, &item, tunnel, now_ns);

	ck_assert_uint_ne(i, SL_PICK_NONE);
	got[i]++;
	return i;
}

static unsigned open_stream(void)
{
	unsigned i = choose(false);

	sl_pick_stream_sent(b, i);
	sl_pick_stream_waits(b, i, now_ns);
	return i;
}

static void answer(unsigned backend, uint64_t took_ns)
{
	sl_pick_answered(b, backend, took_ns, now_ns);
	sl_pick_stream_waited(b, backend);
}

static void end_stream(unsigned backend, uint64_t took_ns)
{
	answer(backend, took_ns);
	sl_pick_stream_done(b, backend);
}

static void end_due(void)
{
	for (unsigned i = 0; i < flight_cnt;) {
		if (flights[i].end_ns > now_ns) {
			i++;
			continue;
		}
		end_stream(flights[i].backend, now_ns - flights[i].sent_ns);
		flights[i] = flights[--flight_cnt];
	}
}

/* Poisson arrivals, in steps of 0.1 ms; service times vary by a third. */
static void run(unsigned cnt, double gap_ns)
{
	double next = (double)now_ns;

	for (unsigned n = 0; n < cnt || flight_cnt;) {
		now_ns += MS / 10;
		end_due();
		for (; n < cnt && next <= (double)now_ns; n++) {
			unsigned i = open_stream();

			ck_assert_uint_lt(flight_cnt, FLIGHTS);
			flights[flight_cnt].backend = i;
			flights[flight_cnt].sent_ns = now_ns;
			flights[flight_cnt++].end_ns =
				now_ns + takes_ns[i] * (8 + sl_prng_below(&prng, 5)) / 10;
			next += sl_prng_exp(&prng, gap_ns);
		}
	}
}

/* Requests at its 99th percentile would take as long as the slow one if it got 1 %. */
TEST_EACH(backend_ten_times_slower_gets_less_than_one_percent, 2)
{
	static const double gaps[] = {25e5, 1e6}; /* 400/s, 1,000/s */

	begin(3);
	takes_ns[2] = 50 * MS;
	run(200, gaps[_i]);
	memset(got, 0, sizeof(got));
	run(20000, gaps[_i]);
	ck_assert_msg(got[2] > 0 && got[2] < 100, "%u of 20000", got[2]);
	ck_assert_msg(got[0] > 9000 && got[1] > 9000, "%u, %u", got[0], got[1]);
}

/* The first reply of a server that has just been started takes long. */
TEST(first_slow_reply_does_not_cost_the_share)
{
	begin(3);
	sl_pick_answered(b, 2, 100 * MS, now_ns);
	run(3000, 25e5);
	ck_assert_msg(got[2] > 800, "%u of 3000", got[2]);
}

TEST(backends_of_like_speed_have_equal_shares)
{
	begin(3);
	takes_ns[2] = 7 * MS;
	run(9000, 25e5);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_msg(got[i] > 2400 && got[i] < 3600, "%u of 9000", got[i]);
}

TEST(backend_that_recovers_has_its_share_again)
{
	begin(3);
	takes_ns[2] = 50 * MS;
	run(4000, 25e5);
	takes_ns[2] = 5 * MS;
	run(6000, 25e5); /* 15 s */
	memset(got, 0, sizeof(got));
	run(3000, 25e5);
	ck_assert_msg(got[2] > 800 && got[2] < 1200, "%u of 3000", got[2]);
}

/* A few tries suffice, one after another, after seconds without one. */
TEST(fast_tries_are_repeated_until_the_time_is_learnt)
{
	unsigned tries = 0;

	begin(2);
	for (unsigned i = 0; i < 20; i++) {
		sl_pick_answered(b, 0, 5 * MS, now_ns);
		sl_pick_answered(b, 1, 50 * MS, now_ns);
	}
	for (unsigned i = 0; i < 5; i++)
		ck_assert_uint_eq(choose(false), 0);
	now_ns += 10 * SEC;
	while (open_stream() == 1 && tries < 10) {
		tries++;
		end_stream(1, 5 * MS);
	}
	ck_assert_msg(tries > 2 && tries < 10, "%u", tries);
}

/* Errors say nothing about the time; nor do uploads before their end. */
TEST_EACH(try_without_a_sample_is_not_repeated_at_once, 2)
{
	begin(2);
	for (unsigned i = 0; i < 20; i++) {
		sl_pick_answered(b, 0, 5 * MS, now_ns);
		sl_pick_answered(b, 1, 50 * MS, now_ns);
	}
	now_ns += 10 * SEC;
	memset(got, 0, sizeof(got));
	for (unsigned i = 0; i < 100; i++) {
		unsigned backend = choose(false);

		sl_pick_stream_sent(b, backend);
		if (_i)
			continue;
		sl_pick_stream_waits(b, backend, now_ns);
		end_stream(backend, 0);
	}
	ck_assert_uint_ge(got[1], 1);
	ck_assert_msg(got[1] <= (_i ? 20 : 1), "%u", got[1]);
}

/* One pause of a backend is forgotten within seconds. */
TEST(one_long_reply_does_not_cost_the_share)
{
	begin(3);
	run(1000, 25e5);
	sl_pick_stream_sent(b, 0);
	sl_pick_stream_waits(b, 0, now_ns);
	end_stream(0, 60 * SEC);
	memset(got, 0, sizeof(got));
	run(3000, 25e5);
	ck_assert_msg(got[0] > 800, "%u of 3000", got[0]);
}

/* Idle streams, as WebSocket after a restart of another backend, are no work. */
TEST(streams_that_have_their_head_count_little)
{
	begin(2);
	run(1000, 25e5);
	for (unsigned i = 0; i < 500; i++) {
		sl_pick_stream_sent(b, 0);
		sl_pick_stream_waits(b, 0, now_ns);
		answer(0, 5 * MS);
	}
	memset(got, 0, sizeof(got));
	run(6000, 5e5); /* 10 at a time */
	ck_assert_msg(got[0] > 1500, "%u of 6000", got[0]);
	/* New ones go where there are fewer. */
	memset(got, 0, sizeof(got));
	for (unsigned i = 0; i < 100; i++)
		sl_pick_stream_sent(b, choose(true));
	ck_assert_uint_eq(got[1], 100);
}

TEST(many_backends_are_sampled)
{
	begin(MANY);
	for (unsigned i = 0; i < MANY / 2; i++)
		takes_ns[i] = 100 * MS;
	run(4000, 3e5);
	memset(got, 0, sizeof(got));
	run(20000, 3e5);
	for (unsigned i = 0; i < MANY; i++)
		ck_assert_msg(i < MANY / 2 ? got[i] < 100 : got[i] > 300, "%u: %u", i, got[i]);
}

/* The slow one is heavy: it gets no more than what its weight and time allow. */
TEST(weights_hold_among_backends_of_one_speed)
{
	begin(3);
	sl_batcher_weigh(b, 1, 3, false);
	sl_batcher_weighted(b, 3);
	run(10000, 40e6);
	ck_assert_msg(got[1] > 5300 && got[1] < 6700, "%u of 10000", got[1]);
	sl_batcher_weigh(b, 1, 1, false);
	takes_ns[1] = 50 * MS;
	run(500, 5e6);
	memset(got, 0, sizeof(got));
	run(10000, 25e5);
	ck_assert_msg(got[1] < 300, "%u of 10000", got[1]);
}

TEST(excluded_backend_comes_last)
{
	struct sl_batch_item item = {.deadline_ns = UINT64_MAX, .excluded = {1}, .excluded_cnt = 1};

	begin(2);
	for (unsigned i = 0; i < 20; i++)
		ck_assert_uint_eq(sl_pick_for_stream(b, &item, false, now_ns), 0);
	sl_batcher_backend(b, 0, false, now_ns);
	ck_assert_uint_eq(sl_pick_for_stream(b, &item, false, now_ns), 1);
	sl_batcher_backend(b, 1, false, now_ns);
	ck_assert_uint_eq(sl_pick_for_stream(b, &item, false, now_ns), SL_PICK_NONE);
}

TEST(backend_on_trial_gets_one_stream_at_a_time)
{
	begin(2);
	sl_batcher_weigh(b, 0, 1, true);
	sl_batcher_weighted(b, 1);
	for (unsigned i = 0; i < 50; i++)
		(void)open_stream();
	ck_assert_uint_eq(got[0], 1);
}

/* A WebSocket of before the trial does not keep the backend from it. */
TEST(old_streams_do_not_prevent_a_trial)
{
	begin(2);
	sl_pick_stream_sent(b, 0);
	sl_pick_stream_waits(b, 0, now_ns);
	answer(0, 5 * MS);
	sl_batcher_weigh(b, 0, 1, true);
	sl_batcher_weighted(b, 1);
	for (unsigned i = 0; i < 50; i++)
		(void)open_stream();
	ck_assert_uint_eq(got[0], 1);
}

/* A slow request must not take a backend out of rotation for as long as it lasts. */
TEST(silent_backend_is_probed_once_per_interval)
{
	unsigned waiting = 0;

	begin(2);
	run(100, 25e5);
	sl_pick_stream_sent(b, 0);
	sl_pick_stream_waits(b, 0, now_ns);
	now_ns += 2 * SEC;
	memset(got, 0, sizeof(got));
	for (unsigned n = 0; n < 100; n++) {
		for (unsigned i = 0; i < 50; i++) {
			waiting += open_stream() == 1;
			for (; waiting > 20; waiting--)
				end_stream(1, 5 * MS);
		}
		now_ns += SEC / 10;
	}
	ck_assert_msg(got[0] >= 8 && got[0] <= 11, "%u of 5000", got[0]);
}

/* It takes requests and answers none: the requests after the first second go elsewhere. */
TEST(silent_backend_gets_no_requests_until_it_answers)
{
	begin(2);
	run(100, 25e5);
	takes_ns[0] = 100 * SEC;
	memset(got, 0, sizeof(got));
	for (unsigned i = 0; i < 10; i++) {
		sl_pick_stream_sent(b, 0);
		sl_pick_stream_waits(b, 0, now_ns);
	}
	now_ns += SEC;
	ck_assert_uint_eq(silences, 0);
	now_ns += 1;
	for (unsigned i = 0; i < 100; i++) /* although the other one has more */
		(void)open_stream();
	ck_assert_uint_eq(got[1], 100);
	ck_assert_uint_eq(silences, 1);
	ck_assert_uint_eq(ends_of_silence, 0);
	end_stream(0, 0);
	ck_assert_uint_eq(ends_of_silence, 1);
	(void)open_stream();
	ck_assert_uint_eq(got[0], 1);
}

/* One reply tells enough of its time. */
TEST(new_backend_can_be_silent)
{
	begin(2);
	sl_pick_answered(b, 0, 5 * MS, now_ns);
	sl_pick_stream_sent(b, 0);
	sl_pick_stream_waits(b, 0, now_ns);
	now_ns += SEC + 1;
	for (unsigned i = 0; i < 10; i++)
		ck_assert_uint_eq(open_stream(), 1);
	ck_assert_uint_eq(silences, 1);
}

TEST(silence_of_all_backends_excludes_none)
{
	begin(2);
	run(100, 25e5);
	for (unsigned i = 0; i < 10; i++)
		(void)open_stream();
	now_ns += 10 * SEC;
	memset(got, 0, sizeof(got));
	for (unsigned i = 0; i < 10; i++)
		(void)open_stream();
	ck_assert_uint_eq(got[0], 5);
	ck_assert_uint_eq(silences, 2);
}

/* Requests that are given up end the silence; what they waited is learnt. */
TEST(cancelled_requests_end_the_silence)
{
	begin(2);
	run(100, 25e5);
	sl_pick_stream_sent(b, 0);
	sl_pick_stream_waits(b, 0, now_ns);
	now_ns += 2 * SEC;
	(void)open_stream();
	ck_assert_uint_eq(silences, 1);
	sl_pick_unanswered(b, 0, 2 * SEC, now_ns);
	sl_pick_stream_waited(b, 0);
	sl_pick_stream_done(b, 0);
	ck_assert_uint_eq(ends_of_silence, 1);
}

/* A slow backend is not silent: eight times what it usually takes. */
TEST(backend_is_not_silent_within_eight_times_its_usual_time)
{
	begin(2);
	for (unsigned i = 0; i < 8; i++)
		sl_pick_answered(b, i % 2, 2 * SEC, now_ns);
	sl_pick_stream_sent(b, 0);
	sl_pick_stream_waits(b, 0, now_ns);
	now_ns += 15 * SEC;
	(void)open_stream();
	ck_assert_uint_eq(silences, 0);
	now_ns += 2 * SEC;
	(void)open_stream();
	ck_assert_uint_eq(silences, 1);
}
