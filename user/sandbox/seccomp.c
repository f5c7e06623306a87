/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each list includes those above it, because a thread keeps its parent's filter.
 *
 * Refusal is EPERM by a SIGSYS handler, which reports each call once. Ending the process would turn
 * each call of a new library version into an outage.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/output.h"
#include "sandbox/internal.h"

enum { CALLS_MAX = 64, FILTER_MAX = 4096, CALL_NUMBERS = 1024 };

/* If `checked`, argument `arg` must satisfy (value & mask) == want. */
struct seccomp_rule {
	int call;
	bool checked;
	unsigned arg;
	scmp_datum_t mask, want;
};

#define ANY(name)                                                                                  \
	{                                                                                          \
		.call = SCMP_SYS(name)                                                             \
	}
#define IF(name, n, m, w)                                                                          \
	{                                                                                          \
		.call = SCMP_SYS(name), .checked = true, .arg = (n), .mask = (m), .want = (w)      \
	}
#define ALL_BITS (~UINT64_C(0))

/* ioctl type of uverbs is 0x1b. */
#define IOCTL_TYPE  UINT64_C(0xff00)
#define UVERBS_TYPE UINT64_C(0x1b00)

#define NEW_NAMESPACES                                                                             \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |             \
	 CLONE_NEWPID | CLONE_NEWNET)

/* Logging: poll, and sendto without an address, a write (base/output.h). */
static const struct seccomp_rule handshake[] = {
	ANY(read),
	ANY(write),
	ANY(poll),
	ANY(ppoll),
	IF(sendto, 4, ALL_BITS, 0),
	ANY(futex),
	ANY(clock_gettime),
	ANY(clock_getres),
	ANY(gettimeofday),
	ANY(sched_yield),
	IF(sched_setscheduler, 0, ALL_BITS, 0), /* its own */
	ANY(getcpu),
	ANY(getpid),
	ANY(gettid),
	ANY(getrandom),
	ANY(brk),
	ANY(munmap),
	ANY(madvise),
	ANY(fstat),
	IF(mmap, 2, PROT_EXEC, 0),
	IF(mprotect, 2, PROT_EXEC, 0),
	ANY(mremap),
	IF(prctl, 0, ALL_BITS, PR_GET_NAME),
	IF(prctl, 0, ALL_BITS, PR_SET_NAME),
	ANY(exit),
	ANY(exit_group),
	ANY(rt_sigreturn),
	ANY(rt_sigprocmask),
	ANY(restart_syscall),
	ANY(set_robust_list),
	ANY(rseq),
};

/* Sockets and rings are open. Workers release lost backends and allocate memory for new ones. */
static const struct seccomp_rule worker[] = {
	ANY(epoll_pwait2),    ANY(epoll_pwait),     ANY(epoll_wait),
	ANY(epoll_ctl),       ANY(sendto),          ANY(recvfrom),
	ANY(sendmsg),         ANY(recvmsg),         ANY(getsockopt),
	ANY(shutdown),        ANY(writev),          ANY(close),
	ANY(clock_nanosleep), ANY(nanosleep),       ANY(getppid),
	ANY(lseek),           ANY(timerfd_settime), IF(ioctl, 1, IOCTL_TYPE, UVERBS_TYPE),
	ANY(accept4),         ANY(getsockname),     IF(setsockopt, 2, ALL_BITS, SO_LINGER),
};

/* tcp.server_ports: the workers' own backends accept the gateway, and have rings. */
static const struct seccomp_rule worker_of_servers[] = {
	ANY(memfd_create), ANY(ftruncate),
	ANY(fcntl),        ANY(geteuid),
	ANY(getegid),      IF(newfstatat, 3, AT_EMPTY_PATH, AT_EMPTY_PATH), /* fstat() */
	ANY(fstatfs),
};

/*
 * Dialers: sockets, and files of librdmacm and libibverbs. They start the thread that closes queue
 * pairs.
 */
static const struct seccomp_rule dialer[] = {
	IF(socket, 0, ALL_BITS, AF_UNIX),
	IF(socket, 0, ALL_BITS, AF_NETLINK),
	IF(socket, 0, ALL_BITS, AF_INET),
	IF(socket, 0, ALL_BITS, AF_INET6),
	ANY(connect),
	ANY(bind), /* netlink; served ports */
	ANY(getpeername),
	ANY(setsockopt),
	ANY(sendmmsg), /* resolver */
	IF(ioctl, 1, ALL_BITS, FIONREAD),
	ANY(openat),
	ANY(newfstatat),
	ANY(statx),
	ANY(access),
	ANY(faccessat),
	ANY(faccessat2),
	ANY(readlink),
	ANY(readlinkat),
	ANY(getdents64),
	ANY(pread64),
	ANY(fcntl),
	ANY(fstatfs),
	ANY(dup),
	ANY(pipe2),
	ANY(eventfd2),
	ANY(timerfd_create),
	ANY(epoll_create1),
	ANY(getuid),
	ANY(geteuid),
	ANY(getgid),
	ANY(getegid),
	ANY(uname),
	ANY(sysinfo),
	ANY(sched_getaffinity),
	IF(prlimit64, 2, ALL_BITS, 0), /* reading only */
	IF(mbind, 5, ALL_BITS, 0),     /* no page is moved */
};

static const struct seccomp_rule control[] = {
	IF(bpf, 0, ALL_BITS, BPF_MAP_LOOKUP_ELEM),
	IF(bpf, 0, ALL_BITS, BPF_MAP_UPDATE_ELEM),
	IF(bpf, 0, ALL_BITS, BPF_MAP_DELETE_ELEM),
	IF(bpf, 0, ALL_BITS, BPF_MAP_GET_NEXT_KEY),
	IF(bpf, 0, ALL_BITS, BPF_OBJ_GET_INFO_BY_FD),
	IF(bpf, 0, ALL_BITS, BPF_LINK_UPDATE), /* queues that are added */
	IF(ioctl, 1, ALL_BITS, SIOCGIFNAME),   /* checks the interface */
	IF(ioctl, 1, ALL_BITS, SIOCGIFFLAGS),
	IF(ioctl, 1, ALL_BITS, SIOCGIFINDEX),
	IF(ioctl, 1, ALL_BITS, SIOCGIFMTU),
	IF(ioctl, 1, ALL_BITS, SIOCETHTOOL),               /* number of queues */
	IF(ioctl, 1, ALL_BITS, SIOCGIFVLAN),               /* interface below a VLAN */
	IF(ioctl, 1, ALL_BITS, TCGETS),                    /* isatty() */
	IF(seccomp, 0, ALL_BITS, SECCOMP_SET_MODE_FILTER), /* for dialers */
	ANY(listen), /* listeners of a reload, and Unix sockets */
	ANY(fchmod),
	ANY(fchmodat),
	ANY(chmod), /* arm64 has neither this nor chown */
	ANY(fchownat),
	ANY(chown),
	ANY(sendfile),
	ANY(select),
	ANY(pselect6),
	ANY(wait4),
	ANY(getrusage),
	ANY(times),
	ANY(rt_sigaction),
	ANY(unlink),
	ANY(unlinkat),
	ANY(rmdir),
	ANY(dup2),
	ANY(dup3), /* arm64 has no dup2 */
};

/* Agents. arm64 has neither chmod nor unlink. */
static const struct seccomp_rule agent[] = {
	ANY(listen),       ANY(chmod),     ANY(unlink),   ANY(fchmodat),     ANY(unlinkat),
	ANY(memfd_create), ANY(ftruncate), ANY(sendmmsg), ANY(rt_sigaction),
};

/* Keeper: forks agents (add_clones). */
static const struct seccomp_rule zygote[] = {
	ANY(kill), /* Landlock limits it to its own processes */
	ANY(wait4),
	ANY(socketpair),
	ANY(signalfd4),
	ANY(sched_setaffinity),
	ANY(landlock_create_ruleset),
	ANY(landlock_add_rule),
	ANY(landlock_restrict_self),
	IF(seccomp, 0, ALL_BITS, SECCOMP_SET_MODE_FILTER),
	IF(prctl, 0, ALL_BITS, PR_SET_PDEATHSIG),
};

static const struct {
	const struct seccomp_rule *rules;
	size_t cnt;
	const char *name;
} lists[SL_THREAD_KIND_CNT] = {
	[SL_THREAD_HANDSHAKE] = {handshake, SL_ARRAY_LEN(handshake), "handshake"},
	[SL_THREAD_WORKER] = {worker, SL_ARRAY_LEN(worker), "worker"},
	[SL_THREAD_WORKER_OF_SERVERS] = {worker_of_servers, SL_ARRAY_LEN(worker_of_servers),
					 "worker of servers"},
	[SL_THREAD_DIALER] = {dialer, SL_ARRAY_LEN(dialer), "dialer"},
	[SL_THREAD_CONTROL] = {control, SL_ARRAY_LEN(control), "control"},
	[SL_THREAD_AGENT] = {agent, SL_ARRAY_LEN(agent), "agent"},
	[SL_THREAD_KEEPER] = {zygote, SL_ARRAY_LEN(zygote), "zygote"},
};

static struct sock_fprog filters[SL_THREAD_KIND_CNT]; /* len 0: none */

static char *put_text(char *at, const char *text)
{
	while (*text)
		*at++ = *text++;
	*at = 0;
	return at;
}

static char *put_number(char *at, uint64_t n, unsigned base)
{
	char digits[20];
	unsigned len = 0;

	do
		digits[len++] = "0123456789abcdef"[n % base];
	while (n /= base);
	while (len)
		*at++ = digits[--len];
	*at = 0;
	return at;
}

/* Runs in a signal handler: no stdio, no lock. */
static void tell_refused(unsigned call, uint64_t arg0, uint64_t arg1)
{
	static _Atomic uint64_t told[CALL_NUMBERS / 64];
	char line[160], name[16] = "", *at = line;
	unsigned bit = call < CALL_NUMBERS ? call : CALL_NUMBERS - 1;

	if (atomic_fetch_or(&told[bit / 64], UINT64_C(1) << bit % 64) & UINT64_C(1) << bit % 64)
		return;
	prctl(PR_GET_NAME, name);
	at = put_text(at, "sandbox: refused system call ");
	at = put_number(at, call, 10);
	at = put_text(at, " (0x");
	at = put_number(at, arg0, 16);
	at = put_text(at, ", 0x");
	at = put_number(at, arg1, 16);
	at = put_text(at, ") of thread ");
	at = put_text(at, name);
	at = put_text(at, "\n");
	(void)sl_output_write(STDERR_FILENO, line, (size_t)(at - line));
}

static void on_refused(int sig, siginfo_t *info, void *context)
{
	mcontext_t *m = &((ucontext_t *)context)->uc_mcontext;
	int saved = errno;

	(void)sig;
#if defined(__x86_64__)
	tell_refused((unsigned)info->si_syscall, (uint64_t)m->gregs[REG_RDI],
		     (uint64_t)m->gregs[REG_RSI]);
	m->gregs[REG_RAX] = -EPERM;
#else /* aarch64 */
	tell_refused((unsigned)info->si_syscall, m->regs[0], m->regs[1]);
	m->regs[0] = (uint64_t)-EPERM;
#endif
	errno = saved;
}

static int add_list(scmp_filter_ctx ctx, const struct seccomp_rule *rules, size_t cnt)
{
	int rc = 0;

	for (size_t i = 0; i < cnt && !rc; i++) {
		const struct seccomp_rule *r = &rules[i];

		if (r->checked)
			rc = seccomp_rule_add(
				ctx, SCMP_ACT_ALLOW, r->call, 1,
				SCMP_CMP64(r->arg, SCMP_CMP_MASKED_EQ, r->mask, r->want));
		else
			rc = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, r->call, 0);
	}
	return rc;
}

/* Exports for threads that cannot open files; the pipe holds all of it. */
static int read_back(scmp_filter_ctx ctx, struct sock_fprog *out)
{
	struct sock_filter *code = malloc(FILTER_MAX * sizeof(*code));
	int ends[2], rc;
	ssize_t n = 0;

	if (!code || pipe2(ends, O_CLOEXEC) != 0) {
		free(code);
		return -ENOMEM;
	}
	rc = seccomp_export_bpf(ctx, ends[1]);
	close(ends[1]);
	if (!rc)
		n = read(ends[0], code, FILTER_MAX * sizeof(*code));
	close(ends[0]);
	if (rc || n <= 0) {
		free(code);
		return rc ? rc : -EIO;
	}
	*out = (struct sock_fprog){.len = (unsigned short)((size_t)n / sizeof(*code)),
				   .filter = code};
	return 0;
}

/*
 * The C library clones with all signals blocked, where SIGSYS would kill the process: so fail with
 * an errno. Filters cannot see the flags of clone3; without it the C library uses clone.
 */
static int add_clones(scmp_filter_ctx ctx, enum sl_thread_kind kind)
{
	bool may_start_threads = kind == SL_THREAD_DIALER || kind == SL_THREAD_CONTROL;
	int rc = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);

	if (!rc && kind == SL_THREAD_KEEPER)
		return seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
					SCMP_CMP64(0, SCMP_CMP_MASKED_EQ, NEW_NAMESPACES, 0));
	if (!rc && !may_start_threads)
		return seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 0);
	if (!rc)
		rc = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
				      SCMP_CMP64(0, SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));
	if (!rc)
		rc = seccomp_rule_add(
			ctx, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
			SCMP_CMP64(0, SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
	return rc;
}

static int compile_filter(enum sl_thread_kind kind)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_TRAP);
	int rc = ctx ? 0 : -ENOMEM;

	for (unsigned k = 0; k <= (unsigned)kind && !rc; k++)
		if (k != SL_THREAD_CONTROL || kind == SL_THREAD_CONTROL) /* not in agents */
			rc = add_list(ctx, lists[k].rules, lists[k].cnt);
	if (!rc)
		rc = add_clones(ctx, kind);
	/* Only to itself, for abort(). */
	if (!rc)
		rc = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
				      SCMP_CMP64(0, SCMP_CMP_EQ, (scmp_datum_t)getpid(), 0));
	if (!rc)
		rc = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	if (!rc)
		rc = read_back(ctx, &filters[kind]);
	if (ctx)
		seccomp_release(ctx);
	return rc;
}

int sl_seccomp_compile(struct sl_err *err)
{
	struct sigaction act = {.sa_sigaction = on_refused, .sa_flags = SA_SIGINFO | SA_NODEFER};

	if (SL_SANITIZED) {
		sl_log_info("sandbox: no filters of system calls in a sanitizer's build");
		return 0;
	}
	sigaction(SIGSYS, &act, NULL);
	for (unsigned k = 0; k < SL_THREAD_KIND_CNT; k++) {
		int rc = compile_filter((enum sl_thread_kind)k);

		if (rc)
			return sl_fail(err, rc, "sandbox: filter of the %s: %s", lists[k].name,
				       strerror(-rc));
	}
	return 0;
}

void sl_sandbox_thread(enum sl_thread_kind kind)
{
	sigset_t set;

	if (!filters[kind].len)
		return;
	/* If SIGSYS is blocked, the kernel kills the process instead. */
	sigemptyset(&set);
	sigaddset(&set, SIGSYS);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filters[kind]) != 0) {
		sl_log_err("sandbox: filter of the %s: %s", lists[kind].name, strerror(errno));
		abort(); /* never serve without the filter */
	}
}
