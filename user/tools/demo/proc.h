/* SPDX-License-Identifier: Apache-2.0 */
/* Child processes, each in its own process group: ^C reaches only the demo. */
#ifndef SL_TOOLS_DEMO_PROC_H
#define SL_TOOLS_DEMO_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { PROC_MAX_ARGS = 48 };

struct proc_where {
	const char *netns; /* NULL: ours */
	const char *log;   /* NULL: captured or discarded */
	const char *group; /* NULL: ours */
	bool dies_with_us; /* SIGTERM when the demo dies */
};

/*
 * Starts a command; `argv` ends with NULL. Returns the pid, for proc_stop(), or -errno. *out_fd, if
 * not NULL, reads its stdout and stderr, and is the caller's.
 */
pid_t proc_spawn(const struct proc_where *where, const char *const *argv, int *out_fd);
/*
 * Runs a command for at most timeout_ms. `out` is truncated and NUL-terminated. Returns the exit
 * status, 128 + signal, or -errno (-ETIMEDOUT, -EINTR: killed).
 */
int proc_run(const struct proc_where *where, const char *const *argv, char *out, size_t out_len,
	     unsigned timeout_ms);
/* Sends SIGTERM, and SIGKILL after the time-out. Returns the status like proc_run(). */
int proc_stop(pid_t pid, unsigned timeout_ms);
/* Returns true while it runs. */
bool proc_alive(pid_t pid);

#endif
