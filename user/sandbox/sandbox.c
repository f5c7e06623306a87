/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/sandbox.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "sandbox/internal.h"
#include "sandbox/supervise.h"

enum { ARENAS_MAX = 8, HEAP_MAX = 64 << 20, BLOCK = 64 << 10, BLOCKS = HEAP_MAX / BLOCK - 16 };

static void set_rlimit(int which, const char *name, rlim_t to)
{
	struct rlimit l = {to, to};

	if (setrlimit((__rlimit_resource_t)which, &l) != 0)
		sl_log_warn("sandbox: cannot limit %s: %s", name, strerror(errno));
}

/* A file size limit of 0 would end the log. */
static bool writes_files(void)
{
	struct stat st;

	for (int fd = 1; fd <= 2; fd++) {
		if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
			return true;
	}
	return false;
}

static void *shrink_heap(void *unused)
{
	/* volatile: the compiler must not remove them */
	void *volatile blocks[BLOCKS];

	for (int i = 0; i < BLOCKS; i++)
		blocks[i] = malloc(BLOCK);
	for (int i = BLOCKS; i-- > 0;)
		free(blocks[i]);
	return unused;
}

/* Makes glibc initialise malloc now: its reads of /proc and /sys are refused later. */
static void prepare_malloc(void)
{
	pthread_t t;

	mallopt(M_ARENA_MAX, ARENAS_MAX);
	if (pthread_create(&t, NULL, shrink_heap, NULL) == 0)
		pthread_join(t, NULL);
}

int sl_sandbox_enter(const struct sl_sandbox_options *opt, struct sl_err *err)
{
	int abi = 0, rc;
	int ruleset = sl_landlock_prepare(opt->places, opt->place_cnt, opt->binds_ports, &abi);
	struct rlimit files;

	set_rlimit(RLIMIT_CORE, "core dumps", 0); /* they would contain client data */
	if (!opt->writes_files && !writes_files())
		set_rlimit(RLIMIT_FSIZE, "the size of files", 0);
	signal(SIGXFSZ, SIG_IGN); /* gives an error instead */
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
	prepare_malloc();
	rc = sl_account_drop(opt->keep_caps, opt->user, err);
	if (rc)
		return rc;
	/* Denies ptrace to the account's other processes, which could read client data and keys. */
	prctl(PR_SET_DUMPABLE, SL_SANITIZED);
	sl_supervise_bind();
	if (ruleset < 0)
		sl_log_info("sandbox: no Landlock (%s): files are protected by the account only",
			    SL_SANITIZED ? "a sanitizer's build" : strerror(-ruleset));
	else
		rc = sl_landlock_restrict(ruleset);
	if (rc)
		return sl_fail(err, rc, "sandbox: Landlock (ABI %d): %s", abi, strerror(-rc));
	return sl_seccomp_compile(err);
}

const struct sl_sandbox_place sl_sandbox_resolver[SL_SANDBOX_RESOLVER_CNT] = {
	{"/etc/resolv.conf", SL_SANDBOX_READ},
	{"/etc/hosts", SL_SANDBOX_READ},
	{"/etc/nsswitch.conf", SL_SANDBOX_READ},
	{"/etc/gai.conf", SL_SANDBOX_READ},
	{"/etc/host.conf", SL_SANDBOX_READ},
	{"/etc/services", SL_SANDBOX_READ},
	/* targets of /etc/resolv.conf */
	{"/run/systemd/resolve", SL_SANDBOX_READ},
	{"/run/resolvconf", SL_SANDBOX_READ},
	{"/run/NetworkManager", SL_SANDBOX_READ},
	/* modules of nsswitch.conf */
	{"/etc/ld.so.cache", SL_SANDBOX_READ},
	{"/usr/lib", SL_SANDBOX_READ},
	{"/lib", SL_SANDBOX_READ},
};

int sl_sandbox_narrow(const struct sl_sandbox_place *places, size_t place_cnt, struct sl_err *err)
{
	int abi = 0, ruleset = sl_landlock_prepare(places, place_cnt, false, &abi);
	int rc = ruleset < 0 ? 0 : sl_landlock_restrict(ruleset);

	return rc ? sl_fail(err, rc, "sandbox: Landlock (ABI %d): %s", abi, strerror(-rc)) : 0;
}

void sl_sandbox_folder(const char *file, char *folder, size_t len)
{
	const char *slash = strrchr(file, '/');

	if (slash)
		snprintf(folder, len, "%.*s", (int)(slash - file + 1), file);
	else
		snprintf(folder, len, ".");
}
