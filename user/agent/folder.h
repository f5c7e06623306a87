/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folder of the agents' sockets, SL_RUN_DIR/agents-XXXXXX, for the gateway's account only. The
 * supervisor holds its lock.
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

/*
 * Makes and locks a folder; root only. Returns 0, or -1 and err. sl_agent_folder_remove() follows.
 */
int sl_agent_folder_make(struct sl_agent_folder *f, struct sl_err *err);
/* Makes a removed folder again, or logs why not. */
void sl_agent_folder_restore(struct sl_agent_folder *f);
/* Removes it, if made; waits up to 2 s for agents that end. */
void sl_agent_folder_remove(struct sl_agent_folder *f);
/* Removes folders of dead gateways; root only. */
void sl_agent_folder_sweep(void);

/* Identifies files that can be replaced under running agents. */
struct agent_file_ids {
	dev_t dev; /* folder; 0: missing */
	ino_t ino;
	uint64_t resolver; /* hash */
};
/* Reads the folder's identity, and hashes the resolver's files. */
struct agent_file_ids agent_file_ids_read(const char *folder);

#endif
