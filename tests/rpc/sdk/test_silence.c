/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Backends that are not heard for a while: one that has started again is found out at once, by virtual
 * connections; one that computes in the thread that answers is waited for, by all.
 */
#include "suite.h"
#include "rpc_harness.h"

enum { COMPUTE_MS = 4500 };

static bool is_virtual(int i)
{
	return strncmp(endpoint_of(i), "rdma+ud://", 10) == 0;
}

/* What the gateway's dialer does at the same time. */
static enum sl_rpc_probe_result look_after(struct gateway *g, const char *endpoint, uint32_t number)
{
	const struct sl_rpc_dial_options opt = {
		.endpoint = endpoint, .key_file = harness_key(), .slots = 64, .timeout_ms = 500};
	uint64_t silent_ns = sl_rpc_channel_silent_ns(g->ch);
	enum sl_rpc_probe_result word = SL_RPC_PROBE_NONE;

	if (silent_ns && sl_now_ns() >= silent_ns + 200 * SL_NS_PER_MS)
		word = sl_rpc_probe_peer(&opt, number);
	if (word == SL_RPC_PROBE_REMOVED)
		sl_rpc_peer_removed(g->ch, number);
	return word;
}

static void echo(void *arg, struct sl_batch *batch)
{
	(void)arg;
	for (unsigned i = 0; i < batch->count; i++)
		sl_reply(batch->requests[i],
			 &(struct sl_reply_args){.body = "here", .body_len = 4});
}

static void send_one(struct gateway *g, struct call *c, uint32_t budget_us)
{
	call_init(c, 8);
	ck_assert_int_eq(
		gw_send(g, c, sl_span_of(NULL, 0), sl_span_str("x"), budget_us, SL_CLASS_NORMAL),
		0);
}

/* Requests are under way, or the link rests. */
TEST_EACH(a_restarted_backend_is_found_out, endpoint_cnt() * 2)
{
	struct sl_rpc_config cfg;
	struct sl_backend_options opt = {.listen = endpoint_of(_i / 2), .on_batch = echo};
	struct backend_proc p;
	struct sl_transport *t;
	struct sl_rpc_stats stats;
	struct gateway g;
	struct call c, last;
	uint32_t number;
	unsigned asked = (unsigned)_i % 2;

	if (!is_virtual(_i / 2))
		return;
	p = backend_start(&opt);
	sl_rpc_config_default(&cfg);
	/* Three pings without an answer end the link: a successor must have started before. */
	cfg.ping_interval_ns = (harness_emulated() ? 600 : 200) * SL_NS_PER_MS;
	g = (struct gateway){.r = sl_rpc_create(&cfg, NULL, &gw_ops, &g)};
	g.ch = sl_rpc_channel_add(g.r, "test", NULL);
	t = gw_dial(opt.listen, 64, cfg.bulk_ring_len);
	number = sl_rpc_transport_number(t);
	ck_assert_int_eq(sl_rpc_adopt(g.ch, t, sl_now_ns()), 0);
	send_one(&g, &c, 0);
	gw_until(&g, c.done && g.batches_done == 1);
	backend_kill(p);
	p = backend_start(&opt);
	if (asked)
		send_one(&g, &last, 0);
	gw_until(&g, (look_after(&g, opt.listen, number), g.downs == 1));
	ck_assert_uint_eq(g.failed, asked);
	ck_assert(!asked || last.why == SL_RPC_FAIL_LOST);
	ck_assert_int_eq(
		sl_rpc_adopt(g.ch, gw_dial(opt.listen, 64, cfg.bulk_ring_len), sl_now_ns()), 0);
	/* Belongs to the former link, not to this one. */
	sl_rpc_peer_removed(g.ch, number);
	send_one(&g, &c, 0);
	gw_until(&g, c.done && g.batches_done == g.sent);
	ck_assert_uint_eq(g.downs, 1);
	sl_rpc_channel_stats(g.ch, &stats);
	ck_assert_uint_eq(stats.peer_restarts, 1);
	gw_close(&g);
	backend_term(p);
}

static void compute(void *arg, struct sl_batch *batch)
{
	uint64_t until_ns = sl_now_ns() + COMPUTE_MS * SL_NS_PER_MS;

	while (sl_now_ns() < until_ns)
		usleep(10000);
	echo(arg, batch);
}

/* Its request is waited for, or (odd) has been given up before. */
TEST_EACH(a_computing_backend_is_waited_for, endpoint_cnt() * 2)
{
	const char *endpoint = endpoint_of(_i / 2);
	struct backend_proc p = backend_start(&(struct sl_backend_options){
		.listen = endpoint, .on_batch = compute, .inline_handler = true});
	struct gateway g;
	struct call c, next;
	uint64_t begin_ns = sl_now_ns();

	gw_open(&g, endpoint);
	send_one(&g, &c, _i % 2 ? 300000 : 0);
	gw_until(&g, c.done || c.failed);
	ck_assert_int_eq(c.failed, _i % 2);
	if (c.failed) {
		while (sl_now_ns() < begin_ns + COMPUTE_MS * SL_NS_PER_MS)
			gw_turn(&g);
		send_one(&g, &next, 0);
		gw_until(&g, next.done || next.failed);
		ck_assert(next.done);
	}
	ck_assert_uint_eq(g.downs, 0);
	gw_until(&g, g.batches_done == g.sent);
	gw_close(&g);
	backend_term(p);
}
