/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Child processes for the demo: started with posix_spawn, no shell, each in a process group of its
 * own, so that ^C reaches the demo alone, which then ends them in order.
 */
#ifndef SL_TOOLS_DEMO_PROC_H
#define SL_TOOLS_DEMO_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { PROC_MAX_ARGS = 48 };

/* In which network namespace, and what becomes of its output. */
struct proc_where {
	const char *netns; /* name as `ip netns` knows it; NULL: here */
	const char *log;   /* file for stdout and stderr; NULL: the caller captures or discards */
	const char *group; /* that it is in; NULL: ours */
	bool dies_with_us; /* SIGTERM when the demo dies in any way */
};

/*
 * Starts argv (NULL-terminated) and returns its pid, or -errno. out_fd: reads its stdout, or NULL.
 */
pid_t proc_spawn(const struct proc_where *where, const char *const *argv, int *out_fd);
/*
 * Runs to the end, at most timeout_ms; output goes to out (cut at out_len, always NUL-terminated).
 * Returns the exit status, 128 + signal, or -errno (-ETIMEDOUT, -EINTR: killed).
 */
int proc_run(const struct proc_where *where, const char *const *argv, char *out, size_t out_len,
	     unsigned timeout_ms);
/* SIGTERM, then SIGKILL after that time. Returns the status as proc_run does. */
int proc_stop(pid_t pid, unsigned timeout_ms);
/* True while it runs. */
bool proc_alive(pid_t pid);

#endif
