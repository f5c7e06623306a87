/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A listener whose owner accepts no more connections refuses new peers in one line, without
 * allocating. A further transport of an existing link is still accepted.
 */
#include <stdatomic.h>
#include "rpc_harness.h"
#include "suite.h"
#include "rpc/session.h"
#include "sdk/backend/internal.h"

/* Seen by both processes. */
static struct shared {
	_Atomic uint32_t room, accepted, refused;
} * shared;

/* Accepts and keeps each connection. */
static void take_all(const void *arg)
{
	struct sl_rpc_listen_options opt = {
		.key_file = harness_key(), .bulk_ring_len = 1 << 20, .slots = 64};
	struct sl_err err = SL_ERR(256);
	struct sl_rpc_listener *l = sl_rpc_listen(arg, &opt, &err);

	alarm(3 * harness_timeout_s());
	for (;;) {
		l->accept_limit = shared->room;
		shared->accepted += l->ops->accept(l, sl_now_ns()) != NULL;
		shared->refused = (uint32_t)l->refused;
		usleep(200);
	}
}

static struct sl_transport *dial(const char *endpoint, bool goes_on, struct sl_err *err)
{
	struct sl_rpc_dial_options opt = {.endpoint = endpoint,
					  .key_file = harness_key(),
					  .bulk_ring_len = 1 << 20,
					  .slots = 64,
					  .timeout_ms = harness_timeout_s() * 1000,
					  .link = 7,
					  .resumes = goes_on};

	return sl_rpc_dial(&opt, err);
}

/* The acceptor knows of a virtual connection when it first hears of it. */
static void begin(struct sl_transport *t)
{
	static const char owner;
	static const struct sl_rpc_header ping = {.version_type = SL_RPC_VERSION << 4 | SL_RPC_PING,
						  .flags = SL_RPC_FIRST | SL_RPC_LAST,
						  .priority = SL_CLASS_CONTROL};

	if (t->ops->attach)
		ck_assert_int_eq(t->ops->attach(t, &owner), 0);
	ck_assert_int_eq(t->ops->post(t, &ping, NULL, 0, 0), 0);
	t->ops->flush(t);
}

static void await_accepted(uint32_t cnt)
{
	uint64_t until_ns = sl_now_ns() + harness_timeout_s() * SL_NS_PER_SEC;

	while (shared->accepted < cnt) {
		ck_assert(sl_now_ns() < until_ns);
		usleep(500);
	}
}

static void await_refused(uint32_t cnt)
{
	uint64_t until_ns = sl_now_ns() + harness_timeout_s() * SL_NS_PER_SEC;

	while (shared->refused < cnt) {
		ck_assert(sl_now_ns() < until_ns);
		usleep(500);
	}
}

TEST_EACH(link_over_the_limit_is_refused_as_full, endpoint_cnt())
{
	const char *ep = endpoint_of(_i);
	struct sl_err err = SL_ERR(256);
	struct sl_transport *first, *next;
	struct backend_proc p;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	shared->room = 1;
	p.pid = harness_spawn(take_all, ep, strlen(ep) + 1);
	first = gw_dial(ep, 64, 1 << 20);
	shared->room = 0;
	begin(first);
	await_accepted(1);
	usleep(10000); /* it has been told by now */
	for (unsigned i = 1; i <= 3; i++) {
		ck_assert_ptr_null(dial(ep, false, &err));
		ck_assert_msg(strstr(err.text, SL_RPC_FULL_TEXT), "%s", err.text);
	}
	await_refused(3); /* a HELLO may be said twice */
	next = dial(ep, true, &err);
	ck_assert_msg(next != NULL, "%s", err.text);
	begin(next);
	await_accepted(2);
	shared->room = 1;
	usleep(10000);
	sl_rpc_dial_drop(next);
	next = dial(ep, false, &err);
	ck_assert_msg(next != NULL, "%s", err.text);
	begin(next);
	await_accepted(3);
	sl_rpc_dial_drop(next);
	sl_rpc_dial_drop(first);
	backend_kill(p);
}

/* --- a whole backend --- */

static bool is_virtual(int i)
{
	return strncmp(endpoint_of(i), "rdma+ud://", 10) == 0;
}

/* So many links of one gateway; `g.ch` is the last one's. */
static void open_links(struct gateway *g, const char *ep, unsigned cnt)
{
	for (unsigned i = 0; i < cnt; i++) {
		g->ch = sl_rpc_channel_add(g->r, "test", NULL);
		ck_assert_int_eq(sl_rpc_adopt(g->ch, gw_dial(ep, 64, 1 << 20), sl_now_ns()), 0);
		/* Reads all replies of the others, because their peers wait for that. */
		while (sl_rpc_poll(g->r, sl_now_ns()))
			;
		gw_turn(g);
	}
}

TEST_EACH(a_backend_has_so_many_links_and_tells_the_next, endpoint_cnt())
{
	const char *ep = endpoint_of(_i);
	struct sl_err err = SL_ERR(256);
	struct sl_rpc_config cfg;
	struct backend_proc p;
	struct gateway g;
	struct sl_rpc_channel *first;

	/* The others' rings are too much for a test, and a device adds nothing here. */
	if (!is_virtual(_i) || harness_emulated())
		return;
	p = backend_start(&(struct sl_backend_options){.listen = ep, .on_batch = answer_here});
	sl_rpc_config_default(&cfg);
	/* So many that ask each second are too much for an emulated machine. */
	cfg.ping_interval_ns = 4 * SL_NS_PER_SEC;
	g = (struct gateway){.r = sl_rpc_create(&cfg, NULL, &gw_ops, &g)};
	open_links(&g, ep, 1);
	first = g.ch;
	gw_expect_one_answer(&g);
	open_links(&g, ep, SL_BE_CHANNELS_MAX - 1);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_ptr_null(dial(ep, false, &err));
		ck_assert_msg(strstr(err.text, SL_RPC_FULL_TEXT), "%s", err.text);
	}
	gw_expect_one_answer(&g);
	ck_assert_uint_eq(g.downs, 0);
	sl_rpc_peer_removed(first, sl_rpc_transport_number(first->link.t));
	gw_until(&g, g.downs == 1);
	open_links(&g, ep, 1); /* once it is noticed */
	gw_expect_one_answer(&g);
	ck_assert_uint_eq(g.downs, 1);
	gw_close(&g);
	backend_term(p);
}
