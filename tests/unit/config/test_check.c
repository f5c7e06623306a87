/* SPDX-License-Identifier: Apache-2.0 */
/* Defaults of routes, by the kind of their pool. */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "config/config.h"
#include "suite.h"

static const struct {
	const char *backends, *keys;
	bool stream, stream_auto;
	const char *upgrade; /* NULL: none */
} routes[] = {
	{"backend a { endpoint = \"http://a:1\" }", "", true, true, "websocket"},
	{"backend a { endpoint = \"http+unix:///a\" }", "stream = auto", true, true, "websocket"},
	{"backend a { endpoint = \"http://a:1\" }", "stream = yes", true, false, "websocket"},
	{"backend a { endpoint = \"http://a:1\" }", "stream = on", true, false, "websocket"},
	{"backend a { endpoint = \"http://a:1\" }", "stream = no", false, false, NULL},
	{"backend a { endpoint = \"http://a:1\" }", "upgrade = none", true, true, NULL},
	{"backend a { endpoint = \"http://a:1\" }", "upgrade = auto", true, true, "websocket"},
	{"backend a { endpoint = \"http://a:1\" }", "upgrade = {x}", true, true, "x"},
	{"backend a { endpoint = \"http://a:1\" }", "continue = backend", true, true, "websocket"},
	{"backend a { endpoint = \"h2c://a:1\" }", "", true, true, NULL},
	{"backend a { endpoint = \"http://a:1\" } backend b { endpoint = \"h2c://a:1\" }", "", true,
	 true, NULL},
	{"backend a { endpoint = \"shm:///a\" }", "", false, false, NULL},
	{"backend a { endpoint = \"shm:///a\" }", "stream = yes", true, false, NULL},
	{"backend a { endpoint = \"tcp://a:1\" key_file = \"/k\" }", "", false, false, NULL},
	/* A backend of the SDK may have no on_stream. */
	{"backend a { endpoint = \"http://a:1\" } backend b { endpoint = \"shm:///a\" }", "", false,
	 false, NULL},
};

TEST_EACH(a_route_streams_by_the_kind_of_its_pool, SL_ARRAY_LEN(routes))
{
	char text[512];
	struct sl_err err = SL_ERR(512);
	struct sl_config *c;

	snprintf(text, sizeof(text), "pool p { %s }\nroute / { pool = p %s }\n",
		 routes[_i].backends, routes[_i].keys);
	c = sl_config_parse(text, "t.conf", &err);
	ck_assert_msg(c, "%s", err.text);
	ck_assert_int_eq(c->routes[0].stream, routes[_i].stream);
	ck_assert_int_eq(c->routes[0].stream_auto, routes[_i].stream_auto);
	ck_assert_uint_eq(c->routes[0].upgrade_cnt, routes[_i].upgrade != NULL);
	if (routes[_i].upgrade)
		ck_assert_str_eq(c->routes[0].upgrades[0], routes[_i].upgrade);
	sl_config_free(c);
}

static const char two_pools[] =
	"pool p { backend a { endpoint = \"shm:///a\" } }\npool q { backend a { endpoint = \"shm:///b\" } }\n"
	"pool s { backend a { endpoint = \"http://a:1\" } }\n"
	"pool f { fair_by = none backend a { endpoint = \"shm:///c\" } }\n"
	"pool m { max_body = 1m backend a { endpoint = \"shm:///d\" } }\n";

/* Keys of a route on line 6, and what is wrong with them; NULL: nothing. */
static const struct {
	const char *keys, *mistake;
} matching[] = {
	{"pool = p split { pool = q percent = 0.5 }", NULL},
	{"pool = p split { pool = q header = \"x-canary: yes\" }", NULL},
	{"pool = p split { pool = p header = \"x-canary: yes\" } mirror { pool = q } match_body = m match a { pool = q }",
	 NULL},
	{"pool = p split { percent = 5 }", "found split with no pool; allowed"},
	{"pool = p split { pool = q }",
	 "found split with no percent and no header; allowed: one, or both"},
	{"pool = p split { pool = q percent = 101 }",
	 "found percent = \"101\"; allowed: a number from 0 to 100"},
	{"pool = p split { pool = q percent = 5% }", "found percent = \"5%\"; allowed"},
	{"pool = p split { pool = q header = canary }", "found header = \"canary\"; allowed"},
	{"pool = p split { pool = s percent = 5 }", "pools of the same kind"},
	{"pool = p split { pool = x percent = 5 }", "found pool = \"x\"; allowed"},
	{"match_body = m match a { pool = q } split { pool = p percent = 5 }",
	 "no pool in its route"},
	{"respond { status = 200 } mirror { pool = p }", "without a pool; allowed: with a pool"},
	{"pool = p mirror { percent = 5 }", "found mirror with no pool; allowed"},
	{"pool = p mirror { pool = q } stream = yes", "found mirror on a route with stream = yes"},
	{"pool = q affinity { by = header name = x }", NULL},
	{"pool = q affinity { by = metadata name = x }", NULL},
	{"pool = q affinity { by = address }", NULL},
	{"pool = q affinity { by = prefix depths = {64, 1k, 1m} }", NULL},
	{"pool = q affinity { }", "found affinity without by; allowed: affinity { by = ... }"},
	{"pool = q affinity { by = cookie }", "found affinity with no name; allowed: name with"},
	{"pool = q affinity { by = prefix name = x }",
	 "found affinity with name; allowed: name with"},
	{"pool = q affinity { by = address depths = {1k} }", "found affinity with depths"},
	{"pool = q affinity { by = prefix depths = {1k, 1k} }", "found depths = \"1k\"; allowed"},
	{"pool = q affinity { by = prefix depths = 65 }", "found depths = \"65\"; allowed"},
	{"pool = q affinity { by = address } affinity { by = address }",
	 "found a second affinity block; allowed: one"},
	{"pool = q stream = yes continue = backend affinity { by = prefix }",
	 "found by = prefix with continue"},
	{"respond { status = 200 } affinity { by = address }",
	 "found affinity, split, mirror or hedge on route \"/\" without a pool"},
	{"pool = p match_body = model match a { pool = q }", NULL},
	{"match_body = model match \"*\" { pool = q }", NULL},
	{"match_body = model pool = p", "match_body but no match block; allowed: both or none"},
	{"pool = p match a { pool = q }", "match blocks but no match_body; allowed: both or none"},
	{"pool = p match_body = model match a { }", "found match \"a\" without pool"},
	{"pool = p match_body = model match a { pool = x }",
	 "found pool = \"x\"; allowed: p, q, s"},
	{"pool = p match_body = model match a { pool = q } match a { pool = p }",
	 "found the name \"a\" twice"},
	{"pool = p match_body = model match a { pool = s }", "pools of the same kind"},
	{"pool = p match_body = model match a { pool = f }", "pools with the same fair_by"},
	{"pool = p match_body = model match a { pool = m }", "pools with the same max_body"},
	{"pool = p match_body = model match a { pool = q } stream = yes continue = backend",
	 "found match_body with continue = backend; allowed: continue = gateway"},
	{"match_body = model match a { pool = q } respond { status = 200 }",
	 "with pool and respond"},
	{"pool = p match_body = \"\" match a { pool = q }", "found match_body = \"\"; allowed"},
	{"pool = p match_body = model match a { pool = q } match_body_beyond = no",
	 "allowed: one of refuse, pool"},
};

TEST_EACH(pools_of_a_route_that_the_body_selects, SL_ARRAY_LEN(matching))
{
	char text[1024];
	struct sl_err err = SL_ERR(1024);
	struct sl_config *c;

	snprintf(text, sizeof(text), "%sroute / { %s }\n", two_pools, matching[_i].keys);
	c = sl_config_parse(text, "t.conf", &err);
	if (matching[_i].mistake) {
		ck_assert_msg(!c, "%s", text);
		ck_assert_msg(strstr(err.text, "t.conf:6: found ") == err.text, "%s", err.text);
		ck_assert_msg(strstr(err.text, matching[_i].mistake), "%s", err.text);
		ck_assert_ptr_null(strchr(err.text, '\n'));
	} else {
		ck_assert_msg(c, "%s", err.text);
		ck_assert(sl_cfg_route_has_pool(&c->routes[0], 1));
	}
	sl_config_free(c);
}

static const struct {
	const char *keys;
	uint64_t hedge_ns;
	const char *mistake;
} hedging[] = {
	{"pool = two", 0, NULL},
	{"pool = two hedge = no", 0, NULL},
	{"pool = two hedge = p95", SL_HEDGE_P95, NULL},
	{"pool = two hedge = 50ms", 50000000, NULL},
	{"pool = two hedge = 50ms methods = {POST, PUT}", 50000000, NULL},
	{"pool = two hedge = 50ms methods = POST idempotent = yes", 50000000, NULL},
	{"pool = web hedge = 50ms", 50000000, NULL},
	{"pool = two hedge = yes", 0,
	 "found hedge = \"yes\"; allowed: no, p95, or a time from 1ms to 1h"},
	{"pool = two hedge = 0", 0, "found hedge = \"0\"; allowed"},
	{"pool = two hedge = 10us", 0, "found hedge = \"10us\"; allowed"},
	{"pool = two hedge = 2h", 0, "found hedge = \"2h\"; allowed"},
	{"pool = two hedge = p95 stream = yes", 0, "found hedge on a route with stream = yes"},
	{"pool = two hedge = p95 idempotent = no", 0,
	 "found hedge on route \"/\", whose requests may not be sent again; allowed: with "
	 "idempotent = yes"},
	{"pool = two hedge = p95 methods = {POST, PATCH}", 0, "may not be sent again"},
	{"pool = one hedge = p95", 0,
	 "found hedge with pool \"one\", of which a worker has 1 backend; allowed"},
	{"pool = few hedge = p95", 0, "found hedge with pool \"few\", of which a worker has 1"},
	{"pool = two hedge = p95 split { pool = one percent = 5 }", 0,
	 "found hedge with pool \"one\""},
	{"pool = two hedge = p95 match_body = m match a { pool = one }", 0,
	 "found hedge with pool \"one\""},
	{"pool = two hedge = p95 mirror { pool = one }", SL_HEDGE_P95, NULL},
	{"respond { status = 200 } hedge = p95", 0, "hedge on route \"/\" without a pool"},
};

TEST_EACH(hedge_of_a_route_needs_two_backends_and_repeatable_requests, SL_ARRAY_LEN(hedging))
{
	static const char pools[] =
		"pool one { backend a { endpoint = \"shm:///a\" } }\n"
		"pool two { backend a { endpoint = \"shm:///b\" } backend b { endpoint = \"shm:///c\" } }\n"
		"pool web { backend a { endpoint = \"http://a:1\" } backend b { endpoint = \"http://b:1\" } }\n"
		"workers { count = 2 } pool few { subset = 1 backend a { endpoint = \"shm:///d\" } backend b { endpoint = \"shm:///e\" } }\n";
	struct sl_err err = SL_ERR(1024);
	char text[1024];
	struct sl_config *c;

	snprintf(text, sizeof(text), "%sroute / { %s }\n", pools, hedging[_i].keys);
	c = sl_config_parse(text, "t.conf", &err);
	if (hedging[_i].mistake) {
		ck_assert_msg(!c, "%s", text);
		ck_assert_msg(strstr(err.text, "t.conf:5: found ") == err.text, "%s", err.text);
		ck_assert_msg(strstr(err.text, hedging[_i].mistake), "%s", err.text);
		ck_assert_ptr_null(strchr(err.text, '\n'));
	} else {
		ck_assert_msg(c, "%s", err.text);
		ck_assert_uint_eq(c->routes[0].pools ? c->routes[0].pools->hedge_ns : 0,
				  hedging[_i].hedge_ns);
	}
	sl_config_free(c);
}

TEST(pool_of_copies_only_need_not_serve)
{
	struct sl_err err = SL_ERR(1024);
	char text[1024];
	struct sl_config *c;

	snprintf(
		text, sizeof(text),
		"%sroute /a { pool = p mirror { pool = q } }\nroute /b { pool = p mirror { pool = s } }\n"
		"route /c { pool = s }\n",
		two_pools);
	c = sl_config_parse(text, "t.conf", &err);
	ck_assert_ptr_null(c); /* p and s are no pools of one kind */
	snprintf(text, sizeof(text),
		 "%sroute /a { pool = p mirror { pool = q } }\nroute /b { pool = f }\n", two_pools);
	c = sl_config_parse(text, "t.conf", &err);
	ck_assert_msg(c, "%s", err.text);
	ck_assert(!sl_cfg_is_mirror_only(c, 0));
	ck_assert(sl_cfg_is_mirror_only(c, 1));
	ck_assert(!sl_cfg_is_mirror_only(c, 3));
	ck_assert(!sl_cfg_is_mirror_only(c, 4)); /* no route leads to it */
	sl_config_free(c);
}

TEST(longest_match_goes_first)
{
	static const char *const order[] = {"llama-3", "b", "llama*", "l*", "*"};
	struct sl_err err = SL_ERR(1024);
	char text[1024];
	struct sl_config *c;

	snprintf(
		text, sizeof(text),
		"%sroute / { match_body = model match \"*\" { pool = p } match \"l*\" { pool = q } "
		"match llama-3 { pool = q } match \"llama*\" { pool = p } match b { pool = p } }\n",
		two_pools);
	c = sl_config_parse(text, "t.conf", &err);
	ck_assert_msg(c, "%s", err.text);
	ck_assert(c->routes[0].pools->no_default);
	ck_assert_uint_eq(c->routes[0].pools->match_cnt, SL_ARRAY_LEN(order));
	for (unsigned i = 0; i < SL_ARRAY_LEN(order); i++)
		ck_assert_str_eq(c->routes[0].pools->matches[i].text, order[i]);
	sl_config_free(c);
}

/* A header rule, and whether a route may have it. */
static const struct {
	const char *rule;
	bool ok;
} rules[] = {
	{"set_header = {\"x-a: b\"}", true},
	{"set_header = {\"X-A: {scheme}://{host}{path} {client}\", \"x-b:c\"}", true},
	{"set_header = {\"destination: {replace https:// http://}\"}", true},
	{"set_reply_header = {\"location: {replace http://a https://b}\", \"server: x\"}", true},
	{"drop_header = {\"cookie\"} set_header = {\"x-a: b\"}", true},
	{"drop_reply_header = {\"server\", \"x-b\"}", true},
	{"set_header = {\"x-a\"}", false},
	{"set_header = {\"x-a:\"}", false},
	{"set_header = {\"x-a: b \"}", false},
	{"set_header = {\"x a: b\"}", false},
	{"set_header = {\": b\"}", false},
	{"set_header = {\"x-a: b\", \"X-A: c\"}", false},
	{"set_header = {\"x-a: b\"} drop_header = {\"x-a\"}", false},
	{"set_header = {\"x-a: {user}\"}", false},
	{"set_header = {\"x-a: {host\"}", false},
	{"set_header = {\"x-a: b}\"}", false},
	{"set_header = {\"x-a: {replace a}\"}", false},
	{"set_header = {\"x-a: {replace a b c}\"}", false},
	{"set_header = {\"x-a: {replace  b}\"}", false},
	{"set_header = {\"host: b\"}", false},
	{"set_header = {\"Content-Length: 1\"}", false},
	{"set_header = {\"transfer-encoding: chunked\"}", false},
	{"set_header = {\"connection: x-a\"}", false},
	{"set_header = {\"x-forwarded-for: 1\"}", false},
	{"set_header = {\"sluice-client-subject: CN=a\"}", false},
	{"drop_header = {\"Forwarded\"}", false},
	{"drop_header = {\"a b\"}", false},
	{"drop_header = {\"\"}", false},
};

TEST_EACH(header_rules_must_not_name_the_gateways_own_fields, SL_ARRAY_LEN(rules))
{
	char text[256];
	struct sl_err err = SL_ERR(512);
	struct sl_config *c;

	snprintf(text, sizeof(text), "route / { respond { status = 200 } %s }\n", rules[_i].rule);
	c = sl_config_parse(text, "t.conf", &err);
	ck_assert_msg(!c == !rules[_i].ok, "%s: %s", text, c ? "" : err.text);
	ck_assert(c || strstr(err.text, "t.conf:1: found ") == err.text);
	sl_config_free(c);
}
