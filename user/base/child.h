/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_BASE_CHILD_H
#define SL_BASE_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

/* Waits for the end, despite signals. Returns false and errno if `pid` is no child. */
bool sl_child_wait(pid_t pid, int *status);

#endif
