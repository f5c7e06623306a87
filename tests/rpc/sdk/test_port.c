/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A port below a link goes down and comes back: the session is informed, nothing is sent meanwhile,
 * and each request is executed and answered once, whether it was under way or waiting.
 * SL_RPC_PORT_DOWN and SL_RPC_PORT_UP are commands for the port. Virtual connections over sockets
 * have a simulated one.
 */
#include "rpc/session.h"
#include "rpc/rdma/device.h"
#include "rpc_harness.h"
#include "suite.h"
#include "ud_sockets.h"

enum {
	REQUESTS = 64, /* messages of each kind */
	TURNS = 3,
	NUMBERS = 2 * REQUESTS * TURNS,
	BODY = 2000,
	DOWN_MS = 300,
	AFTERWARDS_MS = 500, /* so late nothing is sent once more */
	PATIENT_MS = 3000,   /* a link may end by a port that is down for longer */
};

/* Seen by both processes. */
static struct shared {
	_Atomic uint32_t carried_out[NUMBERS], sum;
} * shared;

static void count(void *arg, struct sl_batch *batch)
{
	(void)arg;
	for (unsigned i = 0; i < batch->count; i++) {
		struct sl_request_view *rq = batch->requests[i];
		uint32_t number = 0;

		memcpy(&number, rq->body, sizeof(number));
		shared->carried_out[number % NUMBERS]++;
		shared->sum++;
		sl_reply(rq, &(struct sl_reply_args){.body = rq->body, .body_len = rq->body_len});
	}
}

static void set_port(bool down)
{
	if (rdma_device != &rdma_device_ibv)
		ud_sockets_port(0, down);
	else
		harness_command(down ? "SL_RPC_PORT_DOWN" : "SL_RPC_PORT_UP");
}

static bool has_port(const char *endpoint)
{
	return strncmp(endpoint, "rdma", 4) == 0 &&
	       (rdma_device != &rdma_device_ibv || getenv("SL_RPC_PORT_DOWN"));
}

static struct request {
	struct call c;
	uint8_t body[BODY];
} requests[NUMBERS];
static uint32_t next;

static void send_some(struct gateway *g)
{
	for (unsigned i = 0; i < REQUESTS; i++, next++) {
		struct request *r = &requests[next];

		memset(r->body, (int)next, sizeof(r->body));
		memcpy(r->body, &next, sizeof(next));
		call_init(&r->c, sizeof(r->body));
		ck_assert_int_eq(gw_send(g, &r->c, sl_span_of(NULL, 0),
					 sl_span_of(r->body, sizeof(r->body)), 0, SL_CLASS_NORMAL),
				 0);
	}
}

static void go_on(struct gateway *g, unsigned ms)
{
	uint64_t until_ns = sl_now_ns() + ms * SL_NS_PER_MS;

	while (sl_now_ns() < until_ns)
		gw_turn(g);
}

static uint64_t messages_sent(const struct gateway *g)
{
	struct sl_rpc_stats st;

	sl_rpc_channel_stats(g->ch, &st);
	return st.messages_sent;
}

static void check_answers(uint32_t cnt)
{
	ck_assert_uint_eq(shared->sum, cnt);
	for (uint32_t i = 0; i < cnt; i++) {
		struct call *c = &requests[i].c;

		ck_assert_uint_eq(shared->carried_out[i], 1);
		ck_assert(c->done && !c->failed);
		ck_assert_uint_eq(c->len, BODY);
		ck_assert_mem_eq(c->body, requests[i].body, BODY);
	}
}

/* False: the machine was too slow for the link. */
static bool go_down_and_up(struct gateway *g)
{
	unsigned told = g->ups;
	uint64_t sent, down_ns = sl_now_ns();
	uint32_t asked;

	send_some(g);
	gw_turn(g); /* they are under way, some of them */
	set_port(true);
	gw_until(g, sl_rpc_channel_port_down(g->ch) || g->downs);
	if (g->downs && sl_now_ns() >= down_ns + PATIENT_MS * SL_NS_PER_MS)
		return false;
	ck_assert_uint_eq(g->ups, told + 1);
	sent = messages_sent(g);
	asked = next;
	send_some(g);
	go_on(g, DOWN_MS);
	ck_assert_uint_eq(messages_sent(g), sent);
	for (uint32_t i = asked; i < next; i++)
		ck_assert(!requests[i].c.done && !shared->carried_out[i]);
	set_port(false);
	down_ns = sl_now_ns() - down_ns;
	gw_until(g, (g->done == next && g->batches_done == g->sent) || g->downs);
	if (g->downs && down_ns >= PATIENT_MS * SL_NS_PER_MS)
		return false;
	ck_assert(!sl_rpc_channel_port_down(g->ch));
	ck_assert_uint_eq(g->ups, told + 2);
	return true;
}

TEST_EACH(requests_that_wait_for_a_port_are_carried_out_once, endpoint_cnt())
{
	const char *ep = endpoint_of(_i);
	struct backend_proc p;
	struct gateway g;
	bool in_time = true;

	if (!has_port(ep))
		return;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	p = backend_start(&(struct sl_backend_options){.listen = ep, .on_batch = count});
	gw_open(&g, ep);
	for (unsigned i = 0; i < TURNS && in_time; i++)
		in_time = go_down_and_up(&g);
	go_on(&g, AFTERWARDS_MS);
	if (in_time) {
		ck_assert_uint_eq(g.downs, 0);
		ck_assert_uint_eq(g.failed, 0);
		check_answers(next);
	} else {
		printf("the port was down for too long: nothing was seen by %s\n", ep);
	}
	gw_close(&g);
	backend_term(p);
	for (uint32_t i = 0; i < next; i++)
		call_fini(&requests[i].c);
}

/* If the port stays down, pings detect the dead peer, with or without messages under way. */
TEST_EACH(a_port_that_stays_down_ends_the_link, endpoint_cnt() * 2)
{
	const char *ep = endpoint_of(_i / 2);
	struct sl_rpc_config cfg;
	struct backend_proc p;
	struct gateway g;

	if (!has_port(ep))
		return;
	p = backend_start(&(struct sl_backend_options){.listen = ep, .on_batch = answer_here});
	sl_rpc_config_default(&cfg);
	cfg.ping_interval_ns = 100 * SL_NS_PER_MS;
	cfg.dead_after_ns = SL_NS_PER_SEC;
	gw_open_with(&g, ep, &cfg);
	gw_expect_one_answer(&g);
	if (_i % 2)
		send_some(&g);
	set_port(true);
	gw_until(&g, g.downs == 1);
	ck_assert_uint_eq(g.failed + g.done, 1 + next);
	ck_assert(g.failed || !next);
	set_port(false);
	gw_until(&g, g.batches_done == g.sent);
	ck_assert_int_eq(sl_rpc_adopt(g.ch, gw_dial(ep, cfg.slots, cfg.bulk_ring_len), sl_now_ns()),
			 0);
	gw_expect_one_answer(&g);
	gw_close(&g);
	backend_term(p);
	for (uint32_t i = 0; i < next; i++)
		call_fini(&requests[i].c);
}
