/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths of virtual connections, and their limits. Also a listener whose device is removed, comes
 * back, or gives its address to another one.
 */
#include "ud_bed.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include "rpc/rdma/async_event.h"

static struct ud_conn *conn_of(struct sl_transport *t)
{
	return (struct ud_conn *)t;
}

static struct ud_iface *hall_of(struct sl_transport *t)
{
	return conn_of(t)->iface;
}

/* --- how datagrams go --- */

TEST(datagrams_are_marked_both_ways)
{
	way.tos = 104;
	connect_both();
	ck_assert_uint_eq(conn_of(both.gateway)->ah_entry->tos, 104);
	ck_assert_uint_eq(conn_of(both.backend)->ah_entry->tos, 104);
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
	return conn_of(t)->arq.payload + (uint32_t)sizeof(struct sl_ud_header);
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

TEST(dialling_by_a_path_with_a_small_mtu_fails)
{
	ud_sockets_way_mtu = 512;
	ck_assert_ptr_null(try_to_dial());
	ck_assert_ptr_nonnull(strstr(said, "MTU"));
	ck_assert_uint_eq(listener->refused, 0);
}

/* --- known peers --- */

/* Everybody is there, answers at once, and is full. */
static unsigned asked;
static struct ud_qp door_here = {.qpn = 3, .mtu = UD_MTU_MAX};
static uint8_t door_slot[UD_MTU_MAX];
static struct sl_wireup_crep answer;
static bool has_answer;

static struct ud_qp *full_open(const struct rdma_local *l, unsigned group, uint32_t rx_cnt,
			       uint32_t tx_cnt, int *rc)
{
	struct ud_qp *p = &door_here;

	if (rx_cnt == UD_IFACE_RX) {
		p = calloc(1, sizeof(*p));
		*p = (struct ud_qp){.fd = eventfd(0, EFD_CLOEXEC), .mtu = UD_MTU_MAX};
	}
	(void)l, (void)group, (void)tx_cnt;
	*rc = 0;
	return p;
}

static uint8_t *full_slot(struct ud_qp *p)
{
	(void)p;
	return door_slot;
}

static void full_send(struct ud_qp *p, struct ibv_ah *w, uint32_t qpn, uint32_t len)
{
	struct sl_wireup_creq h;

	(void)p, (void)w, (void)qpn;
	ck_assert_uint_eq(len, sizeof(h));
	memcpy(&h, door_slot, sizeof(h));
	answer = (struct sl_wireup_crep){.magic = SL_WIREUP_MAGIC,
					 .version = SL_UD_VERSION,
					 .verdict = SL_WIREUP_FULL,
					 .number = h.number};
	wireup_crep_sign(&secret, &h, &answer);
	has_answer = true;
}

static int full_ring(struct ud_qp *p)
{
	(void)p;
	return 0;
}

static int full_poll(struct ud_qp *p, struct ud_packet *packets, unsigned max)
{
	(void)p, (void)max;
	packets[0] = (struct ud_packet){.bytes = (uint8_t *)&answer, .len = sizeof(answer)};
	return has_answer;
}

static int full_put_back(struct ud_qp *p, const struct ud_packet *packets, unsigned cnt)
{
	(void)p, (void)packets, (void)cnt;
	has_answer = false;
	return 0;
}

static int full_ask(const struct sidr_query *q, struct sidr_result *h, const char **why)
{
	(void)q, (void)why;
	*h = (struct sidr_result){.local = {.device = &door_here, .port = 1}, .qpn = 5};
	asked++;
	return 0;
}

static struct rdma_device_ops full;

static void meet_full_ones(void)
{
	full = *rdma_device;
	full.open = full_open;
	full.tx_buf = full_slot;
	full.send = full_send;
	full.flush = full_ring;
	full.poll = full_poll;
	full.repost = full_put_back;
	full.sidr_resolve = full_ask;
	rdma_device = &full;
}

static void dial_full(void)
{
	ck_assert_ptr_null(dial(NULL));
	ck_assert_ptr_nonnull(strstr(said, "as many connections"));
}

TEST(a_known_host_is_resolved_again_only_on_another_path)
{
	static const struct sl_rpc_rdma ways[] = {{.source = "192.0.2.1"},
						  {.source = "192.0.2.2"},
						  {.device = "a"},
						  {.device = "b"},
						  {.port = 1},
						  {.tos = 8},
						  {.source = NULL}};
	const struct rdma_device_ops *before = rdma_device;

	meet_full_ones();
	for (unsigned i = 0; i < SL_ARRAY_LEN(ways); i++) {
		way = ways[i];
		dial_full();
		ck_assert_uint_eq(asked, i + 1);
		dial_full();
		ck_assert_uint_eq(asked, i + 1);
	}
	rdma_device = before;
}

static void change_gids(void)
{
	async_event_dispatch(NULL, &(struct ibv_async_event){.element = {.port_num = 1},
							     .event_type = IBV_EVENT_GID_CHANGE});
}

static int ask_while_gids_change(const struct sidr_query *q, struct sidr_result *h,
				 const char **why)
{
	int rc = full_ask(q, h, why);

	change_gids();
	return rc;
}

TEST(a_known_host_is_resolved_again_after_a_gid_change)
{
	const struct rdma_device_ops *before = rdma_device;

	meet_full_ones();
	dial_full();
	dial_full();
	ck_assert_uint_eq(asked, 1);
	change_gids();
	dial_full();
	ck_assert_uint_eq(asked, 2);
	dial_full();
	ck_assert_uint_eq(asked, 2);
	rdma_device = before;
}

TEST(a_host_resolved_during_a_gid_change_is_not_stored)
{
	const struct rdma_device_ops *before = rdma_device;

	meet_full_ones();
	full.sidr_resolve = ask_while_gids_change;
	dial_full();
	ck_assert_uint_eq(asked, 1);
	full.sidr_resolve = full_ask;
	dial_full();
	ck_assert_uint_eq(asked, 2);
	rdma_device = before;
}

static int status_of(pid_t child)
{
	int status;

	ck_assert_int_eq(waitpid(child, &status, 0), child);
	return status;
}

/* An entry names a device that the parent has opened. */
TEST(a_forked_process_resolves_hosts_itself)
{
	const struct rdma_device_ops *before = rdma_device;
	pid_t child;

	meet_full_ones();
	dial_full();
	ck_assert_uint_eq(asked, 1);
	child = fork();
	if (!child) {
		dial_full();
		dial_full();
		_exit(asked == 2 ? 0 : 1);
	}
	ck_assert_int_eq(status_of(child), 0);
	dial_full();
	ck_assert_uint_eq(asked, 1);
	rdma_device = before;
}

static void dial_host(unsigned number)
{
	snprintf(endpoint, sizeof(endpoint), "rdma+ud://198.51.%u.%u:7471", number / 256,
		 number % 256);
	dial_full();
}

/* As many as a group has; with one more, the one that was met longest ago is forgotten. */
TEST(a_thousand_hosts_are_remembered)
{
	enum { HOSTS = 1024 };
	const struct rdma_device_ops *before = rdma_device;

	meet_full_ones();
	for (unsigned i = 0; i < 2 * HOSTS; i++)
		dial_host(i % HOSTS);
	ck_assert_uint_eq(asked, HOSTS);
	dial_host(HOSTS);
	dial_host(1);
	ck_assert_uint_eq(asked, HOSTS + 1);
	dial_host(0);
	ck_assert_uint_eq(asked, HOSTS + 2);
	rdma_device = before;
}

static struct rdma_device_ops counting;
static const struct rdma_device_ops *before_counting;
static unsigned ways_made, ways_freed;

static struct ibv_ah *count_way(const struct rdma_local *l, const uint8_t gid[16], uint8_t tos)
{
	(void)gid, (void)tos;
	ways_made++;
	return l->device;
}

static void count_freed(struct ibv_ah *w)
{
	(void)w;
	ways_freed++;
}

static struct ah_entry *node_of(unsigned number)
{
	const uint8_t gid[16] = {(uint8_t)number, (uint8_t)(number >> 8)};

	return ah_cache_get(&(struct rdma_local){.device = &counting, .port = 1}, gid, 0);
}

TEST(ways_are_kept_while_there_is_room)
{
	struct ah_entry *nodes[AH_CACHE_MAX];

	counting = *rdma_device;
	counting.ah_create = count_way;
	counting.ah_destroy = count_freed;
	rdma_device = &counting;
	for (unsigned i = 0; i < AH_CACHE_MAX; i++) {
		nodes[i] = node_of(i);
		ck_assert_ptr_nonnull(nodes[i]);
	}
	ck_assert_ptr_null(node_of(AH_CACHE_MAX));
	ck_assert_ptr_eq(node_of(7), nodes[7]);
	ah_cache_put(nodes[7]);
	ah_cache_put(nodes[7]);
	ah_cache_put(nodes[9]);
	ck_assert_uint_eq(ways_made, AH_CACHE_MAX);
	ck_assert_ptr_eq(node_of(7), nodes[7]);
	ah_cache_put(nodes[7]);
	/* 9 has rested longer. */
	nodes[9] = node_of(AH_CACHE_MAX);
	ck_assert_ptr_nonnull(nodes[9]);
	ck_assert_uint_eq(ways_made, AH_CACHE_MAX + 1);
	ck_assert_uint_eq(ways_freed, 1);
	ck_assert_ptr_eq(node_of(7), nodes[7]);
	ck_assert_ptr_null(node_of(9));
	for (unsigned i = 0; i < AH_CACHE_MAX; i++)
		ah_cache_put(nodes[i]);
}

/* An entry in use is freed with its last reference, and found by nothing. */
TEST(a_gid_change_drops_address_handles)
{
	struct ah_entry *idle, *in_use, *again;

	counting = *rdma_device;
	counting.ah_create = count_way;
	counting.ah_destroy = count_freed;
	rdma_device = &counting;
	idle = node_of(1);
	in_use = node_of(2);
	ah_cache_put(idle);
	change_gids();
	ck_assert_uint_eq(ways_freed, 1);
	again = node_of(2);
	ck_assert_ptr_ne(again, in_use);
	ck_assert_uint_eq(ways_made, 3);
	ah_cache_put(in_use);
	ck_assert_uint_eq(ways_freed, 2);
	ah_cache_put(again);
	ck_assert_ptr_eq(node_of(2), again);
	ah_cache_put(again);
	ck_assert_uint_eq(ways_freed, 2);
}

/* To destroy one in the child would destroy that of the parent. */
TEST(a_forked_process_leaves_address_handles_of_its_parent_alone)
{
	struct ah_entry *idle, *in_use;
	pid_t child;

	counting = *rdma_device;
	counting.ah_create = count_way;
	counting.ah_destroy = count_freed;
	rdma_device = &counting;
	idle = node_of(1);
	in_use = node_of(2);
	ah_cache_put(idle);
	child = fork();
	if (!child) {
		bool own = node_of(1) != idle && ways_made == 3;

		change_gids();
		ah_cache_put(in_use);
		change_gids();
		_exit(own && !ways_freed ? 0 : 1);
	}
	ck_assert_int_eq(status_of(child), 0);
	ck_assert_ptr_eq(node_of(1), idle);
	ah_cache_put(idle);
	ah_cache_put(in_use);
	ck_assert_uint_eq(ways_freed, 0);
}

TEST(local_ends_with_other_gids_differ)
{
	struct rdma_local a = {.device = &counting, .port = 1, .gid = {1}}, b = a;

	b.gid[0] = 2;
	ck_assert(rdma_local_same(&a, &a));
	ck_assert(!rdma_local_same(&a, &b));
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
TEST(an_interface_allocates_places_by_need)
{
	unsigned shelves = 0;

	connect_both();
	for (unsigned i = 0; i < UD_CONNS / UD_CHUNK_CONNS; i++)
		shelves += hall_of(both.backend)->conn_chunks[i] != NULL;
	ck_assert_uint_eq(shelves, 1);
	ck_assert_uint_le(sizeof(struct ud_iface), 16 << 10);
	close_both();
}

/* Or each question after one of them would take a look at all. */
TEST(chosen_connection_numbers_fill_no_list)
{
	enum { CONNS = 256, LONGEST = 8 };
	static struct ud_conn conns[CONNS];
	struct ud_iface *h;
	int rc;

	connect_both();
	h = ud_iface_new(&hall_of(both.gateway)->local, 0, &rc);
	ck_assert_ptr_nonnull(h);
	h->refs = 1;
	for (unsigned i = 0; i < CONNS; i++) {
		conns[i].id = i;
		conns[i].peer_id = 7 + i * UD_PEERS;
		ck_assert_int_eq(ud_iface_add_conn(h, &conns[i]), 0);
	}
	for (unsigned i = 0; i < UD_PEERS; i++) {
		unsigned len = 0;

		for (const struct ud_conn *c = h->peers[i]; c; c = c->next_peer)
			ck_assert_uint_le(++len, LONGEST);
	}
	for (unsigned i = 0; i < CONNS; i++) {
		ck_assert_ptr_eq(ud_iface_find_peer(h, 0, 7 + i * UD_PEERS), &conns[i]);
		ud_iface_remove_conn(h, &conns[i]);
		ck_assert_ptr_null(ud_iface_find_peer(h, 0, 7 + i * UD_PEERS));
	}
	ud_iface_put(h);
	close_both();
}

/* --- a listener whose device goes --- */

static uint64_t next_ns(void)
{
	return listener->ops->next_ns(listener);
}

static unsigned watched;
static bool cannot_watch;

static struct rdma_port *count_watch(const struct rdma_local *l, int *rc)
{
	watched++;
	*rc = -EMFILE;
	return cannot_watch ? NULL : before_counting->port_watch(l, rc);
}

static void count_watches(void)
{
	before_counting = rdma_device;
	counting = *rdma_device;
	counting.port_watch = count_watch;
	rdma_device = &counting;
}

/* Watching takes a thread. */
TEST(a_listener_watches_its_port_behind_the_first_connection)
{
	struct sl_transport *t;

	count_watches();
	t = dialled();
	ck_assert_uint_ge(watched, 1); /* the dialer's; on a slow machine the listener's, too */
	if (watched == 1) {
		ck_assert_uint_lt(next_ns(), sl_now_ns() + 100 * SL_NS_PER_MS);
		ck_assert_ptr_null(listener->ops->accept(listener, next_ns()));
	}
	ck_assert_uint_eq(watched, 2);
	both.gateway = t;
	ck_assert_int_eq(t->ops->attach(t, &both), 0);
	until((take(t), both.backend = accepted()));
	ck_assert_int_eq(both.backend->ops->attach(both.backend, &listener), 0);
	check_goes_on(1);
	ck_assert_uint_eq(next_ns(), UINT64_MAX);
	ck_assert_uint_eq(watched, 2);
	close_both();
	rdma_device = before_counting;
}

/* Or else what its device says would fill the kernel's memory. */
TEST(an_idle_listener_watches_its_port_after_a_while)
{
	uint64_t at_ns = next_ns();

	count_watches();
	ck_assert_uint_le(at_ns, sl_now_ns() + SL_NS_PER_SEC);
	ck_assert_ptr_null(listener->ops->accept(listener, at_ns - 1));
	ck_assert_uint_eq(watched, 0);
	cannot_watch = true;
	ck_assert_ptr_null(listener->ops->accept(listener, at_ns));
	ck_assert_uint_eq(watched, 1);
	ck_assert_uint_eq(next_ns(), at_ns + SL_NS_PER_SEC);
	cannot_watch = false;
	ck_assert_ptr_null(listener->ops->accept(listener, next_ns()));
	ck_assert_uint_eq(watched, 2);
	ck_assert_uint_eq(next_ns(), UINT64_MAX);
	rdma_device = before_counting;
}

TEST(a_listener_listens_again_once_its_device_is_back)
{
	uint64_t now_ns = sl_now_ns(), between_ns;

	connect_both();
	check_goes_on(1);
	ud_sockets_seat = UD_NOWHERE;
	ud_sockets_sign = -ENODEV;
	ck_assert_ptr_null(listener->ops->accept(listener, now_ns));
	/* Established connections are notified at once. */
	ck_assert(!sl_list_empty(&both.backend->poll_group->ready));
	ck_assert_int_eq(both.backend->ops->check(both.backend), -ENOTCONN);
	close_both();
	/* It asks now and then, and ever less often. */
	between_ns = next_ns() - now_ns;
	ck_assert_uint_gt(between_ns, 0);
	for (unsigned i = 0; i < 10; i++) {
		now_ns = next_ns();
		ck_assert_ptr_null(listener->ops->accept(listener, now_ns));
		ck_assert_ptr_null(listener->ops->poll_nonblock(listener, now_ns));
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

static struct ud_qp *at_door;
static bool cannot_ring;
static int bell_of_door;

/* A queue pair for HELLOs that has no descriptor yet. */
static struct ud_qp *open_mute(const struct rdma_local *l, unsigned group, uint32_t rx_cnt,
			       uint32_t tx_cnt, int *rc)
{
	struct ud_qp *p = before_counting->open(l, group, rx_cnt, tx_cnt, rc);

	ck_assert_ptr_nonnull(p);
	if (rx_cnt == UD_IFACE_RX)
		return p;
	at_door = p;
	bell_of_door = p->fd;
	if (cannot_ring)
		p->fd = -1;
	return p;
}

static void close_mute(struct ud_qp *p)
{
	if (p == at_door) {
		p->fd = bell_of_door;
		at_door = NULL;
	}
	before_counting->close(p);
}

TEST(a_listener_whose_qp_cannot_wake_it_tries_again)
{
	struct pollfd bell = {.fd = listener->fd, .events = POLLIN};

	before_counting = rdma_device;
	counting = *rdma_device;
	counting.open = open_mute;
	counting.close = close_mute;
	rdma_device = &counting;
	cannot_ring = true;
	ud_sockets_sign = -ENODEV;
	ck_assert_ptr_null(listener->ops->accept(listener, sl_now_ns()));
	ck_assert_ptr_null(at_door);
	ck_assert_uint_lt(next_ns(), UINT64_MAX);
	cannot_ring = false;
	ck_assert_ptr_null(listener->ops->accept(listener, next_ns()));
	throw_at("", 1, at_door->qpn);
	ck_assert_int_eq(poll(&bell, 1, 1000), 1);
	connect_both();
	check_goes_on(1);
	close_both();
	rdma_device = before_counting;
}

/* The first datagram of this connection is awaited in vain. */
TEST(a_connection_granted_by_a_removed_device_is_forgotten)
{
	struct sl_transport *t = dialled();

	ck_assert_uint_eq(listener->unaccepted, 1);
	ud_sockets_sign = -ENODEV;
	ck_assert_ptr_null(accepted());
	ck_assert_uint_eq(listener->unaccepted, 0);
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

/* While the address is on no device, established connections may still work. */
TEST(an_address_that_is_away_for_a_while_ends_no_connection)
{
	connect_both();
	ud_sockets_seat = UD_NOWHERE;
	ud_sockets_sign = -EADDRNOTAVAIL;
	ck_assert_ptr_null(accepted());
	until(nobody_comes() && hall_of(both.backend)->port);
	ck_assert_uint_lt(next_ns(), UINT64_MAX);
	check_goes_on(1);
	ud_sockets_seat = 0;
	ck_assert_ptr_null(listener->ops->accept(listener, next_ns()));
	ck_assert_uint_eq(next_ns(), UINT64_MAX);
	check_goes_on(2);
	close_both();
}

/* Closing a listener keeps its connections. */
TEST(a_connection_outlives_its_listener)
{
	connect_both();
	listener->ops->close(listener);
	check_goes_on(1);
	close_both();
	set_up();
}
