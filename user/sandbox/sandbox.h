/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the gateway's process can do to this host, should a packet take it over: little. README.md
 * of this room says why each wall stands where it does.
 *
 *   (all attached and opened, one thread) -> sl_sandbox_enter -> (threads start)
 *       -> sl_sandbox_thread, by each of them, and by the first one when all run
 */
#ifndef SL_SANDBOX_SANDBOX_H
#define SL_SANDBOX_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

/* What is done in a place of the file system; all below it. One that is not there is left out. */
enum sl_sandbox_use {
	SL_SANDBOX_READ,
	SL_SANDBOX_DEVICE,  /* read, write, ioctl */
	SL_SANDBOX_REMOVE,  /* files, sockets and folders in it */
	SL_SANDBOX_WRITE,   /* files, also new ones; nothing is read */
	SL_SANDBOX_SOCKETS, /* made and removed */
};

struct sl_sandbox_place {
	const char *path;
	enum sl_sandbox_use use;
};

struct sl_sandbox_options {
	uint64_t keep_caps; /* bit per CAP_* */
	const char *user;   /* "root": stays uid 0 */
	const struct sl_sandbox_place *places;
	size_t place_cnt;
	/* It writes to files other than standard output and error, or makes memory by memfd_create(). */
	bool writes_files;
};

/*
 * Limits, account, capabilities, no_new_privs, Landlock; compiles the filters of system calls. For
 * this thread and those that it will start: so before the first. 0, or -errno and one line in err.
 * What this kernel or build has not is said in the log.
 */
int sl_sandbox_enter(const struct sl_sandbox_options *opt, struct sl_err *err);

/* The later ones may what the earlier ones may, but the last two not what control may. */
enum sl_thread_kind {
	SL_THREAD_HANDSHAKE,
	SL_THREAD_WORKER,
	SL_THREAD_DIALER,
	SL_THREAD_CONTROL,
	SL_THREAD_AGENT,
	SL_THREAD_KEEPER, /* starts agents: may fork, and give them less than it may itself */
	SL_THREAD_KIND_CNT
};

/*
 * From now on this thread, and those that it starts, make the system calls of its kind only. Others
 * give EPERM, and the first of each is told by a line on stderr. Without sl_sandbox_enter(), as in
 * tests of other rooms, nothing happens.
 */
void sl_sandbox_thread(enum sl_thread_kind kind);

/*
 * Allows this process, within what it is allowed already, nothing but these places from now on. With
 * one thread. 0, or -errno and one line in err.
 */
int sl_sandbox_narrow(const struct sl_sandbox_place *places, size_t place_cnt, struct sl_err *err);

/*
 * What the C library's resolver reads. Files of /etc one by one: a file that takes the place of one
 * of them can only be read after the next sl_sandbox_narrow().
 */
enum { SL_SANDBOX_RESOLVER_CNT = 12, SL_SANDBOX_RESOLVER_FILES = 6 };
extern const struct sl_sandbox_place sl_sandbox_resolver[SL_SANDBOX_RESOLVER_CNT];

/* A folder's path for a place: that of a file, in which an editor may put another of that name. */
void sl_sandbox_folder(const char *file, char *folder, size_t len);

#endif
