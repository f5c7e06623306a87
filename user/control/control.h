/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control thread: signals, the admin endpoint, drain, reload.
 *
 *   sl_control_block_signals -> sl_control_open -> (gateway starts its threads) -> sl_control_run
 *
 *   SIGTERM, SIGINT, POST /drain   refuses connections, finishes exchanges, ends; a second signal or
 *                                  limits.drain_timeout ends at once
 *   SIGUSR1                        reopens the access log
 *   SIGHUP, POST /reload           reloads the configuration; running exchanges keep the old one
 */
#ifndef SL_CONTROL_CONTROL_H
#define SL_CONTROL_CONTROL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "config/config.h"
#include "gateway/gateway.h"

struct sl_control;

struct sl_control_options {
	struct sl_gateway *gateway;
	const struct sl_config *config;
	const char *config_file; /* read again on SIGHUP; NULL: no reload */
	void (*on_ready)(void *arg);
	void (*on_config)(void *arg, const struct sl_config *next);
	/* Called once a second. False ends the loop at once: a process has died. May be NULL. */
	bool (*is_whole)(void *arg);
	void *arg;
};

/* Must be called before threads start, which inherit the mask. */
void sl_control_block_signals(void);

/* Opens signals, access log and admin endpoint. Returns NULL and one line in err on failure. */
struct sl_control *sl_control_open(const struct sl_control_options *opt, struct sl_err *err);
/* Runs until the gateway is drained. Returns the number of aborted exchanges. */
uint32_t sl_control_run(struct sl_control *c);
/* Returns true if sl_control_run() ended because a restart can mend an interface. */
bool sl_control_wants_restart(const struct sl_control *c);
/* The gateway must still exist. */
void sl_control_close(struct sl_control *c);
/* Returns the path of the Unix socket, "" without one. */
const char *sl_control_socket(const struct sl_control *c);

/* The functions below are called by the admin endpoint, in the same thread. */
void sl_control_drain(struct sl_control *c);
/*
 * Reads the configuration and begins a reload. Returns 0 if it is valid. diff, unless NULL, gets
 * the changed keys, for the caller to decref: {"in_force": [], "needs_restart": [], "number": N}.
 * Returns -1 and a line in err and in the log for each mistake; nothing has changed then.
 */
int sl_control_reload(struct sl_control *c, json_t **diff, struct sl_err *err);
/*
 * Returns {"pending": BOOL, "asked": N, "in_force": N, "refused": TEXT}: the numbers of the last
 * valid reload and of the last one in force in all workers. TEXT: why the gateway has refused the
 * last one.
 */
json_t *sl_control_reload_json(const struct sl_control *c);
/* Returns true if the gateway is ready, else false and the reason in why. */
bool sl_control_ready(struct sl_control *c, struct sl_err *why);

#endif
