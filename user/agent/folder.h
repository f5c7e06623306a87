/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder in which a gateway's agents listen, SL_RUN_DIR/agents-XXXXXX. The process that was
 * started makes it as root and holds its lock: a folder without a lock is that of a dead gateway,
 * and is removed at the start of the next one. It is the account's only (sl_zygote_start).
 */
#ifndef SL_AGENT_FOLDER_H
#define SL_AGENT_FOLDER_H

#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"

struct sl_agent_folder {
	char path[64];
	int lock;        /* -1: there is no folder */
	struct stat run; /* SL_RUN_DIR as it was */
};

/* As root. 0, or -1 and one line in err. */
int sl_agent_folder_make(struct sl_agent_folder *f, struct sl_err *err);
/* Makes it, and SL_RUN_DIR, again as they were, if they were removed; logs that. */
void sl_agent_folder_restore(struct sl_agent_folder *f);
/* Removes it; waits up to 2 s for agents that still end. */
void sl_agent_folder_remove(struct sl_agent_folder *f);
/* Removes folders of gateways that have gone. */
void sl_agent_folder_sweep(void);

/* Files that agents depend on and that can be replaced while they run. */
struct agent_file_ids {
	dev_t dev; /* of the folder; 0: it is not there */
	ino_t ino;
	uint64_t resolver; /* a hash of what the resolver's files say */
};
struct agent_file_ids agent_file_ids_read(const char *folder);

#endif
