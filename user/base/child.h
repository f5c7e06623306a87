/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a process that this one has forked. */
#ifndef SL_BASE_CHILD_H
#define SL_BASE_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

/* Waits for it, whatever signals are handled meanwhile. False, and errno says why: it is no child. */
bool sl_child_wait(pid_t pid, int *status);

#endif
