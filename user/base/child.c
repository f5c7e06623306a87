/* SPDX-License-Identifier: Apache-2.0 */
#include "base/child.h"

#include <errno.h>
#include <sys/wait.h>

bool sl_child_wait(pid_t pid, int *status)
{
	pid_t ended;

	do
		ended = waitpid(pid, status, 0);
	while (ended < 0 && errno == EINTR);
	return ended == pid;
}
