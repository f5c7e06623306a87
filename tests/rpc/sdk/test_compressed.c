/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compressed gRPC messages: a backend that accepts them is told which are compressed; another never
 * gets one.
 */
#include "base/bytes.h"
#include "rpc_harness.h"
#include "suite.h"

enum { LONG = 300000 };

/* Marks that backend and gateway process share. */
static struct {
	_Atomic unsigned handled, opened, data, ended, cancelled, compressed;
} * shared;

static void setup(void)
{
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(shared, MAP_FAILED);
}

FIXTURE(setup, NULL)
SUITE_TIMEOUT(4 * harness_timeout_s())

/* --- the backend --- */

static void handle(void *arg, struct sl_batch *batch)
{
	(void)arg;
	for (unsigned i = 0; i < batch->count; i++) {
		struct sl_request_view *rq = batch->requests[i];

		shared->handled++;
		shared->compressed += rq->compressed;
		sl_reply(rq, &(struct sl_reply_args){.body = rq->body,
						     .body_len = rq->body_len,
						     .compressed = rq->compressed});
	}
}

static void on_open(void *arg, struct sl_request_view *rq)
{
	(void)arg, (void)rq;
	shared->opened++;
}

/* The answer to a message is its length, in two pieces: of them the first says what it is. */
static void on_data(void *arg, struct sl_request_view *rq, const void *bytes, size_t len,
		    size_t left)
{
	struct sl_reply_args reply = {.body_len = 4,
				      .more = true,
				      .compressed = rq->compressed,
				      .in_pieces = true,
				      .total_len = 8};
	uint64_t total = (uintptr_t)rq->own + len;

	(void)arg, (void)bytes;
	shared->data++;
	shared->compressed += rq->compressed;
	rq->own = left ? (void *)(uintptr_t)total : NULL;
	if (left)
		return;
	reply.body = &total;
	ck_assert_int_eq(sl_reply(rq, &reply), 0);
	reply = (struct sl_reply_args){.body = (uint8_t *)&total + 4, .body_len = 4, .more = true};
	ck_assert_int_eq(sl_reply(rq, &reply), 0);
}

static void on_end(void *arg, struct sl_request_view *rq)
{
	(void)arg;
	shared->ended++;
	sl_reply(rq, &(struct sl_reply_args){.no_message = true});
}

static void on_cancel(void *arg, struct sl_request_view *rq)
{
	(void)arg;
	shared->cancelled++;
	sl_reply_error(rq, SL_RPC_CANCELLED);
}

static struct backend_proc start(const char *ep, bool takes, bool is_inline)
{
	static const struct sl_stream_ops on_stream = {
		.on_open = on_open, .on_data = on_data, .on_end = on_end, .on_cancel = on_cancel};

	return backend_start(&(struct sl_backend_options){.listen = ep,
							  .on_batch = handle,
							  .on_stream = &on_stream,
							  .compressed = takes,
							  .inline_handler = is_inline});
}

/* --- the gateway --- */

static void note_credit(void *app, void *cookie)
{
	(void)app, (void)cookie;
}

static void open_gateway(struct gateway *g, const char *ep)
{
	static struct sl_rpc_ops ops;
	struct sl_rpc_config cfg;

	sl_rpc_config_default(&cfg);
	ops = gw_ops;
	ops.credit = note_credit;
	gw_open_ops(g, ep, &cfg, &ops);
}

static void send_item(struct gateway *g, struct call *c, struct sl_rpc_item it)
{
	uint64_t number;

	it.cookie = c;
	it.class = SL_CLASS_NORMAL;
	call_init(c, 1 << 20);
	ck_assert_int_eq(sl_rpc_send(g->ch, &it, 1, sl_now_ns(), &number), 0);
	c->id = it.id;
}

static uint8_t bytes[LONG];

static void send_unary(struct gateway *g, struct call *c, bool compressed)
{
	struct sl_span span = sl_span_of(bytes, 1000);

	send_item(g, c,
		  (struct sl_rpc_item){
			  .spans = &span, .span_cnt = 1, .len = 1000, .compressed = compressed});
}

static void open_stream(struct gateway *g, struct call *c)
{
	send_item(g, c, (struct sl_rpc_item){.stream = true, .open = true});
}

/* As the credit allows. */
static void say(struct gateway *g, const struct call *c, uint32_t len, bool compressed)
{
	uint32_t left = len;

	do {
		gw_until(g, sl_rpc_part_credit(g->ch, c->id) || c->done);
		uint32_t credit = sl_rpc_part_credit(g->ch, c->id),
			 n = left < credit ? left : credit;
		struct sl_span span = sl_span_of(bytes, n);
		struct sl_rpc_part part = {.spans = &span,
					   .span_cnt = 1,
					   .len = n,
					   .rest = left - n,
					   .compressed = compressed};

		if (c->done)
			return;
		ck_assert_int_eq(
			sl_rpc_send_part(g->ch, c->id, &part, SL_CLASS_NORMAL, sl_now_ns()), 0);
		left -= n;
	} while (left);
}

static void end(struct gateway *g, const struct call *c)
{
	ck_assert_int_eq(sl_rpc_send_part(g->ch, c->id, &(struct sl_rpc_part){.end = true},
					  SL_CLASS_NORMAL, sl_now_ns()),
			 0);
}

/* Each endpoint twice: with an I/O thread and without. */
static struct gateway g;

static struct backend_proc begin(int i, bool takes)
{
	const char *ep = endpoint_of(i / 2);
	struct backend_proc p = start(ep, takes, i % 2);

	open_gateway(&g, ep);
	return p;
}

static void over(struct backend_proc p)
{
	gw_close(&g);
	backend_term(p);
}

TEST_EACH(compressed_flag_reaches_backend_and_gateway, 2 * endpoint_cnt())
{
	struct backend_proc p = begin(_i, true);
	struct call c[2];

	for (unsigned i = 0; i < 2; i++) {
		send_unary(&g, &c[i], i);
		gw_until(&g, c[i].done);
		ck_assert_uint_eq(c[i].status, SL_RPC_OK);
		ck_assert_uint_eq(c[i].len, 1000);
		ck_assert_uint_eq(c[i].compressed, i);
		ck_assert_uint_eq(shared->compressed, i);
		call_fini(&c[i]);
	}
	over(p);
}

TEST_EACH(each_message_of_a_stream_has_its_compressed_flag, 2 * endpoint_cnt())
{
	static const uint64_t lens[] = {10, 0, LONG, 11};
	struct backend_proc p = begin(_i, true);
	struct call c;

	open_stream(&g, &c);
	say(&g, &c, 10, true);
	say(&g, &c, 0, false);
	say(&g, &c, LONG, true);
	say(&g, &c, 11, false);
	gw_until(&g, c.messages == 4);
	end(&g, &c);
	gw_until(&g, c.done);
	ck_assert_uint_eq(c.status, SL_RPC_OK);
	for (unsigned i = 0; i < 4; i++)
		ck_assert_uint_eq(sl_get_le64(c.body + 8 * i), lens[i]);
	ck_assert_uint_gt(shared->data, 4);
	ck_assert_uint_eq(shared->compressed, shared->data - 2);
	ck_assert_uint_eq(c.compressed, 2);
	call_fini(&c);
	over(p);
}

/* Others go on: the refused one is over, and its backend is told once if it had it. */
TEST_EACH(a_backend_without_support_sees_no_compressed_message, 2 * endpoint_cnt())
{
	struct backend_proc p = begin(_i, false);
	struct call unary, stream, other;

	open_stream(&g, &other);
	send_unary(&g, &unary, true);
	gw_until(&g, unary.done);
	ck_assert_uint_eq(unary.status, SL_RPC_COMPRESSED);
	ck_assert_uint_eq(shared->handled, 0);
	open_stream(&g, &stream);
	say(&g, &stream, 10, false);
	gw_until(&g, stream.len == 8);
	ck_assert_uint_eq(shared->cancelled, 0);
	say(&g, &stream, LONG, true);
	gw_until(&g, stream.done);
	ck_assert_uint_eq(stream.status, SL_RPC_COMPRESSED);
	ck_assert_uint_eq(stream.len, 8);
	gw_until(&g, shared->cancelled == 1);
	say(&g, &other, 10, false);
	end(&g, &other);
	gw_until(&g, other.done);
	ck_assert_uint_eq(other.status, SL_RPC_OK);
	ck_assert_uint_eq(other.len, 8);
	ck_assert_uint_eq(shared->data, 2);
	ck_assert_uint_eq(shared->compressed, 0);
	ck_assert_uint_eq(shared->cancelled, 1);
	gw_until(&g, g.batches_done == 3);
	call_fini(&unary);
	call_fini(&stream);
	call_fini(&other);
	over(p);
}
