/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link switches between all pairs of transports: each message under way arrives once and in
 * order. A peer that violates the protocol loses the link, and nothing else.
 */
#include <poll.h>
#include "rpc/session.h"
#include "rpc_load.h"
#include "suite.h"

enum { NUMBERED = 10000, MOVES = 100, LIAR = 7 };

/* Endpoints that a test goes back and forth between, and the list that a backend listens on. */
struct pair {
	char text[2][120], listen[256];
};

static const struct pair *pair_of(int i)
{
	static struct pair p;
	int n = (int)endpoint_cnt(), of[] = {i / n, i % n};

	for (unsigned k = 0; k < 2; k++)
		snprintf(p.text[k], sizeof(p.text[k]), "%.119s", endpoint_of(of[k]));
	snprintf(p.listen, sizeof(p.listen), "%s%s%s", p.text[0], of[0] == of[1] ? "" : ",",
		 of[0] == of[1] ? "" : p.text[1]);
	return &p;
}
/*
 * The last endpoint of an emulated machine is tcp: with itself, and by itself, it is tested on
 * others.
 */
#define EACH  (endpoint_cnt() - harness_emulated())
#define PAIRS (endpoint_cnt() * endpoint_cnt() - harness_emulated())

struct side {
	struct gateway g;
	struct sl_rpc_config cfg;
	const struct pair *pair;
	uint64_t link;
	unsigned moves, offered;
};

static unsigned moved_cnt, stayed_cnt;

static void on_moved(void *app, void *app_data, bool gone_on)
{
	(void)app, (void)app_data;
	*(gone_on ? &moved_cnt : &stayed_cnt) += 1;
}

static struct sl_transport *dial(const char *endpoint, uint64_t link, bool goes_on,
				 const struct sl_rpc_config *cfg)
{
	struct sl_rpc_dial_options opt = {.endpoint = endpoint,
					  .key_file = harness_key(),
					  .bulk_ring_len = cfg->bulk_ring_len,
					  .slots = cfg->slots,
					  .timeout_ms = 2000,
					  .link = link,
					  .resumes = goes_on};
	uint64_t until = sl_now_ns() + harness_timeout_s() * SL_NS_PER_SEC;
	struct sl_err err = SL_ERR(256);
	struct sl_transport *t;

	while (!(t = sl_rpc_dial(&opt, &err)) && sl_now_ns() < until)
		usleep(2000);
	ck_assert_msg(t != NULL, "%s", err.text);
	return t;
}

static void side_open(struct side *s, const struct pair *pair, const struct sl_rpc_config *cfg)
{
	static struct sl_rpc_ops ops;

	ops = gw_ops;
	ops.moved = on_moved;
	moved_cnt = stayed_cnt = 0;
	*s = (struct side){.cfg = *cfg, .pair = pair, .link = sl_rpc_link_number()};
	ck_assert_uint_ne(s->link, 0);
	s->g = (struct gateway){.r = sl_rpc_create(cfg, NULL, &ops, &s->g)};
	s->g.ch = sl_rpc_channel_add(s->g.r, "test", NULL);
	ck_assert_int_eq(
		sl_rpc_adopt(s->g.ch, dial(pair->text[0], s->link, false, cfg), sl_now_ns()), 0);
}

/* The other endpoint's turn, once it is at the last one's, and has been heard by the first. */
static void move_on(struct side *s)
{
	if (moved_cnt != s->offered || !s->g.done)
		return;
	s->offered++;
	ck_assert_int_eq(sl_rpc_adopt(s->g.ch,
				      dial(s->pair->text[s->offered % 2], s->link, true, &s->cfg),
				      sl_now_ns()),
			 0);
}

/* --- bodies of all sizes, both ways --- */

/* Many moves, in the midst of all that is under way. */
static void turn(void *arg)
{
	struct side *s = arg;

	if (s->g.done > (s->offered + 1) * load_total() / 24)
		move_on(s);
	gw_turn(&s->g);
}

static void carry(const struct pair *pair, bool small)
{
	struct sl_rpc_config cfg = load_config(small);
	struct backend_proc p = backend_start(&(struct sl_backend_options){
		.listen = pair->listen, .on_batch = load_echo, .bulk_ring_len = cfg.bulk_ring_len});
	struct side s;

	side_open(&s, pair, &cfg);
	load_carry(&s.g, 7, turn, &s);
	gw_until(&s.g, moved_cnt == s.offered);
	ck_assert_uint_ge(moved_cnt, 3);
	gw_close(&s.g);
	backend_term(p);
}

TEST_EACH(load_is_carried_over, PAIRS)
{
	carry(pair_of(_i), false);
}

TEST_EACH(load_is_carried_over_in_small_rings, PAIRS)
{
	carry(pair_of(_i), true);
}

/* --- order --- */

/* Answers with the number that it has expected. */
static void in_order(void *arg, struct sl_batch *batch)
{
	static uint32_t next;

	(void)arg;
	for (unsigned i = 0; i < batch->count; i++, next++)
		sl_reply(batch->requests[i],
			 &(struct sl_reply_args){.body = &next, .body_len = sizeof(next)});
}

TEST_EACH(numbered_messages_keep_their_order, PAIRS)
{
	static struct call calls[NUMBERED];
	static uint32_t numbers[NUMBERED];
	const struct pair *pair = pair_of(_i);
	struct sl_rpc_config cfg = load_config(false);
	struct backend_proc p = backend_start(
		&(struct sl_backend_options){.listen = pair->listen, .on_batch = in_order});
	const unsigned cnt = harness_part(NUMBERED), moves = harness_part(MOVES);
	struct side s;
	unsigned sent = 0;

	side_open(&s, pair, &cfg);
	while (s.g.done < cnt || moved_cnt < moves) {
		for (unsigned n = 0; n < 8 && sent < cnt; n++) {
			call_init(&calls[sent], sizeof(uint32_t));
			numbers[sent] = sent;
			if (gw_send(&s.g, &calls[sent], sl_span_of(NULL, 0),
				    sl_span_of(&numbers[sent], sizeof(uint32_t)), 0,
				    SL_CLASS_NORMAL))
				break;
			sent++;
		}
		if (s.offered < moves)
			move_on(&s);
		gw_turn(&s.g);
		ck_assert_uint_eq(s.g.downs, 0);
	}
	for (unsigned i = 0; i < cnt; i++) {
		uint32_t expected;

		ck_assert(calls[i].done);
		memcpy(&expected, calls[i].body, sizeof(expected));
		ck_assert_uint_eq(expected, i);
	}
	gw_until(&s.g, s.g.batches_done == cnt);
	gw_close(&s.g);
	backend_term(p);
}

/* --- what goes wrong --- */

static void expect_one_answer(struct side *s)
{
	unsigned done = s->g.done;
	struct call c;

	call_init(&c, 8);
	ck_assert_int_eq(
		gw_send(&s->g, &c, sl_span_of(NULL, 0), sl_span_str("hello"), 0, SL_CLASS_NORMAL),
		0);
	gw_until(&s->g, s->g.done == done + 1 && s->g.batches_done == s->g.sent);
	ck_assert_mem_eq(c.body, "hello", 5);
}

/* The same address may be another process' by now. */
TEST_EACH(nothing_goes_on_at_another_backend, EACH)
{
	const struct pair *pair = pair_of(_i * (int)endpoint_cnt() + _i);
	struct sl_rpc_config cfg = load_config(false);
	const struct sl_backend_options opt = {.listen = pair->listen, .on_batch = load_echo};
	struct backend_proc first = backend_start(&opt), second;
	struct side s;
	struct sl_transport *t;
	char other[120];

	side_open(&s, pair, &cfg);
	/* On the same host, somewhere else. */
	snprintf(other, sizeof(other), "shm:///tmp/sl-rpc-test-%d.other", (int)getpid());
	second =
		backend_start(&(struct sl_backend_options){.listen = other, .on_batch = load_echo});
	t = dial(other, s.link, true, &cfg);
	ck_assert_uint_ne(sl_rpc_transport_peer(t), 0);
	ck_assert_int_eq(sl_rpc_adopt(s.g.ch, t, sl_now_ns()), -EINVAL);
	expect_one_answer(&s);
	ck_assert_uint_eq(moved_cnt, 0);
	ck_assert_uint_eq(stayed_cnt, 1);
	gw_close(&s.g);
	backend_term(first);
	backend_term(second);
}

/* A peer without the link's number cannot take the link over, and the link stays as it was. */
TEST_EACH(a_number_that_is_no_links_is_refused, EACH)
{
	const struct pair *pair = pair_of(_i * (int)endpoint_cnt() + _i);
	struct sl_rpc_config cfg = load_config(false);
	struct backend_proc p = backend_start(
		&(struct sl_backend_options){.listen = pair->listen, .on_batch = load_echo});
	struct side s;

	side_open(&s, pair, &cfg);
	expect_one_answer(&s);
	ck_assert_int_eq(
		sl_rpc_adopt(s.g.ch, dial(pair->text[0], s.link ^ 1, true, &cfg), sl_now_ns()), 0);
	gw_until(&s.g, s.g.ch->link.move == SL_MOVE_NONE);
	expect_one_answer(&s);
	ck_assert_uint_eq(moved_cnt, 0);
	ck_assert_uint_eq(stayed_cnt, 1);
	move_on(&s);
	gw_until(&s.g, moved_cnt == 1);
	expect_one_answer(&s);
	ck_assert_uint_eq(s.g.downs, 0);
	gw_close(&s.g);
	backend_term(p);
}

/* The backend stands still, having met the gateway, and not answered its MIGRATE. */
static void stop_half_way(struct side *s, struct backend_proc p)
{
	for (;;) {
		move_on(s);
		gw_until(&s->g, s->g.ch->link.move == SL_MOVE_HALF);
		backend_pause(p);
		/* Words that it had sent before may still arrive. */
		for (unsigned i = 0; i < 20; i++) {
			usleep(1000);
			gw_turn(&s->g);
		}
		if (s->g.ch->link.move == SL_MOVE_HALF)
			return;
		kill(p.pid, SIGCONT);
		gw_until(&s->g, moved_cnt == s->offered);
	}
}

TEST_EACH(requests_fail_once_if_the_backend_dies_during_a_migration, PAIRS)
{
	static struct call calls[LOAD_CALLS];
	const struct pair *pair = pair_of(_i);
	struct sl_rpc_config cfg = load_config(false);
	struct backend_proc p = backend_start(
		&(struct sl_backend_options){.listen = pair->listen, .on_batch = load_echo});
	struct side s;

	side_open(&s, pair, &cfg);
	expect_one_answer(&s);
	stop_half_way(&s, p);
	for (unsigned i = 0; i < LOAD_CALLS; i++) {
		call_init(&calls[i], 8);
		ck_assert_int_eq(gw_send(&s.g, &calls[i], sl_span_of(NULL, 0), sl_span_str("x"), 0,
					 SL_CLASS_NORMAL),
				 0);
	}
	backend_kill(p);
	gw_until(&s.g, s.g.downs == 1);
	ck_assert_uint_eq(s.g.failed, LOAD_CALLS);
	gw_close(&s.g);
}

/* For good, or for a moment if odd. SL_RPC_CUT and SL_RPC_MEND are the commands for the cable. */
TEST_EACH(a_cut_half_way_costs_no_request_twice, 2 * PAIRS)
{
	static struct call calls[LOAD_CALLS];
	const struct pair *pair = pair_of(_i / 2);
	struct sl_rpc_config cfg = load_config(false);
	struct backend_proc p = backend_start(
		&(struct sl_backend_options){.listen = pair->listen, .on_batch = load_echo});
	struct side s;

	side_open(&s, pair, &cfg);
	expect_one_answer(&s);
	stop_half_way(&s, p);
	for (unsigned i = 0; i < LOAD_CALLS; i++) {
		call_init(&calls[i], 8);
		ck_assert_int_eq(gw_send(&s.g, &calls[i], sl_span_of(NULL, 0), sl_span_str("x"), 0,
					 SL_CLASS_NORMAL),
				 0);
	}
	harness_command("SL_RPC_CUT");
	kill(p.pid, SIGCONT);
	if (_i % 2)
		harness_command("SL_RPC_MEND");
	gw_until(&s.g, s.g.done + s.g.failed == LOAD_CALLS + 1 && s.g.batches_done == s.g.sent);
	ck_assert_uint_eq(s.g.failed, s.g.downs ? LOAD_CALLS + 1 - s.g.done : 0);
	/* It did cut. */
	ck_assert(_i % 2 || s.g.downs || !getenv("SL_RPC_CUT") ||
		  strncmp(pair->text[0], "rdma", 4) || strncmp(pair->text[1], "rdma", 4));
	if (_i % 2 == 0)
		harness_command("SL_RPC_MEND");
	gw_close(&s.g);
	side_open(&s, pair, &cfg);
	expect_one_answer(&s);
	gw_close(&s.g);
	backend_term(p);
}

/* Sleeps of 100 ms and more that nothing has ended before their time. */
static unsigned slept_out;

/* As a worker turns that has nothing else to do: it sleeps until something is due or has come. */
static void sleepy_turn(struct gateway *g)
{
	struct pollfd fd = {.fd = sl_rpc_fd(g->r), .events = POLLIN};
	uint64_t now = sl_now_ns(), next;

	sl_rpc_flush(g->r, now);
	if (sl_rpc_arm(g->r)) {
		next = sl_rpc_next_ns(g->r);
		if (next > now + harness_timeout_s() * SL_NS_PER_SEC)
			next = now + harness_timeout_s() * SL_NS_PER_SEC;
		if (!poll(&fd, 1, next > now ? (int)((next - now) / SL_NS_PER_MS) + 1 : 0))
			slept_out += next > now + 100 * SL_NS_PER_MS;
		sl_rpc_disarm(g->r, true);
	}
	(void)sl_rpc_poll(g->r, sl_now_ns());
}

/* How often it turns until the move is over. */
static unsigned sleep_through_move(struct side *s)
{
	unsigned turns = 0;

	for (; s->g.ch->state == SL_RPC_UP && s->g.ch->link.move; turns++)
		sleepy_turn(&s->g);
	return turns;
}

/* No step of a move waits for anything but what makes it possible. */
TEST_EACH(a_sleeping_end_is_woken_for_each_step, PAIRS)
{
	enum { SLEEPY_MOVES = 20, TURNS = 60 };
	const struct pair *pair = pair_of(_i);
	struct sl_rpc_config cfg = load_config(false);
	struct backend_proc p = backend_start(
		&(struct sl_backend_options){.listen = pair->listen, .on_batch = load_echo});
	unsigned turns = 0;
	const unsigned moves = harness_emulated() ? SLEEPY_MOVES / 4 : SLEEPY_MOVES;
	struct side s;

	slept_out = 0;
	cfg.ping_interval_ns = 1000 * SL_NS_PER_SEC; /* causes no wake-up */
	side_open(&s, pair, &cfg);
	expect_one_answer(&s);
	for (unsigned i = 0; i < moves; i++) {
		struct call c;

		move_on(&s);
		call_init(&c, 8);
		ck_assert_int_eq(gw_send(&s.g, &c, sl_span_of(NULL, 0), sl_span_str("hello"), 0,
					 SL_CLASS_NORMAL),
				 0);
		for (; moved_cnt != s.offered || !c.done; turns++)
			sleepy_turn(&s.g);
		ck_assert_uint_eq(s.g.downs, 0);
	}
	ck_assert_uint_le(turns, moves * TURNS);
	/* One that is not woken sleeps until the move is late, in each of them. */
	ck_assert_uint_lt(slept_out, moves / 2);
	gw_until(&s.g, s.g.batches_done == s.g.sent);
	gw_close(&s.g);
	backend_term(p);
}

/* It is not waited for for ever, nor awake: a transport's own timers wake some five times a second. */
TEST_EACH(a_backend_that_does_not_follow_loses_the_link, EACH)
{
	const struct pair *pair = pair_of(_i * (int)endpoint_cnt() + _i);
	struct sl_rpc_config cfg = load_config(false);
	struct backend_proc p = backend_start(
		&(struct sl_backend_options){.listen = pair->listen, .on_batch = load_echo});
	uint64_t began_ns;
	unsigned turns;
	struct side s;

	cfg.ping_interval_ns = 1000 * SL_NS_PER_SEC; /* not for its silence */
	side_open(&s, pair, &cfg);
	expect_one_answer(&s);
	stop_half_way(&s, p);
	began_ns = sl_now_ns();
	turns = sleep_through_move(&s);
	ck_assert_uint_le(turns, 20 + 20 * ((sl_now_ns() - began_ns) / SL_NS_PER_SEC));
	gw_until(&s.g, s.g.downs == 1);
	gw_close(&s.g);
	backend_kill(p);
}

/* One that does not even meet the gateway keeps it. */
TEST_EACH(a_backend_that_does_not_answer_by_the_other_way_keeps_the_link, EACH)
{
	const struct pair *pair = pair_of(_i * (int)endpoint_cnt() + _i);
	struct sl_rpc_config cfg = load_config(false);
	struct backend_proc p = backend_start(
		&(struct sl_backend_options){.listen = pair->listen, .on_batch = load_echo});
	struct sl_transport *t;
	struct side s;

	cfg.ping_interval_ns = 1000 * SL_NS_PER_SEC;
	side_open(&s, pair, &cfg);
	expect_one_answer(&s);
	t = dial(pair->text[0], s.link, true, &cfg);
	backend_pause(p);
	ck_assert_int_eq(sl_rpc_adopt(s.g.ch, t, sl_now_ns()), 0);
	ck_assert_uint_le(sleep_through_move(&s), 50);
	kill(p.pid, SIGCONT);
	expect_one_answer(&s);
	ck_assert_uint_eq(stayed_cnt, 1);
	ck_assert_uint_eq(s.g.downs, 0);
	gw_close(&s.g);
	backend_term(p);
}

/* --- gateways that lie --- */

static struct sl_rpc_header header(enum sl_rpc_type type)
{
	return (struct sl_rpc_header){.version_type = (uint8_t)(SL_RPC_VERSION << 4 | type),
				      .flags = SL_RPC_FIRST | SL_RPC_LAST};
}

static void say(struct sl_transport *t, enum sl_rpc_type type)
{
	const struct sl_rpc_header h = header(type);

	ck_assert_int_eq(t->ops->post(t, &h, NULL, 0, 0), 0);
	t->ops->flush(t);
}

/* Says PING, and hears the answer: it is there. */
static void greet(struct sl_transport *t)
{
	struct sl_message m;
	int n;

	say(t, SL_RPC_PING);
	while ((n = harness_poll(t, &m, 1)) == 0)
		usleep(100);
	ck_assert_int_eq(n, 1);
	t->ops->release(t, &m);
}

/* True: it has said before that it goes on by another transport. */
static bool await_end(struct sl_transport *t)
{
	uint64_t until = sl_now_ns() + harness_timeout_s() * SL_NS_PER_SEC;
	bool has_gone_on = false;
	struct sl_message m;
	int n;

	while ((n = harness_poll(t, &m, 1)) >= 0) {
		if (n) {
			has_gone_on |= (m.header.version_type & 15) == SL_RPC_MIGRATE;
			t->ops->release(t, &m);
		}
		t->ops->flush(t);
		(void)t->ops->check(t);
		ck_assert_msg(sl_now_ns() < until, "the liar's channel is still up");
		usleep(100);
	}
	return has_gone_on;
}

/* A gateway that says what it likes, by one transport and by those that it offers. */
struct liar {
	struct backend_proc p;
	struct sl_transport *ways[4];
	uint64_t link;
	unsigned way_cnt;
	char endpoint[120];
};

static struct sl_transport *come_by(struct liar *l)
{
	static const char owner;
	struct sl_rpc_config cfg = load_config(true);
	struct sl_transport *t = dial(l->endpoint, l->link, l->way_cnt > 0, &cfg);

	if (t->ops->attach)
		ck_assert_int_eq(t->ops->attach(t, &owner), 0);
	return l->ways[l->way_cnt++] = t;
}

static struct sl_transport *liar_open_as(struct liar *l, int endpoint, uint64_t link)
{
	*l = (struct liar){.link = link};
	snprintf(l->endpoint, sizeof(l->endpoint), "%.119s", endpoint_of(endpoint));
	l->p = backend_start(
		&(struct sl_backend_options){.listen = l->endpoint, .on_batch = load_echo});
	return come_by(l);
}

static struct sl_transport *liar_open(struct liar *l, int endpoint)
{
	return liar_open_as(l, endpoint, LIAR);
}

static void liar_close(struct liar *l)
{
	for (unsigned i = 0; i < l->way_cnt; i++)
		l->ways[i]->ops->close(l->ways[i]);
	backend_term(l->p);
}

/* No peer has used another transport for it. */
TEST_EACH(a_gateway_that_goes_on_by_nothing_loses_the_link, EACH)
{
	struct liar l;
	struct sl_transport *t = liar_open(&l, _i);

	say(t, SL_RPC_MIGRATE);
	await_end(t);
	liar_close(&l);
}

/* Its first words by another one are those, or that one is closed. */
TEST_EACH(a_new_link_whose_first_message_is_wrong_is_closed, EACH)
{
	struct liar l;
	struct sl_transport *t = liar_open(&l, _i), *next;

	greet(t);
	next = come_by(&l);
	say(next, SL_RPC_MIGRATE);
	await_end(next);
	/* The link is as it was. */
	greet(t);
	liar_close(&l);
}

/* A backend that has not heard yet that the first way is left does not refuse the third. */
TEST_EACH(a_third_way_ends_the_first, EACH)
{
	struct liar l;
	struct sl_transport *t = liar_open(&l, _i), *next;

	greet(t);
	next = come_by(&l);
	greet(next);
	say(t, SL_RPC_MIGRATE);
	greet(next);
	greet(come_by(&l));
	ck_assert(await_end(t));
	liar_close(&l);
}

/* Nor, of a gateway that has given the second up, whose end it may not have heard. */
TEST_EACH(a_third_way_takes_the_place_of_the_second, EACH)
{
	struct liar l;
	struct sl_transport *t = liar_open(&l, _i), *next, *third;

	greet(t);
	next = come_by(&l);
	greet(next);
	third = come_by(&l);
	greet(third);
	ck_assert(!await_end(next));
	say(t, SL_RPC_MIGRATE);
	greet(third);
	ck_assert(await_end(t));
	liar_close(&l);
}

/* It has died, or its gateway has given it up: that is noticed, and nothing stays behind for it. */
TEST_EACH(a_way_that_ends_before_it_is_used_is_forgotten, EACH)
{
	struct liar l;
	struct sl_transport *t = liar_open(&l, _i), *next;

	greet(t);
	next = come_by(&l);
	greet(next);
	next->ops->close(next);
	l.way_cnt--;
	usleep(200000);
	say(t, SL_RPC_MIGRATE);
	/*
	 * TCP reports the end to a reader, and there is none before the first transport has ended.
	 */
	ck_assert(!await_end(t) || strcmp(t->ops->name, "tcp") == 0);
	liar_close(&l);
}

/* A gateway without randomness gives all its links this number. */
TEST_EACH(a_link_without_a_number_does_not_go_on, EACH)
{
	struct liar l;
	struct sl_transport *t = liar_open_as(&l, _i, 0), *next;
	const struct sl_rpc_header ping = header(SL_RPC_PING);
	struct sl_message m;
	int n;

	greet(t);
	next = come_by(&l);
	(void)next->ops->post(next, &ping, NULL, 0, 0); /* unless it is closed already */
	next->ops->flush(next);
	while ((n = harness_poll(next, &m, 1)) == 0)
		(void)next->ops->check(next);
	ck_assert_int_lt(n, 0);
	greet(t);
	liar_close(&l);
}

/* No answer has come there. */
TEST_EACH(a_gateway_that_goes_on_unmet_loses_the_link, EACH)
{
	struct liar l;
	struct sl_transport *t = liar_open(&l, _i);

	greet(t);
	come_by(&l);
	usleep(50000); /* it has accepted that */
	say(t, SL_RPC_MIGRATE);
	ck_assert(!await_end(t));
	liar_close(&l);
}

/* Behind MIGRATE nothing may come by the old one, nor a second one by the new. */
TEST_EACH(a_message_behind_the_last_one_ends_the_link, endpoint_cnt() * 2)
{
	struct liar l;
	struct sl_transport *t = liar_open(&l, _i / 2), *next;

	greet(t);
	next = come_by(&l);
	greet(next);
	say(t, SL_RPC_MIGRATE);
	say(_i % 2 ? next : t, SL_RPC_MIGRATE);
	await_end(t);
	await_end(next);
	liar_close(&l);
}
