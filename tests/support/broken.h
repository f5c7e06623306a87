/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step that a check of our own is about (SL_ENSURE): in builds for use it is counted, left out, and the
 * process lives, which the test goes on to show; in debug builds it ends the process.
 */
#ifndef SL_TESTS_BROKEN_H
#define SL_TESTS_BROKEN_H

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"

static inline void ck_broken(void (*step)(void))
{
	uint64_t before = sl_checks_broken();
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC), status = 0;

	sl_log_fd_set(null);
#ifdef SL_DEBUG
	pid_t child = fork();

	if (!child) {
		step();
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	ck_assert_uint_eq(sl_checks_broken(), before);
#else
	step();
	ck_assert_int_eq(status, 0);
	ck_assert_uint_eq(sl_checks_broken(), before + 1);
#endif
	sl_log_fd_set(-1);
	close(null);
}

#endif
