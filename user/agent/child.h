/* SPDX-License-Identifier: Apache-2.0 */
/* An agent of the gateway's own: a process that the zygote has forked (zygote.h). */
#ifndef SL_AGENT_CHILD_H
#define SL_AGENT_CHILD_H

#include <stdint.h>
#include <sys/types.h>

#include "config/config.h"

struct agent_child_options {
	const struct sl_config *cfg;
	const char *folder; /* where it listens */
	uint32_t number;
	int fd; /* lists of servers come here (list.h); its end tells the agent to finish and end */
	pid_t zygote;
};

/* Serves the servers of the last list, in a sandbox of its own. Ends when the zygote does. */
_Noreturn void agent_child_run(const struct agent_child_options *o);

#endif
