/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections in a poll group (virtual, RDMA and tcp) that a busy backend does not poll while they
 * are idle: incoming messages wake them, the backend's own messages reach them, and a peer that has
 * gone is noticed.
 */
#include "rpc/session.h"
#include "rpc_harness.h"
#include "suite.h"

enum { LINKS = 64, REST_MS = 300, GONE_MS = 12000 };

/* The others rest meanwhile. */
static void be_busy(struct gateway *g, unsigned ms)
{
	uint64_t until_ns = sl_now_ns() + ms * SL_NS_PER_MS;

	while (sl_now_ns() < until_ns) {
		gw_expect_one_answer(g);
		usleep(200);
	}
}

static void open_links(struct gateway *g, const char *ep, struct sl_rpc_channel **all)
{
	struct sl_rpc_config cfg;

	sl_rpc_config_default(&cfg);
	*g = (struct gateway){.r = sl_rpc_create(&cfg, NULL, &gw_ops, g)};
	for (unsigned i = 0; i < LINKS; i++) {
		all[i] = g->ch = sl_rpc_channel_add(g->r, "test", NULL);
		ck_assert_int_eq(sl_rpc_adopt(g->ch, gw_dial(ep, 64, SL_RPC_MIN_BULK), sl_now_ns()),
				 0);
		gw_turn(g);
	}
}

TEST_EACH(a_resting_connection_is_woken_by_input, endpoint_cnt())
{
	const char *ep = endpoint_of(_i);
	struct backend_proc p =
		backend_start(&(struct sl_backend_options){.listen = ep, .on_batch = answer_here});
	struct sl_rpc_channel *all[LINKS];
	struct gateway g;

	open_links(&g, ep, all);
	be_busy(&g, REST_MS);
	for (unsigned i = 0; i < LINKS; i++) {
		g.ch = all[i];
		gw_expect_one_answer(&g);
	}
	ck_assert_uint_eq(g.downs, 0);
	gw_close(&g);
	backend_term(p);
}

/* The backend drains: each peer is told and leaves. */
TEST_EACH(idle_link_is_drained_at_the_end, endpoint_cnt())
{
	const char *ep = endpoint_of(_i);
	struct backend_proc p =
		backend_start(&(struct sl_backend_options){.listen = ep, .on_batch = answer_here});
	struct sl_rpc_channel *all[LINKS];
	struct gateway g;
	int status;

	open_links(&g, ep, all);
	be_busy(&g, REST_MS);
	kill(p.pid, SIGTERM);
	gw_until(&g, g.downs == LINKS);
	ck_assert_uint_eq(g.drains, LINKS);
	status = backend_wait(p);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	gw_close(&g);
}

/* A gateway whose thread stands still answers nothing, and its links are given up. */
TEST_EACH(a_resting_peer_that_has_gone_is_noticed, endpoint_cnt())
{
	const char *ep = endpoint_of(_i);
	struct backend_proc p;
	struct sl_rpc_channel *all[LINKS];
	struct gateway gone, busy;

	if (strncmp(ep, "shm", 3) == 0)
		return; /* it has no hub, and rests at no backend */
	p = backend_start(&(struct sl_backend_options){.listen = ep, .on_batch = answer_here});
	open_links(&gone, ep, all);
	gw_open(&busy, ep);
	be_busy(&busy, GONE_MS);
	/* It was asked, and has not answered: no request of its own would be there any more. */
	gw_until(&gone, gone.downs == LINKS);
	ck_assert_uint_eq(busy.downs, 0);
	gw_close(&busy);
	gw_close(&gone);
	backend_term(p);
}
