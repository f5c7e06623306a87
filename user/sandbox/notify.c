/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"

static int told_fd = -1;

void sl_notify_use(int fd)
{
	if (told_fd >= 0)
		close(told_fd);
	told_fd = fd;
}

void sl_notify_open(void)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	size_t len = path ? strlen(path) : 0;
	int fd;

	if (told_fd >= 0 || !len || len >= sizeof(sun.sun_path) ||
	    (path[0] != '/' && path[0] != '@'))
		return;
	memcpy(sun.sun_path, path, len);
	if (path[0] == '@') /* abstract name */
		sun.sun_path[0] = 0;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&sun,
			       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) == 0) {
		told_fd = fd;
		return;
	}
	sl_log_warn("NOTIFY_SOCKET %s: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
}

void sl_notify(const char *state)
{
	if (told_fd >= 0 && send(told_fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		sl_log_warn("cannot tell the service manager %s: %s", state, strerror(errno));
}

void sl_notify_status(const char *text)
{
	char line[SL_NOTIFY_MAX];
	size_t len = strcspn(text, "\n");

	snprintf(line, sizeof(line), SL_NOTIFY_STATUS "%.*s%s", (int)(len < 400 ? len : 400), text,
		 text[len] && text[len + 1] ? " (and more, see the log)" : "");
	sl_notify(line);
}
