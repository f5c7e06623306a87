/* SPDX-License-Identifier: Apache-2.0 */
/* While a handler computes: gateways connect, cancels are seen, streams go on. */
#include <poll.h>
#include <pthread.h>
#include "rpc_harness.h"
#include "suite.h"

enum { DIALS = 12, DIAL_MS = 5000, PART = 1 << 20, PARTS = 600 };

/* Marks that backend and gateway process share. */
struct shared {
	_Atomic unsigned handled, go, seen, upcalls, again;
	_Atomic int rc;
};
static struct shared *shared;

static void setup(void)
{
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(shared, MAP_FAILED);
}

static void echo_one(struct sl_request_view *rq)
{
	sl_reply(rq, &(struct sl_reply_args){.body = rq->body, .body_len = rq->body_len});
}

static int ask(struct gateway *g, struct call *c)
{
	call_init(c, 64);
	return gw_send(g, c, sl_span_of(NULL, 0), sl_span_str("x"), 0, SL_CLASS_NORMAL);
}

/* Computes until the test lets it go on. */
static void compute(void *arg, struct sl_batch *batch)
{
	(void)arg;
	shared->handled += batch->count;
	while (!shared->go)
		usleep(100);
	for (unsigned i = 0; i < batch->count; i++)
		echo_one(batch->requests[i]);
}

FIXTURE(setup, NULL)
GROUP(threads)

TEST_EACH(gateways_connect_while_a_handler_computes, endpoint_cnt())
{
	static struct call c;
	const char *ep = endpoint_of(_i);
	struct sl_rpc_dial_options opt = {.endpoint = ep,
					  .key_file = harness_key(),
					  .bulk_ring_len = 1 << 20,
					  .slots = 64,
					  .timeout_ms = DIAL_MS};
	struct backend_proc p =
		backend_start(&(struct sl_backend_options){.listen = ep, .on_batch = compute});
	struct sl_transport *t[DIALS];
	struct gateway g;
	unsigned connected = 0;
	struct sl_err err = SL_ERR(256);

	gw_open(&g, ep);
	ck_assert_int_eq(ask(&g, &c), 0);
	gw_until(&g, shared->handled == 1);
	for (unsigned i = 0; i < DIALS; i++) {
		t[i] = sl_rpc_dial(&opt, &err);
		ck_assert_msg(t[i] != NULL, "%u of %d: %s", connected, DIALS, err.text);
		connected++;
	}
	ck_assert(!c.done); /* it computes still */
	for (unsigned i = 0; i < DIALS; i++)
		t[i]->ops->close(t[i]);
	shared->go = 1;
	gw_until(&g, g.batches_done == 1);
	gw_close(&g);
	backend_term(p);
}

static void compute_until_cancelled(void *arg, struct sl_batch *batch)
{
	(void)arg;
	shared->handled++;
	while (!shared->go && !sl_request_cancelled(batch->requests[0]))
		usleep(100);
	shared->seen = sl_request_cancelled(batch->requests[0]);
	shared->rc = sl_reply(batch->requests[0], &(struct sl_reply_args){.body_len = 0});
	shared->upcalls = 1;
}

TEST_EACH(a_cancel_is_seen_while_a_handler_computes, endpoint_cnt())
{
	static struct call c;
	const char *ep = endpoint_of(_i);
	struct backend_proc p = backend_start(
		&(struct sl_backend_options){.listen = ep, .on_batch = compute_until_cancelled});
	struct gateway g;

	gw_open(&g, ep);
	ck_assert_int_eq(ask(&g, &c), 0);
	gw_until(&g, shared->handled == 1);
	sl_rpc_cancel(g.ch, c.id);
	gw_until(&g, shared->upcalls == 1);
	ck_assert_uint_eq(shared->seen, 1);
	gw_until(&g, g.batches_done == 1);
	ck_assert_int_eq(shared->rc, -ECANCELED);
	gw_close(&g);
	backend_term(p);
}

/* More than the rings hold and what may wait at the backend together. */
static void stream(void *arg, struct sl_batch *batch)
{
	static uint8_t part[PART];
	struct sl_request_view *rq = batch->requests[0];
	struct sl_reply_args a = {.body = part, .body_len = PART, .more = true};

	(void)arg;
	for (unsigned i = 0; i < PARTS; i++) {
		memset(part, (int)i, PART);
		while (sl_reply(rq, &a) == -EAGAIN) {
			shared->again++;
			usleep(1000);
		}
	}
	sl_reply(rq, &(struct sl_reply_args){.no_message = true});
}

/* Looks at the bytes and keeps none. */
static void check_part(void *app, void *cookie, const struct sl_rpc_reply *r)
{
	struct gateway *g = app;
	struct call *c = cookie;

	for (size_t i = 0; i < r->body.len; i += 4093)
		ck_assert_uint_eq(r->body.ptr[i], (c->len + i) / PART & 255);
	c->len += r->body.len;
	sl_rpc_reply_kept(g->ch, c->id, 0);
	c->done = r->last && !r->more;
	g->done += c->done;
}

GROUP(streams)

TEST_EACH(a_stream_goes_on_while_its_handler_waits, endpoint_cnt())
{
	static struct call c;
	const char *ep = endpoint_of(_i);
	struct backend_proc p =
		backend_start(&(struct sl_backend_options){.listen = ep, .on_batch = stream});
	struct sl_rpc_ops ops = gw_ops;
	struct sl_rpc_config cfg;
	struct gateway g;

	sl_rpc_config_default(&cfg);
	ops.reply = check_part;
	gw_open_ops(&g, ep, &cfg, &ops);
	ck_assert_int_eq(ask(&g, &c), 0);
	gw_until(&g, g.batches_done == 1);
	ck_assert(c.done);
	ck_assert_uint_eq(c.len, (size_t)PART * PARTS);
	gw_close(&g);
	backend_term(p);
}

static void poll_within(void *arg, struct sl_batch *batch)
{
	(void)arg;
	shared->rc = sl_backend_poll(harness_backend, 0);
	for (unsigned i = 0; i < batch->count; i++)
		echo_one(batch->requests[i]);
}

GROUP(threads)

TEST_EACH(polling_from_within_a_handler_is_refused, endpoint_cnt())
{
	static struct call c;
	const char *ep = endpoint_of(_i);
	struct backend_proc p =
		backend_start(&(struct sl_backend_options){.listen = ep, .on_batch = poll_within});
	struct gateway g;

	gw_open(&g, ep);
	ck_assert_int_eq(ask(&g, &c), 0);
	gw_until(&g, g.batches_done == 1);
	ck_assert_int_eq(shared->rc, -EDEADLK);
	gw_close(&g);
	backend_term(p);
}

/* --- upcalls --- */

static struct sl_request_view *held;

static void hold(void *arg, struct sl_batch *batch)
{
	(void)arg;
	held = batch->requests[0];
	shared->handled++;
}

static void reply_to_cancelled(void *arg, struct sl_request_view *rq)
{
	(void)arg;
	shared->rc = sl_reply(rq, &(struct sl_reply_args){.body_len = 0});
	shared->seen = rq == held && sl_backend_poll(harness_backend, 0) == -EDEADLK;
	shared->upcalls++;
}

/* An asynchronous backend learns of it and ends the request there. */
static void cancelled_upcall(int i, bool is_inline)
{
	static struct call c;
	const char *ep = endpoint_of(i);
	struct backend_proc p =
		backend_start(&(struct sl_backend_options){.listen = ep,
							   .on_batch = hold,
							   .on_cancel = reply_to_cancelled,
							   .inline_handler = is_inline});
	struct gateway g;

	gw_open(&g, ep);
	ck_assert_int_eq(ask(&g, &c), 0);
	gw_until(&g, shared->handled == 1);
	sl_rpc_cancel(g.ch, c.id);
	gw_until(&g, shared->upcalls == 1);
	ck_assert_int_eq(shared->rc, -ECANCELED);
	ck_assert_uint_eq(shared->seen, 1);
	gw_until(&g, g.batches_done == 1);
	gw_close(&g);
	backend_term(p);
	ck_assert_uint_eq(shared->upcalls, 1);
}

TEST_EACH(a_cancel_comes_as_an_upcall, endpoint_cnt())
{
	cancelled_upcall(_i, false);
}

TEST_EACH(a_cancel_comes_as_an_upcall_inline, endpoint_cnt())
{
	cancelled_upcall(_i, true);
}

/* The same stream as above without a wait: what was not taken goes on when there is room. */
struct streamer {
	uint8_t part[PART];
	unsigned next;
};

static void stream_on(void *arg, struct sl_request_view *rq)
{
	struct streamer *st = arg;
	int rc = 0;

	while (st->next < PARTS && !rc) {
		memset(st->part, (int)st->next, PART);
		rc = sl_reply(rq, &(struct sl_reply_args){
					  .body = st->part, .body_len = PART, .more = true});
		st->next += !rc;
	}
	shared->again += rc == -EAGAIN;
	if (!rc)
		sl_reply(rq, &(struct sl_reply_args){.no_message = true});
}

static void stream_begin(void *arg, struct sl_batch *batch)
{
	stream_on(arg, batch->requests[0]);
}

static void writable_upcall(int i, bool is_inline)
{
	static struct streamer st;
	static struct call c;
	const char *ep = endpoint_of(i);
	struct backend_proc p =
		backend_start(&(struct sl_backend_options){.listen = ep,
							   .on_batch = stream_begin,
							   .arg = &st,
							   .on_writable = stream_on,
							   .inline_handler = is_inline});
	uint64_t until = sl_now_ns() + harness_timeout_s() * SL_NS_PER_SEC;
	struct sl_rpc_ops ops = gw_ops;
	struct sl_rpc_config cfg;
	struct gateway g;

	sl_rpc_config_default(&cfg);
	ops.reply = check_part;
	gw_open_ops(&g, ep, &cfg, &ops);
	ck_assert_int_eq(ask(&g, &c), 0);
	gw_until(&g, c.len > 0 || shared->again); /* it is at it */
	while (!shared->again && sl_now_ns() < until)
		usleep(100); /* this gateway does not read */
	ck_assert_uint_gt(shared->again, 0);
	gw_until(&g, g.batches_done == 1);
	ck_assert_uint_eq(c.len, (size_t)PART * PARTS);
	gw_close(&g);
	backend_term(p);
}

GROUP(streams)

TEST_EACH(room_comes_as_an_upcall, endpoint_cnt())
{
	writable_upcall(_i, false);
}

TEST_EACH(room_comes_as_an_upcall_inline, endpoint_cnt())
{
	writable_upcall(_i, true);
}

/* --- readiness --- */

static void *be_ready_again(void *arg)
{
	while (!shared->go)
		usleep(100);
	sl_backend_ready(harness_backend, true);
	shared->seen = 1;
	return arg;
}

static void become_unready(void *arg, struct sl_batch *batch)
{
	pthread_t thread;

	(void)arg;
	if (!shared->handled++) {
		sl_backend_ready(harness_backend, false);
		pthread_create(&thread, NULL, be_ready_again, NULL);
		pthread_detach(thread);
	}
	for (unsigned i = 0; i < batch->count; i++)
		echo_one(batch->requests[i]);
}

static void dial_again(struct gateway *g, const char *ep)
{
	ck_assert_int_eq(sl_rpc_adopt(g->ch, gw_dial(ep, 256, 4 << 20), sl_now_ns()), 0);
}

static void readiness(int i, bool is_inline)
{
	static struct call c[2];
	const char *ep = endpoint_of(i);
	struct backend_proc p = backend_start(&(struct sl_backend_options){
		.listen = ep, .on_batch = become_unready, .inline_handler = is_inline});
	struct gateway g;

	gw_open(&g, ep);
	ck_assert_int_eq(ask(&g, &c[0]), 0);
	gw_until(&g, c[0].done && g.drains == 1);
	ck_assert_uint_eq(c[0].status, SL_RPC_OK);
	/* The connection stays, and so does one that is made meanwhile: it is told at once. */
	for (unsigned n = 0; n < 50; usleep(1000), n++)
		gw_turn(&g);
	ck_assert_uint_eq(g.downs, 0);
	sl_rpc_channel_drain(g.ch);
	gw_until(&g, g.downs == 1);
	dial_again(&g, ep);
	gw_until(&g, g.drains == 2);
	ck_assert_int_eq(ask(&g, &c[1]), -ENOTCONN);
	shared->go = 1;
	gw_until(&g, sl_rpc_channel_state(g.ch) == SL_RPC_UP);
	ck_assert_int_eq(ask(&g, &c[1]), 0);
	gw_until(&g, c[1].done);
	ck_assert_uint_eq(g.drains, 2);
	ck_assert_uint_eq(g.downs, 1);
	gw_until(&g, g.batches_done == 2);
	gw_close(&g);
	backend_term(p);
}

/* The first request is not answered before the second one. */
static void keep_first(void *arg, struct sl_batch *batch)
{
	static struct sl_request_view *kept;

	if (!kept) {
		kept = batch->requests[0];
		become_unready(arg, &(struct sl_batch){.count = 0});
		return;
	}
	echo_one(kept);
	echo_one(batch->requests[0]);
}

static void give_up(void *arg, struct sl_request_view *rq)
{
	(void)arg;
	sl_reply_error(rq, SL_RPC_CANCELLED);
}

GROUP(threads)

/* Without a new connection: requests that last keep the one that there is for as long as they like. */
TEST_EACH(a_backend_that_is_ready_again_is_used_while_requests_last, endpoint_cnt())
{
	static struct call c[2];
	const char *ep = endpoint_of(_i);
	struct backend_proc p =
		backend_start(&(struct sl_backend_options){.listen = ep, .on_batch = keep_first});
	struct gateway g;

	gw_open(&g, ep);
	ck_assert_int_eq(ask(&g, &c[0]), 0);
	gw_until(&g, g.drains == 1);
	ck_assert_int_eq(ask(&g, &c[1]), -ENOTCONN);
	shared->go = 1;
	gw_until(&g, sl_rpc_channel_state(g.ch) == SL_RPC_UP);
	ck_assert_int_eq(ask(&g, &c[1]), 0);
	gw_until(&g, c[0].done && c[1].done && g.batches_done == 2);
	ck_assert_uint_eq(g.downs, 0);
	/* And drains again like any other. */
	kill(p.pid, SIGTERM);
	gw_until(&g, g.downs == 1);
	ck_assert_uint_eq(g.drains, 2);
	gw_close(&g);
	backend_term(p);
}

/* Not one that its own gateway has done with. */
TEST_EACH(a_gateway_that_leaves_does_not_come_back_for_that, endpoint_cnt())
{
	static struct call c;
	const char *ep = endpoint_of(_i);
	struct backend_proc p = backend_start(&(struct sl_backend_options){
		.listen = ep, .on_batch = keep_first, .on_cancel = give_up});
	struct gateway g;

	gw_open(&g, ep);
	ck_assert_int_eq(ask(&g, &c), 0);
	gw_until(&g, g.drains == 1);
	sl_rpc_channel_drain(g.ch);
	shared->go = 1;
	gw_until(&g, shared->seen == 1);
	for (unsigned i = 0; i < 50; usleep(1000), i++)
		gw_turn(&g);
	ck_assert_int_eq(sl_rpc_channel_state(g.ch), SL_RPC_DRAINING);
	sl_rpc_cancel(g.ch, c.id);
	gw_until(&g, g.downs == 1);
	gw_close(&g);
	backend_term(p);
}

TEST_EACH(a_backend_says_when_it_is_ready, endpoint_cnt())
{
	readiness(_i, false);
}

TEST_EACH(a_backend_says_when_it_is_ready_inline, endpoint_cnt())
{
	readiness(_i, true);
}

/* --- a loop of the program's own --- */

static void echo(void *arg, struct sl_batch *batch)
{
	(void)arg;
	for (unsigned i = 0; i < batch->count; i++)
		echo_one(batch->requests[i]);
}

struct own_loop {
	char listen[256];
	bool is_inline;
};

static void serve_by_events(const void *arg)
{
	const struct own_loop *o = arg;
	struct sl_backend_options opt = {.listen = o->listen,
					 .on_batch = echo,
					 .key_file = harness_key(),
					 .inline_handler = o->is_inline};
	char err[256];
	struct sl_backend *b = sl_backend_open(&opt, err, sizeof(err));

	alarm(3 * harness_timeout_s());
	while (b && !shared->go) {
		struct pollfd fd = {.fd = sl_backend_fd(b), .events = POLLIN};

		if (sl_backend_poll(b, 0))
			continue;
		if (sl_backend_arm(b) == 1)
			shared->again += poll(&fd, 1, 1000) == 1;
		sl_backend_disarm(b);
	}
	sl_backend_close(b);
	_exit(b ? 0 : 3);
}

static void own_loop(int i, bool is_inline)
{
	static struct call c;
	struct own_loop o = {.is_inline = is_inline};
	struct backend_proc p;
	struct gateway g;
	unsigned n;

	snprintf(o.listen, sizeof(o.listen), "%s", endpoint_of(i));
	p = (struct backend_proc){harness_spawn(serve_by_events, &o, sizeof(o))};
	gw_open(&g, o.listen);
	for (n = 0; n < 300; n++) {
		if (n % 8 == 0)
			usleep(200);
		ck_assert_int_eq(ask(&g, &c), 0);
		gw_until(&g, c.done);
	}
	gw_until(&g, g.batches_done == n);
	ck_assert_uint_gt(shared->again, 0);
	shared->go = 1;
	ck_assert_int_eq(backend_wait(p), 0);
	gw_until(&g, g.downs == 1);
	gw_close(&g);
}

TEST_EACH(a_program_may_have_its_own_loop, endpoint_cnt())
{
	own_loop(_i, false);
}

TEST_EACH(a_program_may_have_its_own_loop_inline, endpoint_cnt())
{
	own_loop(_i, true);
}
