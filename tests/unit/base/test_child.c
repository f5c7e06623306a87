/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "suite.h"

static int door[2];
static volatile sig_atomic_t signals;

/* The child may end once its parent has been disturbed three times. */
static void disturb(int sig)
{
	(void)sig;
	if (++signals == 3)
		(void)!write(door[1], "", 1);
}

TEST(signals_do_not_end_the_wait_for_a_child)
{
	struct sigaction act = {.sa_handler = disturb}; /* without SA_RESTART */
	struct itimerval often = {{0, 1000}, {0, 1000}};
	int status = 0;
	char byte;
	pid_t pid;

	ck_assert_int_eq(pipe(door), 0);
	pid = fork();
	if (pid == 0)
		_exit(read(door[0], &byte, 1) == 1 ? 7 : 1);
	ck_assert_int_gt(pid, 0);
	ck_assert_int_eq(sigaction(SIGALRM, &act, NULL), 0);
	ck_assert_int_eq(setitimer(ITIMER_REAL, &often, NULL), 0);
	ck_assert(sl_child_wait(pid, &status));
	ck_assert_int_ge(signals, 3);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

TEST(wait_returns_for_a_process_that_is_no_child)
{
	int status = 42;

	ck_assert(!sl_child_wait(getpid(), &status));
	ck_assert_int_eq(errno, ECHILD);
	ck_assert_int_eq(status, 42);
}
