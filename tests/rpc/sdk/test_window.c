/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Credit: a peer that does not read a reply stops the backend that produces it, and no byte is
 * lost.
 */
#define HARNESS_ENDPOINTS "shm,tcp,ud,ud-lossy"
#include "rpc_harness.h"
#include "suite.h"

enum { PART = 10000, PARTS = 500, WHOLE = 1 << 20, TURNS = 50 };

/* Marks that backend and gateway process share. */
struct shared {
	_Atomic unsigned taken, again, cancelled, closed;
};
static struct shared *shared;

static void setup(void)
{
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(shared, MAP_FAILED);
}

static uint8_t byte_at(size_t i)
{
	return (uint8_t)(i * 7 + i / 251);
}

FIXTURE(setup, NULL)
SUITE_TIMEOUT(4 * harness_timeout_s())

/* --- the backend: as fast as it may --- */

static void stream_on(void *arg, struct sl_request_view *rq)
{
	uint8_t part[PART];
	struct sl_reply_args a = {.body = part, .body_len = PART, .more = true};
	int rc = 0;

	(void)arg;
	while (shared->taken < harness_part(PARTS) && !rc) {
		for (size_t i = 0; i < PART; i++)
			part[i] = byte_at(shared->taken * (size_t)PART + i);
		rc = sl_reply(rq, &a);
		shared->taken += !rc;
	}
	shared->again += rc == -EAGAIN;
	shared->closed += rc == -ECANCELED;
	if (!rc)
		sl_reply(rq, &(struct sl_reply_args){.no_message = true, .grpc_status = 5});
}

static void stream_begin(void *arg, struct sl_batch *batch)
{
	stream_on(arg, batch->requests[0]);
}

static void whole_reply(void *arg, struct sl_batch *batch)
{
	uint8_t *bytes = malloc(WHOLE);

	(void)arg;
	for (size_t i = 0; i < WHOLE; i++)
		bytes[i] = byte_at(i);
	for (unsigned i = 0; i < batch->count; i++)
		sl_reply(batch->requests[i], &(struct sl_reply_args){.body = bytes,
								     .body_len = WHOLE - i,
								     .content_type = "x/y"});
	free(bytes);
}

static void note_cancel(void *arg, struct sl_request_view *rq)
{
	(void)arg;
	shared->cancelled++;
	sl_reply(rq, &(struct sl_reply_args){.no_message = true});
}

/* --- the gateway: keeps what comes until the test says that it was taken --- */

static struct {
	bool keeps;
	size_t most; /* highest number of bytes kept at a time */
} client;

static void keep(void *app, void *cookie, const struct sl_rpc_reply *r)
{
	struct gateway *g = app;
	struct call *c = cookie;
	size_t wrong = 0;

	for (size_t i = 0; i < r->body.len; i++)
		wrong += r->body.ptr[i] != byte_at(c->len + i);
	ck_assert_uint_eq(wrong, 0);
	c->len += r->body.len;
	c->cap += r->body.len; /* kept */
	if (c->cap > client.most)
		client.most = c->cap;
	c->messages += r->first;
	c->done = r->last && !r->more;
	g->done += c->done;
	if (!client.keeps)
		c->cap = 0;
	sl_rpc_reply_kept(g->ch, c->id, c->cap);
}

static uint64_t grace_ns; /* 0: the default */

static void open_keeper(struct gateway *g, const char *ep)
{
	static struct sl_rpc_ops ops;
	struct sl_rpc_config cfg;

	sl_rpc_config_default(&cfg);
	cfg.grace_ns = grace_ns ? grace_ns : cfg.grace_ns;
	ops = gw_ops;
	ops.reply = keep;
	client.keeps = true;
	client.most = 0;
	gw_open_ops(g, ep, &cfg, &ops);
}

static void ask(struct gateway *g, struct call *c)
{
	*c = (struct call){.cap = 0};
	ck_assert_int_eq(gw_send(g, c, sl_span_of(NULL, 0), sl_span_str("x"), 0, SL_CLASS_NORMAL),
			 0);
}

/* Nothing comes any more. */
static void stand_still(struct gateway *g, const struct call *c)
{
	size_t len;

	do {
		len = c->len;
		usleep(20000);
		for (unsigned i = 0; i < TURNS; i++)
			gw_turn(g);
	} while (c->len != len);
}

static void take_all(struct gateway *g, struct call *c)
{
	client.keeps = false;
	c->cap = 0;
	sl_rpc_reply_kept(g->ch, c->id, 0);
	gw_until(g, c->done);
}

static void slow_client(int i, bool is_inline)
{
	const char *ep = endpoint_of(i);
	struct backend_proc p =
		backend_start(&(struct sl_backend_options){.listen = ep,
							   .on_batch = stream_begin,
							   .on_writable = stream_on,
							   .inline_handler = is_inline});
	struct gateway g;
	struct call c;

	open_keeper(&g, ep);
	ask(&g, &c);
	/* Others do not wait for this client. */
	gw_until(&g, shared->again && c.len == SL_RPC_INITIAL_WINDOW && g.batches_done == 1);
	stand_still(&g, &c);
	ck_assert_uint_le(client.most, SL_RPC_INITIAL_WINDOW);
	/* The window, and one part that began within it. */
	ck_assert_uint_le(shared->taken, SL_RPC_INITIAL_WINDOW / PART + 1);
	take_all(&g, &c);
	ck_assert_uint_eq(c.len, (size_t)PART * harness_part(PARTS));
	ck_assert_uint_eq(c.messages, harness_part(PARTS) + 1);
	gw_close(&g);
	backend_term(p);
}

TEST_EACH(a_slow_client_stops_its_backend_at_the_window, endpoint_cnt())
{
	slow_client(_i, false);
}

TEST_EACH(a_slow_client_stops_an_inline_handler_at_the_window, endpoint_cnt())
{
	slow_client(_i, true);
}

/* One message that is larger than the window is one message at the other end. */
TEST_EACH(a_message_larger_than_the_window_is_one_message, endpoint_cnt())
{
	const char *ep = endpoint_of(_i);
	struct backend_proc p =
		backend_start(&(struct sl_backend_options){.listen = ep, .on_batch = whole_reply});
	struct gateway g;
	struct call c;

	open_keeper(&g, ep);
	ask(&g, &c);
	gw_until(&g, c.len == SL_RPC_INITIAL_WINDOW);
	stand_still(&g, &c);
	ck_assert_uint_eq(client.most, SL_RPC_INITIAL_WINDOW);
	ck_assert(!c.done);
	take_all(&g, &c);
	ck_assert_uint_eq(c.len, WHOLE);
	ck_assert_uint_eq(c.messages, 1);
	gw_close(&g);
	backend_term(p);
}

/* Bytes that wait for a client that leaves are freed: the backend checks that at its end. */
TEST_EACH(reply_bytes_of_a_cancelled_request_are_freed, endpoint_cnt())
{
	const char *ep = endpoint_of(_i);
	struct backend_proc p =
		backend_start(&(struct sl_backend_options){.listen = ep, .on_batch = whole_reply});
	struct gateway g;
	struct call c;

	open_keeper(&g, ep);
	ask(&g, &c);
	gw_until(&g, c.len == SL_RPC_INITIAL_WINDOW);
	stand_still(&g, &c);
	sl_rpc_cancel(g.ch, c.id);
	gw_until(&g, g.batches_done == 1);
	gw_turn(&g);
	gw_close(&g);
	backend_term(p);
}

/* A stream that waits for room while its client leaves: until `told`. */
static void gone_stream(struct sl_backend_options opt, const _Atomic unsigned *told)
{
	struct backend_proc p;
	struct gateway g;
	struct call c;

	opt.on_batch = stream_begin;
	opt.on_writable = stream_on;
	p = backend_start(&opt);
	open_keeper(&g, opt.listen);
	ask(&g, &c);
	gw_until(&g, shared->again && c.len == SL_RPC_INITIAL_WINDOW);
	stand_still(&g, &c);
	sl_rpc_cancel(g.ch, c.id);
	gw_until(&g, *told);
	gw_close(&g);
	backend_term(p);
}

TEST_EACH(a_stream_that_waits_for_room_hears_that_its_client_leaves, endpoint_cnt())
{
	gone_stream(
		(struct sl_backend_options){.listen = endpoint_of(_i), .on_cancel = note_cancel},
		&shared->cancelled);
}

/* A sender that waits for room, and for nothing else, learns that it is no longer needed. */
static void gone_stream_without_upcall(int i, bool is_inline)
{
	gone_stream(
		(struct sl_backend_options){.listen = endpoint_of(i), .inline_handler = is_inline},
		&shared->closed);
	ck_assert_uint_eq(shared->closed, 1);
}

TEST_EACH(without_an_upcall_its_next_try_tells_it, endpoint_cnt())
{
	gone_stream_without_upcall(_i, false);
}

TEST_EACH(without_an_upcall_an_inline_handler_is_told_too, endpoint_cnt())
{
	gone_stream_without_upcall(_i, true);
}

/* A backend that waits for credit has not fallen silent. */
TEST_EACH(a_backend_that_waits_for_credit_has_not_timed_out, endpoint_cnt())
{
	const char *ep = endpoint_of(_i);
	struct backend_proc p =
		backend_start(&(struct sl_backend_options){.listen = ep, .on_batch = whole_reply});
	struct gateway g;
	struct call c = {.cap = 0};
	uint64_t until;

	grace_ns = SL_NS_PER_SEC; /* long enough for a machine that is busy */
	open_keeper(&g, ep);
	ck_assert_int_eq(
		gw_send(&g, &c, sl_span_of(NULL, 0), sl_span_str("x"), 300000, SL_CLASS_NORMAL), 0);
	gw_until(&g, c.len == SL_RPC_INITIAL_WINDOW);
	for (until = sl_now_ns() + 1500 * SL_NS_PER_MS; sl_now_ns() < until;)
		gw_turn(&g);
	ck_assert(!c.failed);
	take_all(&g, &c);
	ck_assert_uint_eq(c.len, WHOLE);
	gw_close(&g);
	backend_term(p);
}
