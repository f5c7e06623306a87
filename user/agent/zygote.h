/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The zygote process forks and restarts the agents, because the sandboxed gateway cannot fork.
 *
 *    gateway --forks--> guard --forks, and again--> zygote --the same--> agent 0 .. count - 1
 *       |                                             ^
 *       +------------ lists of servers ---------------+
 *
 * All run as the gateway's account without capabilities. Each ends with its parent. If the guard
 * dies, the gateway ends, and the supervisor restarts all.
 */
#ifndef SL_AGENT_ZYGOTE_H
#define SL_AGENT_ZYGOTE_H

#include <stdbool.h>

#include "base/err.h"
#include "config/config.h"

struct sl_zygote;

/*
 * Forks the guard, which keeps root until sl_zygote_start(). The caller must be root and
 * single-threaded, must not have read certificates, keys or tokens, and keeps `folder`. Returns
 * NULL and err.
 */
struct sl_zygote *sl_zygote_fork(const struct sl_config *cfg, const char *folder,
				 struct sl_err *err);
/* Lets agents start. The caller must be root, outside the sandbox. Returns 0, or -1 and err. */
int sl_zygote_start(struct sl_zygote *k, const struct sl_config *cfg, struct sl_err *err);
/* Sends the servers of a configuration. Any thread. Returns false and errno on failure. */
bool sl_zygote_update(struct sl_zygote *k, const struct sl_config *cfg);
/* Returns false if guard and zygote have died. */
bool sl_zygote_alive(const struct sl_zygote *k);
/* Ends the guard and all agents; waits up to 2 s. NULL is allowed. */
void sl_zygote_close(struct sl_zygote *k);

#endif
