/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_SDK_CLIENT_MEMBERS_H
#define SL_SDK_CLIENT_MEMBERS_H

#include <stddef.h>
#include "base/err.h"

enum { SL_MEMBERS_MAX = 4096, SL_MEMBER_LEN = 512 };

struct sl_members {
	char (*list)[SL_MEMBER_LEN]; /* owned */
	unsigned cnt;
};

/* Parses endpoints. Returns 0, or -1 and a line in err; then the list is empty. */
int sl_members_parse(struct sl_members *m, const char *text, struct sl_err *err);
/* Same for a file. */
int sl_members_read(struct sl_members *m, const char *file, struct sl_err *err);
/* Frees the list. */
void sl_members_free(struct sl_members *m);

#endif
