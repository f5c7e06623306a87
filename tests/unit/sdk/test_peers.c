/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gateways that connect to a busy backend. It accepts them between two ticks if that takes no
 * system call.
 */
#include "sdk_fake.h"
#include "suite.h"

enum { PEERS = 3 };

/* At its door are `left` gateways. */
static struct door {
	struct sl_rpc_listener base;
	unsigned left, accepts;
	uint32_t rooms[PEERS];
	struct fake *peers[PEERS];
} door;

static struct sl_transport *next_at_door(struct sl_rpc_listener *l, uint64_t now_ns)
{
	(void)now_ns;
	if (!door.left)
		return NULL;
	door.left--;
	door.rooms[door.left] = l->accept_limit;
	door.peers[door.left] = fake_new();
	return &door.peers[door.left]->base;
}

static struct sl_transport *accept_at_door(struct sl_rpc_listener *l, uint64_t now_ns)
{
	door.accepts++;
	return next_at_door(l, now_ns);
}

static uint64_t never(const struct sl_rpc_listener *l)
{
	(void)l;
	return UINT64_MAX;
}

static void close_door(struct sl_rpc_listener *l)
{
	(void)l;
}

static const struct sl_rpc_listener_ops by_kernel = {
	.accept = accept_at_door, .next_ns = never, .close = close_door};
static const struct sl_rpc_listener_ops at_a_glance = {.accept = accept_at_door,
						       .poll_nonblock = next_at_door,
						       .next_ns = never,
						       .close = close_door};

static void handle(void *arg, struct sl_batch *batch)
{
	(void)arg, (void)batch;
}

/* Its next tick never comes. */
static struct sl_backend *open_busy(const struct sl_rpc_listener_ops *ops)
{
	struct sl_backend *b = fake_backend(handle, NULL, 1);

	door = (struct door){.base = {.ops = ops, .fd = -1}, .left = PEERS};
	b->listeners[b->listener_cnt++] = &door.base;
	b->tick_ns = UINT64_MAX;
	return b;
}

static void close_busy(struct sl_backend *b)
{
	sl_backend_close(b);
	for (unsigned i = 0; i < PEERS; i++) {
		if (door.peers[i])
			fake_free(door.peers[i]);
	}
}

TEST(a_busy_backend_accepts_connections_seen_without_blocking)
{
	struct sl_backend *b = open_busy(&at_a_glance);

	sl_backend_poll(b, 0);
	ck_assert_uint_eq(door.left, 0);
	ck_assert_uint_eq(door.accepts, 0);
	ck_assert_uint_eq(b->channel_cnt, PEERS);
	/* Each is told how much room the one before has left. */
	for (unsigned i = 0; i < PEERS; i++)
		ck_assert_uint_eq(door.rooms[PEERS - 1 - i], SL_BE_CHANNELS_MAX - i);
	close_busy(b);
}

TEST(others_wait_for_its_tick)
{
	struct sl_backend *b = open_busy(&by_kernel);

	sl_backend_poll(b, 0);
	ck_assert_uint_eq(door.accepts, 0);
	b->tick_ns = 0;
	sl_backend_poll(b, 0);
	ck_assert_uint_eq(b->channel_cnt, PEERS);
	close_busy(b);
}
