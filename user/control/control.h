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
	const char *config_file; /* NULL: no reload */
	void (*on_ready)(void *arg);
	void (*on_config)(void *arg, const struct sl_config *next);
	/*
	 * Called once a second. Returns false if a process has died, which ends the loop. May be
	 * NULL.
	 */
	bool (*is_whole)(void *arg);
	void *arg;
};

/* Blocks the signals that the control thread reads. Must be called before threads start. */
void sl_control_block_signals(void);

/*
 * Opens signals, access log and admin endpoint, with privileges. Copies the options, not what they
 * point to. Returns NULL and err.
 */
struct sl_control *sl_control_open(const struct sl_control_options *opt, struct sl_err *err);
/* Runs until the gateway is drained. Returns the number of aborted exchanges. */
uint32_t sl_control_run(struct sl_control *c);
/* Returns true if sl_control_run() ended because a restart can mend an interface. */
bool sl_control_wants_restart(const struct sl_control *c);
/* Writes the last records, and frees c. The gateway must still exist. */
void sl_control_close(struct sl_control *c);
/* Returns the admin socket's path or "". */
const char *sl_control_socket(const struct sl_control *c);

/* The admin endpoint calls the functions below, in the control thread. */
/* Begins to drain; sl_control_run() ends then. */
void sl_control_drain(struct sl_control *c);
/*
 * Reads the configuration and begins a reload. Returns 0, with the changed keys in *diff, unless
 * NULL, a new reference: {"in_force": [], "needs_restart": [], "number": N}. Returns -1 without a
 * change, with a line in err and in the log for each mistake.
 */
int sl_control_reload(struct sl_control *c, json_t **diff, struct sl_err *err);
/*
 * Returns {"pending": BOOL, "asked": N, "in_force": N, "refused": TEXT}, a new reference. Numbers:
 * of the last valid reload, and of the last one in force. TEXT: why the last one was refused.
 */
json_t *sl_control_reload_json(const struct sl_control *c);
/* Returns true, or false and why: draining, a fault, or a pool without a backend. */
bool sl_control_ready(struct sl_control *c, struct sl_err *why);

#endif
