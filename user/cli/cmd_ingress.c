/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ingress: local sockets for programs whose servers are behind `sluice agent` on other hosts.
 *
 * The options become a configuration, which the gateway runs, without limits per address.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/num.h"
#include "base/output.h"
#include "base/strbuf.h"
#include "cli/cli.h"
#include "config/config.h"
#include "wire/addr.h"

enum { PAIRS_MAX = 16, TEXT_MAX = 1 << 20, WORKERS_MAX = 16 };

/* clang-format off */
static const struct option long_options[] = {
	{"listen", required_argument, NULL, 'l'},
	{"to", required_argument, NULL, 't'},
	{"key-file", required_argument, NULL, 'k'},
	{"user", required_argument, NULL, 'u'},
	{"group", required_argument, NULL, 'g'},
	{"workers", required_argument, NULL, 'w'},
	{"admin", required_argument, NULL, 'a'},
	{"log-level", required_argument, NULL, 'L'},
	{"print", no_argument, NULL, 'p'},
	{NULL, 0, NULL, 0},
};
/* clang-format on */

struct ingress_command {
	const char *listen[PAIRS_MAX], *to[PAIRS_MAX];
	unsigned listen_cnt, to_cnt;
	const char *key_file, *user, *group, *admin, *log_level;
	char key_path[PATH_MAX];
	uint64_t workers;
	bool print;
};

static const char **option_text(struct ingress_command *o, int c)
{
	switch (c) {
	case 'k': return &o->key_file;
	case 'u': return &o->user;
	case 'g': return &o->group;
	case 'a': return &o->admin;
	case 'L': return &o->log_level;
	default: return NULL;
	}
}

static bool take_option(struct ingress_command *o, int c, const char *text)
{
	const char **to = option_text(o, c);

	if (to)
		*to = text;
	else if (c == 'l' && o->listen_cnt < PAIRS_MAX)
		o->listen[o->listen_cnt++] = text;
	else if (c == 't' && o->to_cnt < PAIRS_MAX)
		o->to[o->to_cnt++] = text;
	else if (c == 'w')
		return sl_parse_u64_max(sl_span_cstr(text), WORKERS_MAX, &o->workers) == 0 &&
		       o->workers;
	else if (c == 'p')
		o->print = true;
	else
		return false;
	return true;
}

static int parse_args(int argc, char **argv, struct ingress_command *o)
{
	int c;

	optind = 0;
	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		if (c == '?')
			return CLI_USAGE;
		if (!take_option(o, c, optarg))
			return cli_usage("ingress", "found %s; see --help", optarg);
	}
	if (optind < argc || !o->to_cnt || o->to_cnt != o->listen_cnt)
		return cli_usage("ingress",
				 "found %s; allowed: --listen ADDRESSES --to ENDPOINTS, once or "
				 "for each service",
				 optind < argc ? argv[optind] : "not one --listen for each --to");
	if (o->key_file && !realpath(o->key_file, o->key_path))
		return cli_error("ingress", "found --key-file %s (%s); allowed: a readable file",
				 o->key_file, strerror(errno));
	return CLI_OK;
}

static void add_quoted(struct sl_strbuf *b, const char *text, size_t len)
{
	sl_strbuf_char(b, '\'');
	for (size_t i = 0; i < len; i++) {
		if (text[i] == '\'' || text[i] == '\\')
			sl_strbuf_char(b, '\\');
		sl_strbuf_char(b, text[i]);
	}
	sl_strbuf_char(b, '\'');
}

static void add_key(struct sl_strbuf *b, const char *key, const char *value)
{
	sl_strbuf_printf(b, " %s = ", key);
	add_quoted(b, value, strlen(value));
}

static void add_line(struct sl_strbuf *b, const char *key, const char *value)
{
	sl_strbuf_printf(b, "%s = ", key);
	add_quoted(b, value, strlen(value));
	sl_strbuf_char(b, '\n');
}

static bool add_address(struct sl_strbuf *b, const struct ingress_command *o, const char *at,
			size_t len)
{
	const char *colon = memrchr(at, ':', len);
	char address[SL_ADDR_TEXT + 2];
	size_t host_len = colon ? (size_t)(colon - at) : 0;
	struct sl_addr parsed;
	uint64_t port;

	if (len > 5 && memcmp(at, "unix:", 5) == 0) {
		sl_strbuf_str(b, "socket = ");
		add_quoted(b, at + 5, len - 5);
		if (o->group)
			add_key(b, "group", o->group);
		return at[5] == '/';
	}
	if (!colon || host_len >= sizeof(address) ||
	    sl_parse_u64_max(sl_span_of(colon + 1, len - host_len - 1), UINT16_MAX, &port) || !port)
		return false;
	if (host_len > 2 && at[0] == '[' && colon[-1] == ']') {
		at++;
		host_len -= 2;
	}
	memcpy(address, at, host_len);
	address[host_len] = 0;
	sl_strbuf_str(b, "address = ");
	add_quoted(b, address, host_len);
	sl_strbuf_printf(b, " port = %u", (unsigned)port);
	return strcmp(address, "*") == 0 || sl_addr_parse(&parsed, address);
}

static unsigned add_listeners(struct sl_strbuf *b, const struct ingress_command *o, unsigned pair)
{
	const char *at = o->listen[pair];
	unsigned cnt = 0;

	for (;; at++) {
		size_t len = strcspn(at, ",");

		sl_strbuf_printf(b, "listener l%u_%u { ", pair, cnt++);
		if (!add_address(b, o, at, len)) {
			cli_error("ingress",
				  "found --listen %.*s; allowed: ADDRESS:PORT, [ADDRESS]:PORT, "
				  "*:PORT or unix:/PATH, several with commas between them",
				  (int)len, at);
			return 0;
		}
		sl_strbuf_str(b, " }\n");
		at += len;
		if (!*at)
			return cnt;
	}
}

static void add_pool(struct sl_strbuf *b, const struct ingress_command *o, unsigned pair)
{
	const char *at = o->to[pair];

	sl_strbuf_printf(b, "pool p%u {\n\tbatch { policy = direct }\n", pair);
	for (unsigned i = 0;; i++, at++) {
		size_t len = strcspn(at, ",");

		sl_strbuf_printf(b, "\tbackend s%u { endpoint = ", i);
		add_quoted(b, at, len);
		if (o->key_file)
			add_key(b, "key_file", o->key_path);
		sl_strbuf_str(b, " }\n");
		at += len;
		if (!*at)
			break;
	}
	sl_strbuf_str(b, "}\n");
}

/* The gateway answers calls of health and reflection unless a route names them. */
static void add_routes(struct sl_strbuf *b, unsigned pair, unsigned listener_cnt)
{
	static const char *const prefixes[] = {
		"/",
		"/grpc.health.v1.Health/",
		"/grpc.reflection.v1.ServerReflection/",
		"/grpc.reflection.v1alpha.ServerReflection/",
	};

	for (size_t i = 0; i < SL_ARRAY_LEN(prefixes); i++) {
		sl_strbuf_printf(b, "route \"%s\" {\n\tlistener = {", prefixes[i]);
		for (unsigned k = 0; k < listener_cnt; k++)
			sl_strbuf_printf(b, "%sl%u_%u", k ? ", " : "", pair, k);
		sl_strbuf_printf(b,
				 "}\n\tpool = p%u\n"
				 "\tstream = yes  stream_idle_timeout = 0  upgrade = {websocket}\n"
				 "\tstrip_prefix = no  request_path = raw\n"
				 "\tforward_headers = {\"*\"}  underscores = pass\n}\n",
				 pair);
	}
}

static bool ingress_text(const struct ingress_command *o, struct sl_strbuf *b)
{
	sl_strbuf_str(b, "# written by sluice ingress\n");
	if (o->user)
		add_line(b, "user", o->user);
	if (o->log_level)
		add_line(b, "log_level", o->log_level);
	sl_strbuf_str(b, "admin {");
	if (o->admin)
		add_key(b, "socket", o->admin);
	sl_strbuf_str(b, " port = 0 }\n");
	if (o->workers)
		sl_strbuf_printf(b, "workers { count = %u }\n", (unsigned)o->workers);
	sl_strbuf_str(b, "limits {\n"
			 "\taddress_connections = 1  address_exchanges = 1  address_reading = 1\n"
			 "\taddress_frames = 1  address_requests = 0\n"
			 "}\n");
	for (unsigned i = 0; i < o->to_cnt; i++) {
		unsigned cnt = add_listeners(b, o, i);

		if (!cnt)
			return false;
		add_pool(b, o, i);
		add_routes(b, i, cnt);
	}
	return true;
}

static bool check_text(const char *text)
{
	static char lines[SL_CFG_ERR_LEN];
	struct sl_err err = {lines, sizeof(lines)};
	struct sl_config *c = sl_config_parse(text, "options", &err);

	if (c) {
		sl_config_free(c);
		return true;
	}
	for (char *line = lines, *end; *line; line = end) {
		const char *found = strstr(line, ": ");

		end = line + strcspn(line, "\n");
		cli_error("ingress", "%.*s", (int)(end - (found ? found + 2 : line)),
			  found ? found + 2 : line);
		end += *end == '\n';
	}
	return false;
}

int cli_ingress(int argc, char **argv)
{
	struct ingress_command o = {0};
	struct sl_strbuf text;
	int rc = parse_args(argc, argv, &o);

	if (rc)
		return rc;
	sl_strbuf_grow(&text, TEXT_MAX);
	if (!ingress_text(&o, &text))
		rc = CLI_USAGE;
	else if (text.err)
		rc = cli_error("ingress", "%s", strerror(-text.err));
	else if (!check_text(sl_strbuf_cstr(&text)))
		rc = CLI_USAGE;
	else if (o.print)
		sl_output_text(STDOUT_FILENO, sl_strbuf_cstr(&text));
	else
		rc = cli_run_gateway(
			&(struct cli_gateway){.command = "ingress", .text = sl_strbuf_cstr(&text)});
	sl_strbuf_fini(&text);
	return rc;
}
