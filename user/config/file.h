/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a file of a configuration, if it is one that this host's administrator has written. */
#ifndef SL_CONFIG_FILE_H
#define SL_CONFIG_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

struct conf_file_id {
	dev_t device;
	ino_t inode;
};

/*
 * Returns the text of a regular file of at most `limit` bytes, which the caller frees. Its owner must
 * be root, this process's account or the account that has called sudo, and no other account may be
 * able to write it, unless `any_owner`. Returns NULL, and in why "X; allowed: Y", where X is what was found. Never blocks.
 */
char *conf_file_read(const char *path, size_t limit, bool any_owner, struct conf_file_id *id,
		     struct sl_err *why);

#endif
