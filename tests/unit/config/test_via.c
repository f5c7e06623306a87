/* SPDX-License-Identifier: Apache-2.0 */
/* via.c: which servers workers can connect to, and from which ports. */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "config/config.h"
#include "suite.h"

#define XDP   "interface eth0 { }\n"
#define PORTS "tcp { server_ports = 20000-29999 }\n"

/* A pool, further keys in front of it, and what is wrong; NULL: nothing. */
static const struct {
	const char *before, *pool, *mistake;
} cases[] = {
	{XDP PORTS, "backend a { endpoint = \"http://10.0.0.1:80\" via = stack }", NULL},
	{XDP PORTS, "backend a { endpoint = \"http://[fd00::1]:80\" via = stack }", NULL},
	{XDP PORTS, "backend a { endpoint = \"http://a:80\" via = agent }", NULL},
	{XDP, "backend a { endpoint = \"http://10.0.0.1:80\" via = stack }",
	 "found via = \"stack\" without tcp.server_ports; allowed: both"},
	{XDP PORTS, "backend a { endpoint = \"http://a:80\" via = stack }",
	 "found via = \"stack\" with endpoint = \"http://a:80\"; allowed: http://ADDRESS:PORT"},
	{XDP PORTS, "backend a { endpoint = \"h2c://10.0.0.1:80\" via = stack }", NULL},
	{XDP PORTS, "backend a { endpoint = \"https://10.0.0.1:80\" via = stack }", "found via"},
	{XDP PORTS, "backend a { endpoint = \"http+unix:///a\" via = stack }", "found via"},
	{XDP PORTS, "backend a { endpoint = \"shm:///a\" via = stack }", "found via"},
	{"", "backend a { endpoint = \"h2c://a:80\" via = auto }", NULL},
	{XDP PORTS, "health { } backend a { endpoint = \"http://10.0.0.1:80\" via = stack }", NULL},
	{"interface eth0 { mode = socket }\n" PORTS,
	 "backend a { endpoint = \"http://10.0.0.1:80\" via = stack }",
	 "without an interface that XDP serves"},
	{XDP "tcp { server_ports = 20000-20062 }\n", "backend a { endpoint = \"shm:///a\" }",
	 "found server_ports with 63 ports; allowed: at least 64"},
	{XDP "tcp { server_ports = 29999-20000 }\n", "backend a { endpoint = \"shm:///a\" }",
	 "two ports such as 20000-29999"},
	{XDP "tcp { server_ports = 80-30000 }\n", "backend a { endpoint = \"shm:///a\" }",
	 "two ports such as 20000-29999"},
	{XDP "tcp { server_ports = 8000-9000 }\nlistener l { port = 8080 }\n",
	 "backend a { endpoint = \"shm:///a\" }",
	 "found listener \"l\" at port 8080 of tcp.server_ports"},
};

TEST_EACH(a_server_by_the_own_stack_is_checked, SL_ARRAY_LEN(cases))
{
	static char line[2048];
	struct sl_err err = {line, sizeof(line)};
	struct sl_config *c;
	char text[512];

	snprintf(text, sizeof(text),
		 "workers { count = 1 }\n%spool p { %s }\nroute / { pool = p }\n", cases[_i].before,
		 cases[_i].pool);
	c = sl_config_parse(text, "t.conf", &err);
	if (!cases[_i].mistake)
		ck_assert_msg(c, "%s", err.text);
	else
		ck_assert_msg(!c && strstr(err.text, cases[_i].mistake), "%s", err.text);
	sl_config_free(c);
}
