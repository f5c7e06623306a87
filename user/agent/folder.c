/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fnv.h"
#include "base/log.h"
#include "config/config.h"
#include "sandbox/sandbox.h"

enum { FOLDER_TRIES = 100, SWEEP_TRIES = 200, SWEEP_MS = 10, PARTS_MAX = 64 };
static const char folder_prefix[] = "agents-";

static int lock_folder(const char *folder)
{
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), saved;
	struct stat st;

	/* Another gateway may have removed the folder before the lock. */
	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &st) == 0 && st.st_nlink > 0)
		return fd;
	saved = errno;
	if (fd >= 0)
		close(fd);
	errno = saved;
	return -1;
}

int sl_agent_folder_make(struct sl_agent_folder *f, struct sl_err *err)
{
	int rc = sl_run_dir_make();

	*f = (struct sl_agent_folder){.lock = -1};
	if (rc)
		return sl_fail(err, -1, "agents: %s: %s", sl_run_dir(), strerror(-rc));
	for (int tries = 0; tries < FOLDER_TRIES && f->lock < 0; tries++) {
		snprintf(f->path, sizeof(f->path), "%s/%sXXXXXX", sl_run_dir(), folder_prefix);
		if (!mkdtemp(f->path))
			break;
		f->lock = lock_folder(f->path);
	}
	if (f->lock >= 0 && stat(sl_run_dir(), &f->run) == 0)
		return 0;
	return sl_fail(err, -1, "agents: %s: %s", f->path, strerror(errno));
}

void sl_agent_folder_restore(struct sl_agent_folder *f)
{
	struct stat st;
	int fd;

	if (fstat(f->lock, &st) != 0 || st.st_nlink > 0)
		return;
	/* Other accounts may depend on mode and owner. */
	if (mkdir(sl_run_dir(), f->run.st_mode & 07777) == 0 &&
	    chown(sl_run_dir(), f->run.st_uid, f->run.st_gid) != 0)
		sl_log_err("%s: %s", sl_run_dir(), strerror(errno));
	fd = mkdir(f->path, 0700) == 0 ? lock_folder(f->path) : -1;
	if (fd < 0 || fchown(fd, st.st_uid, st.st_gid) != 0) {
		SL_LOG_EVERY(60 * SL_NS_PER_SEC, SL_LOG_ERR,
			     "%s was removed, and cannot be made again: %s", f->path,
			     strerror(errno));
		if (fd >= 0) {
			(void)rmdir(f->path);
			close(fd);
		}
		return;
	}
	sl_log_warn("%s was removed: it is made again", f->path);
	close(f->lock);
	f->lock = fd;
}

static void empty_folder(int fd)
{
	int copy = dup(fd);
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *file;

	while (dir && (file = readdir(dir)))
		(void)unlinkat(fd, file->d_name, 0);
	if (dir)
		closedir(dir);
	else if (copy >= 0)
		close(copy);
}

void sl_agent_folder_remove(struct sl_agent_folder *f)
{
	for (int tries = 0; f->lock >= 0 && tries < SWEEP_TRIES; tries++) {
		empty_folder(f->lock);
		if (rmdir(f->path) == 0 || errno != ENOTEMPTY)
			break;
		(void)poll(NULL, 0, SWEEP_MS);
	}
	if (f->lock >= 0)
		close(f->lock);
	f->lock = -1;
}

void sl_agent_folder_sweep(void)
{
	DIR *run = opendir(sl_run_dir());
	struct dirent *e;
	int fd;

	while (run && (e = readdir(run))) {
		if (strncmp(e->d_name, folder_prefix, strlen(folder_prefix)) != 0)
			continue;
		fd = openat(dirfd(run), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) {
			empty_folder(fd);
			(void)unlinkat(dirfd(run), e->d_name, AT_REMOVEDIR);
		}
		if (fd >= 0)
			close(fd);
	}
	if (run)
		closedir(run);
}

static uint64_t hash_resolver(void)
{
	uint64_t hash = SL_FNV64;
	char text[4096];

	for (size_t i = 0; i < SL_SANDBOX_RESOLVER_FILES; i++) {
		int fd = open(sl_sandbox_resolver[i].path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		ssize_t n;

		for (int part = 0; fd >= 0 && part < PARTS_MAX; part++) {
			n = read(fd, text, sizeof(text));
			if (n <= 0)
				break;
			hash = sl_fnv64(hash, text, (size_t)n);
		}
		if (fd >= 0)
			close(fd);
		hash = sl_fnv64(hash, &(char){fd >= 0}, 1);
	}
	return hash;
}

struct agent_file_ids agent_file_ids_read(const char *folder)
{
	struct agent_file_ids now = {.resolver = hash_resolver()};
	struct stat st;

	if (stat(folder, &st) == 0) {
		now.dev = st.st_dev;
		now.ino = st.st_ino;
	}
	return now;
}
