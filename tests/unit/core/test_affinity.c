/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of requests in a whole core: "/e" has two backends, a and b. */
#include <errno.h>
#include <stdio.h>

#include "batch/affinity.h"
#include "core/affinity.h"
#include "core/client.h"
#include "core_talk.h"
#include "suite.h"

static struct sl_cfg_route_pools pools;

static struct sl_cfg_route *route_of(const char *prefix)
{
	for (uint32_t i = 0; i < bed.cfg->route_cnt; i++) {
		if (strcmp(bed.cfg->routes[i].prefix, prefix) == 0)
			return &bed.cfg->routes[i];
	}
	ck_abort();
}

static void prefer(struct sl_cfg_affinity affinity, bool streams)
{
	struct sl_worker_cfg_pool *p = &bed.core.wcfg->pools[0];

	pools = (struct sl_cfg_route_pools){.affinity = affinity};
	route_of("/e")->pools = &pools;
	sl_batcher_set_affinity(p->pool->batcher, sl_affinity_of_backends(p->backends, 2));
	if (streams)
		stream();
}

FIXTURE(set_up, tear_down)

static unsigned got(unsigned i)
{
	return bed.backends[i].id_cnt;
}

static void answer_all(void)
{
	static unsigned answered[2];

	for (unsigned i = 0; i < 2; i++) {
		for (; answered[i] < got(i); answered[i]++)
			ck_assert(bed_reply(&bed.backends[i], bed.backends[i].ids[answered[i]],
					    SL_RPC_OK, 0, "fine"));
	}
	bed_turns(3);
}

/* Sends a GET with these fields. Returns which backend got it. */
static unsigned ask(const char *fields)
{
	unsigned a = got(0);
	char text[256];

	snprintf(text, sizeof(text), "GET /e HTTP/1.1\r\nHost: x\r\n%s\r\n", fields);
	say(text);
	answer_all();
	return got(0) == a;
}

static unsigned ask_one(const char *field, unsigned value)
{
	char text[128];

	snprintf(text, sizeof(text), "%s%u\r\n", field, value);
	return ask(text);
}

/* Values have both backends, and each its own one. */
static void ck_sticky(const char *field)
{
	unsigned first[16], sum = 0;

	for (unsigned i = 0; i < 16; i++)
		sum += first[i] = ask_one(field, i);
	ck_assert_uint_gt(sum, 0);
	ck_assert_uint_lt(sum, 16);
	for (unsigned i = 0; i < 16; i++)
		ck_assert_uint_eq(ask_one(field, i), first[i]);
	ck_assert_uint_eq(bed.core.stats.affinity_hits, 32);
	ck_assert_uint_eq(bed.core.stats.affinity_misses, 0);
}

TEST_EACH(header_selects_the_backend, 2)
{
	prefer((struct sl_cfg_affinity){.by = SL_AFFINITY_BY_HEADER, .name = "x-a"}, _i);
	ck_sticky("X-A: ");
}

static const char *const cookies[] = {
	"Cookie: s=", "cookie: a=b; s=", "Cookie: ss=1;  s=", "Cookie: x\r\nCookie: s="};

TEST_EACH(cookie_selects_the_backend, 4)
{
	prefer((struct sl_cfg_affinity){.by = SL_AFFINITY_BY_COOKIE, .name = "s"}, false);
	ck_sticky(cookies[_i]);
}

TEST(request_without_a_key_goes_to_any)
{
	unsigned sum = 0;

	prefer((struct sl_cfg_affinity){.by = SL_AFFINITY_BY_COOKIE, .name = "s"}, false);
	for (unsigned i = 0; i < 32; i++)
		sum += ask("Cookie: ss=1; S=2; as=3\r\n");
	ck_assert_uint_gt(sum, 0);
	ck_assert_uint_lt(sum, 32);
	ck_assert_uint_eq(bed.core.stats.affinity_hits, 0);
}

/* Requests of one key that are open at once: it is hot, and has two homes. */
TEST_EACH(home_that_is_busy_is_missed, 2)
{
	prefer((struct sl_cfg_affinity){.by = SL_AFFINITY_BY_ADDRESS}, _i);
	for (unsigned i = 0; i < 8; i++)
		say(GET("/e"));
	ck_assert_uint_ge(got(0), 2);
	ck_assert_uint_ge(got(1), 2);
	/* Not streams: a backend has at most two batches. */
	ck_assert_uint_eq(bed.core.stats.affinity_hits + bed.core.stats.affinity_misses,
			  _i ? 8 : got(0) + got(1));
	ck_assert_uint_ge(bed.core.stats.affinity_misses, 1);
}

#define SIXTEEN   "0123456789abcdef"
#define HEAD(len) "POST /e HTTP/1.1\r\nHost: x\r\nContent-Length: " #len "\r\n\r\n"

static const struct sl_cfg_affinity by_prefix = {
	.by = SL_AFFINITY_BY_PREFIX, .depths = {64, 128}, .depth_cnt = 2};

TEST(stream_is_held_until_its_depth_has_come)
{
	prefer(by_prefix, true);
	say(HEAD(200) SIXTEEN SIXTEEN SIXTEEN "0123456789abcde");
	ck_assert_uint_eq(got(0) + got(1), 0);
	say("f");
	ck_assert_uint_eq(got(0) + got(1), 1);
	look_at(&bed.backends[!got(0)]);
	ck_assert_uint_eq(sent.len, 64);
	/* Hashed as far as the next depth, and no further. */
	ck_assert_uint_eq(sl_mempool_used(&bed.core.prefix_hashes), 1);
	say(SIXTEEN SIXTEEN SIXTEEN "0123456789abcdef");
	ck_assert_uint_eq(sl_mempool_used(&bed.core.prefix_hashes), 0);
	say(SIXTEEN SIXTEEN SIXTEEN SIXTEEN "01234567");
	look_at(&bed.backends[!got(0)]);
	ck_assert_uint_eq(sent.len, 200);
	ck_assert_uint_eq(sent.ends, 1);
	ck_assert_uint_eq(bed.core.stats.affinity_hits, 1);
}

TEST_EACH(body_shorter_than_the_first_depth, 2)
{
	prefer(by_prefix, _i);
	say(HEAD(16) SIXTEEN);
	say(GET("/e"));
	ck_assert_uint_eq(got(0) + got(1), 2);
	ck_assert_uint_eq(bed.core.stats.affinity_hits, 0);
	ck_assert_uint_eq(sl_mempool_used(&bed.core.prefix_hashes), 0);
}

TEST_EACH(client_that_goes_while_its_body_is_hashed, 2)
{
	prefer(by_prefix, _i);
	say(HEAD(200) SIXTEEN);
	ck_assert_uint_eq(sl_mempool_used(&bed.core.prefix_hashes), 1);
	bed_segment(0, BED_RST | BED_ACK, NULL, 0);
	bed_turns(3);
	ck_assert_uint_eq(sl_mempool_used(&bed.core.prefix_hashes), 0);
	ck_assert_uint_eq(got(0) + got(1), 0);
}

/* The body says which pool, and then which of its backends. */
TEST_EACH(pool_and_backend_by_the_body, 2)
{
	static struct sl_cfg_match match = {.text = "m", .len = 1, .pool = 0};

	prefer(by_prefix, _i);
	pools.member = "model";
	pools.member_limit = 1000;
	pools.matches = &match;
	pools.match_cnt = 1;
	for (unsigned i = 0; i < 4; i++) {
		say(HEAD(84) "{\"a\":\"" SIXTEEN SIXTEEN SIXTEEN SIXTEEN "\"");
		ck_assert_uint_eq(got(0) + got(1), i);
		say(",\"model\":\"m\"}");
		ck_assert_uint_eq(got(0) + got(1), i + 1);
		answer_all();
	}
	ck_assert_uint_eq(got(0) * got(1), 0);
	ck_assert_uint_eq(bed.core.stats.affinity_hits, 4);
}
