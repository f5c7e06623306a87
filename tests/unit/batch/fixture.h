/* SPDX-License-Identifier: Apache-2.0 */
/* A batcher with a clock, clients and backends of the test's own: time passes only in pump(). */
#ifndef TESTS_UNIT_BATCH_FIXTURE_H
#define TESTS_UNIT_BATCH_FIXTURE_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "base/rand.h"
#include "batch/batcher.h"
#include "sluice/types.h"

#define MS UINT64_C(1000000)

enum { ITEMS = 4000, SENT_MAX = 64, BACKENDS = 3, QUEUE = 512 };

struct sent {
	unsigned backend, cnt;
	uint64_t at_ns;
	struct sl_batch_item *items[SL_RPC_MAX_BATCH];
	bool over;
};

static struct sl_cfg_backend cfg_backends[BACKENDS];
static struct sl_cfg_pool pool;
static struct sl_svc_live live;
static struct sl_svc_ctl ctl;
static struct sl_batcher *b;
static struct sl_batch_item items[ITEMS];
static struct sent sent[SENT_MAX];
static unsigned sent_cnt, send_calls, item_cnt, drops[SL_OUTCOME_CNT], most_items;
static uint64_t now_ns;
static int refuse;

static inline int on_send(void *app, unsigned backend, struct sl_batch_item **list, unsigned cnt)
{
	struct sent *s = &sent[sent_cnt];

	(void)app;
	send_calls++;
	if (refuse)
		return refuse;
	if (cnt > most_items)
		return -EMSGSIZE;
	ck_assert_uint_lt(sent_cnt, SENT_MAX);
	*s = (struct sent){.backend = backend, .cnt = cnt, .at_ns = now_ns};
	for (unsigned i = 0; i < cnt; i++) {
		ck_assert(!sl_batcher_queued(list[i]));
		s->items[i] = list[i];
	}
	sent_cnt++;
	return 0;
}

static inline void on_drop(void *app, struct sl_batch_item *item, enum sl_outcome why)
{
	(void)app;
	ck_assert(!sl_batcher_queued(item));
	drops[why]++;
}

static const struct sl_batch_ops ops = {.send = on_send, .drop = on_drop};

static inline void start(struct sl_cfg_batch batch, unsigned backends)
{
	pool = (struct sl_cfg_pool){.backends = cfg_backends,
				    .backend_cnt = backends,
				    .batch = batch,
				    .max_queue = QUEUE};
	pool.batch.max_size = 64;
	pool.batch.bound_ns = 100 * MS;
	memset(&live, 0, sizeof(live));
	memset(&ctl, 0, sizeof(ctl));
	memset(drops, 0, sizeof(drops));
	sent_cnt = item_cnt = send_calls = 0;
	refuse = 0;
	most_items = UINT32_MAX;
	now_ns = 1000 * MS;
	b = sl_batcher_create(&pool, &ops, NULL, &live, &ctl);
	ck_assert_ptr_nonnull(b);
	sl_batcher_seed(b, 3);
	for (unsigned i = 0; i < backends; i++)
		sl_batcher_backend(b, i, true, now_ns);
}

static inline void tear_down(void)
{
	if (b)
		sl_batcher_destroy(b);
	b = NULL;
}

/* Requests that miss the bound are refused at once, so that tests see the expected outcome. */
static const struct sl_cfg_batch adaptive = {.policy = SL_POLICY_ADAPTIVE,
					     .bound_mode = SL_BOUND_HARD};

static inline enum sl_outcome submit_item(struct sl_batch_item item)
{
	struct sl_batch_item *it = &items[item_cnt++ % ITEMS];

	ck_assert(!sl_batcher_queued(it));
	*it = item;
	it->policy = -1;
	return sl_batcher_submit(b, it, now_ns);
}

static inline enum sl_outcome submit_for(uint32_t client, uint64_t deadline_ns)
{
	return submit_item((struct sl_batch_item){.deadline_ns = deadline_ns, .client = client});
}

static inline enum sl_outcome submit_unproven(uint32_t client)
{
	return submit_item((struct sl_batch_item){
		.deadline_ns = UINT64_MAX, .client = client, .unproven = true});
}

static inline void submit(unsigned cnt)
{
	while (cnt--)
		ck_assert_int_eq(submit_for(cnt, UINT64_MAX), SL_OUTCOME_OK);
}

static inline void answer_merged(struct sent *s, uint32_t together, uint64_t service_ns)
{
	ck_assert(!s->over);
	s->over = true;
	sl_batcher_done(b, s->backend, s->cnt, s->at_ns, together, service_ns, now_ns);
}

static inline void answer(struct sent *s, uint64_t service_ns)
{
	answer_merged(s, 0, service_ns);
}

/* Requests that left. */
static inline unsigned pump(uint64_t passed_ns)
{
	now_ns += passed_ns;
	return sl_batcher_pump(b, now_ns);
}

static inline uint64_t takes(unsigned cnt)
{
	return 4 * MS + cnt * (MS / 4);
}

/* Batches of all sizes, so that the controller knows what this backend takes. */
static inline void teach(unsigned backends)
{
	for (unsigned round = 0; round < 40 * backends; round++) {
		unsigned first = sent_cnt = 0;

		submit(1 + round % 16 * 2);
		pump(1);
		while (sl_batcher_queue_len(b) || first < sent_cnt) {
			for (; first < sent_cnt; first++) {
				now_ns += takes(sent[first].cnt);
				answer(&sent[first], takes(sent[first].cnt));
			}
			pump(MS);
		}
	}
	sent_cnt = 0;
	memset(drops, 0, sizeof(drops));
}

static inline void assert_outstanding(unsigned backend, unsigned batches, unsigned requests)
{
	uint32_t has_batches, has_requests;

	sl_batcher_outstanding(b, backend, &has_batches, &has_requests);
	ck_assert_uint_eq(has_batches, batches);
	ck_assert_uint_eq(has_requests, requests);
}

#endif
