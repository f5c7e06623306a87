/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kill -9 of a backend in each state of a virtual connection, from its HELLO to what comes behind a move
 * and back: each request ends once, the link is down once, and the gateway connects again. In the place
 * of a connection of RDMA's own kind are all transports of the list.
 */
#include <pthread.h>
#include "rpc/session.h"
#include "rpc_harness.h"
#include "suite.h"
#include "ud_sockets.h"

enum { BEFORE = 8, BEHIND = 8 };

enum state {
	GRANTED, /* its dialer has the ANSWER, the backend has heard nothing more */
	IDLE,
	IN_FLIGHT,
	OFFERED,  /* the next transport exists, and no peer has used it yet */
	MET,      /* both have met by that, and MIGRATE is not said */
	HALF,     /* the gateway's MIGRATE is said, the backend's has not come */
	PROMOTED, /* the link has gone on */
	DEMOTED,  /* and back, by a third transport */
	STATES,
};

static bool is_virtual(int i)
{
	return strncmp(endpoint_of(i), "rdma+ud://", 10) == 0;
}

struct place {
	struct gateway g;
	struct sl_rpc_config cfg;
	struct backend_proc p;
	char first[120], second[120], listen[256];
	uint64_t link;
	unsigned call_cnt;
	struct call calls[BEFORE + BEHIND];
};

static void start(struct place *at)
{
	at->p = backend_start(
		&(struct sl_backend_options){.listen = at->listen, .on_batch = answer_here});
}

static struct sl_transport *dial(const struct place *at, const char *endpoint, bool goes_on)
{
	struct sl_rpc_dial_options opt = {.endpoint = endpoint,
					  .key_file = harness_key(),
					  .bulk_ring_len = at->cfg.bulk_ring_len,
					  .slots = at->cfg.slots,
					  .timeout_ms = 2000,
					  .link = at->link,
					  .resumes = goes_on};
	uint64_t until_ns = sl_now_ns() + harness_timeout_s() * SL_NS_PER_SEC;
	struct sl_err err = SL_ERR(256);
	struct sl_transport *t;

	while (!(t = sl_rpc_dial(&opt, &err)) && sl_now_ns() < until_ns)
		usleep(2000);
	ck_assert_msg(t != NULL, "%s", err.text);
	return t;
}

static void adopt(struct place *at, struct sl_transport *t)
{
	ck_assert_int_eq(sl_rpc_adopt(at->g.ch, t, sl_now_ns()), 0);
}

static void send_some(struct place *at, unsigned cnt)
{
	for (; cnt; cnt--) {
		struct call *c = &at->calls[at->call_cnt++];

		call_init(c, 8);
		ck_assert_int_eq(gw_send(&at->g, c, sl_span_of(NULL, 0), sl_span_str("x"), 0,
					 SL_CLASS_NORMAL),
				 0);
	}
}

static void expect_one_answer(struct place *at)
{
	unsigned done = at->g.done;
	struct call c;

	call_init(&c, 8);
	ck_assert_int_eq(
		gw_send(&at->g, &c, sl_span_of(NULL, 0), sl_span_str("x"), 0, SL_CLASS_NORMAL), 0);
	gw_until(&at->g, at->g.done == done + 1 && at->g.batches_done == at->g.sent);
}

static enum sl_link_move move_of(const struct place *at)
{
	return at->g.ch->link.move;
}

/* All of a move, by that endpoint. */
static void move_to(struct place *at, const char *endpoint)
{
	struct sl_transport *t = dial(at, endpoint, true);

	adopt(at, t);
	gw_until(&at->g, move_of(at) == SL_MOVE_NONE);
	ck_assert_ptr_eq(at->g.ch->link.t, t);
	expect_one_answer(at);
}

/* The backend stands still from before the next transport is used, or until it has answered by it. */
static void offer(struct place *at, bool meets)
{
	struct sl_transport *t = dial(at, at->second, true);

	if (!meets)
		backend_pause(at->p);
	adopt(at, t);
	while (meets && !at->g.ch->link.probed_ok) /* without a flush, which would say MIGRATE */
		(void)sl_rpc_poll(at->g.r, sl_now_ns());
	if (meets)
		backend_pause(at->p);
	ck_assert_int_eq(move_of(at), SL_MOVE_OFFERED);
	ck_assert_int_eq(at->g.ch->link.probed_ok, meets);
}

static void bring_to(struct place *at, enum state state)
{
	struct sl_transport *t = dial(at, at->first, false);

	if (state == GRANTED)
		backend_pause(at->p);
	adopt(at, t);
	if (state == GRANTED)
		return;
	expect_one_answer(at);
	switch (state) {
	case OFFERED: offer(at, false); break;
	case MET:
	case HALF: offer(at, true); break;
	case PROMOTED: move_to(at, at->second); break;
	case DEMOTED:
		move_to(at, at->second);
		move_to(at, at->first);
		break;
	default: break;
	}
	if (state == IN_FLIGHT || state >= PROMOTED)
		backend_pause(at->p);
	/* Before the barrier, and behind it. */
	if (state != IDLE)
		send_some(at, BEFORE);
	if (state == HALF)
		sl_rpc_flush(at->g.r, sl_now_ns());
	if (state == HALF)
		send_some(at, BEHIND);
	ck_assert_int_eq(move_of(at), state == HALF                      ? SL_MOVE_HALF
				      : state == OFFERED || state == MET ? SL_MOVE_OFFERED
									 : SL_MOVE_NONE);
}

/* What the gateway's dialer does at the same time. */
static void look_after(struct place *at)
{
	const struct sl_rpc_dial_options opt = {
		.endpoint = at->first, .key_file = harness_key(), .slots = 64, .timeout_ms = 500};
	uint64_t silent_ns = sl_rpc_channel_silent_ns(at->g.ch);
	uint32_t number;

	if (!silent_ns || sl_now_ns() < silent_ns + 200 * SL_NS_PER_MS)
		return;
	number = sl_rpc_transport_number(at->g.ch->link.t);
	if (number && sl_rpc_probe_peer(&opt, number) == SL_RPC_PROBE_REMOVED)
		sl_rpc_peer_removed(at->g.ch, number);
}

static void check_ends(const struct place *at, unsigned answered)
{
	for (unsigned i = 0; i < at->call_cnt; i++) {
		ck_assert(at->calls[i].failed && !at->calls[i].done);
		ck_assert(at->calls[i].why == SL_RPC_FAIL_LOST ||
			  at->calls[i].why == SL_RPC_FAIL_DOWN);
	}
	ck_assert_uint_eq(at->g.failed, at->call_cnt);
	ck_assert_uint_eq(at->g.done, answered);
	ck_assert_uint_eq(at->g.batches_done, at->g.sent);
	ck_assert_uint_eq(at->g.downs, 1);
}

static void kill_in(enum state state, int first, int second, bool starts_again)
{
	struct place at = {.link = sl_rpc_link_number()};
	uint64_t begin_ns;
	unsigned answered;

	snprintf(at.first, sizeof(at.first), "%.119s", endpoint_of(first));
	snprintf(at.second, sizeof(at.second), "%.119s", endpoint_of(second));
	snprintf(at.listen, sizeof(at.listen), "%s%s%s", at.first, first == second ? "" : ",",
		 first == second ? "" : at.second);
	sl_rpc_config_default(&at.cfg);
	at.cfg.ping_interval_ns = 500 * SL_NS_PER_MS;
	at.cfg.dead_after_ns = 2 * SL_NS_PER_SEC;
	start(&at);
	at.g = (struct gateway){.r = sl_rpc_create(&at.cfg, NULL, &gw_ops, &at.g)};
	at.g.ch = sl_rpc_channel_add(at.g.r, "test", NULL);
	bring_to(&at, state);
	answered = at.g.done;
	backend_kill(at.p);
	if (starts_again)
		start(&at);
	begin_ns = sl_now_ns();
	gw_until(&at.g, (look_after(&at), at.g.downs));
	/* Caused by the silence, not by the time-out of the switch, which is 15 s. */
	ck_assert_uint_lt(sl_now_ns() - begin_ns, harness_timeout_s() * SL_NS_PER_SEC / 2);
	check_ends(&at, answered);
	if (!starts_again)
		start(&at);
	adopt(&at, dial(&at, at.first, false));
	expect_one_answer(&at);
	ck_assert_uint_eq(at.g.downs, 1);
	gw_close(&at.g);
	backend_term(at.p);
}

/* It stays away, or (odd) starts again at once. */
TEST_EACH(each_request_ends_once_and_the_gateway_connects_again, STATES * 2)
{
	enum state state = (enum state)(_i / 2);
	/* In a guest the last one is tcp, which is tested outside. */
	int n = (int)endpoint_cnt() - harness_emulated();

	for (int first = 0; first < n; first++) {
		for (int second = 0; second < n && is_virtual(first); second++) {
			/* Before a move it does not matter by what it would be. */
			if (state >= OFFERED || second == 0)
				kill_in(state, first, second, _i % 2);
		}
	}
}

/* --- HELLO --- */

static _Atomic unsigned hellos;

static void count_hellos(const uint8_t *bytes, uint32_t len, uint32_t to_qpn)
{
	(void)bytes, (void)to_qpn;
	hellos += len == sizeof(struct sl_wireup_creq);
}

struct dialling {
	char endpoint[120];
	struct sl_transport *t;
	char text[256];
};

static void *dial_once(void *arg)
{
	struct dialling *d = arg;
	struct sl_rpc_dial_options opt = {.endpoint = d->endpoint,
					  .key_file = harness_key(),
					  .bulk_ring_len = 1 << 20,
					  .slots = 64,
					  .timeout_ms = harness_timeout_s() * 1000};

	d->t = sl_rpc_dial(&opt, &(struct sl_err){d->text, sizeof(d->text)});
	return NULL;
}

/* A host that was met before. It stays away, or (odd) starts again: the same dial finds that. */
TEST_EACH(a_hello_that_is_not_answered_any_more, endpoint_cnt() * 2)
{
	struct backend_proc p;
	struct dialling d = {.t = NULL};
	struct sl_backend_options opt = {.listen = d.endpoint, .on_batch = answer_here};
	pthread_t thread;

	/* A device without a listener swallows what is sent. */
	if (!is_virtual(_i / 2) || getenv("SL_RPC_KEY_FILE"))
		return;
	snprintf(d.endpoint, sizeof(d.endpoint), "%.119s", endpoint_of(_i / 2));
	p = backend_start(&opt);
	sl_rpc_dial_drop(gw_dial(d.endpoint, 64, 1 << 20));
	backend_pause(p);
	ud_sockets_tap = count_hellos;
	hellos = 0;
	ck_assert_int_eq(pthread_create(&thread, NULL, dial_once, &d), 0);
	while (!hellos)
		usleep(100);
	backend_kill(p);
	if (_i % 2)
		p = backend_start(&opt);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	if (_i % 2) {
		ck_assert_msg(d.t != NULL, "%s", d.text);
		sl_rpc_dial_drop(d.t);
		backend_term(p);
	} else {
		ck_assert_ptr_null(d.t);
		ck_assert_msg(strstr(d.text, "connection refused"), "%s", d.text);
	}
}
