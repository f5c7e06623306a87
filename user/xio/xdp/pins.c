/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned maps: a directory per interface, locked by a living gateway. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include "xio/probe.h"
#include "xio/xdp/maps.h"

enum { LOCK_TRIES = 8 };

/* Refuses a directory that another user owns or can write to. */
static int check_owner(const char *path)
{
	struct stat st;

	if (lstat(path, &st) != 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	if ((st.st_uid && st.st_uid != geteuid()) || st.st_mode & (S_IWGRP | S_IWOTH))
		return -EPERM;
	return 0;
}

static int make_dir(const char *path)
{
	if (mkdir(path, 0700) == 0)
		return 0;
	return errno == EEXIST ? check_owner(path) : -errno;
}

static int lock_dir(const char *path)
{
	struct stat here, there;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), err;

	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) != 0)
		err = -errno;
	else if (fstat(fd, &here) == 0 && stat(path, &there) == 0 && here.st_ino == there.st_ino)
		return fd;
	else /* swept before flock */
		err = -ENOENT;
	close(fd);
	return err;
}

static int take_dir(struct sl_xdp *x, const char *root, const char *name)
{
	int err;

	snprintf(x->pin_dir, sizeof(x->pin_dir), "%s/%s", root, name);
	/* The BPF file system reserves dots. */
	for (char *c = x->pin_dir + strlen(root); *c; c++)
		*c = *c == '.' ? '_' : *c;
	for (int tries = 0; tries < LOCK_TRIES; tries++) {
		err = make_dir(x->pin_dir);
		if (err)
			return err;
		x->pin_lock_fd = lock_dir(x->pin_dir);
		if (x->pin_lock_fd >= 0)
			return 0;
		if (x->pin_lock_fd != -ENOENT)
			break;
	}
	err = x->pin_lock_fd;
	x->pin_lock_fd = -1;
	return err;
}

static int choose_dir(struct sl_xdp *x, const char *root)
{
	char name[64];
	struct stat st;
	int err = make_dir(root);

	if (err)
		snprintf(x->pin_dir, sizeof(x->pin_dir), "%s", root);
	else
		err = take_dir(x, root, x->ifname);
	if (err != -EWOULDBLOCK)
		return err;
	if (stat("/proc/thread-self/ns/net", &st) < 0)
		return -errno;
	snprintf(name, sizeof(name), "%s@%lu", x->ifname, (unsigned long)st.st_ino);
	return take_dir(x, root, name);
}

static void remove_pins(int dir_fd)
{
	for (uint32_t i = 0; i < SL_MAP_CNT; i++)
		unlinkat(dir_fd, sl_xdp_map_name(i), 0);
}

void sl_xdp_sweep_pins(const char *root)
{
	DIR *dir = check_owner(root ? root : SL_PIN_ROOT) == 0 ? opendir(root ? root : SL_PIN_ROOT)
							       : NULL;
	char path[PATH_MAX];
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		int fd;

		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", root ? root : SL_PIN_ROOT, e->d_name);
		fd = lock_dir(path);
		if (fd < 0)
			continue;
		remove_pins(fd);
		rmdir(path);
		close(fd);
	}
	if (dir)
		closedir(dir);
}

int sl_xdp_pin(struct sl_xdp *x, const char *root, struct sl_err *err)
{
	char path[192];
	bool foreign;
	int res = 0;

	if (root && !*root)
		return 0;
	if (!root) {
		root = SL_PIN_ROOT;
		res = sl_bpffs_mount();
		if (res)
			return sl_fail(err, res, "cannot mount a BPF file system on %s: %s",
				       SL_BPFFS, strerror(-res));
	}
	res = choose_dir(x, root);
	foreign = res == -EPERM;
	if (!res)
		remove_pins(x->pin_lock_fd); /* left by a dead gateway */
	for (uint32_t i = 0; i < SL_MAP_CNT && !res; i++) {
		snprintf(path, sizeof(path), "%s/%s", x->pin_dir, sl_xdp_map_name(i));
		if (bpf_obj_pin(x->map_fd[i], path) < 0)
			res = -errno;
	}
	if (res) {
		sl_err_set(err, "cannot pin the maps in %s: %s%s", x->pin_dir, strerror(-res),
			   foreign ? " (found a folder that another account owns or may write; "
				     "allowed: root's, mode 0700)"
				   : "");
		sl_xdp_unpin(x);
	}
	return res;
}

void sl_xdp_unpin(struct sl_xdp *x)
{
	if (x->pin_lock_fd < 0)
		return;
	remove_pins(x->pin_lock_fd);
	rmdir(x->pin_dir);
	close(x->pin_lock_fd);
	x->pin_lock_fd = -1;
	x->pin_dir[0] = '\0';
}
