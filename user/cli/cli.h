/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code that subcommands share: table, options, and client of the admin endpoint.
 *
 * Exit status: 0 success, 1 failure or bad state (one line on stderr), 2 wrong usage.
 */
#ifndef SL_CLI_CLI_H
#define SL_CLI_CLI_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/strbuf.h"
#include "tools/terminal.h"

#define SL_VERSION "0.1.0"

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

struct sl_config;

struct cli_command {
	const char *name;
	const char *args;
	const char *summary; /* one line */
	const char *details; /* text of --help */
	int (*run)(int argc, char **argv);
};
extern const struct cli_command cli_commands[];
extern const size_t cli_command_cnt;

/* Run one subcommand; return the exit status. */
int cli_run(int argc, char **argv);
int cli_check(int argc, char **argv);
int cli_demo(int argc, char **argv);
int cli_status(int argc, char **argv);
int cli_top(int argc, char **argv);
int cli_set(int argc, char **argv);
int cli_drain(int argc, char **argv);
int cli_reload(int argc, char **argv);
int cli_doctor(int argc, char **argv);
int cli_trace(int argc, char **argv);
int cli_events(int argc, char **argv);
int cli_load(int argc, char **argv);
int cli_agent(int argc, char **argv);
int cli_ingress(int argc, char **argv);
int cli_version(int argc, char **argv);
int cli_help(int argc, char **argv);

struct cli_options {
	const char *config;
	const char *admin; /* PATH or ADDRESS:PORT */
	const char *interface;
	const char *interval;
	const char *count;
	const char *pool, *route, *backend, *status, *slow; /* filters of events */
	bool json, roff, keep, maps, defaults, wait, no_supervise, offline, has_interface, fix;
};

/*
 * Moves options from argv to o, and returns the new argc: the command's name and its arguments.
 * Returns -1 after a line on stderr. `allowed` has a letter for each option of this command:
 *   c config     a admin   j json     k keep         m maps       d defaults   f interface
 *   i interval   n count   o offline  r roff         w wait       u no-supervise
 *   g has-interface         x fix
 *   p pool      t route     e backend   s status    l slow
 */
int cli_take_options(int argc, char **argv, const char *allowed, struct cli_options *o);
/* The same without arguments. Returns false after a line on stderr. */
bool cli_take_only_options(int argc, char **argv, const char *allowed, struct cli_options *o);

/* Prints "sluice COMMAND: text" on stderr. Returns CLI_FAILED. */
int cli_error(const char *command, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Returns CLI_USAGE; names --help. */
int cli_usage(const char *command, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

struct cli_gateway {
	const char *command; /* for messages */
	const char *file;    /* configuration */
	const char *text;    /* the configuration itself instead of a file */
	bool no_supervise;
};
/* Runs a gateway until it ends. Returns the exit status. */
int cli_run_gateway(const struct cli_gateway *how);

/*
 * Loads a configuration, checks it against this system, and indexes its descriptor sets. Returns
 * NULL with a line in err for each mistake (SL_CFG_ERR_LEN).
 */
struct sl_config *cli_config_load(const char *file, struct sl_err *err);
/* Reads certificates and keys. Returns false with lines in err. */
bool cli_config_complete(struct sl_config *c, struct sl_err *err);
void cli_config_free(struct sl_config *c);

/* Admin endpoint of a gateway: Unix socket, and TCP for requests that only read. */
struct cli_target {
	char socket[108]; /* "": unknown */
	char address[64];
	uint16_t port;   /* 0: no TCP */
	char token[300]; /* for TCP; "": none */
	bool by_default; /* socket named after the interface */
};
/* Finds it by --admin, -c, or a running gateway. Returns 0, or -1 with a line in err. */
int cli_find_admin(const struct cli_options *o, struct cli_target *t, struct sl_err *err);

/*
 * Sends one request. Returns the HTTP status and the body (the caller frees it), or -1 and a line
 * in err.
 */
int cli_admin_ask(const struct cli_target *t, const char *method, const char *path, char **body,
		  struct sl_err *err);
/*
 * Calls take for each line of the answer until it returns false, or a signal. Returns 0, or -1 and
 * a line in err.
 */
int cli_admin_stream(const struct cli_target *t, const char *path,
		     bool (*take)(void *arg, const char *line), void *arg, struct sl_err *err);
/* Appends a part of a query, escaped. */
void cli_add_query(struct sl_strbuf *b, const char *text, size_t len);
/* Returns GET /stats, or NULL and a line in err. */
json_t *cli_admin_stats(const struct cli_target *t, struct sl_err *err);

/* Returns 0 or "" without such a member. */
double cli_number(const json_t *o, const char *key);
const char *cli_text(const json_t *o, const char *key);
/* Returns the sum of a member (path "tcp.conns") over the workers. */
double cli_sum_workers(const json_t *stats, const char *path);

#endif
