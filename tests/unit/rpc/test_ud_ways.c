/* SPDX-License-Identifier: Apache-2.0 */
/*
 * By which way virtual connections go, and how many there may be; and a listener whose device goes,
 * comes back, or gives its address to another one.
 */
#include "ud_bed.h"

#include "rpc/verbs/verbs.h"

static struct ud_conn *conn_of(struct sl_transport *t)
{
	return (struct ud_conn *)t;
}

static struct ud_hall *hall_of(struct sl_transport *t)
{
	return conn_of(t)->hall;
}

/* --- how datagrams go --- */

TEST(datagrams_are_marked_both_ways)
{
	way.tos = 104;
	connect_both();
	ck_assert_uint_eq(conn_of(both.gateway)->node->tos, 104);
	ck_assert_uint_eq(conn_of(both.backend)->node->tos, 104);
	ck_assert_uint_eq(ud_sockets_tos, 104); /* and no way was made that is not */
	check_goes_on(1);
	close_both();
}

static struct sl_transport *dialled_by(uint16_t of_worker)
{
	worker = of_worker;
	return dialled();
}

TEST(halls_are_of_the_worker_for_which_they_were_made)
{
	struct sl_transport *first = dialled_by(1), *second = dialled_by(3);
	int owners[2];

	ck_assert_uint_eq(ud_sockets_groups[1], 1);
	ck_assert_uint_eq(ud_sockets_groups[3], 1);
	ck_assert_uint_eq(ud_sockets_groups[0] + ud_sockets_groups[2], 0);
	ck_assert_int_eq(second->ops->attach(second, &owners[1]), 0);
	ck_assert_int_eq(first->ops->attach(first, &owners[0]), 0);
	ck_assert_uint_eq(hall_of(second)->worker, 3);
	ck_assert_uint_eq(hall_of(first)->worker, 1);
	first->ops->close(first);
	second->ops->close(second);
}

static uint32_t payload_of(struct sl_transport *t)
{
	return conn_of(t)->flow.payload + (uint32_t)sizeof(struct sl_ud_header);
}

TEST(datagrams_are_no_longer_than_the_way_takes)
{
	ud_sockets_way_mtu = 2048;
	connect_both();
	ck_assert_uint_eq(payload_of(both.gateway), 2048);
	ck_assert_uint_eq(payload_of(both.backend), 2048);
	check_goes_on(1);
	close_both();
}

TEST(who_dials_by_a_way_for_short_packets_is_told)
{
	ud_sockets_way_mtu = 512;
	ck_assert_ptr_null(try_to_dial());
	ck_assert_ptr_nonnull(strstr(said, "MTU"));
	ck_assert_uint_eq(listener->refused, 0);
}

/* --- who is known --- */

static unsigned asked;
static char listens_at[64];
static struct ud_device counting;
static int (*ask_sockets)(const struct ud_question *q, struct ud_host *h, const char **why);

/* Whoever is asked for, it is the listener. */
static int count_asked(const struct ud_question *q, struct ud_host *h, const char **why)
{
	struct ud_question of_listener = *q;
	struct sockaddr_storage sa;

	asked++;
	of_listener.sa = &sa;
	ck_assert_int_eq(vb_address(listens_at, &sa), 0);
	return ask_sockets(&of_listener, h, why);
}

static void count_asking(void)
{
	snprintf(listens_at, sizeof(listens_at), "%s", strstr(endpoint, "//") + 2);
	counting = *ud_device;
	ask_sockets = counting.ask;
	counting.ask = count_asked;
	ud_device = &counting;
}

/* The listener may be too full for it, which is an answer too. */
static void dial_and_close(void)
{
	struct sl_transport *t = try_to_dial();

	if (t)
		t->ops->close(t);
}

/* One that has no time to answer is asked again: not each time. */
static bool is_met_again(void)
{
	for (unsigned i = 0, before; i < 20; i++) {
		before = asked;
		dial_and_close();
		if (asked == before)
			return true;
	}
	return false;
}

TEST(who_was_met_is_asked_again_only_by_another_way)
{
	static const struct sl_rpc_rdma ways[] = {{.source = "192.0.2.1"},
						  {.source = "192.0.2.2"},
						  {.device = "a"},
						  {.device = "b"},
						  {.port = 1},
						  {.tos = 8},
						  {.source = NULL}};

	count_asking();
	for (unsigned i = 0, before; i < SL_ARRAY_LEN(ways); i++) {
		before = asked;
		way = ways[i];
		dial_and_close();
		ck_assert_uint_gt(asked, before);
		ck_assert(is_met_again());
	}
}

static void dial_host(unsigned number)
{
	snprintf(endpoint, sizeof(endpoint), "rdma+ud://198.51.%u.%u:7471", number / 256,
		 number % 256);
	dial_and_close();
}

/* As many as a group has; with one more, the one that was met longest ago is forgotten. */
TEST(a_thousand_hosts_are_remembered)
{
	enum { HOSTS = 1024 };
	unsigned before;

	count_asking();
	for (unsigned i = 0; i < HOSTS; i++)
		dial_host(i);
	before = asked;
	for (unsigned i = 0; i < HOSTS; i++)
		dial_host(i);
	ck_assert_uint_lt(asked, before + HOSTS / 8);
	before = asked;
	dial_host(HOSTS);
	ck_assert_uint_gt(asked, before);
	before = asked;
	for (unsigned i = 1; i < 33; i++)
		dial_host(i);
	ck_assert_uint_lt(asked, before + 8);
	before = asked;
	dial_host(0);
	ck_assert_uint_gt(asked, before);
}

static unsigned ways_made, ways_freed;

static void *count_way(const struct ud_local *l, const uint8_t gid[16], uint8_t tos)
{
	(void)gid, (void)tos;
	ways_made++;
	return l->device;
}

static void count_freed(void *w)
{
	(void)w;
	ways_freed++;
}

static struct ud_node *node_of(unsigned number)
{
	const uint8_t gid[16] = {(uint8_t)number, (uint8_t)(number >> 8)};

	return ud_node_get(&(struct ud_local){.device = &counting, .port = 1}, gid, 0);
}

TEST(ways_are_kept_while_there_is_room)
{
	struct ud_node *nodes[UD_NODES];

	counting = *ud_device;
	counting.way_new = count_way;
	counting.way_free = count_freed;
	ud_device = &counting;
	for (unsigned i = 0; i < UD_NODES; i++) {
		nodes[i] = node_of(i);
		ck_assert_ptr_nonnull(nodes[i]);
	}
	ck_assert_ptr_null(node_of(UD_NODES));
	ck_assert_ptr_eq(node_of(7), nodes[7]);
	ud_node_put(nodes[7]);
	ud_node_put(nodes[7]);
	ud_node_put(nodes[9]);
	ck_assert_uint_eq(ways_made, UD_NODES);
	ck_assert_ptr_eq(node_of(7), nodes[7]);
	ud_node_put(nodes[7]);
	/* 9 has rested longer. */
	nodes[9] = node_of(UD_NODES);
	ck_assert_ptr_nonnull(nodes[9]);
	ck_assert_uint_eq(ways_made, UD_NODES + 1);
	ck_assert_uint_eq(ways_freed, 1);
	ck_assert_ptr_eq(node_of(7), nodes[7]);
	ck_assert_ptr_null(node_of(9));
	for (unsigned i = 0; i < UD_NODES; i++)
		ud_node_put(nodes[i]);
}

/* --- how many --- */

/* 1,024 backends, each by 16 workers. */
TEST(there_are_numbers_for_all_connections_of_a_large_group)
{
	static uint32_t ids[16384];
	uint32_t again;

	for (unsigned i = 0; i < SL_ARRAY_LEN(ids); i++) {
		ids[i] = ud_id_get();
		ck_assert_uint_ne(ids[i], 0);
		ck_assert(!i || ids[i] % UD_CONNS == ids[i - 1] % UD_CONNS + 1);
	}
	ck_assert_uint_eq(ud_id_get(), 0);
	ud_id_put(ids[9000]);
	ud_id_put(ids[70]);
	again = ud_id_get();
	ck_assert_uint_eq(again % UD_CONNS, ids[70] % UD_CONNS);
	ck_assert_uint_ne(again, ids[70]);
	ck_assert_uint_eq(ud_id_get() % UD_CONNS, ids[9000] % UD_CONNS);
	ck_assert_uint_eq(ud_id_get(), 0);
}

/* A process with few connections has few places for them. */
TEST(halls_have_places_for_those_who_come)
{
	unsigned shelves = 0;

	connect_both();
	for (unsigned i = 0; i < UD_CONNS / UD_SHELF; i++)
		shelves += hall_of(both.backend)->shelves[i] != NULL;
	ck_assert_uint_eq(shelves, 1);
	ck_assert_uint_le(sizeof(struct ud_hall), 16 << 10);
	close_both();
}

/* --- a listener whose device goes --- */

static uint64_t next_ns(void)
{
	return listener->ops->next_ns(listener);
}

TEST(a_listener_listens_again_once_its_device_is_back)
{
	uint64_t now_ns = sl_now_ns(), between_ns;

	connect_both();
	check_goes_on(1);
	ud_sockets_seat = UD_NOWHERE;
	ud_sockets_sign = -ENODEV;
	ck_assert_ptr_null(listener->ops->accept(listener, now_ns));
	/* Who is connected is told at once. */
	ck_assert(!sl_list_empty(&both.backend->hub->stirred));
	ck_assert_int_eq(both.backend->ops->check(both.backend), -ENOTCONN);
	close_both();
	/* It asks now and then, and ever less often. */
	between_ns = next_ns() - now_ns;
	ck_assert_uint_gt(between_ns, 0);
	for (unsigned i = 0; i < 10; i++) {
		now_ns = next_ns();
		ck_assert_ptr_null(listener->ops->accept(listener, now_ns));
		ck_assert_ptr_null(listener->ops->glance(listener, now_ns));
	}
	ck_assert_uint_gt(next_ns() - now_ns, 10 * between_ns);
	ck_assert_uint_le(next_ns() - now_ns, SL_NS_PER_SEC);
	ud_sockets_seat = 1;
	ck_assert_ptr_null(listener->ops->accept(listener, next_ns()));
	ck_assert_uint_eq(next_ns(), UINT64_MAX);
	connect_both();
	check_goes_on(2);
	close_both();
}

/* Who waits for its first datagram then does so in vain. */
TEST(who_was_granted_by_a_device_that_goes_is_forgotten)
{
	struct sl_transport *t = dialled();

	ck_assert_uint_eq(listener->promised, 1);
	ud_sockets_sign = -ENODEV;
	ck_assert_ptr_null(accepted());
	ck_assert_uint_eq(listener->promised, 0);
	t->ops->close(t);
	connect_both();
	check_goes_on(1);
	close_both();
}

TEST(an_address_that_stays_keeps_its_connections)
{
	struct ends old;

	connect_both();
	ud_sockets_sign = -EADDRNOTAVAIL;
	ck_assert_ptr_null(accepted());
	check_goes_on(1);
	old = both;
	connect_both();
	check_goes_on(2);
	close_both();
	both = old;
	close_both();
}

TEST(an_address_that_moves_to_another_device_is_listened_at_there)
{
	connect_both();
	ud_sockets_seat = 1;
	ud_sockets_sign = -EADDRNOTAVAIL;
	ck_assert_ptr_null(accepted());
	ck_assert_int_eq(both.backend->ops->check(both.backend), -ENOTCONN);
	close_both();
	connect_both();
	ck_assert_ptr_eq(hall_of(both.backend)->local.device, hall_of(both.gateway)->local.device);
	check_goes_on(1);
	close_both();
}

/* While it is nowhere, who is connected may still be reached. */
TEST(an_address_that_is_away_for_a_while_ends_nobody)
{
	connect_both();
	ud_sockets_seat = UD_NOWHERE;
	ud_sockets_sign = -EADDRNOTAVAIL;
	ck_assert_ptr_null(accepted());
	ck_assert_uint_lt(next_ns(), UINT64_MAX);
	check_goes_on(1);
	ud_sockets_seat = 0;
	ck_assert_ptr_null(listener->ops->accept(listener, next_ns()));
	ck_assert_uint_eq(next_ns(), UINT64_MAX);
	check_goes_on(2);
	close_both();
}

/* Whoever stops listening keeps who is connected. */
TEST(who_is_connected_outlives_the_listener)
{
	connect_both();
	listener->ops->close(listener);
	check_goes_on(1);
	close_both();
	set_up();
}
