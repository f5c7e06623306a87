/* SPDX-License-Identifier: Apache-2.0 */
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
 * Reads a regular file of at most `limit` bytes; the caller frees the text. NULL: "X; allowed: Y"
 * in why. Unless `any_owner`, the owner must be root, this process's account or the one that called
 * sudo, and no other may have write access. Never blocks.
 */
char *conf_file_read(const char *path, size_t limit, bool any_owner, struct conf_file_id *id,
		     struct sl_err *why);

#endif
