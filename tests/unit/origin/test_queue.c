/* SPDX-License-Identifier: Apache-2.0 */
/* The order of calls: places of a server among client addresses, without a server. */
#include "base/mempool.h"
#include "origin/origin.h"
#include "origin/queue.h"
#include "suite.h"

enum { CALLS = 4096 };

static struct sl_mempool pool;
static struct origin_queue q;
static struct origin_shares shares;
static struct origin_call calls[CALLS];
static struct sl_request_view views[CALLS];
static unsigned call_cnt;

static void set_up(void)
{
	ck_assert_int_eq(sl_mempool_init(&pool, sizeof(struct origin_client), 64, CALLS), 0);
	origin_queue_init(&q, &pool);
	shares = (struct origin_shares){.places = 32, .streams = 8};
}

static void tear_down(void)
{
	sl_mempool_fini(&pool);
}

FIXTURE(set_up, tear_down)

static struct origin_call *add(uint32_t key, enum sl_rpc_class class, bool stream)
{
	struct origin_call *call = &calls[call_cnt];

	views[call_cnt].priority = (uint8_t) class;
	*call = (struct origin_call){.rq = &views[call_cnt], .body = {.on = stream}};
	ck_assert_uint_lt(call_cnt++, CALLS);
	sl_list_init(&call->link);
	ck_assert(origin_queue_enter(&q, call, key));
	origin_queue_add(&q, call);
	return call;
}

/* Takes the next call, which gets a place. Returns its client's key; 0: none may go. */
static uint32_t take(struct origin_call **taken)
{
	struct origin_call *call = origin_queue_next(&q, &shares);

	if (taken)
		*taken = call;
	if (!call)
		return 0;
	origin_queue_take(&q, call);
	if (call->body.on) {
		call->client->streams_cnt++;
	} else {
		origin_queue_hold(&q, call);
		shares.busy++;
	}
	return call->client->key;
}

static void end(struct origin_call *call)
{
	if (call->body.on) {
		call->client->streams_cnt--;
	} else {
		origin_queue_release(&q, call);
		shares.busy--;
	}
	origin_queue_leave(&q, call);
}

/* A single address may have all places. */
TEST(an_address_alone_has_all_places)
{
	unsigned n = 0;

	for (unsigned i = 0; i < 100; i++)
		add(7, SL_CLASS_NORMAL, false);
	while (take(NULL) == 7)
		n++;
	ck_assert_uint_eq(n, 32);
}

/* While others wait they take turns, and none has more than half; with many none waits for long. */
TEST(addresses_take_turns)
{
	unsigned had[4] = {0};

	for (unsigned i = 0; i < 100; i++)
		add(1, SL_CLASS_NORMAL, false);
	for (unsigned i = 0; i < 100; i++)
		add(2, SL_CLASS_NORMAL, false);
	add(3, SL_CLASS_NORMAL, false);
	ck_assert_uint_eq(take(NULL), 1);
	ck_assert_uint_eq(take(NULL), 2);
	ck_assert_uint_eq(take(NULL), 3);
	for (uint32_t key; (key = take(NULL)); had[key]++)
		;
	ck_assert_uint_eq(1 + had[1], 16);
	ck_assert_uint_eq(1 + had[2], 15);
}

/* The address took all places while no other waited. Others get as many as it has beyond half. */
TEST_EACH(an_address_with_all_places_stops_no_other, 2)
{
	unsigned n = 0;

	shares.exact = _i; /* the operator's number is never exceeded */
	for (unsigned i = 0; i < 100; i++)
		add(1, SL_CLASS_NORMAL, false);
	while (take(NULL))
		;
	for (uint32_t i = 0; i < 100; i++)
		add(2 + i % 5, SL_CLASS_NORMAL, false);
	while (take(NULL) > 1)
		n++;
	ck_assert_uint_eq(n, _i ? 0 : 16);
}

/* An address with more than half does not get the places that become free. */
TEST(places_that_become_free_are_for_addresses_with_fewer)
{
	struct origin_call *held[32], *call;

	shares.exact = true;
	for (unsigned i = 0; i < 100; i++)
		add(1, SL_CLASS_NORMAL, false);
	for (unsigned i = 0; i < 32; i++)
		ck_assert_uint_eq(take(&held[i]), 1);
	for (unsigned i = 0; i < 20; i++)
		add(2, SL_CLASS_NORMAL, false);
	for (unsigned i = 0; i < 16; i++) {
		end(held[i]);
		ck_assert_uint_eq(take(&call), 2);
	}
	end(held[16]);
	ck_assert_uint_eq(take(&call), 1);
}

/* In any number, and the one place there may be. */
TEST(a_single_place_goes_around)
{
	struct origin_call *call;

	shares.places = 1;
	for (uint32_t i = 0; i < 9; i++)
		add(1 + i / 3, SL_CLASS_NORMAL, false);
	for (uint32_t i = 0; i < 9; i++) {
		ck_assert_uint_eq(take(&call), 1 + i % 3);
		ck_assert_uint_eq(take(NULL), 0);
		end(call);
	}
	ck_assert_uint_eq(sl_mempool_used(&pool), 0);
}

/* Streams hold connections: an address has so many; other requests and other addresses go on. */
TEST(streams_of_an_address_are_limited)
{
	struct origin_call *call, *first = NULL;
	unsigned n = 0;

	for (unsigned i = 0; i < 20; i++)
		add(1, SL_CLASS_NORMAL, true);
	for (; take(&call); n++)
		first = first ? first : call;
	ck_assert_uint_eq(n, 8);
	add(2, SL_CLASS_NORMAL, true);
	ck_assert_uint_eq(take(NULL), 2);
	end(first);
	ck_assert_uint_eq(take(NULL), 1);
	ck_assert_uint_eq(take(NULL), 0);
	for (unsigned i = 0; i < 20; i++)
		add(0, SL_CLASS_NORMAL, true);
	for (n = 0; (void)take(&call), call; n++) /* their addresses are unknown */
		;
	ck_assert_uint_eq(n, 20);
}

/* The count is right, and no call is left over, for any order of leaving and coming. */
TEST(calls_leave_from_any_place)
{
	struct origin_call *all[300], *call;
	unsigned taken = 0;

	for (uint32_t i = 0; i < 300; i++)
		all[i] = add(i % 7, (enum sl_rpc_class)(i % SL_CLASS_CNT), false);
	for (uint32_t i = 0; i < 300; i += 3) {
		origin_queue_remove(&q, all[i]);
		if (i % 2) {
			origin_queue_again(&q, all[i]);
			continue;
		}
		origin_queue_leave(&q, all[i]);
	}
	ck_assert_uint_eq(q.cnt, 250);
	while (origin_queue_any(&q)) {
		(void)take(&call);
		ck_assert_ptr_nonnull(call);
		taken++;
		end(call);
	}
	ck_assert_uint_eq(taken, 250);
	ck_assert_uint_eq(q.cnt, 0);
	ck_assert_uint_eq(sl_mempool_used(&pool), 0);
}
