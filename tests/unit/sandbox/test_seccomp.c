/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allowed and forbidden calls of each kind of thread, each in a child, which cannot leave the
 * sandbox.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "sandbox/sandbox.h"
#include "suite.h"

enum {
	H = 1 << SL_THREAD_HANDSHAKE,
	W = 1 << SL_THREAD_WORKER | 1 << SL_THREAD_WORKER_OF_SERVERS,
	D = 1 << SL_THREAD_DIALER,
	C = 1 << SL_THREAD_CONTROL,
	A = 1 << SL_THREAD_AGENT,
	K = 1 << SL_THREAD_KEEPER
};

/* Each returns what the system call returned. */
static long try_execve(void)
{
	return execl("/bin/true", "true", NULL);
}

static long try_fork(void)
{
	long pid = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);

	if (pid == 0)
		_exit(0);
	return pid;
}

static long try_namespace(void)
{
	long pid = syscall(SYS_clone, SIGCHLD | CLONE_NEWUSER, NULL, NULL, NULL, NULL);

	if (pid == 0)
		_exit(0);
	return pid;
}

static long try_ptrace(void)
{
	return ptrace(PTRACE_TRACEME, 0, NULL, NULL);
}

static long try_bpf_load(void)
{
	return syscall(SYS_bpf, 5 /* BPF_PROG_LOAD */, NULL, 0);
}

static long try_setuid(void)
{
	return syscall(SYS_setuid, 0);
}

static long try_kill(void)
{
	return kill(getpid(), 0); /* Landlock forbids signals to other processes from ABI 6 on */
}

static long try_exec_memory(void)
{
	return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
			       MAP_FAILED
		       ? -1
		       : 0;
}

static long try_exec_protect(void)
{
	static _Alignas(4096) char page[4096];

	return mprotect(page, sizeof(page), PROT_READ | PROT_EXEC);
}

static long try_socket_packet(void)
{
	return socket(AF_PACKET, SOCK_RAW, 0);
}

static long try_mount(void)
{
	return mount("none", "/tmp", "tmpfs", 0, NULL);
}

static long try_tty_ioctl(void)
{
	return syscall(SYS_ioctl, 0, 0x5412 /* TIOCSTI */, "x");
}

static long try_raise_limit(void)
{
	struct rlimit l = {1 << 20, 1 << 20};

	return setrlimit(RLIMIT_CORE, &l);
}

static long try_process_read(void)
{
	return syscall(SYS_process_vm_readv, getppid(), NULL, 0, NULL, 0, 0);
}

static long try_io_uring(void)
{
	return syscall(SYS_io_uring_setup, 1, NULL);
}

static long try_open(void)
{
	return open("/tmp", O_RDONLY);
}

static long try_socket_unix(void)
{
	return socket(AF_UNIX, SOCK_STREAM, 0);
}

static long try_unlink(void)
{
	return unlink("/nonexistent/file") < 0 && errno == ENOENT ? 0 : -1;
}

static void *nothing(void *arg)
{
	return arg;
}

static long try_thread(void)
{
	pthread_t t;
	int rc = pthread_create(&t, NULL, nothing, NULL);

	if (!rc)
		return pthread_join(t, NULL);
	errno = rc;
	return -1;
}

static long try_epoll(void)
{
	struct epoll_event ev;
	struct timespec soon = {.tv_nsec = 1};

	return epoll_pwait2(0, &ev, 1, &soon, NULL) < 0 && errno == EINVAL ? 0 : -1;
}

static long try_memory(void)
{
	void *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? -1 : munmap(p, 1 << 20);
}

static long try_own_class(void)
{
	const struct sched_param none = {0};

	return sched_setscheduler(0, SCHED_IDLE, &none);
}

static long try_class_of_another(void)
{
	const struct sched_param none = {0};

	return sched_setscheduler(getpid(), SCHED_IDLE, &none);
}

/* At an address that is none: what the filter lets pass is an error of another kind. */
static long place_memory(unsigned long flags)
{
	return syscall(SYS_mbind, 1UL, 4096UL, MPOL_PREFERRED, NULL, 0UL, flags) < 0 &&
			       errno != EPERM
		       ? 0
		       : -1;
}

static long try_place_memory(void)
{
	return place_memory(0);
}

static long try_move_memory(void)
{
	return place_memory(MPOL_MF_MOVE);
}

static long try_write(void)
{
	return write(STDOUT_FILENO, "", 0);
}

static int sockets[2]; /* made before the filters */

/* As a line of the log is written to a socket. */
static long try_send(void)
{
	return send(sockets[0], "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static long try_send_to(void)
{
	static const struct sockaddr_in sa = {.sin_family = AF_INET};
	long rc = sendto(sockets[0], "x", 1, 0, (const struct sockaddr *)&sa, sizeof(sa));

	return rc < 0 && errno == EISCONN ? 0 : rc; /* past the filter */
}

static const struct {
	const char *name;
	long (*call)(void);
	unsigned may; /* kinds */
} calls[] = {
	{"execve", try_execve, 0},
	{"fork", try_fork, K},
	{"fork into a user namespace", try_namespace, 0},
	{"ptrace", try_ptrace, 0},
	{"bpf(PROG_LOAD)", try_bpf_load, 0},
	{"setuid", try_setuid, 0},
	{"kill", try_kill, K},
	{"mmap(PROT_EXEC)", try_exec_memory, 0},
	{"mprotect(PROT_EXEC)", try_exec_protect, 0},
	{"socket(AF_PACKET)", try_socket_packet, 0},
	{"mount", try_mount, 0},
	{"ioctl(TIOCSTI)", try_tty_ioctl, 0},
	{"setrlimit", try_raise_limit, 0},
	{"process_vm_readv", try_process_read, 0},
	{"io_uring_setup", try_io_uring, 0},
	{"openat", try_open, D | C | A | K},
	{"socket(AF_UNIX)", try_socket_unix, D | C | A | K},
	{"unlink", try_unlink, C | A | K},
	{"a thread", try_thread, D | C | K},
	{"epoll_pwait2", try_epoll, W | D | C | A | K},
	{"mmap", try_memory, H | W | D | C | A | K},
	{"sched_setscheduler of itself", try_own_class, H | W | D | C | A | K},
	{"sched_setscheduler of another", try_class_of_another, 0},
	{"mbind", try_place_memory, D | C | A | K},
	{"mbind(MPOL_MF_MOVE)", try_move_memory, 0},
	{"send", try_send, H | W | D | C | A | K},
	{"sendto", try_send_to, W | D | C | A | K},
	{"write", try_write, H | W | D | C | A | K},
};

static void *in_thread(void *arg)
{
	const int *which = arg;
	enum sl_thread_kind kind = (enum sl_thread_kind)which[0];
	bool may = calls[which[1]].may & 1u << kind;
	long rc;

	sl_sandbox_thread(kind);
	errno = 0;
	rc = calls[which[1]].call();
	if (may ? rc < 0 : rc != -1 || errno != EPERM) {
		fprintf(stderr, "%s returned %ld, errno %d\n", calls[which[1]].name, rc, errno);
		_exit(1);
	}
	_exit(0);
}

/* As the gateway's threads have it: all signals blocked. */
static _Noreturn void be_gateway(int kind, int call)
{
	static const struct sl_sandbox_place places[] = {{"/tmp", SL_SANDBOX_READ}};
	struct sl_sandbox_options opt = {.user = "root", .places = places, .place_cnt = 1};
	int which[2] = {kind, call};
	struct sl_err err = SL_ERR(256);
	sigset_t all;
	pthread_t t;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) || sl_sandbox_enter(&opt, &err)) {
		fprintf(stderr, "%s\n", err.text);
		_exit(2);
	}
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	if (pthread_create(&t, NULL, in_thread, which) == 0)
		pthread_join(t, NULL);
	_exit(3);
}

TEST(each_kind_of_thread)
{
	for (int kind = 0; kind < SL_THREAD_KIND_CNT; kind++) {
		for (int call = 0; call < (int)SL_ARRAY_LEN(calls); call++) {
			pid_t pid = fork();
			int status;

			ck_assert_int_ge(pid, 0);
			if (!pid)
				be_gateway(kind, call);
			ck_assert_int_eq(waitpid(pid, &status, 0), pid);
			ck_assert_msg(status == 0, "kind %d, %s: status %x", kind, calls[call].name,
				      status);
		}
	}
}

/*
 * Does this behind the walls, in a process of its own, which says on stderr what is in `text`. It has
 * freed much before, so that malloc keeps more.
 */
static void hear(void (*act)(void), char *text, size_t size)
{
	static const struct sl_sandbox_options opt = {.user = "root"};
	struct sl_err err = SL_ERR(256);
	int out[2], status;
	size_t len = 0;
	ssize_t n;
	pid_t pid;

	ck_assert_int_eq(pipe(out), 0);
	pid = fork();
	if (!pid) {
		void *volatile much = malloc(4 << 20);

		free(much);
		dup2(out[1], STDERR_FILENO);
		if (sl_sandbox_enter(&opt, &err))
			_exit(2);
		act();
		_exit(0);
	}
	close(out[1]);
	while ((n = read(out[0], text + len, size - 1 - len)) > 0)
		len += (size_t)n;
	text[len] = 0;
	close(out[0]);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}

static void *free_much(void *unused)
{
	enum { CNT = 1000, SIZE = 64 << 10 };
	void *volatile blocks[CNT];

	sl_sandbox_thread(SL_THREAD_WORKER);
	for (int i = 0; i < CNT; i++)
		blocks[i] = malloc(SIZE);
	for (int i = CNT; i-- > 0;)
		free(blocks[i]);
	return unused;
}

static void free_much_in_a_thread(void)
{
	pthread_t t;

	if (pthread_create(&t, NULL, free_much, NULL) || pthread_join(t, NULL))
		_exit(3);
}

/* malloc would read a file when a thread's heap shrinks for the first time. */
TEST(a_thread_may_give_much_memory_back)
{
	char text[512];

	hear(free_much_in_a_thread, text, sizeof(text));
	ck_assert_str_eq(text, "");
}

static void ask_for_what_is_refused(void)
{
	prctl(PR_SET_NAME, "worker-7");
	sl_sandbox_thread(SL_THREAD_WORKER);
	for (int i = 0; i < 3; i++)
		kill(0x7fffffff, 0x2a);
	syscall(SYS_mount, 0x10, 0xabc);
}

/* The first refused call of each number is told, with the thread's name, and later ones are not. */
TEST(refused_system_calls_are_logged_once)
{
	char text[512], want[512];

	hear(ask_for_what_is_refused, text, sizeof(text));
	snprintf(want, sizeof(want),
		 "sandbox: refused system call %d (0x7fffffff, 0x2a) of thread worker-7\n"
		 "sandbox: refused system call %d (0x10, 0xabc) of thread worker-7\n",
		 SYS_kill, SYS_mount);
	ck_assert_str_eq(text, want);
}

/* A core that aborts does: the supervisor is told by the signal. */
TEST(abort_ends_the_process)
{
	static const struct sl_sandbox_options opt = {.user = "root"};
	struct sl_err err = SL_ERR(256);
	int status;
	pid_t pid = fork();

	if (!pid) {
		if (sl_sandbox_enter(&opt, &err))
			_exit(2);
		sl_sandbox_thread(SL_THREAD_WORKER);
		abort();
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}
