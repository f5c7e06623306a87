/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of the SDK: order of classes, and what a reply says about the batch of its request. */
#include "sdk_fake.h"
#include "suite.h"

enum { SERVED_MAX = 64 };

static struct sl_request_view *served[SERVED_MAX];
static unsigned served_cnt;

static void keep(void *arg, struct sl_batch *batch)
{
	(void)arg;
	for (unsigned i = 0; i < batch->count; i++)
		served[served_cnt++] = batch->requests[i];
}

static void setup(void)
{
	served_cnt = 0;
}

static void ask_class(struct fake *f, uint64_t id, unsigned class)
{
	fake_ask_part(f, id, NULL, 0, "x", 1, 1, class);
}

static void end_all(struct sl_backend *b)
{
	for (unsigned i = served_cnt; i-- > 0;) /* the one that began last is not slower */
		sl_reply(served[i], &(struct sl_reply_args){.body = "y", .body_len = 1});
	fake_settle(b);
}

FIXTURE(setup, NULL)

TEST(urgent_requests_go_first)
{
	static const unsigned order[] = {SL_CLASS_LATENCY, SL_CLASS_LATENCY, SL_CLASS_NORMAL,
					 SL_CLASS_BULK, SL_CLASS_BULK};
	struct sl_backend *b = fake_backend(keep, NULL, 1);
	struct fake *f = fake_connect(b);

	for (uint64_t id = 1; id <= 5; id++)
		ask_class(f, id, order[5 - id]);
	fake_settle(b);
	ck_assert_uint_eq(served_cnt, 5);
	for (unsigned i = 0; i < 5; i++)
		ck_assert_uint_eq(served[i]->priority, order[i]);
	/* In order of arrival within a class. */
	ck_assert_uint_lt(((struct request *)served[3])->id, ((struct request *)served[4])->id);
	end_all(b);
	sl_backend_close(b);
	fake_free(f);
}

/* However many urgent ones wait, bulk is served as well. */
TEST(no_class_starves)
{
	struct sl_backend *b = fake_backend(keep, NULL, 1);
	struct fake *f = fake_connect(b);
	unsigned at = 0;

	ask_class(f, 1, SL_CLASS_BULK);
	for (uint64_t id = 2; id <= 40; id++)
		ask_class(f, id, SL_CLASS_LATENCY);
	fake_settle(b);
	ck_assert_uint_eq(served_cnt, 40);
	while (served[at]->priority != SL_CLASS_BULK)
		at++;
	ck_assert_uint_gt(at, 4);
	ck_assert_uint_lt(at, 20);
	end_all(b);
	sl_backend_close(b);
	fake_free(f);
}

/* Replies come long after their batches: each says how many its own had, and for how long. */
TEST(a_reply_tells_about_its_own_batch)
{
	struct sl_backend *b = fake_backend(keep, NULL, 0);
	struct fake *f = fake_connect(b);
	struct sl_rpc_entry e;
	const uint8_t *at;

	for (uint64_t id = 1; id <= 3; id++)
		fake_ask(f, id, "x");
	fake_settle(b);
	fake_ask(f, 4, "x");
	fake_settle(b);
	ck_assert_uint_eq(served_cnt, 4);
	end_all(b);
	for (uint64_t id = 1; id <= 4; id++) {
		ck_assert(fake_answer(f, id, &e, &at));
		ck_assert_uint_eq(e.together, id < 4 ? 3 : 1);
	}
	sl_backend_close(b);
	fake_free(f);
}

/* The service time ends with the reply, not when there was time to send it. */
TEST(the_service_time_ends_with_the_reply)
{
	struct sl_backend *b = fake_backend(keep, NULL, 0);
	struct fake *f = fake_connect(b);
	struct sl_rpc_entry e;
	const uint8_t *at;

	fake_ask(f, 1, "x");
	fake_settle(b);
	sl_reply(served[0], &(struct sl_reply_args){.body = "y", .body_len = 1});
	usleep(20000);
	fake_settle(b);
	ck_assert(fake_answer(f, 1, &e, &at));
	for (unsigned i = 0; i < f->out_cnt; i++) {
		if ((f->out[i].header.version_type & 15) == SL_RPC_RESPONSE)
			ck_assert_uint_eq(f->out[i].header.time_us, e.time_us ? e.time_us : 1);
	}
	sl_backend_close(b);
	fake_free(f);
}

/* Replies of two batches leave in one message: each says its own time, the header the longest. */
TEST(replies_of_one_message_have_their_own_times)
{
	struct sl_backend *b = fake_backend(keep, NULL, 0);
	struct fake *f = fake_connect(b);
	struct sl_rpc_entry slow, fast;
	const uint8_t *at;

	fake_ask(f, 1, "x");
	fake_settle(b);
	usleep(20000);
	fake_ask(f, 2, "x");
	fake_settle(b);
	end_all(b);
	ck_assert_uint_eq(fake_count(f, SL_RPC_RESPONSE), 1);
	ck_assert(fake_answer(f, 1, &slow, &at));
	ck_assert(fake_answer(f, 2, &fast, &at));
	ck_assert_uint_ge(slow.time_us, fast.time_us + 10000);
	for (unsigned i = 0; i < f->out_cnt; i++) {
		if ((f->out[i].header.version_type & 15) == SL_RPC_RESPONSE)
			ck_assert_uint_eq(f->out[i].header.time_us, slow.time_us);
	}
	sl_backend_close(b);
	fake_free(f);
}
