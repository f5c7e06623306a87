/* SPDX-License-Identifier: Apache-2.0 */
/* A batcher that takes the place of another: what waits, runs and was learned goes on. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "batch/batcher.h"
#include "batch/internal.h"
#include "suite.h"

#define MS UINT64_C(1000000)

enum { ITEMS = 300, BACKENDS = 3 };

static struct sl_cfg_backend cfg_backends[SL_MAX_BACKENDS];
static struct sl_svc_live live;
static struct sl_svc_ctl ctl;
static struct sl_batch_item items[ITEMS];
static unsigned order[ITEMS], sent, per_backend[BACKENDS], largest, drops;
static bool refuse;

static struct {
	unsigned backend, cnt;
} out[ITEMS]; /* batches, in the order of sending */
static unsigned out_cnt, answered;

static int on_send(void *app, unsigned backend, struct sl_batch_item **list, unsigned cnt)
{
	(void)app;
	if (refuse)
		return -EAGAIN;
	for (unsigned i = 0; i < cnt; i++)
		order[sent++] = (unsigned)(list[i] - items);
	per_backend[backend] += cnt;
	out[out_cnt].backend = backend;
	out[out_cnt++].cnt = cnt;
	if (cnt > largest)
		largest = cnt;
	return 0;
}

static void on_drop(void *app, struct sl_batch_item *item, enum sl_outcome why)
{
	(void)app, (void)item, (void)why;
	drops++;
}

static const struct sl_batch_ops ops = {.send = on_send, .drop = on_drop};

static struct sl_cfg_pool make_pool(uint32_t max_queue, uint32_t max_size, uint32_t backends)
{
	return (struct sl_cfg_pool){
		.name = "p",
		.backends = cfg_backends,
		.backend_cnt = backends,
		.max_queue = max_queue,
		.batch = {.policy = SL_POLICY_ADAPTIVE,
			  .max_size = max_size,
			  .bound_ns = 5000 * MS},
	};
}

static void set_up(void)
{
	memset(&live, 0, sizeof(live));
	memset(items, 0, sizeof(items));
	memset(per_backend, 0, sizeof(per_backend));
	sent = largest = drops = out_cnt = answered = 0;
	refuse = false;
}

static void submit(struct sl_batcher *b, unsigned from, unsigned cnt, uint64_t now_ns)
{
	for (unsigned i = from; i < from + cnt; i++) {
		items[i].deadline_ns = UINT64_MAX;
		items[i].policy = -1;
		items[i].client = i % 7;
		ck_assert_int_eq(sl_batcher_submit(b, &items[i], now_ns + i), SL_OUTCOME_OK);
	}
}

/* Answers everything that is out, until nothing waits. */
static uint64_t serve(struct sl_batcher *b, uint64_t now_ns)
{
	for (int turn = 0; turn < 1000 && (sl_batcher_queue_len(b) || answered < out_cnt); turn++) {
		sl_batcher_pump(b, now_ns);
		now_ns += MS;
		for (; answered < out_cnt; answered++)
			sl_batcher_done(b, out[answered].backend, out[answered].cnt, now_ns - MS, 0,
					MS / 2, now_ns);
	}
	return now_ns;
}

FIXTURE(set_up, NULL)

/* Small after large: a shorter queue, smaller batches, one backend more. */
TEST(queued_requests_move_to_the_new_batcher)
{
	struct sl_cfg_pool before = make_pool(256, 32, 1), after = make_pool(16, 4, 3);
	struct sl_batcher *old = sl_batcher_create(&before, &ops, NULL, &live, &ctl), *new;
	uint64_t now_ns = 1000 * MS;
	uint32_t n, requests;

	sl_batcher_backend(old, 0, true, now_ns);
	submit(old, 0, 1, now_ns);
	sl_batcher_pump(old, now_ns); /* one is at the backend */
	ck_assert_uint_eq(sent, 1);
	refuse = true;
	submit(old, 1, 200, now_ns + 1);
	new = sl_batcher_create_next(&after, after.backend_cnt, before.max_queue, &ops, NULL, &live,
				     &ctl);
	ck_assert_ptr_nonnull(new);
	sl_batcher_take_over(new, old);
	ck_assert_uint_eq(sl_batcher_queue_len(old), 0);
	sl_batcher_destroy(old);

	ck_assert_uint_eq(sl_batcher_queue_len(new), 200);
	sl_batcher_outstanding(new, 0, &n, &requests);
	ck_assert_uint_eq(n, 1);
	ck_assert_uint_eq(requests, 1);
	/* The new length holds for new ones, also while more than that wait. */
	items[ITEMS - 1].deadline_ns = UINT64_MAX;
	items[ITEMS - 1].client = 99;
	drops = 0;
	/* Either it goes, or another one for it, by how clients fall into shares. */
	drops += sl_batcher_submit(new, &items[ITEMS - 1], now_ns + 300) != SL_OUTCOME_OK;
	ck_assert_uint_eq(sl_batcher_queue_len(new), 200);

	refuse = false;
	now_ns += MS;
	sl_batcher_backend(new, 2, true, now_ns);
	serve(new, now_ns);
	ck_assert_uint_eq(sl_batcher_queue_len(new), 0);
	ck_assert_uint_eq(sent + drops, 202);
	ck_assert_uint_le(drops, 1); /* the one beyond the queue */
	ck_assert_uint_le(largest, 4);
	ck_assert_uint_gt(per_backend[2], 0);
	for (unsigned i = 2; i < sent; i++)
		ck_assert_uint_ge(order[i] + 12,
				  order[i - 1]); /* by age, except for requests that go together */
	sl_batcher_destroy(new);
}

TEST(learnt_values_move_to_the_new_batcher)
{
	struct sl_cfg_pool before = make_pool(256, 32, 1), after = make_pool(512, 64, 1);
	struct sl_batcher *old = sl_batcher_create(&before, &ops, NULL, &live, &ctl), *new;
	uint64_t now_ns = 1000 * MS, alpha;

	sl_batcher_backend(old, 0, true, now_ns);
	for (unsigned k = 0; k < 20; k++) {
		submit(old, k, 1, now_ns);
		now_ns = serve(old, now_ns);
	}
	sl_batcher_backend(old, 0, true, now_ns); /* publishes */
	alpha = live.alpha_ns;
	ck_assert_uint_ge(alpha, MS / 4);
	new = sl_batcher_create_next(&after, after.backend_cnt, before.max_queue, &ops, NULL, &live,
				     &ctl);
	sl_batcher_take_over(new, old);
	sl_batcher_destroy(old);
	live.alpha_ns = 0;
	sl_batcher_pump(new, now_ns);
	ck_assert_uint_eq(live.alpha_ns, alpha);
	ck_assert_uint_gt(live.batch_cap, 0);
	ck_assert_uint_eq(live.batches, 20);
	/* It is up without being told again. */
	submit(new, 20, 1, now_ns);
	serve(new, now_ns);
	ck_assert_uint_eq(sent, 21);
	sl_batcher_destroy(new);
}

/* No line describes this backend: 8 requests together take it twice as long as 7. */
TEST(steps_that_were_learned_move_on)
{
	struct sl_cfg_pool before = make_pool(256, 32, 1), after = make_pool(256, 64, 1);
	struct sl_batcher *old = sl_batcher_create(&before, &ops, NULL, &live, &ctl), *new;
	struct sl_fit *fit = &old->controller.backends[0].fit;
	double times[17];

	sl_batcher_backend(old, 0, true, 1000 * MS);
	for (unsigned k = 0; k < 20; k++) {
		for (uint32_t b = 1; b <= 16; b++)
			sl_fit_add(fit, b, b < 8 ? MS : 2 * MS);
	}
	sl_fit_refresh(fit);
	for (uint32_t b = 1; b <= 16; b++)
		times[b] = sl_fit_time(fit, b);
	ck_assert_double_gt(times[8], 1.5 * times[7]);
	new = sl_batcher_create_next(&after, after.backend_cnt, before.max_queue, &ops, NULL, &live,
				     &ctl);
	sl_batcher_take_over(new, old);
	sl_batcher_destroy(old);
	for (uint32_t b = 1; b <= 16; b++)
		ck_assert_double_eq_tol(sl_fit_time(&new->controller.backends[0].fit, b), times[b],
					1);
	sl_batcher_destroy(new);
}

TEST(another_backend_with_the_same_number_is_not_taken_for_the_one_before)
{
	struct sl_cfg_pool both = make_pool(256, 32, 1);
	struct sl_batcher *b = sl_batcher_create(&both, &ops, NULL, &live, &ctl);
	uint64_t now_ns = 1000 * MS;

	sl_batcher_backend(b, 0, true, now_ns);
	for (unsigned k = 0; k < 20; k++) {
		submit(b, k, 1, now_ns);
		now_ns = serve(b, now_ns);
	}
	sl_batcher_backend(b, 0, true, now_ns);
	ck_assert_uint_ge(live.alpha_ns, MS / 4);
	sl_batcher_backend(b, 0, false, now_ns);
	sl_batcher_begin(b, 0);
	sl_batcher_backend(b, 0, true, now_ns);
	ck_assert_uint_eq(live.alpha_ns, 0);
	sl_batcher_destroy(b);
}
