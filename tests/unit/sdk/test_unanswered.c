/* SPDX-License-Identifier: Apache-2.0 */
/* Requests without a reply: how the gateway learns of them, and their effect on other replies. */
#include "sdk_fake.h"
#include "suite.h"

static struct sl_request_view *held[16];
static unsigned held_cnt;

static void hold(void *arg, struct sl_batch *batch)
{
	(void)arg;
	for (unsigned i = 0; i < batch->count; i++)
		held[held_cnt++] = batch->requests[i];
}

static void open_stream(void *arg, struct sl_request_view *rq)
{
	(void)arg;
	held[held_cnt++] = rq;
}

static void on_data(void *arg, struct sl_request_view *rq, const void *bytes, size_t len,
		    size_t left)
{
	(void)arg, (void)rq, (void)bytes, (void)len, (void)left;
}

static void nothing(void *arg, struct sl_request_view *rq)
{
	(void)arg, (void)rq;
}

static const struct sl_stream_ops stream_ops = {
	.on_open = open_stream, .on_data = on_data, .on_end = nothing, .on_cancel = nothing};

static unsigned done_cnt;

static void on_done(void *arg)
{
	(void)arg;
	done_cnt++;
}

static void setup(void)
{
	held_cnt = done_cnt = 0;
}

FIXTURE(setup, NULL)

static void ask(struct fake *f, uint64_t id, uint8_t flags)
{
	struct sl_rpc_entry e;
	uint8_t *entry;

	fake_ask(f, id, flags & SL_ENTRY_STREAM ? "" : "x");
	entry = f->in[f->in_cnt - 1].body;
	memcpy(&e, entry, sizeof(e));
	e.flags = flags;
	memcpy(entry, &e, sizeof(e));
}

/* A request that may have been carried out is repeated elsewhere only if it is idempotent. */
TEST_EACH(a_reply_without_memory_is_lost, 2)
{
	struct sl_backend *b = fake_backend(hold, NULL, 0);
	struct fake *f = fake_connect(b);

	ask(f, 1, _i ? SL_ENTRY_IDEMPOTENT : 0);
	fake_settle(b);
	atomic_store(&b->foreign_used, SL_BE_REPLY_MEM);
	ck_assert_int_eq(sl_reply(held[0], &(struct sl_reply_args){.body = "x", .body_len = 1}),
			 -ENOBUFS);
	atomic_store(&b->foreign_used, 0);
	fake_settle(b);
	ck_assert_int_eq(fake_status(f, 1), _i ? SL_RPC_REFUSED : SL_RPC_LOST);
	ck_assert_uint_eq(b->open_cnt, 0);
	sl_backend_close(b);
	fake_free(f);
}

TEST(requests_that_a_handler_has_had_are_lost_at_the_end)
{
	struct sl_backend *b = fake_backend(hold, NULL, 0);
	struct fake *f = fake_connect(b);

	ask(f, 1, 0);
	ask(f, 2, SL_ENTRY_IDEMPOTENT);
	fake_ask_part(f, 3, NULL, 0, "first...second..", 16, 8, SL_CLASS_NORMAL);
	fake_settle(b);
	ck_assert_uint_eq(held_cnt, 2);
	sl_backend_close(b);
	ck_assert_int_eq(fake_status(f, 1), SL_RPC_LOST);
	ck_assert_int_eq(fake_status(f, 2), SL_RPC_REFUSED);
	ck_assert_int_eq(fake_status(f, 3), SL_RPC_REFUSED); /* it has not come as a whole */
	fake_free(f);
}

/* Lent bytes come back before the handler's next call, if the client or gateway has gone. */
TEST_EACH(lent_bytes_come_back_when_the_request_is_cancelled, 4)
{
	static uint8_t bytes[2 * SL_RPC_INITIAL_WINDOW];
	const struct sl_reply_args a = {.body = bytes, .body_len = sizeof(bytes), .more = true};
	struct sl_backend *b = fake_backend(hold, NULL, 0);
	struct fake *f = fake_connect(b);

	b->opt.on_stream = &stream_ops;
	ask(f, 1, _i & 1 ? SL_ENTRY_STREAM | SL_ENTRY_MORE : 0);
	fake_settle(b);
	ck_assert_int_eq(sl_reply_ref(held[0], &a, on_done, NULL), 0);
	fake_settle(b);
	ck_assert_uint_eq(done_cnt, 0); /* the rest of it waits for credit */
	if (_i & 2)
		f->broken = true;
	else
		fake_cancel(f, 1);
	fake_settle(b);
	ck_assert_uint_eq(done_cnt, 1);
	ck_assert_int_eq(sl_reply_ref(held[0], &a, on_done, NULL), -ECANCELED);
	fake_settle(b);
	ck_assert_uint_eq(done_cnt, 1);
	ck_assert_uint_eq(b->open_cnt, 0);
	sl_backend_close(b);
	fake_free(f);
}

static void reply_to(void *arg)
{
	done_cnt++;
	ck_assert_int_eq(sl_reply(arg, &(struct sl_reply_args){.body = ""}), -ECANCELED);
}

/*
 * At the end, to another request as to its own: whether it waited for credit, or a device still reads it.
 * None is freed before.
 */
TEST_EACH(a_program_that_gets_lent_bytes_back_may_still_reply, 4)
{
	static uint8_t bytes[2 * SL_RPC_INITIAL_WINDOW];
	const struct sl_reply_args a = {
		.body = bytes, .body_len = _i & 1 ? sizeof(bytes) : 8, .more = true};
	struct sl_backend *b = fake_backend(hold, NULL, 0);
	struct fake *f = fake_connect(b), *other = fake_connect(b);

	f->base.copies = other->base.copies = false;
	f->reads = other->reads = true;
	ask(f, 1, 0);
	ask(f, 2, 0);
	ask(other, 3, 0);
	fake_settle(b);
	ck_assert_uint_eq(held_cnt, 3);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(
			sl_reply_ref(held[i], &a, reply_to, held[_i & 2 ? i : (i + 1) % 3]), 0);
	fake_settle(b);
	ck_assert_uint_eq(done_cnt, 0);
	sl_backend_close(b);
	ck_assert_uint_eq(done_cnt, 3);
	fake_free(f);
	fake_free(other);
}
