/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All threads must share one credentials object: uverbs and rdma_cm refuse write() under other
 * credentials than at open().
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

#include "sandbox/internal.h"

static int become_user(const char *user, struct sl_err *err)
{
	const struct passwd *pw = user[0] ? getpwnam(user) : NULL;

	if (geteuid() != 0 && (!user[0] || (pw && pw->pw_uid == geteuid())))
		return 0;
	if (!pw || initgroups(user, pw->pw_gid) != 0 || setgid(pw->pw_gid) != 0 ||
	    setuid(pw->pw_uid) != 0) {
		sl_err_set(err, "cannot become user %s: %s", user,
			   pw ? strerror(errno) : "no such account");
		return pw ? -errno : -ENOENT;
	}
	return 0;
}

static uint64_t permitted_caps(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {0};

	if (syscall(SYS_capget, &head, data) != 0)
		return 0;
	return (uint64_t)data[1].permitted << 32 | data[0].permitted;
}

int sl_account_drop(uint64_t keep, const char *user, struct sl_err *err)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {0};
	int rc;

	keep &= permitted_caps();
	/* Before the change of user, which removes CAP_SETPCAP. */
	for (unsigned long cap = 0; cap <= CAP_LAST_CAP; cap++) {
		if (!(keep & UINT64_C(1) << cap))
			prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
	}
	prctl(PR_SET_KEEPCAPS, keep != 0, 0, 0, 0);
	rc = become_user(user, err);
	if (rc)
		return rc;
	for (unsigned i = 0; i < 2; i++) {
		data[i].permitted = (uint32_t)(keep >> 32 * i);
		data[i].effective = data[i].permitted;
	}
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (syscall(SYS_capset, &head, data) != 0)
		return sl_fail(err, -errno, "capabilities: %s", strerror(errno));
	capng_clear(CAPNG_SELECT_CAPS);
	if (capng_get_caps_process() != 0)
		return 0;
	for (unsigned cap = 0; cap <= CAP_LAST_CAP; cap++) {
		if (!(keep & UINT64_C(1) << cap) && capng_have_capability(CAPNG_EFFECTIVE, cap))
			return sl_fail(err, -EPERM, "capabilities: %s is still there",
				       capng_capability_to_name(cap));
	}
	return 0;
}
