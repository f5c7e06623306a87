/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ports that go down below virtual connections, and come back: nothing new is taken meanwhile and nothing
 * sent, no time counts as the peer's silence, and what was there goes on, once and in order.
 */
#include "ud_bed.h"

#include <poll.h>

enum { HERE = 1, THERE = 0 }; /* devices of the dialer, and of the listener */

static struct ud_conn *conn_of(struct sl_transport *t)
{
	return (struct ud_conn *)t;
}

/* Each end at a device of its own. */
static void connect_two(void)
{
	ud_sockets_seat = HERE;
	connect_both();
	check_goes_on(1);
	until(nobody_comes() && conn_of(both.backend)->iface->port);
}

static void rest(void)
{
	until(nothing_comes(both.backend) && nothing_comes(both.gateway) &&
	      ud_arq_idle(&conn_of(both.gateway)->arq) &&
	      conn_of(both.gateway)->arq.ack_ns == UINT64_MAX &&
	      ud_arq_idle(&conn_of(both.backend)->arq) &&
	      conn_of(both.backend)->arq.ack_ns == UINT64_MAX);
}

static bool is_stirred(const struct sl_transport *t)
{
	return !sl_list_empty(&t->ready_node);
}

/* Acts as the owner when the poll group's descriptor has an event. */
static void wake_up(struct sl_transport *t)
{
	t->poll_group->ops->handle_event(t->poll_group);
	take(t);
}

static bool has_event(const struct sl_transport *t)
{
	struct pollfd p = {.fd = t->poll_group->fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

static void sleep_well(struct sl_transport *t)
{
	until((take(t), t->poll_group->ops->arm(t->poll_group)));
	t->poll_group->ops->handle_event(t->poll_group);
	ck_assert(!has_event(t));
	sl_list_del(&t->ready_node);
}

static void set_port(unsigned seat, bool down)
{
	ud_sockets_port(seat, down);
	take(both.gateway);
	take(both.backend);
	ck_assert_int_eq(both.gateway->port_down, seat == HERE && down);
	ck_assert_int_eq(both.backend->port_down, seat == THERE && down);
}

/* --- notification --- */

TEST(an_owner_that_sleeps_above_a_port_is_woken)
{
	connect_two();
	rest();
	for (unsigned i = 0; i < 4; i++) {
		bool down = i % 2 == 0;

		sleep_well(both.gateway);
		sleep_well(both.backend);
		ud_sockets_port(HERE, down);
		ck_assert(has_event(both.gateway));
		ck_assert(!has_event(both.backend));
		wake_up(both.gateway);
		ck_assert(!has_event(both.gateway));
		ck_assert(is_stirred(both.gateway));
		ck_assert_int_eq(both.gateway->port_down, down);
		ck_assert(!both.backend->port_down);
	}
	check_goes_on(2);
	close_both();
}

TEST_EACH(all_connections_of_an_interface_get_its_port_state, 2)
{
	struct ends first;

	connect_two();
	first = both;
	connect_both();
	ck_assert_ptr_eq(first.gateway->poll_group, both.gateway->poll_group);
	ck_assert_ptr_eq(first.backend->poll_group, both.backend->poll_group);
	set_port((unsigned)_i, true);
	ck_assert_int_eq(first.gateway->port_down, both.gateway->port_down);
	ck_assert_int_eq(first.backend->port_down, both.backend->port_down);
	set_port((unsigned)_i, false);
	ck_assert(!first.gateway->port_down && !first.backend->port_down);
	check_goes_on(2);
	close_both();
	both = first;
	check_goes_on(2);
	close_both();
}

/*
 * One that comes to it is held from the start, and says its first word later: by a hall that its owner has,
 * or has not.
 */
TEST_EACH(a_new_connection_above_a_down_port_is_marked, 2)
{
	struct sl_transport *t;

	connect_two();
	t = dialled();
	set_port(HERE, true);
	ck_assert_int_eq(t->ops->attach(t, _i ? (const void *)&t : &both), 0);
	ck_assert_int_eq(t->poll_group != both.gateway->poll_group, _i);
	take(t);
	ck_assert(t->port_down);
	ck_assert_int_eq(post(t, 9, BODY), -EAGAIN);
	usleep(5 * UD_ACK_DELAY_NS / 1000); /* the word is due */
	take(t);
	ck_assert_ptr_null(accepted());
	close_both();
	ud_sockets_port(HERE, false);
	both.gateway = t;
	until((take(t), both.backend = accepted()));
	ck_assert(!t->port_down);
	ck_assert_int_eq(both.backend->ops->attach(both.backend, &listener), 0);
	check_goes_on(2);
	close_both();
}

/* --- while it is down --- */

static struct sl_transport *end_of(unsigned seat)
{
	return seat == HERE ? both.gateway : both.backend;
}

/* A message is under way; what comes to meet it is lost. */
static void send_and_hold(unsigned seat, uint64_t id, uint32_t len)
{
	struct ud_arq *f;

	connect_two();
	rest();
	f = &conn_of(end_of(seat))->arq;
	ck_assert_int_eq(post(end_of(seat), id, len), 0);
	ck_assert_uint_ne(f->una, f->sent);
	set_port(seat, true);
}

/* So long ago that it would have been sent again. */
static void wait_for_acknowledgement(struct ud_arq *f)
{
	memset(f->tx_ns, 0, sizeof(f->tx_ns));
}

static unsigned sent_by(const struct sl_transport *t)
{
	const struct sl_transport *peer = t == both.gateway ? both.backend : both.gateway;
	unsigned cnt = 0;

	for (unsigned i = 0; i < seen_cnt; i++)
		cnt += seen[i].to == ((const struct ud_iface *)peer->poll_group)->qp->qpn;
	return cnt;
}

TEST_EACH(a_connection_above_a_down_port_takes_and_sends_nothing, 2)
{
	struct sl_transport *t, *peer;
	uint64_t id = 0;
	unsigned came = 0;

	send_and_hold((unsigned)_i, 2, BODY);
	t = end_of((unsigned)_i);
	peer = end_of(1 - (unsigned)_i);
	seen_cnt = 0;
	ck_assert_int_eq(post(t, 3, BODY), -EAGAIN);
	ck_assert_uint_eq(t->ops->window(t), 0);
	for (unsigned i = 0; i < 20; i++) {
		wait_for_acknowledgement(&conn_of(t)->arq);
		usleep(2000);
		take(t);
		/* As if it had been heard right before. */
		conn_of(t)->arq.ack_ns = 0;
		if (sl_list_empty(&conn_of(t)->busy))
			sl_list_add_tail(&conn_of(t)->iface->busy, &conn_of(t)->busy);
		t->ops->flush(t);
	}
	ck_assert_uint_eq(sent_by(t), 0);
	ck_assert(!t->ops->delivered(t));
	set_port((unsigned)_i, false);
	ck_assert_int_eq(post(t, 3, BODY), 0);
	until((take(t), came += received(peer, &id), id == 3));
	ck_assert_uint_eq(came, 2);
	close_both();
}

/* Nothing of it is due. */
TEST(a_connection_above_a_down_port_keeps_no_thread_awake)
{
	send_and_hold(HERE, 2, BODY);
	wait_for_acknowledgement(&conn_of(both.gateway)->arq);
	conn_of(both.gateway)->arq.ack_ns = 0;
	sleep_well(both.gateway);
	usleep(2 * UD_RTO_MAX_NS / 1000);
	ck_assert(!has_event(both.gateway));
	set_port(HERE, false);
	close_both();
}

/* The peer is not to be blamed, however long that takes. */
TEST(the_time_of_a_down_port_is_not_the_peers_silence)
{
	struct ud_arq *f;
	uint64_t id = 0;
	unsigned came = 0;

	send_and_hold(HERE, 2, BODY);
	f = &conn_of(both.gateway)->arq;
	for (unsigned i = 0; i < 2; i++) {
		f->heard_ns -= 2 * UD_DEAD_AFTER_NS;
		usleep(2000);
		take(both.gateway);
		ck_assert_int_eq(both.gateway->ops->check(both.gateway), 0);
		ck_assert_uint_eq(both.gateway->silent_ns, 0);
		came += received(both.backend, &id); /* its acknowledgement is lost */
	}
	set_port(HERE, false);
	ck_assert_uint_ne(both.gateway->silent_ns, 0); /* from now on it is waited for */
	until((take(both.gateway), came += received(both.backend, &id), ud_arq_idle(f)));
	ck_assert_uint_eq(came, 1);
	ck_assert_uint_eq(id, 2);
	ck_assert_int_eq(both.gateway->ops->check(both.gateway), 0);
	close_both();
}

/* --- again and again --- */

enum { MESSAGES = 3000, STEPS = 200, STEP_US = 3000 };

static struct {
	uint64_t sent[2], came[2]; /* per end */
	_Atomic unsigned held;
} both_ways;

static _Atomic bool done;

static void *shake(void *arg)
{
	(void)arg;
	for (unsigned i = 0; (i < STEPS || !both_ways.held) && !done; i++) {
		ud_sockets_port(i / 2 % 2, i % 2 == 0);
		usleep(STEP_US);
	}
	ud_sockets_port(HERE, false);
	ud_sockets_port(THERE, false);
	return NULL;
}

/* They come as they were sent. */
static uint64_t come(struct sl_transport *t, uint64_t before)
{
	struct sl_message m[8];
	int n;

	take(t);
	while ((n = t->ops->poll(t, m, 8)) > 0) {
		for (int i = 0; i < n; i++) {
			ck_assert_uint_eq(m[i].header.id, ++before);
			t->ops->release(t, &m[i]);
		}
	}
	ck_assert_int_eq(n, 0);
	return before;
}

static void go_on(unsigned seat)
{
	struct sl_transport *t = end_of(seat);
	uint64_t *sent = &both_ways.sent[seat];
	int rc;

	both_ways.came[seat] = come(t, both_ways.came[seat]);
	both_ways.held += t->port_down;
	t->ops->flush(t);
	/* Ports that have been down once are what this is about. */
	if (*sent == MESSAGES || (*sent == MESSAGES - 1 && !both_ways.held))
		return;
	rc = post(t, *sent + 1, 1000);
	ck_assert(rc == 0 || rc == -EAGAIN);
	*sent += rc == 0;
}

TEST_EACH(bytes_over_ports_that_come_and_go_arrive_once_and_in_order, 2)
{
	pthread_t thread;

	connect_two();
	ud_sockets_use((struct ud_faults){.lost = (unsigned)_i, .doubled = 2, .overtaken = 2});
	ck_assert_int_eq(pthread_create(&thread, NULL, shake, NULL), 0);
	until((go_on(HERE), go_on(THERE),
	       both_ways.came[HERE] == MESSAGES && both_ways.came[THERE] == MESSAGES));
	done = true;
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_uint_gt(both_ways.held, 0);
	close_both();
}
