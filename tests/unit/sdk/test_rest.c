/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels that a backend's pass visits: not those in a poll group whose requests take long. Input,
 * a reply, credit and room wake them.
 */
#include "sdk_fake.h"
#include "suite.h"

enum { TURNS_MAX = 100000 };

static struct sl_backend *b;
static struct fake *f;
static struct sl_request_view *kept;
static unsigned polls, told_writable;
static struct sl_poll_group group;

static int count_poll(struct sl_transport *t, struct sl_message *msgs, unsigned max)
{
	polls++;
	return fake_poll(t, msgs, max);
}

static int attach(struct sl_transport *t, const void *owner)
{
	(void)owner;
	t->poll_group = &group;
	return 0;
}

static void group_poll(struct sl_poll_group *h)
{
	if (f->in_next < f->in_cnt && sl_list_empty(&f->base.ready_node))
		sl_list_add_tail(&h->ready, &f->base.ready_node);
}

static bool group_arm(struct sl_poll_group *h)
{
	(void)h;
	return true;
}

static void group_handle_event(struct sl_poll_group *h)
{
	(void)h;
}

static const struct sl_poll_group_ops group_ops = {
	.poll = group_poll, .arm = group_arm, .handle_event = group_handle_event};

static void keep(void *arg, struct sl_batch *batch)
{
	(void)arg;
	ck_assert_uint_eq(batch->count, 1);
	kept = batch->requests[0];
}

static void on_writable(void *arg, struct sl_request_view *rq)
{
	(void)arg, (void)rq;
	told_writable++;
}

/* A resting channel is not polled. */
static void await_rest(void)
{
	for (unsigned i = 0; i < TURNS_MAX && !b->resting_cnt; i++)
		sl_backend_poll(b, 0);
	ck_assert_uint_eq(b->resting_cnt, 1);
	polls = 0;
	for (unsigned i = 0; i < 100; i++)
		sl_backend_poll(b, 0);
	ck_assert_uint_eq(polls, 0);
}

/* A request that has been handed out, and waits. */
static void set_up(void)
{
	static struct sl_transport_ops ops;

	ops = fake_ops;
	ops.poll = count_poll;
	ops.attach = attach;
	group = (struct sl_poll_group){.ops = &group_ops, .fd = eventfd(0, EFD_NONBLOCK)};
	sl_list_init(&group.ready);
	kept = NULL;
	told_writable = 0;
	b = fake_backend(keep, NULL, 1);
	b->opt.on_writable = on_writable;
	f = fake_new();
	f->base.ops = &ops;
	sl_list_init(&f->base.ready_node);
	ck_assert(sl_be_channel_add(b, &f->base));
	fake_ask(f, 1, "x");
	fake_settle(b);
	ck_assert_ptr_nonnull(kept);
	await_rest();
}

static void tear_down(void)
{
	sl_backend_close(b);
	fake_free(f);
	close(group.fd);
}

FIXTURE(set_up, tear_down)

TEST(its_answer_leaves_at_once)
{
	sl_reply(kept, &(struct sl_reply_args){.body = "y", .body_len = 1});
	sl_backend_poll(b, 0);
	ck_assert_int_eq(fake_status(f, 1), SL_RPC_OK);
	await_rest();
}

TEST(input_is_taken_at_once)
{
	fake_ask(f, 2, "x");
	sl_backend_poll(b, 0);
	ck_assert_uint_eq(polls > 0, true);
	ck_assert_uint_eq(((struct request *)kept)->id, 2);
}

TEST(request_that_waits_for_room_gets_the_writable_upcall)
{
	struct request *rq = (struct request *)kept;

	/* As a thread does that has not seen yet that there is some again. */
	atomic_store(&rq->blocked, true);
	atomic_store(&rq->channel->blocked, true);
	atomic_store(&b->full, true);
	sl_backend_poll(b, 0);
	ck_assert_uint_eq(told_writable, 1);
	await_rest();
}

TEST(request_that_waits_for_memory_gets_the_writable_upcall)
{
	struct request *rq = (struct request *)kept;
	struct channel *ch = rq->channel;

	atomic_store(&ch->reply_used, SL_BE_REPLY_MEM - 999);
	atomic_store(&rq->blocked, true);
	atomic_store(&ch->wanted, 1000);
	atomic_store(&b->full, true);
	sl_backend_poll(b, 0);
	ck_assert_uint_eq(told_writable, 0);
	/* A request that waits for other room is not called for this one. */
	atomic_store(&ch->blocked, true);
	sl_backend_poll(b, 0);
	ck_assert_uint_eq(told_writable, 1);
	atomic_store(&rq->blocked, true);
	atomic_store(&ch->wanted, 1000);
	sl_backend_poll(b, 0);
	ck_assert_uint_eq(told_writable, 1);
	atomic_store(&ch->reply_used, 0);
	sl_backend_poll(b, 0);
	ck_assert_uint_eq(told_writable, 2);
	await_rest();
}
