/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both directions at once, sizes and classes at random, the smallest rings and the default ones,
 * polling and sleeping: every reply is right, and nothing is left at the end.
 */
#include "rpc_load.h"
#include "suite.h"

struct side {
	struct gateway g;
	bool sleeping;
};

static void turn(void *arg)
{
	struct side *s = arg;
	uint64_t now = sl_now_ns();
	unsigned n = sl_rpc_poll(s->g.r, now);

	sl_rpc_flush(s->g.r, now);
	if (!n && s->sleeping && sl_rpc_arm(s->g.r)) {
		harness_sleep(sl_rpc_fd(s->g.r));
		sl_rpc_disarm(s->g.r, true);
	} else {
		gw_pause(&s->g, n);
	}
}

static void run_load(const char *ep, const struct sl_rpc_config *cfg, bool sleeping, uint64_t seed)
{
	struct backend_proc p = backend_start(&(struct sl_backend_options){
		.listen = ep, .on_batch = load_echo, .bulk_ring_len = cfg->bulk_ring_len});
	struct side s = {.sleeping = sleeping};

	gw_open_with(&s.g, ep, cfg);
	load_carry(&s.g, seed, turn, &s);
	gw_close(&s.g);
	backend_term(p);
}

TEST_EACH(load_is_carried_polling, endpoint_cnt())
{
	struct sl_rpc_config cfg = load_config(false);

	run_load(endpoint_of(_i), &cfg, false, 1);
}

TEST_EACH(load_is_carried_polling_in_small_rings, endpoint_cnt())
{
	struct sl_rpc_config cfg = load_config(true);

	run_load(endpoint_of(_i), &cfg, false, 2);
}

TEST_EACH(load_is_carried_sleeping, endpoint_cnt())
{
	struct sl_rpc_config cfg = load_config(false);

	run_load(endpoint_of(_i), &cfg, true, 3);
}

TEST_EACH(load_is_carried_sleeping_in_small_rings, endpoint_cnt())
{
	struct sl_rpc_config cfg = load_config(true);

	run_load(endpoint_of(_i), &cfg, true, 4);
}

TEST_EACH(load_is_carried_in_one_class, endpoint_cnt())
{
	struct sl_rpc_config cfg = load_config(false);

	cfg.one_class = true;
	run_load(endpoint_of(_i), &cfg, true, 5);
}

static void acknowledge(void *arg, struct sl_batch *batch)
{
	(void)arg;
	for (unsigned i = 0; i < batch->count; i++)
		sl_reply(batch->requests[i], &(struct sl_reply_args){.body_len = 0});
}

/* --- a batch of several classes --- */

enum { MIXED = 7, LONG = 3 << 20 };

/* The class that each body names is its own; replies repeat the body. */
static void check_class(void *arg, struct sl_batch *batch)
{
	(void)arg;
	for (unsigned i = 0; i < batch->count; i++) {
		struct sl_request_view *rq = batch->requests[i];

		if (rq->body[0] != rq->priority)
			sl_reply_error(rq, SL_RPC_INTERNAL);
		else
			sl_reply(rq, &(struct sl_reply_args){.body = rq->body,
							     .body_len = rq->body_len});
	}
}

/* Requests of a batch travel, are computed, and answered, each as urgently as it is itself. */
TEST_EACH(classes_survive_being_batched, endpoint_cnt())
{
	static const uint8_t class_of[MIXED] = {SL_CLASS_BULK,   SL_CLASS_NORMAL, SL_CLASS_LATENCY,
						SL_CLASS_NORMAL, SL_CLASS_BULK,   SL_CLASS_LATENCY,
						SL_CLASS_BULK};
	static uint8_t bodies[MIXED][LONG];
	static struct call calls[MIXED];
	struct sl_rpc_item items[MIXED];
	struct sl_span spans[MIXED];
	const char *ep = endpoint_of(_i);
	struct backend_proc p = backend_start(&(struct sl_backend_options){
		.listen = ep, .on_batch = check_class, .inline_handler = true});
	struct gateway g;
	uint64_t batch;

	gw_open(&g, ep);
	for (unsigned i = 0; i < MIXED; i++) {
		size_t len = class_of[i] == SL_CLASS_BULK ? LONG : 100;

		memset(bodies[i], class_of[i], len);
		call_init(&calls[i], len);
		spans[i] = sl_span_of(bodies[i], len);
		items[i] = (struct sl_rpc_item){.cookie = &calls[i],
						.spans = &spans[i],
						.span_cnt = 1,
						.class = class_of[i],
						.len = (uint32_t)len};
	}
	ck_assert_int_eq(sl_rpc_send(g.ch, items, MIXED, sl_now_ns(), &batch), 0);
	for (unsigned i = 0; i < MIXED; i++)
		calls[i].id = items[i].id;
	gw_until(&g, g.done == MIXED);
	ck_assert_uint_eq(g.sent, 1);
	ck_assert_uint_eq(g.batches_done, 1);
	ck_assert_uint_eq(g.batch_ends[0].count, MIXED);
	ck_assert_uint_eq(g.batch_ends[0].answered, MIXED);
	for (unsigned i = 0; i < MIXED; i++) {
		ck_assert_uint_eq(calls[i].status, SL_RPC_OK);
		ck_assert_mem_eq(calls[i].body, bodies[i], calls[i].len);
		/* Urgent replies did not wait for megabytes in front of them. */
		for (unsigned k = 0; k < MIXED; k++)
			ck_assert(class_of[i] == SL_CLASS_BULK || class_of[k] != SL_CLASS_BULK ||
				  calls[i].done_seq < calls[k].done_seq);
		call_fini(&calls[i]);
	}
	gw_close(&g);
	backend_term(p);
}

/* The last byte of which message went out first. The backend's queue has an order of its own. */
static uint64_t sent_first, sent_second;

static void note_sent(void *app, void *app_data, uint64_t batch)
{
	if (sent_first)
		sent_second = batch;
	else
		sent_first = batch;
	gw_sent(app, app_data, batch);
}

/* Urgent requests overtake bulk that was sent before them; with one class they do not. */
TEST_EACH(urgent_requests_overtake_bulk, endpoint_cnt())
{
	static uint8_t bulk[16 << 20];
	const size_t len = harness_emulated() ? sizeof(bulk) / 4 : sizeof(bulk);
	const char *ep = endpoint_of(_i);
	struct backend_proc p =
		backend_start(&(struct sl_backend_options){.listen = ep, .on_batch = acknowledge});

	for (unsigned one_class = 0; one_class < 2; one_class++) {
		struct sl_rpc_config cfg = load_config(false);
		struct sl_rpc_ops ops = gw_ops;
		struct gateway g;
		struct call big, small;

		cfg.one_class = one_class;
		ops.sent = note_sent;
		sent_first = sent_second = 0;
		gw_open_ops(&g, ep, &cfg, &ops);
		call_init(&big, sizeof(bulk));
		call_init(&small, 8);
		ck_assert_int_eq(gw_send(&g, &big, sl_span_of(NULL, 0), sl_span_of(bulk, len), 0,
					 SL_CLASS_BULK),
				 0);
		ck_assert_int_eq(gw_send(&g, &small, sl_span_of(NULL, 0), sl_span_str("x"), 0,
					 SL_CLASS_LATENCY),
				 0);
		gw_until(&g, g.batches_done == 2);
		ck_assert_uint_ne(sent_second, 0);
		ck_assert_int_eq(sent_second < sent_first, !one_class);
		call_fini(&big);
		call_fini(&small);
		gw_close(&g);
	}
	backend_term(p);
}
