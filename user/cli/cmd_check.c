/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/reference.h"
#include "config/config.h"
#include "config/fix.h"
#include "front/tls/server.h"
#include "config/server.h"
#include "gateway/gateway.h"
#include "gateway/ways.h"

static void add_warning(void *arg, const char *line)
{
	json_array_append_new(arg, json_string(line));
}

static json_t *list_lines(const char *text)
{
	json_t *lines = json_array();

	for (const char *end; *text; text = end + (*end == '\n')) {
		end = strchrnul(text, '\n');
		json_array_append_new(lines, json_stringn(text, (size_t)(end - text)));
	}
	return lines;
}

/* Condition of a service unit: a file with mistakes passes, so that `run` reports them. */
static int check_interface(const char *file)
{
	if (!sl_config_lacks_interface(file))
		return CLI_OK;
	printf("%s names no interface, so the gateway is not started; name one, and start it\n",
	       file);
	return CLI_FAILED;
}

static int print_fixed(const char *file)
{
	struct sl_err err = SL_ERR(600);
	struct sl_strbuf out;
	int rc;

	sl_strbuf_grow(&out, 2 * SL_CFG_FILE_MAX);
	rc = sl_config_fix_file(file, &out, &err);
	if (rc)
		fprintf(stderr, "%s\n", err.text);
	else
		fwrite(out.ptr, 1, out.len, stdout);
	sl_strbuf_fini(&out);
	return rc ? CLI_FAILED : CLI_OK;
}

static void print_warning(const char *line)
{
	const char *text = strstr(line, ": ");
	int place = text ? (int)(text - line) + 2 : 0;

	printf("%.*swarning: %s\n", place, line, line + place);
}

static json_t *list_servers(struct sl_config *c)
{
	json_t *list = json_array();
	char name[160];

	sl_ways_choose(NULL, c);
	for (uint32_t p = 0; p < c->pool_cnt; p++) {
		for (uint32_t i = 0; i < c->pools[p].backend_cnt; i++) {
			const struct sl_cfg_backend *b = &c->pools[p].backends[i];

			if (!sl_server_is(b))
				continue;
			snprintf(name, sizeof(name), "%.64s/%.64s", c->pools[p].name, b->name);
			json_array_append_new(list,
					      json_pack("{s:s, s:s, s:s}", "name", name, "way",
							sl_cfg_way_name(b), "why", b->way_why));
		}
	}
	return list;
}

static void print_servers(const json_t *servers)
{
	json_t *s;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)servers, i, s)
	{
		const char *why = json_string_value(json_object_get(s, "why"));

		if (*why)
			printf("server %s: %s: %s\n", json_string_value(json_object_get(s, "name")),
			       json_string_value(json_object_get(s, "way")), why);
	}
}

static void print_json(bool ok, const char *error, json_t *warnings, json_t *servers)
{
	json_t *j =
		json_pack("{s:b, s:o, s:O, s:O}", "ok", ok, "errors", list_lines(ok ? "" : error),
			  "warnings", warnings, "servers", servers);

	json_dumpf(j, stdout, 0);
	putchar('\n');
	json_decref(j);
}

int cli_check(int argc, char **argv)
{
	json_t *warnings, *servers;
	struct cli_options o;
	struct sl_config *c;
	static char text[SL_CFG_ERR_LEN];
	struct sl_err err = {text, sizeof(text)};
	bool ok;

	argc = cli_take_options(argc, argv, "cjdogx", &o);
	if (argc < 0)
		return CLI_USAGE;
	if (o.defaults)
		return cli_print_reference("config", o.json ? CLI_JSON : CLI_TEXT) ? CLI_OK
										   : CLI_FAILED;
	if (argc > 1 || !o.config)
		return cli_usage(
			"check",
			"found %s; allowed: -c FILE, with --offline, --fix or --has-interface, or "
			"--defaults",
			argc > 1 ? argv[1] : "no configuration");
	if (o.has_interface)
		return check_interface(o.config);
	if (o.fix)
		return print_fixed(o.config);
	c = o.offline ? sl_config_load_offline(o.config, &err) : cli_config_load(o.config, &err);
	ok = c;
	warnings = json_array();
	servers = ok && !o.offline ? list_servers(c) : json_array();
	if (ok && o.offline)
		sl_config_each_former_key(c, add_warning, warnings);
	if (ok && !o.offline) {
		sl_config_each_warning(c, add_warning, warnings);
		sl_tls_each_warning(c, add_warning, warnings);
		sl_gateway_each_link_warning(c, add_warning, warnings);
	}
	if (o.json) {
		print_json(ok, err.text, warnings, servers);
	} else if (ok) {
		json_t *w;
		size_t i;

		json_array_foreach((json_t *)(uintptr_t)warnings, i, w)
			print_warning(json_string_value(w));
		print_servers(servers);
		printf("%s: ok: interfaces %u, workers %u, listeners %u, pools %u, routes %u\n",
		       o.config, c->interface_cnt, c->worker_cnt, c->listener_cnt, c->pool_cnt,
		       c->route_cnt);
	} else {
		fprintf(stderr, "%s\n", err.text);
	}
	json_decref(servers);
	json_decref(warnings);
	cli_config_free(c);
	return ok ? CLI_OK : CLI_FAILED;
}
