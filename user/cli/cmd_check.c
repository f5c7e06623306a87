/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/cli.h"
#include "cli/reference.h"
#include "config/config.h"

int cli_check(int argc, char **argv)
{
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
	if (o.json) {
		json_t *j = json_pack("{s:b, s:s}", "ok", ok, "error", err);

		json_dumpf(j, stdout, 0);
		putchar('\n');
		json_decref(j);
	} else if (ok) {
		printf("%s: ok: %u interfaces, %u workers, %u listeners, %u pools, %u routes\n",
		       o.config, c->interface_cnt, c->worker_cnt, c->listener_cnt, c->pool_cnt,
		       c->route_cnt);
	} else {
		fprintf(stderr, "%s\n", err);
	}
	cli_config_free(c);
	return ok ? CLI_OK : CLI_FAILED;
}
