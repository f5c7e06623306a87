/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control thread: signals, the admin endpoint, drain, reload. It never touches the data path
 * but through gateway.h.
 *
 *   sl_control_block_signals -> sl_control_open -> (gateway starts its threads) -> sl_control_run
 *
 *   SIGTERM, SIGINT, POST /drain   not ready, no new connections, what runs is finished, end;
 *                                  a second signal, or limits.drain_timeout, ends at once
 *   SIGUSR1                        opens the access log's file again
 *   SIGHUP, POST /reload           reloads what can be, names what needs a restart; requests under
 *                                  way finish under what they began with
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
	const char *config_file;     /* read again on SIGHUP; NULL: cannot be */
	void (*on_ready)(void *arg); /* once */
	/* Another configuration comes into force. */
	void (*on_config)(void *arg, const struct sl_config *next);
	/* Once a second. False: part of the gateway has died, and the loop ends at once. NULL: none. */
	bool (*is_whole)(void *arg);
	void *arg;
};

/* Before any thread is started, so that all of them leave signals to the control thread. */
void sl_control_block_signals(void);

/* Opens the admin endpoint. Returns NULL and one line in err. */
struct sl_control *sl_control_open(const struct sl_control_options *opt, struct sl_err *err);
/* Until everything is drained. Returns how many requests were cut off: 0 if none. */
uint32_t sl_control_run(struct sl_control *c);
void sl_control_close(struct sl_control *c);
/* The path of the admin endpoint's Unix socket; "" when it has none. */
const char *sl_control_socket(const struct sl_control *c);

/* What the admin endpoint asks of the loop. */
void sl_control_drain(struct sl_control *c);
/*
 * Reads the file again and checks it. 0: it will be in force in a moment, which the log tells; diff
 * (unless NULL) names settings, {"in_force": [], "needs_restart": [], "number": N}, for the caller to
 * decref; N is that of sl_control_reload_json().
 * -1 and lines in err, one for each mistake, which the log has too: nothing changes.
 */
int sl_control_reload(struct sl_control *c, json_t **diff, struct sl_err *err);
/*
 * {"pending": BOOL, "asked": N, "in_force": N, "refused": TEXT}: the last reload that was taken, and
 * the last that all workers have. They differ, and TEXT says why, if nothing is pending and the
 * gateway has refused the last one afterwards.
 */
json_t *sl_control_reload_json(const struct sl_control *c);
bool sl_control_ready(struct sl_control *c, struct sl_err *why);

#endif
