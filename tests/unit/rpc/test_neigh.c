/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts to which the kernel knows the way at once, in a network of the test's own. */
#include <arpa/inet.h>
#include <net/if.h>
#include <sched.h>
#include "base/check.h"
#include "netns.h"
#include "rpc/rdma/neigh.h"
#include "suite.h"

static unsigned ifindex;

static void set_up(void)
{
	ck_assert(unshare(CLONE_NEWNET) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0);
	ck_assert_int_eq(
		test_sh("ip link add here type veth peer name there &&"
			"ip address add 192.0.2.1/24 dev here &&"
			"ip address add 2001:db8::1/64 dev here nodad &&"
			"ip link set lo up && ip link set here up && ip link set there up"),
		0);
	/* A worker of the kernel adds the route to an IPv6 address of a link that comes up. */
	ck_assert_int_eq(test_sh("for i in $(seq 1000); do "
				 "ip -6 route show table local | grep -q '2001:db8::1 ' && exit;"
				 "sleep 0.01; done; exit 1"),
			 0);
	ifindex = if_nametoindex("here");
}

FIXTURE(set_up, NULL)

static bool is_near_by(unsigned by, const char *from, const char *to)
{
	uint8_t gids[2][16];

	ck_assert_int_eq(inet_pton(AF_INET6, from, gids[0]), 1);
	ck_assert_int_eq(inet_pton(AF_INET6, to, gids[1]), 1);
	return neigh_resolved_on(by, gids[0], gids[1]);
}

static bool is_near(const char *to)
{
	return is_near_by(ifindex, strncmp(to, "::ffff:", 7) ? "2001:db8::1" : "::ffff:192.0.2.1",
			  to);
}

static const char *const hosts[][2] = {{"192.0.2.2", "::ffff:192.0.2.2"},
				       {"2001:db8::2", "2001:db8::2"}};

static void set_neighbour(const char *host, const char *state)
{
	ck_assert_int_eq(test_sh("ip neighbour replace %s lladdr 02:00:00:00:00:02 dev here nud %s",
				 host, state),
			 0);
}

TEST_EACH(neighbour_entry_is_reachable_until_it_expires, 2)
{
	static const struct {
		const char *state;
		bool is_near;
	} states[] = {{"permanent", true}, {"stale", true},     {"failed", false},
		      {"delay", true},     {"reachable", true}, {"incomplete", false},
		      {"noarp", true}};

	ck_assert(!is_near(hosts[_i][1]));
	for (unsigned i = 0; i < SL_ARRAY_LEN(states); i++) {
		set_neighbour(hosts[_i][0], states[i].state);
		ck_assert_msg(is_near(hosts[_i][1]) == states[i].is_near, "%s", states[i].state);
	}
	ck_assert_int_eq(test_sh("ip neighbour delete %s dev here", hosts[_i][0]), 0);
	ck_assert(!is_near(hosts[_i][1]));
}

/* Not by what is known of an address of that name on this link. */
TEST(a_host_behind_a_router_is_reachable_if_the_router_is)
{
	ck_assert(!is_near("::ffff:198.51.100.7"));
	ck_assert(!is_near("2001:db8:7::7"));
	ck_assert_int_eq(test_sh("ip route add 198.51.100.0/24 via 192.0.2.2 &&"
				 "ip route add 2001:db8:7::/64 via 2001:db8::2"),
			 0);
	set_neighbour("198.51.100.7", "permanent");
	set_neighbour("2001:db8:7::7", "permanent");
	ck_assert(!is_near("::ffff:198.51.100.7"));
	ck_assert(!is_near("2001:db8:7::7"));
	set_neighbour("192.0.2.2", "stale");
	set_neighbour("2001:db8::2", "stale");
	ck_assert(is_near("::ffff:198.51.100.7"));
	ck_assert(is_near("2001:db8:7::7"));
}

TEST(own_addresses_are_resolved)
{
	ck_assert(is_near("::ffff:192.0.2.1"));
	ck_assert(is_near("2001:db8::1"));
}

/* A router with addresses of the other family: as if the neighbour were unknown. */
TEST(a_host_that_cannot_be_resolved_is_not_reachable)
{
	ck_assert_int_eq(test_sh("ip route add 198.51.100.0/24 via inet6 2001:db8::2 dev here"), 0);
	set_neighbour("2001:db8::2", "permanent");
	set_neighbour("198.51.100.7", "permanent");
	ck_assert(!is_near("::ffff:198.51.100.7"));
	set_neighbour("192.0.2.2", "permanent");
	ck_assert(is_near_by(ifindex, "::ffff:192.0.2.1", "::ffff:192.0.2.2"));
	ck_assert(!is_near_by(ifindex, "2001:db8::1", "::ffff:192.0.2.2"));
	ck_assert(!is_near_by(0, "::ffff:192.0.2.1", "::ffff:192.0.2.2"));
	ck_assert(!is_near_by(if_nametoindex("there"), "::ffff:192.0.2.1", "::ffff:192.0.2.2"));
}
