/* SPDX-License-Identifier: Apache-2.0 */
/* Receives of connections of one rc_iface through their shared queue, and the notified owners. */
#include "rc_bed.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include "base/clock.h"
#include "rpc/poll_group.h"
#include "suite.h"
#include "until.h"

enum { CNT = 4 };

/* An owner with connections of its own. */
struct owner {
	struct sl_poll_groups poll_groups;
	int epoll_fd;
};

static struct owner owner, second;
static struct rc_conn *all[CNT];

static void own(struct owner *o, struct rc_conn *of)
{
	ck_assert_int_eq(sl_poll_groups_watch(&o->poll_groups, o->epoll_fd, &of->base, of), 0);
}

static void let_go(struct owner *o, struct rc_conn *of)
{
	sl_poll_groups_unwatch(&o->poll_groups, o->epoll_fd, &of->base);
	of->base.ops->close(&of->base);
}

static bool has_event(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

static void set_up_owner(void)
{
	set_up();
	owner = second = (struct owner){.epoll_fd = -1};
	owner.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	second.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	for (unsigned i = 0; i < CNT; i++) {
		all[i] = fake_connect(GROUP, SLOTS, SL_RPC_MIN_BULK);
		own(&owner, all[i]);
	}
	while (sl_poll_groups_next_ready(&owner.poll_groups))
		; /* each, for what had come before */
}

static void tear_down_owner(void)
{
	for (unsigned i = 0; i < CNT; i++)
		let_go(&owner, all[i]);
	tear_down();
	close(owner.epoll_fd);
	close(second.epoll_fd);
}

/* A request whose id is to be known again. */
static void arrive(struct rc_conn *to, uint64_t id)
{
	const struct sl_rpc_header h = {.version_type = SL_RPC_VERSION << 4 | SL_RPC_REQUEST,
					.flags = SL_RPC_FIRST | SL_RPC_LAST,
					.id = id};

	ck_assert(fake_arrive(to, &h, sizeof(h)));
}

/* Takes the next, which must be that one; 0: nothing is there. */
static void expect(struct rc_conn *of, uint64_t id)
{
	struct sl_message m;

	ck_assert_int_eq(of->base.ops->poll(&of->base, &m, 1), id ? 1 : 0);
	if (!id)
		return;
	ck_assert_uint_eq(m.header.id, id);
	of->base.ops->release(&of->base, &m);
}

static unsigned free_slots(void)
{
	const struct fake_slots *s = fake_slots(v);

	return s->put - s->got;
}

FIXTURE(set_up_owner, tear_down_owner)

/*
 * The number of queues and doorbells is the same for one connection as for many, except send
 * queues.
 */
TEST(receives_of_all_complete_in_one_queue)
{
	unsigned ends = 1 + CNT + RC_QP_POOL_READY;

	sl_rdma_wait_closed();
	ck_assert_uint_eq(fake.qps, ends);
	ck_assert_uint_eq(fake.cqs, 1 + ends);
	ck_assert_uint_eq(fake.bells, 1);
	ck_assert_uint_eq(owner.poll_groups.cnt, 1);
	for (unsigned i = 0; i < CNT; i++)
		ck_assert_int_eq(all[i]->base.fd, -1);
}

/* Each message reaches its connection, in order of arrival. */
TEST(each_connection_gets_its_messages)
{
	for (uint64_t id = 1; id <= 3; id++) {
		for (unsigned i = 0; i < CNT; i++)
			arrive(all[i], 10 * i + id);
	}
	sl_poll_groups_poll(&owner.poll_groups);
	for (unsigned i = CNT; i--;) {
		for (uint64_t id = 1; id <= 3; id++)
			expect(all[i], 10 * i + id);
		expect(all[i], 0);
	}
}

/* The resting owner is led to the connections with input, and to no others. */
TEST(a_connection_with_input_is_listed)
{
	for (unsigned i = 0; i < CNT; i++)
		ck_assert(all[i]->base.ops->arm(&all[i]->base, false));
	ck_assert(sl_poll_groups_arm(&owner.poll_groups));
	arrive(all[3], 1);
	arrive(all[1], 2);
	arrive(all[3], 3);
	ck_assert(!sl_poll_groups_arm(&owner.poll_groups));
	ck_assert_ptr_eq(sl_poll_groups_next_ready(&owner.poll_groups), all[3]);
	ck_assert_ptr_eq(sl_poll_groups_next_ready(&owner.poll_groups), all[1]);
	ck_assert_ptr_null(sl_poll_groups_next_ready(&owner.poll_groups));
	expect(all[3], 1);
	expect(all[1], 2);
	expect(all[3], 3);
}

/* A connection with input does not go to sleep. */
TEST(a_connection_with_input_does_not_rest)
{
	arrive(all[0], 1);
	sl_poll_groups_poll(&owner.poll_groups);
	ck_assert(!all[0]->base.ops->arm(&all[0]->base, false));
	expect(all[0], 1);
	ck_assert(all[0]->base.ops->arm(&all[0]->base, false));
}

/* A thread that sets a connection up takes what is others', whose owner sleeps, and is told. */
TEST(messages_that_another_thread_takes_are_reported)
{
	ck_assert(all[3]->base.ops->arm(&all[3]->base, false));
	ck_assert(sl_poll_groups_arm(&owner.poll_groups));
	ck_assert(!has_event(owner.epoll_fd));
	arrive(all[3], 7);
	ck_assert_int_eq(t->ops->check(t), 0); /* v has no owner yet */
	ck_assert(has_event(owner.epoll_fd));
	ck_assert(!sl_poll_groups_arm(&owner.poll_groups));
	ck_assert(sl_poll_groups_handle_event(&owner.poll_groups, owner.poll_groups.list[0]));
	ck_assert(!has_event(owner.epoll_fd));
	sl_poll_groups_poll(&owner.poll_groups);
	ck_assert_ptr_eq(sl_poll_groups_next_ready(&owner.poll_groups), all[3]);
	expect(all[3], 7);
}

/* And the owner what is for one that is being set up, whose thread sleeps on its descriptor. */
TEST(a_thread_that_sets_up_is_woken)
{
	ck_assert(!has_event(t->fd));
	arrive(v, 1);
	sl_poll_groups_poll(&owner.poll_groups);
	ck_assert(has_event(t->fd));
	ck_assert_int_eq(t->ops->check(t), 0);
	ck_assert(!has_event(t->fd));
	expect(v, 1);
}

/* No call takes it: while another thread takes, the owner goes on. */
TEST(the_owner_does_not_wait_for_another_poller)
{
	struct rc_rx_cq *d = rc_iface_rx_cq(v->iface);

	arrive(all[0], 1);
	ck_assert(!atomic_flag_test_and_set(&d->poll_lock));
	sl_poll_groups_poll(&owner.poll_groups);
	expect(all[0], 0);
	atomic_flag_clear(&d->poll_lock);
	sl_poll_groups_poll(&owner.poll_groups);
	expect(all[0], 1);
}

/* One home, two owners: the second one's go by descriptors, and lose nothing. */
TEST(a_second_owner_goes_by_descriptors)
{
	own(&second, v);
	ck_assert_ptr_null(t->poll_group);
	ck_assert_uint_eq(second.poll_groups.cnt, 0);
	ck_assert(t->ops->arm(t, false));
	arrive(v, 1);
	sl_poll_groups_poll(&owner.poll_groups); /* takes it for v */
	ck_assert(has_event(second.epoll_fd));
	expect(v, 1);
	arrive(v, 2);
	expect(v, 2);
	sl_poll_groups_unwatch(&second.poll_groups, second.epoll_fd, t);
}

/* The last connection of an owner leaves the queue to the next owner. */
TEST(the_next_owner_has_the_receive_queue)
{
	for (unsigned i = 0; i < CNT; i++)
		let_go(&owner, all[i]);
	ck_assert_uint_eq(owner.poll_groups.cnt, 0);
	for (unsigned i = 0; i < CNT; i++) {
		all[i] = fake_connect(GROUP, SLOTS, SL_RPC_MIN_BULK);
		own(&second, all[i]);
		ck_assert_ptr_nonnull(all[i]->base.poll_group);
	}
	arrive(all[2], 5);
	sl_poll_groups_poll(&second.poll_groups);
	expect(all[2], 5);
	owner = second;
	second.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
}

/* Numbers of queue pairs come again: what was for a former one is not for the next. */
TEST(messages_for_a_former_connection_are_dropped)
{
	struct ibv_qp former = *v->qp.qp;
	struct ibv_qp *now = v->qp.qp;
	unsigned slots = free_slots();
	struct rc_conn *next;

	sl_rdma_wait_closed();
	/* The number of the one that is made now, and not ahead. */
	former.qp_num = fake.next_qpn + 1;
	v->qp.qp = &former;
	arrive(v, 9);
	v->qp.qp = now;
	ck_assert_uint_eq(free_slots(), slots - 1);
	next = fake_connect(GROUP, 2 * SLOTS, SL_RPC_MIN_BULK);
	ck_assert_uint_eq(next->qp.qp->qp_num, former.qp_num);
	ck_assert_uint_ge(free_slots(), slots);
	own(&owner, next);
	sl_poll_groups_poll(&owner.poll_groups);
	expect(next, 0);
	let_go(&owner, next);
}

/* So many as its window twice over, and one of a neighbour's behind them. */
static void flood(struct rc_conn *of, struct rc_conn *neighbour)
{
	for (unsigned i = 0; i < 2 * SLOTS; i++)
		arrive(of, i + 1);
	arrive(neighbour, 1);
}

static void connect_again(struct rc_conn **of)
{
	let_go(&owner, *of);
	sl_rdma_wait_closed();
	*of = fake_connect(GROUP, SLOTS, SL_RPC_MIN_BULK);
	own(&owner, *of);
}

/* A peer that sends more than it may breaks its own connection; the slots are the others' again. */
TEST(a_peer_that_exceeds_its_window_is_blocked)
{
	unsigned slots = free_slots();
	struct sl_message m;

	flood(all[0], all[1]);
	ck_assert_uint_eq(free_slots(), slots - 2 * SLOTS - 1);
	sl_poll_groups_poll(&owner.poll_groups);
	ck_assert_uint_ge(free_slots(), slots - SL_RPC_MIN_SLOTS - 3);
	ck_assert_int_eq(fake_qp(all[0])->state, IBV_QPS_ERR);
	expect(all[1], 1);
	ck_assert_int_eq(all[0]->base.ops->poll(&all[0]->base, &m, 1), -EPROTO);
	connect_again(&all[0]);
	connect_again(&all[1]);
	ck_assert_uint_eq(free_slots(), slots);
}

/* Also while its owner looks at nothing: the device says that slots run short. */
TEST(a_peer_that_takes_all_slots_is_blocked_while_the_owner_is_busy)
{
	uint64_t end_ns = sl_now_ns() + UNTIL_S * SL_NS_PER_SEC;
	unsigned slots = free_slots(), watches = fake.watches;

	ck_assert_uint_gt(watches, 0);
	flood(all[2], all[3]);
	fake_event(&(struct ibv_async_event){.element = {.srq = rc_iface_srq(v->iface)},
					     .event_type = IBV_EVENT_SRQ_LIMIT_REACHED});
	while (fake.watches == watches) {
		ck_assert_uint_lt(sl_now_ns(), end_ns);
		usleep(1000);
	}
	ck_assert(all[2]->flooded);
	ck_assert(!all[3]->flooded);
	ck_assert_uint_ge(free_slots(), slots - SL_RPC_MIN_SLOTS - 3);
	ck_assert(has_event(owner.epoll_fd));
	expect(all[3], 1);
}

/* And while the device is not watched, which says nothing of a queue that is empty. */
TEST(a_peer_that_takes_all_slots_between_two_polls_is_blocked)
{
	rc_iface_srq_low(v->iface);
	flood(all[0], all[1]);
	ck_assert(!all[0]->flooded);
	rc_ifaces_arm_srq_limit();
	ck_assert(all[0]->flooded);
	expect(all[1], 1);
}

/* All other connections of its host to a listener end as well: they would flood in turn. */
TEST(the_host_of_a_flooding_peer_is_blocked)
{
	const uint8_t hosts[CNT] = {1, 2, 1, 1};

	for (unsigned i = 0; i < CNT; i++) {
		all[i]->is_inbound = true;
		all[i]->path.gid[15] = hosts[i];
	}
	ck_assert(!rc_ifaces_host_blocked(GROUP, all[0]->path.gid));
	flood(all[0], all[1]);
	sl_poll_groups_poll(&owner.poll_groups);
	for (unsigned i = 0; i < CNT; i++) {
		ck_assert_int_eq(all[i]->flooded, hosts[i] == 1);
		ck_assert_int_eq(fake_qp(all[i])->state == IBV_QPS_ERR, hosts[i] == 1);
	}
	expect(all[1], 1);
	ck_assert_int_eq(rc_conn_poll_ack(all[2]),
			 -ECONNRESET); /* one that had yet to prove the key, too */
	ck_assert(rc_ifaces_host_blocked(GROUP, all[0]->path.gid));
	ck_assert(!rc_ifaces_host_blocked(GROUP, all[1]->path.gid));
	ck_assert(!rc_ifaces_host_blocked(GROUP + 1, all[0]->path.gid));
}

/* A backend that floods has not come, and cannot come again: others of its host are none of its. */
TEST(the_host_of_a_dialled_peer_is_not)
{
	flood(all[0], all[1]);
	sl_poll_groups_poll(&owner.poll_groups);
	ck_assert(all[0]->flooded);
	ck_assert(!all[2]->flooded);
	ck_assert(!rc_ifaces_host_blocked(GROUP, all[0]->path.gid));
}

/* A connection with the minimum window gets no more, for any request. */
TEST(the_least_window_is_the_limit)
{
	for (unsigned i = 0; i < SL_RPC_MIN_SLOTS + 2; i++)
		arrive(all[0], i + 1);
	sl_poll_groups_poll(&owner.poll_groups);
	ck_assert(!all[0]->flooded);
	arrive(all[0], 1);
	sl_poll_groups_poll(&owner.poll_groups);
	ck_assert(all[0]->flooded);
}

/* The end is heard by another thread; the last message is in the queue, and not taken yet. */
TEST(messages_before_the_end_are_read)
{
	struct sl_message m;

	arrive(all[0], 1);
	all[0]->gone = true;
	expect(all[0], 1);
	ck_assert_int_eq(all[0]->base.ops->poll(&all[0]->base, &m, 1), -ENOTCONN);
}

/* Nothing follows a BYE: a peer that repeats it keeps no thread busy. */
TEST(a_peer_that_repeats_bye_is_gone)
{
	struct sl_message m;

	ck_assert(fake_arrive(all[0], NULL, 0));
	sl_poll_groups_poll(&owner.poll_groups);
	ck_assert_int_eq(all[0]->base.ops->poll(&all[0]->base, &m, 1), 0);
	ck_assert(fake_arrive(all[0], NULL, 0));
	sl_poll_groups_poll(&owner.poll_groups);
	ck_assert_int_eq(all[0]->base.ops->poll(&all[0]->base, &m, 1), -ENOTCONN);
}

/* Only a message tells a silent peer: its queue pair sees no end of this one. */
TEST(a_peer_that_breaks_the_protocol_is_told_of_the_end)
{
	const uint8_t lie = 0;
	struct sl_message m;
	unsigned before;

	ck_assert(fake_arrive(all[0], &lie, sizeof(lie)));
	sl_poll_groups_poll(&owner.poll_groups);
	ck_assert_int_eq(all[0]->base.ops->poll(&all[0]->base, &m, 1), -EPROTO);
	before = fake.sends;
	let_go(&owner, all[0]);
	sl_rdma_wait_closed();
	ck_assert_uint_eq(fake.sends, before + 1);
	all[0] = fake_connect(GROUP, SLOTS, SL_RPC_MIN_BULK);
	own(&owner, all[0]);
}

/* Messages that were not polled yet are given back. */
TEST(slots_of_messages_that_were_not_taken_are_given_back)
{
	unsigned slots = free_slots();

	arrive(all[0], 1);
	arrive(all[0], 2);
	sl_poll_groups_poll(&owner.poll_groups);
	arrive(all[0], 3);
	let_go(&owner, all[0]);
	sl_rdma_wait_closed();
	ck_assert_uint_eq(free_slots(), slots);
	all[0] = fake_connect(GROUP, SLOTS, SL_RPC_MIN_BULK);
	own(&owner, all[0]);
}

/*
 * Another thread sees the device's event: the owner, which may sleep, is led to the ended
 * connection.
 */
TEST(the_owner_hears_of_ended_connections)
{
	struct pollfd p = {.fd = owner.epoll_fd, .events = POLLIN};
	struct sl_message m;

	for (unsigned i = 0; i < CNT; i++)
		ck_assert(all[i]->base.ops->arm(&all[i]->base, false));
	ck_assert(sl_poll_groups_arm(&owner.poll_groups));
	fake_event(&(struct ibv_async_event){.element = {.qp = all[2]->qp.qp},
					     .event_type = IBV_EVENT_QP_FATAL});
	ck_assert_int_eq(poll(&p, 1, 20000), 1);
	ck_assert(sl_poll_groups_handle_event(&owner.poll_groups, owner.poll_groups.list[0]));
	sl_poll_groups_poll(&owner.poll_groups);
	ck_assert_ptr_eq(sl_poll_groups_next_ready(&owner.poll_groups), all[2]);
	ck_assert_ptr_null(sl_poll_groups_next_ready(&owner.poll_groups));
	ck_assert_int_eq(all[2]->base.ops->poll(&all[2]->base, &m, 1), -ENOTCONN);
}

/* The shared queue fails: all connections end, and no new one joins it. */
TEST(a_shared_queue_of_completions_that_fails_ends_all)
{
	struct sl_message m;
	struct fake_cq *cq = (struct fake_cq *)v->qp.rx_cq;
	const struct rc_iface *before = v->iface;
	struct rc_conn *next;

	for (unsigned i = 0; i < CNT; i++)
		ck_assert(all[i]->base.ops->arm(&all[i]->base, false));
	cq->broken = true;
	sl_poll_groups_poll(&owner.poll_groups);
	for (unsigned i = 0; i < CNT; i++)
		ck_assert_ptr_nonnull(sl_poll_groups_next_ready(&owner.poll_groups));
	for (unsigned i = 0; i < CNT; i++)
		ck_assert_int_eq(all[i]->base.ops->poll(&all[i]->base, &m, 1), -ENOTCONN);
	cq->broken = false;
	next = fake_connect(GROUP, SLOTS, SL_RPC_MIN_BULK);
	ck_assert_ptr_ne(next->iface, before);
	next->base.ops->close(&next->base);
}

/* A home that cannot be made leaves nothing, and is made when it can. */
TEST(an_interface_that_fails_at_any_step_leaves_nothing)
{
	unsigned pds = fake.pds, cqs, bells, srqs = fake.srqs, steps;
	struct rc_iface *h;

	sl_rdma_wait_closed();
	cqs = fake.cqs, bells = fake.bells;
	ck_assert_int_ge(fcntl(STDIN_FILENO, F_GETFD), 0);
	for (steps = 1;; steps++) {
		int rc;

		fake.steps = 0;
		fake.fail_at = steps;
		rc = rc_iface_join(&fake.context, GROUP + 1, &h);
		if (fake.steps < steps)
			break; /* there are no more */
		ck_assert_int_lt(rc, 0);
		ck_assert_ptr_null(h);
		rc_ifaces_retire(GROUP + 1);
		ck_assert_uint_eq(fake.pds, pds);
		ck_assert_uint_eq(fake.cqs, cqs);
		ck_assert_uint_eq(fake.bells, bells);
		ck_assert_uint_eq(fake.srqs, srqs);
		ck_assert_int_ge(fcntl(STDIN_FILENO, F_GETFD), 0);
	}
	fake.fail_at = 0;
	ck_assert_uint_gt(steps, 5);
	ck_assert_ptr_nonnull(h);
	rc_iface_leave(h, SL_RPC_MIN_SLOTS);
	rc_ifaces_retire(GROUP + 1);
	ck_assert_uint_eq(fake.cqs, cqs);
}
