/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <bpf/libbpf.h>
#include <xdp/libxdp.h>

#include "base/child.h"
#include "xio/xdp/detach_watchdog.h"

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

static int ignore_libxdp_log(enum libxdp_print_level level, const char *fmt, va_list args)
{
	(void)level;
	(void)fmt;
	(void)args;
	return 0;
}

static int ignore_libbpf_log(enum libbpf_print_level level, const char *fmt, va_list args)
{
	(void)level;
	(void)fmt;
	(void)args;
	return 0;
}

static _Noreturn void run_watchdog(int end_fd, int ifindex, uint32_t prog_id)
{
	char none;
	int null_fd = open("/dev/null", O_RDWR);

	/* Open descriptors would outlive the gateway. */
	for (int fd = 0; fd <= 2 && null_fd >= 0; fd++)
		dup2(null_fd, fd);
	dup2(end_fd, 3);
	syscall(SYS_close_range, 4u, ~0u, 0u);
	setsid();
	prctl(PR_SET_NAME, "sluice-watchdog");
	for (int sig = 1; sig < NSIG; sig++)
		signal(sig, SIG_IGN);
	libxdp_set_print(ignore_libxdp_log);
	libbpf_set_print(ignore_libbpf_log);
	while (read(3, &none, 1) < 0 && errno == EINTR)
		;
	_exit(sl_xdp_undispatch(ifindex, prog_id) ? 1 : 0);
}

int sl_detach_watchdog_start(struct sl_detach_watchdog *g, int ifindex, uint32_t prog_id)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) != 0)
		return -errno;
	g->pid = fork();
	if (g->pid == 0)
		run_watchdog(ends[0], ifindex, prog_id);
	close(ends[0]);
	g->hold_fd = ends[1];
	if (g->pid > 0)
		return 0;
	close(ends[1]);
	g->pid = 0;
	return -errno;
}

bool sl_detach_watchdog_end(struct sl_detach_watchdog *g)
{
	int status = -1;

	if (g->pid <= 0)
		return false;
	close(g->hold_fd);
	(void)sl_child_wait(g->pid, &status);
	g->pid = 0;
	return status == 0;
}
