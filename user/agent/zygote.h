/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The zygote: starts the gateway's own agents, and again when they end. A process between the two,
 * since the gateway itself may start none once its walls stand; and so may nobody start another
 * zygote but its own parent, which does nothing else.
 *
 *   gateway --forks--> guard --forks, and again--> zygote --the same--> agent 0 .. count - 1
 *      |                                             ^
 *      +------------ lists of servers ---------------+
 *
 * All run as the gateway's account, without rights. The guard ends with the gateway, the zygote with
 * its guard, and agents with the zygote, however that ends. The next zygote knows the last list.
 * A guard that dies cannot be started again by the gateway, which has keys in its memory: the gateway
 * ends as well, and the supervisor starts all again.
 */
#ifndef SL_AGENT_ZYGOTE_H
#define SL_AGENT_ZYGOTE_H

#include <stdbool.h>

#include "base/err.h"
#include "config/config.h"

struct sl_zygote;

/*
 * Forks the guard, which waits, with all rights, until sl_zygote_start(). To be called as root, with
 * one thread, and before certificates, keys and tokens are read, so that neither the guard nor agents
 * have them in their memory. `folder` stays the caller's. NULL: one line in err.
 */
struct sl_zygote *sl_zygote_fork(const struct sl_config *cfg, const char *folder,
				 struct sl_err *err);
/* As root, before the walls: agents may start. 0, or -1 and one line in err. */
int sl_zygote_start(struct sl_zygote *k, const struct sl_config *cfg, struct sl_err *err);
/* Another configuration is to be in force; any thread. False: it could not be told. */
bool sl_zygote_update(struct sl_zygote *k, const struct sl_config *cfg);
/* Returns false if the guard has died, and with it all agents. */
bool sl_zygote_alive(const struct sl_zygote *k);
/* Ends the guard and all agents; waits up to 2 s for it. */
void sl_zygote_close(struct sl_zygote *k);

#endif
