/* SPDX-License-Identifier: Apache-2.0 */
/* supervise.c: exit statuses of a supervisor that is told to stop. */
#include <signal.h>
#include <unistd.h>

#include "sandbox/notify.h"
#include "sandbox/supervise.h"
#include "suite.h"

static void do_nothing(void *arg)
{
	(void)arg;
}

/* Serves, has the supervisor told to stop, and ends once it hears of that. */
static int end_when_told(void *status)
{
	sigset_t term;
	int sig;

	sl_notify(SL_NOTIFY_STARTED);
	kill(getppid(), SIGTERM);
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	if (sigwait(&term, &sig))
		return 1;
	return *(int *)status;
}

static int stop_with(int status)
{
	const struct sl_supervised s = {.run = end_when_told, .clean = do_nothing, .arg = &status};

	return sl_supervise(&s);
}

TEST(a_stop_is_orderly_although_the_gateway_wants_to_be_started_again)
{
	ck_assert_int_eq(stop_with(SL_SUPERVISE_AGAIN), 0);
}

TEST(other_statuses_are_passed_on)
{
	ck_assert_int_eq(stop_with(0), 0);
	ck_assert_int_eq(stop_with(3), 3);
}
