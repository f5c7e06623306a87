/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/reference.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/strbuf.h"
#include "cli/cli.h"
#include "config/config.h"
#include "control/fields.h"
#include "control/metrics.h"
#include "front/front.h"
#include "sluice/drop.h"
#include "sluice/outcome.h"

struct reference_page {
	enum cli_form form;
	json_t *list;
	const char *block;
};

/* Roff takes backslashes, hyphens, quotes, and points that begin a line for its own. */
static void print_roff(const char *text)
{
	bool first = true;

	for (const char *c = text; *c; c++) {
		if (first && (*c == '.' || *c == '\''))
			fputs("\\&", stdout);
		if (*c == '\\')
			fputs("\\e", stdout);
		else if (*c == '-')
			fputs("\\-", stdout);
		else if (*c == '"')
			fputs("\\(dq", stdout);
		else
			putchar(*c);
		first = *c == '\n';
	}
}

static void roff_item(const char *name, const char *text)
{
	fputs(".TP\n.B ", stdout);
	print_roff(name);
	putchar('\n');
	print_roff(text);
}

static void print_wrapped(const char *name, const char *text)
{
	enum { WIDTH = 76 };
	size_t len = strlen(text);

	if (strlen(name) > 18) {
		printf("  %s\n", name);
		name = "";
	}
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

static void print_section(const struct reference_page *p, const char *title)
{
	if (p->form == CLI_TEXT)
		printf("\n%s\n", title);
	if (p->form != CLI_ROFF)
		return;
	fputs(".SS ", stdout);
	print_roff(title);
	putchar('\n');
}

static void print_entry(const struct reference_page *p, const char *list, const char *name,
			const char *help, const char *more_title, const char *more)
{
	char text[1000];

	if (p->form == CLI_JSON) {
		json_array_append_new(p->list,
				      json_pack("{s:s, s:s, s:s, s:s*}", "list", list, "name", name,
						"help", help, more_title, more));
		return;
	}
	snprintf(text, sizeof(text), "%s%s%s%s", help, more ? " (" : "", more ? more : "",
		 more ? ")" : "");
	if (p->form == CLI_TEXT) {
		print_wrapped(name, text);
		return;
	}
	roff_item(name, text);
	putchar('\n');
}

static const char *block_shape(const char *block)
{
	if (strcmp(block, "interface") == 0)
		return " \"NAME\" { }";
	if (strcmp(block, "route") == 0)
		return " \"/PREFIX\" { }";
	if (strcmp(block, "listener") == 0 || strcmp(block, "pool") == 0 ||
	    strcmp(block, "pool.backend") == 0)
		return " NAME { }";
	if (strcmp(block, "route.match") == 0)
		return " \"VALUE\" { }";
	return block[0] ? " { }" : "";
}

static void print_key(void *arg, const struct sl_config_key *k)
{
	struct reference_page *p = arg;
	char text[sizeof(k->allowed) + 60];

	if (p->form == CLI_JSON) {
		json_array_append_new(
			p->list, json_pack("{s:s, s:s, s:s, s:s?, s:b, s:b, s:b, s:s}", "block",
					   k->block, "key", k->name, "allowed", k->allowed,
					   "default", k->fallback, "list", k->list, "required",
					   k->required, "restart", k->restart, "help", k->help));
		return;
	}
	if (!p->block || strcmp(p->block, k->block) != 0) {
		snprintf(text, sizeof(text), "%s%s", k->block[0] ? k->block : "(outside of blocks)",
			 block_shape(k->block));
		print_section(p, text);
	}
	p->block = k->block;
	snprintf(text, sizeof(text), "allowed: %s%s%s", k->list ? "a list { , } of " : "",
		 k->allowed, k->required ? "; must be there" : "");
	if (p->form == CLI_TEXT) {
		print_wrapped(k->name, k->help);
		print_wrapped("", text);
		if (k->fallback)
			printf("  %-18s default: %s\n", "", k->fallback);
		if (k->restart)
			printf("  %-18s needs a restart\n", "");
		return;
	}
	roff_item(k->name, k->help);
	fputs("\n.br\n", stdout);
	print_roff(text);
	if (k->fallback) {
		fputs("\n.br\ndefault: ", stdout);
		print_roff(k->fallback);
	}
	puts(k->restart ? "\n.br\nneeds a restart" : "");
}

static void print_keys(struct reference_page *p)
{
	if (p->form == CLI_TEXT)
		puts("A configuration is made of blocks: NAME { KEY = VALUE ... }. Texts with "
		     "blanks or\nspecial characters are quoted, # begins a comment, lists are { "
		     "VALUE, VALUE }.\n${NAME} alone or in double quotes is a variable of the "
		     "environment, ${NAME:-TEXT} has\na default; in single quotes it is as it "
		     "stands. A running gateway takes what has\nchanged with SIGHUP or `sluice "
		     "reload`, but for what needs a restart.");
	sl_config_each_key(print_key, p);
}

static void print_metrics(struct reference_page *p)
{
	char name[100], kind[20];
	struct sl_strbuf b;

	sl_strbuf_grow(&b, 1 << 20);
	sl_metrics_heads(&b);
	for (char *line = b.ptr, *save; (line = strtok_r(line, "\n", &save)); line = NULL) {
		char *type = strtok_r(NULL, "\n", &save), *help = strchr(line + 7, ' ');

		if (!type || !help || sscanf(type, "# TYPE %99s %19s", name, kind) != 2)
			break;
		print_entry(p, "metrics", name, help + 1, "type", kind);
	}
	sl_strbuf_fini(&b);
}

static void print_names(struct reference_page *p, const char *title, const char *list,
			const struct stat_name *names, unsigned cnt)
{
	print_section(p, title);
	for (unsigned i = 0; i < cnt; i++)
		print_entry(p, list, names[i].name, names[i].help, "more", NULL);
}

static void print_drops(struct reference_page *p)
{
	print_names(p, "Verdicts of the XDP program: sluice_rx_packets_total{verdict}", "verdicts",
		    verdict_names, SL_RX_VERDICT_CNT);
	print_names(p, "Discards in user space: sluice_drops_total{reason}", "drops", drop_names,
		    SL_DROP_CNT);
}

struct outcome_entry {
	const char *name, *http, *grpc, *datagram, *text;
};
#define X(name, metric, http, grpc, datagram, retry_after_s, text)                                 \
	{metric, #http, #grpc, #datagram, text},
static const struct outcome_entry outcomes[] = {SL_OUTCOMES(X)};
#undef X

static void print_outcomes(struct reference_page *p)
{
	char status[100], bare[600];
	size_t len = 0;

	print_section(p, "How a request ends: sluice_exchanges_total{outcome}");
	for (unsigned i = 0; i < SL_OUTCOME_CNT; i++) {
		const struct outcome_entry *o = &outcomes[i];

		snprintf(status, sizeof(status), "HTTP %s, gRPC %s, datagram %s", o->http, o->grpc,
			 o->datagram);
		print_entry(p, "outcomes", o->name, o->text, "status", status);
	}
	print_section(p, "Requests that break their protocol: sluice_front_errors_total{error}");
	for (unsigned i = 0; i < SL_FRONT_ERR_CNT; i++) {
		if (p->form == CLI_JSON)
			print_entry(p, "errors", error_names[i].name, "", "more", NULL);
		if (len < sizeof(bare))
			len += (size_t)snprintf(bare + len, sizeof(bare) - len, "%s%s",
						i ? ", " : "", error_names[i].name);
	}
	if (p->form == CLI_TEXT)
		print_wrapped("", bare);
	if (p->form == CLI_ROFF)
		puts(bare);
}

static void print_commands(struct reference_page *p)
{
	for (size_t i = 0; i < cli_command_cnt; i++) {
		const struct cli_command *c = &cli_commands[i];

		if (p->form != CLI_ROFF) {
			print_entry(p, "commands", c->name, c->summary, "arguments",
				    c->args[0] ? c->args : NULL);
			continue;
		}
		fputs(".TP\n.B ", stdout);
		print_roff(c->name);
		putchar(' ');
		print_roff(c->args);
		putchar('\n');
		print_roff(c->summary);
		puts(".");
		if (!c->details)
			continue;
		puts(".nf");
		print_roff(c->details);
		puts(".fi");
	}
}

static const struct {
	const char *name;
	void (*print)(struct reference_page *p);
} topics[] = {
	{"config", print_keys},       {"metrics", print_metrics},   {"drops", print_drops},
	{"outcomes", print_outcomes}, {"commands", print_commands},
};

bool cli_print_reference(const char *topic, enum cli_form form)
{
	struct reference_page p = {.form = form, .list = form == CLI_JSON ? json_array() : NULL};
	size_t i = 0;

	while (i < SL_ARRAY_LEN(topics) && strcmp(topics[i].name, topic) != 0)
		i++;
	if (i < SL_ARRAY_LEN(topics))
		topics[i].print(&p);
	if (p.list && i < SL_ARRAY_LEN(topics)) {
		json_dumpf(p.list, stdout, JSON_INDENT(2));
		putchar('\n');
	}
	json_decref(p.list);
	return i < SL_ARRAY_LEN(topics);
}
