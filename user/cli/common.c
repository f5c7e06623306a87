/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/output.h"
#include "cli/cli.h"
#include "config/api_keys.h"
#include "core/quota.h"
#include "front/grpc/descriptors.h"
#include "front/tls/server.h"

static int load_descriptors(struct sl_config *c, struct sl_err *err)
{
	const struct sl_cfg_location at = sl_config_location(c, c->descriptor_sets_line);
	struct sl_err why = SL_ERR(500);

	if (!c->descriptor_set_cnt)
		return 0;
	c->descriptors = sl_descriptors_load(c->descriptor_sets, c->descriptor_set_cnt, &why);
	return c->descriptors ? 0 : sl_fail(err, -1, "%s:%d: %s", at.file, at.line, why.text);
}

bool cli_config_complete(struct sl_config *c, struct sl_err *err)
{
	static char text[SL_CFG_ERR_LEN];
	struct sl_err more = {text, sizeof(text)};
	bool ok = true;

	/* All mistakes are reported in one round. */
	sl_err_set(err, "%s", "");
	if (sl_config_check_system(c, &more) != 0)
		ok = sl_err_add(err, more.text);
	if (load_descriptors(c, &more) != 0)
		ok = sl_err_add(err, more.text);
	if (sl_tls_load(c, &more) != 0)
		ok = sl_err_add(err, more.text);
	if (sl_api_keys_load(c, &more) != 0)
		ok = sl_err_add(err, more.text);
	if (sl_quotas_load(c, NULL, &more) != 0)
		ok = sl_err_add(err, more.text);
	return ok;
}

struct sl_config *cli_config_load(const char *file, struct sl_err *err)
{
	struct sl_config *c = sl_config_load(file, err);

	if (c && cli_config_complete(c, err))
		return c;
	cli_config_free(c);
	return NULL;
}

void cli_config_free(struct sl_config *c)
{
	if (c)
		sl_descriptors_free(c->descriptors);
	sl_config_free(c);
}

static void print_message(const char *command, const char *fmt, va_list ap)
	__attribute__((format(printf, 2, 0)));
static void print_message(const char *command, const char *fmt, va_list ap)
{
	char line[4096];
	int n = snprintf(line, sizeof(line), "sluice %s: ", command);

	vsnprintf(line + n, sizeof(line) - (size_t)n, fmt, ap);
	sl_output_text(STDERR_FILENO, line);
}

int cli_error(const char *command, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	print_message(command, fmt, ap);
	va_end(ap);
	return CLI_FAILED;
}

int cli_usage(const char *command, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	print_message(command, fmt, ap);
	va_end(ap);
	fprintf(stderr, "`sluice %s --help` says more\n", command);
	return CLI_USAGE;
}

int cli_take_options(int argc, char **argv, const char *allowed, struct cli_options *o)
{
	struct {
		char letter;
		const char *brief, *name;
		const char **text;
		bool *flag;
	} table[] = {
		{'c', "-c", "--config", &o->config, NULL},
		{'a', "", "--admin", &o->admin, NULL},
		{'f', "", "--interface", &o->interface, NULL},
		{'i', "-i", "--interval", &o->interval, NULL},
		{'n', "-n", "--count", &o->count, NULL},
		{'p', "", "--pool", &o->pool, NULL},
		{'t', "", "--route", &o->route, NULL},
		{'e', "", "--backend", &o->backend, NULL},
		{'s', "", "--status", &o->status, NULL},
		{'l', "", "--slow", &o->slow, NULL},
		{'j', "-j", "--json", NULL, &o->json},
		{'k', "-k", "--keep", NULL, &o->keep},
		{'d', "", "--defaults", NULL, &o->defaults},
		{'x', "", "--fix", NULL, &o->fix},
		{'g', "", "--has-interface", NULL, &o->has_interface},
		{'m', "", "--maps", NULL, &o->maps},
		{'o', "", "--offline", NULL, &o->offline},
		{'r', "", "--roff", NULL, &o->roff},
		{'u', "", "--no-supervise", NULL, &o->no_supervise},
		{'w', "-w", "--wait", NULL, &o->wait},
	};
	int left = 1;
	bool only_args = false;

	*o = (struct cli_options){0};
	for (int i = 1; i < argc; i++) {
		size_t k, n = sizeof(table) / sizeof(table[0]);

		if (only_args || argv[i][0] != '-' || !argv[i][1]) {
			argv[left++] = argv[i];
			continue;
		}
		if (strcmp(argv[i], "--") == 0) {
			only_args = true;
			continue;
		}
		for (k = 0; k < n; k++) {
			if (strchr(allowed, table[k].letter) &&
			    (strcmp(argv[i], table[k].brief) == 0 ||
			     strcmp(argv[i], table[k].name) == 0))
				break;
		}
		if (k == n || (table[k].text && i + 1 == argc)) {
			cli_usage(argv[0], "found option \"%.64s\"%s", argv[i],
				  k == n ? ", which it does not have" : " without its value");
			return -1;
		}
		if (table[k].text)
			*table[k].text = argv[++i];
		else
			*table[k].flag = true;
	}
	argv[left] = NULL;
	return left;
}

bool cli_take_only_options(int argc, char **argv, const char *allowed, struct cli_options *o)
{
	argc = cli_take_options(argc, argv, allowed, o);
	if (argc > 1)
		cli_usage(argv[0], "found \"%.64s\", which it does not take", argv[1]);
	return argc == 1;
}
