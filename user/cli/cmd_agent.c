/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/signalfd.h>

#include "agent/agent.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/num.h"
#include "base/output.h"
#include "base/units.h"
#include "cli/cli.h"
#include "config/config.h"
#include "config/server.h"
#include "rpc/rpc.h"
#include "sandbox/sandbox.h"

enum { SERVERS_MAX = 16, CONCURRENCY_MAX = 65535, HEALTH_MAX = 120 };
#define HEALTH_NS     (2 * SL_NS_PER_SEC)
#define HEALTH_MIN_NS (100 * SL_NS_PER_MS)

/* clang-format off */
static const struct option long_options[] = {
	{"listen", required_argument, NULL, 'l'},
	{"to", required_argument, NULL, 't'},
	{"host", required_argument, NULL, 'H'},
	{"key-file", required_argument, NULL, 'k'},
	{"concurrency", required_argument, NULL, 'n'},
	{"health", required_argument, NULL, 'h'},
	{"health-interval", required_argument, NULL, 'i'},
	{"log-level", required_argument, NULL, 'L'},
	{"user", required_argument, NULL, 'u'},
	{"ca-file", required_argument, NULL, 'a'},
	{"server-name", required_argument, NULL, 's'},
	{"certificate", required_argument, NULL, 'c'},
	{"key", required_argument, NULL, 'p'},
	{"no-verify", no_argument, NULL, 'V'},
	{NULL, 0, NULL, 0},
};
/* clang-format on */

struct agent_command {
	struct sl_agent_options servers[SERVERS_MAX];
	unsigned server_cnt, listen_cnt;
	const char *key_file;
	const char *user;
	uint32_t concurrency;
	const char *health;
	uint64_t health_ns;
	const char *ca_file, *certificate, *key;
	bool no_verify;
};

static struct sl_agent_health health_of(const struct agent_command *o, const char *url)
{
	bool h2 = strncmp(url, "h2", 2) == 0;

	if (!o->health)
		return (struct sl_agent_health){0};
	return (struct sl_agent_health){
		.interval_ns = o->health_ns,
		.timeout_ns = o->health_ns < SL_NS_PER_SEC ? o->health_ns : SL_NS_PER_SEC,
		.expect = 200,
		.failures = 2,
		.path = h2 ? NULL : o->health,
		.service = h2 ? o->health : NULL,
	};
}

static bool take_host(struct agent_command *o, const char *host)
{
	struct sl_agent_options *last = o->server_cnt ? &o->servers[o->server_cnt - 1] : NULL;

	if (!last || last->host)
		return false;
	last->host = host;
	return true;
}

static bool take_server_name(struct agent_command *o, const char *name)
{
	struct sl_agent_options *last = o->server_cnt ? &o->servers[o->server_cnt - 1] : NULL;

	if (!last || last->tls.server_name || !sl_server_name_ok(name))
		return false;
	last->tls.server_name = name;
	return true;
}

static int open_file(const char *path, int *rc)
{
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;

	if (path && fd < 0)
		*rc = cli_error("agent", "%s: %s", path, strerror(errno));
	return fd;
}

static int open_files(const struct agent_command *o, struct sl_agent_tls *tls)
{
	int rc = 0;

	if (!o->certificate != !o->key)
		return cli_error("agent", "found one of --certificate and --key; allowed: both "
					  "or none");
	tls->verify = !o->no_verify;
	tls->ca = open_file(tls->verify ? o->ca_file : NULL, &rc);
	tls->certificate = open_file(o->certificate, &rc);
	tls->key = open_file(o->key, &rc);
	return rc;
}

static void close_files(const struct sl_agent_tls *tls)
{
	const int all[] = {tls->ca, tls->certificate, tls->key};

	for (size_t i = 0; i < SL_ARRAY_LEN(all); i++) {
		if (all[i] >= 0)
			close(all[i]);
	}
}

static int add_server(struct agent *a, const struct agent_command *o, struct sl_agent_options *s)
{
	struct sl_err err = SL_ERR(300);
	struct sl_server_url url;
	int rc = 0;

	s->tls.ca = s->tls.certificate = s->tls.key = -1;
	if (sl_server_url_parse(s->to, &url) && url.tls)
		rc = open_files(o, &s->tls);
	if (!rc && sl_agent_add(a, s, &err))
		rc = cli_error("agent", "%s", err.text);
	close_files(&s->tls);
	return rc;
}

static bool take_health(struct agent_command *o, const char *text)
{
	for (const char *c = text; *c; c++) {
		if (*c <= ' ' || *c > '~')
			return false;
	}
	o->health = text;
	return strlen(text) <= HEALTH_MAX;
}

static int parse_args(int argc, char **argv, struct agent_command *o)
{
	enum sl_log_level level;
	uint64_t n = 0;
	int c;

	optind = 0;
	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		bool ok = c != '?';

		if (c == 'l' && o->listen_cnt < SERVERS_MAX)
			o->servers[o->listen_cnt++].listen = optarg;
		else if (c == 't' && o->server_cnt < SERVERS_MAX)
			o->servers[o->server_cnt++].to = optarg;
		else if (c == 'H')
			ok = take_host(o, optarg);
		else if (c == 'k')
			o->key_file = optarg;
		else if (c == 'h')
			ok = take_health(o, optarg);
		else if (c == 'i')
			ok = sl_parse_duration(sl_span_cstr(optarg), &o->health_ns) == 0 &&
			     o->health_ns >= HEALTH_MIN_NS;
		else if (c == 'u')
			o->user = optarg;
		else if (c == 'a')
			o->ca_file = optarg;
		else if (c == 's')
			ok = take_server_name(o, optarg);
		else if (c == 'c')
			o->certificate = optarg;
		else if (c == 'p')
			o->key = optarg;
		else if (c == 'V')
			o->no_verify = true;
		else if (c == 'n')
			ok = strcmp(optarg, "auto") == 0 ||
			     (!sl_parse_u64_max(sl_span_cstr(optarg), CONCURRENCY_MAX, &n) && n);
		else if (c == 'L')
			ok = sl_log_level_parse(optarg, &level) == 0;
		else
			ok = false;
		if (ok && c == 'n')
			o->concurrency = (uint32_t)n;
		if (ok && c == 'L')
			sl_log_level_set(level);
		if (!ok && c != '?')
			return cli_usage("agent", "found %s; see --help", optarg);
		if (!ok)
			return CLI_USAGE;
	}
	if (optind < argc || !o->server_cnt || o->server_cnt != o->listen_cnt)
		return cli_usage("agent",
				 "found %s; allowed: --listen ENDPOINTS --to URL, once or as "
				 "often as there are servers",
				 optind < argc ? argv[optind] : "not one --listen for each --to");
	return 0;
}

struct agent_signals {
	struct agent *agent;
	int fd;
};

static void on_signal(void *arg)
{
	struct agent_signals *s = arg;
	struct signalfd_siginfo si;

	while (read(s->fd, &si, sizeof(si)) == (ssize_t)sizeof(si))
		sl_agent_stop(s->agent);
}

static int serve_agent(struct agent *a, const struct agent_command *o)
{
	struct agent_signals signals = {.agent = a};
	struct sl_err err = SL_ERR(300);
	sigset_t set;
	int rc;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signals.fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (signals.fd < 0 || sl_agent_watch(a, signals.fd, on_signal, &signals))
		return cli_error("agent", "signals: %s", strerror(errno));
	for (unsigned i = 0; i < o->server_cnt; i++) {
		struct sl_agent_options server = o->servers[i];

		server.key_file = o->key_file;
		server.concurrency = o->concurrency;
		server.health = health_of(o, server.to);
		if (server.health.path && server.health.path[0] != '/')
			return cli_error("agent",
					 "found --health %s; allowed: a path that begins with /, "
					 "or for h2c and h2 the name of a service",
					 server.health.path);
		rc = add_server(a, o, &server);
		if (rc)
			return rc;
	}
	/* uverbs refuses a changed account (sandbox/account.c). */
	for (unsigned i = 0; o->user && i < o->listen_cnt; i++) {
		if (strstr(o->servers[i].listen, "rdma://") ||
		    strstr(o->servers[i].listen, "rdma+ud://"))
			return cli_error("agent",
					 "found --user with %s; expected: no --user, started under "
					 "the account itself",
					 o->servers[i].listen);
	}
	if (o->user) {
		sl_rpc_preload();
		setenv("RES_OPTIONS", "no-reload", 0);
		if (sl_sandbox_enter(
			    &(struct sl_sandbox_options){.user = o->user,
							 .places = sl_sandbox_resolver,
							 .place_cnt = SL_SANDBOX_RESOLVER_CNT,
							 .writes_files = true},
			    &err))
			return cli_error("agent", "%s", err.text);
		(void)sl_agent_start(a);
		sl_sandbox_thread(SL_THREAD_AGENT);
	}
	sl_output_line(STDOUT_FILENO, "agent: %u server%s", o->server_cnt,
		       o->server_cnt == 1 ? "" : "s");
	sl_agent_run(a);
	return CLI_OK;
}

int cli_agent(int argc, char **argv)
{
	struct agent_command o = {.health_ns = HEALTH_NS, .ca_file = SL_CFG_CA_FILE};
	struct agent *a;
	struct sl_err err = SL_ERR(300);
	int rc = parse_args(argc, argv, &o);

	if (rc)
		return rc;
	sl_log_open();
	a = sl_agent_open(&err);
	if (!a)
		return cli_error("agent", "%s", err.text);
	rc = serve_agent(a, &o);
	sl_agent_close(a);
	return rc;
}
