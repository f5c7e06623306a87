/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/reference.h"
#include "config/config.h"

int cli_version(int argc, char **argv)
{
	struct cli_options o;

	if (cli_take_options(argc, argv, "j", &o) < 0)
		return CLI_USAGE;
	printf(o.json ? "{\"version\": \"%s\"}\n" : "sluice %s\n", SL_VERSION);
	return CLI_OK;
}

struct reference {
	json_t *list; /* NULL: text */
	const char *block;
};

/* Beside a name, in lines that fit a terminal. */
static void print_wrapped(const char *name, const char *text)
{
	enum { WIDTH = 76 };
	size_t len = strlen(text);

	while (len > WIDTH) {
		size_t cut = WIDTH;

		while (cut && text[cut] != ' ')
			cut--;
		if (!cut)
			break;
		printf("  %-18s %.*s\n", name, (int)cut, text);
		text += cut + 1;
		len -= cut + 1;
		name = "";
	}
	printf("  %-18s %s\n", name, text);
}

static void print_key(void *arg, const struct sl_config_key *k)
{
	struct reference *r = arg;
	char text[300];

	if (r->list) {
		json_t *o = json_pack("{s:s, s:s, s:s, s:s?, s:b, s:b, s:b, s:s}", "block",
				      k->block, "key", k->name, "allowed", k->allowed, "default",
				      k->fallback, "list", k->list, "required", k->required,
				      "restart", k->restart, "help", k->help);

		json_array_append_new(r->list, o);
		return;
	}
	if (!r->block || strcmp(r->block, k->block) != 0)
		printf("\n%s%s\n", k->block[0] ? k->block : "(outside of blocks)",
		       strcmp(k->block, "interface") == 0 ? " \"NAME\" { }"
		       : strcmp(k->block, "route") == 0   ? " \"/PREFIX\" { }"
		       : strcmp(k->block, "listener") == 0 || strcmp(k->block, "pool") == 0 ||
				       strcmp(k->block, "pool.backend") == 0
			       ? " NAME { }"
		       : k->block[0] ? " { }"
				     : "");
	r->block = k->block;
	print_wrapped(k->name, k->help);
	snprintf(text, sizeof(text), "allowed: %s%s%s", k->list ? "a list { , } of " : "",
		 k->allowed, k->required ? "; must be there" : "");
	print_wrapped("", text);
	if (k->fallback)
		printf("  %-18s default: %s\n", "", k->fallback);
	if (k->restart)
		printf("  %-18s needs a restart\n", "");
}

/* The keys of a configuration. */
int cli_print_reference(bool json)
{
	struct reference r = {.list = json ? json_array() : NULL};

	if (!json)
		puts("A configuration is made of blocks: NAME { KEY = VALUE ... }. Texts with "
		     "blanks or\n"
		     "special characters are quoted, # begins a comment, lists are { VALUE, VALUE "
		     "}. A\n"
		     "running gateway takes what has changed with SIGHUP or `sluice reload`, but "
		     "for what\nneeds a restart.");
	sl_config_each_key(print_key, &r);
	if (json) {
		json_dumpf(r.list, stdout, JSON_INDENT(2));
		putchar('\n');
		json_decref(r.list);
	}
	return CLI_OK;
}

static int help_on(const char *name)
{
	for (size_t i = 0; i < cli_command_cnt; i++) {
		const struct cli_command *c = &cli_commands[i];

		if (strcmp(c->name, name) != 0)
			continue;
		printf("Usage: sluice %s%s%s\n%s\n", c->name, c->args[0] ? " " : "", c->args,
		       c->summary);
		if (c->details)
			printf("\n%s", c->details);
		return CLI_OK;
	}
	return cli_usage("help", "found \"%.64s\", which is no command", name);
}

int cli_help(int argc, char **argv)
{
	struct cli_options o = {0};

	if (argc > 1)
		argc = cli_take_options(argc, argv, "j", &o);
	if (argc < 0)
		return CLI_USAGE;
	if (argc > 1)
		return strcmp(argv[1], "config") == 0 ? cli_print_reference(o.json)
						      : help_on(argv[1]);
	puts("sluice: a gateway from HTTP, gRPC and datagrams to compute backends over RDMA and "
	     "shared\n"
	     "memory, with batches that follow from live latency statistics.\n\nUsage: sluice "
	     "COMMAND ...\n");
	for (size_t i = 0; i < cli_command_cnt; i++)
		printf("  %-8s %s\n", cli_commands[i].name, cli_commands[i].summary);
	puts("\n`sluice COMMAND --help` says more, `sluice help config` lists the keys of a "
	     "configuration.");
	return CLI_OK;
}
