/* SPDX-License-Identifier: Apache-2.0 */
/* A connection whose segments reach two workers in turn, as after a change of receive queues. */
#include "tcp_bed.h"
#include "suite.h"

/* Worker 0 is the bed; worker 1 has everything of its own. */
static struct other {
	struct sl_umem umem;
	struct sl_fake_port port;
	struct sl_net net;
	struct sl_tcp *tcp;
	struct app app;
} other;
static struct sl_handover_hub *hub;

static void two_workers(void)
{
	struct sl_net_listener l = {
		.at.port_be = htobe16(PKT_OUR_PORT), .at.family = 4, .protocol = 6};

	memset(&other, 0, sizeof(other));
	other.app.appetite = SIZE_MAX;
	bed_defaults();
	bed_start();
	ck_assert_int_eq(sl_umem_init(&other.umem, 2048, BED_FRAMES), 0);
	sl_fake_port_init(&other.port, &other.umem, 0);
	ck_assert_int_eq(sl_net_init(&other.net, &other.umem), 0);
	ck_assert_int_eq(sl_net_add_port(&other.net, &other.port.port), 0);
	ck_assert_int_eq(sl_net_set_listeners(&other.net, &l, 1), 0);
	sl_net_set_now(&other.net, bed.net.now_ns);
	other.tcp = sl_tcp_create(&other.net, &bed.cfg, &app_ops, &other.app);
	ck_assert_ptr_nonnull(other.tcp);
	hub = sl_handover_hub_create(2, 1024, 2048);
	ck_assert_ptr_nonnull(hub);
	ck_assert_int_eq(sl_handover_join(hub, 0, &bed.net), 0);
	ck_assert_int_eq(sl_handover_join(hub, 1, &other.net), 0);
}

static void two_workers_end(void)
{
	uint32_t census[SL_FRAME_STATE_CNT];

	sl_tcp_destroy(other.tcp);
	sl_handover_poll(&bed.net);
	sl_handover_leave(&other.net);
	sl_net_flush(&other.net);
	sl_fake_complete(&other.port, UINT32_MAX);
	sl_umem_census(&other.umem, census);
	ck_assert_uint_eq(census[SL_FRAME_FREE], BED_FRAMES);
	sl_net_fini(&other.net);
	sl_umem_fini(&other.umem);
	sl_tcp_destroy(bed.tcp);
	sl_handover_leave(&bed.net);
	sl_net_flush(&bed.net);
	sl_fake_complete(&bed.port, UINT32_MAX);
	sl_umem_census(&bed.umem, census);
	ck_assert_uint_eq(census[SL_FRAME_FREE], BED_FRAMES);
	sl_net_fini(&bed.net);
	sl_umem_fini(&bed.umem);
	sl_handover_hub_destroy(hub);
}

static void in_other(const struct seg *s)
{
	struct sl_frame *frames[SL_BURST];
	struct pkt p;
	unsigned cnt;

	build(&p, s);
	ck_assert(sl_fake_inject(&other.port, p.b, p.len, 0));
	while ((cnt = other.port.port.ops->rx_burst(&other.port.port, frames, SL_BURST,
						    bed.net.now_ns)) > 0)
		sl_net_input(&other.net, frames, cnt, bed.net.now_ns);
	sl_tcp_output(other.tcp);
	sl_net_flush(&other.net);
	sl_handover_poll(&bed.net);
	bed_collect();
}

FIXTURE(two_workers, two_workers_end)

TEST(segments_alternate_between_workers)
{
	open_full();
	for (uint32_t i = 0; i < 100; i++) {
		struct seg s = {.seq = 1 + i * 100, .ack = 1, .len = 100};

		if (i & 1)
			in_other(&s);
		else
			bed_in(&s);
	}
	ck_assert_uint_eq(bed.app.got, 10000);
	ck_assert_uint_eq(sl_fake_sent_cnt(&other.port), 0);
	app_sends(1, 500);
	out_skip();
	in_other(&(struct seg){.seq = 10001, .ack = 501});
	ck_assert_uint_eq(bed.app.conn->txq_cnt, 0);
	in_other(&(struct seg){.flags = F | A, .seq = 10001, .ack = 501});
	ck_assert_uint_eq(bed.app.fins, 1);
}

TEST(last_ack_of_the_handshake_may_come_elsewhere)
{
	in(.flags = S, .mss = 1000);
	out(.flags = S | A, .ack = 1);
	in_other(&(struct seg){.seq = 1, .ack = 1, .len = 5});
	ck_assert_uint_eq(bed.app.accepted, 1);
	ck_assert_uint_eq(bed.app.got, 5);
	ck_assert_uint_eq(other.app.accepted, 0);
}

/* Two workers with a half-open connection each would answer what is meant for the other by a reset. */
TEST(a_syn_that_is_sent_again_may_come_elsewhere)
{
	in(.flags = S, .mss = 1000);
	out(.flags = S | A, .ack = 1);
	in_other(&(struct seg){.flags = S, .mss = 1000});
	ck_assert_uint_eq(sl_fake_sent_cnt(&other.port), 0);
	out(.flags = S | A, .ack = 1);
	in_other(&(struct seg){.seq = 1, .ack = 1, .len = 5});
	ck_assert_uint_eq(bed.app.accepted, 1);
	ck_assert_uint_eq(bed.app.got, 5);
}

TEST(time_wait_still_belongs_to_its_worker)
{
	open_plain();
	sl_tcp_close(bed.app.conn);
	bed_collect();
	in(.flags = F | A, .seq = 1, .ack = 2);
	out_skip();
	in_other(&(struct seg){.flags = F | A, .seq = 1, .ack = 2});
	out(.seq = 2, .ack = 2);
	ck_assert_uint_eq(sl_fake_sent_cnt(&other.port), 0);
}

TEST(a_segment_without_a_connection_gets_its_rst)
{
	open_plain();
	in(.flags = R, .seq = 1);
	in_other(&(struct seg){.seq = 1, .ack = 1, .len = 5});
	ck_assert_uint_eq(sl_fake_sent_cnt(&other.port), 1);
}

/* The queues change between the cookie and its ACK: the worker that gets it owns the connection. */
TEST(cookies_are_good_for_all_workers)
{
	bed.tcp->cfg.max_half_open = 0;
	in(.flags = S, .mss = 1000);
	out(.flags = S | A, .ack = 1);
	in_other(&(struct seg){.seq = 1, .ack = 1, .len = 5});
	ck_assert_uint_eq(other.app.accepted, 1);
	ck_assert_uint_eq(other.app.got, 5);
	/* And when they change back. */
	bed_in(&(struct seg){.seq = 6, .ack = 1, .len = 7});
	ck_assert_uint_eq(sl_handover_poll(&other.net), 1);
	ck_assert_uint_eq(other.app.got, 12);
	ck_assert_uint_eq(bed.app.accepted, 0);
}

TEST(each_cookie_counts_for_all_workers)
{
	static const uint64_t pause_ms[] = {0, 900, 200, 10000};

	bed.tcp->cfg.max_half_open = 0;
	for (size_t i = 0; i < SL_ARRAY_LEN(pause_ms); i++) {
		after(pause_ms[i] * MS);
		in(.flags = S, .mss = 1000);
		out_skip();
		ck_assert_uint_ge(sl_handover_cookies_until(&other.net), bed.tcp->cookie_until_ns);
	}
}

TEST(cookies_of_others_expire_too)
{
	bed.tcp->cfg.max_half_open = 0;
	in(.flags = S, .mss = 1000);
	out(.flags = S | A, .ack = 1);
	ck_assert_uint_gt(sl_handover_cookies_until(&other.net), bed.net.now_ns);
	sl_net_set_now(&other.net, bed.net.now_ns + 200 * SL_NS_PER_SEC);
	bed.net.now_ns = other.net.now_ns;
	in_other(&(struct seg){.seq = 1, .ack = 1, .len = 5});
	ck_assert_uint_eq(other.app.accepted, 0);
	ck_assert_uint_eq(other.net.drops[SL_DROP_TCP_SYN_COOKIE], 0); /* not even looked at */
	ck_assert_uint_eq(sl_fake_sent_cnt(&other.port), 1);
}
