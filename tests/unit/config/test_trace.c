/* SPDX-License-Identifier: Apache-2.0 */
/* The block trace: its values, and each mistake with its line. */
#include <arpa/inet.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "config/config.h"
#include "suite.h"

static struct sl_err err = SL_ERR(4096);

TEST(values_are_read)
{
	struct sl_config *c = sl_config_parse(
		"trace { request_id = yes otlp = \"http://[::1]:4318/v1/traces\" sample = 0.5 "
		"slow = 2s }\n",
		"t.conf", &err);
	struct sl_addr at;
	const char *path;

	ck_assert_msg(c != NULL, "%s", err.text);
	ck_assert(c->trace.request_id && sl_cfg_traces(&c->trace));
	ck_assert_double_eq(c->trace.sample, 0.5);
	ck_assert_uint_eq(c->trace.slow_ns, 2 * SL_NS_PER_SEC);
	ck_assert(sl_cfg_parse_otlp(c->trace.otlp, &at, &path));
	ck_assert_uint_eq(at.family, 6);
	ck_assert_uint_eq(ntohs(at.port_be), 4318);
	ck_assert_str_eq(path, "/v1/traces");
	sl_config_free(c);
}

TEST(without_the_block_there_are_no_traces)
{
	struct sl_config *c = sl_config_parse("\n", "t.conf", &err);

	ck_assert_msg(c != NULL, "%s", err.text);
	ck_assert(!sl_cfg_traces(&c->trace));
	sl_config_free(c);
}

#define ALLOWED "; allowed: http://ADDRESS:PORT/PATH with a numeric address"
static const struct {
	const char *text, *mistake;
} mistakes[] = {
	{"\ntrace { slow = 1s }\n",
	 "t.conf:2: found trace without request_id and otlp; allowed: trace {"},
	{"\ntrace { otlp = \"https://127.0.0.1:1/\" }\n",
	 "t.conf:2: found otlp = \"https://127.0.0.1:1/\"" ALLOWED},
	{"\ntrace { otlp = \"http://localhost:1/\" }\n",
	 "t.conf:2: found otlp = \"http://localhost:1/\"" ALLOWED},
	{"\ntrace { otlp = \"http://127.0.0.1/v1\" }\n",
	 "t.conf:2: found otlp = \"http://127.0.0.1/v1\"" ALLOWED},
	{"\ntrace { otlp = \"http://127.0.0.1:0/\" }\n",
	 "t.conf:2: found otlp = \"http://127.0.0.1:0/\"" ALLOWED},
	{"\ntrace { otlp = \"http://127.0.0.1:65536/\" }\n",
	 "t.conf:2: found otlp = \"http://127.0.0.1:65536/\"" ALLOWED},
	{"\ntrace { otlp = \"http://127.0.0.1:1\" }\n",
	 "t.conf:2: found otlp = \"http://127.0.0.1:1\"" ALLOWED},
	{"\ntrace { otlp = \"http://::1:1/\" }\n",
	 "t.conf:2: found otlp = \"http://::1:1/\"" ALLOWED},
	{"\ntrace { otlp = \"http://[127.0.0.1]:1/\" }\n",
	 "t.conf:2: found otlp = \"http://[127.0.0.1]:1/\"" ALLOWED},
	{"\ntrace { otlp = \"http://[]:1/\" }\n",
	 "t.conf:2: found otlp = \"http://[]:1/\"" ALLOWED},
	{"\ntrace { otlp = \"http://:1/\" }\n", "t.conf:2: found otlp = \"http://:1/\"" ALLOWED},
	{"\ntrace { otlp = \"http://[:1/\" }\n", "t.conf:2: found otlp = \"http://[:1/\"" ALLOWED},
	{"\ntrace { otlp = \"http://127.0.0.1:1/a b\" }\n",
	 "t.conf:2: found otlp = \"http://127.0.0.1:1/a b\"" ALLOWED},
	{"\ntrace { request_id = yes sample = 2 }\n", "t.conf:2: found sample = \"2\"; allowed:"},
};

TEST_EACH(each_mistake_has_its_line, SL_ARRAY_LEN(mistakes))
{
	ck_assert_ptr_null(sl_config_parse(mistakes[_i].text, "t.conf", &err));
	ck_assert_msg(strncmp(err.text, mistakes[_i].mistake, strlen(mistakes[_i].mistake)) == 0,
		      "%s", err.text);
	ck_assert_ptr_null(strchr(err.text, '\n'));
}
