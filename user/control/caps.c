/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Capabilities and accounts belong to threads, which inherit them when they are made. So this runs
 * while there is one thread, and all threads share what is left: also the kernel's pointer to it,
 * by which uverbs and rdma_cm refuse a write() from a thread whose rights have changed since the
 * open().
 */
#include <cap-ng.h>
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "control/control.h"

/* Before the change of user, which takes CAP_SETPCAP away. */
static void shrink_bounds(uint64_t keep)
{
	for (unsigned long cap = 0; cap <= CAP_LAST_CAP; cap++) {
		if (!(keep & UINT64_C(1) << cap))
			prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
	}
	prctl(PR_SET_KEEPCAPS, keep != 0, 0, 0, 0);
}

static int become(const char *user, char *err, size_t err_len)
{
	const struct passwd *pw = getpwnam(user);

	if (!pw || initgroups(user, pw->pw_gid) != 0 || setgid(pw->pw_gid) != 0 ||
	    setuid(pw->pw_uid) != 0) {
		snprintf(err, err_len, "cannot become user %s: %s", user,
			 pw ? strerror(errno) : "no such account");
		return pw ? -errno : -ENOENT;
	}
	return 0;
}

static int take_all_but(uint64_t keep)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {0};

	for (unsigned i = 0; i < 2; i++) {
		data[i].permitted = (uint32_t)(keep >> 32 * i);
		data[i].effective = data[i].permitted;
	}
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return syscall(SYS_capset, &head, data) ? -errno : 0;
}

int sl_caps_drop(uint64_t keep, const char *user, char *err, size_t err_len)
{
	int rc = 0;

	shrink_bounds(keep);
	if (user)
		rc = become(user, err, err_len);
	if (rc)
		return rc;
	rc = take_all_but(keep);
	if (rc) {
		snprintf(err, err_len, "capabilities: %s", strerror(-rc));
		return rc;
	}
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
