/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of servers for agents. */
#include "agent/list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "suite.h"

static const char text[] =
	"listener web { address = \"192.0.2.1\" port = 80 }\n"
	"pool web { backend a { endpoint = \"http://127.0.0.1:8000\" host = \"a.example\" } }\n"
	"route \"/\" { pool = web }\n";

/* It must not look like one of no servers, for which agents end all of theirs. */
TEST(a_list_that_does_not_fit_is_not_empty)
{
	struct sl_err err = SL_ERR(256);
	struct sl_config *cfg = sl_config_parse(text, "test", &err);
	struct agent_list_line line = {0};
	char list[400] = "";
	size_t len;

	ck_assert_msg(cfg != NULL, "%s", err.text);
	len = agent_list_write(list, sizeof(list), cfg);
	ck_assert_uint_gt(len, 0);
	ck_assert_uint_lt(len, sizeof(list));
	for (size_t cap = 0; cap <= len; cap++)
		ck_assert_uint_eq(agent_list_write(list, cap, cfg), SIZE_MAX);
	ck_assert_uint_eq(agent_list_write(list, sizeof(list), cfg), len);
	ck_assert_uint_eq(agent_list_parse(list, 3, &line, 1), 1);
	ck_assert_str_eq(line.to, "http://127.0.0.1:8000");
	ck_assert_str_eq(line.host, "a.example");
	sl_config_free(cfg);
}
