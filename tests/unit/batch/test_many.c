/* SPDX-License-Identifier: Apache-2.0 */
/* A group of as many backends as there may be. */
#include <stdlib.h>
#include <string.h>

#include "batch/batcher.h"
#include "suite.h"

#define MS UINT64_C(1000000)

enum { MANY = SL_MAX_BACKENDS, REQUESTS = 40 * MANY };

static struct sl_cfg_backend cfg_backends[MANY];
static struct sl_cfg_pool pool;
static struct sl_svc_live live;
static struct sl_batcher *b;
static struct sl_batch_item items[REQUESTS];
static unsigned sent_to[MANY], flight_cnt, drops, last;
static uint64_t now_ns;
static struct {
	unsigned backend, cnt;
	uint64_t sent_ns, end_ns;
} flights[2 * MANY];

/* One in four backends is four times as slow. */
static uint64_t takes(unsigned backend)
{
	return backend % 4 ? MS : 4 * MS;
}

static int on_send(void *app, unsigned backend, struct sl_batch_item **list, unsigned cnt)
{
	(void)app, (void)list;
	ck_assert_uint_lt(flight_cnt, 2 * MANY);
	flights[flight_cnt].backend = backend;
	flights[flight_cnt].cnt = cnt;
	flights[flight_cnt].sent_ns = now_ns;
	flights[flight_cnt++].end_ns = now_ns + takes(backend);
	sent_to[backend] += cnt;
	last = backend;
	return 0;
}

static void on_drop(void *app, struct sl_batch_item *item, enum sl_outcome why)
{
	(void)app, (void)item, (void)why;
	drops++;
}

static void set_up(void)
{
	static const struct sl_batch_ops ops = {.send = on_send, .drop = on_drop};

	pool = (struct sl_cfg_pool){
		.backends = cfg_backends,
		.backend_cnt = MANY,
		.max_queue = REQUESTS,
		.batch = {.policy = SL_POLICY_ADAPTIVE, .max_size = 4, .bound_ns = 100 * MS}};
	now_ns = 1000 * MS;
	b = sl_batcher_create(&pool, &ops, NULL, &live, NULL);
	ck_assert_ptr_nonnull(b);
	sl_batcher_seed(b, 5);
	for (unsigned i = 0; i < MANY; i++)
		sl_batcher_backend(b, i, true, now_ns);
}

static void tear_down(void)
{
	sl_batcher_destroy(b);
}

FIXTURE(set_up, tear_down)

static void end_due(void)
{
	for (unsigned i = 0; i < flight_cnt;) {
		if (flights[i].end_ns > now_ns) {
			i++;
			continue;
		}
		sl_batcher_done(b, flights[i].backend, flights[i].cnt, flights[i].sent_ns, 0,
				takes(flights[i].backend), now_ns);
		flights[i] = flights[--flight_cnt];
	}
}

static void submit(struct sl_batch_item *item)
{
	item->deadline_ns = UINT64_MAX;
	item->policy = -1;
	ck_assert_int_eq(sl_batcher_submit(b, item, now_ns), SL_OUTCOME_OK);
	sl_batcher_pump(b, now_ns);
}

/* Two in five would do it: what is idle is used, so nothing waits behind a slow one. */
TEST(all_of_them_get_their_part)
{
	unsigned slow = 0, quick = 0;

	for (unsigned i = 0; i < REQUESTS; i++) {
		now_ns += 4000;
		end_due();
		submit(&items[i]);
		ck_assert_uint_eq(sl_batcher_queue_len(b), 0);
	}
	ck_assert_uint_eq(drops, 0);
	for (unsigned i = 0; i < MANY; i++) {
		ck_assert_msg(sent_to[i] > 0, "backend %u got nothing", i);
		*(i % 4 ? &quick : &slow) += sent_to[i];
	}
	/* The backend that is expected to be ready first gets the request. */
	ck_assert_msg(quick > 10 * slow, "quick %u, slow %u", quick, slow);
}

/* A round over all of them takes many ticks, which do not wait for the next request. */
TEST(service_times_are_known_soon)
{
	uint64_t start_ns;

	for (unsigned i = 0; i < 2 * MANY; i++) {
		now_ns += 20000;
		end_due();
		submit(&items[i]);
	}
	now_ns += 5 * MS;
	end_due();
	start_ns = now_ns;
	while (!live.alpha_ns && now_ns < start_ns + 10000 * MS) {
		now_ns = sl_batcher_next_ns(b);
		sl_batcher_pump(b, now_ns);
	}
	ck_assert_uint_gt(live.alpha_ns, MS / 4);
	ck_assert_uint_lt(now_ns - start_ns, 2000 * MS);
	/* Then there is nothing to do. */
	for (unsigned i = 0; i < 200; i++)
		sl_batcher_pump(b, now_ns = sl_batcher_next_ns(b));
	ck_assert_uint_ge(sl_batcher_next_ns(b), now_ns + 200 * MS);
}

TEST(last_idle_backend_is_found)
{
	struct sl_batch_item *item = &items[0];

	for (unsigned i = 0; i < MANY; i++) {
		if (i != 700 && i != 900)
			sl_batcher_backend(b, i, false, now_ns);
	}
	item->excluded[item->excluded_cnt++] = 900;
	submit(item);
	ck_assert_uint_eq(flight_cnt, 1);
	ck_assert_uint_eq(last, 700);
	/* No backend is left after both have failed, even if one comes up with another number. */
	items[1].excluded[0] = 900;
	items[1].excluded[1] = 700;
	items[1].excluded_cnt = 2;
	items[1].deadline_ns = UINT64_MAX;
	ck_assert_int_eq(sl_batcher_submit(b, &items[1], now_ns), SL_OUTCOME_NO_BACKEND);
	sl_batcher_backend(b, 1023, true, now_ns);
	submit(&items[1]);
	ck_assert_uint_eq(last, 1023);
}

TEST(first_backend_to_finish_gets_the_waiting_requests)
{
	unsigned n = 0;

	while (!sl_batcher_queue_len(b))
		submit(&items[n++]);
	ck_assert_uint_ge(flight_cnt, MANY);
	for (unsigned more = 0; more < 100; more++)
		submit(&items[n++]);
	now_ns += 5 * MS;
	end_due();
	sl_batcher_pump(b, now_ns);
	ck_assert_uint_eq(sl_batcher_queue_len(b), 0);
	ck_assert_uint_eq(drops, 0);
}
