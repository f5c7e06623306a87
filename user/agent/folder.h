/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folder of the agents' sockets, SL_RUN_DIR/agents-XXXXXX, for the gateway's account only. The
 * supervisor process makes it as root and holds its lock. A folder without a lock belongs to a dead
 * gateway; the next start removes it.
 */
#ifndef SL_AGENT_FOLDER_H
#define SL_AGENT_FOLDER_H

#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"

struct sl_agent_folder {
	char path[96];
	int lock;
	struct stat run; /* SL_RUN_DIR */
};

/* Makes the folder. Root only. Returns 0, or -1 and one line in err. */
int sl_agent_folder_make(struct sl_agent_folder *f, struct sl_err *err);
/* Restores the folder and SL_RUN_DIR if they were removed; logs that. */
void sl_agent_folder_restore(struct sl_agent_folder *f);
/* Waits up to 2 s for agents that end. */
void sl_agent_folder_remove(struct sl_agent_folder *f);
/* Removes folders of dead gateways. */
void sl_agent_folder_sweep(void);

/* Files that can be replaced under running agents. */
struct agent_file_ids {
	dev_t dev; /* folder; 0: missing */
	ino_t ino;
	uint64_t resolver; /* hash of the resolver's files */
};
struct agent_file_ids agent_file_ids_read(const char *folder);

#endif
