/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels of a session that rest, by the thousand: what a tick does about them, and that their PINGs
 * have their time.
 */
#include <sys/epoll.h>
#include <unistd.h>
#include "base/clock.h"
#include "rpc/session.h"
#include "suite.h"

enum { MANY = 1000, TICK_NS = SL_SESSION_CHECK_NS };

struct end {
	struct sl_transport base;
	struct sl_rpc_channel *channel;
	uint64_t pinged_ns; /* 0: it was not */
};

static struct end ends[MANY];
static struct sl_rpc *rpc;
static struct sl_rpc_config cfg;
static uint64_t now_ns;

static int end_post(struct sl_transport *t, const struct sl_rpc_header *h,
		    const struct sl_span *spans, unsigned cnt, uint64_t cookie)
{
	struct end *e = (struct end *)t;

	(void)spans, (void)cnt, (void)cookie;
	ck_assert_uint_eq(h->version_type & 15, SL_RPC_PING);
	if (!e->pinged_ns)
		e->pinged_ns = now_ns;
	return 0;
}

static int end_poll(struct sl_transport *t, struct sl_message *m, unsigned max)
{
	(void)t, (void)m, (void)max;
	return 0;
}

static void nothing(struct sl_transport *t)
{
	(void)t;
}

static uint32_t window(const struct sl_transport *t)
{
	return t->bulk_max;
}

static bool arm(struct sl_transport *t, bool want_room)
{
	(void)t, (void)want_room;
	return true;
}

static int attach(struct sl_transport *t, const void *owner)
{
	(void)t, (void)owner;
	return 0;
}

static void group_nothing(struct sl_poll_group *h)
{
	(void)h;
}

static bool group_arm(struct sl_poll_group *h)
{
	(void)h;
	return true;
}

static const struct sl_poll_group_ops group_ops = {
	.poll = group_nothing, .arm = group_arm, .handle_event = group_nothing};
static struct sl_poll_group group;

static const struct sl_transport_ops end_ops = {.post = end_post,
						.flush = nothing,
						.poll = end_poll,
						.window = window,
						.progress = nothing,
						.arm = arm,
						.disarm = nothing,
						.attach = attach,
						.close = nothing};

static void on_state(void *app, void *app_data, enum sl_rpc_state state)
{
	(void)app, (void)app_data, (void)state;
}

static const struct sl_rpc_ops ops = {.state = on_state};

static void add(unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++)
		ends[i].channel = sl_rpc_channel_add(rpc, "test", NULL);
}

static void bring_up(unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++) {
		ends[i].base = (struct sl_transport){.ops = &end_ops,
						     .poll_group = &group,
						     .fd = -1,
						     .copies = true,
						     .slot_len = SL_RPC_SLOT_SIZE,
						     .bulk_max = 64 << 10,
						     .slice_min = 8 << 10,
						     .peer_epoch = 7};
		ends[i].pinged_ns = 0;
		sl_list_init(&ends[i].base.ready_node);
		ck_assert_int_eq(sl_rpc_adopt(ends[i].channel, &ends[i].base, now_ns), 0);
	}
}

static void turn(uint64_t at_ns)
{
	now_ns = at_ns;
	(void)sl_rpc_poll(rpc, now_ns);
	sl_rpc_flush(rpc, now_ns);
}

/* As a worker does that has nothing else. */
static void sleep_until(uint64_t end_ns)
{
	while (sl_rpc_next_ns(rpc) < end_ns)
		turn(sl_rpc_next_ns(rpc));
	turn(end_ns);
}

static void set_up(void)
{
	sl_rpc_config_default(&cfg);
	group = (struct sl_poll_group){.ops = &group_ops, .fd = epoll_create1(0)};
	sl_list_init(&group.ready);
	rpc = sl_rpc_create(&cfg, NULL, &ops, NULL);
	now_ns = 1;
}

static void tear_down(void)
{
	sl_rpc_destroy(rpc);
	close(group.fd);
}

FIXTURE(set_up, tear_down)

/* All of them have been, a tenth of the interval late at the most. */
static void check_pinged(unsigned from, unsigned to, uint64_t up_ns)
{
	uint64_t due_ns = up_ns + cfg.ping_interval_ns;

	for (unsigned i = from; i < to; i++)
		ck_assert_msg(ends[i].pinged_ns >= due_ns &&
				      ends[i].pinged_ns < due_ns + cfg.ping_interval_ns / 10,
			      "%u: %.3f ms", i, ((double)ends[i].pinged_ns - (double)due_ns) / 1e6);
}

TEST(each_of_many_idle_channels_is_pinged_in_time)
{
	add(0, MANY);
	bring_up(0, MANY);
	turn(TICK_NS);
	turn(2 * TICK_NS);
	ck_assert(sl_list_empty(&rpc->awake)); /* they rest */
	sleep_until(cfg.ping_interval_ns * 3 / 2);
	check_pinged(0, MANY, 1);
}

/* A visited channel without patience gets no PING. */
TEST(a_tick_looks_at_few_of_many)
{
	unsigned looked_at, passes = 0;

	add(0, MANY);
	bring_up(0, MANY);
	for (unsigned i = 0; i < 40; i++)
		turn(now_ns + TICK_NS);
	for (unsigned i = 0; i < MANY; i++)
		ends[i].base.peer_busy = true;
	do {
		turn(now_ns + TICK_NS);
		looked_at = 0;
		for (unsigned i = 0; i < MANY; i++)
			looked_at += !ends[i].base.peer_busy;
		ck_assert_uint_le(looked_at, ++passes * MANY / 10);
	} while (looked_at < MANY && passes < MANY);
	ck_assert_uint_eq(looked_at, MANY);
}

/*
 * In [late, down, late, early] the ticks have passed some of the down ones when these are removed.
 */
TEST(a_removed_channel_delays_no_ping)
{
	enum { LATE = 20, DOWN = 100, EARLY = LATE + DOWN + 1, ALL = EARLY + 19 };

	add(0, ALL);
	bring_up(EARLY, ALL);
	turn(cfg.ping_interval_ns / 2);
	bring_up(0, LATE);
	bring_up(EARLY - 1, EARLY);
	for (unsigned i = 0; i < 10 || rpc->round <= LATE || rpc->round >= LATE + DOWN; i++)
		turn(now_ns + TICK_NS);
	for (unsigned i = LATE; i < LATE + DOWN; i++)
		sl_rpc_channel_remove(ends[i].channel);
	turn(now_ns + TICK_NS);
	sleep_until(2 * cfg.ping_interval_ns);
	check_pinged(EARLY, ALL, 1);
	check_pinged(0, LATE, cfg.ping_interval_ns / 2);
}

/* The only one that is up has come when its place had been passed. */
TEST(a_channel_added_behind_its_turn_gets_its_ping_in_time)
{
	add(0, 100);
	turn(TICK_NS);
	ck_assert(rpc->channels.next != &ends[0].channel->node);
	bring_up(0, 1);
	turn(2 * TICK_NS);
	turn(3 * TICK_NS);
	sleep_until(cfg.ping_interval_ns * 3 / 2);
	check_pinged(0, 1, TICK_NS);
}
