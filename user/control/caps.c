/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Capabilities belong to threads. The workers run already when there is nothing left to attach, so
 * each thread is told by a signal to take what the control thread has taken, as glibc does it for
 * setuid().
 */
#include <cap-ng.h>
#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/cpu.h"
#include "control/control.h"

enum { WAIT_MS = 2000 };

/*
 * Two steps around the change of user. Before it: the bounding set, which takes CAP_SETPCAP to
 * shrink, and the wish to keep what is permitted. After it: the sets themselves.
 */
enum step { STEP_PREPARE, STEP_TAKE };

static struct {
	enum step step;
	uint64_t keep;
	atomic_uint done, failed;
} order;

/* Runs in a signal handler: nothing but system calls. */
static int obey(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {0};

	if (order.step == STEP_PREPARE) {
		for (unsigned long cap = 0; cap <= CAP_LAST_CAP; cap++) {
			if (!(order.keep & UINT64_C(1) << cap))
				prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
		}
		return prctl(PR_SET_KEEPCAPS, order.keep != 0, 0, 0, 0);
	}
	for (unsigned i = 0; i < 2; i++) {
		data[i].permitted = (uint32_t)(order.keep >> 32 * i);
		data[i].effective = data[i].permitted;
	}
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return (int)syscall(SYS_capset, &head, data);
}

static void on_order(int sig)
{
	int saved = errno;

	(void)sig;
	if (obey() != 0)
		atomic_fetch_add(&order.failed, 1);
	atomic_fetch_add(&order.done, 1);
	errno = saved;
}

/* Sends the order to all threads but this one; returns how many. */
static unsigned tell_threads(int sig)
{
	DIR *d = opendir("/proc/self/task");
	struct dirent *e;
	unsigned told = 0;

	while (d && (e = readdir(d))) {
		pid_t tid = (pid_t)strtol(e->d_name, NULL, 10);

		if (tid > 0 && tid != gettid() && syscall(SYS_tgkill, getpid(), tid, sig) == 0)
			told++;
	}
	if (d)
		closedir(d);
	return told;
}

static int order_threads(enum step step, char *err, size_t err_len)
{
	struct sigaction act = {.sa_handler = on_order, .sa_flags = SA_RESTART}, before;
	int sig = SL_SIGNAL_ALL_THREADS;
	unsigned told;

	order.step = step;
	atomic_store(&order.done, 0);
	atomic_store(&order.failed, obey() != 0);
	sigfillset(&act.sa_mask);
	sigaction(sig, &act, &before);
	told = tell_threads(sig);
	for (int ms = 0; atomic_load(&order.done) < told && ms < WAIT_MS; ms++)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	sigaction(sig, &before, NULL);
	if (atomic_load(&order.done) < told || atomic_load(&order.failed)) {
		snprintf(err, err_len, "capabilities: %u of %u threads did not give theirs up",
			 told - atomic_load(&order.done) + atomic_load(&order.failed), told + 1);
		return -EAGAIN;
	}
	return 0;
}

static int become(const char *user, char *err, size_t err_len)
{
	const struct passwd *pw = getpwnam(user);

	/* glibc does this in all threads. */
	if (!pw || initgroups(user, pw->pw_gid) != 0 || setgid(pw->pw_gid) != 0 ||
	    setuid(pw->pw_uid) != 0) {
		snprintf(err, err_len, "cannot become user %s: %s", user,
			 pw ? strerror(errno) : "no such account");
		return pw ? -errno : -ENOENT;
	}
	return 0;
}

int sl_caps_drop(uint64_t keep, const char *user, char *err, size_t err_len)
{
	int rc;

	order.keep = keep;
	rc = order_threads(STEP_PREPARE, err, err_len);
	if (!rc && user)
		rc = become(user, err, err_len);
	if (!rc)
		rc = order_threads(STEP_TAKE, err, err_len);
	if (rc)
		return rc;
	capng_clear(CAPNG_SELECT_CAPS);
	if (capng_get_caps_process() != 0)
		return 0;
	for (unsigned cap = 0; cap <= CAP_LAST_CAP; cap++) {
		if (!(keep & UINT64_C(1) << cap) && capng_have_capability(CAPNG_EFFECTIVE, cap)) {
			snprintf(err, err_len, "capabilities: %s is still there",
				 capng_capability_to_name(cap));
			return -EPERM;
		}
	}
	return 0;
}
