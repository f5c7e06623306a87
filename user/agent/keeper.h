/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper: starts the gateway's own agents, and again when they end. A process between the two,
 * since the gateway itself may start none once its walls stand; and so may nobody start another
 * keeper but its own parent, which does nothing else.
 *
 *   gateway --forks--> guard --forks, and again--> keeper --the same--> agent 0 .. count - 1
 *      |                                             ^
 *      +------------ lists of servers ---------------+
 *
 * All run as the gateway's account, without rights. The guard ends with the gateway, the keeper with
 * its guard, and agents with the keeper, however that ends. The next keeper knows the last list.
 */
#ifndef SL_AGENT_KEEPER_H
#define SL_AGENT_KEEPER_H

#include "base/err.h"
#include "config/config.h"

struct sl_keeper;
enum { SL_KEEPER_FOLDER_LEN = 64 };

/* As root, with one thread, before the walls. NULL: one line in err. */
struct sl_keeper *sl_keeper_start(const struct sl_config *cfg, struct sl_err *err);
/* Another configuration is to be in force; any thread. False: it could not be told. */
bool sl_keeper_tell(struct sl_keeper *k, const struct sl_config *cfg);
/* They end; whoever still may removes their folder. */
void sl_keeper_close(struct sl_keeper *k);
/*
 * A folder in SL_RUN_DIR that only the account may use. Returns a descriptor with its lock, without
 * which it counts as one of a keeper that has gone; -1: one line in err.
 */
int sl_keeper_folder_make(const char *account, char folder[SL_KEEPER_FOLDER_LEN],
			  struct sl_err *err);
/* Removes folders of keepers that have gone; by root. */
void sl_keeper_sweep(void);

#endif
