/* SPDX-License-Identifier: Apache-2.0 */
#include "sock/reserve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <unistd.h>

#include "suite.h"

static const struct {
	const char *addr;
	uint8_t protocol;
} places[] = {
	{"127.0.0.1", IPPROTO_TCP}, {"0.0.0.0", IPPROTO_TCP},   {"::1", IPPROTO_TCP},
	{"::", IPPROTO_TCP},        {"127.0.0.1", IPPROTO_UDP}, {"0.0.0.0", IPPROTO_UDP},
	{"::1", IPPROTO_UDP},       {"::", IPPROTO_UDP},
};

static struct sl_addr addr_of(int fd)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	struct sl_addr a;

	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&ss, &len), 0);
	ck_assert(sl_addr_from_sockaddr(&a, (const struct sockaddr *)&ss));
	return a;
}

/* Reserves a free port of an address. The kernel treats a port that it has chosen as not bound. */
static int reserve_any(const char *addr, uint8_t protocol)
{
	struct sl_addr a;
	int fd;

	ck_assert(sl_addr_parse(&a, addr));
	fd = sl_sock_reserve(&a, protocol);
	ck_assert_int_ge(fd, 0);
	a = addr_of(fd);
	close(fd);
	fd = sl_sock_reserve(&a, protocol);
	ck_assert_int_ge(fd, 0);
	return fd;
}

/* Binds as a server does. Returns the errno. */
static int bind_error(const struct sl_addr *a, uint8_t protocol)
{
	struct sockaddr_storage ss;
	socklen_t len = sl_addr_to_sockaddr(a, &ss);
	int one = 1, rc;
	int fd = socket(a->family == 4 ? AF_INET : AF_INET6,
			protocol == IPPROTO_TCP ? SOCK_STREAM : SOCK_DGRAM, 0);

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	rc = bind(fd, (struct sockaddr *)&ss, len) ? errno : 0;
	close(fd);
	return rc;
}

static int connect_to(const struct sl_addr *a)
{
	struct sockaddr_storage ss;
	socklen_t len = sl_addr_to_sockaddr(a, &ss);
	int fd = socket(a->family == 4 ? AF_INET : AF_INET6, SOCK_STREAM, 0);

	if (connect(fd, (struct sockaddr *)&ss, len) == 0)
		return fd;
	close(fd);
	return -errno;
}

TEST(a_second_server_gets_address_in_use)
{
	for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		int fd = reserve_any(places[i].addr, places[i].protocol);
		struct sl_addr a = addr_of(fd);

		ck_assert_int_eq(bind_error(&a, places[i].protocol), EADDRINUSE);
		ck_assert_int_eq(sl_sock_reserve(&a, places[i].protocol), -EADDRINUSE);
		close(fd);
		ck_assert_int_eq(bind_error(&a, places[i].protocol), 0);
	}
}

TEST(a_reserved_port_refuses_until_it_listens)
{
	int fd = reserve_any("127.0.0.1", IPPROTO_TCP), client, server;
	struct sl_addr a = addr_of(fd);

	for (int round = 0; round < 2; round++) {
		ck_assert_int_eq(connect_to(&a), -ECONNREFUSED);
		ck_assert_int_eq(sl_sock_listen(fd), 0);
		ck_assert_int_eq(bind_error(&a, IPPROTO_TCP), EADDRINUSE);
		client = connect_to(&a);
		ck_assert_int_ge(client, 0);
		server = accept(fd, NULL, NULL);
		ck_assert_int_ge(server, 0);
		close(server); /* TIME-WAIT of the served port */
		close(client);
		ck_assert_int_eq(sl_sock_unlisten(fd), 0);
		ck_assert_int_eq(bind_error(&a, IPPROTO_TCP), EADDRINUSE);
	}
	close(fd);
	fd = sl_sock_reserve(&a, IPPROTO_TCP); /* beside TIME-WAIT */
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(bind_error(&a, IPPROTO_TCP), EADDRINUSE);
	close(fd);
}

TEST(an_address_that_the_host_does_not_have_is_reserved)
{
	struct sl_addr a;
	int fd;

	close(reserve_any("192.0.2.77", IPPROTO_TCP));
	close(reserve_any("2001:db8::77", IPPROTO_UDP));
	ck_assert(sl_addr_parse(&a, "fe80::1:2:3:4"));
	fd = sl_sock_reserve(&a, IPPROTO_TCP);
	ck_assert_int_eq(fd, -EADDRNOTAVAIL);
}

TEST(a_reserved_udp_port_queues_nothing)
{
	int fd = reserve_any("127.0.0.1", IPPROTO_UDP), client;
	struct sl_addr a = addr_of(fd);
	struct sockaddr_storage ss;
	socklen_t len = sl_addr_to_sockaddr(&a, &ss);
	struct pollfd p = {.fd = fd, .events = POLLIN};

	client = socket(AF_INET, SOCK_DGRAM, 0);
	for (int i = 0; i < 100; i++)
		ck_assert_int_eq(sendto(client, "x", 1, 0, (struct sockaddr *)&ss, len), 1);
	ck_assert_int_eq(poll(&p, 1, 0), 0);
	close(client);
	close(fd);
}

TEST_EACH(the_interface_of_a_connection_is_known, 2)
{
	int fd = reserve_any(_i ? "::1" : "127.0.0.1", IPPROTO_TCP), client, server;
	struct sl_addr a = addr_of(fd);

	ck_assert_int_eq(sl_sock_listen(fd), 0);
	client = connect_to(&a);
	server = accept(fd, NULL, NULL);
	ck_assert_int_ge(server, 0);
	ck_assert_int_eq(sl_sock_ingress(server, a.family), (int)if_nametoindex("lo"));
	ck_assert_int_eq(sl_sock_ingress(fd, a.family ^ 2), 0); /* of the other family */
	close(server);
	close(client);
	close(fd);
}
