/* SPDX-License-Identifier: Apache-2.0 */
/* Landlock by system calls: the C library of Debian 12 has no wrappers. */
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox/internal.h"

#define ACCESS_FS_REFER        (UINT64_C(1) << 13) /* ABI 2 */
#define ACCESS_FS_TRUNCATE     (UINT64_C(1) << 14) /* ABI 3 */
#define ACCESS_FS_IOCTL_DEV    (UINT64_C(1) << 15) /* ABI 5 */
#define ACCESS_NET_BIND_TCP    (UINT64_C(1) << 0)  /* ABI 4 */
#define SCOPE_ABSTRACT_SOCKETS (UINT64_C(1) << 0)  /* ABI 6 */
#define SCOPE_SIGNAL           (UINT64_C(1) << 1)

struct ruleset {
	uint64_t fs, net, scoped;
};

static int allow_path(int ruleset, const struct ruleset *r, const struct sl_sandbox_place *place)
{
	static const uint64_t uses[] = {
		[SL_SANDBOX_READ] = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR,
		[SL_SANDBOX_DEVICE] = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR |
				      LANDLOCK_ACCESS_FS_WRITE_FILE | ACCESS_FS_IOCTL_DEV,
		[SL_SANDBOX_REMOVE] = LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
				      LANDLOCK_ACCESS_FS_REMOVE_DIR,
		[SL_SANDBOX_WRITE] = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG,
		[SL_SANDBOX_SOCKETS] = LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_WRITE_FILE |
				       LANDLOCK_ACCESS_FS_MAKE_SOCK |
				       LANDLOCK_ACCESS_FS_REMOVE_FILE,
	};
	const uint64_t of_files =
		LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | ACCESS_FS_IOCTL_DEV;
	struct landlock_path_beneath_attr beneath = {.parent_fd =
							     open(place->path, O_PATH | O_CLOEXEC)};
	struct stat st;
	int rc = 0;

	if (beneath.parent_fd < 0)
		return 0;
	if (fstat(beneath.parent_fd, &st) == 0)
		beneath.allowed_access =
			r->fs & uses[place->use] & (S_ISDIR(st.st_mode) ? UINT64_MAX : of_files);
	if (beneath.allowed_access &&
	    syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0) != 0)
		rc = -errno;
	close(beneath.parent_fd);
	return rc;
}

int sl_landlock_prepare(const struct sl_sandbox_place *places, size_t place_cnt, bool binds_ports,
			int *abi)
{
	/* All that the kernel knows. */
	struct ruleset r = {.fs = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1};
	size_t size = offsetof(struct ruleset, net);
	int fd, rc = 0;

	if (SL_SANITIZED)
		return -EOPNOTSUPP;
	*abi = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	if (*abi < 0)
		return -errno;
	if (*abi >= 2)
		r.fs |= ACCESS_FS_REFER;
	if (*abi >= 3)
		r.fs |= ACCESS_FS_TRUNCATE;
	if (*abi >= 4) {
		r.net = binds_ports ? 0 : ACCESS_NET_BIND_TCP;
		size = offsetof(struct ruleset, scoped);
	}
	if (*abi >= 5)
		r.fs |= ACCESS_FS_IOCTL_DEV;
	if (*abi >= 6) {
		r.scoped = SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNAL;
		size = sizeof(r);
	}
	fd = (int)syscall(SYS_landlock_create_ruleset, &r, size, 0);
	if (fd < 0)
		return -errno;
	for (size_t i = 0; i < place_cnt && !rc; i++)
		rc = allow_path(fd, &r, &places[i]);
	if (!rc)
		return fd;
	close(fd);
	return rc;
}

int sl_landlock_restrict(int ruleset)
{
	int rc = syscall(SYS_landlock_restrict_self, ruleset, 0) ? -errno : 0;

	close(ruleset);
	return rc;
}
