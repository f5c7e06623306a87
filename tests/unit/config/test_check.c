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
