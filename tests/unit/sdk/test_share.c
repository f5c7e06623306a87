/* SPDX-License-Identifier: Apache-2.0 */
/* Reply memory, of which there is some for everybody, whatever one gateway and its clients do. */
#include "sdk_fake.h"
#include "suite.h"

enum { POT = 4 << 20, LEN = 32 << 10, LONG = 4 * SL_RPC_INITIAL_WINDOW, ASKED = 2 * POT / LEN };

static struct sl_request_view *held[ASKED];
static unsigned held_cnt, told_writable;
static bool at_once; /* the thread that polls replies */
static unsigned taken;
static const uint8_t bytes[LONG];
static struct sl_backend *b;
static struct fake *greedy, *other;
static struct sl_transport_ops deaf; /* takes no message, not even a small one */

static int reply(struct sl_request_view *rq)
{
	int rc = sl_reply(rq, &(struct sl_reply_args){.body = bytes, .body_len = LEN});

	taken += rc == 0;
	return rc;
}

static void handle(void *arg, struct sl_batch *batch)
{
	(void)arg;
	for (unsigned i = 0; i < batch->count; i++) {
		if (at_once)
			reply(batch->requests[i]);
		else
			held[held_cnt++] = batch->requests[i];
	}
}

static void on_writable(void *arg, struct sl_request_view *rq)
{
	(void)arg, (void)rq;
	told_writable++;
}

static int post_nothing(struct sl_transport *t, const struct sl_rpc_header *h,
			const struct sl_span *spans, unsigned cnt, uint64_t cookie)
{
	(void)t, (void)h, (void)spans, (void)cnt, (void)cookie;
	return -EAGAIN;
}

static void set_up(void)
{
	deaf = fake_ops;
	deaf.post = post_nothing;
	b = fake_backend(handle, NULL, 0);
	b->opt.on_writable = on_writable;
	b->reply_mem.limit = POT;
	greedy = fake_connect(b);
	other = fake_connect(b);
	held_cnt = told_writable = taken = 0;
	at_once = false;
}

static void tear_down(void)
{
	sl_backend_close(b);
	fake_free(greedy);
	fake_free(other);
}

FIXTURE(set_up, tear_down)

/* Returns the last status sent. */
static enum sl_rpc_status last_status(const struct fake *f, uint64_t id)
{
	unsigned found = SL_RPC_COMPRESSED + 1;

	for (unsigned i = 0; i < f->out_cnt; i++) {
		const struct fake_message *m = &f->out[i];

		for (unsigned k = 0; k < m->header.count; k++) {
			struct sl_rpc_entry e;

			if ((m->header.version_type & 15) != SL_RPC_RESPONSE)
				continue;
			memcpy(&e, m->body + k * sizeof(e), sizeof(e));
			found = e.id == id ? e.status : found;
		}
	}
	return found;
}

/* Half of the memory is left after each gateway, for any order of replies. */
TEST_EACH(a_gateway_that_reads_nothing_leaves_room_for_others, 2)
{
	enum { ASKED_OF_OTHER = POT / LEN / 12 }; /* fit also in blocks of twice their length */

	at_once = _i;
	greedy->full = true;
	for (uint64_t id = 1; id <= ASKED; id++)
		fake_ask(greedy, id, "x");
	fake_settle(b);
	for (unsigned i = 0; i < held_cnt; i++)
		reply(held[i]);
	fake_settle(b);
	ck_assert_uint_ge(taken, POT / LEN / 6); /* blocks of memory may be twice as long */
	ck_assert_uint_le(taken, POT / LEN / 2);
	ck_assert_uint_lt(b->reply_mem.used, POT * 2 / 3);
	ck_assert(!greedy->closed);
	taken = held_cnt = 0;
	for (uint64_t id = 1; id <= ASKED_OF_OTHER; id++)
		fake_ask(other, id, "x");
	fake_settle(b);
	for (unsigned i = 0; i < held_cnt; i++)
		ck_assert_int_eq(reply(held[i]), 0);
	fake_settle(b);
	ck_assert_uint_eq(taken, ASKED_OF_OTHER);
	for (uint64_t id = 1; id <= ASKED_OF_OTHER; id++)
		ck_assert_int_eq(last_status(other, id), SL_RPC_OK);
	/*
	 * The replies that it had not taken are sent; the rest has ended, and the channel has not.
	 */
	greedy->full = false;
	for (unsigned i = 0; i < ASKED; i++)
		sl_backend_poll(b, 0);
	ck_assert_int_eq(last_status(greedy, 1), SL_RPC_OK);
	ck_assert_int_eq(last_status(greedy, ASKED), SL_RPC_LOST);
	ck_assert(!greedy->closed);
}

/* However much one address leaves unread, an address without replies finds memory. */
TEST_EACH(an_address_that_reads_nothing_leaves_memory_for_others, 2)
{
	enum { OTHERS = 3, EACH = POT / LEN / 64 };

	at_once = _i;
	greedy->full = true;
	for (uint64_t id = 1; id <= ASKED; id++)
		fake_ask_of(greedy, id, 1);
	fake_settle(b);
	for (unsigned i = 0; i < held_cnt; i++)
		reply(held[i]);
	fake_settle(b);
	ck_assert_uint_ge(taken, POT / LEN / 6); /* blocks of memory may be twice as long */
	ck_assert_uint_le(taken, POT / LEN / 3 + 1);
	for (uint32_t k = 0; k < OTHERS; k++) {
		taken = held_cnt = 0;
		for (uint64_t i = 0; i < EACH; i++)
			fake_ask_of(greedy, (uint64_t)(2 + k) * ASKED + i, 2 + k);
		fake_settle(b);
		for (unsigned i = 0; i < held_cnt; i++)
			reply(held[i]);
		ck_assert_uint_eq(taken, EACH);
	}
	ck_assert(!greedy->closed);
}

static uint32_t share_cnt(const struct sl_backend *of)
{
	uint32_t cnt = 0;

	for (unsigned i = 0; i < SL_BE_SHARES; i++)
		for (const struct client_share *share = of->shares[i]; share; share = share->next)
			cnt++;
	return cnt;
}

/* A share lives as long as a request or a reply of its client. */
TEST(a_share_ends_with_its_last_reply)
{
	for (uint64_t id = 1; id <= 8; id++)
		fake_ask_of(greedy, id, 1 + (uint32_t)id % 4);
	fake_settle(b);
	ck_assert_uint_eq(share_cnt(b), 4);
	greedy->full = true;
	for (unsigned i = 0; i < held_cnt; i++)
		ck_assert_int_eq(reply(held[i]), 0);
	fake_settle(b);
	ck_assert_uint_eq(b->open_cnt, 0);
	ck_assert_uint_eq(share_cnt(b), 4);
	greedy->full = false;
	for (unsigned i = 0; i < 8; i++)
		fake_settle(b);
	ck_assert_uint_eq(share_cnt(b), 0);
}

/* Each of them is small, but nothing bounds how many there are. */
TEST(unread_refusals_end_their_link_only)
{
	uint64_t id = 0;

	b->reply_mem.limit = 256 << 10;
	greedy->base.ops = &deaf;
	while (!greedy->closed && id < 4096) {
		struct sl_rpc_entry e;

		fake_ask_part(greedy, ++id, "\2\0\5\0x", 5, "", 0, 0, SL_CLASS_NORMAL);
		memcpy(&e, greedy->in[greedy->in_cnt - 1].body, sizeof(e));
		e.flags = SL_ENTRY_STREAM; /* unknown to the program */
		memcpy(greedy->in[greedy->in_cnt - 1].body, &e, sizeof(e));
		sl_backend_poll(b, 0);
		ck_assert_uint_lt(b->reply_mem.used, b->reply_mem.limit * 7 / 8);
	}
	ck_assert(greedy->closed);
	ck_assert(!other->closed);
}

/* Parts that find no memory are asked for again when there is some for them. */
TEST(part_refused_for_memory_gets_the_writable_upcall)
{
	struct sl_reply_args a = {.body = bytes, .body_len = LEN, .more = true};
	int rc = 0;

	greedy->full = true;
	for (uint64_t id = 1; id <= ASKED; id++)
		fake_ask(greedy, id, "x");
	fake_settle(b);
	for (unsigned i = 0; i < held_cnt && !rc; i++) {
		rc = sl_reply(held[i], &a);
		taken += !rc;
	}
	ck_assert_int_eq(rc, -EAGAIN);
	ck_assert_uint_le(taken, POT / LEN / 2);
	fake_settle(b);
	fake_settle(b);
	ck_assert_uint_eq(told_writable, 0);
	greedy->full = false;
	for (unsigned i = 0; i < 1000 && !told_writable; i++) {
		fake_settle(b);
		usleep(1000);
	}
	ck_assert_uint_eq(told_writable, 1);
	ck_assert_int_eq(sl_reply(held[taken], &a), 0);
}

static void reply_long(struct sl_request_view *rq)
{
	ck_assert_int_eq(sl_reply(rq, &(struct sl_reply_args){.body = bytes, .body_len = LONG}), 0);
	fake_settle(b);
}

/* Clients that read slowly: those that have taken nothing for a while, and no more than it takes. */
TEST(the_reply_whose_client_stopped_first_ends_first)
{
	enum { SLOW = POT / LONG / 4 };
	struct request *slow[SLOW];

	for (uint64_t id = 1; id <= SLOW + 1; id++)
		fake_ask(greedy, id, "x");
	fake_settle(b);
	for (unsigned i = 0; i < SLOW; i++) {
		slow[i] = (struct request *)held[i];
		reply_long(held[i]);
		slow[i]->credit_ns += 100 * SL_NS_PER_SEC; /* has begun just now */
	}
	ck_assert_uint_eq(b->open_cnt, SLOW + 1);
	for (unsigned i = 0; i < SLOW; i++)
		slow[i]->credit_ns -= 102 * SL_NS_PER_SEC;
	/* One takes a little. */
	fake_credit(greedy, 1, 8 << 10);
	fake_settle(b);
	reply_long(held[SLOW]);
	ck_assert_int_eq(last_status(greedy, 1), SL_RPC_OK);
	ck_assert_int_eq(last_status(greedy, 2), SL_RPC_LOST);
	ck_assert_int_eq(last_status(greedy, 3), SL_RPC_LOST);
	for (uint64_t id = 4; id <= SLOW + 1; id++)
		ck_assert_int_eq(last_status(greedy, id), SL_RPC_OK);
	ck_assert_uint_eq(b->open_cnt, SLOW - 1);
	ck_assert(!greedy->closed);
}

/* Time in which the backend did not look does not count as a stall. */
TEST(a_gateway_that_was_not_polled_has_not_stopped)
{
	enum { SLOW = POT / LONG / 4 + 1 };
	struct request *first;

	for (uint64_t id = 1; id <= SLOW; id++)
		fake_ask(greedy, id, "x");
	fake_settle(b);
	for (unsigned i = 0; i < SLOW; i++)
		reply_long(held[i]);
	usleep(1100 * 1000);
	fake_settle(b);
	ck_assert_uint_eq(b->open_cnt, SLOW);
	/* Nor does a reply that began meanwhile, as an inline handler's may. */
	first = (struct request *)held[0];
	first->credit_ns += SL_NS_PER_SEC;
	fake_settle(b);
	ck_assert_uint_eq(b->open_cnt, SLOW);
	first->credit_ns -= SL_NS_PER_SEC;
	for (unsigned i = 0; i < 12; i++) {
		usleep(100 * 1000);
		fake_settle(b);
	}
	ck_assert_uint_lt(b->open_cnt, SLOW);
}

/* Memory held by other threads does not block the end of a request. */
TEST(an_end_needs_little)
{
	struct channel *ch;

	fake_ask(greedy, 1, "x");
	fake_settle(b);
	ch = ((struct request *)held[0])->channel;
	atomic_store(&b->foreign_used, POT);
	atomic_store(&ch->foreign_used, POT);
	sl_reply_error(held[0], SL_RPC_INTERNAL);
	fake_settle(b);
	ck_assert_int_eq(last_status(greedy, 1), SL_RPC_INTERNAL);
	ck_assert(!greedy->closed);
	atomic_store(&b->foreign_used, 0);
	atomic_store(&ch->foreign_used, 0);
}

/* A small reply does not wait for the room of a large one. */
TEST_EACH(the_least_that_is_wanted_counts, 2)
{
	struct sl_reply_args little = {.body = bytes, .body_len = 100, .more = true};
	struct sl_reply_args much = {.body = bytes, .body_len = LEN, .more = true};
	struct channel *ch;

	for (uint64_t id = 1; id <= 2; id++)
		fake_ask(greedy, id, "x");
	fake_settle(b);
	ch = ((struct request *)held[0])->channel;
	atomic_store(&b->foreign_used, POT);
	ck_assert_int_eq(sl_reply(held[0], _i ? &little : &much), -EAGAIN);
	ck_assert_int_eq(sl_reply(held[1], _i ? &much : &little), -EAGAIN);
	ck_assert_uint_le(atomic_load(&ch->wanted), sizeof(struct reply) + 112);
	atomic_store(&b->foreign_used, 0);
	fake_settle(b);
	ck_assert_uint_eq(told_writable, 2);
}

/* Also if no further reply comes. */
TEST(stalled_reader_is_found_by_the_tick)
{
	enum { SLOW = POT / LONG / 4 };
	struct request *slow[SLOW];

	for (uint64_t id = 1; id <= SLOW; id++)
		fake_ask(greedy, id, "x");
	fake_settle(b);
	for (unsigned i = 0; i < SLOW; i++) {
		slow[i] = (struct request *)held[i];
		reply_long(held[i]);
	}
	for (unsigned i = 0; i < SLOW; i++)
		slow[i]->credit_ns -= 2 * SL_NS_PER_SEC;
	b->tick_ns = 0;
	fake_settle(b);
	ck_assert_int_eq(last_status(greedy, 1), SL_RPC_LOST);
	ck_assert_uint_eq(b->open_cnt, SLOW - 1);
}
