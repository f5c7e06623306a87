/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reload: lets a gateway read its file again (POST /reload) and prints what is in force now, and what
 * waits for a restart, as control/reload.c tells it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

static void print_names(const char *title, const json_t *names, const char *none)
{
	json_t *name;
	size_t i;

	printf("%s: %s", title, json_array_size(names) ? "" : none);
	json_array_foreach((json_t *)(uintptr_t)names, i, name)
		printf("%s%s", i ? ", " : "", json_string_value(name));
	putchar('\n');
}

int cli_reload(int argc, char **argv)
{
	struct cli_options o;
	struct cli_target t;
	struct sl_err err = SL_ERR(600);
	char *body = NULL;
	int status = -1;
	json_t *diff;

	if (!cli_take_only_options(argc, argv, "caj", &o))
		return CLI_USAGE;
	if (cli_find_admin(&o, &t, &err) == 0)
		status = cli_admin_ask(&t, "POST", "/reload", &body, &err);
	if (status < 0)
		return cli_error("reload", "%s", err.text);
	for (size_t len = strlen(body); len && body[len - 1] == '\n'; len--)
		body[len - 1] = 0;
	diff = status == 200 ? json_loads(body, 0, NULL) : NULL;
	if (!diff) {
		cli_error("reload", "nothing changed: %s", body);
	} else if (o.json) {
		puts(body);
	} else {
		print_names("in force", json_object_get(diff, "in_force"), "nothing new");
		print_names("needs a restart", json_object_get(diff, "needs_restart"), "nothing");
	}
	json_decref(diff);
	free(body);
	return diff ? CLI_OK : CLI_FAILED;
}
