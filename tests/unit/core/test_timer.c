/* SPDX-License-Identifier: Apache-2.0 */
/* The work that a turn of the core reports: a worker without any goes to sleep. */
#include "core_talk.h"
#include "suite.h"

FIXTURE(set_up, tear_down)

/* Runs a turn without input at the time that the core asks for. Returns the reported work. */
static unsigned wake(void)
{
	struct sl_core *c = &bed.core;
	unsigned n;

	bed.now_ns = sl_core_next_ns(c);
	sl_core_set_now(c, bed.now_ns);
	sl_net_set_now(&bed.net, bed.now_ns);
	ck_assert_uint_eq(sl_rpc_poll(c->rpc, bed.now_ns), 0);
	n = sl_core_run(c);
	sl_rpc_flush(c->rpc, bed.now_ns);
	return n;
}

/* A request is held for a while, in which others may join it. Nothing comes when that is over. */
TEST(batch_sent_by_a_timer_counts_as_work)
{
	bed.ctl[1] = (struct sl_svc_ctl){.batch_size = 8, .hold_ns = SL_NS_PER_MS + 1};
	bed_turn(2 * SL_NS_PER_SEC); /* the controller has seen it */
	say(GET("/o"));
	ck_assert_uint_eq(other()->id_cnt, 0);
	ck_assert_uint_eq(wake(), 1);
	ck_assert_uint_eq(other()->id_cnt, 1);
	ck_assert_uint_eq(wake(), 0);
}
