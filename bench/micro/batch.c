/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request's way through the batcher of a group: submit, choice of a backend, send, done. Half of
 * the group is busy all the time, so that there is something to choose.
 */
#include <stdlib.h>

#include "batch/batcher.h"
#include "bench.h"

enum { OPS = 20000, ROUND_NS = 3000, SERVICE_NS = 100000 };

static struct sl_svc_live live;
static struct {
	unsigned backend;
	uint64_t sent_ns;
} sent_batches[OPS];
static unsigned head;

struct pool {
	struct sl_batcher *batcher;
	struct sl_batch_item *items;
	unsigned backend_cnt, tail;
	uint64_t now_ns;
};

static int on_send(void *app, unsigned backend, struct sl_batch_item **items, unsigned cnt)
{
	struct pool *g = app;

	(void)items;
	if (cnt != 1)
		return -1; /* each is sent before the next one comes */
	sent_batches[head % OPS].backend = backend;
	sent_batches[head++ % OPS].sent_ns = g->now_ns;
	return 0;
}

static void on_drop(void *app, struct sl_batch_item *item, enum sl_outcome why)
{
	(void)app, (void)item;
	fprintf(stderr, "bench: a request was dropped: %d\n", (int)why);
	exit(1);
}

static const struct sl_batch_ops ops = {.send = on_send, .drop = on_drop};

static void end_oldest(struct pool *g)
{
	unsigned at = g->tail++ % OPS;

	sl_batcher_done(g->batcher, sent_batches[at].backend, 1, sent_batches[at].sent_ns, 1,
			SERVICE_NS, g->now_ns);
}

static void serve(void *ctx)
{
	struct pool *g = ctx;

	for (unsigned i = 0; i < OPS; i++) {
		struct sl_batch_item *item = &g->items[i];

		*item = (struct sl_batch_item){.deadline_ns = UINT64_MAX, .policy = -1};
		g->now_ns += ROUND_NS;
		if (sl_batcher_submit(g->batcher, item, g->now_ns) != SL_OUTCOME_OK)
			exit(1);
		sl_batcher_pump(g->batcher, g->now_ns);
		if (head - g->tail > g->backend_cnt / 2)
			end_oldest(g);
	}
}

static void run(const char *name, unsigned backend_cnt)
{
	struct sl_cfg_pool pool = {.backends = calloc(backend_cnt, sizeof(struct sl_cfg_backend)),
				   .backend_cnt = backend_cnt,
				   .max_queue = 4096,
				   .batch = {.policy = SL_POLICY_ADAPTIVE,
					     .max_size = 64,
					     .bound_ns = 10000000,
					     .bound_mode = SL_BOUND_SOFT}};
	struct pool g = {.items = calloc(OPS, sizeof(struct sl_batch_item)),
			 .backend_cnt = backend_cnt,
			 .now_ns = 1000000000};

	head = 0;
	g.batcher = sl_batcher_create(&pool, &ops, &g, &live, NULL);
	if (!g.batcher || !g.items || !pool.backends)
		exit(1);
	sl_batcher_seed(g.batcher, 1);
	for (unsigned i = 0; i < backend_cnt; i++)
		sl_batcher_backend(g.batcher, i, true, g.now_ns);
	bench_time(name, serve, &g, OPS);
	sl_batcher_destroy(g.batcher);
	free(g.items);
	free(pool.backends);
}

int main(void)
{
	run("batch_request_1", 1);
	run("batch_request_8", 8);
	run("batch_request_32", 32);
	if (SL_MAX_BACKENDS >= 1024)
		run("batch_request_1024", 1024);
	return 0;
}
