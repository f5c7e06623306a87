/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <bpf/libbpf.h>
#include <xdp/libxdp.h>
#include "xio/xdp_guard.h"

int sl_xdp_undispatch(int ifindex, uint32_t prog_id)
{
	struct xdp_multiprog *mp = xdp_multiprog__get_from_ifindex(ifindex);
	struct xdp_program *p = NULL;
	int err = 0;

	if (libxdp_get_error(mp))
		return 0;
	if (!xdp_multiprog__is_legacy(mp)) {
		while ((p = xdp_multiprog__next_prog(p, mp))) {
			if (xdp_program__id(p) != prog_id)
				continue;
			err = xdp_program__detach(p, ifindex, xdp_multiprog__attach_mode(mp), 0);
			break;
		}
	}
	xdp_multiprog__close(mp);
	return err;
}

static int print_nothing(enum libxdp_print_level level, const char *fmt, va_list args)
{
	(void)level;
	(void)fmt;
	(void)args;
	return 0;
}

static int say_nothing(enum libbpf_print_level level, const char *fmt, va_list args)
{
	(void)level;
	(void)fmt;
	(void)args;
	return 0;
}

/* Whatever is open here would stay open after the gateway, links and sockets first of all. */
static void let_go(int keep_fd)
{
	int null_fd = open("/dev/null", O_RDWR);

	for (int fd = 0; fd <= 2 && null_fd >= 0; fd++)
		dup2(null_fd, fd);
	dup2(keep_fd, 3);
	syscall(SYS_close_range, 4u, ~0u, 0u);
	setsid();
	prctl(PR_SET_NAME, "sluice-guard");
	for (int sig = 1; sig < NSIG; sig++)
		signal(sig, SIG_IGN);
}

static void guard(int parent_fd, int ifindex, uint32_t prog_id)
{
	struct pollfd pfd = {.events = POLLIN};

	let_go(parent_fd);
	pfd.fd = 3;
	libxdp_set_print(print_nothing);
	libbpf_set_print(say_nothing);
	while (poll(&pfd, 1, -1) < 0 && errno == EINTR)
		;
	sl_xdp_undispatch(ifindex, prog_id);
	_exit(0);
}

int sl_xdp_guard_start(int ifindex, uint32_t prog_id)
{
	int parent_fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	pid_t pid;

	if (parent_fd < 0)
		return -errno;
	pid = fork();
	if (pid == 0)
		guard(parent_fd, ifindex, prog_id);
	if (pid < 0)
		pid = -errno;
	close(parent_fd);
	return pid;
}

void sl_xdp_guard_stop(int pid)
{
	if (pid <= 0)
		return;
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}
