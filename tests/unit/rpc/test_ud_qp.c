/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs that begin with a part of their slots, and have the rest when they are used. */
#include "fake_verbs.h"

#include <pthread.h>
#include <sys/wait.h>
#include "base/clock.h"
#include "base/rand.h"
#include "rpc/rdma/ud/ud_iface.h"
#include "suite.h"
#include "until.h"

enum {
	RX = UD_IFACE_RX,
	TX = UD_IFACE_TX,
	FIRST_RX = RX / 8,
	FIRST_TX = TX / 8,
	MTU = 4096,
	GRH = 40,
};

static struct sidr_service *sign;
static struct ud_qp *pair;
static struct fake_qp *qp;

static struct ud_qp *open_pair(void)
{
	int rc;
	struct ud_qp *p = rdma_device->open(&sign->local, 0, RX, TX, &rc);

	ck_assert_ptr_nonnull(p);
	return p;
}

static void set_up(void)
{
	struct sockaddr_storage sa;

	fake_start();
	fake.addressed = true;
	ck_assert_int_eq(rdma_parse_addr("192.0.2.2:7471", &sa), 0);
	ck_assert_int_eq(rdma_device->sidr_new(&sign, &sa, false), 0);
	pair = open_pair();
	qp = fake.last_qp;
}

static void tear_down(void)
{
	rdma_device->close(pair);
	rdma_device->sidr_free(sign);
	ck_assert_uint_eq(fake.registered, 0);
}

FIXTURE(set_up, tear_down)

static size_t bytes_of(size_t rx, size_t tx)
{
	return rx * (GRH + MTU) + tx * MTU;
}

/* So many have come; they are put back. */
static void poll_for(unsigned cnt)
{
	struct ud_packet packets[UD_POLL_MAX];
	unsigned before = qp->own.put;

	for (unsigned i = 0; i < cnt; i++)
		fake_push(qp->base.recv_cq,
			  &(struct ibv_wc){.wr_id = qp->own.wr_id[qp->own.got++ % FAKE_QUEUE],
					   .byte_len = GRH + 1});
	ck_assert_int_eq(rdma_device->poll(pair, packets, UD_POLL_MAX), cnt);
	/* A poll takes no longer for growth than for what comes. */
	ck_assert_uint_le(qp->own.put - before, UD_POLL_MAX);
	ck_assert_int_eq(rdma_device->repost(pair, packets, cnt), 0);
}

static unsigned posted(void)
{
	poll_for(0);
	return qp->own.put - qp->own.got;
}

/* The contents of each slot are its own. */
static void check_receives(unsigned cnt)
{
	uint8_t *at[RX];

	ck_assert_uint_eq(qp->own.put - qp->own.got, cnt);
	for (unsigned i = 0; i < cnt; i++) {
		at[i] = qp->own.at[(qp->own.got + i) % FAKE_QUEUE];
		memset(at[i], (int)i, GRH + MTU);
		memcpy(at[i], &i, sizeof(i));
	}
	for (unsigned i = 0; i < cnt; i++) {
		ck_assert_mem_eq(at[i], &i, sizeof(i));
		ck_assert_uint_eq(at[i][GRH + MTU - 1], (uint8_t)i);
	}
}

/* Sends until no buffer is left. Returns the number; no other bytes change. */
static unsigned send_all(void)
{
	uint8_t *at[TX + 1];
	unsigned cnt = 0;

	while ((at[cnt] = rdma_device->tx_buf(pair))) {
		ck_assert_uint_lt(cnt, TX);
		memset(at[cnt], (int)cnt, MTU);
		memcpy(at[cnt], &cnt, sizeof(cnt));
		rdma_device->send(pair, NULL, 5, MTU);
		cnt++;
	}
	ck_assert_int_eq(rdma_device->flush(pair), 0);
	for (unsigned i = 0; i < cnt; i++) {
		ck_assert_mem_eq(at[i], &i, sizeof(i));
		ck_assert_uint_eq(at[i][MTU - 1], (uint8_t)i);
	}
	return cnt;
}

/* The device says of each that it has been sent. */
static void finish(unsigned cnt)
{
	for (; cnt--; qp->done++)
		fake_push(qp->base.send_cq, &(struct ibv_wc){.status = IBV_WC_SUCCESS});
}

static int by_address(const void *a, const void *b)
{
	uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;

	return (x > y) - (x < y);
}

/* All slots lie in the two pieces that are registered, one behind the other. */
static void check_memory(void)
{
	uintptr_t at[RX + TX];
	unsigned gaps = 0;

	ck_assert_uint_eq(qp->posted - qp->done, TX);
	for (unsigned i = 0; i < RX; i++)
		at[i] = (uintptr_t)qp->own.at[(qp->own.got + i) % FAKE_QUEUE];
	for (unsigned i = 0; i < TX; i++)
		at[RX + i] = qp->sends[(qp->done + i) % FAKE_SENDS].sge[0].addr;
	qsort(at, SL_ARRAY_LEN(at), sizeof(at[0]), by_address);
	for (unsigned i = 1; i < SL_ARRAY_LEN(at); i++) {
		ck_assert_uint_ge(at[i] - at[i - 1], MTU);
		gaps += at[i] - at[i - 1] > GRH + MTU;
	}
	ck_assert_uint_le(gaps, 1);
}

static void want_more(void)
{
	poll_for(FIRST_RX / 2);
}

TEST(a_pair_that_is_little_used_stays_small)
{
	ck_assert_uint_eq(fake.registered, bytes_of(FIRST_RX, FIRST_TX));
	check_receives(FIRST_RX);
	for (unsigned i = 0; i < 100; i++) {
		poll_for(FIRST_RX / 2 - 1);
		for (unsigned k = 0; k < FIRST_TX; k++) {
			ck_assert_ptr_nonnull(rdma_device->tx_buf(pair));
			rdma_device->send(pair, NULL, 5, 100);
		}
		ck_assert_int_eq(rdma_device->flush(pair), 0);
		finish(FIRST_TX);
	}
	usleep(20000);
	ck_assert_uint_eq(posted(), FIRST_RX);
	ck_assert_uint_eq(fake.registered, bytes_of(FIRST_RX, FIRST_TX));
}

TEST_EACH(a_pair_that_is_used_has_all_of_its_slots_and_no_more, 2)
{
	if (_i)
		ck_assert_uint_eq(send_all(), FIRST_TX);
	else
		want_more();
	until(posted() == RX);
	check_receives(RX);
	ck_assert_uint_eq(fake.registered, bytes_of(RX, TX));
	ck_assert_uint_eq(fake.registered_here, 1);
	finish(qp->posted - qp->done);
	for (unsigned i = 0; i < 10; i++) {
		ck_assert_uint_eq(send_all(), TX);
		check_memory();
		poll_for(UD_POLL_MAX);
		finish(TX);
	}
	usleep(20000);
	ck_assert_uint_eq(posted(), RX);
	ck_assert_uint_eq(fake.registered, bytes_of(RX, TX));
}

/* However many are under way when the slots come, and whatever comes back later. */
TEST_EACH(messages_under_way_keep_their_slots_while_a_queue_pair_grows, FIRST_TX + 1)
{
	unsigned under_way = (unsigned)_i, left;
	struct sl_prng rng;

	sl_prng_seed(&rng, (uint64_t)_i);
	for (unsigned i = 0; i < 7; i++) { /* slots are in no order then */
		(void)rdma_device->tx_buf(pair);
		rdma_device->send(pair, NULL, 5, 1);
	}
	ck_assert_int_eq(rdma_device->flush(pair), 0);
	finish(7);
	left = send_all();
	ck_assert_uint_eq(left, FIRST_TX);
	finish(left - under_way);
	until(posted() == RX);
	ck_assert_uint_eq(send_all(), TX - under_way);
	for (unsigned i = 0; i < 50; i++) {
		unsigned done = (unsigned)sl_prng_below(&rng, TX + 1);

		finish(done);
		ck_assert_uint_eq(send_all(), done);
	}
	check_memory();
}

/* A device that gives it up has all of its slots again. */
TEST_EACH(a_pair_that_begins_anew_has_what_it_had, 2)
{
	unsigned had = _i ? RX : FIRST_RX;
	struct ud_packet packets[UD_POLL_MAX];

	if (_i)
		want_more();
	until(posted() == had);
	for (unsigned i = 0; i < (_i ? TX : FIRST_TX); i++) {
		ck_assert_ptr_nonnull(rdma_device->tx_buf(pair));
		rdma_device->send(pair, NULL, 5, 1);
	}
	ck_assert_int_eq(rdma_device->flush(pair), 0);
	fake_finish(qp, IBV_WC_LOC_QP_OP_ERR);
	qp->state = IBV_QPS_ERR;
	ck_assert(!rdma_device->arm(pair));
	qp->own.got = qp->own.put;
	qp->done = qp->posted;
	ck_assert_int_eq(rdma_device->poll(pair, packets, UD_POLL_MAX), 0);
	ck_assert_int_eq(qp->state, IBV_QPS_RTS);
	check_receives(had);
	ck_assert_uint_eq(send_all(), _i ? TX : FIRST_TX);
}

static void complete(enum ibv_wc_status status)
{
	fake_push(qp->base.recv_cq,
		  &(struct ibv_wc){.wr_id = qp->own.wr_id[qp->own.got++ % FAKE_QUEUE],
				   .status = status,
				   .byte_len = GRH + 1});
}

static const enum ibv_wc_status losses[] = {IBV_WC_LOC_LEN_ERR, IBV_WC_GENERAL_ERR};

/* Anybody may send one, and what others have sent is not lost with it. */
TEST_EACH(a_datagram_that_fits_no_slot_is_lost_alone, SL_ARRAY_LEN(losses))
{
	struct ud_packet packets[UD_POLL_MAX];

	complete(IBV_WC_SUCCESS);
	complete(losses[_i]);
	complete(IBV_WC_SUCCESS);
	ck_assert_int_eq(rdma_device->poll(pair, packets, UD_POLL_MAX), 2);
	ck_assert_int_eq(rdma_device->repost(pair, packets, 2), 0);
	for (unsigned i = 0; i < 3 * FIRST_RX; i++) {
		complete(losses[_i]);
		ck_assert_int_eq(rdma_device->poll(pair, packets, UD_POLL_MAX), 0);
	}
	ck_assert_uint_eq(fake.resets, 0);
	check_receives(FIRST_RX);
	ck_assert(rdma_device->arm(pair) || rdma_device->arm(pair));
}

/* As some devices do. */
TEST_EACH(a_pair_that_is_given_up_for_one_that_fits_no_slot_begins_anew, SL_ARRAY_LEN(losses))
{
	struct ud_packet packets[UD_POLL_MAX];

	complete(losses[_i]);
	complete(IBV_WC_WR_FLUSH_ERR);
	qp->state = IBV_QPS_ERR;
	ck_assert_int_eq(rdma_device->poll(pair, packets, UD_POLL_MAX), 0);
	ck_assert(!rdma_device->arm(pair));
	qp->own.got = qp->own.put;
	ck_assert_int_eq(rdma_device->poll(pair, packets, UD_POLL_MAX), 0);
	ck_assert_uint_eq(fake.resets, 1);
	check_receives(FIRST_RX);
}

static bool has_grown_since(void)
{
	poll_for(UD_POLL_MAX);
	return posted() == RX;
}

/* It goes on with what it has, and tries again after a while. */
TEST(a_pair_for_which_there_is_no_memory_stays_small_for_now)
{
	unsigned steps = fake.steps;

	fake.fail_at = steps + 1;
	want_more();
	until(fake.steps > steps);
	for (unsigned i = 0; i < 100; i++)
		poll_for(UD_POLL_MAX);
	usleep(20000);
	ck_assert_uint_eq(fake.steps, steps + 1);
	ck_assert_uint_eq(posted(), FIRST_RX);
	ck_assert_uint_eq(fake.registered, bytes_of(FIRST_RX, FIRST_TX));
	ck_assert_uint_eq(send_all(), FIRST_TX);
	until(has_grown_since());
	check_receives(RX);
}

/* A queue pair that grows blocks none but a close of itself, for any duration. */
TEST(others_open_and_close_pairs_while_one_grows)
{
	struct ud_qp *one;

	fake.holds = true;
	want_more();
	until(fake.held);
	one = open_pair();
	rdma_device->close(one);
	ck_assert_uint_eq(posted(), FIRST_RX);
	fake.holds = false;
	until(posted() == RX);
}

static void *let_go(void *arg)
{
	usleep(50000);
	fake.holds = false;
	return arg;
}

TEST(closing_a_growing_queue_pair_waits_for_it)
{
	pthread_t other;

	fake.holds = true;
	want_more();
	until(fake.held);
	ck_assert_int_eq(pthread_create(&other, NULL, let_go, NULL), 0);
	rdma_device->close(pair);
	ck_assert(!fake.holds);
	ck_assert_uint_eq(fake.registered, 0);
	pthread_join(other, NULL);
	pair = open_pair();
}

/* A child's threads leave those of its parent alone. */
TEST(a_child_makes_nothing_of_its_parent_s_pairs_grow)
{
	int status;
	pid_t child = fork();

	if (!child) {
		want_more();
		usleep(100000);
		_exit(posted() == FIRST_RX ? 7 : 8);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 7);
}

/* The other thread may be at it. */
TEST(a_pair_may_be_closed_while_it_grows)
{
	for (unsigned i = 0; i < 300; i++) {
		want_more();
		if (i % 3)
			usleep(i);
		rdma_device->close(pair);
		ck_assert_uint_eq(fake.registered, 0);
		pair = open_pair();
		qp = fake.last_qp;
	}
}

/* As soft-RoCE and NICs put it in front of a datagram: IPv4 in the latter half. */
TEST(the_source_of_a_datagram_is_taken_from_its_grh)
{
	static const uint8_t v4[16] = {[10] = 0xff, 0xff, 192, 0, 2, 7},
			     other_v4[16] = {[10] = 0xff, 0xff, 192, 0, 2, 8},
			     v6[16] = {0xfd, 0x99, [15] = 7}, other_v6[16] = {0xfd, 0x99, [15] = 8};
	uint8_t bytes[GRH + 1] = {[20] = 0x45};
	struct ud_packet p = {.bytes = bytes + GRH, .len = 1, .has_grh = true};

	memcpy(bytes + 20 + 12, v4 + 12, 4);
	ck_assert(rdma_device->is_from(&p, v4));
	ck_assert(!rdma_device->is_from(&p, other_v4));
	ck_assert(!rdma_device->is_from(&p, v6));
	memset(bytes, 0, sizeof(bytes));
	bytes[0] = 0x60;
	memcpy(bytes + 8, v6, sizeof(v6));
	memcpy(bytes + 20 + 12, v4 + 12, 4); /* destination address */
	ck_assert(rdma_device->is_from(&p, v6));
	ck_assert(!rdma_device->is_from(&p, other_v6));
	ck_assert(!rdma_device->is_from(&p, v4));
	bytes[0] = 0; /* IPv4, which does not define those bytes */
	ck_assert(!rdma_device->is_from(&p, v6));
	/* Within one subnet of InfiniBand there is none. */
	p.has_grh = false;
	ck_assert(rdma_device->is_from(&p, other_v6));
}
