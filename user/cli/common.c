/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
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

static const struct option_row {
	char letter;
	bool takes_text;
	const char *brief, *name;
	size_t at;
} options[] = {
	{'c', true, "-c", "--config", offsetof(struct cli_options, config)},
	{'a', true, "", "--admin", offsetof(struct cli_options, admin)},
	{'f', true, "", "--interface", offsetof(struct cli_options, interface)},
	{'i', true, "-i", "--interval", offsetof(struct cli_options, interval)},
	{'n', true, "-n", "--count", offsetof(struct cli_options, count)},
	{'p', true, "", "--pool", offsetof(struct cli_options, pool)},
	{'t', true, "", "--route", offsetof(struct cli_options, route)},
	{'e', true, "", "--backend", offsetof(struct cli_options, backend)},
	{'s', true, "", "--status", offsetof(struct cli_options, status)},
	{'l', true, "", "--slow", offsetof(struct cli_options, slow)},
	{'j', false, "-j", "--json", offsetof(struct cli_options, json)},
	{'k', false, "-k", "--keep", offsetof(struct cli_options, keep)},
	{'d', false, "", "--defaults", offsetof(struct cli_options, defaults)},
	{'x', false, "", "--fix", offsetof(struct cli_options, fix)},
	{'g', false, "", "--has-interface", offsetof(struct cli_options, has_interface)},
	{'m', false, "", "--maps", offsetof(struct cli_options, maps)},
	{'o', false, "", "--offline", offsetof(struct cli_options, offline)},
	{'r', false, "", "--roff", offsetof(struct cli_options, roff)},
	{'u', false, "", "--no-supervise", offsetof(struct cli_options, no_supervise)},
	{'w', false, "-w", "--wait", offsetof(struct cli_options, wait)},
};

static const struct option_row *find_option(const char *text, const char *allowed)
{
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		const struct option_row *row = &options[i];

		if (strchr(allowed, row->letter) &&
		    (strcmp(text, row->brief) == 0 || strcmp(text, row->name) == 0))
			return row;
	}
	return NULL;
}

int cli_take_options(int argc, char **argv, const char *allowed, struct cli_options *o)
{
	int left = 1;
	bool only_args = false;

	*o = (struct cli_options){0};
	for (int i = 1; i < argc; i++) {
		const struct option_row *row;

		if (only_args || argv[i][0] != '-' || !argv[i][1]) {
			argv[left++] = argv[i];
			continue;
		}
		if (strcmp(argv[i], "--") == 0) {
			only_args = true;
			continue;
		}
		row = find_option(argv[i], allowed);
		if (!row || (row->takes_text && i + 1 == argc)) {
			cli_usage(argv[0], "found option \"%.64s\"%s", argv[i],
				  row ? " without its value" : ", which it does not have");
			return -1;
		}
		if (row->takes_text)
			*(const char **)((char *)o + row->at) = argv[++i];
		else
			*(bool *)((char *)o + row->at) = true;
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
