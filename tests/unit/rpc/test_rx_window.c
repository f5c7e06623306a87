/* SPDX-License-Identifier: Apache-2.0 */
/* Windows that move: what both ends say of them, what a home makes of it, and peers that lie. */
#include "base/rand.h" /* before names that it has, too */

#include "base/clock.h"
#include "rc_bed.h"
#include "rpc/rdma/rc/srq_credits.h"
#include "suite.h"
#include "until.h"

/* Two ends, each in a home of its own; `v` and `t` are the first one's. */
static struct rc_conn *peer;

static void set_up_pair(void)
{
	set_up();
	peer = fake_connect(GROUP + 1, SLOTS, BULK);
	v->base.credits.window = peer->base.credits.window = SL_RPC_MIN_SLOTS;
}

static void tear_down_pair(void)
{
	peer->base.ops->close(&peer->base);
	tear_down();
}

/* The next of what one has sent reaches the other. False: there is nothing. */
static bool carry(struct rc_conn *from, struct rc_conn *to)
{
	struct fake_qp *qp = fake_qp(from);
	const struct fake_send *s = &qp->sends[qp->done % FAKE_SENDS];

	if (qp->done == qp->posted)
		return false;
	ck_assert_int_eq(s->opcode, IBV_WR_SEND);
	ck_assert(fake_arrive(to, (void *)(uintptr_t)s->sge[0].addr, s->sge[0].length));
	fake_complete(from, 1);
	return true;
}

/* Takes what has come; the number of messages. */
static unsigned take(struct rc_conn *of)
{
	struct sl_message m[4];
	unsigned sum = 0;
	int n;

	while ((n = rc_poll(&of->base, m, 4)) > 0) {
		for (int i = 0; i < n; i++)
			rc_release(&of->base, &m[i]);
		sum += (unsigned)n;
	}
	ck_assert_int_eq(n, 0);
	rc_flush(&of->base);
	return sum;
}

static unsigned carry_all(struct rc_conn *from, struct rc_conn *to)
{
	unsigned n = 0;

	while (carry(from, to))
		n++;
	return n;
}

/* Until neither has anything to say. */
static void settle(void)
{
	do {
		(void)take(v);
		(void)take(peer);
	} while (carry_all(v, peer) + carry_all(peer, v));
}

static int post_small(struct rc_conn *from)
{
	static const uint8_t zeros[SMALL];
	const struct sl_rpc_header h = {.version_type = SL_RPC_VERSION << 4 | SL_RPC_REQUEST,
					.flags = SL_RPC_BATCH | SL_RPC_FIRST | SL_RPC_LAST,
					.priority = SL_CLASS_NORMAL,
					.count = 1,
					.fragment_len = SMALL,
					.total_or_offset = SMALL};
	const struct sl_span span = sl_span_of(zeros, SMALL);

	return rc_post(&from->base, &h, &span, 1, 0);
}

/* As many as there is room for. */
static unsigned fill(struct rc_conn *from)
{
	unsigned n = 0;

	while (post_small(from) == 0)
		n++;
	rc_flush(&from->base);
	return n;
}

static void await(const _Atomic uint32_t *value, uint32_t expected, void (*meanwhile)(void))
{
	uint64_t end_ns = sl_now_ns() + UNTIL_S * SL_NS_PER_SEC;

	while (*value != expected) {
		meanwhile();
		ck_assert_msg(sl_now_ns() < end_ns, "it is %u, not %u", *value, expected);
	}
}

static void use(void)
{
	(void)fill(peer);
	settle();
}

static void rest(void)
{
	settle();
	usleep(1000);
}

/* Windows are moved by the test's hand from now on. */
static void move_by_hand(void)
{
	rc_iface_fail(v->iface);
	rc_iface_fail(peer->iface);
}

/* A message of the peer's that says what it likes. */
static void say(uint8_t type, uint8_t flags, uint32_t window, uint32_t keeps, uint32_t consumed)
{
	const struct sl_rpc_header h = {.version_type = (uint8_t)(SL_RPC_VERSION << 4 | type),
					.flags = SL_RPC_FIRST | SL_RPC_LAST | flags,
					.total_or_offset = window,
					.time_us = keeps,
					.consumed = consumed};

	ck_assert(fake_arrive(v, &h, sizeof(h)));
}

/* Returns v's verdict: 0 or an error. */
static int verdict(void)
{
	struct sl_message m;
	int n = rc_poll(t, &m, 1);

	if (n <= 0)
		return n;
	rc_release(t, &m);
	rc_flush(t);
	return 0;
}

FIXTURE(set_up_pair, tear_down_pair)

TEST(a_window_that_is_used_up_grows)
{
	ck_assert_uint_eq(fill(peer), SL_RPC_MIN_SLOTS - 4);
	await(&v->enforced, SLOTS, use);
	ck_assert_uint_eq(v->window, SLOTS);
	ck_assert_uint_eq(peer->base.credits.window, SLOTS);
	/* The window of the other, unused direction has not grown. */
	ck_assert_uint_eq(peer->enforced, SL_RPC_MIN_SLOTS);
}

/* But not before its peer has said that it keeps to less; until then it counts. */
TEST(a_window_that_is_not_used_shrinks)
{
	uint64_t end_ns = sl_now_ns() + UNTIL_S * SL_NS_PER_SEC;

	await(&v->enforced, SLOTS, use);
	while (v->target_window == SLOTS) {
		usleep(1000);
		ck_assert_uint_lt(sl_now_ns(), end_ns);
	}
	rc_flush(t);
	ck_assert_uint_lt(v->advertised, SLOTS);
	ck_assert_uint_eq(v->enforced, SLOTS);
	ck_assert_uint_eq(v->window, SLOTS);
	await(&v->enforced, SL_RPC_MIN_SLOTS, rest);
	ck_assert_uint_eq(peer->base.credits.window, SL_RPC_MIN_SLOTS);
	await(&v->enforced, SLOTS, use);
}

/* As often as it likes, but each is answered before the next one comes, which the peer must admit. */
TEST(a_claim_of_lacking_room_without_use_gets_none)
{
	for (unsigned i = 0; i < 4000; i++) {
		say(SL_RPC_PING, SL_RPC_SPENT, 0, 0, t->credits.sent);
		ck_assert_int_eq(verdict(), 0);
		ck_assert_int_eq(post_small(v), 0);
		rc_flush(t);
		fake_complete(v, UINT32_MAX);
		if (i % 100 == 0)
			usleep(1000);
	}
	ck_assert_uint_eq(v->enforced, SL_RPC_MIN_SLOTS);
}

/* All keep to a smaller window at once, but for what makes room for the peer. */
TEST(a_smaller_window_leaves_room_for_credits)
{
	move_by_hand();
	v->target_window = SLOTS;
	rc_flush(t);
	settle();
	ck_assert_uint_eq(fill(peer), SLOTS - 10);
	v->target_window = SL_RPC_MIN_SLOTS;
	rc_flush(t);
	(void)carry_all(v, peer);
	(void)take(peer);
	ck_assert_uint_eq(rx_window_room(peer, SL_CREDIT_DATA), 0);
	ck_assert_uint_eq(rx_window_room(peer, SL_CREDIT_CONTROL), 0);
	ck_assert_uint_eq(rx_window_room(peer, SL_CREDIT_CREDIT), 10);
	(void)carry_all(peer, v);
	ck_assert(v->shrinking);
	settle();
	ck_assert_uint_eq(rx_window_room(peer, SL_CREDIT_DATA), SL_RPC_MIN_SLOTS - 5);
	ck_assert_uint_eq(rx_window_room(peer, SL_CREDIT_CREDIT), SL_RPC_MIN_SLOTS - 1);
	ck_assert(!v->shrinking);
	ck_assert_uint_eq(v->enforced, SL_RPC_MIN_SLOTS);
}

static const uint32_t wrong[] = {0, SL_RPC_MIN_SLOTS - 1, SLOTS + 1, UINT32_MAX};

TEST_EACH(a_window_that_cannot_be_breaks_the_connection, 4)
{
	say(SL_RPC_CREDIT, 0, SLOTS, 0, 0);
	ck_assert_int_eq(verdict(), 0);
	say(SL_RPC_CREDIT, 0, wrong[_i], 0, 0);
	ck_assert_int_eq(verdict(), -EPROTO);
}

/* The second of two messages in one poll is wrong: an answer to the first does not hide that. */
TEST(an_answering_end_learns_why_the_connection_is_broken)
{
	const struct sl_rpc_header pong = {.version_type = SL_RPC_VERSION << 4 | SL_RPC_PONG,
					   .flags = SL_RPC_FIRST | SL_RPC_LAST,
					   .priority = SL_CLASS_CONTROL};
	struct sl_message m[2];

	say(SL_RPC_PING, 0, 0, 0, 0);
	say(SL_RPC_CREDIT, 0, wrong[0], 0, 0);
	ck_assert_int_eq(rc_poll(t, m, 2), 1);
	ck_assert_int_eq(rc_post(t, &pong, NULL, 0, 0), -EPROTO);
}

/* v has granted all, and takes it back. */
static void lower(void)
{
	move_by_hand();
	v->target_window = SLOTS;
	rc_flush(t);
	v->target_window = SL_RPC_MIN_SLOTS;
	rc_flush(t);
	ck_assert(v->shrinking);
}

/* Whatever it says there, before it has heard. */
TEST(lowered_window_is_enforced_once_it_is_acknowledged)
{
	lower();
	say(SL_RPC_CREDIT, 0, SLOTS, SL_RPC_MIN_SLOTS, t->credits.sent - 1);
	ck_assert_int_eq(verdict(), 0);
	ck_assert_uint_eq(v->enforced, SLOTS);
	say(SL_RPC_CREDIT, 0, SLOTS, SLOTS, t->credits.sent);
	ck_assert_int_eq(verdict(), 0);
	ck_assert_uint_eq(v->enforced, SLOTS);
	say(SL_RPC_CREDIT, 0, SLOTS, SL_RPC_MIN_SLOTS, t->credits.sent);
	ck_assert_int_eq(verdict(), 0);
	ck_assert_uint_eq(v->enforced, SL_RPC_MIN_SLOTS);
}

TEST(a_peer_that_breaks_its_smaller_window_is_blocked)
{
	struct sl_message m[SLOTS];

	lower();
	say(SL_RPC_CREDIT, 0, SLOTS, SL_RPC_MIN_SLOTS, t->credits.sent);
	ck_assert_int_eq(verdict(), 0);
	rc_flush(t);
	for (unsigned i = 0; i < SL_RPC_MIN_SLOTS; i++) {
		say(SL_RPC_PING, 0, 0, 0, t->credits.sent);
		ck_assert_int_eq(rc_poll(t, &m[i], 1), 1);
	}
	say(SL_RPC_PING, 0, 0, 0, t->credits.sent);
	ck_assert_int_eq(rc_poll(t, &m[0], 1), -EPROTO);
}

/* It goes on as before, and says nothing: it must have heard. */
TEST(a_peer_that_ignores_a_smaller_window_is_blocked)
{
	unsigned i;

	lower();
	for (i = 0; i < 16 * SLOTS; i++) {
		say(SL_RPC_PING, 0, 0, 0, 0);
		if (verdict())
			break;
	}
	ck_assert_uint_gt(i, 2 * SLOTS);
	ck_assert_uint_lt(i, 16 * SLOTS);
}

/* --- whatever happens at the same time --- */

static unsigned posted[2], taken[2];

static void step(struct rc_conn *of, struct rc_conn *other, unsigned end, struct sl_prng *rng)
{
	struct sl_message m;

	switch (sl_prng_below(rng, 6)) {
	case 0:
		if (of->enforced == of->target_window && of->advertised == of->target_window)
			of->target_window = (uint32_t)SL_RPC_MIN_SLOTS << sl_prng_below(rng, 3);
		break;
	case 1: posted[end] += post_small(of) == 0; break;
	case 2: posted[end] += fill(of); break;
	case 3: rc_flush(&of->base); break;
	case 4: (void)carry(of, other); break;
	default:
		if (rc_poll(&of->base, &m, 1) == 1) {
			taken[end]++;
			rc_release(&of->base, &m);
		}
		ck_assert_int_eq(of->error, 0);
	}
}

/*
 * Both ends full, both windows smaller than the messages under way: no end is stuck, nothing is
 * lost.
 */
TEST_EACH(moving_windows_stop_no_end, 8)
{
	struct sl_prng rng;

	sl_prng_seed(&rng, (uint64_t)_i + 1);
	move_by_hand();
	memset(posted, 0, sizeof(posted));
	memset(taken, 0, sizeof(taken));
	for (unsigned i = 0; i < 30000; i++) {
		step(v, peer, 0, &rng);
		step(peer, v, 1, &rng);
		ck_assert_uint_le(v->rx_next - t->credits.consumed, v->enforced);
	}
	for (unsigned i = 0; i < 100; i++) {
		rc_flush(t);
		rc_flush(&peer->base);
		(void)carry_all(v, peer);
		(void)carry_all(peer, v);
		taken[0] += take(v);
		taken[1] += take(peer);
	}
	ck_assert_uint_eq(taken[1], posted[0]);
	ck_assert_uint_eq(taken[0], posted[1]);
	ck_assert_uint_gt(posted[0], 1000);
	ck_assert_uint_eq(v->enforced, v->target_window);
	ck_assert_uint_eq(peer->enforced, peer->target_window);
	ck_assert_uint_eq(peer->base.credits.window, v->enforced);
	ck_assert_uint_eq(v->tx_over + peer->tx_over, 0);
	ck_assert_uint_gt(rx_window_room(v, SL_CREDIT_DATA), 0);
}

/* --- many of one home --- */

enum { MANY = 40, WIDE = 1024, LEVEL = 512 };

static struct rc_conn *many[MANY];

/* So many messages at once, and the word that its peer keeps to what it was told. */
static void come(struct rc_conn *to, unsigned cnt)
{
	struct sl_rpc_header h = {.version_type = SL_RPC_VERSION << 4 | SL_RPC_PING,
				  .flags = SL_RPC_FIRST | SL_RPC_LAST | SL_RPC_SPENT,
				  .total_or_offset = SL_RPC_MIN_SLOTS,
				  .time_us = to->advertised,
				  .consumed = to->base.credits.sent};

	for (unsigned i = 0; i < cnt; i++)
		ck_assert(fake_arrive(to, &h, sizeof(h)));
	(void)take(to);
	h.version_type = SL_RPC_VERSION << 4 | SL_RPC_CREDIT;
	h.flags = SL_RPC_FIRST | SL_RPC_LAST;
	ck_assert(fake_arrive(to, &h, sizeof(h)));
	(void)take(to);
	fake_complete(to, UINT32_MAX);
}

/* A peer without work confirms what it was told, once. Further messages would count as work. */
static void confirm(struct rc_conn *to, uint32_t *told)
{
	if (to->advertised == *told) {
		(void)take(to);
		fake_complete(to, UINT32_MAX);
		return;
	}
	*told = to->advertised;
	come(to, 0);
}

static unsigned slots_held(void)
{
	unsigned sum = 0;

	for (unsigned i = 0; i < MANY; i++)
		sum += many[i]->enforced + SRQ_CREDITS_SPARE;
	return sum;
}

/* The last one is as well off as the first, and all of them together have what is posted, or less. */
TEST(the_order_in_which_they_come_does_not_matter)
{
	uint64_t end_ns = sl_now_ns() + UNTIL_S * SL_NS_PER_SEC;
	bool reached[2][MANY] = {{false}};
	uint32_t told[MANY] = {0};
	const struct fake_slots *s;
	unsigned busy;

	for (unsigned i = 0; i < MANY; i++) {
		many[i] = fake_connect(GROUP + 2, WIDE, SL_RPC_MIN_BULK);
		sl_rdma_wait_closed();
	}
	s = fake_slots(many[0]);
	/* The first half works, and has as much as there is; then the second half does. */
	for (unsigned half = 0; half < 2; half++) {
		do {
			busy = 0;
			for (unsigned i = 0; i < MANY; i++) {
				bool works = i / (MANY / 2) == half;

				if (works)
					come(many[i], many[i]->advertised - 4);
				else
					confirm(many[i], &told[i]);
				reached[half][i] |= works && many[i]->enforced == LEVEL;
				busy += reached[half][i];
			}
			ck_assert_uint_le(slots_held(), s->put - s->got);
			ck_assert_msg(sl_now_ns() < end_ns, "%u in half %u", busy, half);
		} while (busy < MANY / 2);
	}
	for (unsigned i = 0; i < MANY; i++)
		many[i]->base.ops->close(&many[i]->base);
	sl_rdma_wait_closed();
}
