/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/cli.h"
#include "cli/reference.h"
#include "config/config.h"

static void add_warning(void *arg, const char *line)
{
	json_array_append_new(arg, json_string(line));
}

static void print_warnings(const json_t *warnings)
{
	json_t *w;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)warnings, i, w)
		printf("warning: %s\n", json_string_value(w));
}

int cli_check(int argc, char **argv)
{
	json_t *warnings;
	struct cli_options o;
	struct sl_config *c;
	char err[600] = "";
	bool ok;

	argc = cli_take_options(argc, argv, "cjd", &o);
	if (argc < 0)
		return CLI_USAGE;
	if (o.defaults)
		return cli_print_reference(o.json);
	if (argc > 1 || !o.config)
		return cli_usage("check", "found %s; allowed: -c FILE or --defaults",
				 argc > 1 ? argv[1] : "no configuration");
	c = cli_config_load(o.config, err, sizeof(err));
	ok = c;
	warnings = json_array();
	if (ok)
		sl_config_each_warning(c, add_warning, warnings);
	if (o.json) {
		json_t *j =
			json_pack("{s:b, s:s, s:o}", "ok", ok, "error", err, "warnings", warnings);

		json_dumpf(j, stdout, 0);
		putchar('\n');
		json_decref(j);
		warnings = NULL; /* it was j's */
	} else if (ok) {
		print_warnings(warnings);
		printf("%s: ok: interfaces %u, workers %u, listeners %u, pools %u, routes %u\n",
		       o.config, c->interface_cnt, c->worker_cnt, c->listener_cnt, c->pool_cnt,
		       c->route_cnt);
	} else {
		fprintf(stderr, "%s\n", err);
	}
	json_decref(warnings);
	cli_config_free(c);
	return ok ? CLI_OK : CLI_FAILED;
}
