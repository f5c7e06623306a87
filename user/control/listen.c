/* SPDX-License-Identifier: Apache-2.0 */
#include "control/listen.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "sock/unix.h"
#include "wire/addr.h"

enum { BACKLOG = 256 };

static int bind_at(const char *path, const struct sl_authz *g)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	mode_t before;
	int rc;

	if (fd < 0)
		return -errno;
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", path);
	before = umask(0177);
	rc = bind(fd, (struct sockaddr *)&sun, sizeof(sun));
	if (rc && errno == EADDRINUSE && sl_sock_remove_stale(&sun))
		rc = bind(fd, (struct sockaddr *)&sun, sizeof(sun));
	rc = rc ? -errno : 0;
	umask(before);
	if (!rc && (g->owner.set || g->group.set) &&
	    (chown(path, g->owner.set ? g->owner.id : (uid_t)-1,
		   g->group.set ? g->group.id : (gid_t)-1) != 0 ||
	     chmod(path, g->group.set ? 0660 : 0600) != 0))
		rc = -errno;
	if (!rc && listen(fd, BACKLOG) != 0)
		rc = -errno;
	if (!rc)
		return fd;
	close(fd);
	return rc;
}

int sl_admin_bind(const struct sl_config *cfg, const struct sl_authz *g, struct sl_admin_socket *s,
		  struct sl_err *err)
{
	size_t dir_len;
	int rc;

	*s = (struct sl_admin_socket){.fd = -1};
	sl_config_admin_socket(cfg, false, s->path);
	if (!s->path[0])
		return 0;
	dir_len = strlen(sl_run_dir());
	if (strncmp(s->path, sl_run_dir(), dir_len) == 0 && s->path[dir_len] == '/') {
		rc = sl_run_dir_make();
		if (rc)
			sl_log_warn("%s: %s", sl_run_dir(), strerror(-rc));
	}
	s->fd = bind_at(s->path, g);
	if (s->fd == -EADDRINUSE && sl_config_admin_socket(cfg, true, s->path))
		s->fd = bind_at(s->path, g);
	if (s->fd >= 0)
		return 0;
	sl_err_set(
		err,
		"%s: admin socket %s: %s; choose another in admin { socket = PATH }, or socket = "
		"none",
		cfg->file, s->path, strerror(-s->fd));
	s->fd = -1;
	s->path[0] = 0;
	return -1;
}

void sl_admin_unbind(struct sl_admin_socket *s)
{
	/* May fail after the change of account; the next start then replaces the socket. */
	if (s->path[0])
		unlink(s->path);
	s->path[0] = 0;
}

void sl_admin_sweep(void)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	DIR *d = opendir(sl_run_dir());
	struct dirent *e;

	while (d && (e = readdir(d))) {
		size_t len = strlen(e->d_name);

		if (!sl_config_is_admin_socket(e->d_name) ||
		    len + strlen(sl_run_dir()) + 1 >= sizeof(sun.sun_path))
			continue;
		snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/%.*s", sl_run_dir(), (int)len,
			 e->d_name);
		(void)sl_sock_remove_stale(&sun);
	}
	if (d)
		closedir(d);
}

int sl_admin_listen_tcp(const struct sl_config *cfg, struct sl_err *err)
{
	const int one = 1;
	struct sl_addr at = {.family = 4};
	struct sockaddr_storage ss;
	socklen_t len;
	int fd;

	(void)sl_addr_parse(&at, cfg->admin.address);
	at.port_be = htons(cfg->admin.port);
	len = sl_addr_to_sockaddr(&at, &ss);
	fd = socket(ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0) {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		if (ss.ss_family == AF_INET6)
			setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
		if (bind(fd, (struct sockaddr *)&ss, len) == 0 && listen(fd, BACKLOG) == 0)
			return fd;
	}
	sl_err_set(err,
		   "%s: admin endpoint at %s port %u: %s; choose another in admin { }, or "
		   "port = 0 for none",
		   cfg->file, cfg->admin.address, cfg->admin.port, strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}
