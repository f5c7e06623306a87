/* SPDX-License-Identifier: Apache-2.0 */
/* route.c, and packets by the host's routes. Addresses are text; MAC addresses are a last byte. */
#include <stdio.h>
#include "net_bed.h"
#include "net/route.h"
#include "suite.h"
#include "wire/addr.h"

enum { MAIN = 254, OTHER = 99, HERE = 7, THERE = 8, SENDER = 0x55 };

static struct sl_host_rule rules[16];
static struct sl_host_route routes[32];
static struct sl_host_hop hops[32];
static struct sl_host_neighbour neighbours[16];
static struct sl_host_routes host;

static uint8_t set_addr(uint8_t out[16], const char *text)
{
	struct sl_addr a;

	ck_assert(sl_addr_parse(&a, text));
	memcpy(out, a.addr, 16);
	return a.family;
}

static struct sl_host_rule *rule(const char *src, uint8_t src_len, uint32_t table)
{
	struct sl_host_rule *r = &rules[host.rule_cnt++];

	*r = (struct sl_host_rule){.table = table, .suppress = -1, .src_len = src_len};
	r->family = set_addr(r->src, src);
	return r;
}

static struct sl_host_route *route(const char *dst, uint8_t len, uint32_t table)
{
	struct sl_host_route *r = &routes[host.route_cnt++];

	*r = (struct sl_host_route){.table = table, .len = len, .hop = host.hop_cnt};
	r->family = set_addr(r->dst, dst);
	return r;
}

/* gateway NULL: on the link */
static void via(struct sl_host_route *r, const char *gateway, int ifindex)
{
	struct sl_host_hop *h = &hops[host.hop_cnt++];

	*h = (struct sl_host_hop){.ifindex = ifindex};
	if (gateway)
		h->family = set_addr(h->gateway, gateway);
	r->hop_cnt++;
}

static void neighbour(const char *addr, uint8_t mac, int ifindex)
{
	struct sl_host_neighbour *n = &neighbours[host.neighbour_cnt++];

	*n = (struct sl_host_neighbour){.ifindex = ifindex, .mac = {2, 0, 0, 0, 0, mac}};
	n->family = set_addr(n->addr, addr);
}

static void begin(void)
{
	host = (struct sl_host_routes){
		.rules = rules, .routes = routes, .hops = hops, .neighbours = neighbours};
	rule("0.0.0.0", 0, MAIN);
	rule("::", 0, MAIN);
}

/* Returns the last byte of the next hop's MAC; 0: unresolved, -1: no route. */
static int hop_to(const char *local, const char *remote)
{
	struct sl_routes *r = sl_routes_new(&host);
	uint8_t from[16], to[16];
	uint8_t family = set_addr(from, local);
	struct sl_next_hop hop;
	int rc = -1;

	ck_assert_ptr_nonnull(r);
	set_addr(to, remote);
	if (sl_routes_find(r, family, from, to, &hop))
		rc = hop.known ? hop.mac[5] : 0;
	sl_routes_put(r);
	return rc;
}

static bool differs(const char *remote, int ifindex, uint8_t mac)
{
	struct sl_routes *r = sl_routes_new(&host);
	const uint8_t from_mac[6] = {2, 0, 0, 0, 0, mac};
	uint8_t from[16], to[16];
	uint8_t family = set_addr(to, remote);
	int out;
	bool rc;

	set_addr(from, family == 4 ? "10.0.0.1" : "fd00::1");
	rc = sl_routes_differ(r, family, from, to, ifindex, from_mac, &out);
	sl_routes_put(r);
	return rc;
}

TEST(longest_prefix_decides)
{
	begin();
	for (uint8_t i = 1; i <= 6; i++) {
		char gateway[16];

		snprintf(gateway, sizeof(gateway), "10.0.0.%d", i);
		neighbour(gateway, i, HERE);
	}
	via(route("0.0.0.0", 0, MAIN), "10.0.0.1", HERE);
	via(route("20.1.0.0", 16, MAIN), "10.0.0.2", HERE);
	via(route("20.1.2.0", 24, MAIN), "10.0.0.3", HERE);
	via(route("20.1.2.128", 25, MAIN), "10.0.0.4", HERE);
	via(route("20.1.200.0", 31, MAIN), "10.0.0.5", HERE);
	via(route("255.255.255.255", 32, MAIN), "10.0.0.6", HERE);
	ck_assert_int_eq(hop_to("10.0.0.9", "0.0.0.0"), 1);
	ck_assert_int_eq(hop_to("10.0.0.9", "19.255.255.255"), 1);
	ck_assert_int_eq(hop_to("10.0.0.9", "20.1.0.0"), 2);
	ck_assert_int_eq(hop_to("10.0.0.9", "20.1.2.127"), 3);
	ck_assert_int_eq(hop_to("10.0.0.9", "20.1.2.128"), 4);
	ck_assert_int_eq(hop_to("10.0.0.9", "20.1.3.0"), 2);
	ck_assert_int_eq(hop_to("10.0.0.9", "20.1.200.1"), 5);
	ck_assert_int_eq(hop_to("10.0.0.9", "20.1.200.2"), 2);
	ck_assert_int_eq(hop_to("10.0.0.9", "20.2.0.0"), 1);
	ck_assert_int_eq(hop_to("10.0.0.9", "255.255.255.255"), 6);
	ck_assert_int_eq(hop_to("fd00::1", "fd01::1"), -1); /* no route of that family */
}

TEST(lowest_metric_decides)
{
	begin();
	neighbour("fe80::1", 1, HERE);
	neighbour("fe80::2", 2, HERE);
	route("::", 0, MAIN)->metric = 1024;
	via(&routes[0], "fe80::1", HERE);
	route("::", 0, MAIN)->metric = 100;
	via(&routes[1], "fe80::2", HERE);
	ck_assert_int_eq(hop_to("fd00::1", "fd01::1"), 2);
}

TEST(rules_choose_the_table_by_the_source)
{
	begin();
	neighbour("10.0.0.1", 1, HERE);
	neighbour("10.0.0.2", 2, HERE);
	via(route("0.0.0.0", 0, MAIN), "10.0.0.1", HERE);
	via(route("0.0.0.0", 0, OTHER), "10.0.0.2", HERE);
	host.rule_cnt = 0;
	rule("10.0.9.0", 24, OTHER);
	rule("0.0.0.0", 0, MAIN);
	ck_assert_int_eq(hop_to("10.0.9.7", "20.0.0.1"), 2);
	ck_assert_int_eq(hop_to("10.0.8.7", "20.0.0.1"), 1);
	rules[0].suppress = 0; /* "suppress_prefixlength 0": not its default route */
	ck_assert_int_eq(hop_to("10.0.9.7", "20.0.0.1"), 1);
	rules[0] = (struct sl_host_rule){.family = 4, .suppress = -1}; /* not understood */
	ck_assert_int_eq(hop_to("10.0.9.7", "20.0.0.1"), -1);
}

TEST(unreachable_ends_the_search_and_throw_the_table)
{
	begin();
	neighbour("10.0.0.1", 1, HERE);
	host.rule_cnt = 0;
	rule("0.0.0.0", 0, OTHER);
	rule("0.0.0.0", 0, MAIN);
	via(route("0.0.0.0", 0, MAIN), "10.0.0.1", HERE);
	route("20.0.0.0", 8, OTHER);
	route("30.0.0.0", 8, OTHER)->hop = SL_HOST_THROW;
	ck_assert_int_eq(hop_to("10.0.0.9", "20.0.0.1"), -1);
	ck_assert_int_eq(hop_to("10.0.0.9", "30.0.0.1"), 1);
}

TEST(neighbours_are_those_of_the_interface)
{
	begin();
	neighbour("10.0.0.1", 1, THERE);
	via(route("0.0.0.0", 0, MAIN), "10.0.0.1", HERE);
	via(route("10.0.0.0", 24, MAIN), NULL, THERE);
	ck_assert_int_eq(hop_to("10.0.0.9", "20.0.0.1"), 0);
	ck_assert_int_eq(hop_to("10.0.0.9", "10.0.0.1"), 1);
}

TEST(paths_differ_if_another_neighbour_is_the_next_hop)
{
	begin();
	via(route("0.0.0.0", 0, MAIN), "10.0.0.1", HERE);
	ck_assert(differs("20.0.0.1", HERE, SENDER)); /* unresolved: perhaps */
	neighbour("10.0.0.1", 1, HERE);
	ck_assert(differs("20.0.0.1", HERE, SENDER));
	ck_assert(!differs("20.0.0.1", HERE, 1));
	ck_assert(differs("20.0.0.1", THERE, 1));
	ck_assert(!differs("fd01::1", HERE, SENDER)); /* no route */
	/* one of several */
	via(&routes[0], "10.0.0.2", HERE);
	neighbour("10.0.0.2", 2, HERE);
	ck_assert(!differs("20.0.0.1", HERE, 2));
	ck_assert(differs("20.0.0.1", HERE, SENDER));
}

TEST(peers_on_the_link_are_their_own_next_hop)
{
	begin();
	via(route("fd00::", 64, MAIN), NULL, HERE);
	ck_assert(!differs("fd00::2", HERE, SENDER));
	neighbour("fd00::2", 2, HERE);
	ck_assert(!differs("fd00::2", HERE, SENDER)); /* it has got another MAC */
	neighbour("fd00::3", SENDER, HERE);
	ck_assert(differs("fd00::2", HERE, SENDER)); /* relayed by another neighbour */
	ck_assert(!differs("fd00::2", HERE, 2));
}

/* Sends a reply to a packet from pkt_peer_mac. Returns the last byte of its destination. */
static uint8_t answer(struct bed *b)
{
	struct sl_frame *f;
	struct pkt p;

	pkt_build(&p, &(struct pkt_spec){.family = 4, .payload = "x", .payload_len = 1});
	bed_input(b, &p);
	f = sl_frame_get(&b->umem, SL_FRAME_TX, SL_FRAME_HEADROOM);
	f->len = 8;
	memset(f->data, 0, 8);
	ck_assert(sl_net_send(&b->net, f, &b->path, PKT_UDP));
	sl_net_flush(&b->net);
	return sl_fake_sent(&b->port, sl_fake_sent_cnt(&b->port) - 1)->data[5];
}

TEST(replies_go_by_the_route_or_the_way_that_packets_came)
{
	struct bed b;

	begin();
	bed_begin(&b);
	b.port.port.ifindex = HERE;
	via(route("0.0.0.0", 0, MAIN), "10.0.0.1", HERE);
	ck_assert_uint_eq(answer(&b), pkt_peer_mac[5]);
	neighbour("10.0.0.1", 0x88, HERE);
	sl_net_set_routes(&b.net, sl_routes_new(&host));
	ck_assert_uint_eq(answer(&b), 0x88);
	ck_assert(b.path.routed);
	/* not by an interface that is not served */
	hops[0].ifindex = neighbours[0].ifindex = THERE;
	sl_net_set_routes(&b.net, sl_routes_new(&host));
	ck_assert_uint_eq(answer(&b), pkt_peer_mac[5]);
	ck_assert(!b.path.routed);
	bed_end(&b);
}
