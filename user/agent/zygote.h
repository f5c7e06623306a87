/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The zygote process forks the gateway's own agents and restarts them when they end. The sandboxed
 * gateway cannot fork. A guard process restarts the zygote.
 *
 *    gateway --forks--> guard --forks, and again--> zygote --the same--> agent 0 .. count - 1
 *       |                                             ^
 *       +------------ lists of servers ---------------+
 *
 * All run as the gateway's account without capabilities. Each ends with its parent. A restarted
 * zygote has the last list. If the guard dies, the gateway ends as well, because its memory has
 * keys; the supervisor restarts all.
 */
#ifndef SL_AGENT_ZYGOTE_H
#define SL_AGENT_ZYGOTE_H

#include <stdbool.h>

#include "base/err.h"
#include "config/config.h"

struct sl_zygote;

/*
 * Forks the guard, which keeps root until sl_zygote_start(). The caller must be root,
 * single-threaded, and must not have read certificates, keys or tokens yet. The caller keeps
 * `folder`. Returns NULL and one line in err on failure.
 */
struct sl_zygote *sl_zygote_fork(const struct sl_config *cfg, const char *folder,
				 struct sl_err *err);
/*
 * Lets agents start. The caller must be root, outside the sandbox. Returns 0, or -1 and one line in
 * err.
 */
int sl_zygote_start(struct sl_zygote *k, const struct sl_config *cfg, struct sl_err *err);
/* Sends the servers of another configuration. Any thread. Returns false on failure. */
bool sl_zygote_update(struct sl_zygote *k, const struct sl_config *cfg);
/* Returns false if the guard and all agents have died. */
bool sl_zygote_alive(const struct sl_zygote *k);
/* Ends the guard and all agents; waits up to 2 s. */
void sl_zygote_close(struct sl_zygote *k);

#endif
