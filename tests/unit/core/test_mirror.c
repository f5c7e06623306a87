/* SPDX-License-Identifier: Apache-2.0 */
/* Shares of requests for another pool, and copies of requests. "/e" has a and b, the other pool o. */
#include <errno.h>
#include <stdio.h>

#include "core/client.h"
#include "core/mirror.h"
#include "core_talk.h"
#include "suite.h"

enum { OTHER_POOL = 1 };

static struct sl_cfg_route_pools pools;

static void use(struct sl_cfg_split split, struct sl_cfg_mirror mirror)
{
	pools = (struct sl_cfg_route_pools){.split = split, .mirror = mirror};
	for (uint32_t i = 0; i < bed.cfg->route_cnt; i++) {
		if (strcmp(bed.cfg->routes[i].prefix, "/e") == 0)
			bed.cfg->routes[i].pools = &pools;
	}
}

static void split(double share)
{
	use(
		(struct sl_cfg_split){
			.pool = OTHER_POOL, .share = share, .header = "x-canary", .value = "yes"},
		(struct sl_cfg_mirror){.pool = -1});
}

static void mirror(double share)
{
	use((struct sl_cfg_split){.pool = -1},
	    (struct sl_cfg_mirror){.pool = OTHER_POOL, .share = share, .max_body = 1000});
}

FIXTURE(set_up, tear_down)

static unsigned got(unsigned i)
{
	return bed.backends[i].id_cnt;
}

static unsigned got_own(void)
{
	return got(0) + got(1);
}

static void answer_own(void)
{
	for (unsigned i = 0; i < 2; i++) {
		struct bed_backend *be = &bed.backends[i];

		if (be->id_cnt)
			(void)bed_reply(be, be->ids[(be->id_cnt - 1) % BED_IDS], SL_RPC_OK, 0,
					"own");
	}
	bed_turns(3);
}

/* Answers the last request of a or b. Returns whether the client has a new reply. */
static bool is_answered(unsigned own_before)
{
	unsigned replies = count("200 OK");

	ck_assert_uint_eq(got_own(), own_before + 1);
	answer_own();
	return count("200 OK") == replies + 1;
}

#define ASK(fields) "GET /e HTTP/1.1\r\nHost: x\r\n" fields "\r\n"

static void say_and_answer(const char *text)
{
	unsigned before = got(2);

	say(text);
	if (got(2) > before)
		reply(other()->ids[(got(2) - 1) % BED_IDS], 0, "other");
	else
		answer_own();
}

TEST(header_decides_on_the_pool)
{
	split(0);
	say_and_answer(ASK("X-Canary: yes\r\n"));
	ck_assert_uint_eq(got(2), 1);
	ck_assert(heard("other"));
	say_and_answer(ASK("X-Canary: no\r\n"));
	say_and_answer(ASK("X-Canary: yes, please\r\n"));
	say_and_answer(ASK("X-Canaries: yes\r\n"));
	ck_assert_uint_eq(got(2), 1);
	ck_assert_uint_eq(got_own(), 3);
	/* All others go there, but not these. */
	split(1);
	say_and_answer(ASK("X-Canary: no\r\n"));
	ck_assert_uint_eq(got(2), 1);
	say_and_answer(ASK(""));
	ck_assert_uint_eq(got(2), 2);
	ck_assert_uint_eq(bed.core.stats.split_requests, 2);
}

/* With a fixed seed: a fifth of 400 requests, within 4 standard deviations. */
TEST(share_of_requests_goes_to_the_pool)
{
	split(0.2);
	sl_prng_seed(&bed.core.wcfg->pools[0].pool->prng, 7);
	for (unsigned i = 0; i < 400; i++)
		say_and_answer(ASK(""));
	ck_assert_uint_ge(got(2), 80 - 32);
	ck_assert_uint_le(got(2), 80 + 32);
	ck_assert_uint_eq(got(2) + got_own(), 400);
	ck_assert_uint_eq(bed.core.stats.split_requests, got(2));
}

static uint32_t copies(void)
{
	return sl_mempool_used(&bed.core.exchanges);
}

TEST(copy_has_the_request_and_its_reply_is_dropped)
{
	mirror(1);
	say("POST /e HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello");
	ck_assert_uint_eq(got(2), 1);
	ck_assert(memmem(other()->taken, other()->taken_len, "hello", 5));
	ck_assert(is_answered(0));
	ck_assert(heard("own"));
	ck_assert_uint_eq(copies(), 1);
	reply(other()->ids[0], 0, "other");
	ck_assert(!heard("other"));
	ck_assert_uint_eq(copies(), 0);
	ck_assert_uint_eq(bed.core.stats.mirrored, 1);
	ck_assert_uint_eq(bed.core.stats.requests, 1);
	ck_assert_uint_eq(outcomes(SL_OUTCOME_OK), 1);
}

/* The copy's reply first, in parts, and of any length: nothing is kept of it. */
TEST(long_reply_of_a_copy_takes_no_memory)
{
	char text[3000];
	uint32_t used;

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	mirror(1);
	say(ASK(""));
	used = bed.umem.free_cnt;
	for (unsigned i = 0; i < 50; i++)
		reply(other()->ids[0], SL_ENTRY_MORE, text);
	ck_assert_uint_ge(bed.umem.free_cnt + 8, used);
	reply(other()->ids[0], 0, "");
	ck_assert_uint_eq(copies(), 1);
	ck_assert_uint_eq(bed.clients[0].heard_len, 0);
	ck_assert(is_answered(0));
	ck_assert_uint_eq(copies(), 0);
}

/* The client has its reply, whatever becomes of the copy. */
TEST_EACH(copy_that_fails, 3)
{
	mirror(1);
	say(ASK(""));
	ck_assert_uint_eq(got(2), 1);
	if (_i == 0)
		ck_assert(bed_reply(other(), other()->ids[0], SL_RPC_REFUSED, 0, ""));
	else if (_i == 1)
		other()->broken = -ECONNRESET;
	else
		bed_turn(61 * SL_NS_PER_SEC);
	bed_turns(_i == 2 ? 0 : 3);
	if (_i < 2) {
		ck_assert(is_answered(0));
		ck_assert_uint_eq(outcomes(SL_OUTCOME_OK), 1);
	}
	bed_turns(5);
	ck_assert_uint_eq(bed.core.stats.mirror_failures, 1);
	ck_assert_uint_eq(bed.core.stats.retried, 0);
	ck_assert_uint_eq(outcomes(SL_OUTCOME_BACKEND_LOST), 0);
	ck_assert_uint_eq(outcomes(SL_OUTCOME_NO_BACKEND), 0);
}

TEST(pool_without_a_backend_gets_no_copies)
{
	mirror(1);
	other()->broken = -ECONNRESET;
	bed_turns(3);
	say(ASK(""));
	ck_assert(is_answered(0));
	ck_assert_uint_eq(bed.core.stats.mirror_dropped, 1);
	ck_assert_uint_eq(bed.core.stats.mirrored, 0);
	ck_assert_uint_eq(copies(), 0);
}

TEST(large_request_and_stream_are_not_copied)
{
	char text[1200];

	mirror(1);
	snprintf(text, sizeof(text),
		 "POST /e HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n%01001d", 7);
	say(text);
	ck_assert(is_answered(0));
	stream();
	say(ASK(""));
	ck_assert_uint_eq(got(2), 0);
	ck_assert_uint_eq(bed.core.stats.mirror_dropped, 2);
}

/* A mirror that does not answer: copies have a sixteenth of the exchanges, and the client all. */
TEST(copies_are_bounded)
{
	uint32_t most = sl_mempool_capacity(&bed.core.exchanges) / 16;

	mirror(1);
	for (unsigned i = 0; i < most + 5; i++) {
		say(ASK(""));
		ck_assert(is_answered(i));
	}
	ck_assert_uint_eq(bed.core.stats.mirrored, most);
	ck_assert_uint_eq(bed.core.stats.mirror_dropped, 5);
	ck_assert_uint_eq(copies(), most);
}
