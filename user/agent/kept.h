/* SPDX-License-Identifier: Apache-2.0 */
/* An agent of the gateway's own: a process that the keeper has forked (keeper.h). */
#ifndef SL_AGENT_KEPT_H
#define SL_AGENT_KEPT_H

#include <stdint.h>
#include <sys/types.h>

#include "config/config.h"

struct agent_kept_options {
	const struct sl_config *cfg;
	const char *folder; /* where it listens */
	uint32_t number;
	int fd; /* lists of servers come here (list.h); its end tells the agent to finish and end */
	pid_t keeper;
};

/* Serves the servers of the last list, behind walls of its own. Ends when the keeper does. */
_Noreturn void agent_kept(const struct agent_kept_options *o);

#endif
