/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/reference.h"

int cli_version(int argc, char **argv)
{
	struct cli_options o;

	if (cli_take_options(argc, argv, "j", &o) < 0)
		return CLI_USAGE;
	printf(o.json ? "{\"version\": \"%s\"}\n" : "sluice %s\n", SL_VERSION);
	return CLI_OK;
}

int cli_help(int argc, char **argv)
{
	struct cli_options o = {0};

	if (argc > 1)
		argc = cli_take_options(argc, argv, "jr", &o);
	if (argc < 0)
		return CLI_USAGE;
	if (argc > 1 && cli_print_reference(argv[1], o.json   ? CLI_JSON
						     : o.roff ? CLI_ROFF
							      : CLI_TEXT))
		return CLI_OK;
	for (size_t i = 0; argc > 1 && i < cli_command_cnt; i++) {
		const struct cli_command *c = &cli_commands[i];

		if (strcmp(c->name, argv[1]) != 0)
			continue;
		printf("Usage: sluice %s%s%s\n%s\n", c->name, c->args[0] ? " " : "", c->args,
		       c->summary);
		if (c->details)
			printf("\n%s", c->details);
		return CLI_OK;
	}
	if (argc > 1)
		return cli_usage("help", "found \"%.64s\", which is neither a command nor a topic",
				 argv[1]);
	puts("sluice: a gateway from HTTP, gRPC and datagrams to compute backends over RDMA and "
	     "shared\n"
	     "memory, with batches that follow from live latency statistics.\n\nUsage: sluice "
	     "COMMAND ...\n");
	for (size_t i = 0; i < cli_command_cnt; i++)
		printf("  %-8s %s\n", cli_commands[i].name, cli_commands[i].summary);
	puts("\n`sluice COMMAND --help` says more, `sluice help config` lists the keys of a "
	     "configuration;\n`sluice help metrics`, `drops` and `outcomes` say what is counted.");
	return CLI_OK;
}
