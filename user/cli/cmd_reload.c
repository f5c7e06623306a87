/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "config/config.h"

static void print_names(const char *title, const json_t *names, const char *none)
{
	json_t *name;
	size_t i;

	printf("%s: %s", title, json_array_size(names) ? "" : none);
	json_array_foreach((json_t *)(uintptr_t)names, i, name)
		printf("%s%s", i ? ", " : "", json_string_value(name));
	putchar('\n');
}

enum { FOLLOW_MS = 15000, LOOK_MS = 20 };

static bool wait_reload(const struct cli_target *t, json_int_t number, struct sl_err *err)
{
	for (int ms = 0; ms < FOLLOW_MS; ms += LOOK_MS) {
		json_t *stats = cli_admin_stats(t, err);
		const json_t *reload = json_object_get(stats, "reload");
		bool there = cli_number(reload, "in_force") >= (double)number;
		bool ended = !stats || !json_is_true(json_object_get(reload, "pending"));

		if (stats && !there && ended)
			sl_err_set(err, "nothing changed: %s", cli_text(reload, "refused"));
		json_decref(stats);
		if (there || ended)
			return there;
		usleep(LOOK_MS * 1000);
	}
	sl_err_set(err, "taken, but not in force everywhere after %d s; the log will say when",
		   FOLLOW_MS / 1000);
	return false;
}

int cli_reload(int argc, char **argv)
{
	struct cli_options o;
	struct cli_target t;
	static char text[SL_CFG_ERR_LEN];
	struct sl_err err = {text, sizeof(text)};
	char *body = NULL;
	int status = -1;
	json_t *diff;
	bool ok = false;

	if (!cli_take_only_options(argc, argv, "caj", &o))
		return CLI_USAGE;
	if (cli_find_admin(&o, &t, &err) == 0)
		status = cli_admin_ask(&t, "POST", "/reload", &body, &err);
	if (status < 0)
		return cli_error("reload", "nothing changed: %s", err.text);
	for (size_t len = strlen(body); len && body[len - 1] == '\n'; len--)
		body[len - 1] = 0;
	diff = status == 200 ? json_loads(body, 0, NULL) : NULL;
	if (!diff) {
		cli_error("reload", "nothing changed: %s", body);
	} else if (!wait_reload(&t, json_integer_value(json_object_get(diff, "number")), &err)) {
		cli_error("reload", "%s", err.text);
	} else if (o.json) {
		ok = puts(body) >= 0;
	} else {
		print_names("in force", json_object_get(diff, "in_force"), "nothing new");
		print_names("needs a restart", json_object_get(diff, "needs_restart"), "nothing");
		ok = true;
	}
	json_decref(diff);
	free(body);
	return ok ? CLI_OK : CLI_FAILED;
}
