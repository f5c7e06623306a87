/* SPDX-License-Identifier: Apache-2.0 */
/* rx.c: what gets through, and the name of every refusal. */
#include "net_bed.h"
#include "suite.h"

typedef void damage_fn(struct pkt *p);

struct rx_case {
	const char *what;
	struct pkt_spec spec;
	damage_fn *damage;
	enum sl_drop drop; /* SL_DROP_CNT: must get through */
};

#define PASSES SL_DROP_CNT

static void cut_eth(struct pkt *p)
{
	p->len = 13;
}

static void empty(struct pkt *p)
{
	p->len = 0;
}

static void cut_vlan(struct pkt *p)
{
	p->len = 16;
}

static void cut_second_vlan(struct pkt *p)
{
	p->len = 21;
}

static void third_vlan(struct pkt *p)
{
	static const uint8_t tag[] = {0x81, 0, 0, 9};

	pkt_insert(p, 12, tag, 4);
}

static void type_arp(struct pkt *p)
{
	sl_put_be16(p->b + p->l3 - 2, 0x0806);
}

static void dst_multicast(struct pkt *p)
{
	p->b[0] |= 1;
}

static void dst_broadcast(struct pkt *p)
{
	memset(p->b, 0xff, 6);
}

static void src_multicast(struct pkt *p)
{
	p->b[6] |= 1;
}

static void src_zero(struct pkt *p)
{
	memset(p->b + 6, 0, 6);
}

static void src_own(struct pkt *p)
{
	memcpy(p->b + 6, pkt_our_mac, 6);
}

static void cut_ip(struct pkt *p)
{
	p->len = p->l3 + (p->family == 4 ? 19 : 39);
}

static void wrong_version(struct pkt *p)
{
	p->b[p->l3] = (uint8_t)((p->b[p->l3] & 15) | 5 << 4);
	if (p->family == 4)
		pkt_fix_ip4_csum(p);
}

static void type_of_other_family(struct pkt *p)
{
	sl_put_be16(p->b + p->l3 - 2, p->family == 4 ? 0x86dd : 0x0800);
}

static void ihl_4(struct pkt *p)
{
	p->b[p->l3] = 0x44;
	pkt_fix_ip4_csum(p);
}

static void ihl_over_total(struct pkt *p)
{
	p->b[p->l3] = 0x4f;
	sl_put_be16(p->b + p->l3 + 2, 40);
	pkt_fix_ip4_csum(p);
}

static void total_under_header(struct pkt *p)
{
	sl_put_be16(p->b + p->l3 + 2, 19);
	pkt_fix_ip4_csum(p);
}

static void length_over_frame(struct pkt *p)
{
	uint8_t *field = p->b + p->l3 + (p->family == 4 ? 2 : 4);

	sl_put_be16(field, (uint16_t)(sl_get_be16(field) + 1));
	if (p->family == 4)
		pkt_fix_ip4_csum(p);
}

static void ip_csum_off_by_one(struct pkt *p)
{
	p->b[p->l3 + 11] ^= 1;
}

static void ttl_changed(struct pkt *p)
{
	p->b[p->l3 + 8]--;
}

static void more_fragments(struct pkt *p)
{
	p->b[p->l3 + 6] = 0x20;
	pkt_fix_ip4_csum(p);
}

static void later_fragment(struct pkt *p)
{
	sl_put_be16(p->b + p->l3 + 6, 1);
	pkt_fix_ip4_csum(p);
}

static void src4(struct pkt *p, const uint8_t *addr)
{
	memcpy(p->b + p->l3 + 12, addr, 4);
	pkt_fix_ip4_csum(p);
	pkt_fix_l4(p);
}

#define SRC4(name, ...)                                                                            \
	static void name(struct pkt *p)                                                            \
	{                                                                                          \
		src4(p, (const uint8_t[]){__VA_ARGS__});                                           \
	}
SRC4(src4_zero, 0, 0, 0, 0)
SRC4(src4_this_net, 0, 1, 2, 3)
SRC4(src4_loopback, 127, 0, 0, 1)
SRC4(src4_multicast, 224, 0, 0, 1)
SRC4(src4_reserved, 240, 0, 0, 1)
SRC4(src4_broadcast, 255, 255, 255, 255)
SRC4(src4_ours, 192, 0, 2, 1)

static void src6_unspecified(struct pkt *p)
{
	memset(p->b + p->l3 + 8, 0, 16);
}

static void src6_loopback(struct pkt *p)
{
	memset(p->b + p->l3 + 8, 0, 16);
	p->b[p->l3 + 8 + 15] = 1;
}

static void src6_multicast(struct pkt *p)
{
	p->b[p->l3 + 8] = 0xff;
}

static void src6_ours(struct pkt *p)
{
	memcpy(p->b + p->l3 + 8, pkt_our_ip6, 16);
}

static void protocol_gre(struct pkt *p)
{
	p->b[p->l3 + (p->family == 4 ? 9 : 6)] = 47;
	if (p->family == 4)
		pkt_fix_ip4_csum(p);
}

static void icmp_of_other_family(struct pkt *p)
{
	p->b[p->l3 + (p->family == 4 ? 9 : 6)] = p->family == 4 ? PKT_ICMP6 : PKT_ICMP;
	if (p->family == 4)
		pkt_fix_ip4_csum(p);
}

static void source_route(struct pkt *p)
{
	static const uint8_t options[12] = {1, 131, 7, 4, 10, 0, 0, 9};

	pkt_insert(p, p->l4, options, sizeof(options));
	p->b[p->l3] = 0x48;
	pkt_fix_ip4_csum(p);
}

static void option_beyond_header(struct pkt *p)
{
	static const uint8_t options[4] = {1, 1, 7, 3};

	pkt_insert(p, p->l4, options, sizeof(options));
	p->b[p->l3] = 0x46;
	pkt_fix_ip4_csum(p);
}

static void options4(struct pkt *p)
{
	static const uint8_t options[40] = {7, 39, 4}; /* record route */

	pkt_insert(p, p->l4, options, 40);
	p->l4 += 40;
	p->b[p->l3] = 0x4f;
	pkt_fix_ip(p);
}

static void padding(struct pkt *p)
{
	memset(p->b + p->len, 0xee, 6);
	p->len += 6;
}

/* Extension headers of 8 bytes each in front of L4, each pointing to the next. */
static void extend(struct pkt *p, const uint8_t *kinds, size_t cnt)
{
	uint8_t next = p->protocol;

	for (size_t i = cnt; i-- > 0;) {
		const uint8_t ext[8] = {next, 0, 1, 0};

		pkt_insert(p, p->l3 + 40, ext, 8);
		p->l4 += 8;
		next = kinds[i];
	}
	p->b[p->l3 + 6] = next;
	pkt_fix_ip(p);
}

#define EXTEND(name, ...)                                                                          \
	static void name(struct pkt *p)                                                            \
	{                                                                                          \
		const uint8_t kinds[] = {__VA_ARGS__};                                             \
		extend(p, kinds, sizeof(kinds));                                                   \
	}
EXTEND(hop_routing_dest, 0, 43, 60)
EXTEND(eight_extensions, 0, 60, 60, 60, 60, 60, 60, 60)
EXTEND(nine_extensions, 0, 60, 60, 60, 60, 60, 60, 60, 60)
EXTEND(hop_not_first, 60, 0)
EXTEND(one_dest, 60)

static void extension_over_packet(struct pkt *p)
{
	one_dest(p);
	p->b[p->l3 + 41] = 200;
}

static void extension_cut(struct pkt *p)
{
	one_dest(p);
	p->len = p->l3 + 44;
	pkt_fix_ip(p);
}

static void segments_left(struct pkt *p)
{
	one_dest(p);
	p->b[p->l3 + 6] = 43;
	p->b[p->l3 + 43] = 1;
}

static void fragment6(struct pkt *p)
{
	one_dest(p);
	p->b[p->l3 + 6] = 44;
	sl_put_be16(p->b + p->l3 + 42, 0x0001);
}

static void no_next_header(struct pkt *p)
{
	p->b[p->l3 + 6] = 59;
}

#define V6    .family = 6
#define TCP   .protocol = PKT_TCP
#define VLAN1 .vlan_cnt = 1
#define VLAN2 .vlan_cnt = 2

static const struct rx_case cases[] = {
	{"udp over ipv4", {0}, NULL, PASSES},
	{"tcp over ipv4", {TCP}, NULL, PASSES},
	{"udp over ipv6", {V6}, NULL, PASSES},
	{"tcp over ipv6", {V6, TCP}, NULL, PASSES},
	{"one tag", {VLAN1}, NULL, PASSES},
	{"two tags", {VLAN2}, NULL, PASSES},
	{"two tags over ipv6", {VLAN2, V6, TCP}, NULL, PASSES},
	{"40 bytes of ip options", {TCP}, options4, PASSES},
	{"ethernet padding", {0}, padding, PASSES},
	{"ethernet padding, ipv6", {V6}, padding, PASSES},
	{"three extension headers", {V6, TCP}, hop_routing_dest, PASSES},
	{"eight extension headers", {V6}, eight_extensions, PASSES},
	{"empty frame", {0}, empty, SL_DROP_ETH_TRUNCATED},
	{"13 bytes", {0}, cut_eth, SL_DROP_ETH_TRUNCATED},
	{"tag cut", {VLAN1}, cut_vlan, SL_DROP_ETH_TRUNCATED},
	{"second tag cut", {VLAN2}, cut_second_vlan, SL_DROP_ETH_TRUNCATED},
	{"three tags", {VLAN2}, third_vlan, SL_DROP_ETH_TYPE},
	{"arp", {0}, type_arp, SL_DROP_ETH_TYPE},
	{"to a group", {0}, dst_multicast, SL_DROP_ETH_ADDRESS},
	{"to all", {0}, dst_broadcast, SL_DROP_ETH_ADDRESS},
	{"from a group", {0}, src_multicast, SL_DROP_ETH_ADDRESS},
	{"from nobody", {0}, src_zero, SL_DROP_ETH_ADDRESS},
	{"from our own mac", {0}, src_own, SL_DROP_ETH_ADDRESS},
	{"ipv4 header cut", {0}, cut_ip, SL_DROP_IP_HEADER},
	{"ipv6 header cut", {V6}, cut_ip, SL_DROP_IP_HEADER},
	{"version 5", {0}, wrong_version, SL_DROP_IP_HEADER},
	{"version 5 as ipv6", {V6}, wrong_version, SL_DROP_IP_HEADER},
	{"ipv4 in an ipv6 frame", {0}, type_of_other_family, SL_DROP_IP_HEADER},
	{"ipv6 in an ipv4 frame", {V6}, type_of_other_family, SL_DROP_IP_HEADER},
	{"ihl 4", {0}, ihl_4, SL_DROP_IP_HEADER},
	{"ihl over total length", {TCP}, ihl_over_total, SL_DROP_IP_HEADER},
	{"total length 19", {0}, total_under_header, SL_DROP_IP_HEADER},
	{"ipv4 length over frame", {0}, length_over_frame, SL_DROP_IP_LENGTH},
	{"ipv6 length over frame", {V6}, length_over_frame, SL_DROP_IP_LENGTH},
	{"extension over packet", {V6}, extension_over_packet, SL_DROP_IP_LENGTH},
	{"extension cut", {V6}, extension_cut, SL_DROP_IP_LENGTH},
	{"checksum off by one", {0}, ip_csum_off_by_one, SL_DROP_IP_CHECKSUM},
	{"ttl changed", {0}, ttl_changed, SL_DROP_IP_CHECKSUM},
	{"first fragment", {0}, more_fragments, SL_DROP_IP_FRAGMENT},
	{"later fragment", {0}, later_fragment, SL_DROP_IP_FRAGMENT},
	{"ipv6 fragment", {V6}, fragment6, SL_DROP_IP_FRAGMENT},
	{"source route", {TCP}, source_route, SL_DROP_IP_SOURCE_ROUTE},
	{"ip option beyond the header", {0}, option_beyond_header, SL_DROP_IP_HEADER},
	{"from 0.0.0.0", {0}, src4_zero, SL_DROP_IP_SOURCE},
	{"from 0/8", {0}, src4_this_net, SL_DROP_IP_SOURCE},
	{"from loopback", {0}, src4_loopback, SL_DROP_IP_SOURCE},
	{"from multicast", {0}, src4_multicast, SL_DROP_IP_SOURCE},
	{"from class e", {0}, src4_reserved, SL_DROP_IP_SOURCE},
	{"from broadcast", {0}, src4_broadcast, SL_DROP_IP_SOURCE},
	{"from ourselves", {TCP}, src4_ours, SL_DROP_IP_SOURCE},
	{"from ::", {V6}, src6_unspecified, SL_DROP_IP_SOURCE},
	{"from ::1", {V6}, src6_loopback, SL_DROP_IP_SOURCE},
	{"from ff00::/8", {V6}, src6_multicast, SL_DROP_IP_SOURCE},
	{"from ourselves, ipv6", {V6, TCP}, src6_ours, SL_DROP_IP_SOURCE},
	{"gre", {0}, protocol_gre, SL_DROP_IP_PROTOCOL},
	{"gre over ipv6", {V6}, protocol_gre, SL_DROP_IP_PROTOCOL},
	{"icmpv6 over ipv4", {0}, icmp_of_other_family, SL_DROP_IP_PROTOCOL},
	{"icmp over ipv6", {V6}, icmp_of_other_family, SL_DROP_IP_PROTOCOL},
	{"no next header", {V6}, no_next_header, SL_DROP_IP_PROTOCOL},
	{"nine extension headers", {V6}, nine_extensions, SL_DROP_IP6_EXTENSION},
	{"hop-by-hop not first", {V6}, hop_not_first, SL_DROP_IP6_EXTENSION},
	{"segments left", {V6}, segments_left, SL_DROP_IP6_EXTENSION},
};

static void check_passed(const struct bed *b, const struct rx_case *c, const struct pkt *valid)
{
	bool tcp = valid->protocol == PKT_TCP;
	size_t l4_len = valid->len - valid->l4;

	ck_assert_msg(bed_drops(b) == 0, "%s: dropped", c->what);
	ck_assert_msg(b->tcp_cnt == tcp && b->udp_cnt == !tcp, "%s: not delivered", c->what);
	ck_assert_msg(b->len == l4_len, "%s: %zu bytes for %zu", c->what, b->len, l4_len);
	ck_assert_mem_eq(b->data, valid->b + valid->l4, l4_len);
	ck_assert_uint_eq(b->family, valid->family);
	ck_assert_mem_eq(b->path.local, valid->family == 4 ? pkt_our_ip4 : pkt_our_ip6, 16);
	ck_assert_mem_eq(b->path.remote, valid->family == 4 ? pkt_peer_ip4 : pkt_peer_ip6, 16);
	ck_assert_mem_eq(b->path.mac, pkt_peer_mac, 6);
	ck_assert_uint_eq(b->path.vlan_cnt, c->spec.vlan_cnt);
	if (c->spec.vlan_cnt)
		ck_assert_uint_eq(b->path.vlan[c->spec.vlan_cnt - 1], PKT_VLAN_INNER);
	if (c->spec.vlan_cnt == 2)
		ck_assert_uint_eq(b->path.vlan[0], PKT_VLAN_OUTER);
	ck_assert_uint_eq(b->path.vlan_ad, c->spec.vlan_cnt == 2);
	if (!tcp) /* no flows, no key (bed_take) */
		return;
	ck_assert_uint_eq(be16toh(b->key.local_port_be), PKT_OUR_PORT);
	ck_assert_uint_eq(be16toh(b->key.remote_port_be), PKT_PEER_PORT);
	ck_assert_mem_eq(b->key.local, b->path.local, 16);
	ck_assert_mem_eq(b->key.remote, b->path.remote, 16);
}

TEST_EACH(each_check_has_its_name, SL_ARRAY_LEN(cases))
{
	const struct rx_case *c = &cases[_i];
	struct pkt_spec spec = c->spec;
	struct pkt p, valid;
	struct bed b;

	spec.payload = "0123456789abcdef";
	spec.payload_len = 16;
	bed_begin(&b);
	pkt_build(&p, &spec);
	valid = p;
	if (c->damage)
		c->damage(&p);
	bed_input(&b, &p);
	if (c->drop == PASSES) {
		check_passed(&b, c, &valid);
	} else {
		ck_assert_msg(b.net.drops[c->drop] == 1, "%s: not dropped as expected", c->what);
		ck_assert_msg(bed_drops(&b) == 1, "%s: dropped twice", c->what);
		ck_assert_uint_eq(b.tcp_cnt + b.udp_cnt + b.icmp_cnt, 0);
	}
	bed_end(&b);
}

/* Every prefix is refused, whatever a frame used before has left behind its end. */
TEST(no_prefix_of_a_packet_gets_through)
{
	static const struct pkt_spec specs[] = {{VLAN2, TCP}, {VLAN2, V6, TCP}, {V6}, {0}};
	struct bed b;

	bed_begin(&b);
	for (size_t i = 0; i < SL_ARRAY_LEN(specs); i++) {
		struct pkt p;

		pkt_build(&p, &specs[i]);
		if (specs[i].family == 6)
			hop_routing_dest(&p);
		for (size_t len = 0; len < p.len; len++) {
			struct sl_frame *f;
			uint64_t before = bed_drops(&b);

			/*
			 * The last frame of the area; with ASan the bytes behind len are poisoned.
			 */
			ck_assert(sl_fake_inject(&b.port, p.b, len, 0));
			f = b.port.rx[(b.port.rx_head - 1) % SL_FAKE_RING];
			memcpy(f->data, p.b, p.len);
			bed_run(&b);
			ck_assert_uint_eq(bed_drops(&b), before + 1);
		}
	}
	ck_assert_uint_eq(b.tcp_cnt + b.udp_cnt, 0);
	bed_end(&b);
}

TEST(a_burst_keeps_its_order_and_loses_only_the_bad)
{
	struct pkt p;
	struct bed b;

	bed_begin(&b);
	for (uint16_t i = 0; i < 200; i++) {
		pkt_build(&p, &(struct pkt_spec){TCP, .sport = (uint16_t)(1000 + i)});
		if (i % 3 == 0)
			ip_csum_off_by_one(&p);
		ck_assert(sl_fake_inject(&b.port, p.b, p.len, i));
	}
	bed_run(&b);
	ck_assert_uint_eq(b.net.drops[SL_DROP_IP_CHECKSUM], 67);
	ck_assert_uint_eq(b.tcp_cnt, 133);
	ck_assert_uint_eq(be16toh(b.key.remote_port_be), 1199);
	bed_end(&b);
}

TEST(more_than_a_burst_at_once)
{
	struct sl_frame *frames[3 * SL_BURST];
	struct pkt p;
	struct bed b;

	bed_begin(&b);
	pkt_build(&p, &(struct pkt_spec){0});
	for (unsigned i = 0; i < 3 * SL_BURST; i++)
		ck_assert(sl_fake_inject(&b.port, p.b, p.len, i));
	ck_assert_uint_eq(b.port.port.ops->rx_burst(&b.port.port, frames, 3 * SL_BURST - 1, 12345),
			  3 * SL_BURST - 1);
	sl_net_input(&b.net, frames, 3 * SL_BURST - 1, 12345);
	ck_assert_uint_eq(b.udp_cnt, 3 * SL_BURST - 1);
	bed_end(&b);
}

/* A port may have used the flags for itself. */
TEST(flags_are_nets_own)
{
	struct pkt p;
	struct bed b;

	bed_begin(&b);
	pkt_build(&p, &(struct pkt_spec){0});
	ck_assert(sl_fake_inject(&b.port, p.b, p.len, 0));
	b.port.rx[b.port.rx_tail % SL_FAKE_RING]->flags = SL_NET_HANDED_OVER;
	bed_run(&b);
	ck_assert_uint_eq(b.udp_cnt, 1);
	ck_assert_uint_eq(b.flags, 0);
	bed_end(&b);
}

TEST(without_an_l4_there_is_no_listener)
{
	struct pkt p;
	struct bed b;

	bed_begin(&b);
	b.net.udp = (struct sl_l4){0};
	pkt_build(&p, &(struct pkt_spec){0});
	bed_input(&b, &p);
	ck_assert_uint_eq(b.net.drops[SL_DROP_NO_LISTENER], 1);
	bed_end(&b);
}

/* Partial checksums: the bare pseudo-header sum, and only where the port says so. */
TEST(partial_checksums_pass_on_marked_ports_only)
{
	static const struct pkt_spec specs[] = {{TCP}, {V6, TCP}, {0}, {V6}};

	for (size_t i = 0; i < SL_ARRAY_LEN(specs); i++) {
		uint16_t off = specs[i].protocol == PKT_TCP ? 16 : 6;
		struct pkt p;
		struct bed b;

		bed_begin(&b);
		b.keep = true;
		pkt_build(&p, &specs[i]);
		bed_input(&b, &p);
		ck_assert(sl_net_l4_csum_ok(&b.net, b.kept, p.protocol, off));
		b.kept->data[b.kept->len - 1] ^= 1;
		ck_assert(!sl_net_l4_csum_ok(&b.net, b.kept, p.protocol, off));
		sl_frame_put(&b.umem, b.kept);

		pkt_partial_l4(&p);
		bed_input(&b, &p);
		ck_assert(!sl_net_l4_csum_ok(&b.net, b.kept, p.protocol, off));
		b.port.port.partial_csum = true;
		ck_assert(sl_net_l4_csum_ok(&b.net, b.kept, p.protocol, off));
		b.kept->data[off] ^= 0x10;
		ck_assert(!sl_net_l4_csum_ok(&b.net, b.kept, p.protocol, off));
		sl_frame_put(&b.umem, b.kept);
		bed_end(&b);
	}
}

/* Routers of one vendor, and interfaces whose MACs are made of another MAC, differ in a bit. */
TEST(senders_differ_in_each_bit_of_the_mac_and_in_the_port)
{
	const uint32_t sender = sl_net_sender(pkt_peer_mac, 0);

	for (unsigned bit = 0; bit < 48; bit++) {
		uint8_t mac[6];

		memcpy(mac, pkt_peer_mac, sizeof(mac));
		mac[bit / 8] ^= (uint8_t)(1U << bit % 8);
		ck_assert_uint_ne(sl_net_sender(mac, 0), sender);
	}
	for (unsigned port = 1; port < SL_MAX_PORTS; port++)
		ck_assert_uint_ne(sl_net_sender(pkt_peer_mac, (uint8_t)port), sender);
}
