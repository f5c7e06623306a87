/* SPDX-License-Identifier: Apache-2.0 */
/* Access to the listeners of an interface: allowed and denied prefixes, VLANs. */
#include "xio/xdp/acl_map.h"
#include "steer_bed.h"
#include "suite.h"

static struct sl_acl_rule rule(const char *prefix, enum sl_prefix_action action,
			       enum sl_prefix_origin origin)
{
	struct sl_acl_rule r = {.action = (uint8_t)action, .origin = (uint8_t)origin};
	char addr[64];
	int len;

	ck_assert_int_eq(sscanf(prefix, "%63[^/]/%d", addr, &len), 2);
	r.prefix.family = strchr(addr, ':') ? 6 : 4;
	r.prefix.len = (uint8_t)len;
	ck_assert_int_eq(inet_pton(r.prefix.family == 4 ? AF_INET : AF_INET6, addr, r.prefix.addr),
			 1);
	return r;
}

static void set(const char *prefix, enum sl_prefix_action action)
{
	struct sl_acl_rule r = rule(prefix, action, SL_PREFIX_OF_OPERATOR);

	ck_assert_int_eq(sl_xdp_acl_set(&xdp, &r), 0);
}

static void forget(const char *prefix, int want)
{
	struct sl_acl_rule r = rule(prefix, SL_PREFIX_DENY, SL_PREFIX_OF_OPERATOR);

	ck_assert_int_eq(sl_xdp_acl_remove(&xdp, &r), want);
}

FIXTURE(set_up, tear_down)

TEST(the_longest_prefix_decides)
{
	client("10.9.9.9", SL_RX_REDIRECT);
	set("10.0.0.0/8", SL_PREFIX_DENY);
	client("10.9.9.9", SL_RX_DENIED);
	client("11.0.0.1", SL_RX_REDIRECT);
	client("fd99::9", SL_RX_REDIRECT);
	set("10.9.0.0/16", SL_PREFIX_ALLOW);
	client("10.9.9.9", SL_RX_REDIRECT);
	client("10.8.9.9", SL_RX_DENIED);
	set("10.9.9.9/32", SL_PREFIX_DENY);
	client("10.9.9.9", SL_RX_DENIED);
	client("10.9.9.8", SL_RX_REDIRECT);
	forget("10.9.9.9/32", 0);
	client("10.9.9.9", SL_RX_REDIRECT);
	forget("10.9.9.9/32", -ENOENT);
	/* Another action takes the place of the first. */
	set("10.9.0.0/16", SL_PREFIX_DENY);
	client("10.9.9.9", SL_RX_DENIED);
}

TEST(prefixes_of_ipv6)
{
	set("fd99::/64", SL_PREFIX_DENY);
	client("fd99::9", SL_RX_DENIED);
	client("fd99:0:0:1::9", SL_RX_REDIRECT);
	client("10.9.9.9", SL_RX_REDIRECT);
	set("fd99::8/126", SL_PREFIX_ALLOW);
	client("fd99::9", SL_RX_REDIRECT);
	client("fd99::c", SL_RX_DENIED);
}

TEST(all_but_these)
{
	set("0.0.0.0/0", SL_PREFIX_DENY);
	set("::/0", SL_PREFIX_DENY);
	set("192.0.2.0/25", SL_PREFIX_ALLOW);
	client("192.0.2.127", SL_RX_REDIRECT);
	client("192.0.2.128", SL_RX_DENIED);
	client("fd99::9", SL_RX_DENIED);
}

/* Packets for no listener are left to the kernel, which has its own rules. */
TEST(prefixes_apply_to_listeners_only)
{
	struct packet p = {0};
	struct outcome o;

	set("0.0.0.0/0", SL_PREFIX_DENY);
	eth(&p, ETH_P_IP);
	ip4(&p, 6, "10.0.0.1");
	tcp(&p, 1, 22, SYN);
	expect("ssh", &p, p.len, SL_RX_PASS_NO_LISTENER, &o);
}

TEST(icmp_errors_of_routers_pass_a_deny_rule)
{
	struct packet p = {0};
	struct outcome o;

	set("0.0.0.0/0", SL_PREFIX_DENY);
	eth(&p, ETH_P_IP);
	ip4(&p, 1, "10.0.0.1");
	icmp(&p, 3, 4);
	ip4_opts(&p, 6, "10.0.0.1", "10.9.9.9", 0x4000, 5);
	quote(&p, 80);
	expect("fragmentation needed", &p, p.len, SL_RX_REDIRECT, &o);
}

/* Denied is denied also where the packet would have been the kernel's for want of a socket. */
TEST(denied_without_a_socket)
{
	struct packet p = {0};
	struct outcome o;

	set("10.9.9.9/32", SL_PREFIX_DENY);
	build_tcp4_exact(&p);
	run_packet(&p, p.len, 1, &o);
	ck_assert_uint_eq(o.verdict, SL_RX_DENIED);
	ck_assert_uint_eq(o.action, XDP_DROP);
}

static void apply(const char *const *allowed, const char *const *denied)
{
	struct sl_acl_rule rules[16];
	uint32_t cnt = 0;

	for (; *allowed; allowed++)
		rules[cnt++] = rule(*allowed, SL_PREFIX_ALLOW, SL_PREFIX_OF_FILE);
	for (; *denied; denied++)
		rules[cnt++] = rule(*denied, SL_PREFIX_DENY, SL_PREFIX_OF_FILE);
	ck_assert_int_eq(sl_xdp_acl_apply(&xdp, rules, cnt), 0);
}

#define LIST(...) ((const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

TEST(the_file_is_read_again)
{
	struct sl_acl_rule rules[8];

	apply(LIST("10.9.0.0/16"), LIST("10.0.0.0/8", "fd99::/64"));
	client("10.8.0.1", SL_RX_DENIED);
	client("10.9.9.9", SL_RX_REDIRECT);
	client("fd99::9", SL_RX_DENIED);
	set("192.0.2.0/24", SL_PREFIX_DENY);
	set("10.8.0.0/16", SL_PREFIX_ALLOW);
	apply(LIST(), LIST("10.0.0.0/8", "10.8.0.0/16"));
	client("10.9.9.9", SL_RX_DENIED);
	client("fd99::9", SL_RX_REDIRECT);
	client("192.0.2.1", SL_RX_DENIED);  /* the operator's stays */
	client("10.8.0.1", SL_RX_REDIRECT); /* and wins */
	ck_assert_int_eq(sl_xdp_acl_list(&xdp, rules, SL_ARRAY_LEN(rules)), 3);
	apply(LIST(), LIST());
	client("10.9.9.9", SL_RX_REDIRECT);
	ck_assert_int_eq(sl_xdp_acl_list(&xdp, rules, 1), 2);
}

/* --- VLANs --- */

enum { NO_TAG = -1 };

/* Tags from the outermost; the verdict of a packet with them. */
static enum sl_rx_verdict tagged(int outer, int inner)
{
	struct packet p = {0};
	struct outcome o;

	eth(&p, outer == NO_TAG ? ETH_P_IP : ETH_P_8021Q);
	if (outer != NO_TAG) {
		put16(&p, (unsigned)outer);
		put16(&p, inner == NO_TAG ? ETH_P_IP : ETH_P_8021Q);
	}
	if (inner != NO_TAG) {
		put16(&p, (unsigned)inner);
		put16(&p, ETH_P_IP);
	}
	ip4(&p, 6, "10.0.0.1");
	tcp(&p, 1, 80, ACK);
	run_packet(&p, p.len, 0, &o);
	ck_assert_uint_eq(o.action, action_of(o.verdict));
	return o.verdict;
}

TEST(vlan_reaches_only_its_own_listeners)
{
	enum { PRIORITY = 5 << 13, YES = SL_RX_REDIRECT, NO = SL_RX_PASS_VLAN };
	static const struct {
		uint32_t serves;
		unsigned untagged, prio_only, vlan100, vlan100_prio, vlan101, stacked, prio_stacked;
	} tests[] = {
		{SL_VLAN_ANY, YES, YES, YES, YES, YES, YES, YES},
		{SL_VLAN_NONE, YES, YES, NO, NO, NO, NO, NO},
		{100, NO, NO, YES, YES, NO, NO, NO},
		{4094, NO, NO, NO, NO, NO, NO, NO},
	};

	for (size_t i = 0; i < SL_ARRAY_LEN(tests); i++) {
		ck_assert_int_eq(sl_xdp_acl_vlan(&xdp, tests[i].serves), 0);
		ck_assert_uint_eq(tagged(NO_TAG, NO_TAG), tests[i].untagged);
		ck_assert_uint_eq(tagged(PRIORITY, NO_TAG), tests[i].prio_only);
		ck_assert_uint_eq(tagged(100, NO_TAG), tests[i].vlan100);
		ck_assert_uint_eq(tagged(PRIORITY | 100, NO_TAG), tests[i].vlan100_prio);
		ck_assert_uint_eq(tagged(101, NO_TAG), tests[i].vlan101);
		ck_assert_uint_eq(tagged(100, 100), tests[i].stacked);
		ck_assert_uint_eq(tagged(PRIORITY, 100), tests[i].prio_stacked);
	}
}
