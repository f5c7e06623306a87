/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects that connections of one device share or own, and their end when the device fails or is
 * removed.
 */
#include "rc_bed.h"

#include <linux/mempolicy.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include "base/clock.h"
#include "rpc/rdma/async_event.h"
#include "rpc/rdma/rc/srq_credits.h"
#include "suite.h"

/* --- memory of a home --- */

enum { CNT = 8 };

static struct rc_conn *all[CNT];

static void connect_all(uint32_t bulk_len)
{
	for (unsigned i = 0; i < CNT; i++) {
		all[i] = fake_connect(GROUP, SLOTS, bulk_len);
		rc_conn_set_zcopy_mem(all[i], memory, sizeof(memory));
	}
}

static void close_all(void)
{
	for (unsigned i = 0; i < CNT; i++)
		all[i]->base.ops->close(&all[i]->base);
	sl_rdma_wait_closed();
}

FIXTURE(set_up, tear_down)

/* The owner's memory is registered once for all; what each has of its own are rings. */
TEST(memory_is_registered_once_for_all)
{
	size_t each = SLOTS * SL_RPC_SLOT_SIZE + 2 * SL_RPC_MIN_BULK;
	size_t slots = CNT * 2 * SLOTS * SL_RPC_SLOT_SIZE, before;

	sl_rdma_wait_closed(); /* rings for one more are made ahead of it, by another thread */
	before = fake.registered;
	connect_all(SL_RPC_MIN_BULK);
	sl_rdma_wait_closed();
	ck_assert_uint_le(fake.registered, before + (CNT + 1) * each + slots);
	close_all();
}

/* The last lets go of it: its owner may unmap it then. */
TEST(the_last_connection_lets_go_of_the_memory)
{
	size_t with, before;

	connect_all(SL_RPC_MIN_BULK);
	sl_rdma_wait_closed();
	with = fake.registered;
	close_all();
	before = fake.registered;
	ck_assert_uint_eq(with, before);
	t->ops->close(t);
	sl_rdma_wait_closed();
	ck_assert_uint_le(fake.registered, before - sizeof(memory));
	v = fake_connect(GROUP, SLOTS, BULK);
	t = &v->base;
}

/* A new connection finds registered rings without another peer's bytes. */
TEST(rings_are_used_again_and_empty)
{
	unsigned registrations, left = 0;

	sl_rdma_wait_closed();
	registrations = fake.registrations;
	memset(v->rx_bulk, 0x5a, BULK);
	t->ops->close(t);
	sl_rdma_wait_closed();
	v = fake_connect(GROUP, SLOTS, BULK);
	t = &v->base;
	ck_assert_uint_eq(fake.registrations, registrations);
	for (unsigned i = 0; i < BULK; i++)
		left += v->rx_bulk[i] != 0;
	ck_assert_uint_eq(left, 0);
}

/* Rings in use do not count as kept; otherwise none would be kept after a while. */
TEST(rings_are_used_again_however_often)
{
	unsigned registrations;

	sl_rdma_wait_closed();
	registrations = fake.registrations;
	for (unsigned i = 0; i < 3 * MR_POOL_KEEP / BULK; i++) {
		t->ops->close(t);
		sl_rdma_wait_closed();
		v = fake_connect(GROUP, SLOTS, BULK);
		t = &v->base;
	}
	ck_assert_uint_eq(fake.registrations, registrations);
}

/*
 * The next connection finds rings as well: another thread prepares them when earlier ones are
 * taken.
 */
TEST(rings_are_made_ahead_by_another_thread)
{
	enum { AHEAD = 2 }; /* prepared, with slots for all in the rc_iface */
	unsigned here;

	sl_rdma_wait_closed();
	here = fake.registered_here;
	for (unsigned i = 0; i < AHEAD; i++) {
		all[i] = fake_connect(GROUP, SLOTS, BULK);
		sl_rdma_wait_closed();
	}
	ck_assert_uint_eq(fake.registered_here, here);
	for (unsigned i = 0; i < AHEAD; i++)
		all[i]->base.ops->close(&all[i]->base);
}

/* So are queue pairs, and all that goes with them. */
TEST(queue_pairs_are_made_ahead_by_another_thread)
{
	unsigned here;

	sl_rdma_wait_closed();
	ck_assert_uint_eq(fake.qps, 1 + RC_QP_POOL_READY);
	here = fake.qps_here;
	for (unsigned i = 0; i < CNT; i++) {
		all[i] = fake_connect(GROUP, SLOTS, SL_RPC_MIN_BULK);
		sl_rdma_wait_closed();
		ck_assert_uint_eq(fake.qps, 2 + i + RC_QP_POOL_READY);
	}
	ck_assert_uint_eq(fake.qps_here, here);
	close_all();
	ck_assert_uint_eq(fake.qps, 1 + RC_QP_POOL_READY);
}

/* A connection with another window gets a queue pair that fits, and later others like it do. */
TEST(queue_pairs_are_made_ahead_for_the_window_that_is_asked_for)
{
	unsigned here;

	sl_rdma_wait_closed();
	all[0] = fake_connect(GROUP, 2 * SLOTS, SL_RPC_MIN_BULK);
	sl_rdma_wait_closed();
	ck_assert_uint_eq(fake.qps, 2 + RC_QP_POOL_READY);
	here = fake.qps_here;
	for (unsigned i = 1; i < CNT; i++) {
		all[i] = fake_connect(GROUP, 2 * SLOTS, SL_RPC_MIN_BULK);
		ck_assert_int_ge(all[i]->qp.tx_cq->cqe, 2 * SLOTS);
		sl_rdma_wait_closed();
	}
	ck_assert_uint_eq(fake.qps_here, here);
	close_all();
}

/* An end that cannot be made leaves nothing behind. */
TEST(each_step_of_an_end_that_fails_leaves_nothing)
{
	unsigned cqs, bells, qps, mws, steps;
	struct rc_qp_attr place;
	struct rc_qp e;

	sl_rdma_wait_closed();
	place = rc_iface_qp_pool(v->iface)->attr;
	cqs = fake.cqs, bells = fake.bells, qps = fake.qps, mws = fake.mws;
	fake.steps = 0;
	ck_assert_int_eq(rc_qp_create(&e, &place, SLOTS), 0);
	steps = fake.steps;
	ck_assert_uint_ge(steps, 2);
	rc_qp_destroy(&e);
	for (unsigned n = 1; n <= steps; n++) {
		fake.steps = 0;
		fake.fail_at = n;
		/* The device's first no to a queue pair may be to its inline data. */
		if (rc_qp_create(&e, &place, SLOTS) == 0)
			rc_qp_destroy(&e);
		ck_assert_uint_eq(fake.qps, qps);
		ck_assert_uint_eq(fake.cqs, cqs);
		ck_assert_uint_eq(fake.bells, bells);
		ck_assert_uint_eq(fake.mws, mws);
	}
	fake.fail_at = 0;
}

/* Unused rings over MR_POOL_KEEP are freed. */
TEST(only_so_many_rings_are_kept)
{
	size_t before = fake.registered;

	connect_all(4 << 20);
	close_all();
	ck_assert_uint_le(fake.registered,
			  before + MR_POOL_KEEP + CNT * 2 * SLOTS * SL_RPC_SLOT_SIZE);
}

/* --- arrivals --- */

/* As many as a backend takes, whose slots are registered as they come. */
TEST(an_interface_has_room_for_a_thousand_connections)
{
	const size_t slots = (RC_IFACE_CONNS + 1) * SRQ_CREDITS_MIN * (size_t)SL_RPC_SLOT_SIZE;
	struct rc_iface *first, *h;
	size_t before;

	sl_rdma_wait_closed();
	before = fake.registered;
	ck_assert_int_eq(rc_iface_join(&fake.context, GROUP + 1, &first), 0);
	ck_assert_uint_le(fake.registered, before + 512 * SL_RPC_SLOT_SIZE);
	for (unsigned i = 1; i < RC_IFACE_CONNS; i++) {
		ck_assert_int_eq(rc_iface_join(&fake.context, GROUP + 1, &h), 0);
		ck_assert_ptr_eq(h, first);
	}
	ck_assert_uint_ge(RC_IFACE_CONNS, 1024);
	ck_assert_uint_le(fake.registered, before + slots + 512 * SL_RPC_SLOT_SIZE);
	ck_assert_int_eq(rc_iface_join(&fake.context, GROUP + 1, &h), -EUSERS);
	rc_iface_leave(first, SL_RPC_MIN_SLOTS);
	ck_assert_int_eq(rc_iface_join(&fake.context, GROUP + 1, &h), 0);
	for (unsigned i = 0; i < RC_IFACE_CONNS; i++)
		rc_iface_leave(first, SL_RPC_MIN_SLOTS);
	rc_ifaces_retire(GROUP + 1);
	ck_assert_uint_eq(fake.registered, before);
}

/* --- where memory lies --- */

static char sysfs[] = "/tmp/sl-ibdev-XXXXXX";

/* Sets the device's NUMA node in sysfs; NULL: there is no such file. */
static void say_node(const char *text)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "%s/device/numa_node", sysfs);
	if (!text) {
		ck_assert_int_eq(unlink(path), 0);
		return;
	}
	f = fopen(path, "we");
	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	ck_assert_int_eq(fclose(f), 0);
}

static void set_up_device(void)
{
	char path[64];

	fake_start();
	ck_assert_ptr_nonnull(mkdtemp(sysfs));
	snprintf(path, sizeof(path), "%s/device", sysfs);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	snprintf(fake.device.ibdev_path, sizeof(fake.device.ibdev_path), "%s", sysfs);
	say_node("0\n");
}

static void tear_down_device(void)
{
	char path[64];

	say_node("");
	say_node(NULL);
	snprintf(path, sizeof(path), "%s/device", sysfs);
	ck_assert_int_eq(rmdir(path), 0);
	ck_assert_int_eq(rmdir(sysfs), 0);
	tear_down();
}

static void connect_first(void)
{
	v = fake_connect(GROUP, SLOTS, BULK);
	t = &v->base;
}

static bool prefers_node_0(const void *at)
{
	unsigned long nodes[1024 / (8 * sizeof(unsigned long))] = {0};
	int mode = -1;
	long rc = syscall(SYS_get_mempolicy, &mode, nodes, 1025UL, at, (unsigned long)MPOL_F_ADDR);

	ck_assert_int_eq(rc, 0);
	ck_assert_int_eq(mode, nodes[0] ? MPOL_PREFERRED : MPOL_DEFAULT);
	return nodes[0] == 1;
}

/* Where the kernel knows no nodes, or a container may not ask, nothing is to be seen. */
static bool has_nodes(void)
{
	if (syscall(SYS_get_mempolicy, NULL, NULL, 0UL, NULL, 0UL) == 0)
		return true;
	fprintf(stderr, "no policies of memory here: %s\n", strerror(errno));
	return false;
}

FIXTURE(set_up_device, tear_down_device)

/* Rings, those made ahead and slots prefer the device's node, which is asked for once. */
TEST(memory_of_an_interface_prefers_the_numa_node_of_the_device)
{
	struct rc_conn *next, *other;

	connect_first();
	sl_rdma_wait_closed();
	say_node("-1\n");
	next = fake_connect(GROUP, SLOTS, BULK);
	other = fake_connect(GROUP, SLOTS, SL_RPC_MIN_BULK);
	if (has_nodes()) {
		ck_assert(prefers_node_0(v->ring_buf->mem));
		ck_assert(prefers_node_0(v->rx_bulk + BULK - 1));
		ck_assert(prefers_node_0(rc_iface_slot(v->iface, 0)));
		ck_assert(prefers_node_0(next->ring_buf->mem));
		ck_assert(prefers_node_0(other->ring_buf->mem)); /* in small pages */
	}
	next->base.ops->close(&next->base);
	other->base.ops->close(&other->base);
}

static const char *const no_nodes[] = {"-1\n", NULL, "", "1023\n", "1024\n", "2147483647\n"};

/* A device whose node is not told, or is not there, has memory all the same. */
TEST_EACH(without_a_node_memory_is_anywhere, SL_ARRAY_LEN(no_nodes))
{
	say_node(no_nodes[_i]);
	connect_first();
	if (has_nodes()) {
		ck_assert(!prefers_node_0(v->ring_buf->mem));
		ck_assert(!prefers_node_0(rc_iface_slot(v->iface, 0)));
	}
	say_node("0\n");
}

/* Tells from /proc whether the mapping has huge pages, requested or reserved. */
static bool in_huge_pages(const void *at)
{
	FILE *f = fopen("/proc/self/smaps", "re");
	bool here = false, huge = false;
	uintptr_t from, to;
	char line[512];

	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			here = from <= (uintptr_t)at && (uintptr_t)at < to;
		else if (here && strncmp(line, "VmFlags:", 8) == 0)
			huge = strstr(line, " hg") || strstr(line, " ht");
	}
	fclose(f);
	return huge;
}

/* The kernel may have no huge pages, and qemu-user ignores the advice to use them. */
static bool has_huge_pages(void)
{
	size_t len = (size_t)8 << 20;
	void *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool has;

	ck_assert_ptr_ne(at, MAP_FAILED);
	has = madvise(at, len, MADV_HUGEPAGE) == 0 && in_huge_pages(at);
	munmap(at, len);
	if (!has)
		fprintf(stderr, "no huge pages here\n");
	return has;
}

/* Large rings and slots ask for huge pages, where there are any; small ones do not. */
TEST(large_memory_is_in_huge_pages)
{
	struct rc_conn *small;

	connect_first();
	small = fake_connect(GROUP, SLOTS, SL_RPC_MIN_BULK);
	if (has_huge_pages()) {
		ck_assert(in_huge_pages(v->ring_buf->mem));
		ck_assert(in_huge_pages(rc_iface_slot(v->iface, 0)));
		ck_assert(!in_huge_pages(small->ring_buf->mem));
	}
	small->base.ops->close(&small->base);
}

/* --- the device's ways --- */

FIXTURE(set_up, tear_down)

/* The queue pair's packet length, which may differ from the port's. */
TEST(the_packet_length_is_that_of_the_path)
{
	ck_assert_uint_eq(v->packet_len, 1024);
}

/* Bells of different workers ring on different interrupts. */
TEST(workers_have_interrupts_of_their_own)
{
	struct rc_conn *other = fake_connect(GROUP + 1, SLOTS, SL_RPC_MIN_BULK);

	ck_assert_uint_gt(fake.created_vectors[GROUP % 4], 0);
	ck_assert_uint_gt(fake.created_vectors[(GROUP + 1) % 4], 0);
	ck_assert_uint_eq(fake.created_vectors[(GROUP + 2) % 4], 0);
	ck_assert_uint_eq(fake.created_vectors[(GROUP + 3) % 4], 0);
	other->base.ops->close(&other->base);
}

FIXTURE(set_up, tear_down)

TEST(a_device_without_shared_queues_has_no_interface)
{
	struct rc_iface *iface;

	fake.alone = true;
	ck_assert(!rc_iface_is_supported(&fake.context));
	ck_assert_int_eq(rc_iface_join(&fake.context, GROUP + 1, &iface), -EOPNOTSUPP);
	ck_assert_ptr_null(iface);
	fake.alone = false;
	ck_assert(rc_iface_is_supported(&fake.context));
	ck_assert_int_eq(rc_iface_join(&fake.context, GROUP + 1, &iface), 0);
	rc_iface_leave(iface, SL_RPC_MIN_SLOTS);
	rc_ifaces_retire(GROUP + 1);
}

/* --- what the device tells --- */

/* Another thread hears it. */
static void until(const _Atomic bool *said)
{
	uint64_t end_ns = sl_now_ns() + 100 * SL_NS_PER_SEC;

	while (!*said) {
		ck_assert_uint_lt(sl_now_ns(), end_ns);
		usleep(1000);
	}
}

/* The owner, sleeping on the channel's descriptor, wakes and finds the connection ended. */
static void check_ended(struct rc_conn *of)
{
	struct pollfd p = {.fd = of->base.fd, .events = POLLIN};
	struct sl_message m;

	until(&of->gone);
	ck_assert_int_eq(poll(&p, 1, 20000), 1);
	ck_assert_int_eq(of->base.ops->check(&of->base), -ENOTCONN);
	ck_assert_int_eq(of->base.ops->poll(&of->base, &m, 1), -ENOTCONN);
}

FIXTURE(set_up, tear_down)

/* Nothing of a failed or removed device stays; one that comes back is another device. */
TEST(of_a_device_that_fails_nothing_stays)
{
	struct rc_conn *other = fake_connect(GROUP + 1, SLOTS, SL_RPC_MIN_BULK);
	struct rc_conn *left = fake_connect(GROUP + 2, SLOTS, SL_RPC_MIN_BULK);

	left->base.ops->close(&left->base);
	sl_rdma_wait_closed();
	ck_assert_uint_eq(fake.srqs, 3);
	fake_event(&(struct ibv_async_event){.event_type = IBV_EVENT_DEVICE_FATAL});
	check_ended(v);
	check_ended(other);
	fake.mute = true;
	other->base.ops->close(&other->base);
	t->ops->close(t);
	sl_rdma_wait_closed();
	ck_assert_uint_eq(fake.srqs, 0);
	ck_assert_uint_eq(fake.pds, 0);
	ck_assert_uint_eq(fake.registered, 0);
	fake.mute = false;
	v = fake_connect(GROUP, SLOTS, BULK);
	t = &v->base;
	ck_assert_uint_eq(fake.srqs, 1);
}

/* The failure of a shared queue ends its connections. */
TEST(a_shared_queue_that_fails_ends_its_connections)
{
	struct rc_conn *neighbour = fake_connect(GROUP, SLOTS, SL_RPC_MIN_BULK);
	struct rc_conn *other = fake_connect(GROUP + 1, SLOTS, SL_RPC_MIN_BULK);

	fake_event(&(struct ibv_async_event){.element = {.srq = rc_iface_srq(v->iface)},
					     .event_type = IBV_EVENT_SRQ_ERR});
	check_ended(v);
	check_ended(neighbour);
	ck_assert(!other->gone);
	neighbour->base.ops->close(&neighbour->base);
	other->base.ops->close(&other->base);
	t->ops->close(t);
	sl_rdma_wait_closed();
	ck_assert_uint_eq(fake.srqs, 1); /* the other's */
	v = fake_connect(GROUP, SLOTS, BULK);
	t = &v->base;
	ck_assert_uint_eq(fake.srqs, 2);
}

/* A peer that sends more than it may breaks its channel; the slot that it took is its neighbours'. */
TEST(messages_beyond_the_window_cost_no_slot)
{
	const struct fake_slots *s = fake_slots(v);
	const struct sl_rpc_header h = {.version_type = SL_RPC_VERSION << 4 | SL_RPC_CREDIT,
					.flags = SL_RPC_FIRST | SL_RPC_LAST};
	struct sl_message m;
	unsigned left;

	v->rx_next = v->base.credits.consumed + v->enforced; /* all of its window */
	left = s->put - s->got;
	ck_assert(fake_arrive(v, &h, sizeof(h)));
	ck_assert_uint_eq(s->put - s->got, left - 1);
	ck_assert_int_eq(t->ops->poll(t, &m, 1), -EPROTO);
	ck_assert_uint_eq(s->put - s->got, left);
	v->rx_next = v->base.credits.consumed;
}

/* A queue pair's failure ends its channel and notifies its owner; others go on. */
TEST(a_queue_pair_that_fails_ends_its_own_channel)
{
	struct rc_conn *neighbour = fake_connect(GROUP, SLOTS, SL_RPC_MIN_BULK);

	fake_event(&(struct ibv_async_event){.element = {.qp = v->qp.qp},
					     .event_type = IBV_EVENT_QP_FATAL});
	check_ended(v);
	fake_event(&(struct ibv_async_event){.element = {.cq = neighbour->qp.tx_cq},
					     .event_type = IBV_EVENT_CQ_ERR});
	check_ended(neighbour);
	neighbour->base.ops->close(&neighbour->base);
}

/* Changes the port's state: the owner wakes. */
static void tell_port(struct rc_conn *of, enum ibv_event_type type, int port, bool down)
{
	struct pollfd p = {.fd = of->base.fd, .events = POLLIN};
	uint64_t end_ns = sl_now_ns() + 100 * SL_NS_PER_SEC;

	fake_event(&(struct ibv_async_event){.element = {.port_num = port}, .event_type = type});
	while (of->port_down != down) {
		ck_assert_uint_lt(sl_now_ns(), end_ns);
		usleep(1000);
	}
	ck_assert_int_eq(poll(&p, 1, 20000), 1);
	ck_assert_int_eq(of->base.ops->check(&of->base), 0);
	ck_assert_int_eq(poll(&p, 1, 0), 0);
}

/* While a port is down nothing new is posted there; when it is up again, it is. */
TEST(nothing_is_posted_to_a_port_that_is_down)
{
	struct rc_conn *other = fake_connect(GROUP, SLOTS, SL_RPC_MIN_BULK);
	uint32_t posted;

	other->path.local.port = 2;
	send_from(memory, SMALL, 0);
	posted = fake_qp(v)->posted;
	tell_port(v, IBV_EVENT_PORT_ERR, 1, true);
	ck_assert_int_eq(post_from(memory, SMALL, 0), -EAGAIN);
	ck_assert(t->port_down && !other->base.port_down);
	ck_assert_uint_eq(t->ops->window(t), 0);
	t->ops->flush(t);
	ck_assert_uint_eq(fake_qp(v)->posted, posted);
	ck_assert(!other->port_down);
	ck_assert_uint_gt(other->base.ops->window(&other->base), 0);
	tell_port(v, IBV_EVENT_PORT_ACTIVE, 1, false);
	ck_assert(!t->port_down);
	send_from(memory, SMALL, 0);
	ck_assert_uint_gt(fake_qp(v)->posted, posted);
	other->base.ops->close(&other->base);
}

static void *begin(void *arg)
{
	struct rc_ring_sizes g = {.slots = SLOTS, .bulk_len = SL_RPC_MIN_BULK};

	(void)arg;
	return fake_open(GROUP, &g);
}

static void *watch_port(void *arg)
{
	struct ibv_pd pd = {.context = &fake.context};
	int rc;

	(void)arg;
	return rdma_port_watch(&(struct rdma_local){.device = &pd, .port = 1}, &rc);
}

/*
 * A device that does not tell its port's state delays a new connection, but no worker. An event
 * that arrives meanwhile is newer than its late answer.
 */
TEST_EACH(a_device_that_does_not_answer_stops_no_others, 2)
{
	pthread_t asking;
	void *came;

	v->path.local.port = 2; /* and so says nothing of the first */
	fake.mute_port = true;
	ck_assert_int_eq(pthread_create(&asking, NULL, _i ? watch_port : begin, NULL), 0);
	until(&fake.port_asked);
	ck_assert_int_eq(t->ops->attach(t, &asking), 0);
	fake_event(&(struct ibv_async_event){.element = {.port_num = 2},
					     .event_type = IBV_EVENT_PORT_ERR});
	until(&v->port_down);
	fake.port_state = IBV_PORT_DOWN;
	fake.mute_port = false;
	ck_assert_int_eq(pthread_join(asking, &came), 0);
	if (_i) {
		ck_assert(((struct rdma_port *)came)->down);
		rdma_port_unwatch(came);
	} else {
		ck_assert(((struct rc_conn *)came)->port_down);
		rc_conn_close(came);
	}
}

/* One that begins there meanwhile is held as well: beside others, or the first one of its port. */
TEST_EACH(a_connection_that_begins_at_a_down_port_is_marked, 2)
{
	struct rc_conn *other;

	fake.port_state = IBV_PORT_DOWN;
	if (_i) {
		t->ops->close(t);
		sl_rdma_wait_closed();
	} else {
		tell_port(v, IBV_EVENT_PORT_ERR, 1, true);
	}
	other = fake_connect(GROUP, SLOTS, SL_RPC_MIN_BULK);
	ck_assert(other->port_down && other->base.port_down);
	ck_assert_int_eq(other->base.ops->post(&other->base, &(struct sl_rpc_header){.count = 0},
					       NULL, 0, 0),
			 -EAGAIN);
	fake.port_state = IBV_PORT_ACTIVE;
	tell_port(other, IBV_EVENT_PORT_ACTIVE, 1, false);
	ck_assert(!other->base.port_down);
	if (!_i) {
		ck_assert(!t->port_down);
		t->ops->close(t);
	}
	t = &other->base;
}

/* An unconnected queue pair has no channel to end. */
TEST(a_queue_pair_that_waits_may_fail)
{
	uint64_t end_ns = sl_now_ns() + 100 * SL_NS_PER_SEC;
	struct rc_qp e;

	ck_assert_int_eq(rc_qp_pool_get(rc_iface_qp_pool(v->iface), SLOTS, &e), 0);
	fake_event(&(struct ibv_async_event){.element = {.qp = e.qp},
					     .event_type = IBV_EVENT_QP_FATAL});
	fake_event(&(struct ibv_async_event){.element = {.qp = e.qp},
					     .event_type = IBV_EVENT_QP_LAST_WQE_REACHED});
	while (fake.events_acked < 2) {
		ck_assert_uint_lt(sl_now_ns(), end_ns);
		usleep(1000);
	}
	ck_assert(!v->gone);
	rc_qp_destroy(&e);
}

/* A device that tells when it has used its last slot is waited for. */
TEST(the_last_slot_is_waited_for)
{
	struct ibv_qp *qp = v->qp.qp;

	sl_rdma_wait_closed();
	fake.mute = true;
	t->ops->close(t);
	usleep(100000);
	ck_assert_uint_eq(fake.qps, 1 + RC_QP_POOL_READY);
	fake_event(&(struct ibv_async_event){.element = {.qp = qp},
					     .event_type = IBV_EVENT_QP_LAST_WQE_REACHED});
	sl_rdma_wait_closed();
	ck_assert_uint_eq(fake.qps, RC_QP_POOL_READY);
	fake.mute = false;
	v = fake_connect(GROUP, SLOTS, BULK);
	t = &v->base;
	ck_assert_uint_eq(fake.srqs_made, 1);
}

/* If it does not tell, a slot may be lost: the queue is not used again. */
TEST(a_last_slot_that_is_not_told_costs_the_queue)
{
	fake.mute = true;
	t->ops->close(t);
	sl_rdma_wait_closed();
	fake.mute = false;
	v = fake_connect(GROUP, SLOTS, BULK);
	t = &v->base;
	ck_assert_uint_eq(fake.srqs_made, 2);
	ck_assert_uint_eq(fake.srqs, 1);
}
