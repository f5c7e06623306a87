/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by subcommands. Exit status: 0 success, 1 failure or bad state, 2 wrong usage. */
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
	const char *summary;
	const char *details; /* of --help */
	int (*run)(int argc, char **argv);
};
extern const struct cli_command cli_commands[];
extern const size_t cli_command_cnt;

/* Run the subcommands in cli_commands. argv[0] is the name; return the exit status. */
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
 * Returns -1 after a line on stderr. `allowed`: letters of this command's options, in common.c.
 */
int cli_take_options(int argc, char **argv, const char *allowed, struct cli_options *o);
/* The same without arguments. Returns false after a line on stderr. */
bool cli_take_only_options(int argc, char **argv, const char *allowed, struct cli_options *o);

/* Prints "sluice COMMAND: text" on stderr. Returns CLI_FAILED. */
int cli_error(const char *command, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Prints the same, and names --help. Returns CLI_USAGE. */
int cli_usage(const char *command, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

struct cli_gateway {
	const char *command;
	const char *file;
	const char *text; /* configuration instead of a file */
	bool no_supervise;
};
/* Runs a gateway until it ends. Returns its exit status. */
int cli_run_gateway(const struct cli_gateway *how);

/*
 * Loads a configuration, checks it against this system, and indexes its descriptor sets. Returns
 * NULL with a line in err for each mistake (SL_CFG_ERR_LEN). cli_config_free() frees it.
 */
struct sl_config *cli_config_load(const char *file, struct sl_err *err);
/* Does so with a loaded one, reads keys and quotas. Returns false with lines in err. */
bool cli_config_complete(struct sl_config *c, struct sl_err *err);
/* Frees c, which may be NULL. */
void cli_config_free(struct sl_config *c);

/* Unix socket, and TCP for requests that only read. */
struct cli_target {
	char socket[108]; /* "": unknown */
	char address[64];
	uint16_t port;   /* 0: no TCP */
	char token[300]; /* for TCP; "": none */
	bool by_default; /* socket named after the interface */
};
/* Finds the endpoint: --admin, -c, or a running gateway. Returns 0, or -1 and err. */
int cli_find_admin(const struct cli_options *o, struct cli_target *t, struct sl_err *err);

/* Sends a request. Returns the HTTP status and *body, for free(), or -1 and err. */
int cli_admin_ask(const struct cli_target *t, const char *method, const char *path, char **body,
		  struct sl_err *err);
/* Calls take for each line of the answer until it returns false, or a signal. Returns 0 or -1. */
int cli_admin_stream(const struct cli_target *t, const char *path,
		     bool (*take)(void *arg, const char *line), void *arg, struct sl_err *err);
/* Appends the text, escaped for a query. */
void cli_add_query(struct sl_strbuf *b, const char *text, size_t len);
/* Returns GET /stats, a new reference, or NULL and err. */
json_t *cli_admin_stats(const struct cli_target *t, struct sl_err *err);

/* Return a member of o; 0 or "" without it. */
double cli_number(const json_t *o, const char *key);
const char *cli_text(const json_t *o, const char *key);
/* Returns the sum of a member (path "tcp.conns") over the workers. */
double cli_sum_workers(const json_t *stats, const char *path);

#endif
