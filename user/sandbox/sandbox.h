/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Restrictions of the gateway's process (reasons: README.md).
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

/* Allowed access below a path. Missing paths are skipped. */
enum sl_sandbox_use {
	SL_SANDBOX_READ,
	SL_SANDBOX_DEVICE,
	SL_SANDBOX_REMOVE,
	SL_SANDBOX_WRITE,   /* no reading */
	SL_SANDBOX_SOCKETS, /* create and remove sockets */
};

struct sl_sandbox_place {
	const char *path;
	enum sl_sandbox_use use;
};

struct sl_sandbox_options {
	uint64_t keep_caps; /* bit per CAP_* */
	const char *user;   /* "root": stays uid 0; "": the nameless account running it */
	const struct sl_sandbox_place *places;
	size_t place_cnt;
	/* besides stdout and stderr; or memfd_create() */
	bool writes_files;
	bool binds_ports; /* TCP, which Landlock denies otherwise */
};

/*
 * Sets limits, account, capabilities, no_new_privs and Landlock, and compiles the system call
 * filters. Applies to this thread and those that it starts. Returns 0 or -errno.
 */
int sl_sandbox_enter(const struct sl_sandbox_options *opt, struct sl_err *err);

/*
 * Each kind includes the rights of those above it, except that the last two lack those of control.
 */
enum sl_thread_kind {
	SL_THREAD_HANDSHAKE,
	SL_THREAD_WORKER,
	SL_THREAD_WORKER_OF_SERVERS, /* with via = stack */
	SL_THREAD_DIALER,
	SL_THREAD_CONTROL,
	SL_THREAD_AGENT,
	SL_THREAD_KEEPER, /* forks agents */
	SL_THREAD_KIND_CNT
};

/*
 * Restricts this thread, and those that it starts, to the system calls of its kind. Others return
 * EPERM, reported once on stderr. Does nothing without sl_sandbox_enter().
 */
void sl_sandbox_thread(enum sl_thread_kind kind);

/* Restricts paths further. Must be called with one thread. Returns like sl_sandbox_enter(). */
int sl_sandbox_narrow(const struct sl_sandbox_place *places, size_t place_cnt, struct sl_err *err);

/*
 * Files that the C library's resolver reads. A replaced file is readable only after the next
 * sl_sandbox_narrow().
 */
enum { SL_SANDBOX_RESOLVER_CNT = 12, SL_SANDBOX_RESOLVER_FILES = 6 };
extern const struct sl_sandbox_place sl_sandbox_resolver[SL_SANDBOX_RESOLVER_CNT];

/* Gets a file's folder, as a place, cut at `len`: editors replace files. */
void sl_sandbox_folder(const char *file, char *folder, size_t len);

#endif
