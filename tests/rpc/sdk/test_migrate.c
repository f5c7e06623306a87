/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link goes on by another transport, from each to each: whatever is under way arrives once, and in
 * order. Who does not keep to that talk loses the link, and nothing else.
 */
#include "base/rand.h"
#include "rpc/session.h"
#include "harness.h"
#include "suite.h"

enum { CALLS = 64, BODY_MAX = 600000, NUMBERED = 10000, MOVES = 100 };

/* Calls of each test that carries bodies: SL_RPC_LOAD, fewer where a machine is emulated. */
static unsigned total = 3000;

static void set_up(void)
{
	const char *load = getenv("SL_RPC_LOAD");

	if (load && strtoul(load, NULL, 10) >= CALLS)
		total = (unsigned)strtoul(load, NULL, 10);
}

FIXTURE(set_up, NULL)

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
#define PAIRS (endpoint_cnt() * endpoint_cnt())

struct side {
	struct gateway g;
	struct sl_rpc_config cfg;
	const struct pair *pair;
	uint64_t link;
	unsigned moves, offered;
};

static unsigned moved_cnt;

static void on_moved(void *app, void *app_data)
{
	(void)app, (void)app_data;
	moved_cnt++;
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
					  .goes_on = goes_on};
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
	moved_cnt = 0;
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

static struct sl_rpc_config config_of(bool small)
{
	struct sl_rpc_config cfg;

	sl_rpc_config_default(&cfg);
	if (small) {
		cfg.slots = SL_RPC_MIN_SLOTS;
		cfg.bulk_ring_len = SL_RPC_MIN_BULK;
	}
	return cfg;
}

/* --- bodies of all sizes, both ways --- */

static void echo(void *arg, struct sl_batch *batch)
{
	(void)arg;
	for (unsigned i = 0; i < batch->count; i++) {
		struct sl_request_view *rq = batch->requests[i];

		sl_reply(rq, &(struct sl_reply_args){.body = rq->body, .body_len = rq->body_len});
	}
}

struct slot {
	struct call c;
	uint8_t *body;
	uint32_t len;
	bool busy;
};

static uint32_t random_len(struct sl_prng *rng)
{
	switch (sl_prng_below(rng, 8)) {
	case 0: return (uint32_t)sl_prng_below(rng, BODY_MAX);
	case 1:
	case 2: return (uint32_t)sl_prng_below(rng, 20000);
	default: return (uint32_t)sl_prng_below(rng, 200);
	}
}

static bool start(struct gateway *g, struct slot *s, struct sl_prng *rng)
{
	uint8_t *reply = s->c.body, seed = (uint8_t)sl_prng_u64(rng);

	s->len = random_len(rng);
	for (uint32_t i = 0; i < s->len; i++)
		s->body[i] = (uint8_t)(i * 31 + seed);
	s->c = (struct call){.body = reply, .cap = BODY_MAX};
	s->busy = gw_send(g, &s->c, sl_span_of(NULL, 0), sl_span_of(s->body, s->len), 30000000,
			  1 + (unsigned)sl_prng_below(rng, 3)) == 0;
	return s->busy;
}

static void finish(struct slot *s)
{
	ck_assert_msg(!s->c.failed, "failed: %d", s->c.why);
	ck_assert_uint_eq(s->c.status, SL_RPC_OK);
	ck_assert_uint_eq(s->c.len, s->len);
	ck_assert_mem_eq(s->c.body, s->body, s->len);
	s->busy = false;
}

static void carry(const struct pair *pair, bool small)
{
	static struct slot slots[CALLS];
	struct sl_rpc_config cfg = config_of(small);
	struct backend_proc p = backend_start(&(struct sl_backend_options){
		.listen = pair->listen, .handle = echo, .bulk_ring_len = cfg.bulk_ring_len});
	struct side s;
	struct sl_prng rng;
	unsigned started = 0, busy;

	sl_prng_seed(&rng, 7);
	side_open(&s, pair, &cfg);
	for (unsigned i = 0; i < CALLS; i++) {
		slots[i].body = malloc(BODY_MAX);
		call_init(&slots[i].c, BODY_MAX);
	}
	do {
		busy = 0;
		for (unsigned i = 0; i < CALLS; i++) {
			if (slots[i].busy && (slots[i].c.done || slots[i].c.failed))
				finish(&slots[i]);
			if (!slots[i].busy && started < total)
				started += start(&s.g, &slots[i], &rng);
			busy += slots[i].busy;
		}
		/* Many times, in the midst of all that is under way. */
		if (s.g.done > (s.offered + 1) * total / 24)
			move_on(&s);
		gw_turn(&s.g);
		ck_assert_uint_eq(s.g.downs, 0);
	} while (busy || started < total);
	gw_until(&s.g, s.g.batches_done == total && moved_cnt == s.offered);
	ck_assert_uint_ge(moved_cnt, 3);
	for (unsigned i = 0; i < CALLS; i++) {
		free(slots[i].body);
		call_fini(&slots[i].c);
	}
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
	struct sl_rpc_config cfg = config_of(false);
	struct backend_proc p = backend_start(
		&(struct sl_backend_options){.listen = pair->listen, .handle = in_order});
	struct side s;
	unsigned sent = 0;

	side_open(&s, pair, &cfg);
	while (s.g.done < NUMBERED || moved_cnt < MOVES) {
		for (unsigned n = 0; n < 8 && sent < NUMBERED; n++) {
			call_init(&calls[sent], sizeof(uint32_t));
			numbers[sent] = sent;
			if (gw_send(&s.g, &calls[sent], sl_span_of(NULL, 0),
				    sl_span_of(&numbers[sent], sizeof(uint32_t)), 0,
				    SL_CLASS_NORMAL))
				break;
			sent++;
		}
		if (s.offered < MOVES)
			move_on(&s);
		gw_turn(&s.g);
		ck_assert_uint_eq(s.g.downs, 0);
	}
	for (unsigned i = 0; i < NUMBERED; i++) {
		uint32_t expected;

		ck_assert(calls[i].done);
		memcpy(&expected, calls[i].body, sizeof(expected));
		ck_assert_uint_eq(expected, i);
	}
	gw_until(&s.g, s.g.batches_done == NUMBERED);
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
TEST_EACH(nothing_goes_on_at_another_backend, endpoint_cnt())
{
	const struct pair *pair = pair_of(_i * (int)endpoint_cnt() + _i);
	struct sl_rpc_config cfg = config_of(false);
	const struct sl_backend_options opt = {.listen = pair->listen, .handle = echo};
	struct backend_proc first = backend_start(&opt), second;
	struct side s;
	struct sl_transport *t;
	char other[120];

	side_open(&s, pair, &cfg);
	/* On the same host, somewhere else. */
	snprintf(other, sizeof(other), "shm:///tmp/sl-rpc-test-%d.other", (int)getpid());
	second = backend_start(&(struct sl_backend_options){.listen = other, .handle = echo});
	t = dial(other, s.link, true, &cfg);
	ck_assert_uint_ne(sl_rpc_transport_peer(t), 0);
	ck_assert_int_eq(sl_rpc_adopt(s.g.ch, t, sl_now_ns()), -1);
	expect_one_answer(&s);
	ck_assert_uint_eq(moved_cnt, 0);
	gw_close(&s.g);
	backend_term(first);
	backend_term(second);
}

/* Who does not know a link's number cannot take it over, and the link goes on as it was. */
TEST_EACH(a_number_that_is_no_links_is_refused, endpoint_cnt())
{
	const struct pair *pair = pair_of(_i * (int)endpoint_cnt() + _i);
	struct sl_rpc_config cfg = config_of(false);
	struct backend_proc p =
		backend_start(&(struct sl_backend_options){.listen = pair->listen, .handle = echo});
	struct side s;

	side_open(&s, pair, &cfg);
	expect_one_answer(&s);
	ck_assert_int_eq(
		sl_rpc_adopt(s.g.ch, dial(pair->text[0], s.link ^ 1, true, &cfg), sl_now_ns()), 0);
	gw_until(&s.g, s.g.ch->link.move == SL_MOVE_NONE);
	expect_one_answer(&s);
	ck_assert_uint_eq(moved_cnt, 0);
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
		gw_turn(&s->g);
		if (s->g.ch->link.move == SL_MOVE_HALF)
			return;
		kill(p.pid, SIGCONT);
		gw_until(&s->g, moved_cnt == s->offered);
	}
}

TEST_EACH(requests_fail_once_if_the_backend_dies_half_way, PAIRS)
{
	static struct call calls[CALLS];
	const struct pair *pair = pair_of(_i);
	struct sl_rpc_config cfg = config_of(false);
	struct backend_proc p =
		backend_start(&(struct sl_backend_options){.listen = pair->listen, .handle = echo});
	struct side s;

	side_open(&s, pair, &cfg);
	expect_one_answer(&s);
	stop_half_way(&s, p);
	for (unsigned i = 0; i < CALLS; i++) {
		call_init(&calls[i], 8);
		ck_assert_int_eq(gw_send(&s.g, &calls[i], sl_span_of(NULL, 0), sl_span_str("x"), 0,
					 SL_CLASS_NORMAL),
				 0);
	}
	backend_kill(p);
	gw_until(&s.g, s.g.downs == 1);
	ck_assert_uint_eq(s.g.failed, CALLS);
	gw_close(&s.g);
}

/* It is not waited for for ever. */
TEST(a_backend_that_does_not_follow_loses_the_link)
{
	const struct pair *pair = pair_of(0);
	struct sl_rpc_config cfg = config_of(false);
	struct backend_proc p =
		backend_start(&(struct sl_backend_options){.listen = pair->listen, .handle = echo});
	struct side s;

	cfg.ping_interval_ns = 1000 * SL_NS_PER_SEC; /* not for its silence */
	side_open(&s, pair, &cfg);
	expect_one_answer(&s);
	stop_half_way(&s, p);
	gw_until(&s.g, s.g.downs == 1);
	gw_close(&s.g);
	backend_kill(p);
}

/* One that does not even meet the gateway keeps it. */
TEST(a_backend_that_does_not_answer_by_the_other_way_keeps_the_link)
{
	const struct pair *pair = pair_of(0);
	struct sl_rpc_config cfg = config_of(false);
	struct backend_proc p =
		backend_start(&(struct sl_backend_options){.listen = pair->listen, .handle = echo});
	struct sl_transport *t;
	struct side s;

	cfg.ping_interval_ns = 1000 * SL_NS_PER_SEC;
	side_open(&s, pair, &cfg);
	expect_one_answer(&s);
	t = dial(pair->text[0], s.link, true, &cfg);
	backend_pause(p);
	ck_assert_int_eq(sl_rpc_adopt(s.g.ch, t, sl_now_ns()), 0);
	gw_until(&s.g, s.g.ch->link.move == SL_MOVE_NONE);
	kill(p.pid, SIGCONT);
	expect_one_answer(&s);
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

static struct sl_transport *dial_raw(const char *ep)
{
	static const char owner;
	struct sl_rpc_config cfg = config_of(false);
	struct sl_transport *t = dial(ep, 0, true, &cfg);

	if (t->ops->attach)
		ck_assert_int_eq(t->ops->attach(t, &owner), 0);
	return t;
}

/* Nobody has met it by another transport. */
TEST_EACH(a_gateway_that_goes_on_by_nothing_loses_the_link, endpoint_cnt())
{
	const char *ep = pair_of(_i * ((int)endpoint_cnt() + 1))->text[0];
	struct backend_proc p =
		backend_start(&(struct sl_backend_options){.listen = ep, .handle = echo});
	struct sl_transport *t = raw_dial(ep, 64, SL_RPC_MIN_BULK);

	say(t, SL_RPC_MIGRATE);
	await_end(t);
	t->ops->close(t);
	backend_term(p);
}

/* Its first words by another one are those, or that one is closed. */
TEST_EACH(a_gateway_that_says_something_else_first_is_not_met, endpoint_cnt())
{
	const char *ep = pair_of(_i * ((int)endpoint_cnt() + 1))->text[0];
	struct backend_proc p =
		backend_start(&(struct sl_backend_options){.listen = ep, .handle = echo});
	struct sl_transport *t = raw_dial(ep, 64, SL_RPC_MIN_BULK), *next;

	greet(t);
	next = dial_raw(ep);
	say(next, SL_RPC_MIGRATE);
	await_end(next);
	next->ops->close(next);
	/* The link is as it was. */
	greet(t);
	t->ops->close(t);
	backend_term(p);
}

/* A backend that has not heard yet that the first way is left does not refuse the third. */
TEST_EACH(a_third_way_ends_the_first, endpoint_cnt())
{
	const char *ep = pair_of(_i * ((int)endpoint_cnt() + 1))->text[0];
	struct backend_proc p =
		backend_start(&(struct sl_backend_options){.listen = ep, .handle = echo});
	struct sl_transport *t = raw_dial(ep, 64, SL_RPC_MIN_BULK), *next, *third;

	greet(t);
	next = dial_raw(ep);
	greet(next);
	say(t, SL_RPC_MIGRATE);
	greet(next);
	third = dial_raw(ep);
	greet(third);
	ck_assert(await_end(t));
	t->ops->close(t);
	next->ops->close(next);
	third->ops->close(third);
	backend_term(p);
}

/* Nobody has answered it there. */
TEST_EACH(a_gateway_that_goes_on_unmet_loses_the_link, endpoint_cnt())
{
	const char *ep = pair_of(_i * ((int)endpoint_cnt() + 1))->text[0];
	struct sl_rpc_config cfg = config_of(false);
	struct backend_proc p =
		backend_start(&(struct sl_backend_options){.listen = ep, .handle = echo});
	struct sl_transport *t = raw_dial(ep, 64, SL_RPC_MIN_BULK), *next;

	greet(t);
	next = dial(ep, 0, true, &cfg);
	usleep(50000); /* it has accepted that */
	say(t, SL_RPC_MIGRATE);
	ck_assert(!await_end(t));
	next->ops->close(next);
	t->ops->close(t);
	backend_term(p);
}

/* Behind MIGRATE nothing may come by the old one, nor a second one by the new. */
TEST_EACH(what_comes_behind_the_last_message_ends_the_link, endpoint_cnt() * 2)
{
	const char *ep = pair_of(_i / 2 * ((int)endpoint_cnt() + 1))->text[0];
	struct backend_proc p =
		backend_start(&(struct sl_backend_options){.listen = ep, .handle = echo});
	struct sl_transport *t = raw_dial(ep, 64, SL_RPC_MIN_BULK), *next;

	greet(t);
	next = dial_raw(ep);
	greet(next);
	say(t, SL_RPC_MIGRATE);
	say(_i % 2 ? next : t, SL_RPC_MIGRATE);
	await_end(t);
	await_end(next);
	t->ops->close(t);
	next->ops->close(next);
	backend_term(p);
}
