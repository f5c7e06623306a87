/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flow control as a property: two ends with random schedules of sending, reading, completing and
 * flushing. They never overrun a window or the bulk ring, and never stop while one has something to
 * send.
 */
#include <errno.h>
#include <stdlib.h>
#include "base/rand.h"
#include "rpc/credits.h"
#include "suite.h"

enum { RING = 1 << 16, MAX_WINDOW = 64 };

struct wire_message {
	uint32_t consumed, len;
};

/* One end, and the ring of messages towards it. */
struct end {
	struct sl_credits c;
	struct wire_message in[MAX_WINDOW];
	uint32_t in_head, in_tail;
	uint64_t rx_bulk_head;
	uint64_t tx_end[MAX_WINDOW];
	uint64_t todo; /* messages still to be sent */
};

static bool post(struct end *from, struct end *to, enum sl_credit_kind kind, uint32_t len)
{
	struct wire_message *m = &to->in[to->in_head % MAX_WINDOW];
	uint32_t at, seq = from->c.sent;

	if (!sl_credits_room(&from->c, kind) || len > sl_credits_bulk_room(&from->c))
		return false;
	if (len) {
		from->c.bulk_sent =
			sl_credits_bulk_place(from->c.bulk_len, from->c.bulk_sent, len, &at);
		ck_assert_uint_le(at + len, from->c.bulk_len);
	}
	ck_assert_uint_le(from->c.bulk_sent - from->c.bulk_acked, from->c.bulk_len);
	from->tx_end[seq % MAX_WINDOW] = from->c.bulk_sent;
	*m = (struct wire_message){.len = len, .consumed = sl_credits_post(&from->c)};
	to->in_head++;
	ck_assert_uint_le(to->in_head - to->in_tail, from->c.window);
	ck_assert_uint_le(from->c.sent - from->c.done, from->c.sq);
	return true;
}

static bool take(struct end *e)
{
	struct wire_message *m = &e->in[e->in_tail % MAX_WINDOW];
	uint32_t at;
	int64_t fresh;

	if (e->in_tail == e->in_head)
		return false;
	fresh = sl_credits_ack(&e->c, m->consumed);
	ck_assert_int_ge(fresh, 0);
	if (fresh)
		e->c.bulk_acked = e->tx_end[(m->consumed - 1) % MAX_WINDOW];
	if (m->len)
		e->rx_bulk_head =
			sl_credits_bulk_place(e->c.bulk_len, e->rx_bulk_head, m->len, &at);
	e->in_tail++;
	e->c.consumed = e->in_tail;
	e->c.bulk_consumed = e->rx_bulk_head;
	return true;
}

static void complete(struct end *e, struct sl_prng *rng)
{
	uint32_t open = e->c.sent - e->c.done;

	e->c.done += (uint32_t)sl_prng_below(rng, open + 1);
}

static void flush(struct end *e, struct end *peer)
{
	if (sl_credits_due(&e->c))
		post(e, peer, SL_CREDIT_CREDIT, 0);
}

/* Everything that can be done without new data; true if anything was. */
static bool settle(struct end *a, struct end *b)
{
	bool any = false;

	for (unsigned i = 0; i < 2; i++) {
		struct end *e = i ? b : a, *peer = i ? a : b;

		while (take(e))
			any = true;
		e->c.done = e->c.sent;
		flush(e, peer);
	}
	return any;
}

static void run(uint64_t seed, uint32_t window)
{
	struct sl_prng rng;
	struct end e[2] = {{.todo = 4000}, {.todo = 4000}};
	unsigned stuck = 0;

	sl_prng_seed(&rng, seed);
	for (unsigned i = 0; i < 2; i++)
		sl_credits_init(&e[i].c, window, 16 + (uint32_t)sl_prng_below(&rng, window), RING);
	if (seed & 1)
		e[1].todo = 0; /* one direction alone */
	while (e[0].todo || e[1].todo) {
		unsigned who = (unsigned)sl_prng_below(&rng, 2);
		struct end *me = &e[who], *peer = &e[!who];
		uint32_t len = (uint32_t)sl_prng_below(&rng, 3) ? 0 : 1;

		if (len)
			len = (uint32_t)sl_prng_below(&rng, RING / 4 + 1);
		switch (sl_prng_below(&rng, 5)) {
		case 0:
		case 1:
			if (me->todo && post(me, peer, SL_CREDIT_DATA, len)) {
				me->todo--;
				stuck = 0;
			}
			break;
		case 2: take(me); break;
		case 3: complete(me, &rng); break;
		default: flush(me, peer);
		}
		/*
		 * Once both have read and completed all, an end with data can send, even the
		 * longest message.
		 */
		if (++stuck > 400) {
			struct end *s = e[0].todo ? &e[0] : &e[1], *r = e[0].todo ? &e[1] : &e[0];

			while (settle(&e[0], &e[1]))
				;
			ck_assert_msg(post(s, r, SL_CREDIT_DATA, RING / 4),
				      "deadlock, seed %lu window %u", seed, window);
			s->todo--;
			stuck = 0;
		}
	}
}

TEST(no_schedule_overruns_a_window_or_the_ring)
{
	for (uint64_t seed = 1; seed <= 60; seed++)
		run(seed, seed % 3 == 0 ? 16 : seed % 3 == 1 ? 32 : 64);
}

/* Data, control and CREDIT each leave room for what is more important. */
TEST(each_kind_leaves_room_for_more_important_ones)
{
	struct sl_credits c;
	uint32_t data, control;

	sl_credits_init(&c, 64, 64, RING);
	data = sl_credits_room(&c, SL_CREDIT_DATA);
	control = sl_credits_room(&c, SL_CREDIT_CONTROL);
	ck_assert_uint_eq(sl_credits_room(&c, SL_CREDIT_CREDIT), 64);
	ck_assert_uint_lt(data, control);
	ck_assert_uint_lt(control, 64);
	for (uint32_t i = 0; i < data; i++)
		sl_credits_post(&c);
	ck_assert_uint_eq(sl_credits_room(&c, SL_CREDIT_DATA), 0);
	ck_assert_uint_eq(sl_credits_room(&c, SL_CREDIT_CONTROL), control - data);
	c.acked = c.sent; /* the send queue alone holds as well */
	ck_assert_uint_eq(sl_credits_room(&c, SL_CREDIT_DATA), 0);
	c.done = c.sent;
	ck_assert_uint_eq(sl_credits_room(&c, SL_CREDIT_DATA), data);
	/* Nor does a long send queue make the peer's slots more. */
	sl_credits_init(&c, 64, 1024, RING);
	ck_assert_uint_eq(sl_credits_room(&c, SL_CREDIT_DATA), data);
	ck_assert_uint_eq(sl_credits_room(&c, SL_CREDIT_CONTROL), control);
}

TEST(a_claim_to_have_read_unsent_bytes_is_refused)
{
	struct sl_credits c;

	sl_credits_init(&c, 16, 16, RING);
	c.sent = c.acked = UINT32_MAX - 1; /* about to wrap */
	for (int i = 0; i < 4; i++)
		sl_credits_post(&c);
	ck_assert_int_eq(sl_credits_ack(&c, 3), -EPROTO);              /* not sent yet */
	ck_assert_int_eq(sl_credits_ack(&c, UINT32_MAX - 2), -EPROTO); /* taken back */
	ck_assert_int_eq(sl_credits_ack(&c, 1), 3);
	ck_assert_int_eq(sl_credits_ack(&c, 1), 0); /* repeated */
	ck_assert_int_eq(sl_credits_ack(&c, 2), 1);
}

TEST(credit_is_due_after_half_a_window)
{
	struct sl_credits c;

	sl_credits_init(&c, 16, 16, RING);
	c.consumed = 7;
	ck_assert(!sl_credits_due(&c));
	c.consumed = 8;
	ck_assert(sl_credits_due(&c));
	sl_credits_post(&c);
	ck_assert(!sl_credits_due(&c));
	c.bulk_consumed = RING / 2;
	ck_assert(sl_credits_due(&c));
}
