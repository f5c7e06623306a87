/* SPDX-License-Identifier: Apache-2.0 */
/* Floods of netlink events, and answers that are endless or malformed. */
#include <errno.h>
#include <linux/fib_rules.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include "suite.h"
#include "xio/host_route.h"

#define MS  UINT64_C(1000000)
#define SEC (1000 * MS)

enum { ENDLESS = -1, PART = 200 /* messages of a part of an endless answer */ };

/* The fake kernel: `fill` writes an answer. `tail`: bytes behind it, in the same buffer. */
struct part {
	uint8_t bytes[32768];
	size_t len, tail;
};

static struct sl_host_routes routes;
static int (*fill)(struct part *p, uint16_t type, int af);
static uint16_t asked_type;
static int asked_af, parts_sent;
static uint32_t pid;
static uint16_t event; /* type of pending events; 0: none */
static unsigned pending;
static unsigned event_cnt, asked_cnt[RTM_MAX + 1], part_cnt;

ssize_t send(int fd, const void *bytes, size_t len, int flags)
{
	const struct nlmsghdr *nh = bytes;
	const struct rtmsg *body = NLMSG_DATA(nh);

	(void)fd, (void)flags;
	asked_type = nh->nlmsg_type;
	asked_af = body->rtm_family;
	asked_cnt[asked_type]++;
	parts_sent = 0;
	return (ssize_t)len;
}

ssize_t recv(int fd, void *to, size_t len, int flags)
{
	const struct nlmsghdr nh = {.nlmsg_len = 64, .nlmsg_type = event};

	(void)fd, (void)flags;
	if (!pending) {
		errno = EAGAIN;
		return -1;
	}
	event_cnt++;
	pending--;
	memcpy(to, &nh, len < sizeof(nh) ? len : sizeof(nh));
	return (ssize_t)len;
}

static uint8_t *put(struct part *p, const void *bytes, size_t len)
{
	uint8_t *at = p->bytes + p->len;

	memcpy(at, bytes, len);
	p->len += len;
	return at;
}

static void put_attr(struct part *p, uint16_t type, const void *value, uint16_t len)
{
	const struct rtattr rta = {.rta_len = (uint16_t)RTA_LENGTH(len), .rta_type = type};
	const uint8_t zero[3] = {0};

	put(p, &rta, sizeof(rta));
	put(p, value, len);
	put(p, zero, RTA_ALIGN(len) - len);
}

static struct nlmsghdr *begin_message(struct part *p, uint16_t type, const void *body, size_t len)
{
	const struct nlmsghdr nh = {.nlmsg_type = type, .nlmsg_seq = 1};
	uint8_t *at = put(p, &nh, sizeof(nh));

	put(p, body, len);
	return (struct nlmsghdr *)at;
}

static void end_message(struct part *p, struct nlmsghdr *nh)
{
	nh->nlmsg_len = (uint32_t)(p->bytes + p->len - (uint8_t *)nh);
}

static void put_done(struct part *p)
{
	const int zero = 0;

	end_message(p, begin_message(p, NLMSG_DONE, &zero, sizeof(zero)));
}

/* A route to 10.a.b.c by 10.0.0.1 on interface 2. */
static struct nlmsghdr *put_route(struct part *p, uint32_t number, unsigned char type)
{
	const struct rtmsg rt = {.rtm_family = AF_INET,
				 .rtm_dst_len = 32,
				 .rtm_table = RT_TABLE_MAIN,
				 .rtm_type = type};
	const uint8_t gateway[4] = {10, 0, 0, 1};
	const uint32_t dst_be = htobe32(0x0a000000 | number), oif = 2;
	struct nlmsghdr *nh = begin_message(p, RTM_NEWROUTE, &rt, sizeof(rt));

	put_attr(p, RTA_DST, &dst_be, sizeof(dst_be));
	put_attr(p, RTA_OIF, &oif, sizeof(oif));
	put_attr(p, RTA_GATEWAY, gateway, sizeof(gateway));
	end_message(p, nh);
	return nh;
}

static void put_neighbour(struct part *p, uint32_t number)
{
	const struct ndmsg nd = {
		.ndm_family = AF_INET, .ndm_ifindex = 2, .ndm_state = NUD_REACHABLE};
	const uint8_t mac[6] = {2, 0, 0, 0, 0, 1};
	const uint32_t dst_be = htobe32(0x0a000000 | number);
	struct nlmsghdr *nh = begin_message(p, RTM_NEWNEIGH, &nd, sizeof(nd));

	put_attr(p, NDA_DST, &dst_be, sizeof(dst_be));
	put_attr(p, NDA_LLADDR, mac, sizeof(mac));
	end_message(p, nh);
}

static void put_rule(struct part *p)
{
	const struct fib_rule_hdr frh = {
		.family = AF_INET, .table = RT_TABLE_MAIN, .action = FR_ACT_TO_TBL};
	const uint32_t priority = 32766;
	struct nlmsghdr *nh = begin_message(p, RTM_NEWRULE, &frh, sizeof(frh));

	put_attr(p, FRA_PRIORITY, &priority, sizeof(priority));
	end_message(p, nh);
}

ssize_t recvfrom(int fd, void *restrict to, size_t len, int flags, struct sockaddr *restrict from,
		 socklen_t *restrict from_len)
{
	const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK, .nl_pid = pid};
	static struct part p;
	int cnt;

	(void)fd, (void)flags;
	part_cnt++;
	memset(&p, 0, sizeof(p));
	cnt = fill(&p, asked_type, asked_af);
	if (cnt != ENDLESS && !p.len)
		put_done(&p);
	parts_sent++;
	if (from) {
		memcpy(from, &kernel, sizeof(kernel));
		*from_len = sizeof(kernel);
	}
	memcpy(to, p.bytes, p.len + p.tail < len ? p.len + p.tail : len);
	return (ssize_t)p.len;
}

/* A rule, a route and a neighbour of IPv4. */
static int fill_small(struct part *p, uint16_t type, int af)
{
	if (af != AF_INET || parts_sent)
		return 0;
	if (type == RTM_GETRULE)
		put_rule(p);
	else if (type == RTM_GETROUTE)
		put_route(p, 1, RTN_UNICAST);
	else
		put_neighbour(p, 1);
	put_done(p);
	return 0;
}

static int fill_endlessly(struct part *p, uint16_t type, int af)
{
	if (type == RTM_GETRULE)
		return fill_small(p, type, af);
	for (uint32_t i = 0; i < PART; i++) {
		if (type == RTM_GETROUTE)
			put_route(p, (uint32_t)parts_sent * PART + i, RTN_UNICAST);
		else
			put_neighbour(p, (uint32_t)parts_sent * PART + i);
	}
	return ENDLESS;
}

static int fill_with_local_routes(struct part *p, uint16_t type, int af)
{
	if (type != RTM_GETROUTE)
		return fill_small(p, type, af);
	for (uint32_t i = 0; i < PART; i++)
		put_route(p, i, RTN_LOCAL);
	return ENDLESS;
}

static int absent_af;

static int fill_without_a_family(struct part *p, uint16_t type, int af)
{
	const struct nlmsgerr e = {.error = -EAFNOSUPPORT};

	if (af == absent_af)
		end_message(p, begin_message(p, NLMSG_ERROR, &e, sizeof(e)));
	else
		fill_small(p, type, AF_INET);
	return 0;
}

static void open_with(int (*answer)(struct part *p, uint16_t type, int af))
{
	struct sl_err err = SL_ERR(160);

	fill = answer;
	ck_assert_int_eq(sl_host_routes_open(&routes, &err), 0);
	memset(asked_cnt, 0, sizeof(asked_cnt));
	part_cnt = 0;
}

/* Polls each millisecond from `from` to `to`, with an event of the type before each poll. */
static void flood(uint16_t type, uint64_t from, uint64_t to)
{
	event = type;
	for (uint64_t now = from; now < to; now += MS) {
		pending = 1;
		sl_host_routes_poll(&routes, now);
	}
}

static void close_routes(void)
{
	sl_host_routes_close(&routes);
}

FIXTURE(NULL, close_routes)

TEST(neighbours_are_read_ten_times_a_second_in_a_flood_of_changes)
{
	open_with(fill_small);
	ck_assert_uint_eq(routes.neighbour_cnt, 1);
	flood(RTM_NEWNEIGH, SEC, 2 * SEC);
	ck_assert_uint_eq(asked_cnt[RTM_GETNEIGH], 2 * 10); /* two families */
	ck_assert_uint_eq(asked_cnt[RTM_GETROUTE], 0);
}

TEST(routes_are_read_once_a_second_in_a_flood_of_changes)
{
	open_with(fill_small);
	ck_assert_uint_eq(routes.route_cnt, 1);
	ck_assert_uint_eq(routes.rule_cnt, 1);
	flood(RTM_NEWROUTE, SEC, 4 * SEC);
	ck_assert_uint_eq(asked_cnt[RTM_GETROUTE], 2 * 3);
	ck_assert_uint_eq(asked_cnt[RTM_GETRULE], 2 * 3);
}

/* The other family's objects are read. */
TEST_EACH(a_host_may_lack_a_family, 2)
{
	absent_af = _i ? AF_INET6 : AF_INET;
	open_with(fill_without_a_family);
	ck_assert_uint_eq(routes.rule_cnt, 1);
	ck_assert_uint_eq(routes.route_cnt, 1);
	ck_assert_uint_eq(routes.neighbour_cnt, 1);
}

TEST(a_poll_reads_a_bounded_number_of_events)
{
	open_with(fill_small);
	event = RTM_NEWNEIGH;
	pending = 5000;
	event_cnt = 0;
	sl_host_routes_poll(&routes, SEC);
	ck_assert_uint_eq(event_cnt, 1024);
}

TEST(very_many_routes_are_read_in_part_and_once_a_minute)
{
	open_with(fill_endlessly);
	ck_assert(routes.too_many);
	ck_assert_uint_eq(routes.route_cnt, 0);
	flood(RTM_NEWROUTE, SEC, SEC + MS);
	ck_assert_uint_eq(asked_cnt[RTM_GETROUTE], 1);
	ck_assert_uint_le(part_cnt, SL_HOST_ROUTES_MAX / PART + SL_HOST_NEIGHBOURS_MAX / PART + 10);
	flood(RTM_NEWROUTE, SEC + MS, 50 * SEC);
	ck_assert_uint_eq(asked_cnt[RTM_GETROUTE], 1);
	fill = fill_small;
	flood(RTM_NEWROUTE, 61 * SEC, 61 * SEC + MS);
	ck_assert(!routes.too_many);
	ck_assert_uint_eq(routes.route_cnt, 1);
}

TEST(very_many_neighbours_are_read_in_part)
{
	open_with(fill_endlessly);
	ck_assert_uint_eq(routes.neighbour_cnt, SL_HOST_NEIGHBOURS_MAX);
	flood(RTM_NEWNEIGH, SEC, SEC + MS);
	ck_assert_uint_le(part_cnt, SL_HOST_NEIGHBOURS_MAX / PART + 1);
}

TEST(an_endless_answer_of_other_routes_ends)
{
	open_with(fill_with_local_routes);
	ck_assert(routes.too_many);
}

/* Behind the end of the answer, in the same buffer, lies another route. */
static int fill_unpadded(struct part *p, uint16_t type, int af)
{
	struct nlmsghdr *nh;
	size_t len;

	if (type != RTM_GETROUTE || af != AF_INET || parts_sent)
		return fill_small(p, type, af);
	nh = put_route(p, 1, RTN_UNICAST);
	nh->nlmsg_len -= 3; /* and so the gateway's attribute is too long */
	len = p->len - 3;
	put_route(p, 2, RTN_UNICAST);
	p->tail = p->len - len;
	p->len = len;
	return ENDLESS;
}

TEST(nothing_behind_the_end_of_an_answer_is_read)
{
	open_with(fill_unpadded);
	ck_assert_uint_eq(routes.route_cnt, 1);
	ck_assert_uint_eq(routes.hop_cnt, 1);
	ck_assert_uint_eq(routes.hops[0].family, 0);
}

/* The last attribute is one byte long and has no padding; behind it lies a gateway. */
static int fill_unpadded_attr(struct part *p, uint16_t type, int af)
{
	const uint8_t gateway[4] = {10, 0, 0, 1};
	const struct rtattr last = {.rta_len = sizeof(last) + 1, .rta_type = RTA_PREF};
	const struct rtmsg rt = {
		.rtm_family = AF_INET, .rtm_table = RT_TABLE_MAIN, .rtm_type = RTN_UNICAST};
	const uint32_t oif = 2;
	struct nlmsghdr *nh;

	if (type != RTM_GETROUTE || af != AF_INET || parts_sent)
		return fill_small(p, type, af);
	nh = begin_message(p, RTM_NEWROUTE, &rt, sizeof(rt));
	put_attr(p, RTA_OIF, &oif, sizeof(oif));
	put(p, &last, sizeof(last));
	put(p, "x", 1);
	end_message(p, nh);
	p->len += 3;
	put_attr(p, RTA_GATEWAY, gateway, sizeof(gateway));
	p->tail = sizeof(struct rtattr) + 4 + 3;
	p->len -= p->tail;
	return ENDLESS;
}

TEST(nothing_behind_the_last_attribute_is_read)
{
	open_with(fill_unpadded_attr);
	ck_assert_uint_eq(routes.hop_cnt, 1);
	ck_assert_uint_eq(routes.hops[0].family, 0);
}

static int fill_long_prefixes(struct part *p, uint16_t type, int af)
{
	if (fill_small(p, type, af) == 0 && p->len && type == RTM_GETROUTE)
		((struct rtmsg *)NLMSG_DATA(p->bytes))->rtm_dst_len = 33;
	if (p->len && type == RTM_GETRULE)
		((struct fib_rule_hdr *)NLMSG_DATA(p->bytes))->src_len = 129;
	return 0;
}

TEST(prefixes_longer_than_the_address_are_ignored)
{
	open_with(fill_long_prefixes);
	ck_assert_uint_eq(routes.route_cnt, 0);
	ck_assert_uint_eq(routes.rule_cnt, 0);
}

TEST(answers_of_other_processes_are_ignored)
{
	pid = 4711;
	open_with(fill_small);
	ck_assert_uint_eq(routes.rule_cnt + routes.route_cnt + routes.neighbour_cnt, 0);
	ck_assert(routes.too_many); /* no answer of the kernel */
}

static uint32_t next_random(void)
{
	static uint32_t state = 1;

	state = state * 1664525u + 1013904223u;
	return state >> 8;
}

static int fill_at_random(struct part *p, uint16_t type, int af)
{
	(void)af;
	if (parts_sent)
		return 0;
	for (uint32_t i = 0; i < 8; i++) {
		if (type == RTM_GETRULE)
			put_rule(p);
		else if (type == RTM_GETROUTE)
			put_route(p, i, RTN_UNICAST);
		else
			put_neighbour(p, i);
	}
	put_done(p);
	for (uint32_t n = next_random() % 16; n; n--)
		p->bytes[next_random() % p->len] = (uint8_t)next_random();
	p->len -= next_random() % 8;
	return 0;
}

TEST(malformed_answers_leave_consistent_lists)
{
	open_with(fill_small);
	fill = fill_at_random;
	for (unsigned i = 1; i < 2000; i++) {
		event = i % 2 ? RTM_NEWNEIGH : RTM_NEWROUTE;
		pending = 1;
		sl_host_routes_poll(&routes, i * 61 * SEC);
		for (uint32_t k = 0; k < routes.route_cnt; k++) {
			const struct sl_host_route *r = &routes.routes[k];

			ck_assert_uint_le(r->len, r->family == 4 ? 32 : 128);
			if (r->hop != SL_HOST_THROW)
				ck_assert_uint_le(r->hop + r->hop_cnt, routes.hop_cnt);
		}
	}
}
