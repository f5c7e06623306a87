/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cases that every transport must pass: replies, batches, order, sizes, many outstanding requests.
 */
#include "rpc_harness.h"
#include "suite.h"

static void echo(void *arg, struct sl_batch *batch)
{
	(void)arg;
	for (unsigned i = 0; i < batch->count; i++) {
		struct sl_request_view *rq = batch->requests[i];

		sl_reply(rq, &(struct sl_reply_args){.body = rq->body,
						     .body_len = rq->body_len,
						     .content_type = "text/x"});
	}
}

static struct backend_proc start_echo(const char *endpoint)
{
	return backend_start(&(struct sl_backend_options){.listen = endpoint, .on_batch = echo});
}

TEST_EACH(one_request_has_one_reply, endpoint_cnt())
{
	const char *ep = endpoint_of(_i);
	struct backend_proc p = start_echo(ep);
	struct gateway g;
	struct call c;
	uint8_t meta[64];
	size_t len = put_meta(meta, SL_META_PATH, "/x");

	gw_open(&g, ep);
	call_init(&c, 64);
	ck_assert_int_eq(
		gw_send(&g, &c, sl_span_of(meta, len), sl_span_str("hello"), 0, SL_CLASS_NORMAL),
		0);
	gw_until(&g, g.batches_done == 1);
	ck_assert(c.done);
	ck_assert_uint_eq(c.status, SL_RPC_OK);
	ck_assert_uint_eq(c.len, 5);
	ck_assert_mem_eq(c.body, "hello", 5);
	ck_assert_uint_eq(c.meta_len, 10);
	ck_assert_mem_eq(c.meta + 4, "text/x", 6);
	gw_close(&g);
	backend_term(p);
}

static uint8_t pattern_at(size_t i, unsigned seed)
{
	return (uint8_t)((i * 2654435761u >> 13) + seed);
}

static void check_size(struct gateway *g, size_t size)
{
	uint8_t *body = malloc(size + 1);
	struct call c;

	for (size_t i = 0; i < size; i++)
		body[i] = pattern_at(i, (unsigned)size);
	call_init(&c, size + 1);
	ck_assert_int_eq(
		gw_send(g, &c, sl_span_of(NULL, 0), sl_span_of(body, size), 0, SL_CLASS_NORMAL), 0);
	gw_until(g, c.done || c.failed);
	ck_assert(c.done);
	ck_assert_uint_eq(c.status, SL_RPC_OK);
	ck_assert_uint_eq(c.len, size);
	ck_assert_mem_eq(c.body, body, size);
	call_fini(&c);
	free(body);
}

TEST_EACH(each_size_arrives_whole, endpoint_cnt())
{
	static const size_t sizes[] = {0,       1,      7,       8,       63,       64,    1000,
				       4039,    4040,   4041,    4064,    4096,     65535, 65536,
				       1 << 20, 999999, 5000001, 8 << 20, 64 << 20, 17,    0};
	const char *ep = endpoint_of(_i);
	struct backend_proc p = start_echo(ep);
	struct gateway g;

	gw_open(&g, ep);
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		if (sizes[i] <= harness_part(64 << 20))
			check_size(&g, sizes[i]);
	gw_until(&g, g.sent == g.batches_done && g.done == g.batches_done);
	gw_close(&g);
	backend_term(p);
}

enum { MANY = 1000, ROUNDS = 20 };

/* A thousand logical sessions: each waits for its own reply; order within the channel is kept. */
TEST_EACH(many_calls_each_wait_for_their_own_reply, endpoint_cnt())
{
	const char *ep = endpoint_of(_i);
	struct backend_proc p = start_echo(ep);
	static struct call calls[MANY];
	static uint64_t bodies[MANY];
	struct gateway g;

	gw_open(&g, ep);
	for (unsigned round = 0; round < harness_part(ROUNDS); round++) {
		for (unsigned i = 0; i < MANY; i++) {
			call_init(&calls[i], sizeof(bodies[i]));
			bodies[i] = (uint64_t)round << 32 | i;
		}
		for (unsigned i = 0; i < MANY;) {
			int rc = gw_send(&g, &calls[i], sl_span_of(NULL, 0),
					 sl_span_of(&bodies[i], sizeof(bodies[i])), 0,
					 SL_CLASS_NORMAL);

			ck_assert(rc == 0 || rc == -EAGAIN);
			i += rc == 0;
			if (rc)
				gw_turn(&g);
		}
		gw_until(&g, g.done == MANY * (round + 1));
		for (unsigned i = 0; i < MANY; i++) {
			ck_assert_mem_eq(calls[i].body, &bodies[i], sizeof(bodies[i]));
			if (i)
				ck_assert_uint_gt(calls[i].done_seq, calls[i - 1].done_seq);
			call_fini(&calls[i]);
		}
	}
	gw_until(&g, g.batches_done == g.done);
	gw_close(&g);
	backend_term(p);
}

enum { BATCH = 300 };

TEST_EACH(each_request_of_a_batch_is_answered, endpoint_cnt())
{
	const char *ep = endpoint_of(_i);
	struct backend_proc p = start_echo(ep);
	static struct call calls[BATCH];
	static char text[BATCH][64];
	struct sl_rpc_item items[BATCH];
	struct sl_span spans[BATCH][3];
	uint8_t meta[64];
	size_t meta_len = put_meta(meta, SL_META_PATH, "/some/path");
	struct gateway g;
	uint64_t batch;

	gw_open(&g, ep);
	for (unsigned i = 0; i < BATCH; i++) {
		int len = snprintf(text[i], sizeof(text[i]), "request number %u of many", i);

		/* Spans that cut the metadata, and run from it into the payload's first. */
		spans[i][0] = sl_span_of(meta, 3);
		spans[i][1] = sl_span_of(meta + 3, meta_len - 3);
		spans[i][2] = sl_span_of(text[i], (size_t)len);
		call_init(&calls[i], sizeof(text[i]));
		items[i] = (struct sl_rpc_item){.cookie = &calls[i],
						.spans = spans[i],
						.span_cnt = 3,
						.class = SL_CLASS_NORMAL,
						.len = (uint32_t)len,
						.meta_len = (uint16_t)meta_len};
	}
	ck_assert_int_eq(sl_rpc_send(g.ch, items, BATCH, sl_now_ns(), &batch), 0);
	gw_until(&g, g.batches_done == 1);
	ck_assert_uint_eq(g.done, BATCH);
	ck_assert_uint_eq(g.batch_ends[0].batch, batch);
	ck_assert_uint_eq(g.batch_ends[0].count, BATCH);
	ck_assert_uint_eq(g.batch_ends[0].answered, BATCH);
	ck_assert_uint_eq(g.batch_ends[0].together,
			  256); /* size of the batch in which it is computed */
	ck_assert_uint_gt(g.batch_ends[0].service_us, 0);
	for (unsigned i = 0; i < BATCH; i++) {
		ck_assert_uint_eq(calls[i].len, strlen(text[i]));
		ck_assert_mem_eq(calls[i].body, text[i], calls[i].len);
		call_fini(&calls[i]);
	}
	gw_close(&g);
	backend_term(p);
}
