/* SPDX-License-Identifier: Apache-2.0 */
/* Requests in parts: what a gateway sends, a backend hears, in order, once, and within its credit. */
#include <pthread.h>
#include "base/check.h"
#define HARNESS_ENDPOINTS "shm,tcp,ud,ud-lossy"
#include "rpc_harness.h"
#include "suite.h"

enum { MESSAGES = 200, MOST = 20000, TURNS = 50, MANY = 6000 };

/* Marks that backend and gateway process share. */
struct shared {
	_Atomic unsigned opened, ended, cancelled, data, resume, trailers, expected;
	_Atomic size_t heard;
};
static struct shared *shared;

static void setup(void)
{
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(shared, MAP_FAILED);
}

FIXTURE(setup, NULL)
SUITE_TIMEOUT(4 * harness_timeout_s())

static uint8_t byte_at(size_t i)
{
	return (uint8_t)(i * 7 + i / 251);
}

static uint32_t len_of(unsigned message)
{
	return message % 7 ? message * 97 % MOST : 0;
}

/* --- the backend: says how long each message was, and at the end how many bytes were wrong --- */

static struct {
	size_t at, message, wrong;
	unsigned heard; /* messages */
	struct sl_request_view *paused;
} ear;

static void on_open(void *arg, struct sl_request_view *rq)
{
	static const struct sl_reply_args yes = {.status = 101, .more = true};
	const char *protocol;
	size_t len;

	ear.at = ear.message = ear.wrong = 0;
	ear.heard = 0;
	shared->opened++;
	if (rq->expect_continue) {
		shared->expected++;
		ck_assert_int_eq(sl_stream_send_continue(rq), 0);
	}
	ck_assert_int_eq(sl_stream_send_continue(rq), -EINVAL);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
	ck_assert_int_eq(rq->expects, rq->expect_continue);
	ck_assert_int_eq(sl_stream_go_on(rq), -EINVAL);
#pragma GCC diagnostic pop
	if (sl_request_header(rq, "upgrade", &protocol, &len))
		ck_assert_int_eq(sl_reply(rq, &yes), -EINVAL);
	if (arg) {
		ear.paused = rq;
		sl_stream_pause(rq);
	}
}

static void on_data(void *arg, struct sl_request_view *rq, const void *bytes, size_t len,
		    size_t left)
{
	uint32_t n;

	(void)arg;
	for (size_t i = 0; i < len; i++)
		ear.wrong += ((const uint8_t *)bytes)[i] != byte_at(ear.at + i);
	ear.at += len;
	ear.message += len;
	ear.wrong += !arg && left != len_of(ear.heard) - ear.message;
	shared->heard = ear.at;
	shared->data++;
	if (left)
		return;
	ear.heard++;
	n = (uint32_t)ear.message;
	ear.message = 0;
	ck_assert_int_eq(
		sl_reply(rq, &(struct sl_reply_args){.body = &n, .body_len = 4, .more = true}), 0);
}

static void on_end(void *arg, struct sl_request_view *rq)
{
	uint32_t wrong = (uint32_t)ear.wrong;
	const char *sum;
	size_t len;

	(void)arg;
	shared->ended++;
	if (rq->trailers_len)
		ck_assert(sl_request_trailer(rq, "sum", &sum, &len) && len == 2 &&
			  !memcmp(sum, "17", 2) && !sl_request_header(rq, "sum", &sum, &len) &&
			  !sl_request_trailer(rq, "su", &sum, &len));
	shared->trailers += rq->trailers_len;
	sl_reply(rq, &(struct sl_reply_args){.body = &wrong, .body_len = 4});
}

static void on_cancel(void *arg, struct sl_request_view *rq)
{
	(void)arg;
	shared->cancelled++;
	sl_reply_error(rq, SL_RPC_CANCELLED);
}

static const struct sl_stream_ops on_stream = {
	.on_open = on_open, .on_data = on_data, .on_end = on_end, .on_cancel = on_cancel};

/* Its own thread resumes, when the test says so. */
static void *resumer(void *arg)
{
	while (!shared->resume)
		usleep(1000);
	sl_stream_resume(ear.paused);
	return arg;
}

static void batch(void *arg, struct sl_batch *b)
{
	pthread_t t;

	(void)arg;
	for (unsigned i = 0; i < b->count; i++)
		sl_reply(b->requests[i], &(struct sl_reply_args){.body = NULL});
	ck_assert_int_eq(pthread_create(&t, NULL, resumer, NULL), 0);
	pthread_detach(t);
}

static struct backend_proc start(const char *ep, bool paused, bool is_inline)
{
	return backend_start(&(struct sl_backend_options){.listen = ep,
							  .on_batch = batch,
							  .arg = paused ? &ear : NULL,
							  .on_stream = &on_stream,
							  .inline_handler = is_inline});
}

/* --- the gateway --- */

static unsigned credits;

static void note_credit(void *app, void *cookie)
{
	(void)app, (void)cookie;
	credits++;
}

static unsigned told;

static void note_go_on(void *app, void *cookie)
{
	(void)app, (void)cookie;
	told++;
}

static void open_gateway(struct gateway *g, const char *ep)
{
	static struct sl_rpc_ops ops;
	struct sl_rpc_config cfg;

	sl_rpc_config_default(&cfg);
	ops = gw_ops;
	ops.credit = note_credit;
	ops.go_on = note_go_on;
	gw_open_ops(g, ep, &cfg, &ops);
}

static void open_with(struct gateway *g, struct call *c, bool open, struct sl_span meta, size_t cap)
{
	struct sl_rpc_item it = {.cookie = c,
				 .stream = true,
				 .open = open,
				 .class = SL_CLASS_NORMAL,
				 .spans = &meta,
				 .span_cnt = 1,
				 .meta_len = (uint16_t)meta.len};
	uint64_t number;

	call_init(c, cap);
	ck_assert_int_eq(sl_rpc_send(g->ch, &it, 1, sl_now_ns(), &number), 0);
	c->id = it.id;
}

static void open_stream(struct gateway *g, struct call *c, bool open)
{
	open_with(g, c, open, sl_span_of(NULL, 0), 1 << 20);
}

/* As much of a message as the credit is for; how much. */
static uint32_t send_piece(struct gateway *g, const struct call *c, size_t at, uint32_t left)
{
	static uint8_t bytes[MOST];
	uint32_t credit = sl_rpc_part_credit(g->ch, c->id), len = left < credit ? left : credit;
	struct sl_span span = sl_span_of(bytes, len);
	struct sl_rpc_part part = {.spans = &span, .span_cnt = 1, .len = len, .rest = left - len};

	for (uint32_t i = 0; i < len; i++)
		bytes[i] = byte_at(at + i);
	ck_assert_int_eq(sl_rpc_send_part(g->ch, c->id, &part, SL_CLASS_NORMAL, sl_now_ns()), 0);
	return len;
}

static void send_end(struct gateway *g, const struct call *c)
{
	struct sl_rpc_part end = {.end = true};

	ck_assert_int_eq(sl_rpc_send_part(g->ch, c->id, &end, SL_CLASS_NORMAL, sl_now_ns()), 0);
}

static void stream(int i, bool is_inline)
{
	const char *ep = endpoint_of(i);
	struct backend_proc p = start(ep, false, is_inline);
	struct gateway g;
	struct call c;
	size_t at = 0;

	open_gateway(&g, ep);
	open_stream(&g, &c, true);
	for (unsigned m = 0; m < MESSAGES; m++) {
		uint32_t left = len_of(m);

		do {
			gw_until(&g, sl_rpc_part_credit(g.ch, c.id));
			uint32_t n = send_piece(&g, &c, at, left);

			left -= n;
			at += n;
		} while (left);
	}
	/* All but the end has come back before there is one: both ways at the same time. */
	gw_until(&g, c.messages == MESSAGES);
	ck_assert(!c.done);
	send_end(&g, &c);
	gw_until(&g, c.done && g.batches_done == 1);
	ck_assert_uint_eq(c.len, 4 * (MESSAGES + 1));
	for (unsigned m = 0; m <= MESSAGES; m++) {
		uint32_t n;

		memcpy(&n, c.body + 4 * (size_t)m, 4);
		ck_assert_uint_eq(n, m < MESSAGES ? len_of(m) : 0);
	}
	ck_assert_uint_eq(shared->ended, 1);
	ck_assert_uint_eq(shared->cancelled, 0);
	ck_assert_uint_gt(credits, 10);
	call_fini(&c);
	gw_close(&g);
	backend_term(p);
}

TEST_EACH(parts_arrive_in_order, endpoint_cnt())
{
	stream(_i, false);
}

TEST_EACH(parts_arrive_in_order_at_an_inline_handler, endpoint_cnt())
{
	stream(_i, true);
}

TEST_EACH(a_stream_without_parts_ends_at_once, endpoint_cnt())
{
	const char *ep = endpoint_of(_i);
	struct backend_proc p = start(ep, false, false);
	struct gateway g;
	struct call c;

	open_gateway(&g, ep);
	open_stream(&g, &c, false);
	gw_until(&g, c.done);
	ck_assert_uint_eq(c.len, 4);
	ck_assert_uint_eq(shared->opened, 1);
	ck_assert_uint_eq(sl_rpc_part_credit(g.ch, c.id), 0);
	call_fini(&c);
	gw_close(&g);
	backend_term(p);
}

static const uint8_t trailers[] = {SL_META_TRAILER, 0, 6, 0, 3, 's', 'u', 'm', '1', '7'};

TEST_EACH(an_end_has_trailers, endpoint_cnt())
{
	const char *ep = endpoint_of(_i);
	struct backend_proc p = start(ep, false, false);
	struct sl_span span = sl_span_of(trailers, sizeof(trailers));
	struct sl_rpc_part end = {
		.spans = &span, .span_cnt = 1, .len = sizeof(trailers), .end = true};
	struct gateway g;
	struct call c;

	open_gateway(&g, ep);
	open_stream(&g, &c, true);
	ck_assert_int_eq(sl_rpc_send_part(g.ch, c.id, &end, SL_CLASS_NORMAL, sl_now_ns()), 0);
	gw_until(&g, c.done);
	ck_assert_uint_eq(shared->trailers, sizeof(trailers));
	ck_assert_uint_eq(c.len, 4);
	call_fini(&c);
	gw_close(&g);
	backend_term(p);
}

/* It is told before anything of the reply, once; and only if it expects that. */
TEST_EACH(a_stream_with_expect_gets_its_go_on, 2 * endpoint_cnt())
{
	const char *ep = endpoint_of(_i / 2);
	struct backend_proc p = start(ep, false, _i & 1);
	struct sl_rpc_item it = {.stream = true, .open = true, .expects = true, .class = 1};
	struct gateway g;
	struct call c, other;
	uint64_t number;

	told = 0;
	open_gateway(&g, ep);
	call_init(&c, 64);
	it.cookie = &c;
	ck_assert_int_eq(sl_rpc_send(g.ch, &it, 1, sl_now_ns(), &number), 0);
	c.id = it.id;
	open_stream(&g, &other, true);
	gw_until(&g, told && shared->opened == 2);
	ck_assert(!c.parts && !c.done);
	send_end(&g, &c);
	send_end(&g, &other);
	gw_until(&g, c.done && other.done);
	ck_assert_uint_eq(told, 1);
	ck_assert_uint_eq(shared->expected, 1);
	call_fini(&c);
	call_fini(&other);
	gw_close(&g);
	backend_term(p);
}

/* A program that knows nothing of upgrades hears a request without a body. */
TEST_EACH(an_upgrade_is_ignored, endpoint_cnt())
{
	static const uint8_t meta[] = {
		SL_META_HEADER, 0, 11, 0, 7, 'u', 'p', 'g', 'r', 'a', 'd', 'e', 'r', 'a', 'w'};
	const char *ep = endpoint_of(_i);
	struct backend_proc p = start(ep, false, false);
	struct gateway g;
	struct call c;

	open_gateway(&g, ep);
	open_with(&g, &c, true, sl_span_of(meta, sizeof(meta)), 64);
	gw_until(&g, c.done);
	ck_assert_uint_eq(c.len, 4);
	ck_assert_uint_eq(shared->opened, 1);
	ck_assert_uint_eq(shared->ended, 1);
	call_fini(&c);
	gw_close(&g);
	backend_term(p);
}

/* More than a channel takes batches, and all of them are open at the same time. */
TEST_EACH(thousands_are_opened_at_once, endpoint_cnt())
{
	const char *ep = endpoint_of(_i);
	struct backend_proc p = start(ep, false, false);
	const unsigned cnt = harness_part(MANY);
	struct call *calls = calloc(cnt, sizeof(*calls));
	struct gateway g;

	ck_assert_ptr_nonnull(calls);
	open_gateway(&g, ep);
	for (unsigned i = 0; i < cnt; i++)
		open_with(&g, &calls[i], true, sl_span_of(NULL, 0), 64);
	gw_until(&g, shared->opened == cnt);
	for (unsigned i = 0; i < cnt; i++)
		send_end(&g, &calls[i]);
	gw_until(&g, g.batches_done == cnt);
	for (unsigned i = 0; i < cnt; i++) {
		ck_assert_uint_eq(calls[i].len, 4);
		call_fini(&calls[i]);
	}
	free(calls);
	gw_close(&g);
	backend_term(p);
}

TEST_EACH(a_paused_stream_stops_its_gateway, endpoint_cnt())
{
	const char *ep = endpoint_of(_i);
	struct backend_proc p = start(ep, true, false);
	struct gateway g;
	struct call c, whole;
	size_t at = 0;

	open_gateway(&g, ep);
	/* Begins the thread that resumes. */
	call_init(&whole, 64);
	ck_assert_int_eq(
		gw_send(&g, &whole, sl_span_of(NULL, 0), sl_span_str("x"), 0, SL_CLASS_NORMAL), 0);
	gw_until(&g, whole.done);
	open_stream(&g, &c, true);
	for (unsigned i = 0; i < TURNS; usleep(1000), i++) {
		gw_turn(&g);
		if (sl_rpc_part_credit(g.ch, c.id))
			at += send_piece(&g, &c, at, MOST - 1);
	}
	ck_assert_uint_le(at, SL_RPC_PART_WINDOW);
	ck_assert_uint_gt(at, SL_RPC_PART_WINDOW / 2);
	ck_assert_uint_eq(shared->data, 0);
	shared->resume = 1;
	gw_until(&g, sl_rpc_part_credit(g.ch, c.id));
	ck_assert_uint_eq(shared->heard, at);
	sl_rpc_cancel(g.ch, c.id);
	gw_until(&g, shared->cancelled == 1);
	gw_until(&g, g.batches_done == 2);
	call_fini(&c);
	gw_close(&g);
	backend_term(p);
}

TEST_EACH(a_cancelled_stream_gets_one_upcall, endpoint_cnt())
{
	const char *ep = endpoint_of(_i);
	struct backend_proc p = start(ep, false, false);
	struct gateway g;
	struct call c;

	open_gateway(&g, ep);
	open_stream(&g, &c, true);
	send_piece(&g, &c, 0, 100);
	gw_until(&g, c.messages == 1);
	sl_rpc_cancel(g.ch, c.id);
	gw_until(&g, shared->cancelled);
	ck_assert_int_eq(sl_rpc_send_part(g.ch, c.id, &(struct sl_rpc_part){.end = true},
					  SL_CLASS_NORMAL, sl_now_ns()),
			 -EINVAL);
	for (unsigned i = 0; i < TURNS; i++)
		gw_turn(&g);
	ck_assert_uint_eq(shared->cancelled, 1);
	ck_assert_uint_eq(shared->ended, 0);
	call_fini(&c);
	gw_close(&g);
	backend_term(p);
}

/* --- before a reply --- */

static void hint(struct sl_request_view *rq)
{
	static const struct sl_header_arg link = {.name = "link", .value = "</a>", .value_len = 4};
	struct sl_reply_args a = {.headers = &link, .header_cnt = 1, .body = "not said"};
	char *large = calloc(1, SL_RPC_MAX_META);
	const struct sl_header_arg much = {
		.name = "x", .value = large, .value_len = SL_RPC_MAX_META};
	const struct sl_reply_args too_much = {.status = 103, .headers = &much, .header_cnt = 1};

	for (unsigned status = 0; status < 600; status++) {
		a.status = (uint16_t)status;
		if (status <= 101 || status > 199)
			ck_assert_int_eq(sl_reply_interim(rq, &a), -EINVAL);
	}
	ck_assert_int_eq(sl_reply_interim(rq, &too_much), -EMSGSIZE);
	free(large);
	a.status = 103;
	for (unsigned i = 0; i < SL_RPC_MAX_INTERIM; i++)
		ck_assert_int_eq(sl_reply_interim(rq, &a), 0);
	ck_assert_int_eq(sl_reply_interim(rq, &a), -EINVAL);
}

static void hint_batch(void *arg, struct sl_batch *b)
{
	(void)arg;
	for (unsigned i = 0; i < b->count; i++) {
		hint(b->requests[i]);
		ck_assert_int_eq(sl_reply(b->requests[i], &(struct sl_reply_args){.body = NULL}),
				 0);
	}
}

static void hint_open(void *arg, struct sl_request_view *rq)
{
	const struct sl_reply_args a = {.status = 103};

	(void)arg;
	hint(rq);
	ck_assert_int_eq(sl_reply(rq, &(struct sl_reply_args){.more = true}), 0);
	ck_assert_int_eq(sl_reply_interim(rq, &a), -EINVAL);
}

/*
 * Messages that a backend sends before its reply arrive before it, in streams and in unary calls.
 */
TEST_EACH(interim_replies_come_first, 4 * endpoint_cnt())
{
	static const uint8_t want[] = {SL_META_STATUS,
				       0,
				       2,
				       0,
				       103,
				       0,
				       SL_META_HEADER,
				       0,
				       9,
				       0,
				       4,
				       'l',
				       'i',
				       'n',
				       'k',
				       '<',
				       '/',
				       'a',
				       '>'};
	static const struct sl_stream_ops ops = {
		.on_open = hint_open, .on_data = on_data, .on_end = on_end, .on_cancel = on_cancel};
	const char *ep = endpoint_of(_i / 4);
	struct backend_proc p = backend_start(&(struct sl_backend_options){
		.listen = ep, .on_batch = hint_batch, .on_stream = &ops, .inline_handler = _i & 1});
	struct gateway g;
	struct call c;

	open_gateway(&g, ep);
	if (_i & 2) {
		open_stream(&g, &c, true);
		gw_until(&g, c.messages == 1);
		send_end(&g, &c);
	} else {
		call_init(&c, 64);
		ck_assert_int_eq(
			gw_send(&g, &c, sl_span_of(NULL, 0), sl_span_str("x"), 0, SL_CLASS_NORMAL),
			0);
	}
	gw_until(&g, c.done);
	ck_assert_uint_eq(g.interims, SL_RPC_MAX_INTERIM);
	ck_assert_uint_eq(g.interim_len, sizeof(want));
	ck_assert_mem_eq(g.interim, want, sizeof(want));
	call_fini(&c);
	gw_close(&g);
	backend_term(p);
}

/* --- streams of two classes: what is urgent overtakes what waits, both ways --- */

enum { BULKS = 32, BULK_PART = 1000, ROUNDS = 10 };

/* Bytes of the bulk streams in one direction. */
struct lane {
	_Atomic uint64_t said, heard;
	_Atomic uint64_t before; /* heard when an urgent part was said */
	_Atomic uint64_t waited; /* said by then, and not heard */
	_Atomic uint64_t passed; /* messages of this number that arrived before the urgent part */
};
static struct race {
	struct lane up, down; /* towards the backend, towards the gateway */
} * race;

static struct sl_request_view *bulks[BULKS];
static unsigned bulk_cnt;

static void say_urgent(struct lane *l)
{
	l->before = l->heard;
	l->waited = l->said - l->before;
}

static void hear_urgent(struct lane *l)
{
	l->passed = l->heard - l->before;
}

static void on_racer(void *arg, struct sl_request_view *rq)
{
	(void)arg;
	if (rq->priority == SL_CLASS_BULK && bulk_cnt < BULKS)
		bulks[bulk_cnt++] = rq;
	shared->opened++;
}

/* The urgent part is answered behind all that may be said of the others. */
static void on_race(void *arg, struct sl_request_view *rq, const void *bytes, size_t len,
		    size_t left)
{
	static const char text[BULK_PART];
	const struct sl_reply_args part = {.body = text, .body_len = BULK_PART, .more = true};
	const struct sl_reply_args word = {.body = "now", .body_len = 3, .more = true};

	(void)arg, (void)bytes, (void)left;
	for (unsigned i = 0; i < bulk_cnt; i++) {
		if (rq != bulks[i])
			continue;
		race->up.heard += len;
		return;
	}
	hear_urgent(&race->up);
	for (unsigned i = 0; i < bulk_cnt; i++) {
		while (sl_reply(bulks[i], &part) == 0)
			race->down.said += BULK_PART;
	}
	say_urgent(&race->down);
	sl_reply(rq, &word);
}

static void on_race_end(void *arg, struct sl_request_view *rq)
{
	(void)arg;
	sl_reply(rq, &(struct sl_reply_args){.no_message = true});
}

static const struct sl_stream_ops on_races = {
	.on_open = on_racer, .on_data = on_race, .on_end = on_race_end, .on_cancel = on_cancel};

static const struct call *urgent;

static void note_race(void *app, void *cookie, const struct sl_rpc_reply *r)
{
	struct call *c = cookie;

	if (c != urgent)
		race->down.heard += r->body.len;
	else
		hear_urgent(&race->down);
	c->len = 0; /* nothing is kept */
	gw_ops.reply(app, cookie, r);
}

static void open_racer(struct gateway *g, struct call *c, enum sl_rpc_class class)
{
	struct sl_rpc_item it = {.cookie = c, .stream = true, .open = true, .class = class};
	uint64_t number;

	call_init(c, MOST);
	ck_assert_int_eq(sl_rpc_send(g->ch, &it, 1, sl_now_ns(), &number), 0);
	c->id = it.id;
}

static void send_racer(struct gateway *g, const struct call *c, uint32_t len,
		       enum sl_rpc_class class)
{
	static const uint8_t bytes[BULK_PART];
	struct sl_span span = sl_span_of(bytes, len);
	struct sl_rpc_part part = {.spans = &span, .span_cnt = 1, .len = len};

	ck_assert_int_eq(sl_rpc_send_part(g->ch, c->id, &part, class, sl_now_ns()), 0);
}

/* Where much waits, an urgent part comes before most of it. */
static void ck_overtakes(const struct lane *l, const char *where)
{
	ck_assert_uint_gt(l->waited, BULKS * 6 * BULK_PART);
	ck_assert_msg(l->passed <= l->waited / 4, "%s: behind %llu of %llu bytes", where,
		      (unsigned long long)l->passed, (unsigned long long)l->waited);
}

/* Few slots and a small ring: what has been posted cannot be overtaken. */
static void open_narrow(struct gateway *g, const char *ep)
{
	static struct sl_rpc_ops ops;
	struct sl_rpc_config cfg;

	sl_rpc_config_default(&cfg);
	cfg.slots = 64;
	cfg.bulk_ring_len = 64 << 10;
	ops = gw_ops;
	ops.reply = note_race;
	gw_open_ops(g, ep, &cfg, &ops);
}

TEST_EACH(urgent_parts_overtake_bulk_ones, endpoint_cnt())
{
	const char *ep = endpoint_of(_i);
	struct backend_proc p;
	struct call bulk[BULKS], fast;
	struct gateway g;

	race = (struct race *)(shared + 1);
	p = backend_start(&(struct sl_backend_options){
		.listen = ep, .on_batch = batch, .on_stream = &on_races, .inline_handler = true});
	urgent = &fast;
	open_narrow(&g, ep);
	for (unsigned i = 0; i < BULKS; i++)
		open_racer(&g, &bulk[i], SL_CLASS_BULK);
	open_racer(&g, &fast, SL_CLASS_LATENCY);
	gw_until(&g, shared->opened == BULKS + 1);
	for (unsigned n = 1; n <= ROUNDS; n++) {
		for (unsigned i = 0; i < BULKS; i++) {
			while (sl_rpc_part_credit(g.ch, bulk[i].id) >= BULK_PART) {
				send_racer(&g, &bulk[i], BULK_PART, SL_CLASS_BULK);
				race->up.said += BULK_PART;
			}
		}
		say_urgent(&race->up);
		send_racer(&g, &fast, 3, SL_CLASS_LATENCY);
		gw_until(&g, fast.messages == n);
		ck_overtakes(&race->up, "to the backend");
		ck_overtakes(&race->down, "to the gateway");
		gw_until(&g,
			 race->up.heard == race->up.said && race->down.heard == race->down.said);
	}
	for (unsigned i = 0; i < BULKS; i++)
		send_end(&g, &bulk[i]);
	send_end(&g, &fast);
	gw_until(&g, g.batches_done == BULKS + 1);
	for (unsigned i = 0; i < BULKS; i++)
		call_fini(&bulk[i]);
	call_fini(&fast);
	gw_close(&g);
	backend_term(p);
}

/* --- a gateway that lies --- */

static const struct {
	const char *text;
	struct sl_rpc_entry entries[3]; /* behind the one that opens; id 0: no more */
	bool taken;
} lies[] = {
	{"a part of nothing goes nowhere",
	 {{.id = 9, .len = 8, .flags = SL_ENTRY_PART | SL_ENTRY_MORE}},
	 true},
	{"beyond the credit",
	 {{.id = 5, .len = 8, .flags = SL_ENTRY_PART | SL_ENTRY_MORE, .rest = SL_RPC_MAX_MESSAGE}},
	 false},
	{"a part that opens", {{.id = 5, .flags = SL_ENTRY_STREAM | SL_ENTRY_MORE}}, false},
	{"an end with bytes", {{.id = 5, .len = 8, .flags = SL_ENTRY_PART}}, false},
	{"a message of another length",
	 {{.id = 5, .len = 8, .rest = 100, .flags = SL_ENTRY_PART | SL_ENTRY_MORE},
	  {.id = 5, .len = 8, .rest = 100, .flags = SL_ENTRY_PART | SL_ENTRY_MORE}},
	 false},
	{"an end in a message",
	 {{.id = 5, .len = 8, .rest = 100, .flags = SL_ENTRY_PART | SL_ENTRY_MORE},
	  {.id = 5, .flags = SL_ENTRY_PART}},
	 false},
	{"fields in the midst",
	 {{.id = 5, .meta_len = 8, .flags = SL_ENTRY_PART | SL_ENTRY_MORE}},
	 false},
	{"trailers that are cut", {{.id = 5, .meta_len = 6, .flags = SL_ENTRY_PART}}, false},
	{"an opening with bytes", {{.id = 6, .len = 8, .flags = SL_ENTRY_STREAM}}, false},
};

static void say_entry(struct sl_transport *t, const struct sl_rpc_entry *e, uint64_t number)
{
	uint8_t body[64] = {0};
	struct sl_rpc_header h = {
		.version_type = SL_RPC_VERSION << 4 | SL_RPC_REQUEST,
		.flags = SL_RPC_BATCH | SL_RPC_FIRST | SL_RPC_LAST,
		.priority = SL_CLASS_NORMAL,
		.count = 1,
		.id = sl_rpc_boot_epoch() << 48 | number,
	};
	struct sl_span span;

	memcpy(body, e, sizeof(*e));
	h.fragment_len = h.total_or_offset =
		(uint32_t)(sizeof(*e) + sl_rpc_pad8(e->meta_len) + sl_rpc_pad8(e->len));
	span = sl_span_of(body, h.fragment_len);
	ck_assert_int_eq(t->ops->post(t, &h, &span, 1, 0), 0);
	t->ops->flush(t);
}

TEST_EACH(lies_end_the_channel, (int)endpoint_cnt() * (int)SL_ARRAY_LEN(lies))
{
	const char *ep = endpoint_of(_i / (int)SL_ARRAY_LEN(lies));
	const unsigned k = (unsigned)_i % SL_ARRAY_LEN(lies);
	const struct sl_rpc_entry first = {.id = 5, .flags = SL_ENTRY_STREAM | SL_ENTRY_MORE};
	struct backend_proc p = start(ep, false, false);
	struct sl_transport *t = raw_dial(ep, 64, 1 << 20);
	uint64_t until = sl_now_ns() + harness_timeout_s() * SL_NS_PER_SEC, still;
	struct sl_message m[8];
	int n = 0;

	say_entry(t, &first, 1);
	for (uint64_t i = 0; i < 3 && lies[k].entries[i].id; i++)
		say_entry(t, &lies[k].entries[i], i + 2);
	still = sl_now_ns() + 200 * SL_NS_PER_MS;
	while (sl_now_ns() < (lies[k].taken ? still : until)) {
		n = harness_poll(t, m, 8);
		for (int i = 0; i < n; i++)
			t->ops->release(t, &m[i]);
		if (n < 0 || t->ops->check(t))
			break;
		t->ops->flush(t);
	}
	ck_assert_msg((sl_now_ns() < (lies[k].taken ? still : until)) != lies[k].taken, "%s",
		      lies[k].text);
	sl_rpc_dial_drop(t);
	backend_term(p);
}

/* --- a program with a loop of its own, which says between its calls what it has heard in them --- */

static struct sl_request_view *to_answer;

static void on_question(void *arg, struct sl_request_view *rq, const void *bytes, size_t len,
			size_t left)
{
	(void)arg, (void)bytes, (void)len, (void)left;
	to_answer = rq;
}

static void answer_between_polls(const void *arg)
{
	static const struct sl_stream_ops ops = {.on_open = on_open,
						 .on_data = on_question,
						 .on_end = on_end,
						 .on_cancel = on_cancel};
	struct sl_backend_options opt = {.listen = arg,
					 .on_batch = batch,
					 .on_stream = &ops,
					 .key_file = harness_key(),
					 .inline_handler = true};
	static const struct sl_reply_args word = {.body = "word", .body_len = 4, .more = true};
	char err[256];
	struct sl_backend *b = sl_backend_open(&opt, err, sizeof(err));

	alarm(3 * harness_timeout_s());
	while (b && !shared->ended) {
		/* Longer than the test lasts: only what it hears may end this. */
		sl_backend_poll(b, 4000000 * harness_timeout_s());
		if (to_answer)
			sl_reply(to_answer, &word);
		to_answer = NULL;
	}
	sl_backend_close(b);
	_exit(b ? 0 : 3);
}

TEST_EACH(a_loop_goes_on_when_a_stream_is_heard, endpoint_cnt())
{
	char listen[256];
	struct backend_proc p;
	struct gateway g;
	struct call c;

	snprintf(listen, sizeof(listen), "%s", endpoint_of(_i));
	p = (struct backend_proc){harness_spawn(answer_between_polls, listen, sizeof(listen))};
	open_gateway(&g, listen);
	open_stream(&g, &c, true);
	for (unsigned n = 1; n <= 3; n++) {
		gw_until(&g, sl_rpc_part_credit(g.ch, c.id));
		send_piece(&g, &c, 0, 5);
		gw_until(&g, c.messages == n);
	}
	send_end(&g, &c);
	gw_until(&g, c.done);
	ck_assert_uint_eq(c.len, 3 * 4 + 4);
	ck_assert_int_eq(backend_wait(p), 0);
	gw_until(&g, g.downs == 1);
	call_fini(&c);
	gw_close(&g);
}
