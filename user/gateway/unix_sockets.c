/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <unistd.h>

#include "base/fnv.h"
#include "base/log.h"
#include "gateway/internal.h"
#include "sock/unix.h"

static int find_listener(const struct sl_config *cfg, const char *path)
{
	for (uint32_t i = 0; i < cfg->listener_cnt; i++) {
		const char *socket = cfg->listeners[i].socket;

		if (socket && strcmp(socket, path) == 0)
			return (int)i;
	}
	return -1;
}

static bool is_open(const struct sl_unix_sockets *u, const char *path)
{
	for (uint32_t i = 0; i < u->cnt; i++) {
		if (strcmp(u->list[i].path, path) == 0)
			return true;
	}
	return false;
}

/* Closes a socket, and removes its name first: after close() it may be another gateway's. */
static void close_socket(struct sl_unix_socket *s)
{
	if (unlink(s->path) != 0 && errno != ENOENT)
		sl_log_warn("%s: %s", s->path, strerror(errno));
	close(s->fd);
}

static int open_socket(struct sl_unix_sockets *u, const struct sl_config *cfg, uint32_t index)
{
	const struct sl_cfg_listener *l = &cfg->listeners[index];
	const struct passwd *pw = geteuid() == 0 && cfg->user[0] ? getpwnam(cfg->user) : NULL;
	const struct group *gr = l->group ? getgrnam(l->group) : NULL;
	gid_t gid = pw ? pw->pw_gid : (gid_t)-1;
	struct sl_unix_socket *s = &u->list[u->cnt];

	if (u->cnt == SL_UNIX_SOCKETS_MAX)
		return -E2BIG;
	if (l->group && !gr)
		return -EINVAL;
	s->fd = sl_sock_listen_unix(l->socket, pw ? pw->pw_uid : (uid_t)-1, gr ? gr->gr_gid : gid,
				    l->mode);
	if (s->fd < 0)
		return s->fd;
	snprintf(s->path, sizeof(s->path), "%s", l->socket);
	s->id = SL_UNIX_ID | u->next_id++;
	s->listener = (int32_t)index;
	u->cnt++;
	return 0;
}

int sl_unix_sockets_open(struct sl_unix_sockets *u, const struct sl_config *cfg, struct sl_err *err)
{
	const uint32_t before = u->cnt;

	for (uint32_t i = 0; i < cfg->listener_cnt; i++) {
		const struct sl_cfg_listener *l = &cfg->listeners[i];
		const struct sl_cfg_location at = sl_config_location(cfg, l->line);
		int rc = l->socket && !is_open(u, l->socket) ? open_socket(u, cfg, i) : 0;

		if (!rc)
			continue;
		while (u->cnt > before)
			close_socket(&u->list[--u->cnt]);
		return sl_fail(err, rc,
			       "%s:%d: found socket %s, which cannot be made: %s; allowed: a path "
			       "that no process has, in a folder that the account can write",
			       at.file, at.line, l->socket, strerror(-rc));
	}
	return 0;
}

bool sl_unix_sockets_follow(struct sl_unix_sockets *u, const struct sl_config *cfg,
			    const struct sl_config *next)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < u->cnt; i++) {
		struct sl_unix_socket *s = &u->list[i];
		bool later = next && find_listener(next, s->path) >= 0;

		s->listener = cfg ? find_listener(cfg, s->path) : -1;
		if (s->listener >= 0 || later)
			u->list[kept++] = *s;
		else
			close_socket(s);
	}
	u->cnt = kept;
	for (uint32_t i = 0; i < kept; i++) {
		bool serves = u->list[i].listener >= 0;

		u->changed |= serves != u->list[i].serves;
		u->list[i].serves = serves;
	}
	return u->changed;
}

uint64_t sl_unix_socket_name(const struct sl_unix_socket *s)
{
	return sl_fnv64(SL_FNV64, s->path, strlen(s->path));
}
