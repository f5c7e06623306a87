/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tools/terminal.h"

extern char **environ;

static int wrap_argv(const struct proc_where *where, const char *const *argv, const char **full,
		     char *net, size_t net_len)
{
	int n = 0;

	if (where->netns) {
		snprintf(net, net_len, "--net=/run/netns/%s", where->netns);
		full[n++] = "nsenter";
		full[n++] = net;
	}
	if (where->dies_with_us || where->group)
		full[n++] = "setpriv";
	if (where->dies_with_us) {
		full[n++] = "--pdeathsig";
		full[n++] = "TERM";
	}
	if (where->group) {
		full[n++] = "--regid";
		full[n++] = where->group;
		full[n++] = "--clear-groups";
	}
	for (int i = 0; argv[i]; i++) {
		if (n == PROC_MAX_ARGS - 1)
			return -E2BIG;
		full[n++] = argv[i];
	}
	full[n] = NULL;
	return 0;
}

pid_t proc_spawn(const struct proc_where *where, const char *const *argv, int *out_fd)
{
	const char *full[PROC_MAX_ARGS] = {NULL};
	posix_spawn_file_actions_t acts;
	posix_spawnattr_t attr;
	int fds[2] = {-1, -1}, rc;
	sigset_t none;
	char net[64];
	pid_t pid;

	rc = wrap_argv(where, argv, full, net, sizeof(net));
	if (rc || !full[0])
		return rc ? rc : -EINVAL;
	if (out_fd && pipe2(fds, O_CLOEXEC) != 0)
		return -errno;
	posix_spawn_file_actions_init(&acts);
	posix_spawnattr_init(&attr);
	posix_spawn_file_actions_addopen(&acts, 0, "/dev/null", O_RDONLY, 0);
	if (out_fd)
		posix_spawn_file_actions_adddup2(&acts, fds[1], 1);
	else
		posix_spawn_file_actions_addopen(&acts, 1, where->log ? where->log : "/dev/null",
						 O_WRONLY | O_CREAT | O_APPEND, 0644);
	posix_spawn_file_actions_adddup2(&acts, 1, 2);
	sigemptyset(&none);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setpgroup(&attr, 0);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
	rc = posix_spawnp(&pid, full[0], &acts, &attr, (char *const *)(uintptr_t)full, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&acts);
	if (out_fd) {
		close(fds[1]);
		if (rc)
			close(fds[0]);
		else
			*out_fd = fds[0];
	}
	return rc ? -rc : pid;
}

static int status_of(int status)
{
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int reap_child(pid_t pid, unsigned timeout_ms, int *status)
{
	uint64_t until = sl_now_ns() + timeout_ms * SL_NS_PER_MS;

	for (;;) {
		pid_t got = waitpid(pid, status, WNOHANG);

		if (got == pid)
			return 0;
		if (got < 0 && errno != EINTR)
			return -errno;
		if (sl_now_ns() >= until)
			return -ETIMEDOUT;
		poll(NULL, 0, 2);
	}
}

int proc_stop(pid_t pid, unsigned timeout_ms)
{
	int status;

	if (pid <= 0)
		return -ESRCH;
	kill(pid, SIGTERM);
	if (reap_child(pid, timeout_ms, &status) == 0)
		return status_of(status);
	kill(-pid, SIGKILL);
	kill(pid, SIGKILL);
	return reap_child(pid, 2000, &status) == 0 ? status_of(status) : -ETIMEDOUT;
}

bool proc_alive(pid_t pid)
{
	siginfo_t si = {0};

	return pid > 0 && waitid(P_PID, (id_t)pid, &si, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	       si.si_pid == 0;
}

static int read_output(int fd, char *out, size_t out_len, uint64_t until)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char chunk[4096];
	size_t len = 0;

	for (;;) {
		ssize_t n;

		if (term_stopped)
			return -EINTR;
		if (sl_now_ns() >= until)
			return -ETIMEDOUT;
		if (poll(&p, 1, 50) <= 0)
			continue;
		n = read(fd, chunk, sizeof(chunk));
		if (n <= 0)
			return 0;
		for (ssize_t i = 0; i < n && len + 1 < out_len; i++)
			out[len++] = chunk[i];
		if (out_len)
			out[len] = 0;
	}
}

int proc_run(const struct proc_where *where, const char *const *argv, char *out, size_t out_len,
	     unsigned timeout_ms)
{
	uint64_t until = sl_now_ns() + timeout_ms * SL_NS_PER_MS;
	int fd = -1, rc, status;
	pid_t pid;

	if (out_len)
		out[0] = 0;
	pid = proc_spawn(where, argv, &fd);
	if (pid < 0)
		return pid;
	rc = read_output(fd, out, out_len, until);
	close(fd);
	if (rc) {
		proc_stop(pid, 500);
		return rc;
	}
	rc = reap_child(pid, timeout_ms, &status);
	if (rc) {
		proc_stop(pid, 500);
		return rc;
	}
	return status_of(status);
}
