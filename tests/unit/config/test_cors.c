/* SPDX-License-Identifier: Apache-2.0 */
/* The block cors of routes: values of its fields, and each mistake with its line. */
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "config/config.h"
#include "suite.h"

static struct sl_err err = SL_ERR(4096);

TEST(lists_become_values_of_fields)
{
	struct sl_config *c = sl_config_parse(
		"route /a { respond { } cors { origins = {\"https://a.test\", \"http://[::1]:80\"}\n"
		"methods = {GET, PUT} headers = {X-A, b} expose = {c} max_age = 1m credentials = yes } "
		"}\nroute /b { respond { } }\n",
		"t.conf", &err);
	const struct sl_cfg_cors *k;

	ck_assert_msg(c != NULL, "%s", err.text);
	k = &c->routes[0].cors;
	ck_assert_uint_eq(k->origin_cnt, 2);
	ck_assert_str_eq(k->origins[1], "http://[::1]:80");
	ck_assert_str_eq(k->methods, "GET, PUT");
	ck_assert_str_eq(k->headers, "X-A, b");
	ck_assert_str_eq(k->expose, "c");
	ck_assert_uint_eq(k->max_age_ns, 60 * SL_NS_PER_SEC);
	ck_assert(k->credentials);
	ck_assert_uint_eq(c->routes[1].cors.origin_cnt, 0);
	sl_config_free(c);
}

#define ROUTE(keys) "route /\n{ respond { } cors { " keys " } }\n"
static const struct {
	const char *text, *mistake;
} mistakes[] = {
	{ROUTE(""), "t.conf:2: found cors without origins; allowed: cors { origins ="},
	{ROUTE("origins = {\"*\"} credentials = yes"),
	 "t.conf:2: found credentials with origins = {\"*\"}; allowed: names of origins"},
	{ROUTE("origins = {\"*\", \"https://a\"}"),
	 "t.conf:2: found origins = \"https://a\"; allowed:"},
	{ROUTE("origins = {\"https://a\", \"*\"}"),
	 "t.conf:2: found origins = \"*\"; allowed: up to"},
	{ROUTE("origins = {\"https://a/\"}"), "t.conf:2: found origins = \"https://a/\"; allowed:"},
	{ROUTE("origins = {\"https://A\"}"), "t.conf:2: found origins = \"https://A\"; allowed:"},
	{ROUTE("origins = {\"https://\"}"), "t.conf:2: found origins = \"https://\"; allowed:"},
	{ROUTE("origins = {a}"), "t.conf:2: found origins = \"a\"; allowed: up to 64 texts"},
	{ROUTE("origins = {\"null\"}"), "t.conf:2: found origins = \"null\"; allowed: up to"},
	{ROUTE("origins = {\"https://a\"} methods = {TRACE}"),
	 "t.conf:2: found methods = \"TRACE\"; allowed: GET, HEAD"},
	{ROUTE("origins = {\"https://a\"} headers = {\"*\"}"),
	 "t.conf:2: found headers = \"*\"; allowed: names of headers"},
	{ROUTE("origins = {\"https://a\"} headers = {\"a b\"}"),
	 "t.conf:2: found headers = \"a b\"; allowed: names of headers"},
	{ROUTE("origins = {\"https://a\"} max_age = 2d"),
	 "t.conf:2: found max_age = \"2d\"; allowed:"},
};

TEST_EACH(each_mistake_has_its_line, SL_ARRAY_LEN(mistakes))
{
	ck_assert_ptr_null(sl_config_parse(mistakes[_i].text, "t.conf", &err));
	ck_assert_msg(strncmp(err.text, mistakes[_i].mistake, strlen(mistakes[_i].mistake)) == 0,
		      "%s", err.text);
	ck_assert_ptr_null(strchr(err.text, '\n'));
}
