/* SPDX-License-Identifier: Apache-2.0 */
#include "control/access_log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/access_line.h"

enum {
	BUFFER = 256 << 10,
	MODE = 0640,
};

struct sl_access_log {
	const char *path;
	int fd;
	struct stat st;
	struct sl_cfg_access_log cfg;
	double share; /* sum of sample rates; at 1 a line is written */
	bool stuck, homeless;
	struct sl_strbuf lines;
	size_t written;
	char buffer[BUFFER];
};

static int open_file(const char *path, int flags)
{
	struct stat st;
	int fd =
		open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | flags, MODE);

	if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))) {
		close(fd);
		errno = EINVAL;
		return -1;
	}
	return fd;
}

static int open_or_create(const char *path, bool *is_new)
{
	int fd = open_file(path, 0);

	*is_new = fd < 0 && errno == ENOENT;
	return *is_new ? open_file(path, O_CREAT | O_EXCL) : fd;
}

static void set_cfg(struct sl_access_log *l, const struct sl_cfg_access_log *cfg)
{
	l->cfg = *cfg;
	l->cfg.file = NULL;
}

struct sl_access_log *sl_access_log_open(const struct sl_config *cfg, struct sl_err *err)
{
	struct sl_access_log *l = calloc(1, sizeof(*l));
	const struct passwd *pw;
	bool is_new = false;

	if (!l) {
		sl_err_set(err, "access log: out of memory");
		return NULL;
	}
	sl_strbuf_fixed(&l->lines, l->buffer, sizeof(l->buffer));
	set_cfg(l, &cfg->access_log);
	l->fd = STDOUT_FILENO;
	if (strcmp(cfg->access_log.file, "-") == 0)
		return l;
	l->path = strdup(cfg->access_log.file);
	l->fd = l->path ? open_or_create(l->path, &is_new) : -1;
	if (l->fd < 0 || fstat(l->fd, &l->st) != 0) {
		sl_err_set(err, "access log: %s: %s", cfg->access_log.file,
			   errno == EINVAL ? "not a file" : strerror(errno));
		sl_access_log_close(l);
		return NULL;
	}
	pw = is_new ? getpwnam(cfg->user) : NULL;
	if (is_new && !(pw && fchown(l->fd, pw->pw_uid, pw->pw_gid) == 0))
		sl_log_warn("access log: %s is not user %s's: %s", l->path, cfg->user,
			    strerror(errno));
	return l;
}

static void log_stuck(struct sl_access_log *l, bool stuck, int why)
{
	if (stuck && !l->stuck)
		sl_log_err("access log: cannot be written: %s", strerror(why));
	else if (!stuck && l->stuck)
		sl_log_info("access log: is written again");
	l->stuck = stuck;
}

static void flush_lines(struct sl_access_log *l)
{
	while (l->written < l->lines.len) {
		struct pollfd p = {.fd = l->fd, .events = POLLOUT};
		size_t len = l->lines.len - l->written;
		ssize_t n;

		/* Pipes and terminals take at least PIPE_BUF bytes at once. */
		if (!l->path && (poll(&p, 1, 0) != 1 || !(p.revents & (POLLOUT | POLLERR))))
			return;
		if (!l->path && len > PIPE_BUF)
			len = PIPE_BUF;
		n = write(l->fd, l->lines.ptr + l->written, len);
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			log_stuck(l, true, errno);
		if (n <= 0)
			return;
		log_stuck(l, false, 0);
		l->written += (size_t)n;
	}
	sl_strbuf_reset(&l->lines);
	l->written = 0;
}

static bool is_wanted(struct sl_access_log *l, const struct sl_event *e)
{
	bool well = e->outcome == SL_OUTCOME_OK || e->outcome == SL_OUTCOME_FIXED;

	if (!well || sl_access_status(e) >= 400)
		return true;
	l->share += l->cfg.sample;
	if (l->share < 1)
		return false;
	l->share -= 1;
	return true;
}

bool sl_access_log_has_room(struct sl_access_log *l, unsigned cnt)
{
	size_t len = (size_t)cnt * SL_ACCESS_LINE_MAX;

	if (l->lines.cap - l->lines.len <= len)
		flush_lines(l);
	return l->lines.cap - l->lines.len > len;
}

void sl_access_log_put(struct sl_access_log *l, const struct sl_event *e, uint64_t unix_ns)
{
	if (is_wanted(l, e))
		sl_access_line(&l->lines, e, &l->cfg, unix_ns);
}

void sl_access_log_flush(struct sl_access_log *l)
{
	flush_lines(l);
}

void sl_access_log_reopen(struct sl_access_log *l)
{
	bool is_new;
	int fd;

	if (!l->path)
		return;
	flush_lines(l);
	fd = open_or_create(l->path, &is_new);
	if (fd < 0) {
		if (!l->homeless)
			sl_log_err("access log: %s cannot be opened again, the old file is "
				   "written on: %s",
				   l->path, errno == EINVAL ? "not a file" : strerror(errno));
		l->homeless = true;
		return;
	}
	l->homeless = false;
	close(l->fd);
	l->fd = fd;
	(void)fstat(fd, &l->st);
}

void sl_access_log_tick(struct sl_access_log *l, const struct sl_cfg_access_log *cfg)
{
	struct stat st;

	set_cfg(l, cfg);
	if (!l->path)
		return;
	if (lstat(l->path, &st) == 0 && st.st_dev == l->st.st_dev && st.st_ino == l->st.st_ino)
		return;
	sl_access_log_reopen(l);
}

void sl_access_log_close(struct sl_access_log *l)
{
	if (!l)
		return;
	if (l->path && l->fd >= 0) {
		flush_lines(l);
		close(l->fd);
	}
	free((void *)(uintptr_t)l->path);
	free(l);
}
