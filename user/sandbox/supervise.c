/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/supervise.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "sandbox/notify.h"

enum {
	TRIES = 10,        /* consecutive failed starts */
	BACKOFF_MIN_S = 1, /* (start_child) */
	BACKOFF_MAX_S = 30,
	WELL_S = 60, /* resets the back-off */
	SIGNALLED = 128,
};
#define LOOK_NS SL_NS_PER_SEC

struct supervisor {
	int signal_fd, channel;
	pid_t child;
	uint64_t start_ns, look_ns; /* time of the next `look` */
	bool serves, served_once;
	bool stopping;
	unsigned failures, backoff_s;
};

static pid_t parent;

void sl_supervise_bind(void)
{
	if (!parent)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
}

void sl_supervise_under(int pid)
{
	parent = pid;
	sl_supervise_bind();
}

static _Noreturn void be_child(struct supervisor *v, const struct sl_supervised *s, int channel)
{
	sigset_t chld;

	close(v->signal_fd);
	close(v->channel);
	/* Own process group: ^C is delivered once, by the supervisor. */
	setpgid(0, 0);
	sl_supervise_bind();
	sl_notify_use(channel);
	/* Other signals stay blocked: none is lost while the gateway starts. */
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigprocmask(SIG_UNBLOCK, &chld, NULL);
	exit(s->run(s->arg));
}

static int start_child(struct supervisor *v, const struct sl_supervised *s)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
		return -errno;
	v->channel = ends[0];
	v->serves = false;
	v->start_ns = sl_now_ns();
	fflush(NULL);
	parent = getpid();
	v->child = fork();
	if (v->child == 0)
		be_child(v, s, ends[1]);
	close(ends[1]);
	if (v->child > 0)
		return 0;
	v->child = 0;
	close(v->channel);
	v->channel = -1;
	return -errno;
}

/* Known messages only: the child may be compromised. */
static void relay_signals(struct supervisor *v)
{
	static const char *const known[] = {SL_NOTIFY_READY, SL_NOTIFY_STOPPING};
	char word[SL_NOTIFY_MAX];
	ssize_t n;

	while (v->channel >= 0 &&
	       (n = recv(v->channel, word, sizeof(word) - 1, MSG_DONTWAIT)) >= 0) {
		word[n] = 0;
		if (n == 0) {
			close(v->channel);
			v->channel = -1;
		}
		if (strcmp(word, SL_NOTIFY_STARTED) == 0)
			v->serves = v->served_once = true;
		/* Without a newline, a status cannot contain another assignment. */
		if (strncmp(word, SL_NOTIFY_STATUS, strlen(SL_NOTIFY_STATUS)) == 0 &&
		    !strchr(word, '\n'))
			sl_notify(word);
		for (unsigned i = 0; i < SL_ARRAY_LEN(known); i++) {
			if (strcmp(word, known[i]) == 0)
				sl_notify(known[i]);
		}
	}
}

static void listen_until(struct supervisor *v, uint64_t until_ns)
{
	struct pollfd fds[2] = {{.fd = v->signal_fd, .events = POLLIN},
				{.fd = v->channel, .events = POLLIN}};
	uint64_t now = sl_now_ns();
	struct signalfd_siginfo si;
	int ms = -1;

	if (until_ns != UINT64_MAX)
		ms = until_ns > now ? (int)((until_ns - now) / SL_NS_PER_MS) + 1 : 0;
	if (poll(fds, 2, ms) < 0 && errno != EINTR)
		sl_log_err("supervisor: poll: %s", strerror(errno));
	relay_signals(v);
	while (read(v->signal_fd, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
		int sig = (int)si.ssi_signo;

		if (sig == SIGCHLD)
			continue;
		v->stopping = v->stopping || (sig != SIGHUP && sig != SIGUSR1);
		if (v->child)
			kill(v->child, sig);
	}
}

static void listen_and_look(struct supervisor *v, const struct sl_supervised *s)
{
	bool looks = s->look && v->serves;

	listen_until(v, looks ? v->look_ns : UINT64_MAX);
	if (!looks || sl_now_ns() < v->look_ns)
		return;
	s->look(s->arg);
	v->look_ns = sl_now_ns() + LOOK_NS;
}

/* As process 1, also reaps others. */
static int wait_for_end(struct supervisor *v, const struct sl_supervised *s)
{
	int status;

	for (;;) {
		pid_t pid = waitpid(-1, &status, WNOHANG);

		if (pid == v->child)
			break;
		if (pid <= 0)
			listen_and_look(v, s);
	}
	relay_signals(v);
	if (v->channel >= 0)
		close(v->channel);
	v->channel = -1;
	v->child = 0;
	return status;
}

static bool wants_restart(const struct supervisor *v, int status)
{
	return !WIFSIGNALED(status) && v->serves && WEXITSTATUS(status) == SL_SUPERVISE_AGAIN;
}

/* A failed start after a crash may follow from it: the kernel still releases sockets. */
static bool check_status(struct supervisor *v, int status)
{
	bool again = wants_restart(v, status);
	bool crashed = again || WIFSIGNALED(status) ||
		       (v->served_once && !v->serves && WEXITSTATUS(status) != 0);
	char what[80];

	if (!crashed || v->stopping)
		return false;
	if (v->serves)
		v->failures = 0;
	else
		v->failures++;
	if (sl_now_ns() - v->start_ns >= WELL_S * SL_NS_PER_SEC)
		v->backoff_s = 0;
	if (WIFSIGNALED(status))
		snprintf(what, sizeof(what), "died of signal %d (%s)", WTERMSIG(status),
			 strsignal(WTERMSIG(status)));
	else if (again)
		snprintf(what, sizeof(what), "ended, to be started again");
	else
		snprintf(what, sizeof(what), "ended with status %d before it served",
			 WEXITSTATUS(status));
	if (v->failures == TRIES) {
		sl_log_err("supervisor: the gateway %s, %d times in a row: given up", what, TRIES);
		return false;
	}
	v->backoff_s = v->backoff_s ? v->backoff_s * 2 : BACKOFF_MIN_S;
	if (v->backoff_s > BACKOFF_MAX_S)
		v->backoff_s = BACKOFF_MAX_S;
	sl_log_err("supervisor: the gateway %s; it starts again in %u s", what, v->backoff_s);
	return true;
}

static int run_child(struct supervisor *v, const struct sl_supervised *s)
{
	for (;;) {
		int status = start_child(v, s);
		uint64_t until;

		if (status) {
			sl_log_err("supervisor: cannot fork: %s", strerror(-status));
			return 1;
		}
		status = wait_for_end(v, s);
		s->clean(s->arg);
		if (v->stopping && wants_restart(v, status))
			return 0;
		if (!check_status(v, status))
			return WIFEXITED(status) ? WEXITSTATUS(status)
						 : SIGNALLED + WTERMSIG(status);
		until = sl_now_ns() + v->backoff_s * SL_NS_PER_SEC;
		while (!v->stopping && sl_now_ns() < until)
			listen_until(v, until);
		if (v->stopping)
			return 0;
	}
}

int sl_supervise(const struct sl_supervised *s)
{
	struct supervisor v = {.channel = -1};
	sigset_t set;
	int rc;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	v.signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (v.signal_fd < 0) {
		sl_log_err("supervisor: %s", strerror(errno));
		return 1;
	}
	sl_notify_open();
	rc = run_child(&v, s);
	sl_notify_use(-1);
	close(v.signal_fd);
	return rc;
}
