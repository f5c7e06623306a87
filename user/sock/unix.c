/* SPDX-License-Identifier: Apache-2.0 */
#include "sock/unix.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/stale_socket.h"

enum { BACKLOG = 4096 };

static int open_socket(void)
{
	return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

bool sl_sock_remove_stale(const struct sockaddr_un *at)
{
	struct stat st;

	return lstat(at->sun_path, &st) == 0 && S_ISSOCK(st.st_mode) &&
	       sl_socket_is_stale(at, SOCK_STREAM) && unlink(at->sun_path) == 0;
}

int sl_sock_listen_unix(const char *path, uid_t uid, gid_t gid, mode_t mode)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd, rc;

	if (strlen(path) >= sizeof(at.sun_path))
		return -ENAMETOOLONG;
	memcpy(at.sun_path, path, strlen(path));
	fd = open_socket();
	if (fd < 0)
		return -errno;
	rc = fchmod(fd, 0600) ? -errno : 0;
	if (!rc)
		rc = bind(fd, (const struct sockaddr *)&at, sizeof(at)) ? -errno : 0;
	if (rc == -EADDRINUSE && sl_sock_remove_stale(&at))
		rc = bind(fd, (const struct sockaddr *)&at, sizeof(at)) ? -errno : 0;
	if (rc) {
		close(fd);
		return rc;
	}
	if (((uid != (uid_t)-1 || gid != (gid_t)-1) && chown(path, uid, gid) != 0) ||
	    listen(fd, BACKLOG) != 0 || chmod(path, mode) != 0) {
		rc = -errno;
		(void)unlink(path);
		close(fd);
		return rc;
	}
	return fd;
}
