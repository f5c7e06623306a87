/* SPDX-License-Identifier: Apache-2.0 */
/* Quotas: their keys, what follows from them, and each mistake with its line. */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "config/config.h"
#include "suite.h"

#define S SL_NS_PER_SEC

static struct sl_err err = SL_ERR(4096);

static const struct {
	const char *keys;
	uint64_t tokens, window_ns, token_ns, depth_ns;
	uint32_t burst;
} rates[] = {
	{"rate = 100/s", 100, S, S / 100, S, 100},
	{"rate = 100/s burst = 250", 100, S, S / 100, 5 * S / 2, 250},
	{"burst = 3 rate = 60/min", 60, 60 * S, S, 3 * S, 3},
	{"rate = 30/min", 30, 60 * S, 2 * S, 2 * S, 1},
	{"rate = 7200/h", 7200, 3600 * S, S / 2, S, 2},
	{"rate = 1/d burst = 366", 1, 86400 * S, 86400 * S, 366 * 86400 * S, 366},
	{"rate = 100000000/s burst = 1000000000", 100000000, S, 10, 10 * S, 1000000000},
	{"max_requests = 65535", 0, 0, 0, 0, 0},
};

TEST_EACH(rates_and_bursts_become_times, SL_ARRAY_LEN(rates))
{
	char text[300];
	struct sl_config *c;
	const struct sl_cfg_bucket *b;

	snprintf(text, sizeof(text), "quota q { %s }\n", rates[_i].keys);
	c = sl_config_parse(text, "t.conf", &err);
	ck_assert_msg(c != NULL, "%s", err.text);
	b = &c->quotas[0].bucket;
	ck_assert_uint_eq(c->quota_cnt, 1);
	ck_assert_uint_eq(b->tokens, rates[_i].tokens);
	ck_assert_uint_eq(b->window_ns, rates[_i].window_ns);
	ck_assert_uint_eq(b->token_ns, rates[_i].token_ns);
	ck_assert_uint_eq(b->depth_ns, rates[_i].depth_ns);
	ck_assert_uint_eq(b->burst, rates[_i].burst);
	sl_config_free(c);
}

TEST(a_route_names_quotas_anywhere_in_the_file)
{
	struct sl_config *c = sl_config_parse(
		"quota a { by = header header = X-Key rate = 1/s }\n"
		"route / { respond { } quotas = {c, a} }\n"
		"quota b { by = route rate = 1/s clients = 16 }\nquota c { max_requests = 2 }\n",
		"t.conf", &err);

	ck_assert_msg(c != NULL, "%s", err.text);
	ck_assert_uint_eq(c->quota_cnt, 3);
	ck_assert_uint_eq(c->routes[0].quota_cnt, 2);
	ck_assert_uint_eq(c->routes[0].quotas[0], 2);
	ck_assert_uint_eq(c->routes[0].quotas[1], 0);
	ck_assert_uint_eq(c->quotas[0].by, SL_QUOTA_BY_HEADER);
	ck_assert_str_eq(c->quotas[0].header, "x-key");
	ck_assert_uint_eq(c->quotas[1].by, SL_QUOTA_BY_ROUTE);
	ck_assert_uint_eq(c->quotas[1].clients, 16);
	ck_assert_uint_eq(c->quotas[2].by, SL_QUOTA_BY_ADDRESS);
	ck_assert_uint_eq(c->quotas[2].clients, 16384);
	sl_config_free(c);
}

static const struct {
	const char *text, *mistake;
} mistakes[] = {
	{"quota a { rate = 5 }", "t.conf:1: found rate = \"5\"; allowed: a whole number"},
	{"quota a { rate = 0/s }", "t.conf:1: found rate = \"0/s\"; allowed: a whole number"},
	{"quota a { rate = /s }", "t.conf:1: found rate = \"/s\"; allowed: a whole number"},
	{"quota a { rate = 1/m }", "t.conf:1: found rate = \"1/m\"; allowed: a whole number"},
	{"quota a { rate = 1/ss }", "t.conf:1: found rate = \"1/ss\"; allowed: a whole number"},
	{"quota a { rate = -1/s }", "t.conf:1: found rate = \"-1/s\"; allowed: a whole number"},
	{"quota a { rate = 100000001/s }", "t.conf:1: found rate = \"100000001/s\"; allowed: a"},
	{"quota a { rate = 1/d burst = 367 }",
	 "t.conf:1: found quota \"a\" whose burst takes more than 366 days"},
	{"quota a { rate = 1/d burst = 1000000000 }",
	 "t.conf:1: found quota \"a\" whose burst takes more than 366 days"},
	{"quota a { }", "t.conf:1: found quota \"a\" without a limit; allowed: rate, max_requests"},
	{"quota a { by = header rate = 1/s }",
	 "t.conf:1: found quota \"a\" with by = header but no header; allowed: both or none"},
	{"quota a { header = x rate = 1/s }",
	 "t.conf:1: found quota \"a\" with header but not by = header; allowed: both or none"},
	{"quota a { max_requests = 1 usage_header = x }",
	 "t.conf:1: found quota \"a\" with usage_header but no rate; allowed: both"},
	{"quota a { max_requests = 1 usage_member = \"u.t\" }",
	 "t.conf:1: found quota \"a\" with usage_member but no rate; allowed: both"},
	{"quota a { rate = 1/s usage_member = \"u.t\" usage_header = x }",
	 "t.conf:1: found quota \"a\" with usage_header and usage_member; allowed: one"},
	{"quota a { rate = 1/s usage_member = usage }",
	 "t.conf:1: found usage_member = \"usage\"; allowed: OUTER.INNER, each 1 to 64 of"},
	{"quota a { rate = 1/s usage_member = \"a.b.c\" }",
	 "t.conf:1: found usage_member = \"a.b.c\"; allowed: OUTER.INNER"},
	{"quota a { rate = 1/s usage_member = \"a.\" }",
	 "t.conf:1: found usage_member = \"a.\"; allowed: OUTER.INNER"},
	{"quota a { rate = 1/s usage_member = \".b\" }",
	 "t.conf:1: found usage_member = \".b\"; allowed: OUTER.INNER"},
	{"quota a { rate = 1/s usage_member = \"u.a\" } quota b { rate = 1/s usage_member = "
	 "\"u.b\" }\nroute / { respond { } quotas = {a, b} }",
	 "t.conf:2: found quotas with usage_member = \"u.a\" and \"u.b\" on one route; "
	 "allowed: the same"},
	{"quota \"a b\" { rate = 1/s }", "t.conf:1: found quota \"a b\"; allowed: a name of up to"},
	{"quota a { rate = 1/s }\nquota a { rate = 2/s }",
	 "t.conf:2: found the name \"a\" twice; allowed: each once"},
	{"quota a { max_requests = 65536 }", "t.conf:1: found max_requests = \"65536\"; allowed:"},
	{"quota a { rate = 1/s clients = 8 }", "t.conf:1: found clients = \"8\"; allowed:"},
	{"route / { respond { } quotas = {a} }",
	 "t.conf:1: found quotas = \"a\"; allowed: none, there is no quota block"},
	{"quota a { rate = 1/s }\nroute / { respond { } quotas = {b} }",
	 "t.conf:2: found quotas = \"b\"; allowed: names of quota blocks"},
	{"quota a { rate = 1/s }\nroute / { respond { } quotas = {a, a} }",
	 "t.conf:2: found quotas = \"a\" twice; allowed: each once"},
	{"route / { respond { } quotas = {a, b, c, d, e} }",
	 "t.conf:1: found quotas = \"e\"; allowed: up to 4 names of quotas"},
};

TEST_EACH(each_mistake_has_its_line, SL_ARRAY_LEN(mistakes))
{
	ck_assert_ptr_null(sl_config_parse(mistakes[_i].text, "t.conf", &err));
	ck_assert_msg(strncmp(err.text, mistakes[_i].mistake, strlen(mistakes[_i].mistake)) == 0,
		      "%s", err.text);
	ck_assert_ptr_null(strchr(err.text, '\n'));
}

TEST(there_are_at_most_64_quotas)
{
	char text[4096] = "";

	for (unsigned i = 0; i < 65; i++)
		snprintf(text + strlen(text), 40, "quota q%u { rate = 1/s }\n", i);
	ck_assert_ptr_null(sl_config_parse(text, "t.conf", &err));
	ck_assert_str_eq(err.text, "t.conf:65: found one quota too many; allowed: 64");
}

TEST(a_penalty_is_off_without_its_block)
{
	struct sl_config *c = sl_config_parse("user = root\n", "t.conf", &err);

	ck_assert_msg(c != NULL, "%s", err.text);
	ck_assert_uint_eq(c->penalty.after, 0);
	sl_config_free(c);
	c = sl_config_parse("penalty { after = 1000 except = {192.0.2.0/24, fd00::/8} }\n",
			    "t.conf", &err);
	ck_assert_msg(c != NULL, "%s", err.text);
	ck_assert_uint_eq(c->penalty.after, 1000);
	ck_assert_uint_eq(c->penalty.within_ns, 10 * S);
	ck_assert_uint_eq(c->penalty.time_ns, 60 * S);
	ck_assert_uint_eq(c->penalty.except.cnt, 2);
	sl_config_free(c);
}

static const struct {
	const char *text, *message;
} penalty_mistakes[] = {
	{"penalty { time = 1m }",
	 "t.conf:1: found penalty without after; allowed: penalty { after = N }"},
	{"penalty { after = 0 }",
	 "t.conf:1: found after = \"0\"; allowed: a whole number from 1 to 1000000"},
	{"penalty { after = 1 time = 1ms }", "t.conf:1: found time = \"1ms\"; allowed: a duration"},
	{"penalty { after = 1 except = {10.0.0.1/8} }",
	 "t.conf:1: found except = \"10.0.0.1/8\"; allowed: up to 4096 addresses and prefixes"},
};

TEST_EACH(mistakes_of_a_penalty_are_named, SL_ARRAY_LEN(penalty_mistakes))
{
	ck_assert_ptr_null(sl_config_parse(penalty_mistakes[_i].text, "t.conf", &err));
	ck_assert_msg(strncmp(err.text, penalty_mistakes[_i].message,
			      strlen(penalty_mistakes[_i].message)) == 0,
		      "%s", err.text);
}
