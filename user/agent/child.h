/* SPDX-License-Identifier: Apache-2.0 */
/* An agent process that the zygote has forked (zygote.h). */
#ifndef SL_AGENT_CHILD_H
#define SL_AGENT_CHILD_H

#include <stdint.h>
#include <sys/types.h>

#include "config/config.h"

struct agent_child_options {
	const struct sl_config *cfg;
	const char *folder;
	uint32_t number;
	int fd; /* receives lists (list.h); its end stops the agent */
	pid_t zygote;
};

/* Serves the last list in a sandbox, in a forked process. Ends with the zygote. */
_Noreturn void agent_child_run(const struct agent_child_options *o);

#endif
