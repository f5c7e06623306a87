/* SPDX-License-Identifier: Apache-2.0 */
/* Sources that are dropped for a time. */
#include "xio/xdp/offender_map.h"
#include "base/clock.h"
#include "steer_bed.h"
#include "suite.h"

enum { HOUR_S = 3600 };

static struct sl_xdp_offender offender(const char *addr, int64_t seconds)
{
	const uint64_t now = sl_now_ns();
	struct sl_xdp_offender o;
	struct sl_addr a;

	ck_assert(sl_addr_parse(&a, addr));
	o.key = sl_offender_key_of(&a);
	o.until_ns = now + (uint64_t)(seconds * (int64_t)SL_NS_PER_SEC);
	return o;
}

static void add(const char *addr, int64_t seconds)
{
	struct sl_xdp_offender o = offender(addr, seconds);

	ck_assert_int_eq(sl_xdp_offender_add(&xdp, &o), 0);
}

static bool is_due(const void *arg, const struct sl_xdp_offender *o)
{
	return o->until_ns > *(const uint64_t *)arg;
}

static uint32_t tidy(void)
{
	const uint64_t now = sl_now_ns();

	return sl_xdp_offenders_tidy(&xdp, is_due, &now);
}

static uint8_t flag(void)
{
	const uint32_t zero = 0;
	struct sl_edge edge;

	ck_assert_int_eq(bpf_map_lookup_elem(xdp.map_fd[SL_MAP_EDGE], &zero, &edge), 0);
	ck_assert_mem_eq(edge.mac, case_mac, sizeof(case_mac));
	return edge.offenders;
}

FIXTURE(set_up, tear_down)

TEST(an_address_is_dropped_and_no_other)
{
	client("10.9.9.9", SL_RX_REDIRECT);
	add("10.9.9.9", HOUR_S);
	client("10.9.9.9", SL_RX_OFFENDER);
	client("10.9.9.8", SL_RX_REDIRECT);
	/* the same first bytes in the other family */
	client("a09:909::9", SL_RX_REDIRECT);
	ck_assert_uint_eq(tidy(), 1);
	client("10.9.9.9", SL_RX_OFFENDER);
}

TEST(all_addresses_of_a_64_are_dropped)
{
	add("fd99:0:0:1:2::9", HOUR_S);
	client("fd99:0:0:1::1", SL_RX_OFFENDER);
	client("fd99:0:0:1:ffff::1", SL_RX_OFFENDER);
	client("fd99:0:0:2::9", SL_RX_REDIRECT);
	client("fd99::9", SL_RX_REDIRECT);
	/* fd99::/64 begins with the bytes of this address */
	client("253.153.0.0", SL_RX_REDIRECT);
}

TEST(ports_of_the_kernel_and_icmp_errors_pass)
{
	struct packet p = {0};
	struct outcome o;

	add("10.9.9.9", HOUR_S);
	eth(&p, ETH_P_IP);
	ip4(&p, 6, "10.0.0.1");
	tcp(&p, 1, 22, SYN);
	expect("ssh", &p, p.len, SL_RX_PASS_NO_LISTENER, &o);
	p.len = 0;
	eth(&p, ETH_P_IP);
	ip4(&p, 1, "10.0.0.1");
	icmp(&p, 8, 0);
	expect("ping", &p, p.len, SL_RX_PASS_OTHER, &o);
	p.len = 0;
	eth(&p, ETH_P_IP);
	ip4(&p, 1, "10.0.0.1");
	icmp(&p, 3, 4);
	ip4_opts(&p, 6, "10.0.0.1", "10.9.9.9", 0x4000, 5);
	quote(&p, 80);
	expect("fragmentation needed", &p, p.len, SL_RX_REDIRECT, &o);
}

/* A server may also be a client: replies to the gateway's own connections are needed. */
TEST(connections_of_the_gateway_itself_pass)
{
	struct packet p = {0};
	struct outcome o;

	ck_assert_int_eq(sl_xdp_edge_ports(&xdp, 40000, 40099), 0);
	listen_on(4, "10.0.0.1", 40000, IPPROTO_TCP, L_EXACT4, SL_ANY_SERVICE);
	add("10.9.9.9", HOUR_S);
	eth(&p, ETH_P_IP);
	ip4(&p, 6, "10.0.0.1");
	tcp(&p, 8000, 40050, ACK);
	expect("reply of a server", &p, p.len, SL_RX_REDIRECT, &o);
	client("10.9.9.9", SL_RX_OFFENDER);
}

TEST(an_expired_entry_is_ignored_and_then_removed)
{
	struct sl_xdp_offender list[4];

	add("10.9.9.9", -1);
	add("10.9.9.8", HOUR_S);
	client("10.9.9.9", SL_RX_REDIRECT);
	client("10.9.9.8", SL_RX_OFFENDER);
	ck_assert_uint_eq(sl_xdp_offenders_list(&xdp, list, 4), 2);
	ck_assert_uint_eq(tidy(), 1);
	ck_assert_uint_eq(sl_xdp_offenders_list(&xdp, list, 4), 1);
	ck_assert_uint_eq(list[0].key.addr[3], 8);
	ck_assert_uint_eq(flag(), 1);
	/* a second offence begins a new time */
	add("10.9.9.9", HOUR_S);
	client("10.9.9.9", SL_RX_OFFENDER);
}

TEST(an_empty_map_costs_no_look_up)
{
	struct sl_xdp_offender o = offender("10.9.9.9", HOUR_S);

	/* an entry that the gateway knows nothing of is not looked up */
	ck_assert_int_eq(bpf_map_update_elem(xdp.map_fd[SL_MAP_OFFENDERS], &o.key, &o.until_ns, 0),
			 0);
	client("10.9.9.9", SL_RX_REDIRECT);
	ck_assert_uint_eq(flag(), 0);
	ck_assert_int_eq(sl_xdp_offender_add(&xdp, &o), 0);
	ck_assert_uint_eq(flag(), 1);
	ck_assert_int_eq(sl_xdp_offender_remove(&xdp, &o.key), 0);
	ck_assert_int_eq(sl_xdp_offender_remove(&xdp, &o.key), -ENOENT);
	client("10.9.9.9", SL_RX_REDIRECT);
	ck_assert_uint_eq(tidy(), 0);
	ck_assert_uint_eq(flag(), 0);
	ck_assert_int_eq(sl_xdp_offender_add(&xdp, &o), 0);
	ck_assert_uint_eq(sl_xdp_offenders_tidy(&xdp, NULL, NULL), 0);
	client("10.9.9.9", SL_RX_REDIRECT);
	ck_assert_uint_eq(flag(), 0);
}

/* The map never grows, and entries that packets meet stay. */
TEST(a_full_map_replaces_what_is_not_seen)
{
	static struct sl_xdp_offender list[SL_MAX_OFFENDERS + 1];
	struct sl_xdp_offender o = offender("10.9.9.9", HOUR_S);
	uint32_t cnt;

	ck_assert_int_eq(sl_xdp_offender_add(&xdp, &o), 0);
	for (uint32_t i = 1; i <= 2 * SL_MAX_OFFENDERS; i++) {
		o.key.addr[0] = 172;
		o.key.addr[1] = 16;
		o.key.addr[2] = (uint8_t)(i >> 8);
		o.key.addr[3] = (uint8_t)i;
		ck_assert_int_eq(sl_xdp_offender_add(&xdp, &o), 0);
		if (i % 64 == 0)
			client("10.9.9.9", SL_RX_OFFENDER);
	}
	cnt = sl_xdp_offenders_list(&xdp, list, SL_MAX_OFFENDERS + 1);
	ck_assert_uint_le(cnt, SL_MAX_OFFENDERS);
	ck_assert_uint_ge(cnt, SL_MAX_OFFENDERS / 2);
	client("10.9.9.9", SL_RX_OFFENDER);
}
