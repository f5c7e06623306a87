/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tcp transport's calls of the kernel, counted, at both ends: those that have nothing to say cost none;
 * and its ends, which come with other bytes.
 */
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include "rpc/session.h"
#include "rpc/tcpsock/sock.h"
#include "rpc_harness.h"
#include "sdk_fake.h"
#include "suite.h"

enum { FEW = 4, MANY = 64, TICKS = 100, SLOTS = 16, SETTLED = 20 };

static unsigned calls;

/* In the place of the C library's. */
ssize_t recv(int sock, void *to, size_t len, int flags)
{
	calls++;
	return recvfrom(sock, to, len, flags, NULL, NULL);
}

int epoll_wait(int fd, struct epoll_event *events, int max, int timeout_ms)
{
	calls++;
	return epoll_pwait(fd, events, max, timeout_ms, NULL);
}

static struct sl_backend *b;
static struct gateway g;
static struct sl_rpc_channel *channels[MANY];
static struct sk_context ends[2];

static void answer(void *arg, struct sl_batch *batch)
{
	(void)arg;
	for (unsigned i = 0; i < batch->count; i++)
		sl_reply(batch->requests[i], &(struct sl_reply_args){.body = "y", .body_len = 1});
}

/* Both ends of a connection whose peers have proven the key. */
static void connect_both(struct sl_sock *k[2])
{
	struct sk_stream s[2];
	int socks[2], done[2] = {0, 0};

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, socks), 0);
	for (unsigned i = 0; i < 2; i++)
		ck_assert_int_eq(sk_stream_open(&s[i], socks[i], &ends[i], i), 0);
	while (!done[0] || !done[1]) {
		for (unsigned i = 0; i < 2; i++) {
			sk_stream_event(&s[i]);
			if (!done[i])
				done[i] = sk_stream_handshake(&s[i]);
			ck_assert_int_ge(done[i], 0);
		}
	}
	for (unsigned i = 0; i < 2; i++) {
		k[i] = sk_sock_new(&s[i], SLOTS);
		ck_assert_ptr_nonnull(k[i]);
		k[i]->base.peer_epoch = sl_rpc_boot_epoch();
	}
}

static void tick_gateway(void)
{
	g.r->check_ns = 0;
	gw_turn(&g);
}

static void tick_backend(void)
{
	b->tick_ns = 0;
	sl_backend_poll(b, 0);
}

static void settle(void)
{
	for (unsigned i = 0; i < SETTLED; i++) {
		tick_gateway();
		tick_backend();
	}
}

static void open_all(unsigned cnt)
{
	static const struct sl_psk secret = {.bytes = "a key for both of them", .len = 22};
	struct sl_rpc_config cfg;

	sl_rpc_config_default(&cfg);
	cfg.ping_interval_ns = 3600 * SL_NS_PER_SEC;
	b = fake_backend(answer, NULL, 1);
	g = (struct gateway){.r = sl_rpc_create(&cfg, NULL, &gw_ops, &g)};
	for (unsigned i = 0; i < 2; i++)
		ck_assert_int_eq(sk_context_open(&ends[i], &secret, i), 0);
	for (unsigned i = 0; i < cnt; i++) {
		struct sl_sock *k[2];

		connect_both(k);
		channels[i] = sl_rpc_channel_add(g.r, "test", NULL);
		ck_assert_int_eq(sl_rpc_adopt(channels[i], &k[0]->base, sl_now_ns()), 0);
		ck_assert(sl_be_channel_add(b, &k[1]->base));
		sl_container_of(b->channels.prev, struct channel, node)->link.alive.next_ns =
			UINT64_MAX;
	}
	settle();
}

static void close_all(void)
{
	sl_rpc_destroy(g.r);
	sl_backend_close(b);
	for (unsigned i = 0; i < 2; i++)
		sk_context_close(&ends[i]);
}

static void ask_all(unsigned cnt)
{
	struct call c;

	for (unsigned i = 0; i < cnt; i++) {
		g.ch = channels[i];
		call_init(&c, 16);
		ck_assert_int_eq(
			gw_send(&g, &c, sl_span_of(NULL, 0), sl_span_str("x"), 0, SL_CLASS_NORMAL),
			0);
		for (unsigned n = 0; n < TICKS && !c.done; n++) {
			gw_turn(&g);
			sl_backend_poll(b, 0);
		}
		ck_assert(c.done);
		call_fini(&c);
	}
}

static unsigned calls_of(void (*tick)(void))
{
	calls = 0;
	for (unsigned i = 0; i < TICKS; i++)
		tick();
	return calls;
}

struct cost {
	unsigned gateway, backend;
};

/* Neither end sends a PING meanwhile, however slow the machine is. */
static struct cost cost_of(unsigned cnt)
{
	struct cost c;

	open_all(cnt);
	ask_all(cnt);
	settle();
	c.gateway = calls_of(tick_gateway);
	c.backend = calls_of(tick_backend);
	ask_all(cnt); /* no channel was forgotten over that */
	close_all();
	return c;
}

TEST(silent_sockets_cost_no_system_call)
{
	struct cost few = cost_of(FEW), many = cost_of(MANY);

	ck_assert_uint_gt(few.gateway, 0); /* the kernel was asked */
	ck_assert_uint_gt(few.backend, 0);
	ck_assert_uint_eq(many.gateway, few.gateway);
	ck_assert_uint_eq(many.backend, few.backend);
}

static void is_down_at_the_backend(struct sl_sock *k)
{
	/* Bytes and the end share one event. */
	sk_stream_close(&k->s);
	k->s.ssl = SSL_new(ends[0].ssl); /* closed once more at the end */
	for (unsigned i = 0; i < SETTLED && b->channel_cnt; i++)
		tick_backend();
	ck_assert_uint_eq(b->channel_cnt, 0);
}

/* The last bytes and the end are read together, without another event. */
TEST(an_end_right_behind_other_bytes_is_noticed)
{
	static const struct sl_rpc_header ping = {.version_type = SL_RPC_VERSION << 4 | SL_RPC_PING,
						  .flags = SL_RPC_FIRST | SL_RPC_LAST,
						  .priority = SL_CLASS_CONTROL};
	struct sl_sock *k;

	open_all(1);
	k = (struct sl_sock *)channels[0]->link.t;
	ck_assert_uint_eq(b->channel_cnt, 1);
	ck_assert_int_eq(k->base.ops->post(&k->base, &ping, NULL, 0, 0), 0);
	k->base.ops->flush(&k->base);
	k->s.ended = true; /* no goodbye of TLS, which would be read as the end */
	is_down_at_the_backend(k);
	close_all();
}

/* A group is its owner's, and goes with the last of its connections. */
TEST(closed_connection_is_removed_from_its_poll_group)
{
	static const char owner;
	struct sl_sock *k[2], *l[2];
	struct sl_poll_group *group;
	int fd;

	for (unsigned i = 0; i < 2; i++)
		ck_assert_int_eq(
			sk_context_open(&ends[i], &(struct sl_psk){.bytes = "key", .len = 3}, i),
			0);
	connect_both(k);
	connect_both(l);
	ck_assert_int_eq(sk_poll_group_join(&k[0]->base, &owner), 0);
	ck_assert_int_eq(sk_poll_group_join(&l[0]->base, &owner), 0);
	ck_assert_int_eq(sk_poll_group_join(&k[1]->base, &k), 0);
	group = k[0]->base.poll_group;
	ck_assert_ptr_eq(l[0]->base.poll_group, group);
	ck_assert_ptr_ne(k[1]->base.poll_group, group);
	group->ops->poll(group);
	ck_assert(!sl_list_empty(&k[0]->base.ready_node) && !sl_list_empty(&l[0]->base.ready_node));
	k[0]->base.ops->close(&k[0]->base);
	ck_assert_ptr_eq(sl_list_pop_head(&group->ready), &l[0]->base.ready_node);
	ck_assert(sl_list_empty(&group->ready));
	group->ops->poll(group);
	ck_assert(sl_list_empty(&group->ready)); /* an edge is told once */
	l[1]->base.ops->close(&l[1]->base);
	group->ops->poll(group);
	ck_assert_ptr_eq(sl_list_pop_head(&group->ready), &l[0]->base.ready_node);
	fd = group->fd;
	l[0]->base.ops->close(&l[0]->base);
	ck_assert_int_eq(fcntl(fd, F_GETFD), -1);
	k[1]->base.ops->close(&k[1]->base);
	for (unsigned i = 0; i < 2; i++)
		sk_context_close(&ends[i]);
}
