/* SPDX-License-Identifier: Apache-2.0 */
/* What routes do where the file does not say it: by the kind of their pool. */
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
