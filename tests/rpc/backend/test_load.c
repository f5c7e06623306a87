/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both directions at once, sizes and classes at random, the smallest rings and the default ones,
 * polling and sleeping: every reply is right, and nothing is left at the end.
 */
#include "base/rand.h"
#include "harness.h"

enum { CALLS = 64, BODY_MAX = 600000 };

/* Calls of each test: SL_RPC_LOAD, fewer where a machine is emulated. */
static unsigned total = 3000;

struct slot {
	struct call c;
	uint8_t *body;
	uint32_t len, seed;
	bool busy;
};

static void echo(void *arg, struct sl_batch *batch)
{
	(void)arg;
	for (unsigned i = 0; i < batch->count; i++) {
		struct sl_request_view *rq = batch->requests[batch->count - 1 - i];

		sl_reply(rq, &(struct sl_reply_args){.body = rq->body, .body_len = rq->body_len});
	}
}

static uint32_t random_len(struct sl_prng *rng)
{
	switch (sl_prng_below(rng, 8)) {
	case 0: return (uint32_t)sl_prng_below(rng, BODY_MAX);
	case 1:
	case 2: return (uint32_t)sl_prng_below(rng, 20000);
	default: return (uint32_t)sl_prng_below(rng, 200);
	}
}

static bool start(struct gateway *g, struct slot *s, struct sl_prng *rng)
{
	uint32_t len = random_len(rng);
	uint8_t *reply = s->c.body;
	int rc;

	s->seed = (uint32_t)sl_prng_u64(rng);
	for (uint32_t i = 0; i < len; i++)
		s->body[i] = (uint8_t)(i * 31 + s->seed);
	s->len = len;
	s->c = (struct call){.body = reply, .cap = BODY_MAX};
	rc = gw_send(g, &s->c, sl_span_of(NULL, 0), sl_span_of(s->body, len), 30000000,
		     1 + (unsigned)sl_prng_below(rng, 3));
	ck_assert(rc == 0 || rc == -EAGAIN);
	s->busy = rc == 0;
	return s->busy;
}

static void finish(struct slot *s)
{
	ck_assert_msg(!s->c.failed, "failed: %d", s->c.why);
	ck_assert_uint_eq(s->c.status, SL_RPC_OK);
	ck_assert_uint_eq(s->c.len, s->len);
	ck_assert_mem_eq(s->c.body, s->body, s->len);
	s->busy = false;
}

static void turn(struct gateway *g, bool sleeping)
{
	uint64_t now = sl_now_ns();
	unsigned n = sl_rpc_poll(g->r, now);

	sl_rpc_flush(g->r, now);
	if (n)
		return;
	if (sleeping && sl_rpc_arm(g->r)) {
		harness_sleep(sl_rpc_fd(g->r));
		sl_rpc_disarm(g->r);
	} else {
		sched_yield();
	}
}

static void run_load(const char *ep, const struct sl_rpc_config *cfg, bool sleeping, uint64_t seed)
{
	static struct slot slots[CALLS];
	struct backend_proc p = backend_start(&(struct sl_backend_options){
		.listen = ep, .handle = echo, .bulk_ring_len = cfg->bulk_ring_len});
	struct gateway g;
	struct sl_prng rng;
	unsigned started = 0, busy = 0;

	sl_prng_seed(&rng, seed);
	gw_open_with(&g, ep, cfg);
	for (unsigned i = 0; i < CALLS; i++) {
		slots[i].body = malloc(BODY_MAX);
		call_init(&slots[i].c, BODY_MAX);
	}
	do {
		busy = 0;
		for (unsigned i = 0; i < CALLS; i++) {
			struct slot *s = &slots[i];

			if (s->busy && (s->c.done || s->c.failed))
				finish(s);
			if (!s->busy && started < total)
				started += start(&g, s, &rng);
			busy += s->busy;
		}
		if (busy)
			turn(&g, sleeping);
		ck_assert_uint_eq(g.downs, 0);
	} while (busy || started < total);
	gw_until(&g, g.batches_done == total);
	for (unsigned i = 0; i < CALLS; i++) {
		free(slots[i].body);
		call_fini(&slots[i].c);
	}
	gw_close(&g);
	backend_term(p);
}

static struct sl_rpc_config config_of(bool small)
{
	struct sl_rpc_config cfg;

	sl_rpc_config_default(&cfg);
	if (small) {
		cfg.slots = SL_RPC_MIN_SLOTS;
		cfg.bulk_ring_len = SL_RPC_MIN_BULK;
	}
	return cfg;
}

START_TEST(test_polling)
{
	struct sl_rpc_config cfg = config_of(false);

	run_load(endpoint_of(_i), &cfg, false, 1);
}
END_TEST

START_TEST(test_polling_small_rings)
{
	struct sl_rpc_config cfg = config_of(true);

	run_load(endpoint_of(_i), &cfg, false, 2);
}
END_TEST

START_TEST(test_sleeping)
{
	struct sl_rpc_config cfg = config_of(false);

	run_load(endpoint_of(_i), &cfg, true, 3);
}
END_TEST

START_TEST(test_sleeping_small_rings)
{
	struct sl_rpc_config cfg = config_of(true);

	run_load(endpoint_of(_i), &cfg, true, 4);
}
END_TEST

START_TEST(test_one_class)
{
	struct sl_rpc_config cfg = config_of(false);

	cfg.one_class = true;
	run_load(endpoint_of(_i), &cfg, true, 5);
}
END_TEST

static void acknowledge(void *arg, struct sl_batch *batch)
{
	(void)arg;
	for (unsigned i = 0; i < batch->count; i++)
		sl_reply(batch->requests[i], &(struct sl_reply_args){.body_len = 0});
}

/* Urgent requests overtake bulk that was sent before them; with one class they do not. */
START_TEST(test_overtaking)
{
	static uint8_t bulk[16 << 20];
	const char *ep = endpoint_of(_i);
	struct backend_proc p =
		backend_start(&(struct sl_backend_options){.listen = ep, .handle = acknowledge});

	for (unsigned one_class = 0; one_class < 2; one_class++) {
		struct sl_rpc_config cfg = config_of(false);
		struct gateway g;
		struct call big, small;

		cfg.one_class = one_class;
		gw_open_with(&g, ep, &cfg);
		call_init(&big, sizeof(bulk));
		call_init(&small, 8);
		ck_assert_int_eq(gw_send(&g, &big, sl_span_of(NULL, 0),
					 sl_span_of(bulk, sizeof(bulk)), 0, SL_CLASS_BULK),
				 0);
		ck_assert_int_eq(gw_send(&g, &small, sl_span_of(NULL, 0), sl_span_str("x"), 0,
					 SL_CLASS_LATENCY),
				 0);
		gw_until(&g, g.batches_done == 2);
		ck_assert_int_eq(small.done_seq < big.done_seq, !one_class);
		call_fini(&big);
		call_fini(&small);
		gw_close(&g);
	}
	backend_term(p);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("rpc load");
	TCase *tc = tcase_create("load");
	int n = (int)endpoint_cnt();
	const char *load = getenv("SL_RPC_LOAD");

	if (load && strtoul(load, NULL, 10) >= CALLS)
		total = (unsigned)strtoul(load, NULL, 10);
	tcase_set_timeout(tc, 120);
	tcase_add_loop_test(tc, test_polling, 0, n);
	tcase_add_loop_test(tc, test_polling_small_rings, 0, n);
	tcase_add_loop_test(tc, test_sleeping, 0, n);
	tcase_add_loop_test(tc, test_sleeping_small_rings, 0, n);
	tcase_add_loop_test(tc, test_one_class, 0, n);
	tcase_add_loop_test(tc, test_overtaking, 0, n);
	suite_add_tcase(s, tc);
	return harness_run(s);
}
