/* SPDX-License-Identifier: Apache-2.0 */
/* Active opens by the host's route, from a range of local ports. */
#include <errno.h>

#include "net/route.h"
#include "suite.h"
#include "tcp_bed.h"
#include "xio/rss.h"

enum { FIRST = 20000, LAST = 20009, MAIN = 254, HERE = 3 };

static struct sl_host_rule rule = {.family = 4, .table = MAIN, .suppress = -1};
static struct sl_host_hop hop = {.ifindex = HERE};
static struct sl_host_route route = {.family = 4, .table = MAIN, .hop_cnt = 1};
static struct sl_host_neighbour neighbour = {.family = 4, .ifindex = HERE};

/* A default route on the link; the neighbour is known or not. */
static void set_routes(bool known)
{
	struct sl_host_routes host = {.rules = &rule,
				      .rule_cnt = 1,
				      .routes = &route,
				      .route_cnt = 1,
				      .hops = &hop,
				      .hop_cnt = 1,
				      .neighbours = &neighbour,
				      .neighbour_cnt = known};

	memcpy(neighbour.addr, pkt_peer_ip4, 16);
	memcpy(neighbour.mac, pkt_peer_mac, 6);
	sl_net_set_routes(&bed.net, sl_routes_new(&host));
}

static void set_up(void)
{
	bed_defaults();
	bed.cfg.port_first = FIRST;
	bed.cfg.port_last = LAST;
	bed.cfg.port_part = 1;
	bed.cfg.port_parts = 2;
	bed_start();
	bed.port.port.ifindex = HERE;
	set_routes(true);
}

FIXTURE(set_up, bed_end)

static struct sl_tcp_conn *open_to(uint16_t local_port)
{
	struct sl_addr local = sl_addr_of(4, pkt_our_ip4, htobe16(local_port));
	struct sl_addr remote = sl_addr_of(4, pkt_peer_ip4, htobe16(PKT_PEER_PORT));
	struct sl_tcp_conn *c = sl_tcp_open(bed.tcp, &local, &remote, &bed.app);

	bed_collect();
	return c;
}

TEST(local_ports_are_those_of_the_part)
{
	bool seen[LAST + 1 - FIRST] = {false};

	for (unsigned i = 0; i < 5; i++) {
		struct sl_tcp_conn *c = open_to(0);
		unsigned port;

		ck_assert_ptr_nonnull(c);
		port = be16toh(c->local_port_be);
		ck_assert_uint_ge(port, FIRST + 5);
		ck_assert_uint_le(port, LAST);
		ck_assert(!seen[port - FIRST]);
		seen[port - FIRST] = true;
	}
	ck_assert_ptr_null(open_to(0));
	ck_assert_int_eq(errno, EADDRINUSE);
}

/* The bed has queue 0. */
static void set_rss(uint16_t others)
{
	struct sl_rss r = {.ifindex = HERE, .hashes4 = true, .cnt = 4};

	for (unsigned i = 0; i < sizeof(r.key); i++)
		r.key[i] = (uint8_t)(37 * i + 11);
	for (unsigned i = 1; i < r.cnt; i++)
		r.queue[i] = others;
	sl_net_set_rss(&bed.net, sl_rss_list_new(&r, 1));
}

TEST(local_ports_bring_replies_to_the_own_queue_while_there_are_such)
{
	unsigned own = 0;

	bed.tcp->cfg.port_last = FIRST + 63;
	set_rss(1);
	for (unsigned i = 0; i < 32; i++) {
		struct sl_tcp_conn *c = open_to(0);

		ck_assert_ptr_nonnull(c);
		own += sl_net_receives(&bed.net, &c->path, c->local_port_be, c->remote_port_be) ==
		       1;
		if (i < 4)
			ck_assert_uint_eq(own, i + 1);
	}
	ck_assert_uint_le(own, 16);
	ck_assert_ptr_null(open_to(0));
}

TEST(local_ports_are_any_if_no_queue_is_the_own_one)
{
	bed.port.port.queue = 2;
	set_rss(1);
	for (unsigned i = 0; i < 5; i++)
		ck_assert_ptr_nonnull(open_to(0));
	ck_assert_ptr_null(open_to(0));
}

TEST(segments_for_no_connection_get_rst_within_the_range)
{
	struct got g;

	sl_net_set_listeners(&bed.net, NULL, 0);
	in(.flags = A, .seq = 5, .ack = 9); /* to PKT_OUR_PORT, outside of it */
	out_none();
	bed.tcp->cfg.port_first = PKT_OUR_PORT;
	bed.tcp->cfg.port_last = PKT_OUR_PORT;
	in(.flags = A, .seq = 5, .ack = 9);
	ck_assert(next_out(&g));
	ck_assert_uint_eq(g.s.flags, R);
	in(.flags = R, .seq = 5);
	out_none();
}

TEST(connection_by_a_route_keeps_the_way_that_the_answer_came)
{
	struct sl_tcp_conn *c = open_to(PKT_OUR_PORT);
	struct got g;

	ck_assert_ptr_nonnull(c);
	ck_assert(c->path.routed);
	ck_assert(next_out(&g));
	ck_assert_uint_eq(g.s.flags, S);
	ck_assert_mem_eq(g.eth, pkt_peer_mac, 6);
	in(.flags = S | A, .ack = 1, .mss = 1000);
	ck_assert_uint_eq(bed.app.connected, 1);
	ck_assert_mem_eq(c->path.mac, pkt_peer_mac, 6);
	ck_assert(!c->path.routed);
	out(.ack = 1, .seq = 1);
	set_routes(false);
	app_sends(1, 100);
	out(.seq = 1, .ack = 1, .len = 100);
}

/* The kernel gets a copy of each SYN, and resolves the neighbour. */
TEST(syn_is_not_sent_to_an_unresolved_neighbour)
{
	set_routes(false);
	ck_assert_ptr_nonnull(open_to(0));
	out_none();
	ck_assert_uint_eq(bed.net.drops[SL_DROP_NO_NEIGHBOUR], 1);
	set_routes(true);
	after(2 * SEC);
	out(.flags = S);
}

TEST(open_fails_without_a_route)
{
	sl_net_set_routes(&bed.net, NULL);
	ck_assert_ptr_null(open_to(0));
	ck_assert_int_eq(errno, EHOSTUNREACH);
	set_routes(true);
	bed.port.port.ifindex = HERE + 1; /* no port on the route's interface */
	ck_assert_ptr_null(open_to(0));
	ck_assert_int_eq(errno, EHOSTUNREACH);
}

/* A server that closes after each reply would otherwise use up all ports within a minute. */
TEST_EACH(port_in_time_wait_is_reused_after_a_second_with_timestamps, 2)
{
	struct sl_tcp_conn *c = open_to(PKT_OUR_PORT);
	uint32_t end;

	ck_assert_ptr_nonnull(c);
	out(.flags = S);
	bed.ts = _i == 0;
	if (bed.ts)
		in(.flags = S | A, .ack = 1, .mss = 1000, .ts = true, .ts_val = 7);
	else
		in(.flags = S | A, .ack = 1, .mss = 1000);
	out(.ack = 1, .seq = 1);
	end = c->snd_nxt + 300000; /* faster than the clock of initial numbers */
	c->snd_nxt = c->snd_una = c->snd_end = end;
	sl_tcp_close(c);
	bed_collect();
	out_skip();
	in(.flags = F | A, .seq = 1, .ack = end + 1 - bed.our_isn);
	ck_assert_uint_eq(stats().time_wait, 1);
	out_skip();
	ck_assert_ptr_null(open_to(PKT_OUR_PORT));
	ck_assert_int_eq(errno, EADDRINUSE);
	after(1 * SEC);
	c = open_to(PKT_OUR_PORT);
	ck_assert(_i == 0 ? c != NULL : !c);
	if (c)
		ck_assert_uint_eq(c->snd_una, end + 1 + 0x10000);
	ck_assert_uint_eq(stats().time_wait, c ? 0 : 1);
}

static unsigned others_closed;

static void note_closed(void *handle, enum sl_tcp_close_reason why)
{
	(void)handle, (void)why;
	others_closed++;
}

TEST(active_connections_have_upcalls_of_their_own)
{
	struct sl_tcp_ops ops = app_ops;

	ops.closed = note_closed;
	sl_tcp_set_active_ops(bed.tcp, &ops);
	ck_assert_ptr_nonnull(open_to(PKT_OUR_PORT));
	out(.flags = S);
	in(.flags = R | A, .ack = 1);
	ck_assert_uint_eq(others_closed, 1);
	ck_assert_uint_eq(bed.app.closed, 0);
}
